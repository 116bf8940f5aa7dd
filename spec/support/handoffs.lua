--- support.handoffs: helpers of specs in which acquisitions of one client share nodes: a known order, and tokens.

local assert = require "luassert"
local loop = require "spec.support.loop"

local handoffs = {}

--- Within the loop: waits until a client has made so many acquisitions, so that they arrive in a known order.
function handoffs.until_claims(client, count)
    loop.until_true(function()
        return client:stats().acquisitions >= count
    end)
end

--- Returns a coroutine for each of `locks` that acquires it and appends its index to `order`. They acquire one after the other, and
-- none releases before all have requested.
function handoffs.contenders(locks, order, tokens)
    local functions = {}
    for index, lock in ipairs(locks) do
        functions[index] = function()
            assert(lock:acquire(20))
            handoffs.until_claims(lock._client, #locks)
            order[#order + 1] = index
            if tokens then
                tokens[#tokens + 1] = lock:token()
            end
            assert(lock:release())
        end
    end
    return functions
end

--- Fails unless each token is greater than the one before.
function handoffs.grow(tokens)
    for index = 2, #tokens do
        assert.is_true(tokens[index - 1] < tokens[index], tokens[index - 1] .. " and then " .. tokens[index])
    end
end

return handoffs
