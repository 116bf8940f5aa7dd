--- lock.attempt: one acquisition of a lock object, from its request to the hold, or to the answer why there is none.
--
-- For zklock.lock.acquire, and for multis, which ask for several locks before they wait. As long as an attempt lasts the client
-- refers to its hold (`client._attempts[lock]`). An attempt that does not end in a hold of the object must be abandoned.

local class = require "zklock.lock.class"
local core = require "zklock.core"
local ending = require "zklock.lock.ending"
local Hold = require "zklock.hold"
local LockGroups = require "zklock.lock_groups"
local options = require "zklock.options"
local Owner = require "zklock.owner"
local Record = require "zklock.lock.record"
local wait = require "zklock.wait"

local error = error
local format = string.format
local huge, min = math.huge, math.min
local now = core.now
local held_acquisition, new_hold, OPTIMISTIC, TRY = Hold.held_acquisition, Hold.new, Hold.OPTIMISTIC, Hold.TRY
local note, note_held, own = Owner.note, Owner.note_held, Owner.own
local note_record = Record.note
local refuse = LockGroups.refuse
local tell_revoked = ending.tell_revoked

local Lock = class.Lock
local READ = Lock.READ
local attempts = {}

-- Asking --------------------------------------------------------------------------------------------------------------

--- Makes a lock spec of all settings of the object.
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

--- Makes the lock spec on the C side, once for all acquisitions of the object. Other locks of the kind with the same settings
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

--- Asks for the lock. The caller must call _conclude or _abandon afterwards, in any case.
-- @tparam table hold
-- @tparam number|nil block_for for how many seconds this may block until the acquisition is decided
-- @treturn userdata|nil the C acquisition; or nil, message, code
-- @treturn boolean|string whether it is granted already
-- @treturn boolean whether there are notifications for the pump
local function request(self, hold, block_for)
    local client = self._client
    local spec = self._spec
    if not spec then
        local message, code
        spec, message, code = make_spec(self)
        if not spec then
            return nil, message, code
        end
    end
    client._attempts[self] = hold
    local writer = self._twin and self._kind == READ and held_acquisition(own(self._twin, hold.acquirer)) or nil
    -- C puts the acquisition into `hold` before it sends anything, so that Ctrl-C in between finds it there.
    local try, sending = hold.try, client._adapter.sending
    if sending then
        sending(client)
    end
    local acquisition, granted, news, id =
        client._core:acquire(spec, hold, try, try == OPTIMISTIC, hold.count, writer, block_for)
    hold.id = id
    if acquisition and client._adapter.bind and not hold.by_callback then
        client._adapter.bind(hold)
    end
    return acquisition, granted, news
end

attempts.request = request

--- Asks for the lock without waiting, for a multi. The multi concludes it or takes back the record. Returns the results of
-- `request`.
function Lock:_ask(way, acquirer, keep, record)
    local hold = new_hold(way, 1, acquirer, keep)
    note(self, acquirer)
    note_record(record, self, hold, 1)
    return request(self, hold)
end

-- Concluding ----------------------------------------------------------------------------------------------------------

--- Makes the hold the object's. Fails if on_revoke gives it back at once.
-- @treturn true|nil message, code
local function take(self, hold)
    local client = self._client
    local adapter = client._adapter
    self._hold = hold
    note_held(self)
    if hold.keep and adapter.keep then
        adapter.keep(hold)
    end
    if adapter.bind or self._settings.on_lost or self._settings.on_revoke or hold.by_callback then
        hold.observed = true
        wait.observe(client, hold.id, self)
    elseif client._state_listeners[1] then
        wait.attend(client)
    end
    client._attempts[self] = nil
    if self._settings.on_revoke then
        tell_revoked(self, hold) -- for requests that came before there was an observer
        if self._hold ~= hold then
            return nil, format("the %s %s was given back as soon as it was granted: others had asked for it", self._kind.name,
                self._path), "lost"
        end
    end
    return true
end

--- Returns the results of an acquisition that others have kept from the lock. The request itself may be one of them.
local function refused(self, hold, message)
    if Owner.holds(self._client, self._path, hold.acquirer) then
        message = message .. "; the request that asks holds it itself, by another lock object or in another coroutine"
    end
    return nil, message, "timeout"
end

--- Returns nil, message and code for an acquisition whose time is up.
local function timed_out(self, hold, timeout)
    local client = self._client
    local what
    if hold.try then
        what = format("could not try the %s %s", self._kind.name, self._path)
    else
        what = format("could not acquire the %s %s within %s", self._kind.name, self._path, options.in_seconds(timeout))
    end
    if hold.cancelled then
        return client:_not_resumed(what, hold.try)
    elseif hold.try or not client:_is_answered(timeout) then
        return nil, client:_unreachable(what), "disconnected"
    end
    local _, _, message = hold.acquisition:phase()
    if message == nil or message == "" then
        message = "it was not decided in time"
    end
    return refused(self, hold, format("%s: %s", what, message))
end

--- Concludes an acquisition that is decided or whose time is up. Returns true if the object holds now; or nil, message, code.
function Lock:_conclude(hold, timeout)
    if hold.cancelled == "timeout" then
        return timed_out(self, hold, timeout)
    elseif hold.cancelled then
        return nil, format("waiting for the %s %s was cancelled", self._kind.name, self._path), "cancelled"
    elseif hold.acquisition:held() then
        return take(self, hold)
    end
    local phase, code, message = hold.acquisition:phase()
    if phase == nil then
        return nil, code, message -- after a fork, these two are a message and its code
    elseif phase == "waiting" or code == "timeout" and hold.by_callback and not hold.try then
        return timed_out(self, hold, timeout)
    elseif phase == "granted" then
        return nil, format("the lease of the %s %s ran out as it was granted", self._kind.name, self._path), "lost"
    elseif phase == "lost" and code == "max_hold" then
        code = "lost" -- "max_hold" is a reason for on_lost, not a code of acquire
    elseif code == "timeout" then
        return refused(self, hold, message)
    end
    return nil, message, code
end

-- Giving up -----------------------------------------------------------------------------------------------------------

--- Gives up an acquisition, whatever its state. Does nothing the second time.
function Lock:_abandon(hold)
    local client, acquisition = self._client, hold.acquisition
    if client._attempts[self] == hold then
        client._attempts[self] = nil
    end
    if self._hold == hold then
        self._hold = false
    end
    Owner.forget(self, hold)
    if acquisition then
        if hold.observed then
            client._registry.observers[hold.id] = nil
        end
        acquisition:cancel()
    end
end

--- Ends the wait in one acquisition of this lock object.
-- @treturn boolean whether there was a wait to end
function Lock:_cancel()
    local hold = self._client._attempts[self]
    if not hold or hold.cancelled then
        return false
    end
    hold.cancelled = "cancelled"
    if hold.acquisition then
        local waiter = self._client._registry.by_handle[hold.id]
        hold.acquisition:cancel()
        if waiter then
            self._client._adapter.wake(waiter)
        elseif hold.by_callback then
            hold.acquisition:call_owner()
        end
    end
    return true
end

-- From beginning to end -----------------------------------------------------------------------------------------------

--- Whether an acquisition is decided: C reports a result, or the acquisition was cancelled.
local function attempt_decided(hold)
    return hold.cancelled or not hold.acquisition:waits()
end
attempts.decided = attempt_decided

--- Seconds that a try waits until C reports that there is no connection. Its thread may be closing a session.
local OFFLINE_PATIENCE = 0.1
attempts.OFFLINE_PATIENCE = OFFLINE_PATIENCE

--- Asks for the lock and waits. Unless it returns true, the caller must give up the acquisition.
local function attempt(self, hold, timeout)
    local client = self._client
    local ask = self._settings.linger == 0 and client._adapter.may_block_for -- a lingering lock is usually granted at once
    local block_for, deadline = ask and ask() or nil, timeout
    if timeout ~= huge then
        timeout = hold.try and client:_cleanup_timeout() or timeout
        block_for, deadline = block_for and min(block_for, timeout), now() + timeout
    end
    local acquisition, granted, news = request(self, hold, block_for)
    if not acquisition then
        return nil, granted, news
    end
    if news then
        wait.pump(client)
    elseif granted then
        return take(self, hold)
    end
    if hold.try and client._core:state() ~= "connected" then
        deadline = min(deadline, now() + OFFLINE_PATIENCE)
    end
    local decided, message, code = wait.until_decided(client, hold.id, deadline, attempt_decided, hold)
    if decided == nil then
        return nil, message, code
    end
    return self:_conclude(hold, timeout)
end

--- Like attempt, but gives up the acquisition itself if that fails. Runs protected.
local function attempt_or_abandon(self, hold, timeout)
    local granted, message, code = attempt(self, hold, timeout)
    if granted then
        return self
    end
    self:_abandon(hold)
    return nil, message, code
end

--- Runs one acquisition from beginning to end. `timeout` is in seconds; 0 tries. `me` is the running coroutine's acquirer. An
-- error gives up the acquisition. After the protected call nothing is left to do that another error could prevent.
local function acquire(self, timeout, count, keep, me, record)
    local hold = new_hold(timeout == 0 and TRY, count, me, keep)
    note(self, me)
    wait.note_thread(self._client._registry, hold)
    if record then
        note_record(record, self, hold, 1)
    end
    local ok, got, message, code = self._client._protect(attempt_or_abandon, self, hold, timeout)
    if ok then
        if not got then
            refuse(self._settings.group, code)
        end
        return got, message, code
    end
    self:_abandon(hold)
    error(got, 0)
end
attempts.acquire = acquire

return attempts
