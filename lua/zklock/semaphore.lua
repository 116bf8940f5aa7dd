--- semaphore: a lock with several permits.
--
-- The layout is that of Curator's InterProcessSemaphoreV2: the queue of the waiters is in `<path>/locks`, and `<path>/leases`
-- has a node for each permit that is taken. In all other respects a semaphore is like any lock: a coroutine holds once by an
-- object, with all permits that it asked for together.

local arguments = require "zklock.lock.arguments"
local Lock = require "zklock.lock"
local new_check = require "zklock.check_self"

local ipairs, setmetatable = ipairs, setmetatable
local format = string.format

---@class zklock.Semaphore: zklock.Lock
local Semaphore = Lock.subclass()

--- The kind of its locks; see zklock.lock.
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

local check_self, checked = new_check("semaphore", "a semaphore", { [Semaphore] = true })

--- How many permits the semaphore has.
---@return integer permits
function Semaphore:permits()
    check_self(self, "permits")
    return self._permits
end

--- How many permits are free. The head of the queue takes none until there are enough for it. The result may be outdated when it
-- is returned: to take a permit, acquire it.
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return integer? available 0 or more
---@return string? message
---@return zklock.Code? code "mismatch" (the semaphore was made for another number of permits), "timeout", "disconnected",
--   "no_auth", "closed", "forked", "phase", "failed"
function Semaphore:available(timeout)
    check_self(self, "available")
    local deadline, seconds = checked("available", self:read_deadline(timeout))
    local contenders, limit, code = self:read_contenders(0, deadline, seconds)
    if not contenders then
        return nil, limit, code
    elseif limit and limit ~= self._permits then
        return nil, format("the semaphore '%s' was made for %d permits, not for %d", self:path(), limit, self._permits), "mismatch"
    end
    local free = self._permits
    for _, contender in ipairs(contenders) do
        free = free - (contender.holder and 1 or 0)
    end
    return free
end

return Semaphore
