--- semaphore: a lock with several permits.
--
-- The layout is that of Curator's InterProcessSemaphoreV2: a line of those who wait in `<path>/locks`, and a node for each
-- permit that is taken in `<path>/leases`. Everything else is as for any lock, one hold of an object at a time included: who
-- wants permits in several coroutines makes an object for each, which costs a table.

local Lock = require "zklock.lock"
local options = require "zklock.options"

local error, getmetatable, setmetatable = error, getmetatable, setmetatable
local format = string.format
local huge, max = math.huge, math.max

local Semaphore = Lock.extend()

--- What acquire takes: `count`, how many permits, together or not at all.
local KIND = {
    name = "semaphore",
    mode = "permits",
    schema = { timeout = { options.timeout, huge }, count = { options.count, 1 } },
    try_schema = { count = { options.count, 1 } }
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

--- How many permits nobody has now. The answer is of a moment that has passed: to take one, take it.
-- @tparam number|nil timeout seconds, 0 or more; the session timeout unless given
-- @treturn integer|nil 0 or more
-- @treturn string|nil message
-- @treturn string|nil code "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
-- @raise when the timeout is malformed
function Semaphore:available(timeout)
    check_self(self, "available")
    local deadline, wrong = self:_read_deadline(timeout)
    if not deadline then
        error("semaphore:available: " .. wrong, 2)
    end
    local leases, message, code = self:_list(self._path .. "/leases", false, deadline)
    if not leases then
        return nil, message, code
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
function Semaphore:_contenders(deadline)
    local leases, message, code = self:_list(self._path .. "/leases", true, deadline)
    if not leases then
        return nil, message, code
    end
    local line
    line, message, code = self:_list(self._path .. "/locks", true, deadline)
    if not line then
        return nil, message, code
    end
    local contenders = {}
    append(contenders, leases, true, self._permits)
    append(contenders, line, false, 0)
    return contenders
end

return Semaphore
