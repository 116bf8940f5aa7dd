--- lock.arguments: what acquire, try_acquire, release and with_lock take, for locks of every kind and for multis.
--
-- For zklock.lock and zklock.semaphore, whose kinds name the schemas, for zklock.lock.hold and zklock.multi. The checks of single
-- values are those of zklock.options.

local options = require "zklock.options"

local type = type
local format = string.format
local huge = math.huge

local arguments = {}

local TIMEOUT, KEEP, CALLBACK, COUNT = { options.timeout, huge }, { options.boolean }, { options.callback }, { options.count, 1 }
local MIN_HOLD = { options.duration }

--- The settings of the methods of a lock, for every kind but semaphores.
arguments.LOCK = {
    acquire = { timeout = TIMEOUT, keep = KEEP, callback = CALLBACK },
    try_acquire = { keep = KEEP, callback = CALLBACK },
    with_lock = { timeout = TIMEOUT, keep = KEEP, min_hold = MIN_HOLD }
}

--- The same for semaphores. `count` is the number of permits, which are granted together or not at all.
arguments.SEMAPHORE = {
    acquire = { timeout = TIMEOUT, count = COUNT, keep = KEEP, callback = CALLBACK },
    try_acquire = { count = COUNT, keep = KEEP, callback = CALLBACK },
    with_lock = { timeout = TIMEOUT, count = COUNT, keep = KEEP, min_hold = MIN_HOLD }
}

--- The same for multis, whose acquire waits.
arguments.MULTI = { acquire = { timeout = TIMEOUT, keep = KEEP }, with_lock = arguments.LOCK.with_lock }

--- The settings of release.
arguments.RELEASE = { wait = { options.boolean }, timeout = { options.timeout } }

--- Returns the number of permits that the settings ask for: 1 except for semaphores.
---@return number?
---@return string? wrong
local function read_count(self, settings)
    local count = settings.count or 1
    if self._permits and count > self._permits then
        return nil, format("count must not be more than the semaphore's permits (%d of %d)", count, self._permits)
    end
    return count
end

--- Reads the argument of acquire and with_lock: nil, seconds, or a table of the kind's settings.
---@param self zklock.Lock|zklock.Multi
---@param given? number|table
---@param method string "acquire" or "with_lock"
---@return number? seconds
---@return number|string|nil count or what is wrong
---@return boolean? keep
---@return function? callback
---@return number? min_hold
function arguments.read_acquire(self, given, method)
    if given == nil then
        return huge, 1
    elseif type(given) == "number" and given >= 0 then
        return given, 1
    end
    local settings, wrong = options.read_timeout_or_table(given, self._kind.schemas[method])
    if not settings then
        return nil, wrong
    end
    local count
    count, wrong = read_count(self, settings)
    if not count then
        return nil, wrong
    end
    return settings.timeout, count, settings.keep, settings.callback, settings.min_hold
end

--- Reads the argument of try_acquire: nil, or a table of the kind's settings.
---@return number? count
---@return boolean|string|nil keep or what is wrong
---@return function? callback
function arguments.read_try(self, given)
    if given == nil then
        return 1
    end
    local settings, wrong = options.read(given, self._kind.schemas.try_acquire)
    local count
    if settings then
        count, wrong = read_count(self, settings)
    end
    if not count then
        return nil, wrong
    end
    return count, settings.keep, settings.callback
end

return arguments
