--- multi: several locks as one.
--
-- Either all members are held when acquire returns, or none. A multi waits for one member after the other in the order of their
-- paths' bytes, whatever order the caller gave. So two multis over the same paths cannot wait for each other.
--
-- This order costs a round trip for each member. Therefore the first try asks for all members at once and waits for none. If
-- all are free, this takes one round trip. If one is not free, the members behind it in the order are given back before the
-- multi waits for anything; otherwise two multis could wait for each other. Members that are taken in vain cost requests, and
-- make a try of another contender fail although no contender gets the lock. So the client remembers which paths were found
-- taken, and the next acquisitions of such a path use the order from the start.

local core = require "zklock.core"
local Hold = require "zklock.hold"
local Lock = require "zklock.lock"
local options = require "zklock.options"
local Owner = require "zklock.owner"
local Transaction = require "zklock.transaction"
local wait = require "zklock.wait"

local error, getmetatable, ipairs, pairs, pcall, setmetatable, tostring, type =
    error, getmetatable, ipairs, pairs, pcall, setmetatable, tostring, type
local concat, sort = table.concat, table.sort
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local now, precedes = core.now, options.precedes

local Multi = {}
Multi.__index = Multi

local ACQUIRE_SCHEMA = { timeout = { options.timeout, huge }, keep = { options.boolean } }

--- How many acquisitions of a path use the order after the path was found taken.
local IN_ORDER_AFTER_REFUSAL = 8

--- How many paths a client remembers as taken, at least. The maximum is twice as many.
local REMEMBERED = 128

--- Seconds to wait for a member if time is up when the multi comes to it. The member may still be free, and 0 would mean a try.
local SHORTEST_WAIT = 0.001

--- Reads the argument of acquire and with_lock.
-- @treturn number seconds; or nil and what is wrong
-- @treturn boolean|nil whether to keep
local function read_timeout(given)
    if given == nil then
        return huge
    end
    local settings, wrong = options.read_timeout_or_table(given, ACQUIRE_SCHEMA)
    if not settings then
        return nil, wrong
    end
    return settings.timeout, settings.keep
end

--- Orders by bytes: all programs of the fleet must have the same order, whatever their locales are.
local function by_path(one, other)
    return precedes(one._path, other._path)
end

--- Finds a semaphore and a lock on the semaphore's queue, which cannot be held together: the lock would wait for the head of the
-- queue, which waits for the permits.
-- @treturn string|nil what is wrong
local function queue_among(members)
    local queues = {}
    for _, member in ipairs(members) do
        if member._permits then
            queues[member._path .. "/locks"] = member._path
        end
    end
    for _, member in ipairs(members) do
        local semaphore = not member._permits and queues[member._path]
        if semaphore then
            return format("the path %s is the queue of the semaphore %s: the two would wait for each other", member._path,
                semaphore)
        end
    end
    return nil
end

--- Checks the members, for Client:multi.
-- @treturn table the members in the order of their paths; or nil and what is wrong
function Multi.check_members(client, members)
    if type(members) ~= "table" or getmetatable(members) ~= nil then
        return nil, "the argument must be a list of locks"
    end
    local count = 0
    for key in pairs(members) do
        if type(key) ~= "number" then
            return nil, format("the argument must be a list of locks (there is a key '%s')", tostring(key))
        end
        count = count + 1
    end
    if count == 0 then
        return nil, "there must be at least one lock"
    end
    local ordered = {}
    for index = 1, count do
        local member = members[index]
        if not Lock.is_lock(member) then
            return nil, format("member %d must be a lock (of a read/write lock: its read or its write)", index)
        elseif member._client ~= client then
            return nil, format("member %d is a lock of another client", index)
        end
        ordered[index] = member
    end
    sort(ordered, by_path)
    for index = 2, count do
        if ordered[index]._path == ordered[index - 1]._path then
            return nil, format("two members are on the path %s: they would wait for each other", ordered[index]._path)
        end
    end
    local wrong = queue_among(ordered)
    if wrong then
        return nil, wrong
    end
    return ordered
end

--- Remembers, for a client, the paths that were found taken: how many further acquisitions of each path use the order. There are
-- two generations. When the recent one is full, the older one is forgotten.
local Contended = {}
Contended.__index = Contended

local function new_contended()
    return setmetatable({ recent = {}, older = {}, size = 0 }, Contended)
end

--- Notes that a path was found taken.
function Contended:note(path)
    if not self.recent[path] then
        self.size = self.size + 1
        if self.size > REMEMBERED then
            self.recent, self.older, self.size = {}, self.recent, 1
        end
    end
    self.recent[path] = IN_ORDER_AFTER_REFUSAL
end

--- Whether an acquisition of the path has to use the order. Counts the acquisition.
function Contended:take(path)
    for _, generation in ipairs({ self.recent, self.older }) do
        local left = generation[path]
        if left and left > 0 then
            generation[path] = left - 1
            return true
        end
    end
    return false
end

--- For Client:multi. `ordered` is the list that check_members returned.
function Multi.new(client, ordered)
    client._contended = client._contended or new_contended()
    return setmetatable({
        _client = client,
        _members = ordered,
        -- The acquisitions under way, by the acquirers of their coroutines.
        _runs = setmetatable({}, { __mode = "kv" }),
        _kept = {},                                  -- the list of records that each of them has taken -> true
        _keepers = setmetatable({}, { __mode = "v" })  -- that list -> the acquisition
    }, Multi)
end

--- Raises at the caller of the public method if it was called with a dot instead of a colon.
local function check_self(self, method)
    if getmetatable(self) ~= Multi then
        error(format("multi:%s: call it with a colon on a multi", method), 3)
    end
end

-- Releasing -----------------------------------------------------------------------------------------------------------

--- Notes in `records` everything that release is going to give back, before the first member is given back.
local function note_members(self, records)
    local noted = {}
    for index, member in ipairs(self._members) do
        local lock = member:_meant()
        noted[index] = lock and lock:_record_of_hold()
    end
    records.noted = noted
end

--- Releases the members: begins with all of them, then waits for all. A failure does not stop the other releases. Runs
-- protected.
-- @tparam table records the records are noted in its field `noted`
-- @tparam boolean|nil wait_for_server nil: by the option of each member
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
-- @treturn true|nil
-- @treturn string|nil message: all failures
-- @treturn string|nil code of the first failure
local function release_noted(self, records, wait_for_server, timeout)
    note_members(self, records)
    local problems, first_code, holds = {}, nil, {}
    local function note(message, code)
        problems[#problems + 1] = message
        first_code = first_code or code
    end
    local seconds, count, members = self._client:_release_timeout(timeout), #self._members, {}
    local deadline = now() + seconds
    for index = count, 1, -1 do
        local member = self._members[index]:_meant()
        local hold, message, code
        if member then
            members[index] = member
            hold, message, code = member:_begin_release()
        else
            hold, message, code = self._members[index]:_not_yours()
        end
        if not hold then
            note(message, code)
        elseif hold ~= true then
            holds[index] = hold
        end
    end
    for index = 1, count do
        local member, hold = members[index], holds[index]
        local waits = wait_for_server
        if waits == nil and hold then
            waits = member._wait_release
        end
        if hold and waits then
            local released, message, code = member:_await_release(hold, deadline, seconds)
            if not released then
                note(message, code)
            end
        end
    end
    if first_code then
        return nil, concat(problems, "; "), first_code
    end
    return true
end

--- Like release_noted. After an error either all members are released or none.
local function release(self, wait_for_server, timeout)
    local records = { noted = {} }
    local ok, released, message, code = self._client._protect(release_noted, self, records, wait_for_server, timeout)
    if ok then
        return released, message, code
    end
    for index = #self._members, 1, -1 do
        local record = records.noted[index]
        if record then
            Lock.take_back(record)
        end
    end
    error(released, 0)
end

-- Acquiring -----------------------------------------------------------------------------------------------------------
--
-- A *run* is one acquisition. Its `records` (see zklock.lock) list by index what is asked for, and are written before anything
-- is sent. The first `taken` records are held; they are also in `kept`. `members` are the lock objects by which the run's
-- coroutine acquires: the multi's members, or their companions where other coroutines use the members.
--
-- The client refers to the run weakly (`client._attempts[run]`), as to a lock's attempt. If the run's coroutine is never
-- resumed, the run is collected with everything that it waited for. Its weak holds end then: only the run kept them.
-- A hold with several levels, of a reentrant lock, is not weak: the multi's next acquisition gives back the run's level.

--- Whether everything that the run has asked for is decided.
local function run_decided(run)
    for index = run.taken + 1, #run.records do
        local hold = run.records[index].hold
        if not hold.cancelled and hold.acquisition:waits() then
            return false
        end
    end
    return true
end

--- Notes that the run begins to ask for a member.
local function new_record(run, index)
    local record = Lock.new_record()
    run.records[index] = record
    return record
end

--- Gives up everything that the run has asked for and not acquired.
local function abandon(run)
    for index = #run.records, run.taken + 1, -1 do
        Lock.take_back(run.records[index])
        run.records[index] = nil
    end
end

--- Notes that the run holds its members up to this index.
local function keep(run, index)
    run.kept[index] = run.records[index]
    run.taken = index
end

--- Makes the holds taken last weak before the run waits for a further member, so that they end with the run.
local function weaken(run)
    for index = run.weakened + 1, run.taken do
        local member, hold = run.members[index], run.kept[index].hold
        if member._hold == hold and hold.levels == 1 then
            run.keepers[index] = Hold.weaken(member)
        end
    end
    run.weakened = run.taken
end

--- Gives back what a run has taken, as far as it is unchanged.
local function give_back(records)
    for index = #records, 1, -1 do
        Lock.take_back(records[index])
    end
end

--- Gives the run a new list of what it has taken. The list outlives the run.
local function begin_to_keep(self, run)
    run.taken, run.weakened, run.records, run.kept, run.members = 0, 0, {}, {}, {}
    self._kept[run.kept], self._keepers[run.kept] = true, run
end

--- Forgets what a run has taken, so that it is not given back later.
local function forget_kept(self, kept)
    self._kept[kept], self._keepers[kept] = nil, nil
end

--- Gives back what the run has taken, so that the run can begin anew.
local function let_go(self, run)
    give_back(run.records)
    forget_kept(self, run.kept)
    begin_to_keep(self, run)
end

--- Gives back what was taken by runs that were collected with their coroutines.
local function give_back_forgotten(self)
    local forgotten = {}
    for kept in pairs(self._kept) do
        if self._keepers[kept] == nil then
            forgotten[#forgotten + 1] = kept
        end
    end
    for index = 1, #forgotten do
        give_back(forgotten[index])
        forget_kept(self, forgotten[index])
    end
end

--- Ends a run, with everything that it has asked for and taken. Does nothing the second time.
local function end_run(self, run)
    give_back(run.records)
    forget_kept(self, run.kept)
    self._client._attempts[run] = nil
    if self._runs[run.acquirer] == run then
        self._runs[run.acquirer] = nil
    end
end

local Run = {}
Run.__index = Run

--- For zklock.wait: the run's coroutine was killed.
function Run:abandon(code)
    self.cancelled = code
    if self.multi._client._attempts[self] then
        end_run(self.multi, self)
    end
end

--- Remembers a member that was not granted because another contender has it.
local function note_refusal(self, member, code)
    if code == "timeout" then
        self._client._contended:note(member._path)
    end
end

--- Finds the lock object by which the run's coroutine acquires a member.
local function place(self, run, index)
    local member = Owner.place(self._members[index], run.acquirer)
    run.members[index] = member
    return member
end

--- The answer of an acquisition that was cancelled, or was given up because its coroutine was not resumed in time.
local function was_cancelled(run)
    if run.cancelled == "timeout" then
        return nil, "could not acquire the locks in time", "timeout"
    end
    return nil, "waiting for the locks was cancelled", "cancelled"
end

--- Asks for all members at once and waits for none. Takes the granted members up to the first refused one, and gives back those
-- behind it.
-- @treturn true|nil message and code of the first that was not granted
local function take_together(self, run, way, deadline)
    local handles, members = {}, run.members
    for index = 1, #members do
        local acquisition, message, code = members[index]:_ask(way, run.acquirer, run.keep, new_record(run, index))
        if not acquisition then
            abandon(run)
            return nil, message, code
        end
        handles[index] = acquisition:id()
    end
    local able, message, code = wait.until_decided(self._client, handles, deadline, run_decided, run)
    if able == nil then
        abandon(run)
        return nil, message, code
    elseif run.cancelled then
        return was_cancelled(run)
    end
    for index = 1, #members do
        local held
        held, message, code = members[index]:_conclude(run.records[index].hold, 0)
        if not held then
            note_refusal(self, members[index], code)
            abandon(run)
            return nil, message, code
        end
        keep(run, index)
    end
    return true
end

--- Takes the members that are not taken yet in their order, and waits for each.
local function take_in_order(self, run, deadline)
    for index = run.taken + 1, #self._members do
        if run.cancelled then
            return was_cancelled(run)
        end
        weaken(run)
        run.current = place(self, run, index)
        local timeout = run.try and 0 or max(deadline - now(), SHORTEST_WAIT)
        local got, message, code = run.current:_enter(timeout, 1, run.keep, new_record(run, index))
        run.current = nil
        if not got then
            abandon(run)
            note_refusal(self, self._members[index], code)
            return nil, message, code
        end
        run.members[index] = got
        keep(run, index)
    end
    return true
end

--- Finds a taken member that is not held any more. A member can be lost while the run waits for further members. Returns nil if
-- all are held.
local function find_lost(run)
    for index = 1, run.taken do
        local hold = run.kept[index].hold
        if hold.released or not hold.acquisition:held() then
            return run.members[index], hold
        end
    end
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
        local member, hold = find_lost(run)
        if not member then
            return true
        elseif member._reentrant or now() >= deadline then
            return nil, member:_lost_message(hold), "lost"
        end
        let_go(self, run)
    end
end

--- Whether no member is held or being acquired by its object.
local function all_free(self, run)
    for _, member in ipairs(run.members) do
        if Hold.present(member) or self._client._attempts[member] then
            return false
        end
    end
    return true
end

--- Whether a member was found taken lately. Counts this acquisition for each such member.
local function is_contended(self)
    local found = false
    for _, member in ipairs(self._members) do
        found = self._client._contended:take(member._path) or found
    end
    return found
end

--- Acquires all members. Unless it returns true, its caller must give everything back. Runs protected.
local function attempt(self, run, timeout)
    for index = 1, #self._members do
        local deadlock = place(self, run, index):_deadlock(timeout, 1, run.acquirer)
        if deadlock then
            return nil, deadlock, "deadlock"
        end
    end
    local deadline = now() + timeout
    run.try = timeout == 0
    if is_contended(self) or #self._members == 1 and timeout > 0 or not all_free(self, run) then
        return take_all_in_order(self, run, deadline)
    end
    local taken, message, code
    if timeout > 0 then
        taken, message, code = take_together(self, run, Lock.OPTIMISTIC, deadline)
    else
        taken, message, code = take_together(self, run, Lock.TRY, now() + self._client:_cleanup_timeout())
    end
    local member, hold = find_lost(run)
    if taken and member then -- lost in a callback of another member
        taken, message, code = nil, member:_lost_message(hold), "lost"
        let_go(self, run)
    end
    if taken or timeout == 0 or code ~= "timeout" and code ~= "disconnected" then
        return taken, message, code
    end
    return take_all_in_order(self, run, deadline)
end

--- Acquires all members, or gives back what it has taken. Runs protected.
local function attempt_or_end(self, run, timeout)
    give_back_forgotten(self)
    begin_to_keep(self, run)
    self._client._attempts[run], self._runs[run.acquirer] = run, run
    local got, message, code = attempt(self, run, timeout)
    if not got then
        end_run(self, run)
        return nil, message, code
    end
    for index in pairs(run.keepers) do
        Hold.strengthen(run.members[index], run.kept[index].hold)
    end
    forget_kept(self, run.kept)
    self._client._attempts[run], self._runs[run.acquirer] = nil, nil
    return run
end

--- Makes a run for the running coroutine. Nothing is asked for yet.
local function new_run(self, keep_it)
    return setmetatable({
        multi = self, acquirer = Owner.running(self._client), records = {}, kept = {}, keepers = {}, current = nil, try = false,
        cancelled = false, keep = keep_it or false
    }, Run)
end

--- Runs one acquisition from beginning to end. An error gives it up. After the protected call nothing is left to do that another
-- error could prevent.
-- @treturn table|nil the run, which has the members and their holds; nil, message, code
local function acquire(self, timeout, run)
    if self._runs[run.acquirer] then
        return nil, "these locks are already being acquired by this object", "deadlock"
    end
    wait.note_thread(self._client._registry, run)
    local ok, got, message, code = self._client._protect(attempt_or_end, self, run, timeout)
    if ok then
        return got, message, code
    end
    end_run(self, run)
    error(got, 0)
end

--- Returns the results of Multi:acquire for a run.
local function answer(self, run, message, code)
    if run then
        return self
    end
    return nil, message, code
end

--- Acquires all members, or none.
--
-- One deadline covers all members. If a member cannot be acquired, the members that were taken are released, and the answer is
-- the answer for that member. A member that is held already is a "deadlock", unless it is reentrant.
--
-- @tparam number|table|nil timeout seconds, 0 or more, or `{timeout = seconds, keep = boolean}`, see Lock:acquire; nil: no
--   limit; 0: as try_acquire
-- @treturn Multi|nil
-- @treturn string|nil message
-- @treturn string|nil code as of Lock:acquire
-- @raise when the timeout is malformed; an error raised while waiting (Ctrl-C) is raised again after everything is given up
function Multi:acquire(timeout)
    check_self(self, "acquire")
    local seconds, keep_it = read_timeout(timeout)
    if not seconds then
        error("multi:acquire: " .. keep_it, 2)
    end
    return answer(self, acquire(self, seconds, new_run(self, keep_it)))
end

--- Acquires all members if each of them is free and no contender is ahead. Nothing is written for a member that is taken.
-- @treturn Multi|nil
-- @treturn string|nil message
-- @treturn string|nil code as of Lock:try_acquire
function Multi:try_acquire()
    check_self(self, "try_acquire")
    return answer(self, acquire(self, 0, new_run(self)))
end

--- Ends the wait of one run. Returns whether there was a wait to end.
local function cancel(run)
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

--- Ends the waits of other coroutines in this object's acquire, which answers "cancelled" and holds nothing: as Lock:cancel.
-- @treturn boolean whether there was a wait to end
function Multi:cancel()
    check_self(self, "cancel")
    local runs, cancelled = {}, false
    local cancels = Owner.cancels(self._members[1], Owner.running(self._client))
    for _, run in pairs(self._runs) do
        if cancels(run.acquirer) then
            runs[#runs + 1] = run
        end
    end
    for index = 1, #runs do
        cancelled = cancel(runs[index]) or cancelled
    end
    return cancelled
end

local RELEASE_SCHEMA = { wait = { options.boolean }, timeout = { options.timeout } }

--- Releases all members, also when some releases fail.
-- @tparam table|nil settings `{wait = false}` returns at once; default: each member's option wait_release. `{timeout =
--   seconds}`: as of Lock:release
-- @treturn true|nil
-- @treturn string|nil message: all failures
-- @treturn string|nil code of the first failure: as of Lock:release
-- @raise when settings are malformed
function Multi:release(settings)
    check_self(self, "release")
    local read, wrong = options.read(settings, RELEASE_SCHEMA)
    if not read then
        error("multi:release: " .. wrong, 2)
    end
    return release(self, read.wait, read.timeout)
end

--- Waits until the server has acknowledged the ends of holds that have begun, for each member with the option wait_release.
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
-- @tparam table holds the hold whose end has begun, by index; false or true where there is nothing to wait for
-- @tparam table members the lock objects of these holds
-- @treturn string|nil the message of a member whose lock turns out to be lost
local function await_releases(self, timeout, holds, members)
    local seconds = self._client:_release_timeout(timeout)
    local deadline = now() + seconds
    local lost
    for index = 1, #self._members do
        local member, hold = members[index], holds[index]
        if hold and hold ~= true and member._wait_release then
            local released, message, code = member:_await_release(hold, deadline, seconds)
            lost = lost or not released and code == "lost" and message or nil
        end
    end
    return lost
end

--- Begins to release what a with_lock has acquired and still holds.
-- @treturn table for each member the hold whose end has begun, true, or false, as await_releases takes it
-- @treturn table for each member the lock object of that hold, or false
local function begin_end(run)
    local holds, members = {}, {}
    for index = #run.records, 1, -1 do
        local record = run.records[index]
        local hold, level, member = record.hold, record.level, nil
        if hold then
            Hold.disclose(hold, level)
            member = record.lock:_ends(hold, level)
        end
        members[index], holds[index] = member or false, member and member:_begin_release() or false
    end
    return holds, members
end

--- Ends a with_lock after its function: `ok, …` are pcall's results. Releases what with_lock has acquired. `seconds` was the
-- limit of the acquisition.
local function finish(self, run, seconds, ok, ...)
    local lost
    for index = 1, #run.records do
        local record = run.records[index]
        if not record.hold.released and not record.hold.acquisition:held() then
            lost = lost or record.lock:_lost_message(record.hold)
        end
    end
    local found = await_releases(self, Hold.release_timeout(seconds), begin_end(run))
    lost = lost or found
    if not ok then
        error((...), 0)
    elseif lost then
        return nil, lost, "lost", ...
    end
    return true, ...
end

--- The part of with_lock that runs protected.
local function acquire_and_run(self, run, fn, seconds, ...)
    local got, message, code = acquire(self, seconds, run)
    if not got then
        return nil, message, code
    end
    for index = 1, #run.records do
        local record = run.records[index]
        Hold.enclose(record.lock, record.hold)
    end
    return finish(self, run, seconds, pcall(fn, self, ...))
end

--- Ends a with_lock. An error may have been raised anywhere, also between the acquisition and fn, or in the release.
local function conclude_with(self, run, seconds, ok, ...)
    if ok then
        return ...
    end
    await_releases(self, Hold.release_timeout(seconds), begin_end(run))
    error((...), 0)
end

--- Runs `fn(multi, …)` while holding all members, and always releases them afterwards: as Lock:with_lock.
-- @tparam function fn
-- @tparam table|number|nil timeout as of acquire; nil: no limit
-- @param ... further arguments for fn
-- @treturn true|nil nil: fn did not run, or a member was lost before fn ended
-- @return fn's results; or message, code; when the code is "lost" and fn ran, its results follow
-- @raise what fn raises; when the arguments are malformed
function Multi:with_lock(fn, timeout, ...)
    check_self(self, "with_lock")
    if not options.callback(fn) then
        error("multi:with_lock: the first argument must be a function", 2)
    end
    local seconds, keep_it = read_timeout(timeout)
    if not seconds then
        error("multi:with_lock: " .. keep_it, 2)
    end
    local run = new_run(self, keep_it)
    return conclude_with(self, run, seconds, self._client._protect(acquire_and_run, self, run, fn, seconds, ...))
end

-- Looking -------------------------------------------------------------------------------------------------------------

--- Whether all members are held at this instant. Sends nothing.
-- @treturn boolean
function Multi:held()
    check_self(self, "held")
    return self:remaining() > 0
end

--- How much longer all members are certainly held if nothing more arrives from ZooKeeper.
-- @treturn number seconds; 0 when a member is not held
function Multi:remaining()
    check_self(self, "remaining")
    local least = huge
    for _, member in ipairs(self._members) do
        least = min(least, member:remaining())
    end
    return least
end

--- The members in the order in which they are taken.
-- @treturn table a new list of locks
function Multi:members()
    check_self(self, "members")
    local members = {}
    for index, member in ipairs(self._members) do
        members[index] = member
    end
    return members
end

--- Begins a transaction whose writes happen only if all members are still held. The server checks that, for a semaphore of all
-- permits, together with the writes. The description of Lock:transaction applies to each member, and the message names the
-- first member that is not held.
-- @treturn Transaction bound to the present holds: if a member was released, or lost, and acquired again, another transaction
--   is needed
function Multi:transaction()
    check_self(self, "transaction")
    local members, holds = {}, {}
    for index, object in ipairs(self._members) do
        local member = object:_meant()
        members[index], holds[index] = member or object, member and Hold.present(member) or false
    end
    return Transaction._guarded_by_all(self._client, members, holds)
end

--- "zklock multi (3 locks, held)".
function Multi:__tostring()
    return format("zklock multi (%d locks, %s)", #self._members, self:held() and "held" or "not held")
end

--- For Lua 5.4's `local held <close> = …`: releases at the end of the block each member that is still held and is not another
-- coroutine's.
function Multi:__close()
    local holds, members = {}, {}
    for index = #self._members, 1, -1 do
        local member = self._members[index]:_closes()
        members[index], holds[index] = member or false, member and member:_begin_release() or false
    end
    if wait.is_possible(self._client) then
        await_releases(self, nil, holds, members)
    end
end

return Multi
