--- adapters.openresty.callbacks: runs each callback of the program in a timer, so that it may wait.
--
-- For zklock.adapters.openresty and its part draining. nginx drops timers that are due while lua_max_running_timers run, and
-- reports that only to the error log. So a timer is no more than the permission to run one callback: the one that is kept longest.
-- Callbacks begin in the order in which they were spawned, each once. If timers were dropped, callbacks are left: when a callback
-- that has waited ends, nginx may have room for one more timer, which then starts. If no callback ends, the ticker starts it.

local running = require "zklock.adapters.openresty.requests"
local ticker = require "zklock.adapters.openresty.ticker"
local wait = require "zklock.wait"

local ngx = ngx
local min, next, pairs, pcall = math.min, next, pairs, pcall
local timer_at = ngx.timer.at

--- How many timers start in one tick, at most.
local MOST_AGAIN = 32

local callbacks = {}

--- The callbacks that have not begun, in their order: number -> function.
local kept, first, last = {}, 1, 0

--- Runs the callback that is kept longest, if there is one.
local function run_first()
    if first <= last then
        local fn = kept[first]
        kept[first] = nil
        first = first + 1
        fn()
    end
end

local run_in_timer

--- Starts a timer for one callback. `again`: for a callback whose timer may have been dropped.
---@return boolean # whether it has started
local function start_timer(again)
    local ok, started = pcall(timer_at, 0, run_in_timer, again)
    return ok and started ~= nil and started ~= false
end

--- The timer handler.
function run_in_timer(_, again)
    local turn = ngx.now()
    run_first()
    -- In the turn in which this timer has begun, timers of other callbacks may still be to come.
    if first <= last and (again or ngx.now() > turn) then
        start_timer(true)
        ticker.attend()
    end
end

--- Runs a function in a timer, after those that were given before. If nginx takes no more timers, runs the first of them here.
function callbacks.spawn(fn)
    last = last + 1
    kept[last] = fn
    if not start_timer(false) then
        wait.call_back(run_first)
    end
end

--- Guarded code that runs: a unique table -> the timer handler, or request, that runs it.
local guarded = {}

--- Makes fn(argument) be called if the running handler ends (ngx.exit) before the function that this returns is called. Both must
-- not refer to variables of a running function: nginx clears the coroutine.
function callbacks.guard(fn, argument)
    local guard = { fn = fn, argument = argument }
    guarded[guard] = running.request()
    ticker.attend()
    return function()
        guarded[guard] = nil
    end
end

--- Calls the functions of guards whose handlers have ended.
local function look_after_guarded()
    local broken = {}
    for guard, request in pairs(guarded) do
        if running.is_over(request) then
            broken[#broken + 1] = guard
        end
    end
    for index = 1, #broken do
        guarded[broken[index]] = nil
        broken[index].fn(broken[index].argument)
    end
end

--- The work of a tick: ends what was broken off, and starts timers for the callbacks that have not begun.
---@return boolean # whether there are any, or guarded code runs
function callbacks.look_after()
    look_after_guarded()
    for _ = 1, min(MOST_AGAIN, last - first + 1) do
        start_timer(true)
    end
    return first <= last or next(guarded) ~= nil
end

return callbacks
