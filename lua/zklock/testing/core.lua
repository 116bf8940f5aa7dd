--- testing.core: what zklock.testing has in the place of zklock.core: the C client, and the functions of csrc/lua.
--
-- A client's requests are executed in the order in which they were sent: at once, if there is a connection, the servers do not
-- hang, and the way takes no time. The C client tells zklock by a pipe which handles have changed. Here that is a list, `news`.

local locks = require "zklock.testing.locks"
local Meter = require "zklock.testing.meter"
local names = require "zklock.testing.names"

local collectgarbage, coroutine, debug, ipairs, next, pairs, setmetatable =
    collectgarbage, coroutine, debug, ipairs, next, pairs, setmetatable
local format = string.format
local huge = math.huge
local remove, sort, unpack = table.remove, table.sort, table.unpack or rawget(_G, "unpack")

-- Handles -------------------------------------------------------------------------------------------------------------

--- The methods of all handles. `status` of an acquisition is its phase.
local Handle = {}

function Handle:id()
    return self.number
end

function Handle:done()
    return self.settled or false
end

--- Calls `expire` in so many seconds, unless that is to happen earlier.
function Handle:limit(seconds)
    local clock = self.client.clock
    local due = clock.time + seconds
    if not (self.limited and self.limited.due > clock.time and self.limited.due <= due) then
        clock:cancel(self.limited)
        self.limited = clock:after(seconds, function()
            if self.expire then
                self:expire()
            end
            self.client:notify(self)
        end)
    end
end

function Handle:call_owner()
    self.client:notify(self)
end

--- For zklock.wait, which calls `cancel` of userdata.
function Handle:abandon()
    self:cancel()
end

local function handle_class(class)
    class.__index = class
    return setmetatable(class, { __index = Handle })
end
handle_class(locks.Acquisition)

local Question = handle_class {}

function Question:cancel()
    self.cancelled = true
end

function Question:answer(...)
    self.answers, self.settled = { ... }, true
    self.client:notify(self)
end

function Question:result()
    return unpack(self.answers, 1, 4)
end

local Operation = handle_class { answer = Question.answer }

local VERBS = {
    get = "reading", set = "writing", create = "creating", delete = "deleting", exists = "looking at",
    children = "listing the children of", sync = "synchronizing", check = "checking", acl = "reading the acl of"
}
local WRITES = { set = true, create = true, delete = true, multi = true }

--- A write that has been sent is executed nevertheless.
function Operation:cancel()
    self.cancelled = true
    self.is_dropped = not self.sent
    if self.unwatch then
        self.unwatch()
        self.client.watches[self], self.unwatch = nil, nil
    end
end

function Operation:fail(code, message, part)
    local request = self.request
    local what = request.kind == "multi" and format("a transaction of %d operations", #request)
        or format("%s '%s'", VERBS[request.kind], request.path:sub(1, 160))
    self:answer(nil, what .. ": " .. message, code, part)
end

local function see_event(self, event)
    self.client.watches[self] = nil
    self.seen = event
    self.client:notify(self)
end

--- The server executes it.
function Operation:run()
    local client, request, servers = self.client, self.request, self.client.servers
    if self.is_dropped then
        return
    end
    local result, second, part = servers:execute(request, client.session)
    if result == nil then
        local code, words = servers.words(second)
        if part then
            local failed = request[part]
            words = format("%s '%s' gives '%s'; nothing was written", VERBS[failed.kind], failed.path:sub(1, 160), words)
        end
        return self:fail(code, words, part)
    elseif request.watch and not self.cancelled then
        client.watches[self] = true
        self.unwatch = servers:watch(request.kind, request.path, function(event)
            client:send { run = function() see_event(self, event) end }
        end)
    end
    self:answer(result, second)
end

--- The connection is lost while it is under way. Returns whether it is answered: a read is sent again.
function Operation:lost()
    if WRITES[self.request.kind] then
        self.client.counts.unknown_outcomes = self.client.counts.unknown_outcomes + 1
        self:fail("disconnected", "the connection was lost (connection loss): whether it was executed is not known")
        return true
    end
    return false
end

function Operation:close()
    self:fail("closed", "the client is closed")
end

function Operation:take()
    if not self.settled then
        return nil, "not answered yet", "failed"
    end
    return unpack(self.answers, 1, 4)
end

function Operation:event()
    if self.over then
        return nil, self.over == "closed" and "the client is closed" or "its session is over", self.over
    end
    return self.seen or false
end

-- Clients -------------------------------------------------------------------------------------------------------------

local Client = {}
Client.__index = Client

local function new_client(servers, defaults, name, settings)
    servers.clients = servers.clients + 1
    local self = setmetatable({
        clock = servers.clock, servers = servers, name = name, number = servers.clients,
        timeout = settings.session_timeout / 1000, has_lease = settings.lease ~= false,
        state_is = "connecting", problem = "", session = false,
        down = defaults.down, hangs = defaults.hangs, delay = defaults.delay, silent_since = false,
        requests = {}, news = {}, changed = false, handles = 0,
        open = {}, watches = {}, -- sets: of acquisitions that are not settled, and of operations whose watch is armed
        meter = Meter.new(), -- of all acquisitions
        counts = {
            requests = 0, heartbeats = 0, notifications = 0, acquisitions = 0, grants = 0, refusals = 0, hand_overs = 0, passes = 0,
            losses = 0, unknown_outcomes = 0, connections = 0, sessions = 0
        }
    }, Client)
    if self.down then
        self:show("connecting", "no server of '%s' answers", "disconnected")
    end
    self.clock:after(0, function() self:connect() end)
    return self
end

--- Makes a handle.
function Client:handle(class, fields)
    self.handles = self.handles + 1
    fields.client, fields.number = self, self.handles
    return setmetatable(fields, class)
end

--- A handle has changed.
function Client:notify(handle)
    if not handle.told then
        handle.told = true
        self.news[#self.news + 1] = handle
    end
end

--- Shows a state. `problem` is a format for the servers' name.
function Client:show(state, problem, code)
    self.state_is, self.problem, self.code, self.changed = state, format(problem, self.name), code, true
end

--- Sends a request, a table: run() is called when it is executed; close(), if there is one, if the client is closed before; lost(),
-- if there is one, if the connection is lost while it is under way. If that does not return true, it is sent again.
function Client:send(request)
    self.requests[#self.requests + 1] = request
    self:dispatch(request)
    self:flow()
end

--- It is on its way.
function Client:dispatch(request)
    request.sent = self.state_is == "connected"
    request.due = self.clock.time + self.delay
    if request.sent and self.delay > 0 then
        self.clock:after(self.delay, function() self:flow() end)
    end
end

--- Executes the requests that have arrived.
function Client:flow()
    local first = self.requests[1]
    while first and self.state_is == "connected" and not self.hangs and first.due <= self.clock.time do
        remove(self.requests, 1)
        self.counts.requests = self.counts.requests + 1
        first:run()
        first = self.requests[1]
    end
end

--- Connects, if the servers can be reached.
function Client:connect()
    if self.down or self.hangs or self.state_is == "closed" or self.state_is == "connected" then
        return
    elseif self.session and self.session_over then
        self:expire()
        return self.clock:after(0, function() self:connect() end)
    elseif not self.session then
        self.session, self.session_over = self.servers:new_session(), false
        self.counts.sessions = self.counts.sessions + 1
    end
    self.counts.connections = self.counts.connections + 1
    self:show("connected", "")
    self:hear()
    for _, request in ipairs(self.requests) do
        self:dispatch(request)
    end
    for _, acquisition in ipairs(self:unsettled()) do
        acquisition:verify()
    end
    self:flow()
end

--- The servers cannot be heard any more: the lease and the session run out.
function Client:lose_contact()
    local clock, session = self.clock, self.session
    if not session or self.silent_since then
        return
    end
    self.silent_since = clock.time
    self.lapse = clock:after(self.has_lease and self.timeout / 2 or huge, function()
        for _, acquisition in ipairs(self:unsettled()) do
            acquisition:lose("lost", "'%s' is lost: it is not certain any more that the session lives (its timeout is %d ms)",
                acquisition.spec.path, self.timeout * 1000)
        end
    end)
    self.expiry = clock:after(self.timeout, function() self:end_session() end)
end

--- They are heard again.
function Client:hear()
    self.silent_since = false
    self.clock:cancel(self.lapse)
    self.clock:cancel(self.expiry)
end

--- The connection is lost.
function Client:cut()
    if self.state_is ~= "connected" then
        return
    end
    self:lose_contact()
    self:show("suspended", "the connection to '%s' is lost", "disconnected")
    local requests = self.requests
    self.requests = {}
    for _, request in ipairs(requests) do
        if not (request.sent and request.lost and request:lost()) then
            self.requests[#self.requests + 1] = request
        end
    end
    for _, acquisition in ipairs(self:unsettled()) do
        if acquisition.try and acquisition.status == "waiting" then
            acquisition:refuse("disconnected", "'%s' could not be tried: %s", acquisition.spec.path, self.problem)
        end
    end
end

--- The servers end the session. The client does not know it yet.
function Client:end_session()
    self.session_over = true
    self.servers:end_session(self.session)
end

--- The client finds out that its session has ended.
function Client:expire()
    self.session = false
    self:hear()
    self:show("connecting", "the session with '%s' has expired", "lost")
    for operation in pairs(self.watches) do
        operation.over = "lost"
        operation:cancel()
        self:notify(operation)
    end
    for _, acquisition in ipairs(self:unsettled()) do
        acquisition:session_over()
    end
end

--- Returns the acquisitions that are not settled, in the order in which they were asked for.
function Client:unsettled()
    local list = {}
    for acquisition in pairs(self.open) do
        list[#list + 1] = acquisition
    end
    sort(list, function(a, b) return a.number < b.number end)
    return list
end

-- The switches of zklock.testing.

function Client:disconnect()
    self.down = true
    self:cut()
end

function Client:hang()
    self.hangs = true
    self:lose_contact()
    self.clock:cancel(self.noticed)
    self.noticed = self.clock:after(self.timeout * 2 / 3, function() self:cut() end)
end

function Client:reconnect()
    self.down, self.hangs = false, false
    self.clock:cancel(self.noticed)
    if self.state_is ~= "connected" then
        return self:connect()
    elseif self.session_over then
        self:cut()
        return self:connect()
    end
    self:hear()
    self:flow()
end

function Client:expire_now()
    if self.session then
        self:cut()
        self:end_session()
        self:connect()
    end
end

function Client:set_delay(seconds)
    self.delay = seconds
end

--- Ends all holds of a path. Returns how many there were.
function Client:lose_holds(path)
    local count = 0
    for _, acquisition in ipairs(self:unsettled()) do
        if acquisition.spec.path == path and acquisition:held() then
            count = count + 1
            acquisition:lose("lost", "'%s' is lost: somebody deleted its node '%s'", path, acquisition:node())
        end
    end
    return count
end

--- When the lease ends if nothing more is heard.
function Client:lease_until()
    return self.has_lease and (self.silent_since or self.clock.time) + self.timeout / 2 or huge
end

-- The methods that zklock calls, as of csrc/lua/lua_client.c.

function Client:state()
    return self.state_is, self.problem, self.code
end

--- All lists name the servers of the world.
function Client:set_servers()
    return self.state_is ~= "closed"
end

function Client:session_timeout()
    return self.session and self.timeout or 0
end

function Client:unanswered()
    local first = self.requests[1]
    local since = self.silent_since or first and first.sent and first.due - self.delay
    return since and self.clock.time - since or 0
end

function Client:next()
    local handle, changed = remove(self.news, 1), self.changed
    if handle then
        handle.told = false
        self.counts.notifications = self.counts.notifications + 1
        return handle.number
    end
    self.changed = false
    return nil, changed
end

function Client:has_news()
    return self.news[1] ~= nil or self.changed
end

function Client.next_log()
    return nil
end

--- Does the next thing that is due within so many seconds.
function Client:wait(seconds)
    self.clock:step(self.clock.time + seconds)
end

function Client:catch_up()
    self:flow()
end

function Client:busy()
    return next(self.open) ~= nil or next(self.watches) ~= nil
end

function Client:pollfd()
    return self.number
end

function Client:stats()
    local stats, entries = {}, 0
    for name, count in pairs(self.counts) do
        stats[name] = count
    end
    local watches = 0
    for acquisition in pairs(self.open) do
        entries = entries + #acquisition.made
        watches = watches + (acquisition.status == "waiting" and 1 or 0)
    end
    for _ in pairs(self.watches) do
        watches = watches + 1
    end
    stats.entries, stats.watches, stats.wait_time = entries, watches, self.meter:read().wait_time
    return stats
end

function Client:flush()
    local question = self:handle(Question, {})
    local cleans = false
    for _, request in ipairs(self.requests) do
        cleans = cleans or request.cleans
    end
    local function answer()
        question:answer(true)
    end
    if cleans then
        self:send { run = answer, close = answer, cleans = true }
    else
        answer()
    end
    return question
end

function Client:timer()
    return self:handle(Question, {})
end

function Client:operate(request)
    local operation = self:handle(Operation, { request = request })
    if self.state_is == "closed" then
        operation:close()
    else
        self:send(operation)
    end
    return operation
end

function Client:close()
    if self.state_is == "closed" then
        return true
    end
    local reached, requests = self.state_is == "connected" and not self.hangs, self.requests
    for _, acquisition in ipairs(self:unsettled()) do
        acquisition:close()
    end
    self:show("closed", "")
    self.requests = {}
    for _, request in ipairs(requests) do
        if request.close then
            request:close()
        end
    end
    for operation in pairs(self.watches) do
        operation.over = "closed"
        operation:cancel()
        self:notify(operation)
    end
    if self.session and reached then
        self:hear()
        self:end_session()
    end
    return true
end

function Client.join()
end

-- The module ----------------------------------------------------------------------------------------------------------

local LockSpec = {}
LockSpec.__index = LockSpec

function LockSpec:with_path(path)
    local spec = {}
    for name, value in pairs(self) do
        spec[name] = value
    end
    spec.path = path
    return setmetatable(spec, LockSpec)
end

--- For zklock.lock.caller: see csrc/lua/lua_coroutine.c.
local function caller(callers, weak_values)
    local main = {} -- stands for the main coroutine in Lua 5.1, which has no value for it
    return function(ask)
        local owner = ask and ask() or nil
        local thread, is_main = coroutine.running()
        is_main = is_main or thread == nil
        thread = thread or main
        local key = owner or thread
        local found = callers[key]
        if not found or owner and found.thread ~= thread then
            found = setmetatable({ owner = owner, thread = thread, key = key, lasts = is_main and not owner }, weak_values)
            callers[key] = found
        end
        return found
    end
end

--- Whether the caller may yield, as far as the stack shows: for Lua 5.1.
local function yieldable()
    local level, frame = 1, debug.getinfo(1, "Sn")
    while frame do
        if frame.what == "C" or frame.name == "(for generator)" then
            return false
        end
        level = level + 1
        frame = debug.getinfo(level, "Sn")
    end
    local thread, is_main = coroutine.running()
    return thread ~= nil and not is_main
end

--- Nothing tells here that a wait was left: it lasts.
local function stands_in()
    return true
end

--- The fields of zklock's holds that core_acquire and core_release set.
local ACQUISITION, STATE = "_acquisition", "_state"

--- Releases: as core_release of csrc/lua/lua_handle.c.
local function release(acquisition, _, if_held, hold, observers)
    if if_held and not acquisition:held() then
        return nil
    end
    if observers then
        observers[acquisition:id()] = nil
    end
    if hold then
        hold[STATE] = if_held and "released" or "over"
    end
    acquisition:cancel()
    return acquisition:released() or false, false
end

--- Makes the module for a world with these servers. `defaults` of it are what happens to clients that are opened: `down`, `hangs`,
-- `delay`.
return function(servers)
    servers.changed = locks.changed
    local core = {
        REVOKE = "__REVOKE__", FLAGS = "_flags_", RESIZED = "resized", SEQUENCE_WARN = 2 ^ 30, SEQUENCE_LIMIT = 2147483647 - 65536,
        path_problem = names.path_problem, node_path_problem = names.node_path_problem, node_name = names.parse,
        defaults = { down = false, hangs = false, delay = 0 },
        caller = caller, yieldable = yieldable, stands_in = stands_in, release = release, meter = Meter.new
    }

    function core.now()
        return servers.clock.time
    end

    function core.open(name, settings)
        return new_client(servers, core.defaults, name, settings)
    end

    function core.lock_spec(settings)
        local spec = LockSpec.with_path(settings, settings.path)
        spec.permits = spec.permits or 1
        return spec
    end

    function core.acquire(client, spec, hold, try, count, writer)
        local acquisition = client:handle(locks.Acquisition, { spec = spec, try = try, count = count or 1, writer = writer })
        hold[ACQUISITION] = acquisition
        acquisition:begin()
        return acquisition:held(), true
    end

    function core.default_identity()
        return "testing:" .. servers.clients
    end

    function core.others_may_read()
        return false
    end

    function core.memory()
        return collectgarbage "count" * 1024
    end

    return core
end
