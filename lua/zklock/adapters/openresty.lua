--- adapters.openresty: waiting inside nginx, where only the waiting request is suspended.
--
-- Every client has a *pump*: a timer handler that reads the client's unix stream socket through a cosocket, calls
-- client:pump(), and so posts the semaphores on which requests wait. A cosocket belongs to the handler that made it, but
-- requests may share a semaphore. The pump sleeps until the client writes to the socket. The pump has no read timeout that
-- could pass, because nginx logs each read timeout as an error. Periodic work is done by the *ticker*: one timer a second for
-- all clients of the worker. When the worker is about to exit, nginx runs the ticker early, at once.
--
-- A coroutine may be killed while it waits: its request is aborted, or ngx.thread.kill ends it. nginx does not report this, but
-- removes the coroutine from its semaphore. A waiter that waits and is not on its semaphore is therefore dead. Whatever it
-- waited for is given up: by the ticker, or at once when the lock is granted to it.
--
-- An acquisition ends with the request that made it. Each acquisition is in the *scope* of its request (csrc/scope.c), which
-- nginx ends when it frees the request, without any Lua. A timer handler is a request, too. Two kinds of holds must end sooner.
-- nginx reports neither, so the ticker looks for them:
--   * holds from before nginx redirected the request internally (ngx.exec, error_page);
--   * holds of with_lock in a coroutine that nginx has dropped (ngx.thread.kill; ngx.exit, while the answer is being sent).
-- Holds that were acquired with `keep = true` are left alone.
--
-- When the worker exits, requests that hold or wait for locks may finish, as nginx lets requests finish. A hold that belongs to
-- no request is released at once. Locks that timers hold or wait for are given up after a moment.
--
-- This file refers to a client strongly only while its code runs, so a client to which the program no longer refers is
-- collected. A pump whose client is not in use goes to sleep. A timer keeps its Lua VM alive. With lua_code_cache off each
-- request has its own VM, so there are neither pumps nor tickers, and waiters check their conditions themselves.

local base = require "resty.core.base"
local core = require "zklock.core"
local ffi = require "ffi"
local semaphore = require "ngx.semaphore"
local wait = require "zklock.wait"

local ngx = ngx
local collectgarbage, next, pairs, pcall, setmetatable, tonumber, type =
    collectgarbage, next, pairs, pcall, setmetatable, tonumber, type
local running_thread = coroutine.running
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local cast, registry_of_lua = ffi.cast, debug.getregistry()
local get_request = base.get_request

--- The stream module's requests have no scopes.
local new_scope = ngx.config.subsystem == "http" and core.scope or function()
    return nil
end
local exiting, get_phase, timer_at = ngx.worker.exiting, ngx.get_phase, ngx.timer.at
local new_semaphore = semaphore.new

--- Seconds between two ticks.
local TICK = 1

--- Seconds after which a pump gets a new timer: the memory pool of a running timer handler only grows.
local PUMP_LIFETIME = 60

--- Seconds without use after which a pump goes to sleep.
local IDLE = 5

--- The longest and shortest semaphore wait, in seconds. The longest is how late a waiter notices, at worst, that its pump does
-- not run. A wait shorter than the shortest would be rounded to 0.
local LONGEST_WAIT, SHORTEST_WAIT = 5, 0.001

--- Seconds after which a timer that has not begun is given up: nginx drops timers that are due while lua_max_running_timers run,
-- or when it is out of connections.
local OVERDUE = 2

--- The longest wait where there is no pump, in seconds: waiters then check their conditions themselves. The first wait is the
-- shortest possible, and each further wait is twice as long as the previous one.
local WAIT_WITHOUT_PUMP = 0.05

--- Seconds after which a pump that has not begun is reported to the error log, and the interval between two such reports.
local LATE, NEXT_REPORT = 0.1, 60

--- How many waiters one turn of nginx's event loop wakes. The rest is left to the next turns, between which nginx does other
-- work.
local WAKES = 32

--- Seconds until the next turn: the shortest sleep that causes no warning of nginx.
local NEXT_TURN = 0.001

--- Milliseconds of a read: longer than a pump runs.
local NO_READ_TIMEOUT = 86400000
local CONNECT_TIMEOUT = 5000

--- When the worker exits: how many seconds timers may keep their locks, and how many pass between two checks whether requests
-- still need a client.
local TIMER_GRACE, DRAIN_STEP = 1, 0.02

--- Kilobytes to collect in each tick. On an idle worker nothing else collects the objects that killed coroutines leave.
local COLLECT = 100

--- The phases in which a coroutine can be suspended, also by an nginx without OpenResty's patches: such an nginx breaks the
-- handshake off when ssl_client_hello_by_lua* or ssl_session_fetch_by_lua* wait.
local YIELDING = {
    rewrite = true, server_rewrite = true, access = true, content = true, timer = true, preread = true, ssl_cert = true
}

local WEAK_KEYS, WEAK_VALUES = { __mode = "k" }, { __mode = "v" }

local VOID, ADDRESS = ffi.typeof("void *"), ffi.typeof("uintptr_t")

local openresty = { name = "openresty" }

--- client -> its pump.
local pumps = setmetatable({}, WEAK_KEYS)

--- When the next tick is due, or nil; and the number of that timer, among all timers of the ticker.
local tick_due, tick_number = nil, 0

--- When a pump that does not begin was last reported.
local reported_late = -huge

-- Requests ------------------------------------------------------------------------------------------------------------

--- Address of a request -> a table about the request. `scope` is false where there are no scopes. `phase` is the phase in which
-- the request was first seen. `context` is its number in nginx's Lua module. When there are more than `room` requests, those
-- that are over are removed.
local requests, request_count, room = {}, 0, 64

--- The key of the same table in ngx.ctx of a request without a scope.
local MARK = {}

--- Whether a request has ended, or was redirected. A request without a scope whose ngx.ctx was assigned counts as running until
-- its place in nginx's table is free, or has another request.
local function is_over(request)
    if not request then
        return true
    elseif request.scope then
        return request.scope:context() ~= request.context
    end
    local context = request.context
    return requests[-context] ~= request or type(registry_of_lua.ngx_lua_ctx_tables[context]) ~= "table"
end

--- Remembers a request, by its address or, below 0, by its context.
local function remember(key, request)
    if not requests[key] then
        request_count = request_count + 1
    end
    requests[key] = request
    if request_count <= room then
        return request
    end
    request_count = 0
    for known, other in pairs(requests) do
        if is_over(other) then
            requests[known] = nil
        else
            request_count = request_count + 1
        end
    end
    room = max(64, 2 * request_count)
    return request
end

--- The index of an ngx.ctx in nginx's table of all of them, or nil.
local function context_of(ctx)
    for context, table in pairs(registry_of_lua.ngx_lua_ctx_tables) do
        if table == ctx then
            return context
        end
    end
    return nil
end

--- Returns a text that no later request in the same place has: the connection's number, and the request's number in the
-- connection. nil where there is no connection, as in timers. Over HTTP/2 the second number may change during a request.
local function number_of_request()
    local ok, connection, request = pcall(function()
        return ngx.var.connection, ngx.var.connection_requests
    end)
    return ok and connection and connection .. "/" .. (request or "") or nil
end

--- Returns the running request by its ngx.ctx, where there are no scopes, as in the stream module. Internal redirects are not
-- noticed there: a lock that was acquired before the redirect ends with the request. A request that has assigned its ngx.ctx is
-- recognised by its number. Without a number such a request looks like a new request, so that its earlier locks end.
local function marked_request(ctx, address)
    if not ctx[MARK] then
        local context, number = context_of(ctx), number_of_request()
        local known = context and requests[-context]
        if not (known and number and known.number == number and known.address == address) then
            known = context and remember(-context, {
                scope = false, phase = get_phase(), context = context, address = address, number = number
            })
        end
        ctx[MARK] = known
    end
    return ctx[MARK]
end

--- The running request or timer handler: a table, the same one each time, until nginx ends or redirects it; nil if there is
-- none.
function openresty.request()
    local pointer = get_request()
    if pointer == nil then
        return nil
    end
    local address = tonumber(cast(ADDRESS, cast(VOID, pointer)))
    local request = requests[address]
    if request and not is_over(request) then
        return request
    end
    -- This creates ngx.ctx if there was none yet, and with it the scope's context.
    local ctx = ngx.ctx
    local scope = new_scope(address)
    if not scope then
        return marked_request(ctx, address)
    end
    return remember(address, { scope = scope, phase = get_phase(), context = scope:context() })
end

--- Holds belong to requests: a request can release in one phase what it has acquired in another.
openresty.owner = openresty.request

--- nginx's table of all coroutines that it may resume: an array, with numbers in free places. Coroutines that the program has
-- made by coroutine.create are not in it.
local threads

local function find_threads()
    local thread = running_thread()
    for key, table in pairs(registry_of_lua) do
        if type(key) == "userdata" and type(table) == "table" then
            for _, value in pairs(table) do
                if value == thread then
                    return table
                end
            end
        end
    end
    return nil
end

--- Coroutine -> the owner of its acquisitions: a table with weak references to its `request` and to the coroutine, `thread`; and
-- `place`, once that is known: the index in `threads`, or false.
local owners = setmetatable({}, WEAK_KEYS)

--- Stands for the coroutine where code does not run in one.
local MAIN = {}

local function running_owner()
    local request = openresty.request()
    if not request then
        return nil
    end
    local thread = running_thread()
    local owner = owners[thread or MAIN]
    if not owner or owner.request ~= request then
        owner = setmetatable({ request = request, thread = thread }, WEAK_VALUES)
        owners[thread or MAIN] = owner
    end
    return owner
end

--- The index of a living coroutine in `threads`, or false.
local function place_of(thread)
    threads = threads or find_threads()
    for place = 1, threads and #threads or 0 do
        if threads[place] == thread then
            return place
        end
    end
    return false
end

--- Whether nginx has dropped the coroutine of an owner. Never true of coroutines that the program has made: that cannot be
-- detected.
local function is_dropped_thread(owner)
    local place, thread, request = owner.place, owner.thread, owner.request
    if not place then
        return false
    end
    return thread == nil or threads[place] ~= thread or request.scope and not request.scope:has(thread)
end

--- Whether the request, or the with_lock, that a hold belongs to has ended.
local function is_abandoned(hold)
    local owner = hold.owner
    return not owner or is_over(owner.request) or hold.within and is_dropped_thread(owner)
end

--- Gives back abandoned holds: those with `keep` only if `all`; those of timers also if their time of grace is over.
-- @treturn boolean whether something is still held
local function release_abandoned(client, all, grace_is_over)
    local abandoned, living = {}, false
    for _, lock in pairs(client._registry.observers) do
        local hold = lock._hold
        if hold then
            local over = (all or not hold.keep) and is_abandoned(hold)
                or grace_is_over and hold.owner.request.phase == "timer"
            if over then
                abandoned[#abandoned + 1] = hold.acquisition
            else
                living = true
            end
        end
    end
    for index = 1, #abandoned do
        abandoned[index]:release()
    end
    return living
end

-- Waiters -------------------------------------------------------------------------------------------------------------

--- Whether a waiter's coroutine was killed. A living waiter counts -1 on its semaphore, and 0 from the post until it runs.
local function is_dead(waiter)
    return waiter.waiting and waiter.semaphore:count() >= (waiter.posted and 1 or 0)
end

--- Gives up the waits of killed coroutines.
local function sweep(client)
    local dead = {}
    for waiter in pairs(client._registry.everybody) do
        if is_dead(waiter) then
            dead[#dead + 1] = waiter
        end
    end
    for index = 1, #dead do
        wait.abandon(client, dead[index])
    end
end

-- The pump ------------------------------------------------------------------------------------------------------------

local start_pump, start_ticker, is_ticking

local function post(waiter)
    waiter.posted = true
    waiter.semaphore:post(1)
end

--- nginx's time in the turn of the event loop that woke a waiter last, and how many waiters that turn has woken.
local turn_of_wakes, wakes = 0, 0

--- Wakes a waiter unless this turn has woken enough.
-- @treturn boolean whether it has woken the waiter
local function wake_now(waiter)
    local now = ngx.now()
    if now ~= turn_of_wakes then
        turn_of_wakes, wakes = now, 0
    end
    if wakes >= WAKES then
        return false
    end
    wakes = wakes + 1
    post(waiter)
    return true
end

--- Wakes the first waiters of the queue, as many as this turn may still wake.
-- @treturn boolean whether some are left
local function wake_next(pump)
    local queue = pump.queue
    while queue.first <= queue.last do
        local waiter = queue[queue.first]
        if is_dead(waiter) then
            wait.abandon(waiter.client, waiter)
        elseif waiter.waiting and not waiter.posted and not wake_now(waiter) then
            return true
        end
        waiter.queued = false
        queue[queue.first] = nil
        queue.first = queue.first + 1
    end
    queue.first, queue.last = 1, 0
    return false
end

--- Whether a client's session is over, or belongs to another process.
local function is_closed(client)
    local state = client._core:state()
    return state == nil or state == "closed"
end

--- One turn: passes on the client's notifications. Returns false when there is nothing more to do for this handler.
local function turn(pump)
    local client = pump.weak.client
    if not client or pump.stop then
        return false
    end
    client:pump()
    while wake_next(pump) do
        ngx.sleep(NEXT_TURN)
    end
    return not is_closed(client)
end

--- Connects to the client's notify socket.
local function connect(pump)
    local client = pump.weak.client
    if not client or is_closed(client) then
        return nil
    end
    local path, problem = client._core:listen()
    if not path then
        return nil, not is_closed(client) and problem or nil
    end
    local socket = ngx.socket.tcp()
    socket:settimeouts(CONNECT_TIMEOUT, CONNECT_TIMEOUT, NO_READ_TIMEOUT)
    local connected
    connected, problem = socket:connect("unix:" .. path)
    if client._core:accept() and connected then
        return socket
    end
    socket:close()
    if is_closed(client) then
        return nil -- closed meanwhile, and its notify socket no longer exists
    end
    return nil, problem or "no connection"
end

--- Reads and pumps until the pump must stop.
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

--- The timer handler. `number` is the number of the pump's start that this handler belongs to.
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
        while pump.queue.first <= pump.queue.last do
            pump.queue[pump.queue.last].queued = false
            pump.queue.last = pump.queue.last - 1
        end
        wait.wake_everybody(client) -- the waiters check their conditions themselves
    elseif client and not pump.asleep and not is_closed(client) then
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

--- Whether nginx has dropped the timer in which a pump was to run.
local function is_dropped(pump)
    return pump.running and not pump.begun and ngx.now() - pump.since > OVERDUE
end

--- Makes the handler of a pump end: so that a new one can begin, or, with `asleep`, until the pump is used again.
local function stop_pump(client, pump, asleep)
    pump.stop, pump.asleep = true, asleep
    client._core:ring()
end

--- Whether every request has a separate Lua VM: lua_code_cache is off. Otherwise a worker has one VM, or two if it serves
-- streams as well as HTTP.
local function is_vm_passing()
    return core.openings() > 2
end

--- Whether notifications of a client must be passed on soon. `holding`: whether a living request holds a lock. Nothing else
-- counts in a VM that no other request will use.
local function is_used(client, holding)
    local registry = client._registry
    if next(registry.everybody) ~= nil then
        return true
    elseif is_vm_passing() then
        return holding
    end
    return next(registry.observers) ~= nil or client._log ~= nil or #client._state_listeners > 0
end

--- The work of a tick for one client.
local function look_after(client, pump, now)
    sweep(client)
    if is_used(client, release_abandoned(client, is_vm_passing())) then
        pump.used = now
    end
    if is_dropped(pump) then
        start_pump(client, pump)
    elseif pump.running and not pump.stop and (now - pump.used > IDLE or now - pump.since > PUMP_LIFETIME) then
        stop_pump(client, pump, now - pump.used > IDLE)
    end
end

-- The end of the worker -----------------------------------------------------------------------------------------------

--- Whether there is a waiter that may go on waiting.
local function has_waiters(client, grace_is_over)
    sweep(client)
    for waiter in pairs(client._registry.everybody) do
        if waiter.waiting and not (grace_is_over and waiter.phase == "timer") then
            return true
        end
    end
    return false
end

--- Closes every client that is not in use any more. Returns whether some are left.
local function close_unused(grace_is_over)
    local left = false
    for client in pairs(pumps) do
        if not is_closed(client) then
            local holding = release_abandoned(client, true, grace_is_over)
            if has_waiters(client, grace_is_over) or holding then
                left = true
            else
                client._closing = true -- from now on zklock.shared does not return it
                client._core:close()
            end
        end
    end
    return left
end

--- A timer handler: closes the clients of an exiting worker as soon as possible.
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

--- Called before a client is opened. Refuses to do so in the master process, because the client would not work in the workers.
-- In phases in which a coroutine cannot wait, connect does not wait.
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
    if is_vm_passing() then
        return -- its timer would keep the VM, and there would be one for each request
    end
    local pump = {
        weak = setmetatable({ client = client }, WEAK_VALUES), number = 0, queue = { first = 1, last = 0 }
    }
    pumps[client] = pump
    start_pump(client, pump)
end

function openresty.detach(client)
    pumps[client] = nil
end

--- Makes sure that a client's pump runs. Returns whether the pump wakes the client's waiters.
local function wake_pump(client)
    local pump = pumps[client]
    if not pump then
        return false -- there is none in this VM, or it was closed
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
    return pump.begun and not pump.broken
end

openresty.attend = wake_pump

--- Reports a pump that nginx does not begin.
local function report_late(pump)
    local now = ngx.now()
    if pump and pump.running and not pump.begun and now - pump.since > LATE and now - reported_late > NEXT_REPORT then
        reported_late = now
        ngx.log(ngx.WARN, "zklock: nginx has not begun a timer within ", LATE, " s: lua_max_running_timers or ",
            "worker_connections may be used up. Until it does, waiters are woken with a delay of up to ", WAIT_WITHOUT_PUMP, " s")
    end
end

--- See zklock.adapters for the contract of an adapter's functions.
function openresty.wait(client, waiter, seconds)
    local phase = get_phase()
    if not YIELDING[phase] then
        return nil, format("nothing can be waited for in nginx's phase '%s'", phase), "phase"
    end
    local longest = LONGEST_WAIT
    local woken, problem
    if not wake_pump(client) then
        report_late(pumps[client])
        longest = min(2 * (waiter.pause or SHORTEST_WAIT / 2), WAIT_WITHOUT_PUMP)
        waiter.pause = longest
    end
    if not waiter.semaphore then
        waiter.semaphore, problem = new_semaphore(0)
        if not waiter.semaphore then
            return nil, "cannot make a semaphore: " .. problem, "failed"
        end
        waiter.client, waiter.phase = client, phase
    end
    waiter.waiting = true
    woken, problem = waiter.semaphore:wait(max(min(seconds, longest), SHORTEST_WAIT))
    waiter.waiting, waiter.posted = false, false
    if not woken and problem ~= "timeout" then
        return nil, "cannot wait here: " .. problem, "phase"
    end
    return true
end

function openresty.wake(waiter)
    if is_dead(waiter) then
        return wait.abandon(waiter.client, waiter)
    elseif not waiter.waiting or waiter.posted or waiter.queued then
        return
    end
    local pump = pumps[waiter.client]
    local queue = pump and pump.begun and pump.running and not pump.broken and pump.queue
    if not queue then
        return post(waiter)
    elseif queue.first > queue.last and wake_now(waiter) then
        return
    end
    waiter.queued = true
    queue.last = queue.last + 1
    queue[queue.last] = waiter
    waiter.client._core:ring() -- the pump goes on with it
end

--- Runs a callback in a separate timer, so that it may wait; or immediately if there is no timer left.
function openresty.spawn(fn)
    local ok, started = pcall(timer_at, 0, function()
        fn()
    end)
    if not (ok and started) then
        fn()
    end
end

--- Notes which coroutine and request have asked for a lock: the acquisition ends with the request.
function openresty.bind(hold)
    local owner = running_owner()
    hold.owner = owner
    if owner and owner.request.scope then
        owner.request.scope:add(hold.acquisition)
    end
end

--- Makes a hold outlive its request.
function openresty.keep(hold)
    local owner = hold.owner
    if owner and owner.request and owner.request.scope then
        owner.request.scope:remove(hold.acquisition)
    end
end

--- Notes that a hold belongs to with_lock: it ends with the running coroutine, if that coroutine has acquired it.
function openresty.enclose(hold)
    local owner, thread = hold.owner, running_thread()
    if owner and thread and owner.thread == thread and owner.place == nil then
        owner.place = place_of(thread)
    end
end

return openresty
