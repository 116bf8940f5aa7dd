--- support.coroutines: helpers of specs in which several coroutines use one lock object.

local assert = require "luassert"
local caller = require "zklock.lock.caller"

local coroutines = {}

--- Returns `count` functions for loop.run_all. Each calls `fn` with its number.
function coroutines.several(count, fn)
    local functions = {}
    for index = 1, count do
        functions[index] = function()
            fn(index)
        end
    end
    return functions
end

--- Returns the code in a call's results; nil if the call succeeded.
function coroutines.code_of(...)
    return (select(3, ...))
end

--- Resumes a new coroutine once. Returns it.
function coroutines.begin(fn)
    local thread = coroutine.create(fn)
    assert(coroutine.resume(thread))
    return thread
end

--- Whether a lock object has holds, or acquisitions under way.
function coroutines.is_used(lock)
    local _, holds = caller.each(lock)
    return next(holds) ~= nil
end

--- Checks that no coroutine has left anything in a lock object.
function coroutines.assert_unused(lock)
    assert.is_false(coroutines.is_used(lock))
    for hold in pairs(lock._client:desk().attempts) do
        assert.not_equal(lock, hold._lock)
    end
end

return coroutines
