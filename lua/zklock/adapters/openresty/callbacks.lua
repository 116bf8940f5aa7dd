--- adapters.openresty.callbacks: runs each callback of the program in a timer of its own, so that it may wait.
--
-- For zklock.adapters.openresty. nginx drops timers that are due while lua_max_running_timers run, and reports that only to the
-- error log. So a callback is kept until its timer begins. When another callback that has waited ends, nginx may have room for one
-- more, and the oldest callback that is kept gets a new timer. The ticker does the same, if no callback ends.

local ticker = require "zklock.adapters.openresty.ticker"

local ngx = ngx
local next, pcall = next, pcall
local timer_at = ngx.timer.at

--- How many callbacks get a new timer in one tick.
local MOST_AGAIN = 32

local callbacks = {}

--- Callbacks whose timers have not begun: number -> function, in the order of the numbers. The first that may be kept, and the
-- number given last.
local kept, first, last = {}, 1, 0

--- Gives a new timer to the oldest kept callback of those from number `from` to number `to`. If its first timer begins later, that
-- timer finds nothing to do.
-- @treturn number|nil the callback's number
local function start_next(from, to)
    for number = from, to do
        if kept[number] then
            pcall(timer_at, 0, callbacks.begin, number) -- if there is no timer left, the next tick tries again
            return number
        end
    end
    return nil
end

--- The timer handler.
function callbacks.begin(_, number)
    local fn = kept[number]
    if not fn then
        return
    end
    kept[number] = nil
    while first <= last and not kept[first] do
        first = first + 1
    end
    local turn, newest = ngx.now(), last
    fn()
    -- In the turn in which this timer began, the timers of other callbacks may still be to come.
    if ngx.now() > turn and start_next(first, newest) then
        ticker.attend()
    end
end

--- Runs a function in a timer; or immediately if nginx takes no more timers.
function callbacks.spawn(fn)
    last = last + 1
    kept[last] = fn
    local ok, started = pcall(timer_at, 0, callbacks.begin, last)
    if not (ok and started) then
        kept[last] = nil
        fn()
    end
end

--- The work of a tick: gives new timers to callbacks whose timers did not begin.
-- @treturn boolean whether there are callbacks whose timers have not begun
function callbacks.look_after()
    local number, count = start_next(first, last), 1
    while number and count < MOST_AGAIN do
        number, count = start_next(number + 1, last), count + 1
    end
    return next(kept) ~= nil
end

return callbacks
