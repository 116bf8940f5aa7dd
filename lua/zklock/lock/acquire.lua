--- acquire: one acquisition of a lock, from its request to a hold, or to the answer why there is none.
--
-- For zklock.lock, and for multis, which ask for several locks before they wait. The hold (zklock.lock.hold) exists from the
-- beginning. As long as it is waited for, the client knows it (`attempts` of zklock.desk, a weak set: if its coroutine is never
-- resumed, it is collected). The code that asks must conclude or abandon it.
--
-- A *record* is for the code that ends an acquisition after an error: a table with the hold, and how many levels it has by this
-- acquisition. Both are noted before anything is asked for, so that the hold shows the result, at whatever instruction the error
-- was raised.

local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local deadlock = require "zklock.lock.deadlock"
local Hold = require "zklock.lock.hold"
local LockGroups = require "zklock.lock_groups"
local options = require "zklock.options"
local wait = require "zklock.wait"

local error, next = error, next
local format = string.format
local huge, min = math.huge, math.min
local core_acquire, now = core.acquire, core.now
local held_acquisition, new_hold = Hold.held_acquisition, Hold.new
local note, note_granted, own, running = caller.note, caller.note_granted, caller.own, caller.running
local note_thread = wait.note_thread
local refuse = LockGroups.refuse

local acquire = {}

-- Records -------------------------------------------------------------------------------------------------------------

--- Makes a record in which nothing is noted yet.
---@param is_part boolean whether it is a part of a multi's acquisition: the program has it when all are granted
---@param within boolean whether with_lock is going to give it back
---@param given? number the timeout of the program, if that covers more than this acquisition
function acquire.new_record(is_part, within, given)
    return { hold = false, level = 0, is_part = is_part, within = within, given = given or false }
end

local function note_record(record, hold, level)
    record.level = level
    record.hold = hold -- last: this makes the record valid
end

--- The same for a new hold.
local function note_new(record, hold)
    if record.within then
        hold._within = 1
    end
    note_record(record, hold, 1)
end

--- Makes a record of all levels of a hold.
function acquire.record_of(hold)
    return { hold = hold, level = hold._levels }
end

--- Releases or gives up the acquisition of a record. Does nothing the second time.
function acquire.take_back(record)
    local hold = record.hold
    if hold and not hold._state then
        hold:_abandon()
    elseif hold and hold._state == "granted" and hold._levels >= record.level then
        hold:begin_release()
    end
end

-- Asking --------------------------------------------------------------------------------------------------------------

--- Makes a lock spec of all settings of the lock.
local function read_spec(self)
    local settings = self._settings
    return core.lock_spec {
        path = self._path,
        mode = self._kind.mode,
        identity = settings.identity,
        acl = settings.acl,
        max_hold = settings.max_hold,
        revocable = settings.on_revoke ~= nil,
        permits = self._permits or nil,
        handoff = settings.handoff,
        linger = settings.linger,
        meter = settings.group.meter
    }
end

--- Makes the lock spec on the C side, once for all acquisitions of the lock. Other locks of the kind with the same settings
-- differ only in their paths (and semaphores in their permits).
local function make_spec(self)
    local specs, mode = self._settings.specs, self._kind.mode
    local like = not self._permits and specs[mode]
    local spec, message, code
    if like then
        spec, message, code = like:with_path(self._path)
    else
        spec, message, code = read_spec(self)
        specs[mode] = spec
    end
    self._spec = spec or false
    return spec, message, code
end

--- Asks for a lock. The caller must call conclude or hold:_abandon afterwards, in any case.
---@param hold zklock.Hold
---@param try string|boolean a way to acquire, see zklock.hold
---@param count number
---@param block_for? number for how many seconds this may block until the acquisition is decided
---@return boolean? # whether it is granted already
---@return boolean|string|nil # whether there are notifications for the pump; only if it is not granted yet; or message
---@return zklock.Code? code
local function request(hold, try, count, block_for)
    local lock = hold._lock
    local settings, spec = lock._settings, lock._spec
    if not spec then
        local message, code
        spec, message, code = make_spec(lock)
        if not spec then
            return nil, message, code
        end
    end
    local writer
    if lock._twin and lock._kind.mode == "read" and hold._caller then
        writer = held_acquisition(own(lock._twin, hold._caller))
    end
    -- C puts the acquisition into `hold` before it sends anything, so that Ctrl-C in between finds it there.
    return core_acquire(settings.core, spec, hold, try, count, writer, block_for)
end

--- Asks for a lock without waiting, for a multi. The multi concludes it or takes back the record. Returns the results of `request`.
function acquire.ask(lock, way, me, keep, record)
    local hold = new_hold(lock, me)
    hold._try, hold._keep = way, keep or false
    note_new(record, hold)
    lock._settings.desk.attempts[hold] = true
    note(hold)
    local granted, message, code = request(hold, way, 1)
    local bind = lock._settings.bind
    if bind and granted ~= nil then
        bind(hold)
    end
    return granted, message, code
end

-- Concluding ----------------------------------------------------------------------------------------------------------

--- Makes a hold of a granted acquisition. Fails if on_revoke gives it back at once.
---@param hold zklock.Hold
---@param record? table its record, if there is one
---@return zklock.Hold?
---@return string? message
---@return zklock.Code? code
local function take(hold, record)
    local lock, me = hold._lock, hold._caller
    local settings = lock._settings
    hold._state = "granted"
    if me and not (record and record.is_part) then
        if me.lasts then
            lock._latest = me
        else
            note_granted(hold, record and record.within)
        end
    end
    if settings.observed or not me then
        local keep = me and hold._keep and lock._settings.desk.adapter.keep
        if keep then
            keep(hold)
        end
        wait.observe(lock._client, hold._acquisition:id(), hold)
        hold:_tell_revoked() -- for requests that came before there was an observer
        if hold._state ~= "granted" then
            return nil, format("the %s %s was given back as soon as it was granted: others had asked for it", lock._kind.name,
                lock._path), "lost"
        end
    elseif settings.listeners[1] then
        wait.attend(lock._client)
    end
    return hold
end

--- Returns the results of an acquisition that others have kept from the lock. The request itself may be one of them.
local function refused(hold, message)
    local lock = hold._lock
    if caller.holds(lock._client, lock._path, hold._caller) then
        message = message .. "; the request that asks holds it itself, by another lock object or in another coroutine"
    end
    return nil, message, "timeout"
end

--- Returns nil, message and code for an acquisition whose time is up. `given` is for the message.
local function timed_out(hold, timeout, given)
    local lock = hold._lock
    local client = lock._client
    local what
    if hold._try then
        what = format("could not try the %s %s", lock._kind.name, lock._path)
    else
        what = format("could not acquire the %s %s within %s", lock._kind.name, lock._path, options.in_seconds(given))
    end
    if hold._cancelled then
        return client:not_resumed(what, hold._try)
    elseif hold._try or not client:is_answered(timeout) then
        return nil, client:unreachable(what), "disconnected"
    end
    local _, _, message = hold._acquisition:phase()
    if message == nil or message == "" then
        message = "it was not decided in time"
    end
    return refused(hold, format("%s: %s", what, message))
end

--- Concludes an acquisition that is decided or whose time is up.
---@param hold zklock.Hold
---@param timeout number
---@param record? table its record, if there is one
---@return zklock.Hold?
---@return string? message
---@return zklock.Code? code
local function conclude(hold, timeout, record)
    local lock, acquisition = hold._lock, hold._acquisition
    local given = record and record.given or timeout
    lock._settings.desk.attempts[hold] = nil
    if hold._cancelled == "timeout" then
        return timed_out(hold, timeout, given)
    elseif hold._cancelled then
        return nil, format("waiting for the %s %s was cancelled", lock._kind.name, lock._path), "cancelled"
    elseif acquisition:held() then
        return take(hold, record)
    end
    local phase, code, message = acquisition:phase()
    if phase == nil then
        return nil, code, message -- after a fork, these two are a message and its code
    elseif phase == "waiting" or code == "timeout" and not hold._caller and not hold._try then
        return timed_out(hold, timeout, given)
    elseif phase == "granted" then
        return nil, format("the lease of the %s %s ran out as it was granted", lock._kind.name, lock._path), "lost"
    elseif phase == "lost" and code == "max_hold" then
        code = "lost" -- "max_hold" is a reason for on_lost, not a code of acquire
    elseif code == "timeout" then
        return refused(hold, message)
    end
    return nil, message, code
end
acquire.conclude = conclude

--- Ends the wait for a hold.
---@return boolean # whether there was a wait to end
function acquire.cancel(hold)
    if hold._state or hold._cancelled then
        return false
    end
    hold._cancelled = "cancelled"
    if hold._acquisition then
        local desk = hold._lock._settings.desk
        local waiter = desk.by_handle[hold._acquisition:id()]
        hold._acquisition:cancel()
        if waiter then
            desk.adapter.wake(waiter)
        elseif not hold._caller then
            hold._acquisition:call_owner()
        end
    end
    return true
end

--- Whether an acquisition is decided: C reports a result, or the acquisition was cancelled.
local function decided(hold)
    return hold._cancelled or not hold._acquisition:waits()
end
acquire.decided, acquire.request = decided, request

-- From beginning to end -----------------------------------------------------------------------------------------------

--- Seconds that a try waits until C reports that there is no connection. Its thread may be closing a session.
local OFFLINE_PATIENCE = 0.1
acquire.OFFLINE_PATIENCE = OFFLINE_PATIENCE

--- Asks for a lock and waits. Gives up the acquisition, and counts the refusal, unless it returns a hold. Runs protected.
---@return zklock.Hold?
---@return string? message
---@return zklock.Code? code
local function attempt(hold, timeout, count, record)
    local lock, deadline = hold._lock, timeout
    local got, message, code
    do -- few variables are alive in the wait: see zklock.wait
        local settings = lock._settings
        local desk, ask = settings.desk, settings.may_block_for
        local block_for = ask and ask() or nil
        if timeout ~= huge then
            local limit = timeout > 0 and timeout or lock._client:cleanup_timeout()
            block_for, deadline = block_for and min(block_for, limit), now() + limit
        end
        if not block_for then -- it is going to wait, unless it is granted at once
            desk.attempts[hold] = true
            if note_thread then
                note_thread(desk, hold)
            end
        end
        note(hold)
        got, message, code = request(hold, timeout == 0, count, block_for)
        if settings.bind and got ~= nil then
            settings.bind(hold)
        end
        if got == false then
            desk.attempts[hold] = true
            if message then -- there are notifications
                wait.pump(lock._client)
            end
            if timeout == 0 and desk.core:state() ~= "connected" then
                deadline = min(deadline, now() + OFFLINE_PATIENCE)
            end
        elseif not block_for then
            desk.attempts[hold] = nil
        end
    end
    if got then
        got, message, code = take(hold, record)
        if got then
            return got
        end
    elseif got == false then
        got, message, code = wait.until_decided(lock._client, hold._acquisition:id(), deadline, decided, hold, true)
        if got ~= nil then
            got, message, code = conclude(hold, timeout, record)
        end
    end
    if not got then
        hold:_abandon()
        refuse(lock._settings.group, code)
    end
    return got, message, code
end

--- Runs an attempt without a record. An error gives the acquisition up. After the protected call nothing is left to do that another
-- error could prevent.
local function run(hold, timeout, count)
    local ok, got, message, code = hold._lock._settings.protect(attempt, hold, timeout, count)
    if not ok then
        hold:_abandon()
        error(got, 0)
    elseif got then
        return got
    end
    return nil, message, code
end

--- What a coroutine does with a lock that has holds already: refuses what would wait for itself, counts the levels of a reentrant
-- lock, and drops what was lost.
---@return boolean # whether it is answered; false: there is nothing that the caller has
---@return zklock.Hold?
---@return string? message
---@return zklock.Code? code
local function use(lock, timeout, count, me, record)
    local hold = own(lock, me)
    while hold and hold._state and not hold._acquisition:held() and hold._caller.thread ~= me.thread do
        hold:_drop_lost() -- no other code would
        hold = own(lock, me)
    end
    local problem = deadlock(lock, hold, timeout, count, me)
    if problem then
        refuse(lock._settings.group, "deadlock")
        return true, nil, problem, "deadlock"
    elseif not hold or lock._settings.desk.core:state() == nil then
        return false
    elseif hold._acquisition:held() then
        local level = hold._levels + 1
        hold._caller = me
        if record then
            note_record(record, hold, level)
        end
        if record and record.is_part then
            return true, hold -- the multi adds the level when it has all members
        elseif not record then
            note_granted(hold)
        end
        hold._levels = level
        return true, hold
    elseif lock._settings.reentrant then
        refuse(lock._settings.group, "lost")
        return true, hold:_give_up_lost()
    end
    hold:_drop_lost()
    return use(lock, timeout, count, me, record)
end

--- Acquires on behalf of the running coroutine.
---@param lock zklock.Lock
---@param timeout number seconds; 0 tries
---@param count number
---@param keep? boolean
---@param record? table in which the acquisition is noted: an error leaves it to the caller, who takes the record back
---@return zklock.Hold?
---@return string? message
---@return zklock.Code? code
function acquire.enter(lock, timeout, count, keep, record)
    local holds, kept = lock._holds, lock._kept
    local me = running(lock._settings.owner)
    if lock._twin or holds and next(holds) or kept and next(kept) then
        local answered, hold, message, code = use(lock, timeout, count, me, record)
        if answered then
            return hold, message, code
        end
    end
    local hold = new_hold(lock, me)
    if timeout == 0 then
        hold._try = true
    end
    if count ~= 1 then
        hold._count = count
    end
    if keep then
        hold._keep = true
    end
    if record then
        note_new(record, hold)
    end
    return (record and attempt or run)(hold, timeout, count, record)
end

return acquire
