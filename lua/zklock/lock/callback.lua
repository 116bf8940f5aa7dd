--- lock.callback: acquisitions with the option `callback`, for which nothing waits.
--
-- For zklock.lock.acquire. A call (zklock.call) stands for the attempt, where otherwise a coroutine would wait. An acquisition by
-- callback is made for its own *caller* (zklock.owner), not for the coroutine that asks: that coroutine goes on, and any number
-- of acquisitions may be under way by one object. Where the adapter knows owners (inside nginx: requests) the hold is given to
-- the coroutine of the callback, when it runs, and ends with the callback, unless it was acquired with `keep`.

local attempts = require "zklock.lock.attempt"
local Call = require "zklock.call"
local Hold = require "zklock.hold"
local LockGroups = require "zklock.lock_groups"
local Owner = require "zklock.owner"

local error, pcall = error, pcall
local min = math.min
local present = Hold.present
local refuse = LockGroups.refuse
local ask, attempt_decided, OFFLINE_PATIENCE = attempts.request, attempts.decided, attempts.OFFLINE_PATIENCE

local callbacks = {}

--- The functions of calls for a lock; see zklock.call. The subject is `{ lock =, hold =, seconds =, keep = }`.
local kind = { name = "acquire" }

function kind.decided(subject)
    return attempt_decided(subject.hold)
end

function kind.results(subject)
    local lock, hold = subject.lock, subject.hold
    local granted, message, code = lock:_conclude(hold, subject.seconds)
    if granted then
        return lock
    end
    lock:_abandon(hold)
    refuse(lock._settings.group, code)
    return nil, message, code
end

function kind.cancel(subject)
    return subject.lock:_cancel()
end

function kind.deliver(subject, fn, lock, message, code)
    local adapter, hold = subject.lock._client._adapter, subject.hold
    if not lock or not adapter.owner then
        return fn(lock, message, code)
    end
    hold.keep = subject.keep
    Owner.pass(lock, hold, Owner.running(lock._client))
    if hold.keep then
        return fn(lock)
    elseif adapter.bind then
        adapter.bind(hold) -- for a callback that is broken off
    end
    local ok, problem = pcall(fn, lock)
    if present(lock) == hold then
        hold.levels = 1
        lock:_begin_release()
    end
    if not ok then
        error(problem, 0)
    end
end

--- Returns after how many seconds C ends the attempt.
local function limit_of(client, timeout)
    if timeout > 0 then
        return timeout
    end
    local within = client:_cleanup_timeout()
    return client._core:state() == "connected" and within or min(within, OFFLINE_PATIENCE)
end

--- Asks for the lock and makes the call. Runs protected.
local function begin(lock, hold, subject, fn)
    Owner.note_caller(lock, hold.acquirer)
    local client = lock._client
    local acquisition, message, code = ask(lock, hold)
    if not acquisition then
        return nil, message, code
    end
    local able
    able, message, code = Call.is_possible(client) -- it may have been closed meanwhile
    if not able then
        return nil, message, code
    end
    return Call.begin(client, kind, subject, acquisition, limit_of(client, subject.seconds), fn)
end

--- Acquires for a callback. Returns at once.
-- @tparam Lock self
-- @tparam number seconds 0: try; math.huge: no limit
-- @tparam number count
-- @tparam boolean|nil keep
-- @tparam function fn
-- @treturn table|nil the call
-- @treturn string|nil message
-- @treturn string|nil code "closed", "forked", "phase", "failed": the callback is not going to be called
function callbacks.acquire(self, seconds, count, keep, fn)
    local able, message, code = Call.is_possible(self._client)
    if not able then
        refuse(self._settings.group, code)
        return nil, message, code
    end
    local lock = Owner.place_of_caller(self)
    -- Until the callback runs, the hold belongs to no request and must not end with one.
    local hold = Hold.new(seconds == 0 and Hold.TRY or Hold.WAIT, count, Owner.new_caller(), true)
    hold.by_callback = true
    local subject = { lock = lock, hold = hold, seconds = seconds, keep = keep or false }
    local ok, call
    ok, call, message, code = pcall(begin, lock, hold, subject, fn)
    if ok and call then
        return call
    end
    lock:_abandon(hold)
    if not ok then
        error(call, 0)
    end
    refuse(self._settings.group, code)
    return nil, message, code
end

return callbacks
