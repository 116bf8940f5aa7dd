--- adapters.blocking: waiting in a plain Lua program, which has nothing else to do meanwhile.
--
-- Blocks the whole Lua state, so there is never more than one waiter and nobody to wake. The C side does the waiting, and with it
-- the client's own work (csrc/helm.c). Waits in slices: a signal that arrives just before it sleeps does not interrupt it, and
-- must not go unnoticed for longer than a slice.

local min = math.min

--- Seconds of one sleep: how late Ctrl-C may be in the worst case.
local SLICE = 0.5

local blocking = { name = "blocking", yields = false, alone = true }

--- See zklock.adapters for what an adapter's functions promise.
function blocking.wait(client, _, seconds)
    client._core:wait(min(seconds, SLICE))
    return true
end

function blocking.patience()
    return SLICE
end

function blocking.wake()
end

return blocking
