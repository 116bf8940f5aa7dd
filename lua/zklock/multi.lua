--- multi: several locks as one.
--
-- Either all members are held when acquire returns, or none. A multi waits for one member after the other in the order of their
-- paths' bytes, whatever order the caller gave. So two multis over the same paths cannot wait for each other.
--
-- This order costs a round trip for each member. Therefore the first try asks for all members at once and waits for none. If
-- all are free, this takes one round trip. If one is not free, the members behind it in the order are given back before the
-- multi waits for anything; otherwise two multis could wait for each other. Members that are taken in vain cost requests, and a
-- try by another contender meanwhile was refused although no contender got the lock. So the client remembers which paths were
-- taken, and the next acquisitions of such a path use the order from the start.

-- Implementation.
--
-- zklock.multi.members checks the list of locks, zklock.multi.contended remembers paths that were taken. A *run*
-- (zklock.multi.run) is one acquisition. zklock.multi.acquire and zklock.multi.release say how the members are acquired and
-- released. zklock.multi.hold is what is held. This file is the class.

local acquires = require "zklock.multi.acquire"
local arguments = require "zklock.lock.arguments"
local caller = require "zklock.lock.caller"
local Contended = require "zklock.multi.contended"
local Hold = require "zklock.lock.hold"
local member_list = require "zklock.multi.members"
local MultiHold = require "zklock.multi.hold"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local releases = require "zklock.multi.release"
local runs = require "zklock.multi.run"
local with_lock = require "zklock.lock.with_lock"

local ipairs, pairs, setmetatable = ipairs, pairs, setmetatable
local format = string.format
local acquire, new_run, read_acquire = acquires.acquire, runs.new, arguments.read_acquire

---@class zklock.Multi
local Multi = {}
Multi.__index = Multi

local check_self, checked = new_check("multi", "a multi", { [Multi] = true })

--- For zklock.lock.arguments: acquire and with_lock of a multi take what with_lock of a mutex takes.
Multi._kind, Multi._permits = { name = "multi", schemas = arguments.MULTI }, false
Multi._read_acquire = read_acquire

Multi.check_members = member_list.check

--- For Client:multi. `ordered` is the list that check_members returned.
function Multi.new(client, ordered)
    local desk = client:desk()
    desk.contended = desk.contended or Contended.new()
    return setmetatable({
        _client = client,
        _members = ordered,
        _runs = setmetatable({}, { __mode = "kv" }) -- the acquisitions under way, by their coroutines
    }, Multi)
end

-- Acquiring -----------------------------------------------------------------------------------------------------------

--- Returns the results of Multi:acquire for a run.
local function answer(self, run, message, code)
    if run then
        return MultiHold.new(self, runs.holds(run))
    end
    return nil, message, code
end

--- Acquires all members, or none.
--
-- One deadline covers all members. If a member cannot be acquired, the members that were taken are released, and the answer is
-- the answer for that member. A member that is held already is a "deadlock", unless it is reentrant.
--
-- A multi waits for its members, one after the other. So there is no `callback`: use a coroutine, or acquire the members by
-- callbacks in the order of their paths. An error raised while waiting (Ctrl-C) is raised again after everything is given up.
--
---@param timeout? number|zklock.WithLockOptions seconds, or a table with `timeout` and `keep`; nil: no limit; 0: as try_acquire
---@return zklock.MultiHold? hold
---@return string? message
---@return zklock.Code? code as of Lock:acquire
function Multi:acquire(timeout)
    check_self(self, "acquire")
    local seconds, _, keep = checked("acquire", read_acquire(self, timeout, "acquire"))
    return answer(self, acquire(self, seconds, new_run(self, keep)))
end

--- Acquires all members if each of them is free and no contender is ahead. Nothing is written for a member that is taken.
---@return zklock.MultiHold? hold
---@return string? message
---@return zklock.Code? code as of Lock:try_acquire
function Multi:try_acquire()
    check_self(self, "try_acquire")
    return answer(self, acquire(self, 0, new_run(self)))
end

--- Ends the waits of other coroutines in this object's acquire, which answers "cancelled" and holds nothing: as Lock:cancel.
---@return boolean was_waiting whether there was a wait to end
function Multi:cancel()
    check_self(self, "cancel")
    local found, cancelled = {}, false
    local me = caller.running(self._client:desk().adapter.owner)
    for _, run in pairs(self._runs) do
        if caller.cancels(run.me, me) then
            found[#found + 1] = run
        end
    end
    for index = 1, #found do
        cancelled = runs.cancel(found[index]) or cancelled
    end
    return cancelled
end

--- What with_lock does with all members; see zklock.lock.with_lock.
local steps = {}

function steps.acquire(self, run, seconds)
    local got, message, code = acquire(self, seconds, run)
    if not got then
        return nil, message, code
    end
    local holds = runs.holds(run)
    for index = 1, #holds do
        holds[index]:enclose()
    end
    return MultiHold.new(self, holds)
end

function steps.holds(run)
    return runs.holds(run)
end

function steps.lost(run)
    local message, code
    for index = 1, #run.records do
        message, code = run.records[index].hold:problem()
        if message then
            break
        end
    end
    return message, code
end

function steps.release(run, seconds, may_wait)
    local ended = releases.begin_end(run)
    return may_wait and releases.await(run.multi, Hold.release_timeout(seconds), ended) or nil
end

--- Runs `fn(hold, …)` while holding all members, and always releases them afterwards: as Lock:with_lock. Raises what fn raises.
---@param fn fun(hold: zklock.MultiHold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions as of acquire, and `min_hold` as of Lock:with_lock; nil: no limit
---@param ... any further arguments for fn
---@return true? ran nil: fn did not run, or a member was lost before fn ended
---@return any ... fn's results; or message, code; when the code is "lost" and fn ran, its results follow
function Multi:with_lock(fn, timeout, ...)
    check_self(self, "with_lock")
    local seconds, count, keep, _, min_hold = checked("with_lock", with_lock.read(self, fn, timeout))
    local run = new_run(self, keep, true)
    run.extra = min_hold and { min_hold = min_hold } or nil
    return with_lock.run(steps, self, run, fn, seconds, count, keep, ...)
end

-- The running coroutine's holds ----------------------------------------------------------------------------------------

--- The running coroutine's holds of the members, as `Lock` finds them.
local function present(self)
    local holds = {}
    for index, member in ipairs(self._members) do
        holds[index] = caller.meant(member) or false
    end
    return MultiHold.new(self, holds)
end

--- Releases what the running coroutine holds of the members: as MultiHold:release.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message all failures
---@return zklock.Code? code of the first failure: as of Lock:release
function Multi:release(settings)
    check_self(self, "release")
    local read = checked("release", options.read(settings, arguments.RELEASE))
    return releases.release(self, present(self)._holds, read.wait, read.timeout)
end

--- Whether the running coroutine holds all members at this instant. Sends nothing.
---@return boolean held
function Multi:held()
    check_self(self, "held")
    return present(self):held()
end

--- As MultiHold:remaining.
---@return number seconds 0 when a member is not held
function Multi:remaining()
    check_self(self, "remaining")
    return present(self):remaining()
end

--- As MultiHold:transaction. Bound to the running coroutine's present holds: later ones need another transaction.
---@return zklock.Transaction transaction
function Multi:transaction()
    check_self(self, "transaction")
    return present(self):transaction()
end

-- The members ---------------------------------------------------------------------------------------------------------

--- The members in the order in which they are taken.
---@return zklock.Lock[] members a new list of locks
function Multi:members()
    check_self(self, "members")
    local members = {}
    for index, member in ipairs(self._members) do
        members[index] = member
    end
    return members
end

--- "zklock multi (3 locks, held)".
function Multi:__tostring()
    return format("zklock multi (%d locks, %s)", #self._members, self:held() and "held" or "not held")
end

return Multi
