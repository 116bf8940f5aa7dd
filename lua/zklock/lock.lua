--- lock: something that is acquired and released.
--
-- What `Client:mutex` makes; the two halves of a read/write lock (`RwLock`) are locks too, and so is a `Semaphore`. Two objects on
-- one path exclude each other, also within one client. Times are in seconds. Keep a reference to a lock that is held: one that is
-- collected is given up.
--
-- Any number of coroutines (inside nginx: of requests) may use one object, for example one that a module keeps. Each of them
-- acquires for itself, and waits for the others; `held`, `token`, `release` and the rest are about what the running coroutine
-- holds. For a coroutine that has never called acquire, try_acquire or with_lock of the object they are about what it was given:
-- the only hold of the object. If there are several, it has none of them. `acquire` returns, and `with_lock` gives to its function,
-- a lock with all methods that stands for this acquisition: the object itself, or if other coroutines use that, one like it.

-- Inside.
--
-- What may be held at the same time is decided on the C side from the mode that a lock asks for, so that all locks are this
-- one class with a different *kind* (Lock.MUTEX, …); zklock.semaphore adds what only that has. What is here: who may ask
-- when (one acquisition of an object at a time), deadlines, and what to tell whom.
--
-- A *hold* (zklock.hold) is one acquisition, from its request to its end. A lock object has at most one hold (`_hold`) or one
-- attempt at one (`client._attempts[lock]`, weak: if its coroutine is never resumed, or died of an error where waits cannot
-- be protected, the attempt and its claim are collected and the object is free again). Further coroutines have lock objects of
-- their own behind it, companions: zklock.owner finds the right one. Public methods do so first; all others are about one object.

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
local held_claim, new_hold, present = Hold.held_claim, Hold.new, Hold.present
local meant, own, running_taker = Owner.meant, Owner.own, Owner.running

local Lock = {}
Lock.__index = Lock

--- What acquire knows, of every kind but semaphores.
local ACQUIRE_SCHEMA = { timeout = { options.timeout, huge }, keep = { options.boolean } }

--- What try_acquire knows, likewise.
local TRY_SCHEMA = { keep = { options.boolean } }

--- The kinds. `name` is for messages, `mode` is what the C side calls it, `schema` is what acquire takes in a table,
-- `try_schema` what try_acquire does.
Lock.MUTEX = { name = "mutex", mode = "mutex", schema = ACQUIRE_SCHEMA, try_schema = TRY_SCHEMA }
Lock.READ = { name = "read lock", mode = "read", schema = ACQUIRE_SCHEMA, try_schema = TRY_SCHEMA }
Lock.WRITE = { name = "write lock", mode = "write", schema = ACQUIRE_SCHEMA, try_schema = TRY_SCHEMA }

--- The metatables of locks: this class and those that extend it.
local classes = { [Lock] = true }

--- A class that has all of a lock's methods; what it adds comes first.
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

--- For Client:mutex and its kin. `settings` have been checked; `class` is Lock or one that extends it.
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
        -- What is not there is false, lest it be looked for in the class.
        _on_lost = settings.on_lost or false,
        _on_revoke = settings.on_revoke or false,
        _terms = false,   -- what C knows of all that, once there was an acquisition
        _permits = false, -- a semaphore's
        _twin = false,    -- the other half of a read/write lock
        _taker = false,   -- who asked for the object first …
        _takers = false,  -- … and all others that did
        _others = false,  -- the companions in use, by their takers
        _latest = false,  -- the one of them that was granted last, in a weak table
        _origin = false,  -- of a companion: the object
        _hold = false
    }, class)
end

--- Raises at the caller of the public method when it was called with a dot instead of a colon.
local function check_self(self, method)
    if not classes[getmetatable(self)] then
        error(format("lock:%s: call it with a colon on a lock", method), 3)
    end
end

-- The end of a hold
-- ----------------------------------------------------------------------------------------------------------

--- Lets go of the object's hold; what the server still has of it is cleaned up in the background.
-- @tparam number|nil patience for how many seconds this may block until it is
-- @tparam boolean|nil if_held not unless it holds at this instant
-- @treturn boolean|nil whether there is nothing left to clean up, nor to tell; nil: it does not hold
local function drop(self, patience, if_held)
    local hold, client = self._hold, self._client
    -- C notes the end in the same step: the hold is `released` if it held, and the object's and the observers' no more.
    local settled, news = hold.claim:release(patience, if_held, self, hold.observed and client._registry.observers)
    if settled == nil and if_held then
        return nil
    end
    Owner.forget(self, hold)
    if news then
        wait.pump(client)
    end
    return settled
end

--- Why a hold was lost, as C says it.
function Lock:_lost_message(hold)
    local phase, _, message = hold.claim:phase()
    if phase == "lost" and message ~= "" then
        return message
    elseif phase == "released" then
        return format("the %s %s was released when the request ended that had acquired it: acquire it with keep = true if it is " ..
            "to be held for longer", self._kind.name, self._path)
    end
    return format("the %s %s was lost", self._kind.name, self._path)
end

--- Runs on_revoke when others have asked for the lock since it ran last.
local function tell_revoked(self, hold)
    local asked = self._on_revoke and hold.claim:revocations() or 0
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

--- Tells the program what happened to its hold by itself: that others ask for it, or that it has ended; the latter once,
-- whoever noticed: the pump (this is what it calls when the claim changed), or a caller that came before the pump did.
function Lock:_ticket_changed()
    local hold = present(self)
    if not hold or hold.told then
        return
    elseif hold.claim:held() then
        return tell_revoked(self, hold)
    end
    local phase, code = hold.claim:phase()
    if phase ~= "released" then
        tell_lost(self, hold, phase == "lost" and code or "lost", self:_lost_message(hold))
    elseif self._origin then -- by the adapter, since its request has ended: nobody is going to use the companion
        drop(self)
    end
end

--- Drops a hold that is lost. on_lost runs first and may have done so itself, or may have acquired anew.
local function drop_lost(self)
    local hold = self._hold
    self:_ticket_changed()
    if self._hold == hold then
        drop(self)
    end
end

--- Tells a caller that the hold is lost and makes the object usable again.
local function give_up_lost(self)
    local message = self:_lost_message(self._hold)
    drop_lost(self)
    return nil, message, "lost"
end

-- Acquiring -----------------------------------------------------------------------------------------------------------

--- An acquisition is decided when C says so or somebody cancelled it.
local function attempt_decided(hold)
    return hold.cancelled or not hold.claim:waits()
end

--- Why an acquisition whose time is up has not come about.
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
    local _, _, message = hold.claim:phase()
    if message == nil or message == "" then
        message = "it was not decided in time"
    end
    return nil, format("%s: %s", what, message), "timeout"
end

--- Ways to acquire: waiting; refused rather than waiting, without a trace; the same, but joining first and looking
-- afterwards, which saves a round trip if nobody is there and leaves something to clean up if somebody is.
local TRY, HASTY = "try", "hasty"
Lock.WAIT, Lock.TRY, Lock.HASTY = false, TRY, HASTY

--- What the C side has to know of the object, once for all acquisitions.
local function make_terms(self)
    local terms, message, code = core.terms(self._path, self._kind.mode, self._identity, self._acl, self._max_hold,
        self._on_revoke ~= false, self._permits or nil, self._handoff, self._linger)
    self._terms = terms or false
    return terms, message, code
end

--- Asks for the lock. Whoever calls this sees to it that _conclude or _abandon follows, whatever happens.
-- @tparam table hold
-- @tparam number|nil patience for how many seconds this may block until it is decided
-- @treturn userdata|nil the claim; or nil, message, code
-- @treturn boolean|string whether it is granted already
-- @treturn boolean whether there is news for the pump
local function request(self, hold, patience)
    local client = self._client
    local terms = self._terms
    if not terms then
        local message, code
        terms, message, code = make_terms(self)
        if not terms then
            return nil, message, code
        end
    end
    client._attempts[self] = hold
    local writer = self._twin and self._kind == Lock.READ and held_claim(own(self._twin, hold.taker)) or nil
    -- C puts the claim into `hold` before it sends anything: Ctrl-C that comes meanwhile must find it there.
    local try = hold.try
    local claim, granted, news = client._core:claim(terms, hold, try, try == HASTY, hold.count, writer, patience)
    if claim and client._adapter.bind then
        client._adapter.bind(hold)
    end
    return claim, granted, news
end

--- The object holds from now on, unless its on_revoke gives it back at once.
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
        wait.observe(client, hold.claim:id(), self)
    elseif client._state_listeners[1] then
        wait.attend(client)
    end
    client._attempts[self] = nil
    if self._on_revoke then
        tell_revoked(self, hold) -- what came before there was an observer
        if self._hold ~= hold then
            return nil, format("the %s %s was given back as soon as it was granted: others had asked for it", self._kind.name,
                self._path), "lost"
        end
    end
    return true
end

--- What has come of an acquisition, once it is decided or its time is up: true, and the object holds; or nil, message, code.
function Lock:_conclude(hold, timeout)
    if hold.cancelled == "timeout" then
        return timed_out(self, hold, timeout)
    elseif hold.cancelled then
        return nil, format("waiting for the %s %s was cancelled", self._kind.name, self._path), "cancelled"
    elseif hold.claim:held() then
        return take(self, hold)
    end
    local phase, code, message = hold.claim:phase()
    if phase == nil then
        return nil, code, message -- which after a fork are a message and its code
    elseif phase == "waiting" then
        return timed_out(self, hold, timeout)
    elseif phase == "granted" then
        return nil, format("the lease of the %s %s ran out as it was granted", self._kind.name, self._path), "lost"
    elseif phase == "lost" and code == "max_hold" then
        code = "lost" -- what on_lost calls a reason is no code of acquire's
    end
    return nil, message, code
end

--- Gives up an acquisition, whatever has come of it. Does nothing the second time.
function Lock:_abandon(hold)
    local client, claim = self._client, hold.claim
    if client._attempts[self] == hold then
        client._attempts[self] = nil
    end
    if self._hold == hold then
        self._hold = false
    end
    Owner.forget(self, hold)
    if claim then
        if hold.observed then
            client._registry.observers[claim:id()] = nil
        end
        claim:cancel()
    end
end

--- Seconds that a try waits for C to say that there is no connection: while a name is resolved nobody hears it.
local OFFLINE_PATIENCE = 0.1

--- Asks for the lock and waits. Whatever it does not return true for is given up by its caller.
local function attempt(self, hold, timeout)
    local client = self._client
    local ask = not self._lingers and client._adapter.patience -- one that lingers is as a rule there at once
    local patience, deadline = ask and ask() or nil, timeout
    if timeout ~= huge then
        timeout = hold.try and client:_patience() or timeout
        patience, deadline = patience and min(patience, timeout), now() + timeout
    end
    local claim, granted, news = request(self, hold, patience)
    if not claim then
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
    local decided, message, code = wait.until_decided(client, claim:id(), deadline, attempt_decided, hold)
    if decided == nil then
        return nil, message, code
    end
    return self:_conclude(hold, timeout)
end

--- The same; gives up itself what has not come about. Runs protected.
local function attempt_or_abandon(self, hold, timeout)
    local granted, message, code = attempt(self, hold, timeout)
    if granted then
        return self
    end
    self:_abandon(hold)
    return nil, message, code
end

--- A *record* is of one acquisition, for the code that ends it after an error: by which lock object, which hold, and how many
-- levels the hold has by it. All of it is noted before anything is asked for, and does not change afterwards. So the lock
-- object shows what has come of the acquisition, at whatever instruction the error was raised.
local function note_record(record, lock, hold, level)
    record.lock, record.level = lock, level
    record.hold = hold -- the last, in a statement of its own: with it the record is valid
end

function Lock.new_record()
    return { lock = false, hold = false, level = 0 }
end

--- Asks for the lock without waiting, for a multi, which concludes it or takes back the record. Returns what `request` does.
function Lock:_ask(way, taker, keep, record)
    local hold = new_hold(way, 1, taker, keep)
    Owner.note(self, taker)
    note_record(record, self, hold, 1)
    return request(self, hold)
end

--- A record of the hold that the object has, or of nothing.
function Lock:_record_of_hold()
    local record, hold = Lock.new_record(), present(self)
    if hold then
        note_record(record, self, hold, hold.levels)
    end
    return record
end

--- Gives back what a record says was acquired, or gives it up. Does nothing the second time.
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

--- One acquisition from beginning to end. `timeout` in seconds, 0 tries; `me` is the running coroutine's taker.
-- An error gives it up. After the protected call nothing is left to do that another error could prevent.
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

--- Whether a lock object is held by a coroutine that cannot go on while this one waits.
local function is_held_above(lock, me, alone)
    local hold = lock and held_claim(lock) and lock._hold
    return hold and (alone and hold.taker ~= me or Owner.is_above(hold.taker, me)) or false
end

--- Whether that is so of one of the locks that hold through an object. Where others can run, as many as there may be are not
-- looked through: the object and what was granted last will do.
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

--- Whether waiting for so many permits would keep those coroutines from running on that hold them through the same object. Of a
-- semaphore this is known only where nobody else can run.
local function waits_for_itself(self, count, me)
    local object, alone = self._origin or self, wait.is_alone(self._client)
    if self._permits then
        local taken = count
        for lock in Owner.each(object) do
            taken = taken + (held_claim(lock) and lock._hold.count or 0)
        end
        return alone and taken > self._permits
    elseif alone and self._client._attempts[object] then
        return true -- by a callback of that one's wait
    end
    return self._kind ~= Lock.READ and any_held_above(object, me, alone) or self._twin and
        (self._kind == Lock.WRITE or not held_claim(own(self._twin, me))) and any_held_above(self._twin, me, alone)
end

--- Why an acquisition of so many permits would wait for itself; nil if it would not.
-- @tparam number timeout seconds; 0 does not wait
-- @tparam table me the running coroutine's taker, for which this lock object is
function Lock:_deadlock(timeout, count, me)
    local hold = self._hold
    if self._client._attempts[self] then
        return format("the %s %s is already being acquired by this object", self._kind.name, self._path)
    elseif not hold then
        if self._kind == Lock.WRITE and held_claim(own(self._twin, me)) then
            return format("the write lock %s cannot be acquired while this object's read lock is held: it would wait for itself",
                self._path)
        elseif timeout > 0 and waits_for_itself(self, count, me) then
            return format("the %s %s would wait for itself: this object holds in a coroutine that cannot go on meanwhile",
                self._kind.name, self._path)
        end
        return nil
    elseif not hold.claim:held() then
        return nil
    elseif not self._reentrant then
        return format("the %s %s is already held by this object", self._kind.name, self._path)
    elseif count > hold.count then
        return format("the %s %s is held by this object with a count of %d and cannot be acquired again with one of %d",
            self._kind.name, self._path, hold.count, count)
    end
    return nil
end

--- Acquires by the lock object that is the running coroutine's: settles first what that has already.
local function enter_placed(self, timeout, count, keep, me, record)
    local deadlock = self:_deadlock(timeout, count, me)
    local hold = present(self)
    if deadlock then
        return nil, deadlock, "deadlock"
    elseif not hold or self._client._core:state() == nil then
        return acquire(self, timeout, count, keep, me, record)
    elseif hold.claim:held() then
        local level = hold.levels + 1
        Hold.untether(self, hold) -- it is not the multi's alone any more
        hold.taker = me
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

--- Whether a hold has ended, and nobody is left who could ask what became of it: its coroutine or its request has ended.
local function is_left_behind(hold, me)
    return not hold.claim:held() and (Owner.is_gone(hold.taker) or hold.taker ~= me and hold.claim:phase() == "released")
end

--- Acquires on behalf of the running coroutine.
-- @tparam number timeout
-- @tparam number count
-- @tparam boolean|nil keep
-- @tparam table|nil record notes what
-- @treturn Lock|nil by which lock object it holds; nil, message, code
local function enter(self, timeout, count, keep, record)
    local me = running_taker(self._client)
    if not self._hold and not self._others and not self._twin and not self._origin and not self._client._attempts[self] then
        return acquire(self, timeout, count, keep, me, record) -- what _deadlock would find out more slowly
    end
    local hold = present(self)
    if hold and is_left_behind(hold, me) then
        drop_lost(self) -- nobody else would
    end
    return enter_placed(Owner.place(self, me), timeout, count, keep, me, record)
end
Lock._enter = enter

--- How many permits the settings ask for: 1 but for semaphores.
-- @treturn number; or nil and what is wrong
local function read_count(self, settings)
    local count = settings.count or 1
    if self._permits and count > self._permits then
        return nil, format("count must not be more than the semaphore's permits (%d of %d)", count, self._permits)
    end
    return count
end

--- Reads what acquire and with_lock take: nil, seconds, or a table as the kind knows it.
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

--- Acquires the lock, waiting for its turn.
--
-- One deadline covers everything: waiting for a connection, for others, reconnecting, retrying. When it passes the
-- place in the queue is given up, in the background. By an object by which the running coroutine holds already, or is
-- acquiring, the answer is "deadlock" at once, unless it is reentrant and held. What another coroutine holds by the same
-- object is waited for; the answer is "deadlock" if that one could not go on meanwhile. If an earlier hold was lost
-- unnoticed, a new one begins; a reentrant one first answers "lost" once, because the caller may stand within the lost one.
--
-- Of a read/write lock: the read half, acquired while this coroutine holds the write half of the same object, is granted at
-- once beside it, so that releasing the write half then lets other readers in, and no other writer (a downgrade). The write
-- half, acquired while this coroutine holds the read half, is refused with "deadlock" (an upgrade would wait for itself).
--
-- Lua 5.4: `local held <close> = assert(lock:acquire(5))` releases at the end of the block what is still held, unless another
-- coroutine has acquired the object since. Of a reentrant lock it releases one level: who has released that within the block
-- gives back an outer one, which with_lock does not.
--
-- In nginx the hold ends with the request, or the timer handler, that acquires it. With `keep = true` it does not; elsewhere
-- `keep` means nothing.
--
-- @tparam number|table|nil timeout seconds, 0 or more, or `{timeout = seconds, keep = boolean}`; nil: for ever; 0: as
--   try_acquire. A semaphore also takes `count`, the permits wanted, together or not at all: 1 unless given, 1000 at most
-- @treturn Lock|nil what stands for this hold: the object itself, unless other coroutines are using it
-- @treturn string|nil message
-- @treturn string|nil code: "timeout" (others have it), "disconnected" (no connection to ZooKeeper when time was up),
--   "cancelled", "deadlock", "lost" (granted, and lost or given back by on_revoke before this returned), "mismatch" (the
--   semaphore was made for another number of permits), "no_auth", "auth_failed", "exhausted", "closed", "forked", "phase",
--   "failed"
-- @raise when the timeout is malformed; an error raised while waiting (Ctrl-C) goes on after the acquisition is given
--   up
function Lock:acquire(timeout)
    if not classes[getmetatable(self)] then
        check_self(self, "acquire") -- called where it has something to say: this, and release, are all that some programs do
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

--- Acquires the lock if nobody has it or is ahead; a refused try has written nothing. Without a connection the answer
-- is "disconnected" at once. A lock that lingers at another client (option `linger`) cannot be told from one that is held: the try
-- is refused, and since it writes nothing the lock stays there. It leaves for the first who queues: acquire with a short timeout.
-- @tparam table|nil settings `{keep = boolean}`, see acquire; a semaphore also takes `count`, how many permits
-- @treturn Lock|nil
-- @treturn string|nil message
-- @treturn string|nil code as of acquire: "timeout" when others have it
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
    if hold.claim then
        local waiter = self._client._registry.by_ticket[hold.claim:id()]
        hold.claim:cancel()
        if waiter then
            self._client._adapter.wake(waiter)
        end
    end
    return true
end

--- Ends the waits of other coroutines in this object's acquire, which answers "cancelled". Does nothing to an object in which
-- nobody waits, now or later. Inside nginx, where several requests use the object, only the waits of the calling request end.
-- @treturn boolean whether there was a wait to end
function Lock:cancel()
    check_self(self, "cancel")
    local waiting, cancelled = {}, false
    local cancels = Owner.cancels(self, running_taker(self._client))
    for lock, hold in pairs(self._client._attempts) do
        if (lock == self or lock._origin == self) and cancels(hold.taker) then
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
-- @tparam number|nil patience for how many seconds this may block until it has ended
-- @treturn table|true|nil the hold, if the server has to acknowledge its end; true if there is nothing to wait for; or nil,
--   message, code
local function begin_release(self, patience)
    local hold = present(self)
    if hold and hold.levels == 1 then
        local settled = drop(self, patience, true)
        if settled ~= nil then
            return settled or hold
        end
    elseif hold and hold.claim:held() then
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

--- The answer to a coroutine that holds nothing through the object, while others do.
function Lock:_not_yours()
    local state, problem, code = self._client._core:state()
    if state == nil then
        return nil, problem, code
    end
    local hold = present(self)
    if hold and hold.claim:phase() == "released" then
        return nil, self:_lost_message(hold), "not_held"
    end
    return nil, format("the %s %s is not held by this coroutine, but by another one through the same object", self._kind.name,
        self._path), "not_held"
end

--- The lock object that a call of the running coroutine is about; nil if what the object holds is not for that coroutine.
local function meant_here(self)
    return meant(self, running_taker(self._client))
end
Lock._meant = meant_here

--- The claim by which the running coroutine holds at this instant, or nil.
local function claim_here(self)
    return held_claim(meant_here(self))
end

--- Waits until the server has acknowledged the end of a hold, or `deadline` on core.now()'s clock. The release was to take
-- `seconds` at most.
function Lock:_await_release(hold, deadline, seconds)
    local client, claim = self._client, hold.claim
    local done, message, code = wait.until_decided(client, claim:id(), deadline, claim.finished, claim)
    if done and claim:released() then
        return true
    elseif done then
        local phase
        phase, code, message = claim:phase()
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
-- @tparam number|nil timeout how long to wait for it, if that is less than the session timeout
local function leave(self, wait_for_server, timeout)
    local ask = wait_for_server and not self._lingers and self._client._adapter.patience
    local patience, begun = ask and ask() or nil, timeout and now()
    if timeout and patience then
        patience = min(patience, timeout)
    end
    local hold, message, code = begin_release(self, patience)
    if not hold then
        return nil, message, code
    elseif hold == true or not wait_for_server then
        return true
    end
    local seconds = self._client:_release_patience(timeout)
    return self:_await_release(hold, (begun or now()) + seconds, seconds)
end

local RELEASE_SCHEMA = { wait = { options.boolean }, timeout = { options.timeout } }

--- Releases the lock; of a reentrant one, one level. Waits until the server has acknowledged it, unless told not to,
-- but never longer than the session timeout: after that the node goes by itself, in the background.
--
-- A coroutine also releases what another one has acquired by the same object, if it has never acquired by the object itself, or if
-- the other one has ended. Inside nginx a request does not release what another request has. To others the answer is "not_held".
-- @tparam table|nil settings `{wait = false}` returns at once; the lock's wait_release unless given. `{timeout = seconds}` waits
--   no longer than that; the session timeout unless given, and at most
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code: "not_held"; "lost" (it ended before, which may show only in that the server finds no node to delete;
--   said once, the object is usable again; not said by a release that does not wait); "disconnected"
--   (not acknowledged, will happen in the background); "no_auth" (the server refuses to delete the node: it stays until
--   the client closes); "forked"
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

--- Finds the lock that the end of a with_lock has to release, which had the object by this hold, so many levels deep. A function
-- that released its own level, or more, has left nothing; one that acquired anew, in the same coroutine, has.
-- @treturn Lock|nil nil if there is nothing to release
function Lock:_ends(hold, level)
    local current = present(self)
    if current == hold then
        return current ~= nil and hold.levels >= level and self or nil
    elseif level > 1 then
        return nil
    end
    local me = running_taker(self._client)
    local anew = own(self, me)
    return anew and anew._hold and anew._hold.taker == me and anew or nil
end

--- Finds the lock that the end of a block has to release: the one by which this coroutine holds; otherwise the object itself, if
-- this coroutine was given its hold.
-- @treturn Lock|nil nil if there is nothing to release
function Lock:_closes()
    local me = running_taker(self._client)
    local mine = own(self, me)
    if mine and mine._hold and mine._hold.taker == me then
        return mine
    end
    return Owner.given(self, me)
end

--- The end of what with_lock has acquired, as its record says; `seconds` is how long it was to be waited for.
-- @treturn boolean|nil whether something was released that was still held; nil, message, code: as of release
local function end_recorded(record, seconds)
    local lock, hold = record.lock, record.hold
    Hold.disclose(hold, record.level)
    local held = lock:_ends(hold, record.level)
    if held then
        return leave(held, held._wait_release, Hold.release_timeout(seconds))
    end
    return false
end

--- The end of with_lock's function: `ok, …` is what pcall said of it. Releases what with_lock has acquired.
local function finish(record, seconds, ok, ...)
    local self, hold = record.lock, record.hold
    local lost = not hold.released and not hold.claim:held()
    local message = lost and self:_lost_message(hold)
    local _, problem, code = end_recorded(record, seconds)
    if not lost and code == "lost" then
        lost, message = true, problem -- as the release has found
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

--- What with_lock does, protected.
local function acquire_and_run(self, record, fn, seconds, count, keep, ...)
    local lock, message, code = enter(self, seconds, count, keep, record)
    if not lock then
        return nil, message, code
    end
    Hold.enclose(lock, record.hold)
    return finish(record, seconds, pcall(fn, lock, ...))
end

--- The end of with_lock. An error may have been raised anywhere, also between the acquisition and fn, or in the release.
local function conclude_with(record, seconds, ok, ...)
    if ok then
        return ...
    elseif record.hold then
        end_recorded(record, seconds)
    end
    error((...), 0)
end

--- Runs `fn(lock, …)` while holding the lock, and releases it whatever happens. `lock` is what acquire returns.
--
-- An error of fn goes on unchanged (the same object) after the release. fn may yield, but not on Lua 5.1, whose pcall
-- forbids it. fn may release the lock early itself. What it has acquired anew then is released too; what another coroutine has
-- acquired of this object meanwhile is not.
--
-- The release waits for the server as long as the acquisition was to wait, but for a second at least and for the session timeout
-- at most. If the server has not acknowledged it by then, it goes on in the background.
--
-- @tparam function fn
-- @tparam table|number|nil timeout as of acquire; nil waits for ever
-- @param ... further arguments for fn
-- @treturn true|nil nil: fn did not run, or the lock was lost before it ended
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

--- Whether the lock is held, by the clock of this instant: true only while nobody else can hold it. Sends nothing.
-- @treturn boolean
function Lock:held()
    check_self(self, "held")
    return claim_here(self) ~= nil
end

--- How much longer the lock is certainly held if no further word comes from ZooKeeper.
-- @treturn number seconds; 0 when not held; math.huge without a lease
function Lock:remaining()
    check_self(self, "remaining")
    local claim = claim_here(self)
    return claim and claim:remaining() or 0
end

--- The fencing token of the present hold. Tokens of one path compare as strings, in every locale: a later grant's is greater.
-- Give it to whatever the lock protects, and let that refuse smaller ones.
--
-- A token is 30 characters: 19 decimal digits (the czxid of the lock's node), a hyphen, 10 decimal digits (how many grants that
-- node has served before).
-- @treturn string|nil nil when not held
function Lock:token()
    check_self(self, "token")
    local claim = claim_here(self)
    return claim and claim:token() or nil
end

--- The fencing token of the present hold as three whole numbers, for stores that compare integers. They are compared as a row: the
-- second number counts only where the first ones are equal, and the third one where the second ones are equal too.
--
-- Each is less than 2^32, so every Lua holds and prints it exactly, also those whose numbers are doubles. One number for the two
-- halves of the czxid could be rounded there.
-- @treturn number|nil high the upper 32 bits of the czxid of the lock's node; nil when not held
-- @treturn number low the lower 32 bits of it
-- @treturn number grants how many grants that node has served before
function Lock:token_numbers()
    check_self(self, "token_numbers")
    local claim = claim_here(self)
    if claim then
        return claim:token_numbers()
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
    local claim = claim_here(self)
    return claim and claim:node() or nil
end

--- All nodes by which it is held: of a semaphore one for each permit.
-- @treturn table|nil array of paths; nil when not held
-- @treturn string|nil message, when there was no memory for them
-- @treturn string|nil code
function Lock:_nodes()
    local claim = held_claim(self)
    if not claim then
        return nil
    end
    return claim:nodes()
end

--- Reads the timeout of a question: the session timeout unless given.
-- @treturn number on core.now()'s clock; or nil and what is wrong
-- @treturn number seconds, for messages
function Lock:_read_deadline(timeout)
    local seconds, wrong = options.read_timeout(timeout)
    if not seconds then
        return nil, wrong
    elseif timeout == nil then
        seconds = self._client:_patience()
    end
    return now() + seconds, seconds
end

--- Lists the lock nodes of a directory; `identities`: and whose they are.
function Lock:_list(directory, identities, deadline, seconds)
    local client = self._client
    local query, message, code = client._core:contenders(directory, identities)
    if not query then
        return nil, message, code
    end
    return client:_await_query(query, deadline, seconds, format("listing the contenders of %s", directory))
end

--- The contenders until a deadline, `seconds` after the program asked; semaphores have theirs in two directories.
function Lock:_contenders(deadline, seconds)
    return self:_list(self._path, true, deadline, seconds)
end

--- Lists who holds and who waits for the lock's path, in queue order, foreign clients included. Of a semaphore: the permits
-- that are taken (mode "lease"), then the line of those who wait.
-- @tparam number|nil timeout seconds, 0 or more, math.huge for as long as it takes; the session timeout unless given
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

--- Writes into a holder's node that somebody wants the lock.
local function ask_to_let_go(self, path, deadline, seconds)
    local write = { kind = "set", path = path, data = REVOKE, version = -1 }
    local operation, message, code = node.perform(self._client, write, seconds, "writing " .. path, true, deadline)
    if not operation then
        return nil, message, code
    end
    return operation:take()
end

--- Asks everybody who holds the lock to let go: whoever has the option on_revoke has it called, wherever that program waits or
-- pumps. It is a request: a holder may ignore it. Holders of Curator's that are revocable hear of it too.
-- @tparam number|nil timeout seconds, 0 or more, math.huge for as long as it takes; the session timeout unless given
-- @treturn integer|nil how many holders were asked, of a semaphore how many permits they hold; 0 when nobody holds it
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
            elseif code ~= "no_node" then -- let go meanwhile
                return nil, message, code
            end
        end
    end
    return asked
end

--- Begins writes that happen only if the lock is still held, of a semaphore all of the permits, which the server checks together
-- with them.
-- @treturn Transaction bound to the present hold: a later hold of the same object needs another
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
        state = hold.claim:held() and "held" or "lost"
    elseif self._client._attempts[self] then
        state = "being acquired"
    end
    return format("zklock %s (%s, %s)", self._kind.name, self._path, state)
end

--- Lua 5.4's `local held <close> = …`: releases at the end of the block, if it still is held and not another coroutine's.
function Lock:__close()
    local lock = self:_closes()
    if lock then
        leave(lock, self._wait_release and wait.is_possible(self._client))
    end
end

return Lock
