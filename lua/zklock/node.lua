--- node: reading and writing ZooKeeper's nodes; the methods that a client has besides its locks.
--
-- Together with watches these methods are enough to write a recipe in Lua. Rules for all of them:
--
--   * The last argument is an optional table of settings. Its `timeout` covers everything:
--     waiting for a connection, sending, the answer. A read whose connection was lost is sent again until the timeout passes. A
--     write is not sent again. If its connection is lost, or the timeout passes, it may have been executed or not. Only the
--     caller can decide whether to repeat it.
--   * With the setting `callback` they do not wait: they return a call (`Call`), and later the pump calls the callback with what
--     they would have returned. If they return nil, message, code themselves, the callback is not called.
--   * They return their results, or nil, message, code. Codes: "no_node", "node_exists", "bad_version", "not_empty", "no_auth",
--     "disconnected" (no connection when time was up; a write whose outcome is unknown), "timeout", "closed", "auth_failed",
--     "forked", "phase", "failed" (any other error of ZooKeeper or the system).
--   * Mistakes of the caller (types, paths, unknown settings) raise.
--   * Data are strings of any bytes. "No data" (nil) and "" are both read as "".
--   * Paths are below the chroot of the connection string, like those of locks. A path has at most 900000 bytes, and a request
--     at most 1000000 in all: a server closes the connection at more.

local Call = require "zklock.call"
local core = require "zklock.core"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local short = require("zklock.text").short
local wait = require "zklock.wait"

local error, next, pairs, pcall, setmetatable, type = error, next, pairs, pcall, setmetatable, type
local huge, max = math.huge, math.max
local format = string.format
local describe = options.describe
local now = core.now

local node = {}

-- Checks --------------------------------------------------------------------------------------------------------------

local function is_reserved(path)
    return path == "/zookeeper" or path:sub(1, 11) == "/zookeeper/"
end

--- Returns the problem with a path to be read, or nil.
function node.read_problem(path)
    if type(path) ~= "string" then
        return format("path must be a string (got %s)", describe(path))
    end
    local problem = core.node_path_problem(path)
    return problem and "bad path: " .. problem
end

--- Returns the problem with a path to be written, or nil.
function node.write_problem(path)
    return node.read_problem(path) or is_reserved(path) and "bad path: '/zookeeper' is ZooKeeper's own" or nil
end

--- Returns the problem with a path to be deleted, or nil.
function node.delete_problem(path)
    return node.write_problem(path) or path == "/" and "bad path: '/' cannot be deleted" or nil
end

--- Returns the problem with a path to be created, or nil. ZooKeeper appends ten digits to a sequential path, so it may end with
-- "/".
local function create_problem(path, sequential)
    if sequential and type(path) == "string" then
        path = path .. "0"
    end
    return node.write_problem(path) or path == "/" and "bad path: '/' exists always" or nil
end

--- Returns the problem with data to be written, or nil.
function node.data_problem(data)
    if data ~= nil and type(data) ~= "string" then
        return format("data must be a string or nil (got %s)", describe(data))
    end
end

--- Returns the problem with a version argument, or nil.
function node.version_problem(version)
    local fits, expected = options.version(version == nil and -1 or version)
    return not fits and format("version must be %s (got %s)", expected, describe(version)) or nil
end

--- The settings of each method: `{ check, default }`.
local TIMEOUT, CALLBACK = { options.timeout, huge }, { options.callback }
local READ_SCHEMA = { timeout = TIMEOUT, callback = CALLBACK, watch = { options.boolean, false } }
local WRITE_SCHEMA = { timeout = TIMEOUT, callback = CALLBACK, version = { options.version, -1 } }
node.ANSWER_SCHEMA = { timeout = TIMEOUT, callback = CALLBACK } -- of what has no other settings
local CREATE_SCHEMA = {
    timeout = TIMEOUT,
    callback = CALLBACK,
    ephemeral = { options.boolean, false },
    sequential = { options.boolean, false },
    container = { options.boolean, false },
    acl = { options.acl }
}
local PART_CREATE_SCHEMA = {
    ephemeral = CREATE_SCHEMA.ephemeral,
    sequential = CREATE_SCHEMA.sequential,
    acl = CREATE_SCHEMA.acl
}

--- Checks the arguments of a create, alone or in a transaction.
---@return table? # the request for core
---@return table|string # the settings; or what is wrong
function node.read_create(client, path, data, settings, in_transaction)
    local read, wrong = options.read(settings, in_transaction and PART_CREATE_SCHEMA or CREATE_SCHEMA)
    if not read then
        return nil, wrong
    elseif read.container and (read.ephemeral or read.sequential) then
        return nil, "option 'container' must not be true together with ephemeral or sequential"
    end
    wrong = options.creator_problem(read.acl, client:desk().has_auth, "when the client was opened without auth or tls.cert_file")
        or create_problem(path, read.sequential) or node.data_problem(data)
    if wrong then
        return nil, wrong
    end
    return {
        kind = "create",
        path = path,
        data = data,
        ephemeral = read.ephemeral,
        sequential = read.sequential,
        container = read.container,
        acl = read.acl or client:desk().acl
    }, read
end

-- Asking --------------------------------------------------------------------------------------------------------------

local function answered(operation)
    return operation:done() ~= false -- nil in a process forked meanwhile: take returns that
end

--- Cancels the operation. Returns nil, message and code for an answer that has not come in time.
local function timed_out(client, operation, timeout, what, writes)
    operation:cancel()
    what = format("%s did not finish within %s", short(what), options.in_seconds(timeout))
    if writes then
        what = what .. ", and may or may not be executed"
    end
    if not client:is_answered(timeout) then
        return nil, client:unreachable(what), "disconnected"
    end
    return nil, what, "timeout"
end

--- Waits for the answer to an operation that has been sent, or to a query.
---@param client zklock.Client
---@param operation userdata
---@param timeout number seconds that the program gave, for messages; math.huge: none
---@param what string for messages: "reading /a"
---@param writes boolean whether an unknown outcome matters
---@param deadline number on core.now()'s clock
---@return userdata? # the answered operation; its method take returns the results
---@return string? message
---@return zklock.Code? code
function node.await(client, operation, timeout, what, writes, deadline)
    local decided, message, code = wait.until_decided(client, operation:id(), deadline, answered, operation)
    if decided then
        return operation
    elseif decided == nil then
        operation:cancel()
        return nil, message, code
    end
    return timed_out(client, operation, timeout, what, writes)
end

-- Calls for operations and questions. The subject has the arguments of node.answer, and the C handle as `operation`.

local function is_answered(subject)
    return subject.cancelled or answered(subject.operation)
end

local function results_of_call(subject, is_late)
    if subject.cancelled then
        return nil, format("%s was cancelled%s", short(subject.what), subject.writes and ", and may or may not be executed" or ""),
            "cancelled"
    elseif is_late then
        return timed_out(subject.client, subject.operation, subject.settings.timeout, subject.what, subject.writes)
    end
    return subject.results(subject.client, subject.operation, subject.request, subject.settings)
end

local function cancel_call(subject)
    subject.cancelled = true
    subject.operation:cancel()
    return true
end

--- The kinds of calls (zklock.call), by the name of the function that begins them.
local kinds = setmetatable({}, { __index = function(kinds, name)
    kinds[name] = { name = name, decided = is_answered, results = results_of_call, cancel = cancel_call }
    return kinds[name]
end })

--- Begins a call for the answer of an operation or a question.
---@param name string of the function
---@param subject table the arguments of node.answer but the name, and `operation`
---@return table # the call
function node.begin_call(name, subject)
    local settings = subject.settings
    local seconds = settings.deadline and max(0, settings.deadline - now()) or settings.timeout
    return Call.begin(subject.client, kinds[name], subject, subject.operation, seconds, settings.callback)
end

--- Performs an operation for a function of the program: waits for its results, or begins a call for them.
---@param client zklock.Client
---@param name string of the function
---@param request table for core
---@param settings table of the program, with `timeout` and `callback`; and `deadline` on core.now()'s clock, where the time has
--   begun to run before
---@param what string for messages: "reading /a"
---@param writes boolean whether an unknown outcome matters
---@param results function takes client, operation, request, settings; returns the results of the answered operation. It may return
--   those of node.answer with the same settings, which then goes on with another operation
---@return any # the results; or nil, message, code; or a call
function node.answer(client, name, request, settings, what, writes, results)
    local able, operation, message, code = true, nil, nil, nil
    if settings.callback then
        able, message, code = Call.is_possible(client)
    end
    if able then
        operation, message, code = client:desk().core:operate(request)
    end
    if operation and settings.callback then
        return node.begin_call(name, {
            client = client, operation = operation, request = request, settings = settings, what = what, writes = writes,
            results = results
        })
    elseif operation then
        local deadline = settings.deadline or now() + settings.timeout
        operation, message, code = node.await(client, operation, settings.timeout, what, writes, deadline)
    end
    if not operation then
        return nil, message, code
    end
    return results(client, operation, request, settings)
end

local function take(_, operation)
    return operation:take()
end

--- Performs an operation of zklock's own, until a deadline `seconds` after the program asked. Returns its results; or nil, message,
-- code.
---@param request table for core
---@param what string for messages: "reading /a"
function node.perform(client, request, what, deadline, seconds)
    return node.answer(client, "", request, { timeout = seconds, deadline = deadline }, what, request.kind ~= "get", take)
end

--- Performs an operation that sets no watch.
local function perform(client, name, request, settings, what, writes)
    return node.answer(client, name, request, settings, format("%s %s", what, request.path), writes, take)
end

-- Watches -------------------------------------------------------------------------------------------------------------

--- The event of a watch.
---@alias zklock.Event
---| "created"
---| "deleted"
---| "changed" # the node's data
---| "child" # the list of its children

--- A watch, as returned by reads. It fires once, at the first change after the read that set it.
---@class zklock.Watch
local Watch = {}
Watch.__index = Watch
node.Watch = Watch

local check_watch = new_check("watch", "a watch", { [Watch] = true })

--- Returns the state of the watch: event | false while it is armed | nil, message, code.
local function look(self)
    if self._cancelled then
        return nil, format("the watch of %s was cancelled", short(self._path)), "cancelled"
    end
    local event, message, code = self._operation:event()
    if event == nil then
        return nil, format("the watch of %s cannot fire any more: %s", short(self._path), message), code
    end
    return event
end

--- Called by the pump on a notification: the watch has fired or ended, a wait's time is up, or the read that set it was answered.
-- Any number of coroutines may wait for a watch.
function Watch.handle_changed(self)
    if look(self) ~= false then
        self._client:desk().observers[self._operation:id()] = nil -- it fires only once
        if self._changed then
            self._changed()
        end
    end
    wait.wake_without_handle(self._client)
    wait.tell_calls(self._calls)
end

local function new_watch(client, operation, path)
    local watch = setmetatable({
        _client = client, _operation = operation, _path = path, _cancelled = false,
        _calls = {}, -- the set of calls that wait for it
        _changed = false
    }, Watch)
    if look(watch) == false then
        wait.observe(client, operation:id(), watch)
    end
    return watch
end

--- For zklock.inspect: makes the watch of an answered read.
node.new_watch = new_watch

local function decided(self)
    return look(self) ~= false
end

--- The answer of a wait whose time is up. A watch outlives its connection, so that is no error: the code is "timeout", and the
-- message says whether the servers can be asked.
local function nothing_seen(self, seconds)
    local what = format("no change of %s was seen within %s", short(self._path), options.in_seconds(seconds))
    return nil, self._client:is_answered(seconds) and what or self._client:unreachable(what), "timeout"
end

--- Calls for waits. The subject is `{ watch =, seconds =, call =, cancelled = }`.
local wait_kind = { name = "watch:wait" }

function wait_kind.decided(subject)
    return subject.cancelled or decided(subject.watch)
end

function wait_kind.abandon(subject)
    subject.watch._calls[subject.call] = nil
end

function wait_kind.results(subject, is_late)
    local watch = subject.watch
    wait_kind.abandon(subject)
    if subject.cancelled then
        return nil, format("the wait for a change of %s was cancelled", short(watch._path)), "cancelled"
    elseif is_late then
        return nothing_seen(watch, subject.seconds)
    end
    return look(watch)
end

--- Ends the wait, not the watch.
function wait_kind.cancel(subject)
    subject.cancelled = true
    return true
end

--- Makes the call. Runs protected.
local function begin(subject, settings)
    local watch = subject.watch
    local call = Call.begin(watch._client, wait_kind, subject, watch._operation, subject.seconds, settings.callback, watch)
    subject.call = call
    watch._calls[call] = true
    return call
end

local function begin_wait(watch, settings)
    local able, message, code = Call.is_possible(watch._client)
    if not able then
        return nil, message, code
    end
    local subject = { watch = watch, seconds = settings.timeout, call = false, cancelled = false }
    local ok, call = pcall(begin, subject, settings)
    if not ok then
        Call.take_back(watch._client, subject)
        watch._calls[subject.call] = nil
        error(call, 0)
    end
    return call
end

--- Waits until the watch fires. If it has fired already, the answer comes at once, on each call. The watch survives the loss of
-- its connection: a change during the interruption makes it fire after the reconnection.
---@param timeout? number|zklock.WaitOptions seconds, 0 or more, or a table; nil: no limit
---@return zklock.Event|zklock.Call|nil event
---@return string? message
---@return zklock.Code? code "timeout" (no change was seen, and it is still armed, also without a connection), "lost" (the session
--   is over: read again), "cancelled", "closed", "forked", "phase"
function Watch:wait(timeout)
    check_watch(self, "wait")
    local settings, wrong = options.read_timeout_or_table(timeout, node.ANSWER_SCHEMA)
    if not settings then
        error("watch:wait: " .. wrong, 2)
    elseif settings.callback then
        return begin_wait(self, settings)
    end
    local seconds = settings.timeout
    local done, message, code = wait.until_decided(self._client, nil, now() + seconds, decided, self)
    if done then
        return look(self)
    elseif done == nil then
        return nil, message, code
    end
    return nothing_seen(self, seconds)
end

--- Returns the event that the watch has seen, without waiting.
---@return zklock.Event? event as of wait; nil when it has not fired
function Watch:fired()
    check_watch(self, "fired")
    return look(self) or nil
end

--- For zklock.inspect: whether the watch has not fired and can fire; and why it cannot.
---@return boolean
---@return zklock.Code? code
function Watch.armed(self)
    local event, _, code = look(self)
    return event == false, code
end

--- For zklock.inspect: has `fn` called by the pump when the watch has fired or ended. It must not wait. It is not called for what
-- came before.
function Watch.on_change(self, fn)
    self._changed = fn
end

--- Ends the watch. Every wait for it ends with the code "cancelled". It is removed from the server in the background, unless
-- another watch of this client is on the same path: ZooKeeper can only remove all of them. A watch that is garbage-collected is
-- removed too.
function Watch:cancel()
    check_watch(self, "cancel")
    if not self._cancelled then
        self._cancelled = true
        if next(self._calls) then
            self._operation:call_owner() -- the pump calls the callbacks
        else
            self._client:desk().observers[self._operation:id()] = nil
        end
        self._operation:cancel()
        wait.wake_without_handle(self._client)
    end
end

--- The path that is watched.
---@return string path
function Watch:path()
    check_watch(self, "path")
    return self._path
end

--- "zklock watch (/path, armed)".
function Watch:__tostring()
    local event, _, code = look(self)
    return format("zklock watch (%s, %s)", self._path, event or code or "armed")
end

-- The methods ---------------------------------------------------------------------------------------------------------

--- What the servers know of a node.
---@class zklock.Stat
---@field czxid string of the node's creation: 16 hexadecimal digits, as of all ids. Lua's `<` does not order them in every locale
---@field mzxid string of the last change of its data
---@field pzxid string of the last change of its list of children
---@field ctime number seconds since 1970
---@field mtime number seconds since 1970
---@field version integer how many times its data were changed
---@field cversion integer how many times its list of children was changed
---@field aversion integer how many times its ACL was changed
---@field ephemeral_owner string the id of the session with which it ends; all zeros: none
---@field data_length integer bytes
---@field num_children integer

---@class zklock.WaitOptions
---@field timeout? number seconds, 0 or more; default: for ever
---@field callback? fun(...: any) gets the results; the function returns a call (`Call`) at once

---@class zklock.ReadOptions: zklock.WaitOptions
---@field watch? boolean sets a watch; default: false

---@class zklock.WriteOptions: zklock.WaitOptions
---@field version? integer only if the node has this version; default: -1 (any version)

---@class zklock.CreateOptions: zklock.WaitOptions
---@field ephemeral? boolean the node is deleted when the client's session ends; default: false
-- ZooKeeper appends a number of ten digits that grows with each such node of the parent. The number is returned as ZooKeeper
-- assigns it: after 2147483647 of them the numbers repeat, or are negative. Default: false
---@field sequential? boolean
---@field container? boolean the server deletes the node when it has had children and has none any more; default: false
---@field acl? zklock.Acl default: the client's

---@class zklock.Client
local Client = {}

local metatables = {} -- of clients
local check_client = new_check("client", "a client", metatables)

--- Reads the settings of a method. `wrong` is the problem with its other arguments, or nil. Raises at the method's caller,
-- so it must not be called in a tail call (return).
local function read_settings(method, wrong, settings, schema)
    if not wrong then
        settings, wrong = options.read(settings, schema)
    end
    if wrong then
        error(format("client:%s: %s", method, wrong), 3)
    end
    return settings
end

--- Performs a read. All reads use this and differ only in their results.
local function read(self, method, path, settings, what, results)
    local request = { kind = method, path = path, watch = settings.watch }
    return node.answer(self, method, request, settings, format("%s %s", what, path), false, results)
end

--- The results of a read: what was read, stat, watch; or nil, message, code.
local function results_of_read(client, operation, request, settings)
    local result, stat, code = operation:take()
    if result == nil then
        return nil, stat, code
    end
    return result, stat, settings.watch and new_watch(client, operation, request.path) or nil
end

--- The results of exists: stat, watch; or nil, message, code.
local function results_of_exists(client, operation, request, settings)
    local stat, message, last = results_of_read(client, operation, request, settings)
    if stat == nil then
        return nil, message, last
    end
    return stat, last
end

--- Reads a node's data.
---@param path string
---@param settings? zklock.ReadOptions a watch fires when the data change or the node is deleted
---@return string? data "" if it has none
---@return zklock.Stat|string stat or message
---@return zklock.Watch|zklock.Code|nil watch or code
function Client:get(path, settings)
    check_client(self, "get")
    settings = read_settings("get", node.read_problem(path), settings, READ_SCHEMA)
    return read(self, "get", path, settings, "reading", results_of_read)
end

--- Lists the names of a node's children, in no particular order.
---@param path string
---@param settings? zklock.ReadOptions a watch fires when children are created or deleted ("child") or the node is deleted
---@return string[]? names array of names, without the path
---@return zklock.Stat|string stat or message
---@return zklock.Watch|zklock.Code|nil watch or code
function Client:children(path, settings)
    check_client(self, "children")
    settings = read_settings("children", node.read_problem(path), settings, READ_SCHEMA)
    return read(self, "children", path, settings, "listing the children of", results_of_read)
end

--- Checks whether a node exists. Servers since 3.8.4 and 3.9.2 answer "no_auth" if the node may not be read.
---@param path string
---@param settings? zklock.ReadOptions a watch fires when the node is created, changed or deleted
---@return zklock.Stat|false|nil stat false when the node does not exist
---@return zklock.Watch|string|nil watch or message
---@return zklock.Code? code
function Client:exists(path, settings)
    check_client(self, "exists")
    settings = read_settings("exists", node.read_problem(path), settings, READ_SCHEMA)
    return read(self, "exists", path, settings, "looking at", results_of_exists)
end

--- Writes a node's data.
---@param path string
---@param data? string at most about 999 KB; nil: none
---@param settings? zklock.WriteOptions
---@return zklock.Stat? stat
---@return string? message
---@return zklock.Code? code
function Client:set(path, data, settings)
    check_client(self, "set")
    settings = read_settings("set", node.write_problem(path) or node.data_problem(data), settings, WRITE_SCHEMA)
    local request = { kind = "set", path = path, data = data, version = settings.version }
    return perform(self, "set", request, settings, "writing", true)
end

--- Creates a node. Its parent must exist.
---@param path string may end with "/" when sequential: the number is then the whole name
---@param data? string at most about 999 KB; nil: none
---@param settings? zklock.CreateOptions
---@return string? path of the new node
---@return zklock.Stat|string stat or message
---@return zklock.Code? code
function Client:create(path, data, settings)
    check_client(self, "create")
    local request, given = node.read_create(self, path, data, settings)
    if not request then
        error("client:create: " .. given, 2)
    end
    return perform(self, "create", request, given, "creating", true)
end

--- Deletes a node that has no children.
---@param path string
---@param settings? zklock.WriteOptions
---@return true? deleted
---@return string? message
---@return zklock.Code? code
function Client:delete(path, settings)
    check_client(self, "delete")
    settings = read_settings("delete", node.delete_problem(path), settings, WRITE_SCHEMA)
    local request = { kind = "delete", path = path, version = settings.version }
    return perform(self, "delete", request, settings, "deleting", true)
end

--- Makes the server to which the client is connected catch up with its leader. Later reads of this client see everything
-- that was written before. This is not a quorum operation: a leader that has been deposed without noticing it answers too.
---@param path string any path that may be read
---@param settings? zklock.WaitOptions
---@return true? done
---@return string? message
---@return zklock.Code? code
function Client:sync(path, settings)
    check_client(self, "sync")
    settings = read_settings("sync", node.read_problem(path), settings, node.ANSWER_SCHEMA)
    return perform(self, "sync", { kind = "sync", path = path }, settings, "synchronizing", false)
end

--- Adds the methods to the class of clients.
function node.extend(class)
    metatables[class] = true
    for name, method in pairs(Client) do
        class[name] = method
    end
end

return node
