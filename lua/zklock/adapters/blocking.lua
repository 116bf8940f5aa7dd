--- adapters.blocking: waiting in a plain Lua program, which has nothing else to do meanwhile.
--
-- Blocks the whole Lua state, so there is never more than one waiter, and no waiter to wake. The C side waits, and meanwhile
-- does the client's work (csrc/client/poll_owner.c). Waits in slices: a signal that arrives just before the sleep does not
-- interrupt the sleep, and must not go unnoticed for longer than a slice.

local min = math.min

--- Seconds of one sleep: the longest delay of Ctrl-C.
local SLICE = 0.5

local blocking = { name = "blocking", yields = false, alone = true }

--- See zklock.adapters for the contract of an adapter's functions.
function blocking.wait(client, _, seconds)
    client:desk().core:wait(min(seconds, SLICE))
    return true
end

function blocking.may_block_for()
    return SLICE
end

function blocking.wake()
end

return blocking
