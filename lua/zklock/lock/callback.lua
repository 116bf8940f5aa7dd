--- lock.callback: acquisitions with the option `callback`, for which nothing waits.
--
-- For zklock.lock. A call (zklock.call) stands for the attempt, where otherwise a coroutine would wait. Such a hold belongs to no
-- coroutine: any number of them may be under way by one lock, and the lock keeps them as long as they last. Where the adapter knows
-- owners (inside nginx: requests) it is given to the coroutine of the callback, when that runs, and ends with the callback, unless
-- it was acquired with `keep`.

local acquire = require "zklock.lock.acquire"
local Call = require "zklock.call"
local caller = require "zklock.lock.caller"
local Hold = require "zklock.lock.hold"
local LockGroups = require "zklock.lock_groups"

local error, pcall = error, pcall
local min = math.min
local refuse = LockGroups.refuse

--- The functions of calls for a lock; see zklock.call. The subject is `{ hold =, seconds =, keep = }`.
local kind = { name = "acquire" }

function kind.decided(subject)
    return acquire.decided(subject.hold)
end

function kind.results(subject)
    local hold = subject.hold
    local granted, message, code = acquire.conclude(hold, subject.seconds)
    if granted then
        return hold
    end
    hold:_abandon()
    refuse(hold._lock._settings.group, code)
    return nil, message, code
end

function kind.abandon(subject)
    subject.hold:_abandon()
end

function kind.cancel(subject)
    return acquire.cancel(subject.hold)
end

function kind.deliver(subject, fn, hold, message, code)
    local client = subject.hold._lock._client
    local adapter = client:desk().adapter
    if not hold or not adapter.owner then
        return fn(hold, message, code)
    end
    hold._keep = subject.keep
    caller.pass(hold, caller.running(adapter.owner))
    if hold._keep then
        return fn(hold)
    elseif adapter.bind then
        adapter.bind(hold) -- for a callback that is broken off
    end
    local ok, problem = pcall(fn, hold)
    if hold._state == "granted" then
        hold._levels = 1
        hold:begin_release()
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
    local within = client:cleanup_timeout()
    return client:desk().core:state() == "connected" and within or min(within, acquire.OFFLINE_PATIENCE)
end

--- Asks for the lock and makes the call. Runs protected.
local function begin(subject, fn)
    local hold = subject.hold
    local client = hold._lock._client
    caller.keep(hold)
    client:desk().attempts[hold] = true
    local granted, message, code = acquire.request(hold, hold._try, hold._count)
    if granted == nil then
        return nil, message, code
    end
    local able
    able, message, code = Call.is_possible(client) -- it may have been closed meanwhile
    if not able then
        return nil, message, code
    end
    return Call.begin(client, kind, subject, hold._acquisition, limit_of(client, subject.seconds), fn)
end

--- Acquires for a callback. Returns at once.
---@param lock zklock.Lock
---@param seconds number 0: try; math.huge: no limit
---@param count number
---@param keep? boolean
---@param fn function
---@return table? # the call
---@return string? message
---@return zklock.Code? code "closed", "forked", "phase", "failed": the callback is not going to be called
return function(lock, seconds, count, keep, fn)
    local able, message, code = Call.is_possible(lock._client)
    if not able then
        refuse(lock._settings.group, code)
        return nil, message, code
    end
    -- Until the callback runs, it must not end with a request.
    local hold = Hold.new(lock, false)
    hold._try, hold._count, hold._keep = seconds == 0, count, true
    local subject = { hold = hold, seconds = seconds, keep = keep or false }
    local ok, call
    ok, call, message, code = pcall(begin, subject, fn)
    if ok and call then
        return call
    end
    hold:_abandon()
    if not ok then
        Call.take_back(lock._client, subject)
        error(call, 0)
    end
    refuse(lock._settings.group, code)
    return nil, message, code
end
