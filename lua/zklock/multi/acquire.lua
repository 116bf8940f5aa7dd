--- multi.acquire: how a multi acquires its members: all at once, or one after the other in their order.
--
-- For zklock.multi, whose header says when each is right. What is asked for and taken is noted in a run (zklock.multi.run).

local acquiring = require "zklock.lock.acquire"
local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local deadlock = require "zklock.lock.deadlock"
local LockGroups = require "zklock.lock_groups"
local runs = require "zklock.multi.run"
local wait = require "zklock.wait"

local error, ipairs, select = error, ipairs, select
local max = math.max
local now = core.now
local own, refuse = caller.own, LockGroups.refuse
local abandon_asked, find_lost, new_record = runs.abandon_asked, runs.find_lost, runs.new_record

local acquires = {}

--- Seconds to wait for a member if time is up when the multi comes to it. The member may still be free, and 0 would mean a try.
local SHORTEST_WAIT = 0.001

--- Remembers a member that was not granted because another contender has it.
local function note_refusal(self, member, code)
    if code == "timeout" then
        self._client:desk().contended:note(member:path())
    end
end

--- The answer of an acquisition that was cancelled, or was given up because its coroutine was not resumed in time.
local function was_cancelled(run)
    local message, code = "waiting for the locks was cancelled", "cancelled"
    if run._cancelled == "timeout" then
        local what = run.try and "could not try the locks" or "could not acquire the locks"
        message, code = select(2, run.multi._client:not_resumed(what, run.try))
    end
    refuse(run.multi._members[1]:settings().group, code)
    return nil, message, code
end

--- Asks for all members at once and waits for none. Takes the granted members up to the first refused one, and gives back those
-- behind it.
---@return true?
---@return string? message of the first that was not granted; nil if the run was cancelled meanwhile
---@return zklock.Code? code of it
---@return zklock.Lock? # this member, whose refusal is not counted yet
local function take_together(self, run, way, deadline)
    local handles, members = {}, self._members
    for index = 1, #members do
        local granted, message, code = acquiring.ask(members[index], way, run.me, run.keep, new_record(run, index))
        if granted == nil then
            abandon_asked(run)
            return nil, message, code, members[index]
        end
        handles[index] = run.records[index].hold:acquisition():id()
    end
    local able, message, code = wait.until_decided(self._client, handles, deadline, runs.decided, run)
    if able == nil then
        abandon_asked(run)
        return nil, message, code, members[1]
    elseif run._cancelled then
        return nil
    end
    for index = 1, #members do
        local held
        held, message, code = acquiring.conclude(run.records[index].hold, 0, run.records[index])
        if not held then
            note_refusal(self, members[index], code)
            abandon_asked(run)
            return nil, message, code, members[index]
        end
        run.taken = index
    end
    return true
end

--- Takes the members that are not taken yet in their order, and waits for each.
local function take_in_order(self, run, deadline)
    for index = run.taken + 1, #self._members do
        if run._cancelled then
            return was_cancelled(run)
        end
        local member, timeout = self._members[index], run.try and 0 or max(deadline - now(), SHORTEST_WAIT)
        run._current = new_record(run, index)
        local got, message, code = acquiring.enter(member, timeout, 1, run.keep, run._current)
        run._current = false
        if not got then
            abandon_asked(run)
            note_refusal(self, member, code)
            return nil, message, code
        end
        run.taken = index
    end
    return true
end

--- Takes all members in their order. If a taken member is lost while the run waits for further ones, the run begins anew,
-- because a waiter for a single lock does not notice the end of a session either. But if the lost member is reentrant, the
-- program may be inside the lost hold, so the answer is "lost".
local function take_all_in_order(self, run, deadline)
    while true do
        local taken, message, code = take_in_order(self, run, deadline)
        if not taken then
            return nil, message, code
        end
        local lost = find_lost(run)
        local settings = lost and lost:lock():settings()
        if not lost then
            return true
        elseif settings.reentrant or now() >= deadline then
            refuse(settings.group, "lost")
            return nil, lost:lost_message(), "lost"
        end
        runs.give_back(run)
    end
end

--- Whether the run's coroutine neither holds a member nor acquires it.
local function all_free(self, run)
    for _, member in ipairs(self._members) do
        if own(member, run.me) then
            return false
        end
    end
    return true
end

--- Whether a member was found taken lately. Counts this acquisition for each such member.
local function is_contended(self)
    local found = false
    for _, member in ipairs(self._members) do
        found = self._client:desk().contended:take(member:path()) or found
    end
    return found
end

--- Acquires all members. Unless it returns true, its caller must give everything back. Runs protected.
local function attempt(self, run, timeout)
    for _, member in ipairs(self._members) do
        local problem = deadlock(member, own(member, run.me), timeout, 1, run.me)
        if problem then
            refuse(member:settings().group, "deadlock")
            return nil, problem, "deadlock"
        end
    end
    local deadline = now() + timeout
    run.try, run.timeout = timeout == 0, timeout
    if is_contended(self) or #self._members == 1 and timeout > 0 or not all_free(self, run) then
        return take_all_in_order(self, run, deadline)
    end
    local taken, message, code, refused
    if timeout > 0 then
        taken, message, code, refused = take_together(self, run, "optimistic", deadline)
    else
        taken, message, code, refused = take_together(self, run, true, now() + self._client:cleanup_timeout())
    end
    local lost = find_lost(run)
    if taken and lost then -- in a callback of another member
        taken, message, code, refused = nil, lost:lost_message(), "lost", lost:lock()
        runs.give_back(run)
    end
    if run._cancelled and not taken then
        return was_cancelled(run)
    elseif taken or timeout == 0 or code ~= "timeout" and code ~= "disconnected" then
        if refused then
            refuse(refused:settings().group, code)
        end
        return taken, message, code
    end
    return take_all_in_order(self, run, deadline)
end

--- Acquires all members, or gives back what it has taken. Runs protected.
local function attempt_or_end(self, run, timeout)
    runs.begin(run)
    local got, message, code = attempt(self, run, timeout)
    if not got then
        runs.end_run(run)
        return nil, message, code
    end
    runs.complete(run)
    return run
end

--- Runs one acquisition from beginning to end. An error gives it up. After the protected call nothing is left to do that another
-- error could prevent.
---@return table? # the run, which has the holds
---@return string? message
---@return zklock.Code? code
function acquires.acquire(self, timeout, run)
    local other = self._runs[run.me.thread]
    if other and other.me.owner == run.me.owner then -- otherwise nginx has reused the thread of a request that was aborted
        return nil, "these locks are already being acquired by this object", "deadlock"
    end
    if wait.note_thread then
        wait.note_thread(self._client:desk(), run)
    end
    local ok, got, message, code = self._client:desk().protect(attempt_or_end, self, run, timeout)
    if ok then
        return got, message, code
    end
    runs.end_run(run)
    error(got, 0)
end

return acquires
