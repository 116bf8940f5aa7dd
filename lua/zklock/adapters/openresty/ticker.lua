--- adapters.openresty.ticker: periodic work: one timer a second for all clients of the worker.
--
-- For zklock.adapters.openresty, which says what the work is, and its part pump, which needs the ticker. The ticker goes on as
-- long as there is work. When the worker is about to exit, nginx runs the timer early, at once.

local ngx = ngx
local collectgarbage = collectgarbage
local huge = math.huge
local exiting, timer_at = ngx.worker.exiting, ngx.timer.at

--- Seconds between two ticks.
local TICK = 1

--- Seconds after which a timer that has not begun is given up: nginx drops timers that are due while lua_max_running_timers run,
-- or when it is out of connections.
local OVERDUE = 2

--- Kilobytes to collect in each tick. On an idle worker nothing else collects the objects that killed coroutines leave.
local COLLECT = 100

local ticker = { OVERDUE = OVERDUE }

--- When the next tick is due, or nil; and the number of that timer, among all timers of the ticker.
local tick_due, tick_number = nil, 0

--- What a tick does, and what the last one does when the worker exits. See ticker.serve.
local work, drain

local start_ticker

--- Whether a tick is due that has not been given up.
local function is_ticking()
    return tick_due ~= nil and ngx.now() - tick_due <= OVERDUE
end

--- The timer handler. `number` is the number of the timer that this handler belongs to.
local function tick(_, number)
    if number ~= tick_number then
        return -- it was given up, and is late
    elseif exiting() then
        tick_due = huge
        drain()
        tick_due = nil
        return
    end
    tick_due = nil
    local goes_on = work(ngx.now())
    collectgarbage("step", COLLECT)
    if goes_on then
        start_ticker()
    end
end

function start_ticker()
    local seconds = exiting() and 0 or TICK
    tick_due, tick_number = ngx.now() + seconds, tick_number + 1
    local started = timer_at(seconds, tick, tick_number)
    if not started then
        tick_due = nil -- the next wait tries again
    end
end

--- Makes sure that the ticker runs.
function ticker.attend()
    if not is_ticking() then
        start_ticker()
    end
end

--- Says what the ticker does, before it runs for the first time.
---@param on_tick function called with nginx's time; returns whether the ticker must go on
---@param on_exit function called instead when the worker exits; may sleep
function ticker.serve(on_tick, on_exit)
    work, drain = on_tick, on_exit
end

return ticker
