--- acquire: one acquisition of a lock, from its request to a hold, or to the answer why there is none.
--
-- For zklock.lock, and for multis, which ask for several locks before they wait. The hold (zklock.hold) exists from the beginning.
-- As long as it is asked for, the client knows it (`client._attempts`, a weak set: if its coroutine is never resumed, it is
-- collected). Whoever asks must conclude or abandon it.
--
-- A *record* is for the code that ends an acquisition after an error: a table with the hold, and how many levels it has by this
-- acquisition. Both are noted before anything is asked for, so that the hold shows the result, at whatever instruction the error
-- was raised.

local caller = require "zklock.caller"
local core = require "zklock.core"
local deadlock = require "zklock.lock.deadlock"
local Hold = require "zklock.hold"
local LockGroups = require "zklock.lock_groups"
local options = require "zklock.options"
local wait = require "zklock.wait"

local error = error
local format = string.format
local huge, min = math.huge, math.min
local now = core.now
local held_acquisition, new_hold, OPTIMISTIC, TRY = Hold.held_acquisition, Hold.new, Hold.OPTIMISTIC, Hold.TRY
local is_used, own, running = caller.is_used, caller.own, caller.running
local refuse = LockGroups.refuse

local acquire = {}

-- Records -------------------------------------------------------------------------------------------------------------

--- Makes a record in which nothing is noted yet.
-- @tparam boolean is_part whether it is a part of a multi's acquisition: the program has it when all are granted
-- @tparam boolean within whether with_lock is going to give it back
function acquire.new_record(is_part, within)
    return { hold = false, level = 0, is_part = is_part, within = within }
end

local function note_record(record, hold, level)
    record.level = level
    record.hold = hold -- last: this makes the record valid
end

--- The same for a new hold.
local function note_new(record, hold)
    hold._whole, hold._within = not record.is_part, record.within and 1
    note_record(record, hold, 1)
end

--- Makes a record of all levels of a hold.
function acquire.record_of(hold)
    return { hold = hold, level = hold._levels }
end

--- Releases or gives up the acquisition of a record. Does nothing the second time.
function acquire.take_back(record)
    local hold = record.hold
    if hold and not hold._granted then
        hold:_abandon()
    elseif hold and not hold._over and hold._levels >= record.level then
        hold:_begin_release()
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
-- @tparam Hold hold
-- @tparam number|nil block_for for how many seconds this may block until the acquisition is decided
-- @treturn userdata|nil the C acquisition; or nil, message, code
-- @treturn boolean|string whether it is granted already
-- @treturn boolean whether there are notifications for the pump
local function request(hold, block_for)
    local lock, me = hold._lock, hold._caller
    local client, spec = lock._client, lock._spec
    if me then
        caller.note(hold)
    end
    if not spec then
        local message, code
        spec, message, code = make_spec(lock)
        if not spec then
            return nil, message, code
        end
    end
    client._attempts[hold] = true
    local writer = lock._twin and lock._kind.mode == "read" and me and held_acquisition(own(lock._twin, me)) or nil
    -- C puts the acquisition into `hold` before it sends anything, so that Ctrl-C in between finds it there.
    local try, sending = hold._try, client._adapter.sending
    if sending then
        sending(client)
    end
    local acquisition, granted, news, id =
        client._core:acquire(spec, hold, try, try == OPTIMISTIC, hold._count, writer, block_for)
    hold._id = id
    if acquisition and client._adapter.bind and me then
        client._adapter.bind(hold)
    end
    return acquisition, granted, news
end

--- Asks for a lock without waiting, for a multi. The multi concludes it or takes back the record. Returns the results of `request`.
function acquire.ask(lock, way, me, keep, record)
    local hold = new_hold(lock, way, 1, me, keep)
    note_new(record, hold)
    return request(hold)
end

-- Concluding ----------------------------------------------------------------------------------------------------------

--- Makes a hold of a granted acquisition. Fails if on_revoke gives it back at once.
-- @treturn Hold|nil message, code
local function take(hold)
    local lock = hold._lock
    local client = lock._client
    local adapter = client._adapter
    client._attempts[hold] = nil
    hold._granted = true
    if hold._whole then
        caller.note_granted(hold, hold._within)
    end
    if hold._keep and hold._caller and adapter.keep then
        adapter.keep(hold)
    end
    if adapter.bind or lock._settings.on_lost or lock._settings.on_revoke or hold._by_callback then
        wait.observe(client, hold._id, hold)
    elseif client._state_listeners[1] then
        wait.attend(client)
    end
    if lock._settings.on_revoke then
        hold:_tell_revoked() -- for requests that came before there was an observer
        if hold._over then
            return nil, format("the %s %s was given back as soon as it was granted: others had asked for it", lock._kind.name,
                lock._path), "lost"
        end
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

--- Returns nil, message and code for an acquisition whose time is up.
local function timed_out(hold, timeout)
    local lock = hold._lock
    local client = lock._client
    local what
    if hold._try then
        what = format("could not try the %s %s", lock._kind.name, lock._path)
    else
        what = format("could not acquire the %s %s within %s", lock._kind.name, lock._path, options.in_seconds(timeout))
    end
    if hold._cancelled then
        return client:_not_resumed(what, hold._try)
    elseif hold._try or not client:_is_answered(timeout) then
        return nil, client:_unreachable(what), "disconnected"
    end
    local _, _, message = hold._acquisition:phase()
    if message == nil or message == "" then
        message = "it was not decided in time"
    end
    return refused(hold, format("%s: %s", what, message))
end

--- Concludes an acquisition that is decided or whose time is up.
-- @treturn Hold|nil message, code
local function conclude(hold, timeout)
    local lock, acquisition = hold._lock, hold._acquisition
    if hold._cancelled == "timeout" then
        return timed_out(hold, timeout)
    elseif hold._cancelled then
        return nil, format("waiting for the %s %s was cancelled", lock._kind.name, lock._path), "cancelled"
    elseif acquisition:held() then
        return take(hold)
    end
    local phase, code, message = acquisition:phase()
    if phase == nil then
        return nil, code, message -- after a fork, these two are a message and its code
    elseif phase == "waiting" or code == "timeout" and hold._by_callback and not hold._try then
        return timed_out(hold, timeout)
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
-- @treturn boolean whether there was a wait to end
function acquire.cancel(hold)
    if hold._granted or hold._over or hold._cancelled then
        return false
    end
    hold._cancelled = "cancelled"
    if hold._acquisition then
        local client = hold._lock._client
        local waiter = client._registry.by_handle[hold._id]
        hold._acquisition:cancel()
        if waiter then
            client._adapter.wake(waiter)
        elseif hold._by_callback then
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

--- Asks for a lock and waits. Unless it returns a hold, the caller must give up the acquisition.
local function attempt(hold, timeout)
    local lock = hold._lock
    local client = lock._client
    local ask = lock._settings.linger == 0 and client._adapter.may_block_for -- a lingering lock is usually granted at once
    local block_for, deadline = ask and ask() or nil, timeout
    if timeout ~= huge then
        timeout = hold._try and client:_cleanup_timeout() or timeout
        block_for, deadline = block_for and min(block_for, timeout), now() + timeout
    end
    local acquisition, granted, news = request(hold, block_for)
    if not acquisition then
        return nil, granted, news
    end
    if news then
        wait.pump(client)
    elseif granted then
        return take(hold)
    end
    if hold._try and client._core:state() ~= "connected" then
        deadline = min(deadline, now() + OFFLINE_PATIENCE)
    end
    local able, message, code = wait.until_decided(client, hold._id, deadline, decided, hold)
    if able == nil then
        return nil, message, code
    end
    return conclude(hold, timeout)
end

--- Like attempt, but gives up the acquisition itself if that fails. Runs protected.
local function attempt_or_abandon(hold, timeout)
    local got, message, code = attempt(hold, timeout)
    if not got then
        hold:_abandon()
    end
    return got, message, code
end

--- Runs one acquisition. `timeout` is in seconds; 0 tries. An error gives it up. After the protected call nothing is left to do
-- that another error could prevent.
local function run(lock, timeout, count, keep, me, record)
    local hold = new_hold(lock, timeout == 0 and TRY, count, me, keep)
    wait.note_thread(lock._client._registry, hold)
    if record then
        note_new(record, hold)
    end
    local ok, got, message, code = lock._client._protect(attempt_or_abandon, hold, timeout)
    if ok then
        if not got then
            refuse(lock._settings.group, code)
        end
        return got, message, code
    end
    hold:_abandon()
    error(got, 0)
end

--- Acquires on behalf of the running coroutine: refuses what would wait for itself, counts the levels of a reentrant lock, and
-- otherwise runs an acquisition. A refusal is counted where it is decided.
-- @tparam Lock lock
-- @tparam number timeout
-- @tparam number count
-- @tparam boolean|nil keep
-- @tparam table|nil record in which the acquisition is noted
-- @treturn Hold|nil message, code
function acquire.enter(lock, timeout, count, keep, record)
    local me = running(lock._client)
    if not lock._twin and not is_used(lock) then
        return run(lock, timeout, count, keep, me, record) -- a shortcut: there is nothing to find
    end
    local hold = own(lock, me)
    while hold and hold._granted and hold._caller.thread ~= me.thread and not hold._acquisition:held() do
        hold:_drop_lost() -- no other code would
        hold = own(lock, me)
    end
    local problem = deadlock(lock, hold, timeout, count, me)
    if problem then
        refuse(lock._settings.group, "deadlock")
        return nil, problem, "deadlock"
    elseif not hold or lock._client._core:state() == nil then
        return run(lock, timeout, count, keep, me, record)
    elseif hold._acquisition:held() then
        local level = hold._levels + 1
        hold._caller = me
        if record then
            note_record(record, hold, level)
        end
        if record and record.is_part then
            return hold -- the multi adds the level when it has all members
        elseif not record then
            caller.note_granted(hold)
        end
        hold._levels = level
        return hold
    elseif lock._settings.reentrant then
        refuse(lock._settings.group, "lost")
        return hold:_give_up_lost()
    end
    hold:_drop_lost()
    return acquire.enter(lock, timeout, count, keep, record)
end

return acquire
