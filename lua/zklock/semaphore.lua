--- semaphore: a lock with several permits.
--
-- The layout is that of Curator's InterProcessSemaphoreV2: the queue of the waiters is in `<path>/locks`, and `<path>/leases`
-- has a node for each permit that is taken. In all other respects a semaphore is like any lock: a coroutine holds once by an
-- object, with all permits that it asked for together.

local arguments = require "zklock.lock.arguments"
local Lock = require "zklock.lock"
local new_check = require "zklock.check_self"
local node = require "zklock.node"
local options = require "zklock.options"
local queue = require "zklock.inspect.queue"
local Reads = require "zklock.inspect.reads"

local error, ipairs, setmetatable, tonumber = error, ipairs, setmetatable, tonumber
local format = string.format
local max = math.max

local Semaphore = Lock.subclass()

--- The kind of its locks; see zklock.lock.class.
local KIND = {
    name = "semaphore",
    mode = "permits",
    schemas = arguments.SEMAPHORE
}

--- For Client:semaphore. The arguments have been checked.
function Semaphore.new(client, path, permits, settings)
    local semaphore = Lock.new(Semaphore, client, KIND, path, settings)
    semaphore._permits = permits
    return setmetatable(semaphore, Semaphore)
end

local check_self = new_check("semaphore", "a semaphore", { [Semaphore] = true })

--- How many permits the semaphore has.
-- @treturn integer
function Semaphore:permits()
    check_self(self, "permits")
    return self._permits
end

--- Reads for how many permits the semaphore was made. The first client has written the number (csrc/lock/permits.c reads it the
-- same way).
-- @treturn number|false false: no valid number is written
-- @treturn string|nil message, when it cannot be read
-- @treturn string|nil code
local function read_limit(self, deadline, seconds)
    local path = self._path .. "/leases"
    local operation, message, code =
        node.perform(self._client, { kind = "get", path = path }, seconds, "reading " .. path, false, deadline)
    if not operation then
        return false, message, code
    end
    local data
    data, message, code = operation:take()
    if not data then
        return false, code ~= "no_node" and message or nil, code ~= "no_node" and code or nil
    end
    local fits, limit = options.permits(data:find("^%d+$") and tonumber(data))
    return fits and limit
end

--- How many permits are free. The result may be outdated when it is returned: to take a permit, acquire it.
-- @tparam number|nil timeout seconds, 0 or more; math.huge: no limit; default: the session timeout
-- @treturn integer|nil 0 or more
-- @treturn string|nil message
-- @treturn string|nil code "mismatch" (the semaphore was made for another number of permits), "timeout", "disconnected",
--   "no_auth", "closed", "forked", "phase", "failed"
-- @raise when the timeout is malformed
function Semaphore:available(timeout)
    check_self(self, "available")
    local deadline, seconds = self:_read_deadline(timeout)
    if not deadline then
        error("semaphore:available: " .. seconds, 2)
    end
    local leases, message, code = self:_list(self._path .. "/leases", false, deadline, seconds)
    if not leases then
        return nil, message, code
    end
    local limit
    limit, message, code = read_limit(self, deadline, seconds)
    if code then
        return nil, message, code
    elseif limit and limit ~= self._permits then
        return nil, format("the semaphore '%s' was made for %d permits, not for %d", self._path, limit, self._permits), "mismatch"
    end
    local taken = 0
    for index = 1, #leases do
        taken = taken + (leases[index].mode == "lease" and 1 or 0)
    end
    return max(0, self._permits - taken)
end

--- Reads the contenders of one of its directories into `list`: those that are leases, or those that are not.
-- @treturn function that returns a message and a code if the directory may not be read
local function read_contenders(reads, directory, leases, list)
    local problem, code
    reads:add("children", directory, function(names, message, answer)
        problem, code = message, answer
        for _, contender in ipairs(names and queue.parse(directory, names) or {}) do
            if (contender.mode == "lease") == leases then
                reads:add("get", contender.node, function(data, stat, why)
                    if data then
                        queue.note_node(contender, data, stat)
                    end
                    if why ~= "no_node" then -- it has gone meanwhile
                        list[#list + 1] = contender
                    end
                end)
            end
        end
    end)
    return function()
        return code == "no_auth" and problem or nil, code
    end
end

--- Lists the permits that are taken, and then the queue. The names of the nodes do not say who holds: the head of the queue has
-- made a node for each permit that it wants, and waits until enough are released. zklock.inspect.queue has the rule.
function Semaphore:_contenders(deadline, seconds)
    local reads, permits, line = Reads.new(self._client, deadline, seconds), {}, {}
    local refusals = {
        read_contenders(reads, self._path .. "/leases", true, permits), read_contenders(reads, self._path .. "/locks", false, line)
    }
    local ok, message, code = reads:run()
    if not ok then
        return nil, message, code
    end
    for _, refusal in ipairs(refusals) do
        message, code = refusal()
        if message then
            return nil, message, code
        end
    end
    queue.stand_semaphore(permits, line, self._permits)
    local contenders = {}
    for _, list in ipairs { permits, line } do
        for _, contender in ipairs(list) do
            contenders[#contenders + 1] = {
                node = contender.node, identity = contender.identity or "", mode = contender.mode, sequence = contender.sequence,
                holder = contender.holder
            }
        end
    end
    return contenders
end

return Semaphore
