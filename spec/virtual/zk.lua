--- virtual.zk: the twin of support.zk: an independent client of the simulated servers, over an observer of world.c.

local trees = require "spec.support.trees"
local world = require "spec.virtual.world"

local zk = {}

local Client = {}
Client.__index = Client
trees.extend(Client)

local DEFAULT_TIMEOUT_MS = 60000

local ERRORS = {
    [-1] = "system_error", [-4] = "connection_loss", [-5] = "marshalling_error", [-6] = "unimplemented",
    [-7] = "operation_timeout", [-8] = "bad_arguments", [-101] = "no_node", [-102] = "no_auth", [-103] = "bad_version",
    [-108] = "no_children_for_ephemerals", [-110] = "node_exists", [-111] = "not_empty", [-112] = "session_expired",
    [-114] = "invalid_acl", [-115] = "auth_failed", [-118] = "session_moved", [-127] = "throttled",
}

local function name_of(code)
    return ERRORS[code] or "error_" .. code
end

local function adopt(self, observer)
    world.observers[observer] = true
    self.observer = observer
    self.session_id, self.negotiated_ms = observer:session()
    return self
end

function zk.connect(servers, timeout_ms)
    local observer, code = world.observe(servers, timeout_ms or DEFAULT_TIMEOUT_MS)
    if not observer then
        return nil, name_of(code)
    end
    return adopt(setmetatable({ servers = servers, timeout_ms = timeout_ms }, Client), observer)
end

--- Replaces a session that has ended, or whose world has ended, by a new one.
local function renew(self)
    world.observers[self.observer] = nil
    self.observer:close()
    local observer = world.observe(self.servers, self.timeout_ms or DEFAULT_TIMEOUT_MS)
    if observer then
        adopt(self, observer)
    end
end

local function call(self, may_repeat, ...)
    if self.closed then
        error("this client is closed", 3)
    end
    if not self.observer:is_open() then
        renew(self)
    end
    local result, second = self.observer:call(...)
    if not result and second == -4 and may_repeat then
        result, second = self.observer:call(...)
    end
    if not result and second == -112 then
        renew(self)
    end
    if not result then
        return nil, name_of(second)
    end
    return result, second
end

function Client:create(path, data, options)
    options = options or {}
    if path:find("%z") then
        return nil, "bad_arguments" -- C would take the NUL for the end of the path
    end
    local mode = (options.ephemeral and 1 or 0) + (options.sequential and 2 or 0)
    if options.container then
        assert(mode == 0, "a container is neither ephemeral nor sequential")
        mode = 4
    end
    return call(self, false, "create", path, data or "", mode)
end

function Client:delete(path)
    local ok, problem = call(self, false, "delete", path)
    return ok and true or nil, not ok and problem or nil
end

function Client:exists(path)
    local ok, stat = call(self, true, "exists", path)
    if not ok then
        return nil, stat
    end
    return stat
end

function Client:get(path)
    return call(self, true, "get", path)
end

function Client:set(path, data)
    local ok, stat = call(self, false, "set", path, data)
    if not ok then
        return nil, stat
    end
    return stat
end

function Client:children(path)
    local names, problem = call(self, true, "children", path)
    if not names then
        return nil, problem
    end
    table.sort(names)
    return names
end

function Client:sync(path)
    local ok, problem = call(self, true, "sync", path or "/")
    return ok and true or nil, not ok and problem or nil
end

function Client:ping()
    return self:sync "/"
end

function Client:close()
    if self.closed then
        return true
    end
    self.closed = true
    world.observers[self.observer] = nil
    return self.observer:close()
end

function Client:disconnect()
    self.observer:disconnect()
end

function zk.close_session(_, id_hex)
    if world.end_session(id_hex) then
        return true
    end
    return nil, "session_expired"
end

function zk.kill_session(servers, id_hex)
    return zk.close_session(servers, id_hex)
end

function Client:kill_session(id_hex)
    return zk.kill_session(self.servers, id_hex)
end

return zk
