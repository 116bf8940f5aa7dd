--- testing.servers: the nodes that the servers of zklock.testing have, their sessions, and watches. All are in memory, and each
-- request is executed at once. Access control lists are not imitated: all nodes are open.

local ipairs, next, pairs, setmetatable = ipairs, next, pairs, setmetatable
local format = string.format
local remove = table.remove

local Servers = {}
Servers.__index = Servers

--- When each world begins, in seconds since 1970.
local BEGIN = 1700000000

local NOBODY = ("0"):rep(16)

--- The words of the C client for a code.
local WORDS = { no_node = "no node", node_exists = "node exists", bad_version = "bad version", not_empty = "not empty" }

local function parent_of(path)
    local parent = path:match "^(.*)/[^/]*$"
    return parent == "" and "/" or parent
end

--- `clock`: of the world. `changed` is a function of testing.locks.
function Servers.new(clock)
    local self = setmetatable({
        clock = clock, changed = false, zxid = 0, nodes = {}, watches = {}, sessions = 0, undo = {}, events = {},
        clients = 0, -- how many there have been
        waiting = {}, owners = {} -- acquisitions that wait, in their order; path of a node -> its acquisition
    }, Servers)
    self:put("/", "")
    self.undo, self.events = {}, {}
    return self
end

--- Returns the id of a new session.
function Servers:new_session()
    self.sessions = self.sessions + 1
    return format("1%015x", self.sessions)
end

--- Puts a new node into the tree.
function Servers:put(path, data, owner)
    local now = BEGIN + self.clock.time
    self.nodes[path] = {
        data = data or "", owner = owner or NOBODY, version = 0, created = 0, deleted = 0, children = {},
        czxid = self.zxid, mzxid = self.zxid, pzxid = self.zxid, ctime = now, mtime = now
    }
end

local function stat(node)
    local function hex(number)
        return format("%016x", number)
    end
    return {
        czxid = hex(node.czxid), mzxid = hex(node.mzxid), pzxid = hex(node.pzxid), ctime = node.ctime, mtime = node.mtime,
        version = node.version, cversion = node.created + node.deleted, aversion = 0, ephemeral_owner = node.owner,
        data_length = #node.data, num_children = node.created - node.deleted
    }
end

--- Notes how a change is undone, and what it is.
local function note(self, undo, path, event)
    self.undo[#self.undo + 1] = undo
    self.events[#self.events + 1] = { path, event }
end

--- Executes a request for a node that exists and has the request's version, by its kind. The functions return the results; or nil
-- and the name of the problem.
local with_node = {}

function with_node.get(_, node)
    return node.data, stat(node)
end

function with_node.acl(_, node)
    return "world:anyone:rwcda", stat(node)
end

function with_node.children(_, node)
    local names = {}
    for name in pairs(node.children) do
        names[#names + 1] = name
    end
    return names, stat(node)
end

function with_node.check()
    return true
end

function with_node.set(self, node, request)
    local data, version, mzxid, mtime = node.data, node.version, node.mzxid, node.mtime
    note(self, function()
        node.data, node.version, node.mzxid, node.mtime = data, version, mzxid, mtime
    end, request.path, "changed")
    node.data, node.version, node.mzxid, node.mtime = request.data or "", version + 1, self.zxid, BEGIN + self.clock.time
    return stat(node)
end

function with_node.delete(self, node, request)
    if next(node.children) then
        return nil, "not_empty"
    end
    local path = request.path
    local parent, name = self.nodes[parent_of(path)], path:match "[^/]*$"
    local pzxid = parent.pzxid
    note(self, function()
        self.nodes[path], parent.children[name], parent.deleted, parent.pzxid = node, true, parent.deleted - 1, pzxid
    end, path, "deleted")
    self.nodes[path], parent.children[name], parent.deleted, parent.pzxid = nil, nil, parent.deleted + 1, self.zxid
    return true
end

--- Executes any other request, in the same way.
local without_node = {}

local function execute(self, request, session)
    local fn = with_node[request.kind]
    if not fn then
        return without_node[request.kind](self, request, session)
    end
    local node, version = self.nodes[request.path], request.version or -1
    if not node then
        return nil, "no_node"
    elseif version ~= -1 and version ~= node.version then
        return nil, "bad_version"
    end
    return fn(self, node, request)
end

function without_node.sync()
    return true
end

function without_node.exists(self, request)
    local node = self.nodes[request.path]
    return node and stat(node) or false
end

function without_node.create(self, request, session)
    local path, owner = request.path, request.ephemeral and session or nil
    local parent = self.nodes[parent_of(path)]
    if not parent then
        return nil, "no_node"
    elseif parent.owner ~= NOBODY then
        return nil, "no children for ephemerals"
    elseif request.sequential then
        path = path .. format("%010d", parent.created)
    end
    if self.nodes[path] then
        return nil, "node_exists"
    end
    local name, pzxid = path:match "[^/]*$", parent.pzxid
    note(self, function()
        self.nodes[path], parent.children[name], parent.created, parent.pzxid = nil, nil, parent.created - 1, pzxid
    end, path, "created")
    self:put(path, request.data, owner)
    parent.children[name], parent.created, parent.pzxid = true, parent.created + 1, self.zxid
    return path, stat(self.nodes[path])
end

--- Returns the results of all parts; or nil, the name of the problem, and the index of the part that has it.
function without_node.multi(self, request, session)
    local results = {}
    for index, part in ipairs(request) do
        local result, problem = execute(self, part, session)
        if not result then
            return nil, problem, index
        end
        results[index] = result
    end
    return results
end

--- Fires the watches of a node, and of its parent's list of children, on an event.
local function fire(self, path, event)
    local function fire_all(key, what)
        local watches = self.watches[key]
        self.watches[key] = nil
        for _, watch in ipairs(watches or {}) do
            watch(what)
        end
    end
    fire_all("data " .. path, event)
    if event == "deleted" then
        fire_all("children " .. path, event)
    end
    if event ~= "changed" then
        fire_all("children " .. parent_of(path), "child")
    end
end

--- Executes a request of a session: all of it, or nothing.
---@return any # its result, as of zklock.core's operations; or nil, the name of the problem, and of a multi the part's index
function Servers:execute(request, session)
    self.zxid = self.zxid + 1
    local result, second, part = execute(self, request, session)
    local undo, events = self.undo, self.events
    self.undo, self.events = {}, {}
    if result == nil then
        while undo[1] do
            remove(undo)()
        end
        return nil, second, part
    end
    for _, event in ipairs(events) do
        fire(self, event[1], event[2])
    end
    for _, event in ipairs(events) do
        self:changed(event[1], event[2])
    end
    return result, second
end

--- Calls fn(event) at the first change that a watch of this kind of read sees. Returns a function that ends the watch.
function Servers:watch(kind, path, fn)
    local key = (kind == "children" and "children " or "data ") .. path
    local watches = self.watches[key] or {}
    self.watches[key] = watches
    watches[#watches + 1] = fn
    return function()
        for index = #watches, 1, -1 do
            if watches[index] == fn then
                remove(watches, index)
            end
        end
    end
end

--- Deletes a node, if it is there.
function Servers:delete(path, session)
    return self:execute({ kind = "delete", path = path }, session)
end

--- Creates a directory with those above it, if they are missing.
function Servers:make(path, data)
    if path ~= "/" and not self.nodes[path] then
        self:make(parent_of(path), "")
        self:execute { kind = "create", path = path, data = data }
    end
end

--- Ends a session: its nodes are deleted.
function Servers:end_session(session)
    local paths = {}
    for path, node in pairs(self.nodes) do
        paths[#paths + 1] = node.owner == session and path or nil
    end
    table.sort(paths)
    for _, path in ipairs(paths) do
        self:delete(path)
    end
end

--- Returns a problem's code and its words.
function Servers.words(problem)
    return WORDS[problem] and problem or "failed", WORDS[problem] or problem
end

return Servers
