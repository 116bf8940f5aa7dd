--- support.hold_of: the hold of a lock object, whatever coroutine has acquired it.
--
-- For specs that look at a lock from another coroutine than the one that holds it, which the lock's own methods do not show:
-- hold_of(lock):held(). Returns the only hold, or one that was never granted if there is none.

local caller = require "zklock.lock.caller"
local Hold = require "zklock.lock.hold"

return function(lock)
    local found
    for hold in caller.each(lock) do
        if hold._state then
            assert(not found or not (found:held() and hold:held()), "several coroutines hold by this object")
            found = found and found:held() and found or hold
        end
    end
    return found or Hold.new(lock, false)
end
