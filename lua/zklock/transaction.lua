--- transaction: several checks and writes that ZooKeeper executes all together, or none of them.
--
-- Made by client:transaction(), or by hold:transaction(). In a hold's transaction the server first checks that the node by
-- which the lock is held still exists. For a semaphore it checks the nodes of all permits that are held, for a multi the nodes
-- of all its locks. So nothing is written under a lock that has been lost meanwhile, even if this program was suspended when it
-- lost the lock, and the server itself decides that. Unlike a fencing token, this needs no cooperation of the resource that is
-- written, but it protects only data in ZooKeeper.
--
--     local results, message, code = hold:transaction()
--         :set("/app/config", new, stat.version)
--         :create("/app/log/entry-", "changed", { sequential = true })
--         :commit(5)

local new_check = require "zklock.check_self"
local node = require "zklock.node"
local options = require "zklock.options"

local error, ipairs, setmetatable = error, ipairs, setmetatable
local format = string.format

---@class zklock.Transaction
local Transaction = {}
Transaction.__index = Transaction

--- For Client:transaction; and for holds and multis, whose `guards` are the locks that must be held, each with its hold, if there
-- is one: `{ lock =, hold = }`. During a later hold of the same lock the writes may not fit any more.
function Transaction.new(client, guards)
    return setmetatable({ _client = client, _guards = guards, _parts = {} }, Transaction)
end

local check_self, checked = new_check("transaction", "a transaction", { [Transaction] = true })

--- Raises at the caller of the public method if `wrong` is given, else adds a part. Must not be called in a tail call (return).
local function add(self, method, wrong, part)
    if wrong then
        error(format("transaction:%s: %s", method, wrong), 3)
    end
    self._parts[#self._parts + 1] = part
end

--- Requires that a node exists and has a version.
---@param path? string a lock's transaction may leave both out: the check of the lock's nodes is always part of it
---@param version? integer default: any
---@return self transaction itself
function Transaction:check(path, version)
    check_self(self, "check")
    if path == nil and version == nil and self._guards then
        return self
    end
    add(self, "check", node.read_problem(path) or node.version_problem(version),
        { kind = "check", path = path, version = version })
    return self
end

---@class zklock.PartCreateOptions
---@field ephemeral? boolean as of Client:create
---@field sequential? boolean as of Client:create
---@field acl? zklock.Acl as of Client:create

--- Creates a node. The arguments are those of Client:create.
---@param path string
---@param data? string
---@param settings? zklock.PartCreateOptions
---@return self transaction itself; the part's result is the path of the new node
function Transaction:create(path, data, settings)
    check_self(self, "create")
    local part, wrong = node.read_create(self._client, path, data, settings, true)
    add(self, "create", not part and wrong, part)
    return self
end

--- Writes a node's data.
---@param path string
---@param data? string
---@param version? integer writes only if the node has this version; default: any
---@return self transaction itself; the part's result is the node's new stat
function Transaction:set(path, data, version)
    check_self(self, "set")
    local wrong = node.write_problem(path) or node.data_problem(data) or node.version_problem(version)
    add(self, "set", wrong, { kind = "set", path = path, data = data, version = version })
    return self
end

--- Deletes a node.
---@param path string
---@param version? integer deletes only if the node has this version; default: any
---@return self transaction itself; the part's result is true
function Transaction:delete(path, version)
    check_self(self, "delete")
    add(self, "delete", node.delete_problem(path) or node.version_problem(version),
        { kind = "delete", path = path, version = version })
    return self
end

--- Returns the paths of the nodes by which a lock is held; or nil, message, code if it is not held by that hold any more.
local function guard_one(lock, hold)
    if not hold or hold:state() == "released" then
        return nil, format("the lock %s is not held: nothing was written", lock:path()), "not_held"
    end
    local own, message, code = hold:nodes()
    if code then
        return nil, message, code
    elseif not own then
        return nil, format("the lock %s was lost: nothing was written", lock:path()), "lost"
    end
    return own
end

--- Returns the paths of the nodes to be checked first, and by index the locks that they belong to; or nil, message, code if one
-- of the locks is not held by its hold any more.
local function guard(self)
    local state, problem, state_code = self._client:desk().core:state()
    if state == nil then
        return nil, problem, state_code
    end
    local nodes, locks = {}, {}
    for _, one in ipairs(self._guards) do
        local own, message, code = guard_one(one.lock, one.hold)
        if not own then
            return nil, message, code
        end
        for index = 1, #own do
            nodes[#nodes + 1] = own[index]
            locks[#nodes] = one.lock
        end
    end
    return nodes, locks
end

--- Returns the request to the server: first the checks of the locks' nodes where there are locks, then the parts.
local function request_of(self, own)
    local request = { kind = "multi" }
    for index = 1, own and #own or 0 do
        request[index] = { kind = "check", path = own[index] }
    end
    local shift = #request
    for index = 1, #self._parts do
        request[index + shift] = self._parts[index]
    end
    return request, shift
end

--- Returns the results without those of the first `shift` parts.
local function behind(results, shift)
    local rest = {}
    for index = shift + 1, #results do
        rest[index - shift] = results[index]
    end
    return rest
end

--- Returns the results of a commit. `settings` are those of the commit, and what `guard` and `request_of` returned.
local function results_of(_, operation, _, settings)
    local shift = settings.shift
    local results, message, code, index = operation:take()
    if results then
        return behind(results, shift)
    elseif index and index <= shift and code == "no_node" then
        message = format("the lock %s was lost: its node %s is gone; nothing was written", settings.locks[index]:path(),
            settings.own[index])
        return nil, message, "lost"
    elseif index then
        index = index - shift
        index = index > 0 and index or nil
    end
    return nil, message, code, index
end

--- Executes all parts on the server, or none.
--
-- A lock's transaction is refused without a request to the server if the lock is not held at this instant by the hold under
-- which the transaction was made. A transaction may be committed again, for example after "timeout".
--
---@param timeout? number|zklock.WaitOptions seconds, 0 or more, or a table; nil: no limit. A callback gets the first three results
---@return any[]|zklock.Call|nil results the result of each part in its order: check and delete true, create
--   the path, set the stat
---@return string? message
---@return zklock.Code? code as of the other operations on nodes (`Client`), in particular "no_node", "node_exists",
--   "bad_version", "not_empty"; of a lock's transaction also "lost" (the lock's node, or for a semaphore the node of one of its
--   permits, is gone, or its lease ran out: nothing was written) and "not_held". After "disconnected" and "timeout" the
--   transaction may or may not have been executed.
---@return integer? part the index of the part that failed, if a part caused the failure
function Transaction:commit(timeout)
    check_self(self, "commit")
    local settings = checked("commit", options.read_timeout_or_table(timeout, node.ANSWER_SCHEMA))
    local own, locks, code
    if self._guards then
        own, locks, code = guard(self)
        if not own then
            return nil, locks, code
        end
    end
    local request, shift = request_of(self, own)
    if #request == 0 and not settings.callback then
        return {}
    end
    settings.own, settings.locks, settings.shift = own, locks, shift
    local what = format("a transaction of %d operations", #request)
    return node.answer(self._client, "commit", request, settings, what, true, results_of)
end

return Transaction
