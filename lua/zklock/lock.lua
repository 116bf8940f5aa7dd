--- lock: something that is acquired and released.
--
-- `Client:mutex` makes a lock. The two halves of a read/write lock (`RwLock`) are locks too, and a `Semaphore` is one. Two
-- objects on one path exclude each other, also within one client. Times are in seconds. Keep a reference to a lock while it is
-- held: a lock object that is garbage-collected gives up its hold.
--
-- Any number of coroutines (inside nginx: of requests) may use one object, for example one that a module keeps. Each coroutine
-- acquires for itself and waits for the others. `held`, `token`, `release` and the other methods are about what the running
-- coroutine holds. If a coroutine has never called acquire, try_acquire or with_lock of the object, they are about the hold
-- that it was given: the only hold of the object. If the object has several holds, such a coroutine has none of them. `acquire`
-- returns a lock with all methods that stands for this acquisition, and `with_lock` passes such a lock to its function. It is
-- the object itself, or a similar object if other coroutines use the object.

-- Implementation.
--
-- The C side decides which locks may be held at the same time, by the mode that a lock asks for. So all locks are this one
-- class with a different *kind* (Lock.MUTEX, …). zklock.semaphore adds what only semaphores have. This file decides who may ask
-- when (one acquisition of an object at a time), keeps deadlines, and notifies the program.
--
-- A *hold* (zklock.hold) is one acquisition as Lua sees it, from its request to its end. `hold.acquisition` is its handle on
-- the C side. A lock object has at most one hold (`_hold`) or one attempt at one (`client._attempts[lock]`).
-- The table of attempts is weak. If an attempt's coroutine is never resumed, or an error ended it where waits cannot be
-- protected, the attempt and its C acquisition are collected and the object is free again. Further coroutines use
-- companions, lock objects behind this one. zklock.owner finds the right object. Public methods ask it first. All other
-- functions are about one object.

local core = require "zklock.core"
local Hold = require "zklock.hold"
local node = require "zklock.node"
local options = require "zklock.options"
local Owner = require "zklock.owner"
local Transaction = require "zklock.transaction"
local wait = require "zklock.wait"

local error, getmetatable, pairs, pcall, setmetatable, type = error, getmetatable, pairs, pcall, setmetatable, type
local format = string.format
local huge, min = math.huge, math.min
local now, REVOKE = core.now, core.REVOKE
local held_acquisition, new_hold, present = Hold.held_acquisition, Hold.new, Hold.present
local meant, own, running_acquirer = Owner.meant, Owner.own, Owner.running

local Lock = {}
Lock.__index = Lock

--- The settings of acquire, for every kind but semaphores.
local ACQUIRE_SCHEMA = { timeout = { options.timeout, huge }, keep = { options.boolean } }

--- The settings of try_acquire, for every kind but semaphores.
local TRY_SCHEMA = { keep = { options.boolean } }

--- The kinds. `name` is for messages, `mode` is the kind's name on the C side. `schema` describes the settings of acquire,
-- `try_schema` those of try_acquire.
Lock.MUTEX = { name = "mutex", mode = "mutex", schema = ACQUIRE_SCHEMA, try_schema = TRY_SCHEMA }
Lock.READ = { name = "read lock", mode = "read", schema = ACQUIRE_SCHEMA, try_schema = TRY_SCHEMA }
Lock.WRITE = { name = "write lock", mode = "write", schema = ACQUIRE_SCHEMA, try_schema = TRY_SCHEMA }

--- The metatables of locks: this class and those that extend it.
local classes = { [Lock] = true }

--- Returns a class with all methods of a lock. Its own methods take precedence.
function Lock.extend()
    local class = setmetatable({ __tostring = Lock.__tostring, __close = Lock.__close }, { __index = Lock })
    class.__index = class
    classes[class] = true
    return class
end

--- Whether a value is a lock of any kind.
function Lock.is_lock(value)
    return classes[getmetatable(value)] ~= nil
end

--- Makes a lock, for Client:mutex and similar methods. `settings` have been checked. `class` is Lock or a class that extends it.
function Lock.new(class, client, kind, path, settings)
    return setmetatable({
        _client = client,
        _kind = kind,
        _path = path,
        _identity = settings.identity,
        _acl = settings.acl,
        _reentrant = settings.reentrant,
        _wait_release = settings.wait_release,
        _max_hold = settings.max_hold,
        _handoff = settings.handoff,
        _linger = settings.linger,
        _lingers = settings.linger ~= nil and settings.linger > 0,
        -- An absent field is false, so that Lua does not look for it in the class.
        _on_lost = settings.on_lost or false,
        _on_revoke = settings.on_revoke or false,
        -- The lock spec on the C side, made at the first acquisition.
        _spec = false,
        _permits = false, -- the permits of a semaphore
        _twin = false,    -- the other half of a read/write lock
        _acquirer = false,   -- the first acquirer that asked for the object
        _acquirers = false,  -- all other acquirers that asked for it
        _others = false,  -- the companions in use, by their acquirers
        _latest = false,  -- the companion that was granted last, in a weak table
        _origin = false,  -- of a companion: the object
        _hold = false
    }, class)
end

--- Raises at the caller of the public method if it was called with a dot instead of a colon.
local function check_self(self, method)
    if not classes[getmetatable(self)] then
        error(format("lock:%s: call it with a colon on a lock", method), 3)
    end
end

-- The end of a hold
-- ----------------------------------------------------------------------------------------------------------

--- Ends the object's hold. Whatever the server still has of it is cleaned up in the background.
-- @tparam number|nil block_for for how many seconds this may block until the clean-up is complete
-- @tparam boolean|nil if_held true: only if the object holds at this instant
-- @treturn boolean|nil true: nothing is left to clean up or to report; false: something is; nil: the object does not hold
local function drop(self, block_for, if_held)
    local hold, client = self._hold, self._client
    -- C records the end in the same step. It sets `released` if the hold was held, and removes the hold from object and
    -- observers.
    local settled, news = hold.acquisition:release(block_for, if_held, self, hold.observed and client._registry.observers)
    if settled == nil and if_held then
        return nil
    end
    Owner.forget(self, hold)
    if news then
        wait.pump(client)
    end
    return settled
end

--- The reason why a hold was lost, as C reports it.
function Lock:_lost_message(hold)
    local phase, _, message = hold.acquisition:phase()
    if phase == "lost" and message ~= "" then
        return message
    elseif phase == "released" then
        return format("the %s %s was released when the request ended that had acquired it: acquire it with keep = true if it is " ..
            "to be held for longer", self._kind.name, self._path)
    end
    return format("the %s %s was lost", self._kind.name, self._path)
end

--- Runs on_revoke if the lock has been asked for since on_revoke ran last.
local function tell_revoked(self, hold)
    local asked = self._on_revoke and hold.acquisition:revocations() or 0
    if asked > hold.asked then
        hold.asked = asked
        self._client:_run_callback("on_revoke", self._on_revoke, self)
    end
end

--- Runs on_lost for a hold that is lost.
local function tell_lost(self, hold, reason, message)
    hold.told = true
    if self._on_lost then
        self._client:_run_callback("on_lost", self._on_lost, self, reason, message)
    end
end

--- Notifies the program of a change of its hold: another contender asks for the lock, or the hold has ended. The end is reported
-- once, by the first to notice: the pump, which calls this when the acquisition changed, or a caller before the pump.
function Lock:_handle_changed()
    local hold = present(self)
    if not hold or hold.told then
        return
    elseif hold.acquisition:held() then
        return tell_revoked(self, hold)
    end
    local phase, code = hold.acquisition:phase()
    if phase ~= "released" then
        tell_lost(self, hold, phase == "lost" and code or "lost", self:_lost_message(hold))
    -- The adapter released it because its request has ended: nothing is going to use the companion.
    elseif self._origin then
        drop(self)
    end
end

--- Drops a hold that is lost. Runs on_lost first, which may have dropped the hold itself, or may have acquired anew.
local function drop_lost(self)
    local hold = self._hold
    self:_handle_changed()
    if self._hold == hold then
        drop(self)
    end
end

--- Returns "lost" to a caller and makes the object usable again.
local function give_up_lost(self)
    local message = self:_lost_message(self._hold)
    drop_lost(self)
    return nil, message, "lost"
end

-- Acquiring -----------------------------------------------------------------------------------------------------------

--- Whether an acquisition is decided: C reports a result, or the acquisition was cancelled.
local function attempt_decided(hold)
    return hold.cancelled or not hold.acquisition:waits()
end

--- Returns nil, message and code for an acquisition whose time is up.
local function timed_out(self, hold, timeout)
    local client = self._client
    local what
    if hold.try then
        what = format("could not try the %s %s", self._kind.name, self._path)
    else
        what = format("could not acquire the %s %s within %g s", self._kind.name, self._path, timeout)
    end
    if hold.try or client._core:state() ~= "connected" then
        return nil, client:_unreachable(what), "disconnected"
    end
    local _, _, message = hold.acquisition:phase()
    if message == nil or message == "" then
        message = "it was not decided in time"
    end
    return nil, format("%s: %s", what, message), "timeout"
end

--- Ways to acquire. WAIT waits. TRY is refused if it would have to wait, and writes nothing then. The optimistic try
-- joins first and looks afterwards. That saves a round trip if the queue is empty, and leaves a node to clean up if it is not.
local TRY, OPTIMISTIC = "try", "optimistic"
Lock.WAIT, Lock.TRY, Lock.OPTIMISTIC = false, TRY, OPTIMISTIC

--- Makes the lock spec on the C side, once for all acquisitions of the object.
local function make_spec(self)
    local spec, message, code = core.lock_spec(self._path, self._kind.mode, self._identity, self._acl, self._max_hold,
        self._on_revoke ~= false, self._permits or nil, self._handoff, self._linger)
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
    local writer = self._twin and self._kind == Lock.READ and held_acquisition(own(self._twin, hold.acquirer)) or nil
    -- C puts the acquisition into `hold` before it sends anything, so that Ctrl-C in between finds it there.
    local try = hold.try
    local acquisition, granted, news = client._core:acquire(spec, hold, try, try == OPTIMISTIC, hold.count, writer, block_for)
    if acquisition and client._adapter.bind then
        client._adapter.bind(hold)
    end
    return acquisition, granted, news
end

--- Makes the hold the object's. Fails if on_revoke gives it back at once.
-- @treturn true|nil message, code
local function take(self, hold)
    local client = self._client
    local adapter = client._adapter
    self._hold = hold
    Owner.note_held(self)
    if hold.keep and adapter.keep then
        adapter.keep(hold)
    end
    if adapter.bind or self._on_lost or self._on_revoke then
        hold.observed = true
        wait.observe(client, hold.acquisition:id(), self)
    elseif client._state_listeners[1] then
        wait.attend(client)
    end
    client._attempts[self] = nil
    if self._on_revoke then
        tell_revoked(self, hold) -- for requests that came before there was an observer
        if self._hold ~= hold then
            return nil, format("the %s %s was given back as soon as it was granted: others had asked for it", self._kind.name,
                self._path), "lost"
        end
    end
    return true
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
    elseif phase == "waiting" then
        return timed_out(self, hold, timeout)
    elseif phase == "granted" then
        return nil, format("the lease of the %s %s ran out as it was granted", self._kind.name, self._path), "lost"
    elseif phase == "lost" and code == "max_hold" then
        code = "lost" -- "max_hold" is a reason for on_lost, not a code of acquire
    end
    return nil, message, code
end

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
            client._registry.observers[acquisition:id()] = nil
        end
        acquisition:cancel()
    end
end

--- Seconds that a try waits until C reports that there is no connection. C notices nothing while it resolves a host name.
local OFFLINE_PATIENCE = 0.1

--- Asks for the lock and waits. Unless it returns true, the caller must give up the acquisition.
local function attempt(self, hold, timeout)
    local client = self._client
    local ask = not self._lingers and client._adapter.may_block_for -- a lingering lock is usually granted at once
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
    local decided, message, code = wait.until_decided(client, acquisition:id(), deadline, attempt_decided, hold)
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

--- Notes an acquisition in a *record*, for the code that ends the acquisition after an error. A record names the lock object,
-- the hold, and how many levels the hold has by this acquisition. All of it is noted before anything is asked for, and does not
-- change afterwards. So the lock object shows the result of the acquisition, at whatever instruction the error was raised.
local function note_record(record, lock, hold, level)
    record.lock, record.level = lock, level
    record.hold = hold -- last, in a separate statement: this makes the record valid
end

function Lock.new_record()
    return { lock = false, hold = false, level = 0 }
end

--- Asks for the lock without waiting, for a multi. The multi concludes it or takes back the record. Returns the results of
-- `request`.
function Lock:_ask(way, acquirer, keep, record)
    local hold = new_hold(way, 1, acquirer, keep)
    Owner.note(self, acquirer)
    note_record(record, self, hold, 1)
    return request(self, hold)
end

--- Makes a record of the object's hold; an empty record if there is none.
function Lock:_record_of_hold()
    local record, hold = Lock.new_record(), present(self)
    if hold then
        note_record(record, self, hold, hold.levels)
    end
    return record
end

--- Releases or gives up the acquisition of a record. Does nothing the second time.
function Lock.take_back(record)
    local lock, hold = record.lock, record.hold
    if not hold then
        return
    elseif lock._client._attempts[lock] ~= hold and present(lock) == hold then
        if hold.levels >= record.level then
            lock:_begin_release()
        end
    elseif record.level == 1 then
        lock:_abandon(hold)
    end
end

--- Runs one acquisition from beginning to end. `timeout` is in seconds; 0 tries. `me` is the running coroutine's acquirer. An
-- error gives up the acquisition. After the protected call nothing is left to do that another error could prevent.
local function acquire(self, timeout, count, keep, me, record)
    local hold = new_hold(timeout == 0 and TRY, count, me, keep)
    Owner.note(self, me)
    wait.note_thread(self._client._registry, hold)
    if record then
        note_record(record, self, hold, 1)
    end
    local ok, got, message, code = self._client._protect(attempt_or_abandon, self, hold, timeout)
    if ok then
        return got, message, code
    end
    self:_abandon(hold)
    error(got, 0)
end

--- Whether a lock object is held by a coroutine that cannot go on while this coroutine waits.
local function is_held_above(lock, me, alone)
    local hold = lock and held_acquisition(lock) and lock._hold
    return hold and (alone and hold.acquirer ~= me or Owner.is_above(hold.acquirer, me)) or false
end

--- Whether is_held_above is true of one of the locks that hold through an object. Where other coroutines can run, only the
-- object and the companion that was granted last are checked, because there may be many.
local function any_held_above(object, me, alone)
    if not alone then
        return is_held_above(object, me) or object._latest and is_held_above(object._latest.lock, me)
    end
    for lock in Owner.each(object) do
        if is_held_above(lock, me, true) then
            return true
        end
    end
    return false
end

--- Whether waiting for `count` permits would block the coroutines that hold them through the same object. For a semaphore this
-- is known only where no other coroutine can run.
local function waits_for_itself(self, count, me)
    local object, alone = self._origin or self, wait.is_alone(self._client)
    if self._permits then
        local taken = count
        for lock in Owner.each(object) do
            taken = taken + (held_acquisition(lock) and lock._hold.count or 0)
        end
        return alone and taken > self._permits
    elseif alone and self._client._attempts[object] then
        return true -- a callback called during that attempt's wait acquires
    end
    return self._kind ~= Lock.READ and any_held_above(object, me, alone) or self._twin and
        (self._kind == Lock.WRITE or not held_acquisition(own(self._twin, me))) and any_held_above(self._twin, me, alone)
end

--- Returns a message if an acquisition of `count` permits would wait for itself; otherwise nil.
-- @tparam number timeout seconds; 0 does not wait
-- @tparam number count
-- @tparam table me the running coroutine's acquirer; this lock object belongs to it
function Lock:_deadlock(timeout, count, me)
    local hold = self._hold
    if self._client._attempts[self] then
        return format("the %s %s is already being acquired by this object", self._kind.name, self._path)
    elseif not hold then
        if self._kind == Lock.WRITE and held_acquisition(own(self._twin, me)) then
            return format("the write lock %s cannot be acquired while this object's read lock is held: it would wait for itself",
                self._path)
        elseif timeout > 0 and waits_for_itself(self, count, me) then
            return format("the %s %s would wait for itself: this object holds in a coroutine that cannot go on meanwhile",
                self._kind.name, self._path)
        end
        return nil
    elseif not hold.acquisition:held() then
        return nil
    elseif not self._reentrant then
        return format("the %s %s is already held by this object", self._kind.name, self._path)
    elseif count > hold.count then
        return format("the %s %s is held by this object with a count of %d and cannot be acquired again with one of %d",
            self._kind.name, self._path, hold.count, count)
    end
    return nil
end

--- Acquires by the running coroutine's lock object, after dealing with the hold that the object already has.
local function enter_placed(self, timeout, count, keep, me, record)
    local deadlock = self:_deadlock(timeout, count, me)
    local hold = present(self)
    if deadlock then
        return nil, deadlock, "deadlock"
    elseif not hold or self._client._core:state() == nil then
        return acquire(self, timeout, count, keep, me, record)
    elseif hold.acquisition:held() then
        local level = hold.levels + 1
        Hold.strengthen(self, hold) -- from now on the multi is not its only owner
        hold.acquirer = me
        if record then
            note_record(record, self, hold, level)
        end
        hold.levels = level
        return self
    elseif self._reentrant then
        return give_up_lost(self)
    end
    drop_lost(self)
    return enter_placed(Owner.place(self, me), timeout, count, keep, me, record)
end

--- Whether a hold has ended and no code is left that could ask for its result: its coroutine or its request has ended.
local function is_left_behind(hold, me)
    local acquirer = hold.acquirer
    return not hold.acquisition:held() and (Owner.is_gone(acquirer) or acquirer ~= me and hold.acquisition:phase() == "released")
end

--- Acquires on behalf of the running coroutine.
-- @tparam number timeout
-- @tparam number count
-- @tparam boolean|nil keep
-- @tparam table|nil record in which the acquisition is noted
-- @treturn Lock|nil the lock object that holds; nil, message, code
local function enter(self, timeout, count, keep, record)
    local me = running_acquirer(self._client)
    if not self._hold and not self._others and not self._twin and not self._origin and not self._client._attempts[self] then
        return acquire(self, timeout, count, keep, me, record) -- a shortcut: _deadlock would find nothing
    end
    local hold = present(self)
    if hold and is_left_behind(hold, me) then
        drop_lost(self) -- no other code would drop it
    end
    return enter_placed(Owner.place(self, me), timeout, count, keep, me, record)
end
Lock._enter = enter

--- Returns the number of permits that the settings ask for: 1 except for semaphores.
-- @treturn number; or nil and what is wrong
local function read_count(self, settings)
    local count = settings.count or 1
    if self._permits and count > self._permits then
        return nil, format("count must not be more than the semaphore's permits (%d of %d)", count, self._permits)
    end
    return count
end

--- Reads the argument of acquire and with_lock: nil, seconds, or a table of the kind's settings.
-- @treturn number seconds, count and whether to keep; or nil and what is wrong
local function read_acquire(self, given)
    if given == nil then
        return huge, 1
    elseif type(given) == "number" and given >= 0 then
        return given, 1
    end
    local settings, wrong = options.read_timeout_or_table(given, self._kind.schema)
    if not settings then
        return nil, wrong
    end
    local count
    count, wrong = read_count(self, settings)
    if not count then
        return nil, wrong
    end
    return settings.timeout, count, settings.keep
end
Lock._read_acquire = read_acquire

--- Acquires the lock and waits for it if necessary.
--
-- One deadline covers everything: waiting for a connection, waiting for other holders, reconnecting, retrying. When the
-- deadline passes, the place in the queue is given up in the background.
--
-- If the running coroutine already holds by this object, or is acquiring by it, the answer is "deadlock" at once, except for a
-- reentrant lock that is held. If another coroutine holds by the same object, acquire waits for it. The answer is "deadlock" if
-- that coroutine could not go on meanwhile. If an earlier hold was lost unnoticed, a new hold begins. A reentrant lock first
-- answers "lost" once, because the caller may be inside the lost hold.
--
-- A read/write lock can be downgraded but not upgraded. If this coroutine holds the write half, the read half of the same
-- object is granted at once. Releasing the write half then lets other readers in, and no other writer. If this coroutine holds
-- the read half, the write half is refused with "deadlock", because an upgrade would wait for itself.
--
-- Lua 5.4: `local held <close> = assert(lock:acquire(5))` releases the lock at the end of the block if it is still held, unless
-- another coroutine has acquired the object since. A reentrant lock is released by one level. If the block has already released
-- that level, an outer level is released. with_lock does not do that.
--
-- In nginx the hold ends with the request, or the timer handler, that acquires it. With `keep = true` it does not. Elsewhere
-- `keep` has no effect.
--
-- @tparam number|table|nil timeout seconds, 0 or more, or `{timeout = seconds, keep = boolean}`; nil: no limit; 0: as
--   try_acquire. A semaphore also takes `count`, the number of permits, which are granted together or not at all: 1 to 1000,
--   default 1
-- @treturn Lock|nil the lock that stands for this hold: the object itself, unless other coroutines are using it
-- @treturn string|nil message
-- @treturn string|nil code: "timeout" (another contender has the lock), "disconnected" (no connection to ZooKeeper when time
--   was up), "cancelled", "deadlock", "lost" (granted, and lost or given back by on_revoke before this returned), "mismatch"
--   (the semaphore was made for another number of permits), "no_auth", "auth_failed", "exhausted", "closed", "forked", "phase",
--   "failed"
-- @raise when the timeout is malformed; an error raised while waiting (Ctrl-C) is raised again after the acquisition is given
--   up
function Lock:acquire(timeout)
    if not classes[getmetatable(self)] then
        check_self(self, "acquire") -- checked inline, because some programs spend most of their calls on this and release
    end
    local seconds, count, keep = huge, 1, nil
    if timeout ~= nil then
        seconds, count, keep = read_acquire(self, timeout)
        if not seconds then
            error("lock:acquire: " .. count, 2)
        end
    end
    return enter(self, seconds, count, keep)
end

--- Acquires the lock if it is free and no contender is ahead. A refused try has written nothing. Without a connection the answer
-- is "disconnected" at once.
--
-- A lock that lingers at another client (option `linger`) looks like a held one. The try is refused, and because it writes
-- nothing, the lock stays there. The other client gives it up when a contender queues: call acquire with a short timeout.
-- @tparam table|nil settings `{keep = boolean}`, see acquire; a semaphore also takes `count`, the number of permits
-- @treturn Lock|nil
-- @treturn string|nil message
-- @treturn string|nil code as of acquire: "timeout" when another contender has the lock
-- @raise when settings are malformed
function Lock:try_acquire(settings)
    check_self(self, "try_acquire")
    local read, wrong = options.read(settings, self._kind.try_schema)
    local count
    if read then
        count, wrong = read_count(self, read)
    end
    if not count then
        error("lock:try_acquire: " .. wrong, 2)
    end
    return enter(self, 0, count, read.keep)
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
        local waiter = self._client._registry.by_handle[hold.acquisition:id()]
        hold.acquisition:cancel()
        if waiter then
            self._client._adapter.wake(waiter)
        end
    end
    return true
end

--- Ends the waits of other coroutines in this object's acquire, which answers "cancelled". If no coroutine waits, this has no
-- effect, now or later. Inside nginx, where several requests use the object, only the waits of the calling request end.
-- @treturn boolean whether there was a wait to end
function Lock:cancel()
    check_self(self, "cancel")
    local waiting, cancelled = {}, false
    local cancels = Owner.cancels(self, running_acquirer(self._client))
    for lock, hold in pairs(self._client._attempts) do
        if (lock == self or lock._origin == self) and cancels(hold.acquirer) then
            waiting[#waiting + 1] = lock
        end
    end
    for index = 1, #waiting do
        cancelled = waiting[index]:_cancel() or cancelled
    end
    return cancelled
end

-- Releasing -----------------------------------------------------------------------------------------------------------

--- Begins the end of one level of the object's hold.
-- @tparam number|nil block_for for how many seconds this may block until the hold has ended
-- @treturn table|true|nil the hold, if the server has to acknowledge its end; true if there is nothing to wait for; or nil,
--   message, code
local function begin_release(self, block_for)
    local hold = present(self)
    if hold and hold.levels == 1 then
        local settled = drop(self, block_for, true)
        if settled ~= nil then
            return settled or hold
        end
    elseif hold and hold.acquisition:held() then
        hold.levels = hold.levels - 1
        return true
    end
    local state, problem, code = self._client._core:state()
    if state == nil then
        return nil, problem, code
    elseif hold then
        return give_up_lost(self)
    end
    return nil, format("the %s %s is not held", self._kind.name, self._path), "not_held"
end
Lock._begin_release = begin_release

--- The answer to a coroutine that holds nothing through the object, while other coroutines do.
function Lock:_not_yours()
    local state, problem, code = self._client._core:state()
    if state == nil then
        return nil, problem, code
    end
    local hold = present(self)
    if hold and hold.acquisition:phase() == "released" then
        return nil, self:_lost_message(hold), "not_held"
    end
    return nil, format("the %s %s is not held by this coroutine, but by another one through the same object", self._kind.name,
        self._path), "not_held"
end

--- Returns the lock object that a call of the running coroutine is about; nil if the object's hold is not for that coroutine.
local function meant_here(self)
    return meant(self, running_acquirer(self._client))
end
Lock._meant = meant_here

--- Returns the C acquisition by which the running coroutine holds at this instant, or nil.
local function held_here(self)
    return held_acquisition(meant_here(self))
end

--- Waits until the server has acknowledged the end of a hold, or until `deadline` on core.now()'s clock. `seconds` is the limit
-- of the release, for the message.
function Lock:_await_release(hold, deadline, seconds)
    local client, acquisition = self._client, hold.acquisition
    local done, message, code = wait.until_decided(client, acquisition:id(), deadline, acquisition.finished, acquisition)
    if done and acquisition:released() then
        return true
    elseif done then
        local phase
        phase, code, message = acquisition:phase()
        if phase == nil then
            return nil, code, message -- as in _conclude
        elseif code == "lost" then
            tell_lost(self, hold, code, message)
        end
        return nil, message, code
    elseif done == nil then
        return nil, message, code
    end
    local what = format("release of the %s %s not acknowledged within %g s", self._kind.name, self._path, seconds)
    return nil, client:_unreachable(what), "disconnected"
end

--- Ends one level of the object's hold.
-- @tparam boolean wait_for_server
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
local function leave(self, wait_for_server, timeout)
    local ask = wait_for_server and not self._lingers and self._client._adapter.may_block_for
    local block_for, begun = ask and ask() or nil, timeout and now()
    if timeout and block_for then
        block_for = min(block_for, timeout)
    end
    local hold, message, code = begin_release(self, block_for)
    if not hold then
        return nil, message, code
    elseif hold == true or not wait_for_server then
        return true
    end
    local seconds = self._client:_release_timeout(timeout)
    return self:_await_release(hold, (begun or now()) + seconds, seconds)
end

local RELEASE_SCHEMA = { wait = { options.boolean }, timeout = { options.timeout } }

--- Releases the lock; a reentrant lock, by one level. Waits until the server has acknowledged the release, unless told not to,
-- but never longer than the session timeout. After that the node is deleted in the background.
--
-- A coroutine also releases what another coroutine has acquired by the same object, if it has never acquired by the object
-- itself, or if the other coroutine has ended. Inside nginx a request does not release the hold of another request. In all
-- other cases the answer is "not_held".
-- @tparam table|nil settings `{wait = false}` returns at once; default: the lock's option wait_release. `{timeout = seconds}`
--   waits no longer than that; default and maximum: the session timeout
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code: "not_held"; "lost" (the hold had ended before; sometimes this shows only when the server finds no
--   node to delete. It is reported once, then the object is usable again. A release that does not wait does not report it);
--   "disconnected" (not acknowledged; the release goes on in the background); "no_auth" (the server refuses to delete the node,
--   which stays until the client closes); "forked"
-- @raise when settings are malformed
function Lock:release(settings)
    if not classes[getmetatable(self)] then
        check_self(self, "release")
    end
    local wait_for_server, timeout = self._wait_release, nil
    if settings ~= nil then
        local read, wrong = options.read(settings, RELEASE_SCHEMA)
        if not read then
            error("lock:release: " .. wrong, 2)
        end
        if read.wait ~= nil then
            wait_for_server = read.wait
        end
        timeout = read.timeout
    end
    local lock = meant_here(self)
    if not lock then
        return self:_not_yours()
    end
    return leave(lock, wait_for_server, timeout)
end

--- Finds the lock that the end of a with_lock has to release. with_lock had the object by this hold, `level` levels deep. If the
-- function released its own level, or more, nothing is left to release. If it acquired anew in the same coroutine, that is
-- released.
-- @treturn Lock|nil nil if there is nothing to release
function Lock:_ends(hold, level)
    local current = present(self)
    if current == hold then
        return current ~= nil and hold.levels >= level and self or nil
    elseif level > 1 then
        return nil
    end
    local me = running_acquirer(self._client)
    local anew = own(self, me)
    return anew and anew._hold and anew._hold.acquirer == me and anew or nil
end

--- Finds the lock that the end of a block has to release: the lock object by which this coroutine holds; otherwise the object
-- itself, if this coroutine was given its hold.
-- @treturn Lock|nil nil if there is nothing to release
function Lock:_closes()
    local me = running_acquirer(self._client)
    local mine = own(self, me)
    if mine and mine._hold and mine._hold.acquirer == me then
        return mine
    end
    return Owner.given(self, me)
end

--- Ends the acquisition of a with_lock, as its record says. `seconds` was the limit of the acquisition.
-- @treturn boolean|nil true: a lock that was still held was released; false: nothing to release; nil, message, code: as of
--   release
local function end_recorded(record, seconds)
    local lock, hold = record.lock, record.hold
    Hold.disclose(hold, record.level)
    local held = lock:_ends(hold, record.level)
    if held then
        return leave(held, held._wait_release, Hold.release_timeout(seconds))
    end
    return false
end

--- Ends a with_lock after its function: `ok, …` are pcall's results. Releases what with_lock has acquired.
local function finish(record, seconds, ok, ...)
    local self, hold = record.lock, record.hold
    local lost = not hold.released and not hold.acquisition:held()
    local message = lost and self:_lost_message(hold)
    local _, problem, code = end_recorded(record, seconds)
    if not lost and code == "lost" then
        lost, message = true, problem -- found by the release
    end
    if not ok then
        error((...), 0)
    elseif lost then
        local state
        state, problem, code = self._client._core:state()
        if state == nil then
            return nil, problem, code, ... -- fn has forked, and this is the child
        end
        return nil, message, "lost", ...
    end
    return true, ...
end

--- The part of with_lock that runs protected.
local function acquire_and_run(self, record, fn, seconds, count, keep, ...)
    local lock, message, code = enter(self, seconds, count, keep, record)
    if not lock then
        return nil, message, code
    end
    Hold.enclose(lock, record.hold)
    return finish(record, seconds, pcall(fn, lock, ...))
end

--- Ends a with_lock. An error may have been raised anywhere, also between the acquisition and fn, or in the release.
local function conclude_with(record, seconds, ok, ...)
    if ok then
        return ...
    elseif record.hold then
        end_recorded(record, seconds)
    end
    error((...), 0)
end

--- Runs `fn(lock, …)` while holding the lock, and always releases it afterwards. `lock` is the lock that acquire returns.
--
-- An error of fn goes on unchanged (the same object) after the release. fn may yield, but not on Lua 5.1, whose pcall does not
-- allow that. fn may release the lock early itself. If fn then acquires it anew, the new hold is released too. A hold of this
-- object that another coroutine has acquired meanwhile is not released.
--
-- The release waits for the server for as long as the acquisition was allowed to wait, but at least a second and at most the
-- session timeout. If the server has not acknowledged it by then, the release goes on in the background.
--
-- @tparam function fn
-- @tparam table|number|nil timeout as of acquire; nil: no limit
-- @param ... further arguments for fn
-- @treturn true|nil nil: fn did not run, or the lock was lost before fn ended
-- @return fn's results; or message, code: as of acquire; when the code is "lost" and fn ran, its results follow
-- @raise what fn raises; when the arguments are malformed
function Lock:with_lock(fn, timeout, ...)
    check_self(self, "with_lock")
    if not options.callback(fn) then
        error("lock:with_lock: the first argument must be a function", 2)
    end
    local seconds, count, keep = read_acquire(self, timeout)
    if not seconds then
        error("lock:with_lock: " .. count, 2)
    end
    local record = Lock.new_record()
    return conclude_with(record, seconds,
        self._client._protect(acquire_and_run, self, record, fn, seconds, count, keep, ...))
end

-- Looking -------------------------------------------------------------------------------------------------------------

--- Whether the lock is held at this instant, by the local clock. True only while no other contender can hold it. Sends nothing.
-- @treturn boolean
function Lock:held()
    check_self(self, "held")
    return held_here(self) ~= nil
end

--- How much longer the lock is certainly held if nothing more arrives from ZooKeeper.
-- @treturn number seconds; 0 when not held; math.huge without a lease
function Lock:remaining()
    check_self(self, "remaining")
    local acquisition = held_here(self)
    return acquisition and acquisition:remaining() or 0
end

--- The fencing token of the present hold. Tokens of one path compare as strings, in every locale: a later grant's token is
-- greater. Pass the token to the resource that the lock protects, and have the resource refuse smaller tokens.
--
-- A token is 30 characters: 19 decimal digits (the czxid of the lock's node), a hyphen, 10 decimal digits (how many grants that
-- node has served before).
-- @treturn string|nil nil when not held
function Lock:token()
    check_self(self, "token")
    local acquisition = held_here(self)
    return acquisition and acquisition:token() or nil
end

--- The fencing token of the present hold as three whole numbers, for stores that compare integers. Compare them in order: the
-- second number counts only where the first numbers are equal, and the third only where the second numbers are equal too.
--
-- Each number is less than 2^32, so every Lua holds and prints it exactly, also a Lua whose numbers are doubles. A single
-- number for the whole czxid could be rounded there.
-- @treturn number|nil high the upper 32 bits of the czxid of the lock's node; nil when not held
-- @treturn number low the lower 32 bits of it
-- @treturn number grants how many grants that node has served before
function Lock:token_numbers()
    check_self(self, "token_numbers")
    local acquisition = held_here(self)
    if acquisition then
        return acquisition:token_numbers()
    end
    return nil
end

--- The path that the lock was made with.
-- @treturn string
function Lock:path()
    check_self(self, "path")
    return self._path
end

--- The path of the znode by which the lock is held.
-- @treturn string|nil nil when not held
function Lock:node()
    check_self(self, "node")
    local acquisition = held_here(self)
    return acquisition and acquisition:node() or nil
end

--- All nodes by which the lock is held: a semaphore has a node for each permit.
-- @treturn table|nil array of paths; nil when not held
-- @treturn string|nil message, when there was no memory for them
-- @treturn string|nil code
function Lock:_nodes()
    local acquisition = held_acquisition(self)
    if not acquisition then
        return nil
    end
    return acquisition:nodes()
end

--- Reads the timeout of a question. Default: the session timeout.
-- @treturn number the deadline on core.now()'s clock; or nil and what is wrong
-- @treturn number seconds, for messages
function Lock:_read_deadline(timeout)
    local seconds, wrong = options.read_timeout(timeout)
    if not seconds then
        return nil, wrong
    elseif timeout == nil then
        seconds = self._client:_cleanup_timeout()
    end
    return now() + seconds, seconds
end

--- Lists the lock nodes of a directory; with `identities`, also the identity in each node.
function Lock:_list(directory, identities, deadline, seconds)
    local client = self._client
    local query, message, code = client._core:contenders(directory, identities)
    if not query then
        return nil, message, code
    end
    return client:_await_query(query, deadline, seconds, format("listing the contenders of %s", directory))
end

--- Lists the contenders, until a deadline `seconds` after the program asked. Semaphores have theirs in two directories.
function Lock:_contenders(deadline, seconds)
    return self:_list(self._path, true, deadline, seconds)
end

--- Lists all holders and waiters of the lock's path in queue order, including those of other clients. For a semaphore: first the
-- permits that are taken (mode "lease"), then the queue of the waiters.
-- @tparam number|nil timeout seconds, 0 or more; math.huge: no limit; default: the session timeout
-- @treturn table|nil array of `{node =, identity =, mode = "exclusive"|"shared"|"lease", sequence =, holder = boolean}`
-- @treturn string|nil message
-- @treturn string|nil code "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
-- @raise when the timeout is malformed
function Lock:contenders(timeout)
    check_self(self, "contenders")
    local deadline, seconds = self:_read_deadline(timeout)
    if not deadline then
        error("lock:contenders: " .. seconds, 2)
    end
    return self:_contenders(deadline, seconds)
end

--- Writes into a holder's node that another contender wants the lock.
local function ask_to_let_go(self, path, deadline, seconds)
    local write = { kind = "set", path = path, data = REVOKE, version = -1 }
    local operation, message, code = node.perform(self._client, write, seconds, "writing " .. path, true, deadline)
    if not operation then
        return nil, message, code
    end
    return operation:take()
end

--- Asks all holders of the lock to release it. A holder with the option on_revoke has it called wherever its program waits or
-- pumps. This is a request: a holder may ignore it. Revocable holders of Curator's locks receive it too.
-- @tparam number|nil timeout seconds, 0 or more; math.huge: no limit; default: the session timeout
-- @treturn integer|nil how many holders were asked; for a semaphore, how many permits they hold; 0 when there is no holder
-- @treturn string|nil message
-- @treturn string|nil code "timeout", "disconnected", "no_auth" (the acl does not let us write into their nodes), "closed",
--   "forked", "phase", "failed"
-- @raise when the timeout is malformed
function Lock:revoke(timeout)
    check_self(self, "revoke")
    local deadline, seconds = self:_read_deadline(timeout)
    if not deadline then
        error("lock:revoke: " .. seconds, 2)
    end
    local contenders, message, code = self:_contenders(deadline, seconds)
    if not contenders then
        return nil, message, code
    end
    local asked = 0
    for index = 1, #contenders do
        local contender = contenders[index]
        if contender.holder then
            local written
            written, message, code = ask_to_let_go(self, contender.node, deadline, seconds)
            if written then
                asked = asked + 1
            elseif code ~= "no_node" then -- the holder released it meanwhile
                return nil, message, code
            end
        end
    end
    return asked
end

--- Begins a transaction whose writes happen only if the lock is still held. The server checks that, for a semaphore of all
-- permits, together with the writes.
-- @treturn Transaction bound to the present hold: a later hold of the same object needs another transaction
function Lock:transaction()
    check_self(self, "transaction")
    local lock = meant_here(self)
    return Transaction._guarded(lock or self, lock and present(lock))
end

--- "zklock mutex (/path, held)".
function Lock:__tostring()
    local state, lock = "free", meant_here(self)
    local hold = lock and present(lock)
    if hold then
        state = hold.acquisition:held() and "held" or "lost"
    elseif self._client._attempts[self] then
        state = "being acquired"
    end
    return format("zklock %s (%s, %s)", self._kind.name, self._path, state)
end

--- For Lua 5.4's `local held <close> = …`: releases the lock at the end of the block, if it is still held and is not another
-- coroutine's.
function Lock:__close()
    local lock = self:_closes()
    if lock then
        leave(lock, self._wait_release and wait.is_possible(self._client))
    end
end

return Lock
