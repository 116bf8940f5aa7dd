--- rwlock: a lock that several readers or one writer can hold.
--
-- An RwLock has two locks on one path, `read` and `write`, which refer to each other. Contenders are served in the order of
-- arrival: a reader waits for the nearest writer before it, a writer for all contenders before it. So neither readers nor
-- writers wait forever. The nodes have the names of Curator's InterProcessReadWriteLock.

local Lock = require "zklock.lock"
local new_check = require "zklock.check_self"
local with_lock = require "zklock.lock.with_lock"

local error, setmetatable = error, setmetatable
local format = string.format

---@class zklock.RwLock
---@field read zklock.Lock the lock that readers take
---@field write zklock.Lock the lock that a writer takes
local RwLock = {}
RwLock.__index = RwLock

--- For Client:rwlock. The arguments have been checked.
function RwLock.new(client, path, settings)
    local read = Lock.new(Lock, client, Lock.READ, path, settings)
    local write = Lock.new(Lock, client, Lock.WRITE, path, settings)
    read._twin, write._twin = write, read
    return setmetatable({ read = read, write = write }, RwLock)
end

local check_self, checked = new_check("rwlock", "a read/write lock", { [RwLock] = true })

--- Raises at the caller of the public method if an argument for a lock's with_lock is wrong. with_lock is called in a tail call,
-- and there Lua 5.1 could not name the line of the mistake.
local function check_with(lock, method, fn, timeout)
    local seconds, wrong = with_lock.read(lock, fn, timeout)
    if not seconds then
        error(format("rwlock:%s: %s", method, wrong), 3)
    end
end

--- Runs `fn(rw.read, …)` while holding the read lock: rw.read:with_lock. Raises errors as Lock:with_lock.
---@param fn fun(hold: zklock.Hold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions as of Lock:acquire; nil: no limit
---@param ... any further arguments for fn
---@return true? ran
---@return any ... fn's results; or message, code: as Lock:with_lock
function RwLock:with_read(fn, timeout, ...)
    check_self(self, "with_read")
    check_with(self.read, "with_read", fn, timeout)
    return self.read:with_lock(fn, timeout, ...)
end

--- Runs `fn(rw.write, …)` while holding the write lock: rw.write:with_lock. Raises errors as Lock:with_lock.
---@param fn fun(hold: zklock.Hold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions as of Lock:acquire; nil: no limit
---@param ... any further arguments for fn
---@return true? ran
---@return any ... fn's results; or message, code: as Lock:with_lock
function RwLock:with_write(fn, timeout, ...)
    check_self(self, "with_write")
    check_with(self.write, "with_write", fn, timeout)
    return self.write:with_lock(fn, timeout, ...)
end

--- The path that the lock was made with.
---@return string path
function RwLock:path()
    check_self(self, "path")
    return self.read:path()
end

--- Lists all holders and waiters, readers and writers: as Lock:contenders.
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return zklock.inspect.Contender[]? contenders array, in queue order
---@return string? message
---@return zklock.Code? code
function RwLock:contenders(timeout)
    check_self(self, "contenders")
    checked("contenders", self.read:read_deadline(timeout))
    return self.read:contenders(timeout)
end

--- "zklock read/write lock (/path)".
function RwLock:__tostring()
    return format("zklock read/write lock (%s)", self.read:path())
end

return RwLock
