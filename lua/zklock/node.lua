--- node: reading and writing ZooKeeper's nodes; the methods that a client has besides its locks.
--
-- Together with watches these methods are enough to write a recipe in Lua. Rules for all of them:
--
--   * The last argument is an optional table of settings. `timeout` in seconds (0 or more; nil: no limit) covers everything:
--     waiting for a connection, sending, the answer. A read whose connection was lost is sent again until the timeout passes. A
--     write is not sent again. If its connection is lost, or the timeout passes, it may have been executed or not. Only the
--     caller can decide whether to repeat it.
--   * They return their results, or nil, message, code. Codes: "no_node", "node_exists", "bad_version", "not_empty", "no_auth",
--     "disconnected" (no connection when time was up; a write whose outcome is unknown), "timeout", "closed", "auth_failed",
--     "forked", "phase", "failed" (any other error of ZooKeeper or the system).
--   * Mistakes of the caller (types, paths, unknown settings) raise.
--   * A stat is a table: `czxid`, `mzxid`, `pzxid`, `ephemeral_owner` (strings of 16 hexadecimal digits, which Lua's `<` does
--     not order in every locale; no owner: all zeros), `ctime`, `mtime` (seconds since 1970), `version`, `cversion`,
--     `aversion`, `data_length`, `num_children`.
--   * Data are strings of any bytes. "No data" (nil) and "" are both read as "".
--   * Paths are below the chroot of the connection string, like those of locks. A path has at most 900000 bytes, and a request
--     at most 1000000 in all: a server closes the connection at more.

local core = require "zklock.core"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local wait = require "zklock.wait"

local error, setmetatable, tostring, type = error, setmetatable, tostring, type
local huge = math.huge
local format = string.format
local now = core.now

local node = {}

-- Checks --------------------------------------------------------------------------------------------------------------

local function is_reserved(path)
    return path == "/zookeeper" or path:sub(1, 11) == "/zookeeper/"
end

--- Returns the problem with a path to be read, or nil.
function node.read_problem(path)
    if type(path) ~= "string" then
        return format("path must be a string (got %s)", path == nil and "nil" or "a " .. type(path))
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
function node.create_problem(path, sequential)
    if sequential and type(path) == "string" then
        path = path .. "0"
    end
    return node.write_problem(path) or path == "/" and "bad path: '/' exists always" or nil
end

--- Returns the problem with data to be written, or nil.
function node.data_problem(data)
    if data ~= nil and type(data) ~= "string" then
        return format("data must be a string or nil (got a %s)", type(data))
    end
end

--- Returns the problem with a version argument, or nil.
function node.version_problem(version)
    local fits, expected = options.version(version == nil and -1 or version)
    return not fits and format("version must be %s (got %s)", expected, tostring(version)) or nil
end

--- The settings of each method: `{ check, default }`.
local READ_SCHEMA = { timeout = { options.timeout, huge }, watch = { options.boolean, false } }
local WRITE_SCHEMA = { timeout = { options.timeout, huge }, version = { options.version, -1 } }
local SYNC_SCHEMA = { timeout = { options.timeout, huge } }
local CREATE_SCHEMA = {
    timeout = { options.timeout, huge },
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

--- Checks the settings of a create, alone or in a transaction.
-- @treturn table; or nil and what is wrong
function node.read_create(client, settings, in_transaction)
    local read, wrong = options.read(settings, in_transaction and PART_CREATE_SCHEMA or CREATE_SCHEMA)
    if not read then
        return nil, wrong
    elseif read.container and (read.ephemeral or read.sequential) then
        return nil, "option 'container' must not be true together with ephemeral or sequential"
    end
    wrong = options.creator_problem(read.acl, client._has_auth, "when the client was opened without auth")
    if wrong then
        return nil, wrong
    end
    read.acl = read.acl or client._acl
    return read
end

-- Asking --------------------------------------------------------------------------------------------------------------

local function answered(operation)
    return operation:done() ~= false -- nil in a process forked meanwhile: take returns that
end

--- Cancels the operation. Returns nil, message and code for an answer that has not come in time.
local function timed_out(client, operation, timeout, what, writes)
    operation:cancel()
    what = format("%s did not finish within %g s", what, timeout)
    if writes then
        what = what .. ", and may or may not be executed"
    end
    if client._core:state() ~= "connected" then
        return nil, client:_unreachable(what), "disconnected"
    end
    return nil, what, "timeout"
end

--- Sends one operation and waits for its answer.
-- @tparam table request for core
-- @tparam number timeout seconds, math.huge for none
-- @tparam string what for messages: "reading /a"
-- @tparam boolean writes whether an unknown outcome matters
-- @tparam number|nil deadline on core.now()'s clock, where the time has begun to run before
-- @treturn userdata|nil the answered operation; its method take returns the results
function node.perform(client, request, timeout, what, writes, deadline)
    local operation, message, code = client._core:operate(request)
    if not operation then
        return nil, message, code
    end
    local decided
    decided, message, code = wait.until_decided(client, operation:id(), deadline or now() + timeout, answered, operation)
    if decided then
        return operation
    elseif decided == nil then
        operation:cancel()
        return nil, message, code
    end
    return timed_out(client, operation, timeout, what, writes)
end

--- Performs an operation that sets no watch, and returns its results.
local function perform(client, request, timeout, what, writes)
    local operation, message, code = node.perform(client, request, timeout, format("%s %s", what, request.path), writes)
    if not operation then
        return nil, message, code
    end
    return operation:take()
end

-- Watches -------------------------------------------------------------------------------------------------------------

--- A watch, as returned by reads. It fires once, at the first change after the read that set it.
local Watch = {}
Watch.__index = Watch
node.Watch = Watch

local check_watch = new_check("watch", "a watch", { [Watch] = true })

--- Returns the state of the watch: event | false while it is armed | nil, message, code.
local function look(self)
    if self._cancelled then
        return nil, format("the watch of %s was cancelled", self._path), "cancelled"
    end
    local event, message, code = self._operation:event()
    if event == nil then
        return nil, format("the watch of %s cannot fire any more: %s", self._path, message), code
    end
    return event
end

--- Called by the pump on a notification. Wakes all waiters, because any number of coroutines may wait for a watch.
function Watch:_handle_changed()
    if look(self) ~= false then
        self._client._registry.observers[self._operation:id()] = nil -- it fires only once
    end
    wait.wake_everybody(self._client)
end

local function new_watch(client, operation, path)
    local watch = setmetatable({ _client = client, _operation = operation, _path = path, _cancelled = false }, Watch)
    if look(watch) == false then
        wait.observe(client, operation:id(), watch)
    end
    return watch
end

local function decided(self)
    return look(self) ~= false
end

--- Waits until the watch fires. If it has fired already, the answer comes at once, on each call. The watch survives the loss of
-- its connection: a change during the interruption makes it fire after the reconnection.
-- @tparam number|nil timeout seconds, 0 or more; nil: no limit
-- @treturn string|nil "created", "deleted", "changed" (its data), "child" (its children)
-- @treturn string|nil message
-- @treturn string|nil code: "timeout" (it is still armed), "lost" (the session is over: read again), "cancelled", "closed",
--   "forked", "phase"
-- @raise when the timeout is malformed
function Watch:wait(timeout)
    check_watch(self, "wait")
    local seconds, wrong = options.read_timeout(timeout)
    if not seconds then
        error("watch:wait: " .. wrong, 2)
    end
    local done, message, code = wait.until_decided(self._client, nil, now() + seconds, decided, self)
    if done then
        return look(self)
    elseif done == nil then
        return nil, message, code
    end
    return nil, format("nothing happened to %s within %g s", self._path, seconds), "timeout"
end

--- Returns the event that the watch has seen, without waiting.
-- @treturn string|nil as of wait; nil when it has not fired
function Watch:fired()
    check_watch(self, "fired")
    return look(self) or nil
end

--- Ends the watch. Every wait for it ends with the code "cancelled". It is removed from the server in the background, unless
-- another watch of this client is on the same path: ZooKeeper can only remove all of them. A watch that is garbage-collected is
-- removed too.
function Watch:cancel()
    check_watch(self, "cancel")
    if not self._cancelled then
        self._cancelled = true
        self._client._registry.observers[self._operation:id()] = nil
        self._operation:cancel()
        wait.wake_everybody(self._client)
    end
end

--- The path that is watched.
-- @treturn string
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

--- Adds the methods to the class of clients. `check_self(self, method)` raises at level 3 when self is not a client.
function node.extend(Client, check_self)
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
    local function read(self, method, path, settings, what)
        local request = { kind = method, path = path, watch = settings.watch }
        local operation, message, code =
            node.perform(self, request, settings.timeout, format("%s %s", what, path), false)
        if not operation then
            return nil, message, code
        end
        local result, stat
        result, stat, code = operation:take()
        if result == nil then
            return nil, stat, code
        end
        return result, stat, settings.watch and new_watch(self, operation, path) or nil
    end

    --- Reads a node's data.
    -- @tparam string path
    -- @tparam table|nil settings `timeout`; `watch = true` sets a watch that fires when the data change or the node is deleted
    -- @treturn string|nil data, "" if it has none
    -- @treturn table|string stat, or message
    -- @treturn table|string|nil watch, or code
    -- @raise when an argument is malformed
    function Client:get(path, settings)
        check_self(self, "get")
        settings = read_settings("get", node.read_problem(path), settings, READ_SCHEMA)
        return read(self, "get", path, settings, "reading")
    end

    --- Lists the names of a node's children, in no particular order.
    -- @tparam string path
    -- @tparam table|nil settings `timeout`; `watch = true` sets a watch that fires when children are created or deleted
    --   ("child") or the node is deleted
    -- @treturn table|nil array of names, without the path
    -- @treturn table|string stat, or message
    -- @treturn table|string|nil watch, or code
    -- @raise when an argument is malformed
    function Client:children(path, settings)
        check_self(self, "children")
        settings = read_settings("children", node.read_problem(path), settings, READ_SCHEMA)
        return read(self, "children", path, settings, "listing the children of")
    end

    --- Checks whether a node exists. Servers since 3.8.4 and 3.9.2 answer "no_auth" if the node may not be read.
    -- @tparam string path
    -- @tparam table|nil settings `timeout`; `watch = true` sets a watch that fires when the node is created, changed or deleted
    -- @treturn table|boolean|nil stat; false when the node does not exist
    -- @treturn table|string|nil watch, or message
    -- @treturn string|nil code
    -- @raise when an argument is malformed
    function Client:exists(path, settings)
        check_self(self, "exists")
        settings = read_settings("exists", node.read_problem(path), settings, READ_SCHEMA)
        local stat, message, last = read(self, "exists", path, settings, "looking at")
        if stat == nil then
            return nil, message, last
        end
        return stat, last
    end

    --- Writes a node's data.
    -- @tparam string path
    -- @tparam string|nil data at most about 999 KB; nil: none
    -- @tparam table|nil settings `version`: writes only if the node has this version; `timeout`
    -- @treturn table|nil stat
    -- @treturn string|nil message
    -- @treturn string|nil code
    -- @raise when an argument is malformed
    function Client:set(path, data, settings)
        check_self(self, "set")
        settings = read_settings("set", node.write_problem(path) or node.data_problem(data), settings, WRITE_SCHEMA)
        local request = { kind = "set", path = path, data = data, version = settings.version }
        return perform(self, request, settings.timeout, "writing", true)
    end

    --- Creates a node. Its parent must exist.
    --
    -- Settings:
    --   * `ephemeral` true: the node is deleted when the client's session ends.
    --   * `sequential` true: ZooKeeper appends a number of ten digits that grows with each such node of the parent. The number
    --     is returned as ZooKeeper assigns it: after 2147483647 of them the numbers repeat, or are negative.
    --   * `container` true: the server deletes the node when it has had children and has none any more.
    --   * `acl` as for `zklock.connect`; default: the client's.
    --   * `timeout`
    --
    -- @tparam string path may end with "/" when sequential: the number is then the whole name
    -- @tparam string|nil data at most about 999 KB; nil: none
    -- @tparam table|nil settings
    -- @treturn string|nil path of the new node
    -- @treturn table|string stat, or message
    -- @treturn string|nil code
    -- @raise when an argument is malformed
    function Client:create(path, data, settings)
        check_self(self, "create")
        local given, wrong = node.read_create(self, settings)
        wrong = wrong or node.create_problem(path, given.sequential) or node.data_problem(data)
        if wrong then
            error("client:create: " .. wrong, 2)
        end
        local request = {
            kind = "create",
            path = path,
            data = data,
            ephemeral = given.ephemeral,
            sequential = given.sequential,
            container = given.container,
            acl = given.acl
        }
        return perform(self, request, given.timeout, "creating", true)
    end

    --- Deletes a node that has no children.
    -- @tparam string path
    -- @tparam table|nil settings `version`: deletes only if the node has this version; `timeout`
    -- @treturn true|nil
    -- @treturn string|nil message
    -- @treturn string|nil code
    -- @raise when an argument is malformed
    function Client:delete(path, settings)
        check_self(self, "delete")
        settings = read_settings("delete", node.delete_problem(path), settings, WRITE_SCHEMA)
        local request = { kind = "delete", path = path, version = settings.version }
        return perform(self, request, settings.timeout, "deleting", true)
    end

    --- Makes the server to which the client is connected catch up with its leader. Later reads of this client see everything
    -- that was written before. This is not a quorum operation: a leader that has been deposed without noticing it answers too.
    -- @tparam string path any path that may be read
    -- @tparam table|nil settings `timeout`
    -- @treturn true|nil
    -- @treturn string|nil message
    -- @treturn string|nil code
    -- @raise when an argument is malformed
    function Client:sync(path, settings)
        check_self(self, "sync")
        settings = read_settings("sync", node.read_problem(path), settings, SYNC_SCHEMA)
        return perform(self, { kind = "sync", path = path }, settings.timeout, "synchronizing", false)
    end
end

return node
