--- wait: the one waiting loop, and the pump that feeds it.
--
-- No C function blocks. Whatever has to be waited for is *state* that C keeps (a claim's phase, a query's answer, the
-- client's state), and a wait is: is it decided? — if not, let the adapter suspend us until something may have
-- changed — pump — again. Since state is looked at afresh each time round, a wake-up may come early, twice or for
-- nothing, but must not be missed.
--
-- The pump takes from C which tickets (claims, queries) changed and wakes whoever waits for them, runs callbacks and
-- hands over log lines. Any waiter may run it, and so may the adapter's own pump.

local core = require "zklock.core"
local Owner = require "zklock.owner"
local protect = require "zklock.protect"

local collectgarbage, pcall = collectgarbage, pcall
local now = core.now
local coroutine, error, next, pairs, setmetatable, type = coroutine, error, next, pairs, setmetatable, type
local call, PCALL_YIELDS = protect.call, protect.PCALL_YIELDS

local wait = {}

local WEAK_KEYS = { __mode = "k" }
local WEAK_VALUES = { __mode = "v" }
local WEAK_BOTH = { __mode = "kv" }

--- What a client remembers about those who wait, all of it weakly: a coroutine that nobody will resume, and the locks
-- that only it knew, are collected like anything else.
function wait.new_registry()
    return {
        by_ticket = setmetatable({}, WEAK_VALUES), -- ticket id -> the waiter it concerns
        everybody = setmetatable({}, WEAK_KEYS),   -- all waiters -> what they wait for; the client's state concerns each
        observers = setmetatable({}, WEAK_VALUES), -- ticket id -> the lock that hears of its changes while it is held
        deadlines = setmetatable({}, WEAK_KEYS),   -- all waiters whose wait has an end -> when that is
        overdue = setmetatable({}, WEAK_KEYS),     -- waiters that a sweep has found behind their deadline -> when
        threads = setmetatable({}, WEAK_BOTH),     -- on PUC Lua 5.1: waiters and acquisitions -> their coroutines
        sweep_due = 0,                             -- the time of the next sweep
        missed = false                             -- whether an error has kept a pump from passing on news
    }
end

--- Notes whom the news of a ticket, or of several, concerns.
local function concern(registry, ticket, waiter)
    if type(ticket) == "table" then
        for index = 1, #ticket do
            registry.by_ticket[ticket[index]] = waiter
        end
    elseif ticket then
        registry.by_ticket[ticket] = waiter
    end
end

--- Has `observer:_ticket_changed()` called at the news of a ticket, also while nobody waits for the client.
function wait.observe(client, ticket, observer)
    client._registry.observers[ticket] = observer
    wait.attend(client)
end

--- Sees to it that the adapter's pump runs, if it has one and there is a loop that can run it. A wait does so by itself; but
-- what is granted at once is held without any.
function wait.attend(client)
    local attend = client._adapter.attend
    if attend then
        attend(client)
    end
end

--- For who does not wait, or no longer: whether it is decided once C knows of all that was asked. What needs no request, such as a
-- lock that the client has already, must not depend on what the client's thread did when it was asked for.
local function at_last(client, decided, subject)
    client._core:catch_up()
    return decided(subject) and true or false
end

--- Waits by an adapter that blocks the whole program: there is nobody else to wake anybody, nor to be woken.
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

--- What notices, on Lua 5.4, that a coroutine is closed while it waits: then there is no error. If there is one, whoever waits
-- goes on with it.
local Guard = {}

function Guard:__close(problem)
    if problem == nil and self.waits then
        wait.forsake(self.client, self.waiter)
    end
end

local function new_guard(client, waiter)
    return setmetatable({ client = client, waiter = waiter, waits = true }, Guard)
end

--- For a loop of one round, whose fourth value Lua 5.4 closes, and the others ignore.
local function once(_, done)
    return not done or nil
end

--- The loop around an adapter's wait. What until_decided returns.
local function wait_among_others(client, adapter, waiter, deadline, decided, subject)
    while true do
        local left = deadline - now()
        if left <= 0 then
            return at_last(client, decided, subject)
        end
        local able, message, code = adapter.wait(client, waiter, left)
        if able == nil and code ~= nil then
            if at_last(client, decided, subject) then
                return true
            end
            return nil, message, code
        end
        wait.pump(client)
        if decided(subject) then
            return true
        end
    end
end

--- Notes which coroutine has a waiter, or an acquisition, in one of its local variables, where an error may unwind that coroutine
-- without a trace. See sweep.
function wait.note_thread(registry, thing)
    if not PCALL_YIELDS then
        registry.threads[thing] = coroutine.running()
    end
end

--- Registers a waiter and waits; runs protected.
local function wait_registered(client, adapter, waiter, ticket, deadline, decided, subject)
    local registry = client._registry
    local guard = coroutine.close and new_guard(client, waiter) or nil
    registry.everybody[waiter] = subject
    registry.deadlines[waiter] = deadline
    wait.note_thread(registry, waiter)
    concern(registry, ticket, waiter)
    local outcome, message, code
    for _ in once, nil, nil, guard do
        outcome, message, code = wait_among_others(client, adapter, waiter, deadline, decided, subject)
        if guard then
            guard.waits = false
        end
    end
    registry.everybody[waiter] = nil
    concern(registry, ticket, nil)
    return outcome, message, code
end

--- Gives up a wait that will not go on, with what it waited for.
local function give_up(client, waiter, code)
    local forget = client._adapter.forget
    if forget then
        forget(waiter)
    end
    wait.forsake(client, waiter, code)
end

--- Waits by an adapter that suspends the caller. An error that is raised in the wait goes on after the wait is given up.
local function among_others_until_decided(client, adapter, ticket, deadline, decided, subject)
    local waiter = {}
    local ok, outcome, message, code =
        call(wait_registered, client, adapter, waiter, ticket, deadline, decided, subject)
    if not ok then
        give_up(client, waiter)
        concern(client._registry, ticket, nil)
        error(outcome, 0)
    elseif outcome == nil then
        return nil, message, code
    end
    return outcome
end

--- Waits until `decided(subject)` is true or the deadline has passed.
-- @tparam Client client
-- @tparam number|table|nil ticket id of the claim or query that is waited for, or a list of ids; nil when it is the client's
--   state
-- @tparam number deadline on core.now()'s clock; math.huge for none
-- @tparam function decided looks, changes nothing, does not yield
-- @param subject given to `decided`
-- @treturn boolean|nil true decided, false the deadline passed, nil the adapter cannot wait here
-- @treturn string|nil message in the last case
-- @treturn string|nil code in the last case
function wait.until_decided(client, ticket, deadline, decided, subject)
    if decided(subject) then
        return true
    end
    local adapter = client._adapter
    local here = adapter.here and adapter.here() or adapter
    if here.alone then
        return alone_until_decided(client, here, deadline, decided, subject)
    end
    return among_others_until_decided(client, adapter, ticket, deadline, decided, subject)
end

--- Whether a wait here would block the whole program: then nothing changes meanwhile but by what other processes do.
-- @treturn boolean
function wait.is_alone(client)
    local adapter = client._adapter
    local here = adapter.here and adapter.here() or adapter
    return here.alone == true
end

--- Whether the running coroutine can wait: not in a metamethod __close that coroutine.close calls, unless waits do not yield.
-- @treturn boolean
function wait.is_possible(client)
    local isyieldable = coroutine.isyieldable
    if isyieldable == nil or isyieldable() or wait.is_alone(client) or client._adapter.yields == false then
        return true
    end
    local _, is_main = coroutine.running()
    return is_main == true -- there the adapter knows what to do
end

--- Gives up one acquisition that nobody waits for any more. Should its coroutine go on nevertheless, its answer is `code`.
-- @treturn table|nil the run of a multi that it was part of
local function forsake_hold(client, hold, code)
    hold.cancelled = code
    if hold.claim then
        hold.claim:cancel()
    end
    local lock, run
    for object, attempt in pairs(client._attempts) do
        if attempt == hold then
            lock = object
        end
    end
    if lock then
        client._attempts[lock] = nil
        Owner.forget(lock, hold)
        for _, attempt in pairs(client._attempts) do
            if attempt.current == lock then
                run = attempt
            end
        end
    end
    return run
end

--- For adapters that know that a waiter's coroutine will never run again: gives up what it waited for, now and not when it
-- is collected. Harmless when it has been done. Of coroutine.close, which Lua 5.4 has, no adapter need tell.
-- @tparam Client client
-- @tparam table waiter
-- @tparam string|nil code what an acquisition answers if its coroutine goes on nevertheless; "cancelled" unless given
function wait.forsake(client, waiter, code)
    local subject = client._registry.everybody[waiter]
    client._registry.everybody[waiter] = nil
    local run = nil
    if type(subject) == "userdata" then
        subject:cancel()
    elseif subject and subject.forsake then
        run = subject
    elseif subject and subject.claim then
        run = forsake_hold(client, subject, code or "cancelled")
    end
    if run then
        run:forsake(code or "cancelled")
    end
end

--- Seconds between two sweeps.
local SWEEP = 0.5

--- Seconds for which a waiter may be overdue. A loop that was blocked resumes its waiters late, but before the pump runs twice.
local OVERDUE = 1

--- Whether a coroutine has left the functions that had something in a local variable. Known on PUC Lua 5.1 only.
local function is_unwound(registry, thing)
    local thread = registry.threads[thing]
    return thread ~= nil and (coroutine.status(thread) == "dead" or not core.stands_in(thread, thing))
end

--- Whether a waiter has an acquisition under way and should have gone on long ago.
local function is_overdue(registry, waiter, time)
    local deadline, subject = registry.deadlines[waiter], registry.everybody[waiter]
    if deadline == nil or deadline > time or type(subject) ~= "table" or not (subject.claim or subject.forsake) then
        return false
    end
    local found = registry.overdue[waiter]
    if not found then
        registry.overdue[waiter] = time
    end
    return found ~= nil and time - found >= OVERDUE
end

--- Gives up waits that will not go on: those that an error has ended where they could not be protected, and those whose deadline is
-- long past because nobody resumes their coroutine. The collector would give them up too, but in a program that only waits it may
-- not run. Acquisitions of coroutines that were unwound outside of a wait are given up as well.
local function sweep(client, time)
    local registry, doomed = client._registry, {}
    registry.sweep_due = time + SWEEP
    for waiter in pairs(registry.everybody) do
        if is_unwound(registry, waiter) or is_overdue(registry, waiter, time) then
            doomed[#doomed + 1] = waiter
        end
    end
    for index = 1, #doomed do
        give_up(client, doomed[index], "timeout")
    end
    doomed = {}
    for _, attempt in pairs(client._attempts) do
        if is_unwound(registry, attempt) then
            doomed[#doomed + 1] = attempt
        end
    end
    for index = 1, #doomed do
        local run = doomed[index].forsake and doomed[index] or forsake_hold(client, doomed[index], "cancelled")
        if run then
            run:forsake("cancelled")
        end
    end
end

--- Whether there is anything to sweep and it is time for that; pump does it then.
function wait.is_sweep_due(client)
    local registry = client._registry
    local may_find = next(registry.everybody) ~= nil or not PCALL_YIELDS and next(client._attempts) ~= nil
    return may_find and now() >= registry.sweep_due
end

local function sweep_if_due(client)
    if wait.is_sweep_due(client) then
        sweep(client, now())
    end
end

--- Kilobytes' worth of collection in one step.
local COLLECT = 200

--- Whether it can be seen that the program has stopped the collector: not in PUC Lua 5.1, where a step would start it again.
local SEES_COLLECTOR = pcall(collectgarbage, "isrunning")

--- For pumps, about twice a second: gives up waits of the client that will not go on, and has the collector go on. A program that
-- only waits makes no garbage; so its collector would never come to the locks, and the coroutines with what they wait for, that it
-- has forgotten.
-- @tparam Client|nil client
function wait.collect(client)
    if client then
        sweep_if_due(client)
    end
    if SEES_COLLECTOR and collectgarbage("isrunning") then
        collectgarbage("step", COLLECT)
    end
end

--- Wakes every waiter of a client. Collects them first: waking one may let it run, and end, at once.
function wait.wake_everybody(client)
    local waiters = {}
    for waiter in pairs(client._registry.everybody) do
        waiters[#waiters + 1] = waiter
    end
    for index = 1, #waiters do
        client._adapter.wake(waiters[index])
    end
end

--- Tells every observer that something may have changed.
local function tell_observers(registry)
    local observers = {}
    for _, observer in pairs(registry.observers) do
        observers[#observers + 1] = observer
    end
    for index = 1, #observers do
        observers[index]:_ticket_changed()
    end
end

--- What pump does, protected. `missed`: news may have been taken from C and not passed on.
local function pass_on(client, missed)
    local handle, registry = client._core, client._registry
    local ticket, changed = handle:next()
    while ticket do
        local waiter, observer = registry.by_ticket[ticket], registry.observers[ticket]
        if waiter then
            client._adapter.wake(waiter)
        end
        if observer then
            observer:_ticket_changed()
        end
        ticket, changed = handle:next()
    end
    if missed then
        tell_observers(registry)
    end
    sweep_if_due(client)
    if changed or missed then
        client:_drain_log()
        if client:_state_changed() then
            wait.wake_everybody(client)
        end
    end
end

--- Passes on what C has to say, without waiting. What changes while this runs makes the fd readable again, so that
-- nothing is left lying: tickets come first, because taking the last of them is what clears the fd. After an error (Ctrl-C) all
-- waiters look for themselves, and the next pump tells all observers: the news may have been taken and not passed on.
function wait.pump(client)
    local registry = client._registry
    local missed = registry.missed
    registry.missed = false
    local ok, problem = pcall(pass_on, client, missed)
    if not ok then
        registry.missed = true
        wait.wake_everybody(client)
        error(problem, 0)
    end
end

return wait
