--- adapters.openresty.pump: the timer handler of a client that passes on its notifications and wakes its waiters.
--
-- For zklock.adapters.openresty and its part draining. A *pump* reads the client's unix stream socket through a cosocket, calls
-- client:pump(), and so posts the semaphores on which requests wait. A cosocket belongs to the handler that made it, but
-- requests may share a semaphore. The pump sleeps until the client writes to the socket. It has no read timeout that could
-- pass, because nginx logs each read timeout as an error. If no connection can be made (no descriptors are left), the pump looks
-- for notifications itself, by a timer, and tries to connect again after a pause that grows.
--
-- The adapter refers to a client strongly only while its code runs, so a client to which the program no longer refers is
-- collected. A pump whose client is not in use goes to sleep. A timer keeps its Lua VM alive. With lua_code_cache off each
-- request has its own VM, so there are neither pumps nor tickers, and waiters check their conditions themselves.

local core = require "zklock.core"
local holds = require "zklock.adapters.openresty.holds"
local running = require "zklock.adapters.openresty.requests"
local ticker = require "zklock.adapters.openresty.ticker"
local wait = require "zklock.wait"

local ngx = ngx
local next, pairs, pcall, setmetatable = next, pairs, pcall, setmetatable
local huge, min = math.huge, math.min
local timer_at = ngx.timer.at
local OVERDUE = ticker.OVERDUE
local is_over, running_request = running.is_over, running.request

--- Seconds after which a pump gets a new timer: the memory pool of a running timer handler only grows.
local PUMP_LIFETIME = 60

--- Seconds without use after which a pump goes to sleep.
local IDLE = 5

--- The longest wait where there is no pump, in seconds: waiters then check their conditions themselves. The first wait is the
-- shortest possible, and each further wait is twice as long as the previous one.
local WAIT_WITHOUT_PUMP = 0.05

--- Seconds after which a pump that has not begun, or that has no connection, is reported to the error log, and the interval
-- between two such reports.
local LATE, NEXT_REPORT = 0.1, 60

--- The longest time, in seconds, between two tries of a pump to connect.
local LONGEST_PAUSE = 60

--- How many waiters one turn of nginx's event loop wakes. The rest is left to the next turns, between which nginx does other
-- work.
local WAKES = 32

--- Seconds until the next turn: the shortest sleep that causes no warning of nginx.
local NEXT_TURN = 0.001

--- Milliseconds until a cosocket that has not connected gives up.
local CONNECT_TIMEOUT = 5000

--- Longer than a pump runs: milliseconds of a read.
local NO_READ_TIMEOUT = 86400000

--- Seconds between two checks whether the ticker runs. nginx may have dropped its timer.
local WATCH = 2

local WEAK_KEYS, WEAK_VALUES = { __mode = "k" }, { __mode = "v" }

--- client -> its pump.
local pumps = setmetatable({}, WEAK_KEYS)

local pumping = { WAIT_WITHOUT_PUMP = WAIT_WITHOUT_PUMP, by_client = pumps }

--- When a pump that does not begin was last reported, and one that does not work.
local reported_late, reported_broken = -huge, -huge

-- Waking --------------------------------------------------------------------------------------------------------------

-- A coroutine may be killed while it waits: its request is aborted, or ngx.thread.kill ends it. nginx does not report this, but
-- removes the coroutine from its semaphore. A waiter that waits and is not on its semaphore is therefore dead. Whatever it waited
-- for is given up: by the ticker, or at once when the lock is granted to it.

--- Whether a waiter's coroutine was killed. A living waiter counts -1 on its semaphore, and 0 from the post until it runs.
local function is_dead(waiter)
    return waiter.waiting and waiter.semaphore:count() >= (waiter.posted and 1 or 0)
end

--- Gives up the waits of killed coroutines.
function pumping.sweep(client)
    local dead = {}
    for waiter in pairs(client:desk().everybody) do
        if is_dead(waiter) then
            dead[#dead + 1] = waiter
        end
    end
    for index = 1, #dead do
        wait.abandon(client, dead[index])
    end
end

local function post(waiter)
    waiter.posted = true
    waiter.semaphore:post(1)
end

--- nginx's time in the turn of the event loop that woke a waiter last, and how many waiters that turn has woken.
local turn_of_wakes, wakes = 0, 0

--- Wakes a waiter unless this turn has woken enough.
---@return boolean # whether it has woken the waiter
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
---@return boolean # whether some are left
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

--- Wakes a waiter: at once, or by the pump in one of the next turns.
function pumping.wake(waiter)
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
    local goes_on = pump.in_turn or queue.first <= queue.last -- the pump runs, or was rung for another waiter
    waiter.queued = true
    queue.last = queue.last + 1
    queue[queue.last] = waiter
    if not goes_on then
        waiter.client:desk().core:ring()
    end
end

-- Running -------------------------------------------------------------------------------------------------------------

local start_pump

--- Whether a client's session is over, or belongs to another process.
local function is_closed(client)
    local state = client:desk().core:state()
    return state == nil or state == "closed"
end
pumping.is_closed = is_closed

--- One turn: passes on the client's notifications.
---@return boolean goes_on false when there is nothing more to do for this handler
---@return boolean? more whether there may be more notifications
local function turn(pump)
    local client = pump.weak.client
    if not client or pump.stop then
        return false
    end
    pump.in_turn = true
    local more = client:pump()
    while wake_next(pump) do
        ngx.sleep(NEXT_TURN)
    end
    if more then
        ngx.sleep(NEXT_TURN)
    end
    pump.in_turn = false
    return not is_closed(client), more
end

--- Connects to the client's notify socket.
---@return table? # the cosocket
---@return string? # the problem; nil if no connection is needed any more
local function connect(pump)
    local client = pump.weak.client
    if not client or is_closed(client) then
        return nil
    end
    local path, problem = client:desk().core:listen()
    if not path then
        return nil, not is_closed(client) and problem or nil
    end
    local socket = ngx.socket.tcp()
    socket:settimeouts(CONNECT_TIMEOUT, CONNECT_TIMEOUT, NO_READ_TIMEOUT)
    local connected
    connected, problem = socket:connect("unix:" .. (path == "" and "\0" or path))
    if client:desk().core:accept() and connected then
        return socket
    end
    socket:close()
    if is_closed(client) then
        return nil -- closed meanwhile, and its notify socket no longer exists
    end
    return nil, problem or "no connection"
end

--- The light thread that runs as long as a pump reads.
local function watch_ticker()
    while true do
        ngx.sleep(WATCH)
        ticker.attend()
    end
end

--- Reads and pumps until the pump must stop.
---@return string? # why the pump cannot read
local function read_and_pump(pump)
    local socket, problem = connect(pump)
    if not socket then
        return problem
    end
    pump.broken, pump.pause = false, WAIT_WITHOUT_PUMP
    pump.watch = ngx.thread.spawn(watch_ticker)
    local goes_on, more = turn(pump)
    while goes_on and (more or socket:receiveany(1024)) do
        goes_on, more = turn(pump)
    end
    socket:close()
    return nil
end

--- Reports a pump that does not work, unless one was reported lately.
local function report_broken(what, problem)
    if ngx.now() - reported_broken > NEXT_REPORT then
        reported_broken = ngx.now()
        ngx.log(ngx.ERR, "zklock: ", what, ": ", problem, ". Notifications are looked for every ", WAIT_WITHOUT_PUMP,
            " s until it works again")
    end
end

--- Leaves the waiters of a pump that does not work to themselves: they check their conditions by a timer.
local function set_broken(pump)
    pump.broken = true
    local queue = pump.queue
    while queue.first <= queue.last do
        queue[queue.last].queued = false
        queue[queue.last] = nil
        queue.last = queue.last - 1
    end
    queue.first, queue.last = 1, 0
    if pump.weak.client then
        wait.wake_everybody(pump.weak.client)
    end
end

--- Looks for notifications by a timer, for the pause between two tries to connect. The next pause is twice as long.
local function poll(pump)
    local ends = ngx.now() + pump.pause
    pump.pause = min(2 * pump.pause, LONGEST_PAUSE)
    repeat
        ngx.sleep(WAIT_WITHOUT_PUMP)
    until not turn(pump) or ngx.now() >= ends
end

--- The timer handler. `number` is the number of the pump's start that this handler belongs to.
local function run_pump(_, pump, number)
    if pump.number ~= number then
        return -- it was given up, and is late
    end
    pump.begun, pump.handler = true, running_request()
    local ok, problem = pcall(read_and_pump, pump)
    if pump.watch then
        ngx.thread.kill(pump.watch)
        pump.watch = nil
    end
    pump.in_turn = false
    if problem then
        if pump.pause > LATE or not ok then
            report_broken(ok and "the pump cannot reach its client" or "the pump failed", problem)
        end
        set_broken(pump)
        ok = pcall(poll, pump)
    end
    pump.running, pump.in_turn, pump.broken = false, false, false
    local client = pump.weak.client
    if client and not pump.asleep and not is_closed(client) then
        start_pump(client, pump, ok and 0 or WAIT_WITHOUT_PUMP)
    end
end

--- Starts a timer handler for a pump, after so many seconds.
function start_pump(client, pump, seconds)
    pump.running, pump.begun, pump.stop, pump.asleep, pump.broken = true, false, false, false, false
    pump.since, pump.used = ngx.now(), ngx.now()
    if pump.in_turn then -- its handler was ended meanwhile, and may have passed on only a part
        pump.in_turn, pump.watch, client:desk().missed = false, nil, true
        wait.wake_everybody(client)
    end
    pump.number = pump.number + 1
    local started, problem = timer_at(seconds or 0, run_pump, pump, pump.number)
    if not started then
        pump.running, pump.broken = false, true
        report_broken("nginx has no timer for the pump", problem)
    end
    ticker.attend()
    return client
end

--- Whether nginx has dropped the timer in which a pump was to run, or code of the program has ended its handler (ngx.exit).
local function is_dropped(pump)
    if not pump.running then
        return false
    elseif pump.begun then
        return is_over(pump.handler)
    end
    return ngx.now() - pump.since > OVERDUE
end

--- Makes the handler of a pump end: so that a new one can begin, or, with `asleep`, until the pump is used again.
local function stop_pump(client, pump, asleep)
    pump.stop, pump.asleep = true, asleep
    client:desk().core:ring()
end

-- Starting and stopping -----------------------------------------------------------------------------------------------

-- Counts this VM. The VMs of ngx.run_worker_thread do not load this file.
core.states(1)

--- Whether every request has a separate Lua VM: lua_code_cache is off. Otherwise a worker has one VM, or two if it serves
-- streams as well as HTTP.
local function is_vm_passing()
    return core.states(0) > 2
end

--- Starts the pump of a client that was opened.
function pumping.attach(client)
    if is_vm_passing() then
        return -- its timer would keep the VM, and there would be one for each request
    end
    local pump = {
        weak = setmetatable({ client = client }, WEAK_VALUES), number = 0, queue = { first = 1, last = 0 },
        pause = WAIT_WITHOUT_PUMP
    }
    pumps[client] = pump
    start_pump(client, pump)
end

--- Forgets the pump of a client that is closed.
function pumping.detach(client)
    pumps[client] = nil
end

--- Makes sure that a client's pump runs. Returns whether the pump wakes the client's waiters.
function pumping.attend(client)
    local pump = pumps[client]
    if not pump then
        return false -- there is none in this VM, or it was closed
    elseif not pump.running or is_dropped(pump) then
        start_pump(client, pump)
    elseif pump.asleep then
        pump.stop, pump.asleep = false, false -- it was about to go to sleep
    end
    ticker.attend()
    return pump.begun and not pump.broken
end

--- Reports a pump that nginx does not begin.
function pumping.report_late(client)
    local pump, now = pumps[client], ngx.now()
    if pump and pump.running and not pump.begun and now - pump.since > LATE and now - reported_late > NEXT_REPORT then
        reported_late = now
        ngx.log(ngx.WARN, "zklock: nginx has not begun a timer within ", LATE, " s: lua_max_running_timers or ",
            "worker_connections may be used up. Until it does, waiters are woken with a delay of up to ", WAIT_WITHOUT_PUMP, " s")
    end
end

--- Whether notifications of a client must be passed on soon. `holding`: whether a living request holds a lock. Nothing else
-- counts in a VM that no other request will use.
local function is_used(client, holding)
    local desk = client:desk()
    if next(desk.everybody) ~= nil then
        return true
    elseif is_vm_passing() then
        return holding
    end
    return next(desk.observers) ~= nil or next(desk.calls) ~= nil or client:has_listeners()
end

--- The work of a tick for one client.
local function look_after(client, pump, now)
    pumping.sweep(client)
    if is_used(client, holds.release_abandoned(client, is_vm_passing())) then
        pump.used = now
    end
    if is_dropped(pump) or not pump.running and pump.broken then
        start_pump(client, pump)
    elseif pump.running and not pump.stop and (now - pump.used > IDLE or now - pump.since > PUMP_LIFETIME) then
        stop_pump(client, pump, now - pump.used > IDLE)
    end
end

--- The work of a tick. Returns whether a pump is running, for which the ticker must go on.
function pumping.look_after_all(now)
    local goes_on = false
    for client, pump in pairs(pumps) do
        look_after(client, pump, now)
        goes_on = goes_on or pump.running or pump.broken
    end
    return goes_on
end

return pumping
