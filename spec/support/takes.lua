--- support.takes: how long something takes, in the world's own time.
--
-- In virtual time that is asserted exactly, to two hundredths of a second. On real servers, whose machine may be busy, only that
-- it does not take less.
--
--     takes(0.5, function() assert.equal("timeout", select(3, lock:acquire(0.5))) end)

local core = require "zklock.core"
local is_virtual = require "spec.support.is_virtual"


--- A program may take so many virtual seconds beyond a deadline: for round trips, turns of threads, the interval of support.loop
-- or support.eventually.
local TURNS = 0.02

--- `least`: what it takes at least on real servers, if that is less, since it is counted from something before.
return function(seconds, fn, least)
    local began = core.now()
    fn()
    local took = core.now() - began
    least = is_virtual and seconds or least or seconds
    if took < least - 1e-6 or is_virtual and took > seconds + TURNS then
        error(("took %g s, not %g s"):format(took, seconds), 2)
    end
end
