--- adapters.blocking: waiting in a plain Lua program, by poll(2) on the client's fd.
--
-- Blocks the whole Lua state, so there is never more than one waiter and nobody to wake. Waits in slices: a signal that
-- arrives just before poll(2) is entered does not interrupt it, and must not go unnoticed for longer than a slice.

local core = require "zklock.core"

local min = math.min
local poll = core.poll

--- Seconds of one poll: how late Ctrl-C may be in the worst case.
local SLICE = 0.5

local blocking = { name = "blocking", yields = false }

--- See zklock.adapters for what an adapter's functions promise.
function blocking.wait(client, _, seconds)
    poll(client:pollfd(), min(seconds, SLICE))
    return true
end

function blocking.wake()
end

return blocking
