--- support.callbacks: a program without coroutines, which polls the descriptor of its client and pumps, and the answers that its
-- callbacks have got.

local compat = require "spec.support.compat"
local core = require "zklock.core"
local is_virtual = require "spec.support.is_virtual"

local callbacks = {}

--- Returns a list of answers, and a callback that appends to it what it is called with, and when: `{ n =, at =, … }`.
function callbacks.collect()
    local answers = {}
    return answers, function(...)
        local answer = compat.pack(...)
        answer.at = core.now()
        answers[#answers + 1] = answer
    end
end

--- Pumps a client each time that its descriptor is readable, until the condition holds. Never pumps without that. Raises if the
-- descriptor does not become readable for `limit` seconds (60).
function callbacks.run(client, condition, limit)
    while not condition() do
        if not core.poll(assert(client:pollfd()), limit or 60) then
            error(("nothing has happened for %g s"):format(limit or 60), 2)
        end
        client:pump()
    end
end

--- Runs until there are so many answers; returns the last one.
function callbacks.await(client, answers, count, limit)
    callbacks.run(client, function()
        return #answers >= count
    end, limit)
    assert(#answers == count, "more answers than expected")
    return answers[count]
end

--- Pumps for so long, whatever happens.
function callbacks.run_for(client, seconds)
    local deadline = core.now() + seconds
    while core.now() < deadline do
        core.poll(assert(client:pollfd()), deadline - core.now())
        client:pump()
    end
end

--- Pumps for a while in which nothing more is to come: for so long in virtual time, for a moment on real servers.
function callbacks.idle(client, seconds)
    callbacks.run_for(client, is_virtual and seconds or 0.1)
end

return callbacks
