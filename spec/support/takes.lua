--- support.takes: checks how long something takes, in real or virtual time.
--
-- In virtual time the time is asserted exactly, to two hundredths of a second. On real servers, whose machine may be busy, only the
-- minimum is asserted: a wait that ends by its own clock, which is this one, is never shorter, however slow the machine is.
--
--     takes(0.5, function() assert.equal("timeout", select(3, lock:acquire(0.5))) end)

local core = require "zklock.core"
local is_virtual = require "spec.support.is_virtual"

--- The virtual time that a program may take beyond a deadline, in seconds: for round trips, turns of threads, and the interval of
-- support.loop or support.eventually.
local TURNS = 0.02

--- `least`: the least time on real servers if it is shorter, because it is counted from an earlier event; in virtual time that is
-- earlier by turns of threads at most.
return function(seconds, fn, least)
    local began = core.now()
    fn()
    local took = core.now() - began
    least = is_virtual and (least and seconds - TURNS or seconds) or least or seconds
    if took < least - 1e-6 or is_virtual and took > seconds + TURNS then
        error(("took %g s, not %g s"):format(took, seconds), 2)
    end
end
