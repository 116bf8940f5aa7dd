--- client: one ZooKeeper session, as Lua sees it.
--
-- The session is run by C, on a separate thread. This object asks for the session's state, waits for changes, runs the
-- program's callbacks and makes locks. No global variable refers to a client: when the program drops its references to the
-- client and its locks, the client is collected and its session ends.
--
-- Callbacks (`log`, `on("state")`, a lock's `on_lost`) run when the client is pumped: inside any wait of this client (acquire,
-- release, flush, contenders, close), or in client:pump(). An error raised by a callback never reaches the wait that happened
-- to run the callback. It is reported (`zklock.report`). A callback may itself wait. This delays the wait that runs it, unless
-- the adapter spawns callbacks (`zklock.adapters`). On Lua 5.1 (not LuaJIT) a callback cannot yield.

-- What few programs use is loaded by the method that needs it: a command such as `zklock run` takes most of its time to load Lua.

local core = require "zklock.core"
local Hold = require "zklock.lock.hold"
local Lock = require "zklock.lock"
local LockGroups = require "zklock.lock_groups"
local new_check = require "zklock.check_self"
local new_desk = require "zklock.desk"
local options = require "zklock.options"
local report = require "zklock.report"
local wait = require "zklock.wait"

local error, next, pairs, pcall, setmetatable, type = error, next, pairs, pcall, setmetatable, type
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local now = core.now

--- How many seconds close waits for the end of the session, unless told otherwise. The C side has a limit too.
local CLOSE_TIMEOUT = 5

--- How many seconds a connect that has failed waits for its client to be closed. The rest goes on in the background.
local FAILED_CONNECT_CLOSE_TIMEOUT = 0.2

local LEVELS = { "error", "warn", "info", "debug" }

--- States after which waiting cannot bring a connection.
local FINAL_STATES = { closed = true, auth_failed = true }

---@class zklock.Client
local Client = {}
Client.__index = Client

--- For zklock.connect. `handle` is the C client; `settings` have been checked.
function Client.new(handle, servers, adapter, settings)
    local client = setmetatable({
        _desk = new_desk(handle, servers, adapter, settings),
        _session_timeout = settings.session_timeout,
        _log = settings.log or false,
        _same_port = settings.follow and settings.tls ~= nil, -- what options.ports_problem says counts
        _detached = false,
        _joined = false,
        _lock_groups = LockGroups.new(),
        _latest_settings = false, -- of the latest lock, see read_lock
        _last_state = "connecting",
        _last_problem = ""
    }, Client)
    if adapter.attach then
        adapter.attach(client)
    end
    return client
end

local check_self, checked = new_check("client", "a client", { [Client] = true })

--- Returns the client's desk (zklock.desk).
function Client.desk(self)
    return self._desk
end

-- State ---------------------------------------------------------------------------------------------------------------

--- The state of a client. "auth_failed" and "closed" are final.
---@alias zklock.State
---| "connecting" # no session yet, or a new one after an expiry
---| "connected"
---| "suspended" # the connection is lost, the session may still exist
---| "closed"
---| "auth_failed" # ZooKeeper refused the credentials

--- The state of the session, as known at this instant. Sends nothing.
---@return zklock.State? state nil in a process forked from the client's
---@return string problem the reason why the state is not "connected", "" if there is none; in a forked process what is wrong
---@return zklock.Code? code of that problem
function Client:state()
    check_self(self, "state")
    return self._desk.core:state()
end

--- The session timeout that the server granted.
---@return number seconds 0 before the first session, and in a process forked from the client's
function Client:session_timeout()
    check_self(self, "session_timeout")
    return self._desk.core:session_timeout() or 0
end

--- Calls `fn(state, problem, code)` at each change of the state or of the problem. The pump calls it: of several changes between
-- two pumps only the last state is seen. Raises an error on any other event, or when fn is not a function.
---@param event "state"
---@param fn fun(state: zklock.State, problem: string, code: zklock.Code?)
---@return fun() off removes fn
function Client:on(event, fn)
    check_self(self, "on")
    if event ~= "state" then
        error('client:on: event must be "state"', 2)
    elseif type(fn) ~= "function" then
        error(format("client:on: the second argument must be a function (got %s)", options.describe(fn)), 2)
    end
    local listener = { fn = fn }
    local listeners = self._desk.listeners
    listeners[#listeners + 1] = listener
    if self:needs_pump() then
        wait.attend(self)
    end
    return function()
        listener.fn = nil
    end
end

--- What Client:stats returns: counters since the client was opened. `entries`, `watches` and `memory` are present values.
---@class zklock.Stats
---@field requests integer
---@field heartbeats integer
---@field notifications integer
---@field acquisitions integer acquisitions that the program has asked for
---@field grants integer
---@field refusals integer
---@field hand_overs integer the part of the grants that needed no request
---@field passes integer the part of the grants that another client has passed on: the notification of its release sufficed
---@field losses integer
---@field unknown_outcomes integer
---@field connections integer
---@field sessions integer
---@field entries integer entries whose nodes exist or may exist now
---@field watches integer
---@field memory integer bytes, of all clients of the process
---@field reconnects integer all connections except the first
---@field group_overflows integer locks that were made in the group "other", because there were 32 groups
-- histogram of the seconds from asking for a lock to its grant: `{ count =, sum =, { le = 0.001, count = }, …, { le = math.huge,
-- count = } }`. Each bucket counts all acquisitions that took its `le` seconds or less.
---@field wait_time table
---@field server_certificate_left? number with TLS: for how many seconds the certificate of the last server is still valid
---@field own_certificate_left? number the same of the option cert_file; below 0: it has expired

--- Returns the counters of the client.
---@return zklock.Stats? stats
---@return string? message
---@return zklock.Code? code "forked"
function Client:stats()
    check_self(self, "stats")
    local stats, message, code = self._desk.core:stats()
    if not stats then
        return nil, message, code
    end
    stats.memory = core.memory()
    stats.reconnects = max(0, (stats.connections or 0) - 1)
    stats.group_overflows = self._lock_groups.overflows
    return stats
end

--- What Client:group_stats returns of a lock group (option `metrics` of Client:mutex), since the client was opened. Histograms have
-- the form of `wait_time` in stats.
--
-- A multi counts each of its members in the member's group, except that its own refusal is counted once, for the member that could
-- not be acquired.
---@class zklock.GroupStats
---@field waiting integer acquisitions that wait now
---@field held integer acquisitions that hold now
---@field refusals table<zklock.Code, integer> acquisitions that were answered with the code instead of the lock
---@field losses table<"lost"|"max_hold"|"closed", integer> holds that ended so
---@field wait_time table histogram of the seconds from asking for a lock to its grant
---@field hold_time table histogram of the seconds from a grant to its release or loss. A hold is counted when it ends

--- Returns what was measured of each lock group, by the group's name.
---@return table<string, zklock.GroupStats>? stats
---@return string? message
---@return zklock.Code? code "forked"
function Client:group_stats()
    check_self(self, "group_stats")
    local state, message, code = self._desk.core:state()
    if state == nil then
        return nil, message, code
    end
    return self._lock_groups:read()
end

--- Replaces the list of servers, for example when an ensemble moves. The session and its locks stay: if the present server is in
-- the new list, so does the connection; otherwise it is ended, and made with one of the new servers. All must belong to the
-- ensemble. With the option `follow` the servers of its configuration count again from the next connection on.
---@param servers string as of zklock.connect, with the client's chroot or without one
---@return true? set
---@return string? message
---@return zklock.Code? code "closed", "forked"
function Client:set_servers(servers)
    check_self(self, "set_servers")
    local normal, wrong = options.servers(servers)
    local chroot = self._desk.servers:match "/.*$" or ""
    if normal and not normal:find("/", 1, true) then
        normal = normal .. chroot
    end
    wrong = wrong or (normal:match "/.*$" or "") ~= chroot and format("the chroot must be the client's, '%s'", chroot)
        or self._same_port and options.ports_problem(normal)
    checked("set_servers", not wrong, wrong)
    local state, problem, code = self._desk.core:state()
    if state == nil then
        return nil, problem, code
    elseif not self._desk.core:set_servers(normal) then
        return nil, "the client is closed", "closed"
    end
    self._desk.servers = normal
    return true
end

-- The pump
-- -------------------------------------------------------------------------------------------------------------------

--- Runs the callbacks that are due, a hundred at most, and wakes the waiters for whatever has changed. Does not wait. A program
-- that holds a lock for long without waiting for anything must call it now and then, so that on_lost, on("state") and log are
-- called. Event loops call it when pollfd() is readable; it stays readable as long as there are more.
---@return boolean more whether more may be due
function Client:pump()
    check_self(self, "pump")
    return wait.pump(self)
end

--- The fd that is readable while pump has something to do, for event loops. Do not read, write or close it.
---@return integer? fd
---@return string? message
---@return zklock.Code? code "forked"
function Client:pollfd()
    check_self(self, "pollfd")
    return self._desk.core:pollfd()
end

--- For adapters: whether pump has work or may have some soon: a waiter waits for this client, a callback waits for its answer, a
-- lock of the client is held, or a watch is armed. As long as this is so an adapter's pump should go on. Otherwise it may stop,
-- and let the client be collected.
---@return boolean
function Client:needs_pump()
    check_self(self, "needs_pump")
    local desk = self._desk
    return next(desk.everybody) ~= nil or next(desk.observers) ~= nil or next(desk.calls) ~= nil
        or desk.core:busy() == true
end

--- For zklock.ui: the nodes by which this client holds locks at this instant, and how long each is certainly held if nothing more
-- arrives from ZooKeeper.
---@return table # node's path -> seconds; math.huge without a lease
function Client.leases(self)
    local leases = {}
    for _, observer in pairs(self._desk.observers) do
        local acquisition = Hold.is_hold(observer) and Hold.held_acquisition(observer)
        local path = acquisition and acquisition:node()
        if path then
            leases[path] = acquisition:remaining()
        end
    end
    return leases
end

--- Reports an error that cannot be returned to a caller.
function Client.report(self, message)
    report.error(self._log, message)
end

--- Calls one of the program's callbacks by `call`, a pcall. Its error is reported.
local function run_protected(self, what, call, fn, ...)
    local ok, problem = call(fn, ...)
    if not ok then
        self:report(format("the callback %s raised: %s", what, report.text_of(problem)))
    end
end

--- Runs one of the program's callbacks. `what` names it in the report of its error.
function Client.run_callback(self, what, fn, ...)
    local spawn = self._desk.adapter.spawn
    if spawn then
        local first, second, third = ...
        return spawn(function()
            run_protected(self, what, pcall, fn, first, second, third)
        end)
    end
    run_protected(self, what, wait.call_back, fn, ...)
end

--- Whether the program is to be told of changes of the state, or of what happens.
function Client.has_listeners(self)
    return self._log or #self._desk.listeners > 0
end

--- Passes a line to `log`, if there is one.
function Client.say(self, level, text)
    if self._log then
        report.line(self._log, level, text)
    end
end

--- Passes to `log` the log lines that C has collected.
function Client.drain_log(self)
    if not self._log then
        return
    end
    local handle = self._desk.core
    local level, message = handle:next_log()
    while level do
        self:say(LEVELS[level] or "debug", message)
        level, message = handle:next_log()
    end
end

--- Notifies the listeners if the state, or the problem, has changed since the last pump.
---@return boolean # whether it changed
function Client.state_changed(self)
    local state, problem, code = self._desk.core:state()
    if state == self._last_state and problem == self._last_problem then
        return false
    end
    self._last_state, self._last_problem = state, problem
    local listeners = self._desk.listeners
    local kept = 0
    for index = 1, #listeners do
        local listener = listeners[index]
        listeners[index] = nil
        if listener.fn then
            kept = kept + 1
            listeners[kept] = listener
        end
    end
    for index = 1, kept do
        local fn = listeners[index] and listeners[index].fn
        if fn then
            self:run_callback('on("state")', fn, state, problem, code)
        end
    end
    return true
end

-- Waiting -------------------------------------------------------------------------------------------------------------

--- Whether there is a connection, or never will be one.
local function connection_decided(client)
    local state = client._desk.core:state()
    return state == nil or state == "connected" or FINAL_STATES[state] or false
end

local function await_connection(client, timeout)
    local deadline = now() + timeout
    local state, problem, problem_code
    repeat
        local decided, message, code = wait.until_decided(client, nil, deadline, connection_decided, client)
        if decided == nil then
            return nil, message, code
        elseif not decided then
            local _, reason, why = client._desk.core:state()
            return nil, format("no connection to ZooKeeper at %s within %s: %s", client._desk.servers, options.in_seconds(timeout),
                reason ~= "" and reason or "it does not answer"),
                why == "tls_failed" and why or "disconnected"
        end
        state, problem, problem_code = client._desk.core:state()
        if state == "connected" and problem_code == nil then
            return true
        end
    until state == nil or state == "connected" or FINAL_STATES[state] -- otherwise it was lost again at once
    return nil, format("cannot work with ZooKeeper at %s: %s", client._desk.servers, problem), problem_code or "closed"
end

--- Begins to end the session, if close has not, and stops the adapter's pump: nothing is going to wait for this client any more.
function Client:_abandon()
    self._desk.core:close()
    if self._desk.adapter.detach and not self._detached then
        self._detached = true
        self._desk.adapter.detach(self)
    end
end

--- For zklock.connect: waits for the first connection. Closes the client if there is none in time, or on an error.
function Client.await_connection(self, timeout)
    local ok, connected, message, code = self._desk.protect(await_connection, self, timeout)
    if ok and connected then
        return true
    end
    if not ok then
        self:_abandon()
        error(connected, 0)
    end
    self:close(FAILED_CONNECT_CLOSE_TIMEOUT)
    self:_abandon()
    return nil, message, code
end

--- Returns a message about a missing connection: what was tried, which servers, and the reason.
function Client.unreachable(self, what)
    local _, problem = self._desk.core:state()
    if problem == nil or problem == "" then
        return format("%s: ZooKeeper at %s does not answer", what, self._desk.servers)
    end
    return format("%s: no connection to ZooKeeper at %s: %s", what, self._desk.servers, problem)
end

--- Seconds without a packet from a server that owes answers after which it counts as hanging: at least, and at most.
local HANGS_AFTER, HANGS_FOR_SURE = 0.1, 1

--- Whether the servers answered a question whose time is up, so that its answer is about what was asked. False without a
-- connection, and if the server hangs: it owes answers, and nothing has come from it for a second, or half of the question's time.
---@param seconds number how long the question had
function Client.is_answered(self, seconds)
    local unanswered = self._desk.core:unanswered()
    return self._desk.core:state() == "connected" and unanswered ~= nil
        and unanswered < max(HANGS_AFTER, min(HANGS_FOR_SURE, seconds / 2))
end

--- The answer of what was given up because its coroutine was not resumed in time: what was tried, and whether as a try, of which
-- "timeout" would say that the answer is no.
---@return nil
---@return string message
---@return zklock.Code code
function Client.not_resumed(self, what, try)
    local code = (try or not self:is_answered(huge)) and "disconnected" or "timeout"
    return nil, what .. ": its coroutine was not resumed in time", code
end

--- How many seconds to wait for the acknowledgement of clean-up, which then goes on in the background: the session timeout.
function Client.cleanup_timeout(self)
    local negotiated = self._desk.core:session_timeout()
    return negotiated and negotiated > 0 and negotiated or self._session_timeout
end

--- Like _cleanup_timeout for a release: the session timeout or `given`, the timeout of the program, whichever is less.
function Client.release_timeout(self, given)
    local block_for = self:cleanup_timeout()
    return given and min(given, block_for) or block_for
end

--- Waits until no clean-up of this client is under way any more: the nodes of released, cancelled and timed-out acquisitions
-- have been deleted.
---@param timeout? number seconds, 0 or more; nil: no limit
---@return true? flushed
---@return string? message
---@return zklock.Code? code "timeout", "disconnected", "closed", "forked"
function Client:flush(timeout)
    check_self(self, "flush")
    local seconds = checked("flush", options.read_timeout(timeout))
    local query, message, code = self._desk.core:flush()
    if query then
        query, message, code = require("zklock.node").await(self, query, seconds, "flush", false, now() + seconds)
    end
    local flushed
    if query then
        flushed, message, code = query:result()
    end
    return flushed and true or nil, message, code
end

--- Whether the client is closed. A client whose credentials were refused stays in that state for good.
local function is_closed(client)
    local state = client._desk.core:state()
    return state == nil or FINAL_STATES[state] or false
end

--- Ends the session. Its locks are free at once, and waits of this client end with the code "closed". Waits until the server has
-- acknowledged the end of the session or `timeout` has passed; the rest goes on in the background. A second close has no
-- effect.
---@param timeout? number seconds, 0 or more; 0 does not wait; default 5
---@return true? closed
---@return string? message
---@return zklock.Code? code "timeout", "forked"
function Client:close(timeout)
    check_self(self, "close")
    local seconds = checked("close", options.read_timeout(timeout, CLOSE_TIMEOUT))
    local state, problem, code = self._desk.core:state()
    if state == nil then
        return nil, problem, code
    elseif self._joined then
        return true
    end
    self._desk.closing = true -- from now on zklock.shared does not return it
    self._desk.core:close()
    local closed, message
    closed, message, code = wait.until_decided(self, nil, now() + seconds, is_closed, self)
    if closed == nil then
        return nil, message, code
    elseif not closed then
        return nil, format("the client is still closing after %g s", seconds), "timeout"
    end
    while wait.pump(self) do end -- luacheck: ignore 542
    if not self._joined then
        self._joined = true
        self._desk.core:join()
        self:_abandon()
    end
    return true
end

-- Locks ---------------------------------------------------------------------------------------------------------------

--- The settings of every lock: `{ check, default }`. Where the default is nil, the client's setting applies.
local LOCK_SCHEMA = {
    reentrant = { options.boolean, false },
    identity = { options.identity },
    acl = { options.acl },
    wait_release = { options.boolean, true },
    handoff = { options.handoff, 16 },
    linger = { options.timeout, 0 },
    max_hold = { options.duration },
    metrics = { options.label },
    on_lost = { options.callback },
    on_revoke = { options.callback }
}

--- The settings of a latch.
local LATCH_SCHEMA = { acl = LOCK_SCHEMA.acl }

--- No settings, and no names of settings.
local NONE = {}

--- Checks the settings of a lock or a latch.
---@return table? # the settings
---@return string? wrong
local function read_settings(client, given, schema)
    local settings, wrong = options.read(given, schema)
    local desk = client._desk
    wrong = wrong or options.creator_problem(settings.acl, desk.has_auth,
        "when the client was opened without auth or tls.cert_file")
    if wrong then
        return nil, wrong
    end
    settings.identity = settings.identity or desk.identity
    settings.acl = settings.acl or desk.acl
    settings.group = client._lock_groups:find(settings.metrics)
    settings.specs = {}
    local adapter = desk.adapter
    settings.desk, settings.core, settings.protect = desk, desk.core, desk.protect
    settings.observers, settings.listeners = desk.observers, desk.listeners
    settings.owner, settings.bind = adapter.owner or false, adapter.bind or false
    settings.may_block_for = settings.linger == 0 and adapter.may_block_for or false -- a lingering lock is usually granted at once
    settings.observed = (adapter.bind or settings.on_lost or settings.on_revoke) and true or false
    return settings
end

--- Checks the path and the settings of a lock, for the methods that make one.
---@param schema? table of the settings. nil: those of a lock, which may be those of the latest lock, and must not be changed
---@return table? # the settings
---@return string? wrong
local function read_lock(client, path, given, schema)
    local wrong = options.path_problem(path)
    if wrong then
        return nil, wrong
    elseif schema then
        return read_settings(client, given, schema)
    end
    local table = given == nil and NONE or given
    local settings = type(table) == "table" and options.recall(client._latest_settings, table, NONE)
    if settings then
        return settings
    end
    settings, wrong = read_settings(client, given, LOCK_SCHEMA)
    if settings and settings.metrics == nil then -- a group is found each time, and counted if it is one too many
        client._latest_settings = options.remember(table, settings, NONE)
    end
    return settings, wrong
end

---@class zklock.LockOptions
---@field reentrant? boolean the holding coroutine may acquire again. The lock is free after as many releases. Default: false
---@field identity? string as for `zklock.connect`, for this lock's nodes; default: the client's
---@field acl? zklock.Acl for this lock's nodes; default: the client's
---@field wait_release? boolean false: release returns before the server has acknowledged it; default: true
-- 0 or more, default 16: one node of this client serves so many acquisitions after its first one, without a request. So a waiter
-- elsewhere waits for all acquisitions that were asked for before its own, and of each other client for at most `handoff` later
-- ones (of a semaphore: per grant that the other client holds). Readers that wait together are granted together, and count once.
-- While no other client queues, the bound does not count. 0 means strict order of arrival across the fleet.
---@field handoff? integer
-- seconds, 0 or more, default 0. For so long a released lock stays with this client, which can acquire it again without a request.
-- The first contender elsewhere that queues for it, by acquire with a timeout above 0, gets it at once. A try elsewhere does not
-- queue: it is refused as long as the lock lingers. Not for semaphores.
---@field linger? number
---@field max_hold? number seconds, more than 0, after which a grant ends as a loss with the reason "max_hold"; default: never
-- the name of the lock group in which this lock is measured (Client:group_stats, zklock.metrics): 1 to 64 bytes of UTF-8, default
-- "default". Any number of locks may have the same group. Name what the locks are for, never a key. A client has 32 groups at
-- most, and counts every further name as "other".
---@field metrics? string
-- called once for each loss of a hold: by the pump, or by the release or acquire that finds the loss before the pump does. The
-- reason is a code: "lost" (the session, its lease or the node), "max_hold", "closed".
---@field on_lost? fun(hold: zklock.Hold, reason: "lost"|"max_hold"|"closed", message: string)
-- called by the pump each time that another contender asks the holder to release (Lock:revoke). Costs a request and a watch for
-- each acquisition. A client watches held nodes in this way until the lengths of their paths reach 200 KB in total. A log line
-- reports each node beyond that.
---@field on_revoke? fun(hold: zklock.Hold)

--- Makes a lock that has one holder at a time, over all processes that name the same path. Sends nothing.
--
-- Two objects on one path exclude each other, also within one client. Coroutines that share an object acquire it separately,
-- and wait for each other. Keep a reference to the lock or the hold while holding: if both are garbage-collected, the lock is
-- released.
--
---@param path string absolute, of the lock's directory, 32768 bytes at most; created when missing
---@param settings? zklock.LockOptions
---@return zklock.Lock lock
function Client:mutex(path, settings)
    check_self(self, "mutex")
    local read = checked("mutex", read_lock(self, path, settings))
    return Lock.new(Lock, self, Lock.MUTEX, path, read)
end

--- Makes a lock that several readers or one writer can hold. Sends nothing. The result has two locks, `read` and `write`, each
-- with all methods of a lock; see `RwLock`.
--
---@param path string as of Client:mutex
---@param settings? zklock.LockOptions as of Client:mutex, for both halves
---@return zklock.RwLock lock
function Client:rwlock(path, settings)
    check_self(self, "rwlock")
    local read = checked("rwlock", read_lock(self, path, settings))
    return require("zklock.rwlock").new(self, path, read)
end

--- Makes a lock with several permits. Each acquisition takes one or more of them. Sends nothing. The first user of the path
-- fixes the number of permits. An acquire with another number is answered "mismatch". See `Semaphore`.
--
---@param path string as of Client:mutex. Its children "locks", the semaphore's queue, and "leases" belong to the semaphore: no
--   lock should use their paths. (zklock.path makes neither.) Holding a lock on the queue prevents other contenders from taking
--   permits.
---@param permits integer a whole number from 1 to 2147483647
---@param settings? zklock.LockOptions as of Client:mutex, except `linger`: permits cannot linger, and any number but 0 is refused
---@return zklock.Semaphore semaphore
function Client:semaphore(path, permits, settings)
    check_self(self, "semaphore")
    local read = checked("semaphore", read_lock(self, path, settings))
    checked("semaphore", read.linger == 0, "option 'linger' must be 0 or left out: a semaphore's permits cannot linger")
    permits = checked("semaphore", options.read_permits(permits))
    return require("zklock.semaphore").new(self, path, permits, read)
end

---@class zklock.LatchOptions
---@field acl? zklock.Acl of the latch's nodes; default: the client's

--- Makes a countdown latch: programs wait until others have counted down to 0. Sends nothing. The first
-- that waits or counts down fixes the count. Any use with another count is answered "mismatch". See `Latch`.
--
---@param path string as of Client:mutex. Its children belong to the latch: no lock should use their paths.
---@param count integer a whole number from 0 (open from the beginning) to 2147483647
---@param settings? zklock.LatchOptions
---@return zklock.Latch latch
function Client:latch(path, count, settings)
    check_self(self, "latch")
    local read = checked("latch", read_lock(self, path, settings, LATCH_SCHEMA))
    count = checked("latch", options.read_latch_count(count))
    return require("zklock.latch").new(self, path, count, read)
end

--- Makes one lock of several, of any kinds: all are acquired or none. Sends nothing. See `Multi`.
-- Raises an error when the list is empty or malformed, or names a path twice, or locks of another client, or a semaphore and a lock
-- on the semaphore's queue (its path and "/locks").
--
---@param locks zklock.Lock[] a list of locks of this client, each on a different path; of a read/write lock its read or its write
---@return zklock.Multi multi
function Client:multi(locks)
    check_self(self, "multi")
    local Multi = require "zklock.multi"
    local members = checked("multi", Multi.check_members(self, locks))
    return Multi.new(self, members)
end

---@class zklock.ClusterMutexOptions
-- seconds above 0, default 60. The mutex is held no longer than that. Then the next call may run its function while this one still
-- runs, and this one answers "lost".
---@field ttl? number
---@field timeout? number seconds, 0 or more: the call waits no longer for another program; default: ttl
---@field no_wait? boolean true: does not wait for another program. Not together with timeout
-- true: the mutex stays held until ttl is over, also when fn has ended or raised, as long as this client is open. So fn runs once
-- in that time. Client:group_stats counts the end as a loss with the reason "max_hold"
---@field no_cleanup? boolean

--- Runs a function once in the whole fleet: the first program that calls this for a key runs its function, and those that call it
-- meanwhile wait until that has ended, and run nothing. Kong's function of the same name is the model. A call after the end runs
-- its function again. For a job that must be done once in a day, or again after a crash: Client:once.
--
-- An error of fn is not raised.
--
---@param key string any string; the mutex is at zklock.path("/cluster_mutex", key)
---@param settings? zklock.ClusterMutexOptions
---@param fn fun(hold: zklock.Hold) is called with the hold; its results are dropped. It may yield, but not on Lua 5.1
---@return boolean? ran true: fn has run. false: another contender was ahead; fn has not run, and nothing is known of what the
--   other one has achieved. nil: an error
---@return string? message
---@return zklock.Code? code "timeout" (another contender is still ahead), "failed" (fn raised; the message has the error and its
--   traceback), "lost" (the mutex was lost while fn ran, or before), otherwise as of Lock:acquire
function Client:cluster_mutex(key, settings, fn)
    check_self(self, "cluster_mutex")
    local cluster_mutex = require "zklock.cluster_mutex"
    local read = checked("cluster_mutex", cluster_mutex.read(key, settings, fn))
    return cluster_mutex.run(self, key, read, fn)
end

---@class zklock.OnceOptions
-- seconds above 0: the length of the periods, which begin at whole multiples of it since 1970. 86400: the days in UTC. Either this
-- or `slot` must be given
---@field every? number
-- the name of the period, 1 to 1024 bytes: the function does not run again for the name for which it has run last
---@field slot? string
---@field timeout? number seconds, 0 or more: how long to wait for another program; 0: as Lock:try_acquire; default: for ever
-- true: a function that has failed is run again in the same period. It has failed if it has raised an error, or returned nil or
-- false and a message; default: false
---@field retry_failed? boolean

--- Runs a function once in each period in the whole fleet: in a period in which it has run already, it does not run again. The lock
-- is the mutex at `path`. A node beside it records who has run the function, when, and whether it failed.
--
-- The function runs at least once: again, if its program ends, or loses the lock, before that is recorded. All times are those of
-- the servers, so clocks of machines do not matter. Programs that call this meanwhile wait until the function has ended, and then
-- answer false.
--
-- Raises what fn raises, which counts as failed.
--
---@param path string as of Client:mutex
---@param settings zklock.OnceOptions
---@param fn fun(hold: zklock.Hold): ...: any is called with the hold. It may yield, but not on Lua 5.1
---@return boolean? ran true: fn has run; false: it had run in this period. nil: an error
---@return any ... fn's results; or, after false, the record: `{ by = identity, begun = seconds since 1970, age = seconds since
--   then, outcome = "done"|"failed", slot = string|nil }`; or message, code: as of Lock:with_lock. After "lost" fn's results follow
--   if it has run: nothing is recorded, and it will run again
function Client:once(path, settings, fn)
    check_self(self, "once")
    local once = require "zklock.once"
    local read, wrong = checked("once", once.read(settings, fn)), options.path_problem(path)
    checked("once", not wrong, wrong)
    return once.run(self, path, read, fn)
end

---@class zklock.LeaderOptions
-- called when the candidate is elected, with the fencing token of the term. It may run as long as the candidate leads, where the
-- event loop has coroutines or timers for callbacks.
---@field on_elected? fun(token: string)
-- called once for each term, at its end. The reason is "lost" (the session, its lease or the node), "resigned", "closed" (the
-- candidate or its client), "revoked" (another client has called revoke for a mutex on the path) or "failed" (on_elected has
-- raised, or ngx.exit has ended it). After all but "closed" the candidate campaigns again, when on_elected and on_lost have
-- returned; after "failed" it pauses first, for a second, then for two, four, … up to 60.
---@field on_lost? fun(reason: "lost"|"resigned"|"closed"|"revoked"|"failed")
---@field identity? string the candidate's name, for other clients; as of Client:mutex
---@field acl? zklock.Acl as of Client:mutex
-- as of Client:mutex; "leader" by default, apart from locks, because candidates wait for as long as another one leads
---@field metrics? string

--- Makes a candidate for leadership, and begins its campaign in the background. One of all candidates of a path leads. Does not
-- wait. A plain program must call client:pump() now and then, event loops do that. See `Leader`.
--
-- In nginx call it in init_worker_by_lua*. When a worker exits, its candidates step down with "closed" and the next worker is
-- elected.
--
---@param path string as of Client:mutex
---@param settings? zklock.LeaderOptions
---@return zklock.Leader? leader
---@return string? message
---@return zklock.Code? code "closed", "forked", "phase", "unsupported": as of Lock:acquire with `callback`
function Client:leader(path, settings)
    check_self(self, "leader")
    local Leader = require "zklock.leader"
    local read = checked("leader", Leader.read(settings))
    local given = { identity = read.identity, acl = read.acl, metrics = read.metrics }
    local lock_settings = checked("leader", read_lock(self, path, given, LOCK_SCHEMA)) -- a schema: they are its own
    return Leader.new(self, path, read, lock_settings)
end

---@class zklock.GroupOptions
--- called with the group when its members may have changed: then ask `members`. Called from client:pump, or by the event loop
---@field on_change? fun(group: zklock.Group)
---@field acl? zklock.Acl as of Client:mutex

--- Makes a group object. Members of a path see each other, with their data. Does not wait, and does not join. See `Group`.
---@param path string as of Client:mutex; use it for no lock
---@param settings? zklock.GroupOptions
---@return zklock.Group? group
---@return string? message
---@return zklock.Code? code of `on_change`: "closed", "forked", "phase", "unsupported", "failed"
function Client:group(path, settings)
    check_self(self, "group")
    local Group = require "zklock.group"
    local read = checked("group", Group.read(settings))
    checked("group", read_lock(self, path, { acl = read.acl }, LOCK_SCHEMA))
    return Group.new(self, path, read)
end

--- For adapters whose process is about to end: ends all candidacies.
---@return boolean # whether an on_lost still runs
function Client.end_leaders(self)
    return next(self._desk.leaders) ~= nil and require("zklock.leader").close_all(self)
end

-- Nodes ---------------------------------------------------------------------------------------------------------------

-- Loaded with the first name that is none of those above.
setmetatable(Client, {
    __index = function(_, name)
        require("zklock.node").extend(Client)
        setmetatable(Client, nil)
        return Client[name]
    end
})

--- Begins a transaction: checks and writes that the server executes all together, or none of them.
---@return zklock.Transaction transaction
function Client:transaction()
    check_self(self, "transaction")
    return require("zklock.transaction").new(self)
end

--- "zklock client (host:2181, connected)". Contains no credentials.
function Client:__tostring()
    return format("zklock client (%s, %s)", self._desk.servers, self._desk.core:state() or "forked")
end

--- For `local client <close> = assert(zklock.connect(…))`: closes the client at the end of the block.
function Client:__close()
    self:close(not wait.is_possible(self) and 0 or nil)
end

return Client
