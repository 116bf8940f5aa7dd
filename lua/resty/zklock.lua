--- resty.zklock: lua-resty-lock's interface to locks over ZooKeeper.
--
-- A program that uses `require "resty.lock"` excludes the workers of one nginx. With `require "resty.zklock"` in its place it
-- excludes those of all machines:
--
--     local resty_lock = require "resty.zklock"
--     local lock, err = resty_lock:new("my_locks", { timeout = 5, exptime = 30 })
--     local elapsed, err = lock:lock(key)
--     local ok, err = lock:unlock()
--
-- docs/from/lua-resty-lock.md lists what differs. The servers are those of `connect`, or of the machine's configuration. All
-- objects of a worker share one client (`zklock.shared`).
--
-- Errors are lua-resty-lock's where it has one: "timeout", "locked", "unlocked", "nil key", "empty key", "key too long", "not
-- found", "dictionary not found". All others are messages of zklock, followed by zklock's code.

local options = require "zklock.options"
local zklock = require "zklock"

local error, pairs, pcall, setmetatable, tonumber, tostring, type =
    error, pairs, pcall, setmetatable, tonumber, tostring, type
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local path, shared = zklock.path, zklock.shared

-- Without this name a language server takes the file for `zklock`.
---@meta resty.zklock

---@class resty.zklock
local RestyLock = { _VERSION = zklock.VERSION }
local metatable = { __index = RestyLock }

--- lua-resty-lock's defaults, in seconds.
local TIMEOUT, EXPTIME = 5, 30

--- The longest key in bytes, as of a shared dictionary.
local LONGEST_KEY = 65535

--- The directory of all locks, unless connect gives another one.
local PREFIX = "/zklock"

--- A release returns at once, in every phase, as deleting from a shared dictionary does.
local AT_ONCE = { wait = false }

-- The client ----------------------------------------------------------------------------------------------------------

--- The arguments of connect: servers, prefix, and the settings of the client. It is false before that call.
local connection = false

---@class resty.zklock.ConnectOptions: zklock.ConnectOptions
---@field servers string "host:2181,host:2181/chroot"
---@field prefix? string the path below which all locks are; default: "/zklock"

--- Says which ZooKeeper the locks are in. Call it once, in init_by_lua or init_worker_by_lua, before the first `lock`. In
-- init_worker_by_lua it opens the worker's session, in the background. Without it, or without `servers`, the servers are those of
-- the machine's configuration, as of `zklock.shared`: the environment variable ZKLOCK_SERVERS, which nginx passes to its workers
-- only with `env ZKLOCK_SERVERS;`, or /etc/zklock.lua.
--
---@param settings resty.zklock.ConnectOptions without connect_timeout
---@return true? connected
---@return string? message
---@return zklock.Code? code as of `zklock.connect`
function RestyLock.connect(settings)
    if type(settings) ~= "table" then
        error("resty.zklock.connect: settings must be a table such as { servers = 'host:2181' }", 2)
    end
    local client_settings = {}
    for name, value in pairs(settings) do
        client_settings[name] = value
    end
    client_settings.servers, client_settings.prefix = nil, nil
    local prefix = settings.prefix or PREFIX
    local problem = options.path_problem(prefix)
    if problem then
        error("resty.zklock.connect: option 'prefix': " .. problem, 2)
    end
    local ok, client, message, code = pcall(shared, settings.servers, client_settings)
    if not ok then
        error("resty.zklock.connect: " .. tostring(client):gsub("^.-zklock%.shared: ", ""), 2)
    end
    if client or code == "phase" then -- nginx has not forked its workers: they connect when they need the client
        connection = { servers = settings.servers, prefix = prefix, settings = client_settings }
        return true
    end
    return nil, message, code
end

--- Returns the worker's client.
---@return zklock.Client?
---@return string # the prefix, or message
---@return zklock.Code? code
local function open()
    connection = connection or { prefix = PREFIX, settings = {} }
    local client, message, code = shared(connection.servers, connection.settings)
    if not client then
        return nil, message, code
    end
    return client, connection.prefix
end

-- Objects -------------------------------------------------------------------------------------------------------------

--- Reads one of the options: nil or a number, also as a string. Raises at the caller of the method.
local function read_number(opts, name)
    local given = opts and opts[name]
    local number = tonumber(given)
    if given ~= nil and (number == nil or number ~= number) then
        error(format("resty.zklock:new: opts.%s must be a number", name), 3)
    end
    return number
end

---@class resty.zklock.Options
---@field timeout? number seconds that lock waits at most, 0: not at all; default: 5. One above exptime counts as exptime
---@field exptime? number seconds after which a hold ends by itself, 0: never; default: 30
---@field step? number no effect, as of the next two, because nothing is polled
---@field ratio? number
---@field max_step? number

--- Makes a lock object, which holds one lock at a time. Works in init_by_lua, too: the client is opened by the first `lock`.
-- Raises an error when an option is no number, or exptime is negative.
--
---@param dict_name string a name for a group of keys: the same key in another dictionary is another lock. There need not be a
--   lua_shared_dict of that name
---@param opts? resty.zklock.Options
---@return resty.zklock? lock
---@return string? message "dictionary not found" (dict_name is no name)
function RestyLock.new(_, dict_name, opts)
    if type(dict_name) ~= "string" or dict_name == "" then
        return nil, "dictionary not found"
    end
    local timeout, exptime = read_number(opts, "timeout"), read_number(opts, "exptime") or EXPTIME
    read_number(opts, "step")
    read_number(opts, "ratio")
    read_number(opts, "max_step")
    if exptime < 0 then
        error("resty.zklock:new: opts.exptime must not be negative", 2)
    end
    return setmetatable({
        timeout = timeout and max(0, min(timeout, exptime)) or TIMEOUT,
        exptime = exptime,
        _dictionary = dict_name,
        _lock = false
    }, metatable)
end

--- Acquires the lock of a key, and waits for it at most for the object's timeout.
--
---@param key any any string; other values count as their tostring
---@return number? elapsed seconds for which the lock was waited for. 0 exactly if no other contender was before this one
---@return string? message "timeout", "locked" (the object holds a lock already), "nil key", "empty key", "key too long", or a
--   message
---@return zklock.Code? code zklock's code of a message: "disconnected" (no ZooKeeper within the timeout), "phase" (the phase cannot
--   wait), …
function RestyLock:lock(key)
    if not key then
        return nil, "nil key"
    elseif self._lock then
        return nil, "locked"
    end
    key = tostring(key)
    if key == "" then
        return nil, "empty key"
    elseif #key > LONGEST_KEY then
        return nil, "key too long"
    end
    local client, prefix, code = open()
    if not client then
        return nil, prefix, code
    end
    local exptime = self.exptime
    prefix = path(prefix, self._dictionary)
    local lock = client:mutex(path(prefix, key), { max_hold = exptime > 0 and exptime < huge and exptime or nil })
    local held, message
    held, message, code = lock:acquire { timeout = self.timeout, keep = true }
    if not held then
        if code == "timeout" then
            return nil, "timeout"
        end
        return nil, message, code
    elseif self._lock then -- by another light thread, while this one waited
        held:release(AT_ONCE)
        return nil, "locked"
    end
    self._lock = held
    return held:waited() or 0
end

--- Releases the lock that the object holds. Returns at once, in every phase; the server is told in the background.
---@return 1? unlocked
---@return string? message "unlocked" (the object holds no lock), or a message: the hold had ended before, by exptime or by a loss
---@return zklock.Code? code zklock's code of a message: "lost"
function RestyLock:unlock()
    local lock = self._lock
    if not lock then
        return nil, "unlocked"
    end
    self._lock = false
    local released, message, code = lock:release(AT_ONCE)
    if not released then
        return nil, message, code
    end
    return 1
end

--- Makes the hold end by itself so many seconds from now, earlier or later than before. Sends nothing.
-- Raises an error when the time is no number, or negative.
---@param time? number seconds, default exptime; 0: the hold does not end by itself
---@return true? extended
---@return string? message "unlocked" (the object holds no lock), "not found" (the hold has ended)
---@return zklock.Code? code zklock's code of "not found": "lost"
function RestyLock:expire(time)
    local lock = self._lock
    if not lock then
        return nil, "unlocked"
    end
    local seconds = time == nil and self.exptime or tonumber(time)
    if not (seconds and seconds >= 0) then
        error("resty.zklock:expire: time must be a number of seconds, 0 or more", 2)
    end
    local extended, message, code = lock:extend(seconds > 0 and seconds or huge)
    if extended then
        return true
    elseif code == "lost" then
        return nil, "not found", code
    end
    return nil, message, code
end

--- Whether the object holds its lock at this instant. Not in lua-resty-lock. See `Lock:held`.
---@return boolean held
function RestyLock:held()
    return self._lock and self._lock:held()
end

--- The fencing token of the hold. Not in lua-resty-lock. See `Lock:token`.
---@return string? token nil when not held
function RestyLock:token()
    return self._lock and self._lock:token() or nil
end

return RestyLock
