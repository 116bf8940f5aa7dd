--- semaphore: a lock with several permits.
--
-- The layout is that of Curator's InterProcessSemaphoreV2: a line of those who wait in `<path>/locks`, and a node for each
-- permit that is taken in `<path>/leases`. Everything else is as for any lock: a coroutine holds once by an object, with as many
-- permits as it asked for together.

local Lock = require "zklock.lock"
local node = require "zklock.node"
local options = require "zklock.options"

local error, getmetatable, setmetatable, tonumber = error, getmetatable, setmetatable, tonumber
local format = string.format
local huge, max = math.huge, math.max

local Semaphore = Lock.extend()

--- What is more is no limit.
local LARGEST_LIMIT = 2147483647

--- What acquire takes: `count`, how many permits, together or not at all.
local KIND = {
    name = "semaphore",
    mode = "permits",
    schema = { timeout = { options.timeout, huge }, count = { options.count, 1 }, keep = { options.boolean } },
    try_schema = { count = { options.count, 1 }, keep = { options.boolean } }
}

--- For Client:semaphore. The arguments have been checked.
function Semaphore.new(client, path, permits, settings)
    local semaphore = Lock.new(Semaphore, client, KIND, path, settings)
    semaphore._permits = permits
    return setmetatable(semaphore, Semaphore)
end

--- Raises at the caller of the public method when it was called with a dot instead of a colon.
local function check_self(self, method)
    if getmetatable(self) ~= Semaphore then
        error(format("semaphore:%s: call it with a colon on a semaphore", method), 3)
    end
end

--- How many permits the semaphore has.
-- @treturn integer
function Semaphore:permits()
    check_self(self, "permits")
    return self._permits
end

--- For how many permits the semaphore was made, as whoever came first has written it (csrc/permits.c reads it alike).
-- @treturn number|false false: nobody has said
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
    local limit = data:find("^%d+$") and tonumber(data) or 0
    return limit > 0 and limit <= LARGEST_LIMIT and limit
end

--- How many permits nobody has now. The answer is of a moment that has passed: to take one, take it.
-- @tparam number|nil timeout seconds, 0 or more, math.huge for as long as it takes; the session timeout unless given
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

--- Appends those of a list that are leases, or those that are not, and says that only the first `holders` of them hold.
local function append(contenders, list, leases, holders)
    local count = 0
    for index = 1, #list do
        local contender = list[index]
        if (contender.mode == "lease") == leases then
            count = count + 1
            contender.holder = count <= holders
            contenders[#contenders + 1] = contender
        end
    end
end

--- The permits that are taken, and then the line. Permits beyond the limit are those of the head of the line, who has made
-- its nodes and waits for others to go (Curator's clients always do it so).
function Semaphore:_contenders(deadline, seconds)
    local leases, message, code = self:_list(self._path .. "/leases", true, deadline, seconds)
    if not leases then
        return nil, message, code
    end
    local line
    line, message, code = self:_list(self._path .. "/locks", true, deadline, seconds)
    if not line then
        return nil, message, code
    end
    local contenders = {}
    append(contenders, leases, true, self._permits)
    append(contenders, line, false, 0)
    return contenders
end

return Semaphore
