--- semaphore: a lock with several permits.
--
-- The layout is that of Curator's InterProcessSemaphoreV2: the queue of the waiters is in `<path>/locks`, and `<path>/leases`
-- has a node for each permit that is taken. In all other respects a semaphore is like any lock: a coroutine holds once by an
-- object, with all permits that it asked for together.

local arguments = require "zklock.lock.arguments"
local core = require "zklock.core"
local Lock = require "zklock.lock"
local new_check = require "zklock.check_self"
local node = require "zklock.node"
local options = require "zklock.options"

local ipairs = ipairs
local format, max = string.format, math.max

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
    return semaphore
end

local check_self, checked = new_check("semaphore", "a semaphore", { [Semaphore] = true })

--- How many permits the semaphore has, by this program: the number that the object was made with, or got by resize.
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
    local contenders, limit, resized = self:read_contenders(0, deadline, seconds)
    if not contenders then
        return nil, limit, resized
    elseif limit and limit ~= self._permits and not resized then
        return nil, format("the semaphore '%s' was made for %d permits, not for %d", self:path(), limit, self._permits), "mismatch"
    end
    local free = limit or self._permits
    for _, contender in ipairs(contenders) do
        free = free - (contender.holder and 1 or 0)
    end
    return max(0, free) -- more may be held than there are since a resize
end

--- Makes a directory, and those above it that are missing: only the one that is there must let it. They are persistent.
---@return true?
---@return string? message
---@return zklock.Code? code
local function make_directory(self, path, deadline, seconds)
    local request = { kind = "create", path = path, data = "", acl = self:settings().acl }
    local made, message, code = node.perform(self:client(), request, "creating " .. path, deadline, seconds)
    if made or code == "node_exists" then
        return true
    end
    local parent = path:match "^(/.+)/"
    if code == "no_node" and parent then
        made, message, code = make_directory(self, parent, deadline, seconds)
        if made then
            return make_directory(self, path, deadline, seconds)
        end
    end
    return nil, message, code
end

--- Changes how many permits the semaphore has, while it is used. From now on acquisitions take this number for theirs, whatever
-- number their programs name; programs keep the number that they name as the most that one acquisition can want. The number stays
-- until the path is deleted.
--
-- More permits are given out at once. If there are fewer, holders keep theirs, and no permit is given out that was requested
-- after the change until no more are held than there are. A hold may stay within its client for `handoff` turns. An acquisition
-- that wants more permits than there are now is refused with "mismatch".
--
-- Not for a path that is shared with Curator, whose clients know their own number only, or with zklock 1.0: "mismatch".
---@param permits integer a whole number from 1 to 2147483647
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return true? resized
---@return string? message
---@return zklock.Code? code "timeout" and "disconnected" (the number may or may not have been changed), "no_auth", "closed",
--   "forked", "phase", "failed"
function Semaphore:resize(permits, timeout)
    check_self(self, "resize")
    local deadline, seconds = checked("resize", self:read_deadline(timeout))
    permits = checked("resize", options.read_permits(permits))
    local leases = self:path() .. "/leases"
    local mark = leases .. "/" .. core.RESIZED
    local data, acl = format("%d", permits), self:settings().acl
    local set = { kind = "set", path = leases, data = data, version = -1 }
    local unmark = { kind = "delete", path = mark, version = -1 }
    local make_mark = { kind = "create", path = mark, data = "", acl = acl }
    -- A new mark wakes the head of the queue, which watches the children of "leases".
    local request = { kind = "multi", set, unmark, make_mark }
    while true do
        local done, message, code, part = node.perform(self:client(), request, "resizing " .. self:path(), deadline, seconds)
        if done then
            self._permits, self._spec = permits, false
            return true
        elseif code == "no_node" and request[1] == set and part == 2 then
            request = { kind = "multi", set, make_mark } -- for the first time
        elseif code == "no_node" and request[1] == set then
            request = { kind = "multi", { kind = "create", path = leases, data = data, acl = acl }, make_mark }
        elseif code == "no_node" then
            done, message, code = make_directory(self, self:path(), deadline, seconds)
            if not done then
                return nil, message, code
            end
        elseif code == "node_exists" then
            request = { kind = "multi", set, unmark, make_mark } -- somebody was quicker
        else
            return nil, message, code
        end
    end
end

return Semaphore
