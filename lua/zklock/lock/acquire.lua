--- lock.acquire: the methods that acquire: acquire, try_acquire, cancel.
--
-- For the program, for zklock.lock.with_lock, and for multis (`_enter`). Finds the lock object by which the running coroutine
-- acquires (zklock.owner), refuses what would wait for itself, counts the levels of a reentrant lock, and runs the attempt.

local arguments = require "zklock.lock.arguments"
local attempts = require "zklock.lock.attempt"
local callbacks = require "zklock.lock.callback"
local class = require "zklock.lock.class"
local ending = require "zklock.lock.ending"
local Hold = require "zklock.hold"
local LockGroups = require "zklock.lock_groups"
local Owner = require "zklock.owner"
local Record = require "zklock.lock.record"

local error, getmetatable, pairs = error, getmetatable, pairs
local huge = math.huge
local acquire, acquire_by_callback = attempts.acquire, callbacks.acquire
local drop_lost, give_up_lost = ending.drop_lost, ending.give_up_lost
local note_record = Record.note
local place, running_acquirer = Owner.place, Owner.running
local refuse = LockGroups.refuse
local present = Hold.present
local read_acquire, read_try = arguments.read_acquire, arguments.read_try

local check_self, classes, Lock = class.check_self, class.classes, class.Lock
local acquires = {}

--- Acquires by the running coroutine's lock object, after dealing with the hold that the object already has.
local function enter_placed(self, timeout, count, keep, me, record)
    local deadlock = self:_deadlock(timeout, count, me)
    local hold = present(self)
    if deadlock then
        refuse(self._settings.group, "deadlock")
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
    elseif self._settings.reentrant then
        refuse(self._settings.group, "lost")
        return give_up_lost(self)
    end
    drop_lost(self)
    return enter_placed(place(self, me), timeout, count, keep, me, record)
end

--- Whether a hold has ended and no code is left that could ask for its result: its coroutine or its request has ended.
local function is_left_behind(hold, me)
    local acquirer = hold.acquirer
    return not hold.acquisition:held() and (Owner.is_gone(acquirer) or acquirer ~= me and hold.acquisition:phase() == "released")
end

--- Acquires on behalf of the running coroutine. A refusal is counted where it is decided: here, or in the attempt.
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
    return enter_placed(place(self, me), timeout, count, keep, me, record)
end
acquires.enter, Lock._enter = enter, enter
Lock._read_acquire = read_acquire

-- Acquiring -----------------------------------------------------------------------------------------------------------

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
-- From Lua 5.4 on, `local held <close> = assert(lock:acquire(5))` releases the lock at the end of the block if it is still held,
-- unless another coroutine has acquired the object since. A reentrant lock is released by one level. If the block has already
-- released that level, an outer level is released. with_lock does not do that.
--
-- In nginx the hold ends with the request, or the timer handler, that acquires it, and not before, also if nothing refers to the
-- lock. With `keep = true` it does not end with the request, but when the lock is collected. Elsewhere `keep` has no effect.
--
-- With `callback`, acquire does not wait. It returns a call (`Call`), and later the pump calls `callback(lock)` or `callback(nil,
-- message, code)`: exactly once, also when the client is closed (code "closed"), and never from within acquire. Each such
-- acquisition is made for itself, as if by a coroutine of its own: a reentrant lock does not count it, and the read half does
-- not take the place of a write half that is held. Any code may use the lock that the callback gets. The object refers to that
-- lock as long as it is held, so it is enough to keep one of them. In nginx the callback runs in a timer, and the hold ends when
-- the callback ends, unless `keep` is true. nil, message, code: the callback is not going to be called (code "closed", "forked",
-- "phase", "unsupported").
--
-- @tparam number|table|nil timeout seconds, 0 or more, or `{timeout = seconds, keep = boolean, callback = function}`; nil: no
--   limit; 0: as try_acquire. A semaphore also takes `count`, the number of permits, which are granted together or not at all:
--   1 to 1000, default 1
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
        local callback
        seconds, count, keep, callback = read_acquire(self, timeout, "acquire")
        if not seconds then
            error("lock:acquire: " .. count, 2)
        elseif callback then
            return acquire_by_callback(self, seconds, count, keep, callback)
        end
    end
    return enter(self, seconds, count, keep)
end

--- Acquires the lock if it is free and no contender is ahead. A refused try has written nothing. Without a connection the answer
-- is "disconnected" at once.
--
-- A lock that lingers at another client (option `linger`) looks like a held one. The try is refused, and because it writes
-- nothing, the lock stays there. The other client gives it up when a contender queues: call acquire with a short timeout.
-- @tparam table|nil settings `{keep = boolean, callback = function}`, see acquire; a semaphore also takes `count`, the number of
--   permits
-- @treturn Lock|nil
-- @treturn string|nil message
-- @treturn string|nil code as of acquire: "timeout" when another contender has the lock
-- @raise when settings are malformed
function Lock:try_acquire(settings)
    check_self(self, "try_acquire")
    local count, keep, callback = read_try(self, settings)
    if not count then
        error("lock:try_acquire: " .. keep, 2)
    elseif callback then
        return acquire_by_callback(self, 0, count, keep, callback)
    end
    return enter(self, 0, count, keep)
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

return acquires
