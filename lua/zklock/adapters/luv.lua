--- adapters.luv: waiting in a coroutine under libuv's loop.
--
-- Each client has a uv_poll handle that calls client:pump(). It is active while there is a waiter, a lock is held or a watch is
-- armed, and for a moment afterwards. It keeps `uv.run()` from returning only while there is a waiter, or a call without an
-- answer.
--
-- A coroutine may wait if no other code resumes it meanwhile. The adapter resumes it from the loop. If such a coroutine then
-- raises an error, this is an error in a callback of luv, which prints it and ends the process.
--
-- On the main thread, outside the loop, a wait runs the loop itself. Inside a callback, which is on the main thread too, the
-- answer is "phase", because the loop cannot be run from within.

local core = require "zklock.core"
local protect = require "zklock.protect"
local uv = require "luv"
local wait = require "zklock.wait"

local coroutine, error, next, pairs, setmetatable, tostring = coroutine, error, next, pairs, setmetatable, tostring
local traceback = debug.traceback
local ceil, max, min = math.ceil, math.max, math.min

local PCALL_YIELDS = protect.PCALL_YIELDS

--- Seconds after which Ctrl-C is noticed, in a wait that runs the loop.
local SLICE = 0.5

--- How long an unused handle may stay active, and the time between two steps of the collector, in milliseconds.
local IDLE = 500

--- From this many seconds on a wait needs no timer; libuv counts milliseconds.
local FOREVER = 1e9

local PHASE = "inside a callback of the libuv loop, outside of every coroutine, nothing can wait: call it in a coroutine"

local luv = { name = "luv" }

--- client -> `{ handle =, timer =, waiting = set of waiters }` while its handle is active. The handle refers to the client.
local pumps = setmetatable({}, { __mode = "k" })

--- Waiters to be resumed, in order, and the timer that resumes them.
local ready, kick = {}, nil

-- Waking --------------------------------------------------------------------------------------------------------------

local leave, run_ready

--- Whether a waiter's coroutine is suspended in its wait. On PUC Lua 5.1 an error may have ended the wait without a trace.
local function is_resumable(waiter)
    local thread = waiter.suspended and waiter.thread
    return thread and coroutine.status(thread) == "suspended" and (PCALL_YIELDS or core.stands_in(thread, waiter))
end

--- Whether a handle may still be used. A program may close all handles of its loop, by uv.walk.
local function is_open(handle)
    return handle ~= nil and not handle:is_closing()
end

local function schedule()
    kick = is_open(kick) and kick or uv.new_timer()
    if not kick:is_active() then
        kick:start(0, 0, run_ready)
    end
end

--- Resumes the waiters that were woken. If a coroutine raises, the remaining waiters are resumed next time. Of a coroutine that has
-- ended nothing is left that keeps the loop alive.
function run_ready()
    local woken, index = ready, 0
    ready = {}
    while woken[index + 1] do
        index = index + 1
        local waiter = woken[index]
        local thread = waiter.thread
        if is_resumable(waiter) then
            local ok, problem = coroutine.resume(thread)
            if not ok then
                for rest = index + 1, #woken do
                    ready[#ready + 1] = woken[rest]
                end
                schedule()
                error(traceback(thread, tostring(problem)), 0)
            end
        else
            leave(waiter)
        end
    end
end

function luv.wake(waiter)
    if waiter.woken == false then
        waiter.woken = true
        if waiter.thread then
            ready[#ready + 1] = waiter
            schedule()
        end
    end
end

-- Timers --------------------------------------------------------------------------------------------------------------

-- luv 1.44 crashes at the end of a process in which a handle is being closed and the loop has not run since. So timers are not
-- closed but kept for reuse, and other handles are closed only where the loop runs afterwards.

--- Timers that are not used now: `{ handle =, fire = what luv calls, fn = what `fire` calls }`.
local spare = {}

local function start_timer(milliseconds, again, fn)
    local timer
    repeat
        timer = spare[#spare]
        spare[#spare] = nil
    until not timer or is_open(timer.handle)
    if not timer then
        timer = { handle = assert(uv.new_timer()) }
        timer.fire = function()
            timer.fn()
        end
    end
    timer.fn = fn
    timer.handle:start(milliseconds, again, timer.fire)
    timer.handle:ref()
    return timer
end

local function stop_timer(timer)
    timer.fn = nil
    if is_open(timer.handle) then
        timer.handle:stop()
        spare[#spare + 1] = timer
    end
end

local function is_outside_of_coroutines()
    local thread, main = coroutine.running()
    return main or not thread
end

-- The pump ------------------------------------------------------------------------------------------------------------

local function stop(client)
    local pump = pumps[client]
    if pump then
        pumps[client] = nil
        pump.stopped = true
        if is_open(pump.handle) then
            pump.handle:stop()
            pump.handle:close()
        end
        stop_timer(pump.timer)
        if not uv.loop_mode() and is_outside_of_coroutines() then
            uv.run("nowait")
        end
    end
end

--- Makes the client's handle active, if it is not.
local function start(client)
    local pump = pumps[client]
    if pump and is_open(pump.handle) and is_open(pump.timer.handle) then
        return pump
    end
    local waiting, has_calls = pump and pump.waiting or {}, pump ~= nil and pump.has_calls
    stop(client)
    pump = { handle = assert(uv.new_poll(client:pollfd())), waiting = waiting, has_calls = has_calls, stopped = false }
    pumps[client] = pump
    pump.handle:start("r", function()
        client:pump()
    end)
    pump.timer = start_timer(IDLE, IDLE, function()
        client:pump() -- an error, or a forked process that ran the loop, may have kept the handle from it
        wait.collect(client)
        if next(pump.waiting) == nil and not client:needs_pump() then
            stop(client)
        end
    end)
    if next(waiting) == nil and not has_calls then
        pump.handle:unref()
    end
    pump.timer.handle:unref()
    return pump
end

--- Lets the loop end if it has nothing else to do than to wait for a client that nothing waits for.
local function let_end(pump)
    if next(pump.waiting) == nil and not pump.has_calls and not pump.stopped and is_open(pump.handle) then
        pump.handle:unref()
    end
end

function luv.calls(client, has_calls)
    local pump = has_calls and start(client) or pumps[client]
    if pump then
        pump.has_calls = has_calls
        if has_calls then
            pump.handle:ref()
        else
            let_end(pump)
        end
    end
end

-- Waiting -------------------------------------------------------------------------------------------------------------

--- Ends a suspension, for any reason.
function leave(waiter)
    if waiter.suspended then
        waiter.suspended, waiter.woken = false, nil -- a late notification of this wait wakes nothing
        local pump = waiter.pump
        pump.waiting[waiter] = nil
        let_end(pump)
        if waiter.timer then
            stop_timer(waiter.timer)
            waiter.timer = nil
        end
    end
end

--- See zklock.adapters for the contract of an adapter's functions.
function luv.wait(client, waiter, seconds)
    local outside = is_outside_of_coroutines()
    if outside and uv.loop_mode() then
        return nil, PHASE, "phase"
    end
    if not outside then
        protect.check_yieldable()
    end
    local pump = start(client)
    waiter.thread = not outside and coroutine.running() or nil
    waiter.pump, waiter.woken, waiter.suspended = pump, false, true
    pump.waiting[waiter] = true
    pump.handle:ref()
    if outside then
        seconds = min(seconds, SLICE)
    end
    if seconds < FOREVER then
        waiter.timer = start_timer(max(ceil(seconds * 1000), 0), 0, function()
            luv.wake(waiter)
        end)
    end
    if outside then
        repeat
            uv.run("once")
        until waiter.woken
    else
        coroutine.yield()
    end
    leave(waiter)
    return true
end

luv.forget = leave

luv.attend = start

function luv.detach(client)
    local pump = pumps[client]
    stop(client)
    for waiter in pairs(pump and pump.waiting or {}) do
        luv.wake(waiter)
    end
end

function luv.spawn(fn)
    coroutine.wrap(fn)()
end

return luv
