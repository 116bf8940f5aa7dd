--- multi.run: one acquisition of a multi: what it has asked for, what it has taken, and how it gives that back.
--
-- For zklock.multi and zklock.multi.acquire. zklock.wait abandons a run whose coroutine was killed.
--
-- A run's `records` (zklock.lock.acquire) list by index what is asked for, and are written before anything is sent. The first
-- `taken` of them are held. `_current` is the one that is waited for. If the run's coroutine is never resumed, it is collected,
-- and with it what it has taken and what it waits for: the holds are the coroutine's (zklock.lock.caller).

local acquiring = require "zklock.lock.acquire"
local caller = require "zklock.lock.caller"

local setmetatable = setmetatable
local max = math.max
local cancel, new_record, take_back = acquiring.cancel, acquiring.new_record, acquiring.take_back

local runs = {}

--- The metatable of runs.
local Run = {}
Run.__index = Run

--- Makes a run for the running coroutine. Nothing is asked for yet.
---@param multi zklock.Multi
---@param keep? boolean whether the holds outlive the request that acquires them
---@param within? boolean whether with_lock is going to give them back
function runs.new(multi, keep, within)
    return setmetatable({
        multi = multi, me = caller.running(multi._client:desk().adapter.owner), records = {}, taken = 0, try = false,
        timeout = false, keep = keep or false, within = within or false, _current = false, _cancelled = false
    }, Run)
end

--- Notes that the run begins to ask for a member.
function runs.new_record(run, index)
    local record = new_record(true, run.within, run.timeout)
    run.records[index] = record
    return record
end

--- Whether everything that the run has asked for is decided.
function runs.decided(run)
    for index = run.taken + 1, #run.records do
        local hold = run.records[index].hold
        if not acquiring.decided(hold) then
            return false
        end
    end
    return true
end

--- Finds a taken member that is not held any more. A member can be lost while the run waits for further members.
---@return zklock.Hold? # its hold; nil if all are held
function runs.find_lost(run)
    for index = 1, run.taken do
        local hold = run.records[index].hold
        if not hold:held() then
            return hold
        end
    end
    return nil
end

--- The holds of a run that has taken all members.
function runs.holds(run)
    local holds = {}
    for index = 1, run.taken do
        holds[index] = run.records[index].hold
    end
    return holds
end

--- Gives up everything that the run has asked for and not acquired.
function runs.abandon_asked(run)
    for index = #run.records, run.taken + 1, -1 do
        take_back(run.records[index])
        run.records[index] = nil
    end
end

--- Gives back what the run has asked for and taken, so that it can begin anew.
function runs.give_back(run)
    for index = #run.records, 1, -1 do
        take_back(run.records[index])
    end
    run.records, run.taken = {}, 0
end

--- Begins a run: from now on the client, and the multi, know it.
function runs.begin(run)
    local multi = run.multi
    multi._client:desk().attempts[run], multi._runs[run.me.thread] = true, run
end

local function forget(run)
    local multi = run.multi
    multi._client:desk().attempts[run] = nil
    if multi._runs[run.me.thread] == run then
        multi._runs[run.me.thread] = nil
    end
end

--- Ends a run that has taken all members: the holds are the program's.
function runs.complete(run)
    for index = 1, run.taken do
        local record = run.records[index]
        local hold = record.hold
        if hold:state() == "granted" then
            hold._levels = max(hold._levels, record.level)
            caller.note_granted(hold, run.within)
        end
    end
    forget(run)
end

--- Ends a run, with everything that it has asked for and taken. Does nothing the second time.
function runs.end_run(run)
    runs.give_back(run)
    forget(run)
end

--- Whether this hold is the one that it waits for.
function Run:waits_for(hold)
    return self._current and self._current.hold == hold
end

--- For zklock.wait: the run's coroutine was killed.
function Run:abandon(code)
    self._cancelled = code
    if self.multi._client:desk().attempts[self] then
        runs.end_run(self)
    end
end

--- Ends the wait of one run. Returns whether there was a wait to end.
function runs.cancel(run)
    if run._cancelled then
        return false
    end
    run._cancelled = "cancelled"
    for index = run.taken + 1, #run.records do
        if run.records[index].hold then
            cancel(run.records[index].hold)
        end
    end
    return true
end

return runs
