--- adapters.openresty: waiting inside nginx, where only the request that waits is suspended.
--
-- Every client has a *pump*: a timer handler that reads the client's unix stream socket through a cosocket, calls
-- client:pump(), and so posts the semaphores on which requests wait. A cosocket belongs to the handler that made it, but a
-- semaphore may cross requests. The pump sleeps until the client rings; it has no read timeout that could pass, since nginx
-- logs each of those as an error. What is to be done now and then is the *ticker's*: one timer a second for all clients of
-- the worker, which nginx runs early, and at once, when the worker is to exit.
--
-- A coroutine may be killed while it waits: its request is aborted, or ngx.thread.kill ends it. nginx tells nobody, but takes
-- it off its semaphore. A waiter that waits and is not on its semaphore is therefore dead, and what it waited for is given up: by
-- the ticker, or at once when the lock is granted to it.
--
-- When the worker exits, requests that hold or wait for locks are let finish, as nginx lets requests finish. What is held by
-- nobody alive passes on at once, what timers hold or wait for after a moment. A request lives as long as its ngx.ctx.
--
-- Nothing here refers to a client strongly but while it runs: a client that the program forgets is collected. A pump whose
-- client is not in use goes to sleep, since a timer keeps its Lua VM alive: with lua_code_cache off each request has one.

local core = require "zklock.core"
local semaphore = require "ngx.semaphore"
local wait = require "zklock.wait"

local ngx = ngx
local collectgarbage, next, pairs, pcall, setmetatable = collectgarbage, next, pairs, pcall, setmetatable
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local exiting, get_phase, timer_at = ngx.worker.exiting, ngx.get_phase, ngx.timer.at
local new_semaphore = semaphore.new

--- Seconds between two ticks.
local TICK = 1

--- Seconds after which a pump gets a new timer: the memory pool of one that runs only grows.
local PUMP_LIFETIME = 60

--- Seconds without use after which a pump goes to sleep.
local IDLE = 5

--- One semaphore wait, in seconds: so late a waiter sees, at worst, that its pump is none. And what is not rounded to nothing.
local LONGEST_WAIT, SHORTEST_WAIT = 5, 0.001

--- Seconds after which a timer that has not begun is given up: nginx drops those that come due while lua_max_running_timers run, or
-- when it is out of connections.
local OVERDUE = 2

--- One wait where there can be no pump, in seconds: then the waiters look themselves.
local WAIT_WITHOUT_PUMP = 0.05

--- Milliseconds of a read: never, within the life of a pump.
local NO_READ_TIMEOUT = 86400000
local CONNECT_TIMEOUT = 5000

--- When the worker exits: seconds that timers get to let go, and between two looks at whether requests still need a client.
local TIMER_GRACE, DRAIN_STEP = 1, 0.02

--- Kilobytes' worth of collection in each tick: on an idle worker nothing else collects what killed coroutines leave.
local COLLECT = 100

--- Where a coroutine can be suspended, by an nginx without OpenResty's patches too: it breaks the handshake off when
-- ssl_client_hello_by_lua* or ssl_session_fetch_by_lua* wait.
local YIELDING = {
    rewrite = true, server_rewrite = true, access = true, content = true, timer = true, preread = true, ssl_cert = true
}

local WEAK_KEYS, WEAK_VALUES = { __mode = "k" }, { __mode = "v" }

local openresty = { name = "openresty" }

--- client -> its pump.
local pumps = setmetatable({}, WEAK_KEYS)

--- When the next tick is due, or nil; and which timer that is, of all that there were.
local tick_due, tick_number = nil, 0

-- Waiters -------------------------------------------------------------------------------------------------------------

--- Whether a waiter's coroutine was killed. A living one counts -1 on its semaphore, and 0 from the post until it runs.
local function is_dead(waiter)
    return waiter.waiting and waiter.semaphore:count() >= (waiter.posted and 1 or 0)
end

--- Gives up what killed coroutines have waited for.
local function sweep(client)
    local dead = {}
    for waiter in pairs(client._registry.everybody) do
        if is_dead(waiter) then
            dead[#dead + 1] = waiter
        end
    end
    for index = 1, #dead do
        wait.forsake(client, dead[index])
    end
end

-- The pump ------------------------------------------------------------------------------------------------------------

local start_pump, start_ticker, is_ticking

--- Whether a client's session is over, or is another process's.
local function is_over(client)
    local state = client._core:state()
    return state == nil or state == "closed"
end

--- One turn: passes on the client's news. False when there is nothing more to do for this handler.
local function turn(pump)
    local client = pump.weak.client
    if not client or pump.stop then
        return false
    end
    client:pump()
    return not is_over(client)
end

--- Connects to the client's doorbell.
local function connect(pump)
    local client = pump.weak.client
    if not client or is_over(client) then
        return nil
    end
    local path, problem = client._core:listen()
    if not path then
        return nil, not is_over(client) and problem or nil
    end
    local socket = ngx.socket.tcp()
    socket:settimeouts(CONNECT_TIMEOUT, CONNECT_TIMEOUT, NO_READ_TIMEOUT)
    local connected
    connected, problem = socket:connect("unix:" .. path)
    if client._core:accept() and connected then
        return socket
    end
    socket:close()
    if is_over(client) then
        return nil -- closed meanwhile, and its doorbell is gone
    end
    return nil, problem or "no connection"
end

--- Reads and pumps until the pump is to stop.
local function read_and_pump(pump)
    local socket, problem = connect(pump)
    if not socket then
        pump.broken = problem ~= nil
        if problem then
            ngx.log(ngx.ERR, "zklock: the pump cannot reach its client: ", problem)
        end
        return
    end
    pump.broken = false
    while turn(pump) do
        if not socket:receiveany(1024) then
            break
        end
    end
    socket:close()
end

--- The timer handler; `number` says of which start of the pump.
local function run_pump(_, pump, number)
    if pump.number ~= number then
        return -- it was given up, and is late
    end
    pump.begun = true
    local ok, problem = pcall(read_and_pump, pump)
    pump.running = false
    if not ok then
        ngx.log(ngx.ERR, "zklock: the pump failed: ", problem)
    end
    local client = pump.weak.client
    if client and (not ok or pump.broken) then
        wait.wake_everybody(client) -- who have to look themselves
    elseif client and not pump.asleep and not is_over(client) then
        start_pump(client, pump)
    end
end

function start_pump(client, pump)
    pump.running, pump.begun, pump.stop, pump.asleep = true, false, false, false
    pump.since, pump.used = ngx.now(), ngx.now()
    pump.number = pump.number + 1
    local started, problem = timer_at(0, run_pump, pump, pump.number)
    if not started then
        pump.running, pump.broken = false, true
        ngx.log(ngx.WARN, "zklock: no timer for the pump: ", problem)
    end
    if not is_ticking() then
        start_ticker()
    end
    return client
end

--- Whether nginx has dropped the timer that a pump was to run in.
local function is_dropped(pump)
    return pump.running and not pump.begun and ngx.now() - pump.since > OVERDUE
end

--- Has the handler of a pump end: for a new one to begin, or, `asleep`, until there is use for it.
local function stop_pump(client, pump, asleep)
    pump.stop, pump.asleep = true, asleep
    client._core:ring()
end

--- Whether every request has a Lua VM of its own: lua_code_cache is off. Otherwise a worker has one, or two if there are
-- streams as well as HTTP.
local function is_vm_passing()
    return core.openings() > 2
end

--- Gives back what is held by requests that have ended; whether a living one still holds something.
local function release_parked(client, grace_is_over)
    local parked, living = {}, false
    for _, lock in pairs(client._registry.observers) do
        local hold = lock._hold
        local request = hold and hold.owner
        if request and request.ctx and not (grace_is_over and request.phase == "timer") then
            living = true
        elseif hold then
            parked[#parked + 1] = hold.claim
        end
    end
    for index = 1, #parked do
        parked[index]:release()
    end
    return living
end

--- Whether anybody needs to hear of a client's news soon. What a request has left in a VM that no other will see is given back.
local function is_used(client)
    local registry = client._registry
    if next(registry.everybody) ~= nil then
        return true
    elseif is_vm_passing() then
        collectgarbage() -- the ngx.ctx of requests that have ended
        return release_parked(client)
    end
    return next(registry.observers) ~= nil or client._log ~= nil or #client._state_listeners > 0
end

--- What a tick does for one client.
local function look_after(client, pump, now)
    sweep(client)
    if is_used(client) then
        pump.used = now
    end
    if is_dropped(pump) then
        start_pump(client, pump)
    elseif pump.running and not pump.stop and (now - pump.used > IDLE or now - pump.since > PUMP_LIFETIME) then
        stop_pump(client, pump, now - pump.used > IDLE)
    end
end

-- The end of the worker -----------------------------------------------------------------------------------------------

--- Whether somebody waits who may go on waiting.
local function has_waiters(client, grace_is_over)
    sweep(client)
    for waiter in pairs(client._registry.everybody) do
        if waiter.waiting and not (grace_is_over and waiter.phase == "timer") then
            return true
        end
    end
    return false
end

--- Closes every client that nobody needs any more; whether some are left.
local function close_unused(grace_is_over)
    local left = false
    collectgarbage() -- the ngx.ctx of requests that have ended
    for client in pairs(pumps) do
        if not is_over(client) then
            local holding = release_parked(client, grace_is_over)
            if has_waiters(client, grace_is_over) or holding then
                left = true
            else
                client._closing = true -- not to be shared any more
                client._core:close()
            end
        end
    end
    return left
end

--- A timer handler: lets the clients of an exiting worker go as soon as may be.
local function drain()
    local grace_ends = ngx.now() + TIMER_GRACE
    local pause = DRAIN_STEP
    while close_unused(ngx.now() >= grace_ends) do
        ngx.sleep(pause)
        pause = min(pause * 2, 0.5)
    end
    tick_due = nil
end

-- The ticker ----------------------------------------------------------------------------------------------------------

function is_ticking()
    return tick_due ~= nil and ngx.now() - tick_due <= OVERDUE
end

local function tick(_, number)
    if number ~= tick_number then
        return -- it was given up, and is late
    elseif exiting() then
        tick_due = huge
        return drain()
    end
    tick_due = nil
    local now, running = ngx.now(), false
    for client, pump in pairs(pumps) do
        look_after(client, pump, now)
        running = running or pump.running
    end
    collectgarbage("step", COLLECT)
    if running then
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

-- The adapter ---------------------------------------------------------------------------------------------------------

--- Before a client is opened: not in the master process, whose workers it would not follow; and where nothing can wait,
-- connect does not either.
function openresty.prepare(settings)
    local phase = get_phase()
    if phase == "init" then
        return nil, "zklock.connect cannot be called in init_by_lua*, which runs before nginx forks its workers: call it in " ..
            "init_worker_by_lua*, or in requests and timers by way of zklock.shared", "phase"
    elseif phase == "exit_worker" then
        return nil, "zklock.connect cannot be called in exit_worker_by_lua*", "phase"
    elseif not YIELDING[phase] then
        settings.connect_timeout = 0
    end
    return true
end

function openresty.attach(client)
    local pump = { weak = setmetatable({ client = client }, WEAK_VALUES), number = 0 }
    pumps[client] = pump
    start_pump(client, pump)
end

function openresty.detach(client)
    pumps[client] = nil
end

--- Sees to it that a client's pump runs; how long its waiters may wait at once.
local function wake_pump(client)
    local pump = pumps[client]
    if not pump then
        return WAIT_WITHOUT_PUMP -- it was closed
    elseif not pump.running or pump.asleep or is_dropped(pump) then
        if pump.begun and pump.running then
            pump.stop, pump.asleep = false, false -- it was about to go to sleep
        else
            start_pump(client, pump)
        end
    end
    if not is_ticking() then
        start_ticker()
    end
    return pump.broken and WAIT_WITHOUT_PUMP or LONGEST_WAIT
end

openresty.attend = wake_pump

--- See zklock.adapters for what an adapter's functions promise.
function openresty.wait(client, waiter, seconds)
    local phase = get_phase()
    if not YIELDING[phase] then
        return nil, format("nothing can be waited for in nginx's phase '%s'", phase), "phase"
    end
    local longest = wake_pump(client)
    local problem
    if not waiter.semaphore then
        waiter.semaphore, problem = new_semaphore(0)
        if not waiter.semaphore then
            return nil, "cannot make a semaphore: " .. problem, "failed"
        end
        waiter.client, waiter.phase = client, phase
    end
    waiter.waiting = true
    local woken
    woken, problem = waiter.semaphore:wait(max(min(seconds, longest), SHORTEST_WAIT))
    waiter.waiting, waiter.posted = false, false
    if not woken and problem ~= "timeout" then
        return nil, "cannot wait here: " .. problem, "phase"
    end
    return true
end

function openresty.wake(waiter)
    if is_dead(waiter) then
        return wait.forsake(waiter.client, waiter)
    elseif not waiter.waiting or waiter.posted then
        return
    end
    waiter.posted = true
    waiter.semaphore:post(1)
end

--- A callback runs in a timer of its own, so that it may wait; where there is none left, on the spot.
function openresty.spawn(fn)
    local ok, started = pcall(timer_at, 0, function()
        fn()
    end)
    if not (ok and started) then
        fn()
    end
end

local REQUEST = {}

--- Where there is no request, nor a timer.
local WITHOUT_REQUEST = { init = true, init_worker = true, exit_worker = true }

--- Finds the table that stands for the running request or timer. Its field `ctx` is nil once that has ended.
local function running_request(phase)
    local ctx = ngx.ctx
    local request = ctx[REQUEST]
    if not request then
        request = setmetatable({ ctx = ctx, phase = phase }, WEAK_VALUES)
        ctx[REQUEST] = request
    end
    return request
end

--- The running request or timer, for a hold to remember.
function openresty.caller()
    local phase = get_phase()
    return YIELDING[phase] and running_request(phase) or nil
end

--- Holds belong to requests: what a request has acquired in one phase it can release in another.
function openresty.owner()
    local phase = get_phase()
    return not WITHOUT_REQUEST[phase] and running_request(phase) or nil
end

return openresty
