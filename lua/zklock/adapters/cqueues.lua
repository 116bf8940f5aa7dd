--- adapters.cqueues: waiting in a coroutine of a cqueues controller.
--
-- A waiter polls a condition of its own. The client's fd is polled by one coroutine, the *pump*, of each controller in which
-- the client is used: it lives while somebody waits there, and while a lock is held or a watch is armed, so that
-- callbacks come when they are due. It does not keep `controller:loop()` from ending: with nobody waiting, it ends when
-- there is nothing left in the controller but pumps.
--
-- Outside of every controller there are no coroutines of cqueues that could run meanwhile: a wait there blocks.

local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local core = require "zklock.core"
local protect = require "zklock.protect"
local wait = require "zklock.wait"

local huge, min = math.huge, math.min
local next, pairs, setmetatable = next, pairs, setmetatable
local now = core.now

local WEAK_KEYS = { __mode = "k" }

--- Seconds after which Ctrl-C is noticed, in a wait outside of every controller.
local SLICE = 0.5

--- How often a pump for which nobody waits looks whether anything but pumps is left, in seconds.
local IDLE = 0.25

--- Seconds between two steps of the collector.
local COLLECT = 0.5

local adapter = { name = "cqueues" }

--- client -> controller -> its pump: `{ waiting = set of waiters, wake = condition }`.
local pumps = setmetatable({}, WEAK_KEYS)

--- controller -> how many pumps are in it.
local pump_counts = setmetatable({}, WEAK_KEYS)

--- Whether a pump is to go on.
local function is_needed(client, controller, pump)
    if pump.stopped or not client:needs_pump() then
        return false
    end
    return next(pump.waiting) ~= nil or controller:count() > pump_counts[controller]
end

--- What the pump's coroutine runs. Holds the client: its fd must not be closed while it is polled.
local function run(client, controller, pump)
    local fd = client:pollfd()
    local readable = { pollfd = fd, events = "r" }
    local due = now() + COLLECT
    while fd and is_needed(client, controller, pump) do
        cqueues.poll(readable, pump.wake, next(pump.waiting) and COLLECT or IDLE)
        client:pump()
        if now() >= due then
            wait.collect(client)
            due = now() + COLLECT
        end
    end
    if fd then
        cqueues.cancel(fd) -- or cqueues would take the next descriptor of this number for one that it polls already
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

--- See zklock.adapters for what an adapter's functions promise.
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
            pump.wake:signal() -- it may be needed no more
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
