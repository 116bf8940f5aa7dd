--- multi.run: one acquisition of a multi: what it has asked for, what it has taken, and how it gives that back.
--
-- For zklock.multi and zklock.multi.acquire. zklock.wait abandons a run whose coroutine was killed.
--
-- A run's `records` (zklock.lock.record) list by index what is asked for, and are written before anything is sent. The first
-- `taken` records are held; they are also in `kept`. `members` are the lock objects by which the run's coroutine acquires: the
-- multi's members, or their companions where other coroutines use the members.
--
-- The client refers to the run weakly (`client._attempts[run]`), as to a lock's attempt. If the run's coroutine is never
-- resumed, the run is collected with everything that it waited for. Its weak holds end then, because only `keepers` kept them.
-- A hold with several levels, of a reentrant lock, is not weak: the multi's next acquisition gives back the run's level.

local Hold = require "zklock.hold"
local Owner = require "zklock.owner"
local Record = require "zklock.lock.record"

local pairs, setmetatable = pairs, setmetatable
local new_record, take_back = Record.new, Record.take_back

local runs = {}

--- The metatable of runs.
local Run = {}
Run.__index = Run

--- Makes a run for the running coroutine. Nothing is asked for yet.
-- @tparam Multi multi
-- @tparam boolean|nil keep whether the holds outlive the request that acquires them
function runs.new(multi, keep)
    return setmetatable({
        multi = multi, acquirer = Owner.running(multi._client), records = {}, kept = {}, keepers = {}, current = nil,
        try = false, cancelled = false, keep = keep or false
    }, Run)
end

-- What it has asked for -----------------------------------------------------------------------------------------------

--- Notes that the run begins to ask for a member.
function runs.new_record(run, index)
    local record = new_record()
    run.records[index] = record
    return record
end

--- Whether everything that the run has asked for is decided.
function runs.decided(run)
    for index = run.taken + 1, #run.records do
        local hold = run.records[index].hold
        if not hold.cancelled and hold.acquisition:waits() then
            return false
        end
    end
    return true
end

--- Gives up everything that the run has asked for and not acquired.
function runs.abandon_asked(run)
    for index = #run.records, run.taken + 1, -1 do
        take_back(run.records[index])
        run.records[index] = nil
    end
end

-- What it has taken ---------------------------------------------------------------------------------------------------

--- Notes that the run holds its members up to this index.
function runs.keep(run, index)
    run.kept[index] = run.records[index]
    run.taken = index
end

--- Makes the holds taken last weak before the run waits for a further member, so that they end with the run.
function runs.weaken(run)
    for index = run.weakened + 1, run.taken do
        local member, hold = run.members[index], run.kept[index].hold
        if member._hold == hold and hold.levels == 1 then
            run.keepers[index] = Hold.weaken(member)
        end
    end
    run.weakened = run.taken
end

--- Finds a taken member that is not held any more. A member can be lost while the run waits for further members. Returns nil if
-- all are held.
function runs.find_lost(run)
    for index = 1, run.taken do
        local hold = run.kept[index].hold
        if hold.released or not hold.acquisition:held() then
            return run.members[index], hold
        end
    end
end

-- Giving back ---------------------------------------------------------------------------------------------------------

--- Gives back what a run has taken, as far as it is unchanged.
local function give_back(records)
    for index = #records, 1, -1 do
        take_back(records[index])
    end
end

--- Gives the run a new list of what it has taken. The list outlives the run.
local function begin_to_keep(multi, run)
    run.taken, run.weakened, run.records, run.kept, run.members = 0, 0, {}, {}, {}
    multi._kept[run.kept], multi._runs_by_kept[run.kept] = true, run
end

--- Forgets what a run has taken, so that it is not given back later.
local function forget_kept(multi, kept)
    multi._kept[kept], multi._runs_by_kept[kept] = nil, nil
end

--- Gives back what the run has taken, so that the run can begin anew.
function runs.begin_anew(multi, run)
    give_back(run.records)
    forget_kept(multi, run.kept)
    begin_to_keep(multi, run)
end

--- Gives back what was taken by runs that were collected with their coroutines.
local function give_back_forgotten(multi)
    local forgotten = {}
    for kept in pairs(multi._kept) do
        if multi._runs_by_kept[kept] == nil then
            forgotten[#forgotten + 1] = kept
        end
    end
    for index = 1, #forgotten do
        give_back(forgotten[index])
        forget_kept(multi, forgotten[index])
    end
end

--- Begins a run: from now on the client, and the multi, refer to it.
function runs.begin(multi, run)
    give_back_forgotten(multi)
    begin_to_keep(multi, run)
    multi._client._attempts[run], multi._runs[run.acquirer] = run, run
end

--- Ends a run that has taken all members. Its holds are ordinary holds from now on.
function runs.complete(multi, run)
    for index in pairs(run.keepers) do
        Hold.strengthen(run.members[index], run.kept[index].hold)
    end
    forget_kept(multi, run.kept)
    multi._client._attempts[run], multi._runs[run.acquirer] = nil, nil
end

--- Ends a run, with everything that it has asked for and taken. Does nothing the second time.
local function end_run(multi, run)
    give_back(run.records)
    forget_kept(multi, run.kept)
    multi._client._attempts[run] = nil
    if multi._runs[run.acquirer] == run then
        multi._runs[run.acquirer] = nil
    end
end
runs.end_run = end_run

--- For zklock.wait: the run's coroutine was killed.
function Run:abandon(code)
    self.cancelled = code
    if self.multi._client._attempts[self] then
        end_run(self.multi, self)
    end
end

--- Ends the wait of one run. Returns whether there was a wait to end.
function runs.cancel(run)
    if run.cancelled then
        return false
    end
    run.cancelled = "cancelled"
    if run.current then
        run.current:_cancel()
        return true
    end
    for index = run.taken + 1, #run.records do
        run.members[index]:_cancel()
    end
    return true
end

return runs
