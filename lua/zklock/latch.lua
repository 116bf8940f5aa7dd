--- latch: a countdown latch. Coroutines, programs and machines wait until a count has reached 0.
--
-- Both methods that wait are acquisitions on the C side (csrc/lock/kind_latch.c has the nodes and the races). Nothing is held
-- afterwards: an open latch stays open, whatever becomes of the session that has seen it.

local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local queue = require "zklock.inspect.queue"
local short = require("zklock.text").short
local wait = require "zklock.wait"

local error, min, pairs, setmetatable = error, math.min, pairs, setmetatable
local format = string.format
local now = core.now

---@class zklock.Latch
local Latch = {}
Latch.__index = Latch

local check_self, checked = new_check("latch", "a latch", { [Latch] = true })

--- The length of a gate's name.
local GATE_LENGTH = #"gate-" + 36

--- For Client:latch. The arguments have been checked.
function Latch.new(client, path, count, settings)
    return setmetatable({
        _client = client,
        _path = path,
        _count = count,
        _identity = settings.identity,
        _acl = settings.acl,
        _specs = {},                            -- the lock specs on the C side, by their mode
        _waits = setmetatable({}, { __mode = "k" }) -- the waits under way
    }, Latch)
end

--- Returns the lock spec of a mode, "latch" or "count"; or nil, message, code.
local function spec_of(self, mode)
    local spec, message, code = self._specs[mode], nil, nil
    if not spec then
        spec, message, code = core.lock_spec {
            path = self._path, mode = mode, permits = self._count, identity = self._identity, acl = self._acl
        }
        self._specs[mode] = spec
    end
    return spec, message, code
end

--- One wait or count-down under way. Adapters see it as a hold.
local Run = {}
Run.__index = Run

function Run:acquisition()
    return self._acquisition
end

function Run:caller()
    return self._caller
end

--- For zklock.wait: its coroutine does not go on.
function Run:abandon(code)
    self._cancelled = code
    self._acquisition:cancel()
end

local function is_decided(run)
    return run._cancelled or not run._acquisition:waits()
end

--- Seconds that wait(0) waits until C reports that there is no connection. Its thread may be closing a session.
local OFFLINE_PATIENCE = 0.1

--- Returns nil, message and code for a run whose time is up.
local function timed_out(self, run, seconds)
    local client = self._client
    local what = format("could not %s the latch %s within %s", run.what, self._path, options.in_seconds(seconds))
    if run.mode == "count" then
        what = what .. ", and may or may not have counted"
    end
    if run._cancelled then
        return client:not_resumed(what, run.try)
    elseif run.try or not client:is_answered(seconds) then
        return nil, client:unreachable(what), "disconnected"
    end
    return nil, what, "timeout"
end

--- Asks C, and waits for the answer. Runs protected.
local function ask(self, run, seconds)
    local client = self._client
    local spec, message, code = spec_of(self, run.mode)
    if not spec then
        return nil, message, code
    end
    local deadline = now() + (run.try and client:cleanup_timeout() or seconds)
    local asked
    asked, message, code = core.acquire(client:desk().core, spec, run, run.try, 1)
    if asked == nil then
        return nil, message, code
    end
    local acquisition = run._acquisition
    local adapter = client:desk().adapter
    if adapter.bind then
        run._caller = caller.running(adapter.owner)
        adapter.bind(run) -- the wait ends with whatever runs, such as a request
    end
    if run.try and client:desk().core:state() ~= "connected" then
        deadline = min(deadline, now() + OFFLINE_PATIENCE)
    end
    local decided
    decided, message, code = wait.until_decided(client, acquisition:id(), deadline, is_decided, run)
    if decided == nil then
        return nil, message, code
    elseif run._cancelled == "timeout" then
        return timed_out(self, run, seconds)
    elseif run._cancelled then
        return nil, format("waiting for the latch %s was cancelled", self._path), "cancelled"
    end
    local phase
    phase, code, message = acquisition:phase()
    if phase == "granted" or phase == "lost" then
        return true -- a count-down stays counted, and a latch open, when the lease lapses
    elseif phase == "waiting" then
        return timed_out(self, run, seconds)
    elseif phase == nil then
        return nil, code, message -- after a fork, these two are a message and its code
    end
    return nil, message, code
end

--- Runs one acquisition from beginning to end.
local function perform(self, mode, what, seconds)
    local run = setmetatable({
        mode = mode, what = what, try = seconds == 0, _acquisition = false, _caller = false, _cancelled = false
    }, Run)
    self._waits[run] = true
    local ok, done, message, code = self._client:desk().protect(ask, self, run, seconds)
    self._waits[run] = nil
    if run._acquisition then
        run._acquisition:cancel()
    end
    if not ok then
        error(done, 0)
    end
    return done, message, code
end

--- Counts down by one. The count-down stays when its client ends. A repeated request after a lost reply, or in a new session,
-- counts once. On a latch that is open it has no effect.
--
-- It costs a read and a transaction, and the loser of two at the same time repeats both. Only the last one notifies waiters.
---@param timeout? number seconds, 0 or more; nil: no limit; 0: does not wait for a connection
---@return true? counted
---@return string? message
---@return zklock.Code? code "timeout", "disconnected", "cancelled", "closed" and "no_node" (it may or may not have counted),
--   "mismatch" (the latch was made for another count), "no_auth", "auth_failed", "forked", "phase", "failed". "no_node": the latch
--   or its gate was deleted meanwhile, or the chroot does not exist. "not_empty": a program has made nodes below the gate.
function Latch:count_down(timeout)
    check_self(self, "count_down")
    local seconds = checked("count_down", options.read_timeout(timeout))
    return perform(self, "count", "count down", seconds)
end

--- Waits until the count is 0. If it is already, the answer comes after one read.
--
-- n waiting clients cost n notifications and n reads when the latch opens, and nothing at any other count-down. Waiters of one
-- client share their notification.
---@param timeout? number seconds, 0 or more; nil: no limit; 0: asks once
---@return true? open
---@return string? message
---@return zklock.Code? code as of count_down: "timeout" when the count is not 0
function Latch:wait(timeout)
    check_self(self, "wait")
    local seconds = checked("wait", options.read_timeout(timeout))
    return perform(self, "latch", "wait for", seconds)
end

--- Reads the data of the latch's node, which must be what csrc/lock/kind_latch.c writes.
---@return number? # how many are left
---@return string? message
---@return zklock.Code? code
local function read_data(self, data)
    local left, _, gate = queue.latch(data)
    if not left or #gate ~= GATE_LENGTH or left > self._count or data ~= format("%d/%d %s", left, self._count, gate) then
        return nil, format("the latch '%s' has '%s' as its data, and was to count from %d", self._path,
            short(data), self._count), "mismatch"
    end
    return left
end

--- Reads how many count-downs are missing. The result may be outdated when it is returned.
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return integer? missing 0: the latch is open
---@return string? message
---@return zklock.Code? code "mismatch", "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
function Latch:count(timeout)
    check_self(self, "count")
    local seconds = checked("count", options.read_timeout(timeout, self._client:cleanup_timeout()))
    local data, message, code = self._client:get(self._path, { timeout = seconds })
    if not data and code ~= "no_node" then
        return nil, message, code
    elseif not data or data == "" then
        return self._count -- none has counted yet
    end
    return read_data(self, data)
end

--- Ends the waits of other coroutines in this object's wait and count_down, which answer "cancelled". A count-down that is
-- cancelled may or may not have counted.
---@return boolean cancelled whether there was a wait to end
function Latch:cancel()
    check_self(self, "cancel")
    local client, runs = self._client, {}
    for run in pairs(self._waits) do
        runs[#runs + 1] = not run._cancelled and run or nil
    end
    for index = 1, #runs do
        local run = runs[index]
        run._cancelled = "cancelled"
        local waiter = run._acquisition and client:desk().by_handle[run._acquisition:id()]
        if waiter then
            client:desk().adapter.wake(waiter)
        end
    end
    return runs[1] ~= nil
end

--- The path that the latch was made with.
---@return string path
function Latch:path()
    check_self(self, "path")
    return self._path
end

return Latch
