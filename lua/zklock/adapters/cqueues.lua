--- adapters.cqueues: waiting in a coroutine of a cqueues controller.
--
-- Each waiter polls a separate condition. In each controller in which the client is used, a coroutine, the *pump*, polls the
-- client's fd. It runs while there is a waiter in that controller, and while a lock is held or a watch is armed, so that
-- callbacks are called in time. It keeps `controller:loop()` from ending only while a call has no answer. Without waiters and
-- calls, the pump ends when only pumps are left in the controller.
--
-- Outside every controller no coroutine of cqueues could run meanwhile: a wait there blocks.

local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local core = require "zklock.core"
local protect = require "zklock.protect"
local wait = require "zklock.wait"

local huge, min = math.huge, math.min
local error, next, pairs, pcall, setmetatable = error, next, pairs, pcall, setmetatable
local now = core.now

local WEAK_KEYS = { __mode = "k" }

--- Seconds after which Ctrl-C is noticed, in a wait outside every controller.
local SLICE = 0.5

--- How often a pump without waiters checks whether anything but pumps is left, in seconds.
local IDLE = 0.25

--- Seconds between two steps of the collector.
local COLLECT = 0.5

local adapter = { name = "cqueues" }

--- client -> controller -> its pump: `{ waiting = set of waiters, wake = condition }`.
local pumps = setmetatable({}, WEAK_KEYS)

--- controller -> how many pumps are in it.
local pump_counts = setmetatable({}, WEAK_KEYS)

--- Whether a pump must go on.
local function is_needed(client, controller, pump)
    if pump.stopped or not client:needs_pump() then
        return false
    end
    return next(pump.waiting) ~= nil or next(client:desk().calls) ~= nil or controller:count() > pump_counts[controller]
end

--- The body of the pump's coroutine. Refers to the client, because its fd must not be closed while it is polled. After an error
-- (Ctrl-C) another coroutine goes on, `at_once`.
local function run(client, controller, pump, at_once)
    local fd = client:pollfd()
    local readable = { pollfd = fd, events = "r" }
    local due = now() + COLLECT
    while fd and is_needed(client, controller, pump) do
        cqueues.poll(readable, pump.wake, at_once and 0 or next(pump.waiting) and COLLECT or IDLE)
        at_once = false
        local ok, problem = pcall(client.pump, client)
        if not ok then
            controller:wrap(run, client, controller, pump, true)
            error(problem, 0)
        end
        if now() >= due then
            wait.collect(client)
            due = now() + COLLECT
        end
    end
    if fd then
        -- Otherwise cqueues would confuse the next descriptor of this number with the one that it polls already.
        cqueues.cancel(fd)
    end
    pump_counts[controller] = pump_counts[controller] - 1
    if pumps[client] and pumps[client][controller] == pump then
        pumps[client][controller] = nil
    end
end

--- The pump of a client in the running controller; starts it if there is none.
local function pump_of(client, controller)
    local by_controller = pumps[client]
    if not by_controller then
        by_controller = setmetatable({}, WEAK_KEYS)
        pumps[client] = by_controller
    end
    local pump = by_controller[controller]
    if not pump then
        pump = { waiting = setmetatable({}, WEAK_KEYS), wake = condition.new(), stopped = false }
        by_controller[controller] = pump
        pump_counts[controller] = (pump_counts[controller] or 0) + 1
        controller:wrap(run, client, controller, pump)
    end
    return pump
end

--- See zklock.adapters for the contract of an adapter's functions.
function adapter.wait(client, waiter, seconds)
    local controller = cqueues.running()
    if not controller then
        core.poll(client:pollfd(), min(seconds, SLICE))
        return true
    end
    protect.check_yieldable()
    local pump = pump_of(client, controller)
    waiter.changed, waiter.pump = waiter.changed or condition.new(), pump
    pump.waiting[waiter] = true
    if seconds < huge then
        cqueues.poll(waiter.changed, seconds)
    else
        cqueues.poll(waiter.changed)
    end
    adapter.forget(waiter)
    return true
end

function adapter.forget(waiter)
    local pump = waiter.pump
    if pump and pump.waiting[waiter] then
        pump.waiting[waiter] = nil
        if next(pump.waiting) == nil then
            pump.wake:signal() -- the pump may not be needed any more
        end
    end
end

function adapter.attend(client)
    local controller = cqueues.running()
    if controller then
        pump_of(client, controller)
    end
end

function adapter.wake(waiter)
    if waiter.changed then
        waiter.changed:signal()
    end
end

function adapter.detach(client)
    for _, pump in pairs(pumps[client] or {}) do
        pump.stopped = true
        pump.wake:signal()
        for waiter in pairs(pump.waiting) do
            waiter.changed:signal()
        end
    end
    pumps[client] = nil
end

function adapter.spawn(fn)
    local controller = cqueues.running()
    if controller then
        controller:wrap(fn)
    else
        fn()
    end
end

return adapter
