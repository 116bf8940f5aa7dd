---@meta resty.zklock

-- Annotations of resty.zklock for language servers. No program loads this file. docs/openresty.md describes the module.

--- lua-resty-lock's interface to locks over ZooKeeper.
---@class resty.zklock
local RestyLock = {}

---@class resty.zklock.Options
---@field timeout? number seconds that lock waits at most, 0: not at all; default: 5
---@field exptime? number seconds after which a hold ends by itself, 0: never; default: 30
---@field step? number no effect
---@field ratio? number no effect
---@field max_step? number no effect

---@class resty.zklock.ConnectOptions: zklock.ConnectOptions
---@field servers string "host:2181,host:2181/chroot"
---@field prefix? string the path below which all locks are; default: "/zklock"

--- Says which ZooKeeper the locks are in; otherwise it is the one in the environment variable ZKLOCK_SERVERS.
---@param settings resty.zklock.ConnectOptions
---@return true? connected
---@return string? message
---@return zklock.Code? code
function RestyLock.connect(settings) end

--- Makes a lock object, which holds one lock at a time. The client is opened by the first lock.
---@param dict_name string a name for a group of keys
---@param opts? resty.zklock.Options
---@return resty.zklock? lock
---@return string? message
function RestyLock:new(dict_name, opts) end

--- Acquires the lock of a key.
---@param key any
---@return number? elapsed seconds; 0 exactly if no other contender was ahead
---@return string? message "timeout", "locked", "nil key", "empty key", "key too long", or zklock's
---@return zklock.Code? code of zklock's message
function RestyLock:lock(key) end

--- Releases the lock. Returns at once.
---@return 1? unlocked
---@return string? message "unlocked", or zklock's
---@return zklock.Code? code of zklock's message
function RestyLock:unlock() end

--- Makes the hold end by itself so many seconds from now.
---@param time? number seconds, 0: never; default: exptime
---@return true? extended
---@return string? message "unlocked", "not found"
---@return zklock.Code? code
function RestyLock:expire(time) end

--- Returns whether the lock is held at this instant.
---@return boolean held
function RestyLock:held() end

--- Returns the fencing token of the hold.
---@return string? token
function RestyLock:token() end

return RestyLock
