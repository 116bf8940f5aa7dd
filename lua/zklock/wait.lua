--- wait: the waiting loop, and the pump that wakes the waiters.
--
-- C functions block only where the caller allows it. Everything that Lua waits for is *state* that C keeps (an acquisition's
-- phase, a query's answer, the client's state). A wait is a loop: if the state is not decided, the adapter suspends the caller
-- until something may have changed, the pump runs, and the state is evaluated again. Therefore a wake-up may come early, twice
-- or for no reason, but must not be missed.
--
-- The pump asks C which handles (acquisitions, queries) have changed and wakes the waiters for them, runs callbacks and passes
-- on log lines. Any waiter may run the pump, and also the adapter's own pump.

local core = require "zklock.core"
local protect = require "zklock.protect"

local collectgarbage, pcall = collectgarbage, pcall
local now = core.now
local coroutine, error, ipairs, next, pairs = coroutine, error, ipairs, next, pairs
local floor, huge = math.floor, math.huge
local setmetatable, type = setmetatable, type
local call, PCALL_YIELDS = protect.call, protect.PCALL_YIELDS

local WEAK_KEYS = { __mode = "k" }

local wait = {}

--- Notes which waiter the notifications of a handle, or of several handles, concern. `handle` is an id or a list of ids.
local function concern(desk, handle, waiter)
    if type(handle) == "table" then
        for index = 1, #handle do
            desk.by_handle[handle[index]] = waiter
        end
    elseif handle then
        desk.by_handle[handle] = waiter
    end
end

--- Returns the set of the waiters for acquisitions whose deadlines are in the same second; without a deadline false. So a sweep
-- looks only at waiters that are late, however many wait.
local function due_with(desk, deadline, handle, subject)
    if deadline == huge or not handle or type(subject) ~= "table" or not subject.abandon then
        return false
    end
    local second = floor(deadline) + 1
    local set = desk.due[second]
    if not set then
        set = setmetatable({}, WEAK_KEYS)
        desk.due[second] = set
    end
    return set
end

--- Has `observer:handle_changed()` called when a handle changes, also while nothing waits for the client.
function wait.observe(client, handle, observer)
    client:desk().observers[handle] = observer
    wait.attend(client)
end

--- Makes sure that the adapter's pump runs, if the adapter has one and a loop can run it. A wait does this itself, but a lock
-- that is granted at once is held without a wait.
function wait.attend(client)
    local attend = client:desk().adapter.attend
    if attend then
        attend(client)
    end
end

--- Final check when the time is up, or when no wait is possible: flushes pending calls to the engine, then evaluates the
-- condition again. If something needs no request, for example a lock that the client has already, its result must not depend on
-- what the client's thread was doing.
local function at_last(client, decided, subject)
    client:desk().core:catch_up()
    return decided(subject) and true or false
end

--- Waits by an adapter that blocks the whole program. No other coroutine can run, so none is registered or woken.
local function alone_until_decided(client, adapter, deadline, decided, subject)
    repeat
        local left = deadline - now()
        if left <= 0 then
            return at_last(client, decided, subject)
        end
        adapter.wait(client, nil, left)
        wait.pump(client)
    until decided(subject)
    return true
end

--- An iterator for a loop of one round. From Lua 5.4 on the loop's fourth value is closed. Other versions ignore that value.
function wait.once(_, done)
    return not done or nil
end
local once = wait.once

--- Where an error may unwind a coroutine without a trace: notes which one has a waiter, or an acquisition, in a local variable. See
-- sweep. Elsewhere false.
wait.note_thread = not PCALL_YIELDS and function(desk, thing)
    desk.threads[thing] = coroutine.running()
end
local note_thread = wait.note_thread

--- Gives up a wait that will not go on, and whatever it waited for.
local function give_up(client, waiter)
    local forget = client:desk().adapter.forget
    if forget then
        forget(waiter)
    end
    wait.abandon(client, waiter)
end

--- A wait by an adapter that suspends the caller.
local Wait = {}

--- Makes a wait for a handle, for several, or for none.
local function new_wait(client, handle)
    local new_waiter = client:desk().adapter.new_waiter
    return setmetatable({ client = client, waiter = new_waiter and new_waiter() or {}, handle = handle, due = false }, Wait)
end

--- Registers a wait.
local function register(self, deadline, subject)
    local desk, waiter, handle = self.client:desk(), self.waiter, self.handle
    desk.everybody[waiter] = subject
    self.due = due_with(desk, deadline, handle, subject)
    if self.due then
        self.due[waiter] = true
    end
    if note_thread then
        note_thread(desk, waiter)
    end
    concern(desk, handle, waiter)
    if not handle then
        desk.without_handle[waiter] = true
    end
end

--- Ends the registration.
local function unregister(self)
    local desk, waiter = self.client:desk(), self.waiter
    desk.everybody[waiter] = nil
    if self.due then
        self.due[waiter] = nil
    end
    concern(desk, self.handle, nil)
    desk.without_handle[waiter] = nil
    self.waiter = nil
end

--- Ends a wait that was broken off: by an error, or, from Lua 5.4 on, because its coroutine is closed.
function Wait:__close()
    if self.waiter then
        give_up(self.client, self.waiter)
        unregister(self)
    end
end

--- Loops around the adapter's wait. Returns the results of until_decided. The pump has its turn when few variables are alive: see
-- run.
local function wait_among_others(self, deadline, decided, subject)
    local waiter = self.waiter -- see is_unwound
    while true do
        do
            local left = deadline - now()
            if left <= 0 then
                return at_last(self.client, decided, subject)
            end
            local able, message, code = self.client:desk().adapter.wait(self.client, waiter, left)
            if able == nil and code ~= nil then
                if at_last(self.client, decided, subject) then
                    return true
                end
                return nil, message, code
            end
        end
        wait.pump(self.client)
        if decided(subject) then
            return true
        end
    end
end

--- Runs a wait, and ends its registration, also when the wait is closed. A hundred thousand coroutines may wait, and the garbage
-- collector walks all their stacks at a time. So the frames that stay are few and small: Lua 5.4 gets by with a stack of 80 slots,
-- after which it would double it.
local function run(self, deadline, decided, subject)
    for _ in once, nil, nil, self do -- luacheck: ignore 512
        register(self, deadline, subject)
        local outcome, message, code = wait_among_others(self, deadline, decided, subject)
        unregister(self)
        return outcome, message, code
    end
end

local function finish(self, ok, ...)
    if ok then
        return ...
    end
    Wait.__close(self)
    error((...), 0)
end

--- The same, protected: a coroutine that an error ends closes nothing.
local function run_protected(self, ...)
    return finish(self, call(run, self, ...))
end

--- For callers that are protected.
local run_inside = coroutine.close and run or run_protected

--- Waits until `decided(subject)` is true or the deadline has passed.
---@param client zklock.Client
---@param handle? number|table id of the handle (acquisition or query) that is waited for, or a list of ids; nil: the
--   client's state
---@param deadline number on core.now()'s clock; math.huge for none
---@param decided function only reads, and does not yield
---@param subject any passed to `decided`
---@param protected? boolean the caller runs in a protected call
---@return boolean? # true: decided; false: the deadline passed; nil: the adapter cannot wait here
---@return string? message in the last case
---@return zklock.Code? code in the last case
function wait.until_decided(client, handle, deadline, decided, subject, protected)
    if decided(subject) then
        return true
    end
    local adapter = client:desk().adapter
    local here = adapter.here and adapter.here() or adapter
    if here.alone then
        return alone_until_decided(client, here, deadline, decided, subject)
    end
    return (protected and run_inside or run_protected)(new_wait(client, handle), deadline, decided, subject)
end

--- Whether a wait here would block the whole program. Then only other processes can change anything meanwhile.
---@return boolean
function wait.is_alone(client)
    local adapter = client:desk().adapter
    local here = adapter.here and adapter.here() or adapter
    return here.alone == true
end

--- Whether the running coroutine can wait. It cannot in a metamethod __close that coroutine.close calls, unless waits do not
-- yield.
---@return boolean
function wait.is_possible(client)
    local isyieldable = coroutine.isyieldable
    if isyieldable == nil or isyieldable() or wait.is_alone(client) or client:desk().adapter.yields == false then
        return true
    end
    local _, is_main = coroutine.running()
    return is_main == true -- in the main coroutine the adapter decides
end

--- For adapters: gives up immediately what a waiter waited for, if its coroutine will never run again. Without this call that
-- happens when the waiter is collected. A second call has no effect. Adapters need not report Lua 5.4's coroutine.close.
---@param client zklock.Client
---@param waiter table
---@param code? string the answer of an acquisition if its coroutine goes on nevertheless; default "cancelled"
function wait.abandon(client, waiter, code)
    local everybody = client:desk().everybody
    local subject = everybody[waiter]
    everybody[waiter] = nil
    if type(subject) == "userdata" then
        subject:cancel()
    elseif subject and subject.abandon then
        subject:abandon(code or "cancelled")
    end
end

--- Lists the keys of a table of which `wanted(desk, key)` is true, or all: the caller may change the table.
local function list(set, wanted, desk)
    local found = {}
    for key in pairs(set) do
        if not wanted or wanted(desk, key) then
            found[#found + 1] = key
        end
    end
    return found
end

--- Seconds between two sweeps.
local SWEEP = 0.5

--- Seconds for which a waiter may be overdue.
local OVERDUE = 1

--- Whether a coroutine has left the functions that had `thing` in a local variable. Known on PUC Lua 5.1 only.
local function is_unwound(desk, thing)
    local thread = desk.threads[thing]
    return thread ~= nil and (coroutine.status(thread) == "dead" or not core.stands_in(thread, thing))
end

--- Lists the waiters that should have gone on long ago: a sweep has found them behind their deadline, a second before this one.
local function list_overdue(desk, time)
    local found = {}
    for second, set in pairs(desk.due) do
        if next(set) == nil then
            desk.due[second], desk.overdue[second] = nil, nil
        elseif second <= time then
            local since = desk.overdue[second] or time
            desk.overdue[second] = since
            if time - since >= OVERDUE then
                for waiter in pairs(set) do
                    found[#found + 1] = waiter
                end
                desk.due[second], desk.overdue[second] = nil, nil
            end
        end
    end
    return found
end

--- Gives up waits that will not go on: waits that an error has ended where they could not be protected, and what a coroutine
-- waited for whose deadline is long past. The collector would give them up too, but in a program that only waits it may not run.
-- Also gives up acquisitions of coroutines that were unwound outside of a wait.
--
-- An overdue coroutine may still go on: the pump may run several times in one turn of a loop that was blocked, before the loop
-- resumes the coroutine. So the adapter keeps its waiter, and wakes it.
local function sweep(client, time)
    local desk = client:desk()
    desk.sweep_due = time + SWEEP
    for _, waiter in ipairs(list_overdue(desk, time)) do
        wait.abandon(client, waiter, "timeout")
        desk.adapter.wake(waiter)
    end
    if PCALL_YIELDS then
        return
    end
    for _, waiter in ipairs(list(desk.everybody, is_unwound, desk)) do
        give_up(client, waiter)
    end
    for _, attempt in ipairs(list(desk.attempts, is_unwound, desk)) do
        attempt:abandon("cancelled")
    end
end

--- Whether something may need a sweep and the sweep is due. The pump sweeps then.
function wait.is_sweep_due(client)
    local desk = client:desk()
    return now() >= desk.sweep_due and (next(desk.due) ~= nil or
        not PCALL_YIELDS and (next(desk.everybody) ~= nil or next(desk.attempts) ~= nil))
end

local function sweep_if_due(client)
    if wait.is_sweep_due(client) then
        sweep(client, now())
    end
end

--- The size of one collection step, which is in kilobytes, and from Lua 5.5 on in bytes. How many steps there are at a time, and
-- after how many seconds none begins.
local STEP = pcall(collectgarbage, "param", "pause") and 8 * 1024 or 8
local STEPS, WITHIN = 25, 0.005

--- Whether Lua can tell that the program has stopped the collector. PUC Lua 5.1 cannot, and a step would start the collector
-- again.
local SEES_COLLECTOR = pcall(collectgarbage, "isrunning")

--- For pumps, about twice a second: gives up waits of the client that will not go on, and runs steps of the garbage collector.
-- A program that only waits makes no garbage. So without these steps its collector would never reach the locks, and the waiting
-- coroutines, to which the program no longer refers.
---@param client? zklock.Client
function wait.collect(client)
    if client then
        sweep_if_due(client)
    end
    if SEES_COLLECTOR and collectgarbage("isrunning") then
        local ends_at = now() + WITHIN
        for _ = 1, STEPS do
            if collectgarbage("step", STEP) or now() >= ends_at then
                return
            end
        end
    end
end

local function wake_all(desk, waiters)
    for _, waiter in ipairs(list(waiters)) do
        desk.adapter.wake(waiter)
    end
end

--- Wakes every waiter of a client. A woken waiter may run, and end, at once.
function wait.wake_everybody(client)
    wake_all(client:desk(), client:desk().everybody)
end

--- The same for those that wait for the client's state, or for watches. A handle notifies its waiter itself.
function wait.wake_without_handle(client)
    wake_all(client:desk(), client:desk().without_handle)
end

--- Notifies every observer that something may have changed.
local function tell_observers(desk)
    local observers = {}
    for _, observer in pairs(desk.observers) do
        observers[#observers + 1] = observer
    end
    for index = 1, #observers do
        observers[index]:handle_changed()
    end
end

--- Notifies a set of calls. A call that ends leaves the set.
function wait.tell_calls(set)
    for _, one in ipairs(list(set)) do
        one:handle_changed()
    end
end

--- How many notifications one pump passes on. After WITHIN it begins no other callback. The next pump has the rest, so that an
-- event loop does other work in between, and a pump returns although its callbacks ask for more.
local AT_ONCE = 32

--- How many callbacks may run inside one another. Each that waits, and so pumps, may run another one; Lua's stack of C calls has
-- room for some 90.
local DEEPEST = 8

--- The coroutine, or MAIN -> how many callbacks run in it, one inside another.
local depths = setmetatable({}, { __mode = "k" })
local MAIN = "main"

local function leave(thread, depth, ...)
    depths[thread] = depth > 0 and depth or nil
    return ...
end

--- Calls one of the program's callbacks in a coroutine that goes on afterwards, protected.
---@return boolean ok
---@return any ... what it has returned, or raised
function wait.call_back(fn, ...)
    local thread = coroutine.running() or MAIN
    local depth = depths[thread] or 0
    depths[thread] = depth + 1
    return leave(thread, depth, pcall(fn, ...))
end

local function is_deep()
    return next(depths) ~= nil and (depths[coroutine.running() or MAIN] or 0) >= DEEPEST
end

--- Passes on notifications of handles, AT_ONCE at most, and for WITHIN. `wakes_only`: no callback runs; `desk.missed` tells a
-- later pump.
---@return boolean more whether there may be more of them
---@return boolean changed whether the state or the log may have changed
local function pass_on_handles(desk, wakes_only)
    local ends_at = now() + WITHIN
    for _ = 1, AT_ONCE do
        local handle, changed = desk.core:next()
        if not handle then
            desk.missed = desk.missed or wakes_only and changed
            return false, changed
        end
        local waiter, observer = desk.by_handle[handle], desk.observers[handle]
        if waiter then
            desk.adapter.wake(waiter)
        end
        if wakes_only then
            desk.missed = true
        elseif observer then
            observer:handle_changed()
            if now() >= ends_at then
                break
            end
        end
    end
    return true, true
end

--- The part of pump that runs protected.
local function pass_on(client)
    local desk = client:desk()
    local more, changed = pass_on_handles(desk, false)
    sweep_if_due(client)
    while changed or desk.missed do -- a pump inside a callback may miss some
        if desk.missed then
            desk.missed = false
            tell_observers(desk)
            wait.tell_calls(desk.calls)
        end
        changed = false
        client:drain_log()
        if client:state_changed() then
            if desk.core:state() then
                wait.wake_without_handle(client)
            else
                wait.wake_everybody(client) -- after a fork no handle notifies
            end
            wait.tell_calls(desk.calls) -- no notifications of their own may come
        end
    end
    return more
end

--- Passes on notifications from C, without waiting. Changes that occur while this runs, and what it leaves, make the fd readable
-- again, so no notification is left: handles come first, because taking the last of them clears the fd. After an error (Ctrl-C)
-- all waiters are woken, and the next pump notifies all observers, because notifications may have been taken and not passed on.
---@return boolean # whether there may be more notifications
function wait.pump(client)
    local desk = client:desk()
    if is_deep() then
        return (pass_on_handles(desk, true))
    end
    local thread = coroutine.running() or MAIN
    local depth = depths[thread]
    local ok, more = pcall(pass_on, client)
    if not ok then
        depths[thread] = depth
        desk.missed = true
        wait.wake_everybody(client)
        error(more, 0)
    end
    return more
end

return wait
