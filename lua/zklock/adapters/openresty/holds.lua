--- adapters.openresty.holds: holds end with the requests that have acquired them.
--
-- For zklock.adapters.openresty and its parts pump and draining. Each acquisition is in the scope of its request, which ends it
-- (zklock.adapters.openresty.requests). Two kinds of holds must end sooner. nginx reports neither, so the ticker looks for them:
--   * holds from before nginx redirected the request internally (ngx.exec, error_page);
--   * holds of with_lock in a coroutine that nginx has dropped (ngx.thread.kill; ngx.exit, while the answer is being sent).
-- Holds that were acquired with `keep = true` are left alone.

local Hold = require "zklock.lock.hold"
local running = require "zklock.adapters.openresty.requests"

local pairs = pairs
local running_thread = coroutine.running
local is_dropped_thread, is_over, place_of = running.is_dropped_thread, running.is_over, running.place_of

local holds = {}

-- `hold:caller()` (zklock.lock.caller) has weak references: `owner` is the request and `thread` the coroutine that have asked for
-- the lock, or were given the hold. `place` is added here when it is known: the coroutine's place as of running.place_of.

--- Notes which coroutine and request have asked for a lock: the acquisition ends with the request.
function holds.bind(hold)
    local request = hold:caller().owner
    if request and request.scope then
        request.scope:add(hold:acquisition())
    end
end

--- Makes a hold outlive its request.
function holds.keep(hold)
    local request = hold:caller().owner
    if request and request.scope then
        request.scope:remove(hold:acquisition())
    end
end

--- Notes that a hold belongs to with_lock: it ends with the running coroutine, if that coroutine has acquired it.
function holds.enclose(hold)
    local weak, thread = hold:caller(), running_thread()
    if weak and thread and weak.thread == thread and weak.place == nil then
        weak.place = place_of(thread)
    end
end

--- Whether the request, or the with_lock, that a hold belongs to has ended.
local function is_abandoned(hold)
    local weak = hold:caller()
    return not weak or is_over(weak.owner) or hold:is_enclosed() and is_dropped_thread(weak.owner, weak.thread, weak.place)
end

--- Gives back abandoned holds: those with `keep` only if `all`; those of timers also if their time of grace is over.
---@return boolean # whether something is still held
function holds.release_abandoned(client, all, grace_is_over)
    local abandoned, living = {}, false
    for _, hold in pairs(client:desk().observers) do
        if Hold.is_hold(hold) then
            local over = (all or not hold:is_kept()) and is_abandoned(hold)
                or grace_is_over and hold:caller().owner.phase == "timer"
            if over then
                abandoned[#abandoned + 1] = hold:acquisition()
            else
                living = true
            end
        end
    end
    for index = 1, #abandoned do
        abandoned[index]:cancel()
    end
    return living
end

return holds
