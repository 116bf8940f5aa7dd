--- adapters.copas: waiting in a coroutine of copas, LuaSocket's scheduler. Works with any version: Debian's is from 2010, which
-- has no timers and whose loop never ends.
--
-- Copas waits for objects that have the methods of a socket. A waiter imitates a socket. It is *dirty*, which means that it has
-- something to read, when it was woken or its time is up. Its descriptor is that of a timer. All waiters share this timer,
-- which ends the select of copas when the next waiter is due. Each client has a further coroutine, the *pump*, which waits for
-- the client's fd. The pump runs while there is a waiter, a lock is held, or a watch is armed. `copas.loop()` runs as long as
-- the pump, in versions whose loop ends at all.
--
-- On the main thread, outside copas, a wait runs copas.step itself. Elsewhere it must be called in a coroutine of copas
-- (copas.addthread, or a handler of copas.addserver).

local copas = require "copas"
local core = require "zklock.core"
local protect = require "zklock.protect"
local wait = require "zklock.wait"

local coroutine, error, pairs, pcall, setmetatable = coroutine, error, pairs, pcall, setmetatable
local huge, max, min = math.huge, math.max, math.min
local now = core.now

local WEAK_KEYS = { __mode = "k" }

--- Seconds after which Ctrl-C is noticed, in a wait that runs copas itself.
local SLICE = 0.5

--- Seconds after which a waiter runs again in any case. Only then copas drops its reference to a coroutine that
-- copas.removethread ended. The collector, which finds that coroutine then, runs a step each time.
local ROUND = 5

local PHASE = "inside of copas, but outside of every coroutine, nothing can wait: use copas.addthread"

local adapter = { name = "copas" }

-- Time ----------------------------------------------------------------------------------------------------------------

--- Readable when the earliest waiter in `timed` is due, at `alarm_due`.
local alarm, alarm_due, timed = nil, huge, setmetatable({}, WEAK_KEYS)

local function set_alarm(due)
    if due < alarm_due then
        alarm_due = due
        alarm:set(max(due - now(), 0))
    end
end

--- After the alarm: sets it for the next waiter. The waiters that are due are dirty and need no alarm any more.
local function renew_alarm()
    local time, earliest = now(), huge
    if alarm_due > time then
        return
    end
    for waiter in pairs(timed) do
        if waiter.due <= time then
            timed[waiter] = nil
        else
            earliest = min(earliest, waiter.due)
        end
    end
    alarm_due = earliest
    alarm:set(earliest < huge and max(earliest - time, 0) or huge)
end

-- The sockets of copas -------------------------------------------------------------------------------------------------

local Waiter = {}
Waiter.__index = Waiter

function Waiter:getfd()
    return self.alarm:fd()
end

function Waiter:dirty()
    return self.woken or self.due <= now()
end

function Waiter:receive()
    renew_alarm()
    if self:dirty() then
        return true
    end
    return nil, "timeout"
end

--- Old copas closes, after a coroutine's end, the object that it waited for last.
function Waiter.close()
end

local Pump = {}
Pump.__index = Pump

--- client -> its pump, while the pump runs.
local pumps = setmetatable({}, WEAK_KEYS)

function Pump:getfd()
    return self.fd
end

local function is_over(pump)
    return pump.stopped or not pump.client:needs_pump()
end

function Pump:dirty()
    return is_over(self) or wait.is_sweep_due(self.client) or self.client:desk().missed
end

--- Lets copas wait once.
function Pump:receive()
    self.asked = not self.asked
    if self.asked then
        return nil, "timeout"
    end
    return true
end

Pump.close = Waiter.close

local run

local function spawn(pump)
    copas.addthread(function()
        run(pump)
    end)
end

--- The body of the pump's coroutine. After an error (Ctrl-C) another coroutine goes on.
function run(pump)
    while not is_over(pump) do
        copas.receive(pump)
        local ok, problem = pcall(pump.client.pump, pump.client)
        if not ok then
            spawn(pump)
            error(problem, 0)
        end
    end
    pumps[pump.client] = nil
end

local function start(client)
    if not pumps[client] then
        local pump = setmetatable({ client = client, fd = client:pollfd(), asked = false, stopped = false }, Pump)
        pumps[client] = pump
        spawn(pump)
    end
end

-- Waiting -------------------------------------------------------------------------------------------------------------

--- See zklock.adapters for the contract of an adapter's functions.
function adapter.wait(client, waiter, seconds)
    local thread, main = coroutine.running()
    local outside = main or not thread
    if outside and copas.running then
        return nil, PHASE, "phase"
    end
    if not outside then
        protect.check_yieldable()
    end
    alarm = alarm or core.alarm()
    setmetatable(waiter, Waiter)
    waiter.alarm, waiter.woken, waiter.due = alarm, false, now() + min(seconds, outside and SLICE or ROUND)
    start(client)
    if outside then
        repeat
            copas.step(max(waiter.due - now(), 0))
        until waiter:dirty()
        return true
    end
    timed[waiter] = true
    set_alarm(waiter.due)
    copas.receive(waiter)
    adapter.forget(waiter)
    if not waiter.woken then
        wait.collect(client)
    end
    return true
end

function adapter.forget(waiter)
    timed[waiter] = nil
    renew_alarm()
end

adapter.attend = start

function adapter.wake(waiter)
    waiter.woken = true
end

function adapter.detach(client)
    local pump = pumps[client]
    if pump then
        pump.stopped = true
        pumps[client] = nil
    end
end

function adapter.spawn(fn)
    copas.addthread(fn)
end

return adapter
