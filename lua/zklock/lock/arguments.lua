--- lock.arguments: what acquire, try_acquire, release and with_lock take, for locks of every kind and for multis.
--
-- For zklock.lock.class and zklock.semaphore, whose kinds name the schemas, for zklock.lock.acquire and .release, zklock.multi.
-- The checks of single values are those of zklock.options.

local options = require "zklock.options"

local type = type
local format = string.format
local huge = math.huge

local arguments = {}

--- The settings of acquire and with_lock, for every kind but semaphores.
arguments.ACQUIRE = { timeout = { options.timeout, huge }, keep = { options.boolean } }

--- The settings of try_acquire, for every kind but semaphores.
arguments.TRY = { keep = { options.boolean } }

--- The same for semaphores. `count` is the number of permits, which are granted together or not at all.
arguments.ACQUIRE_PERMITS = { timeout = { options.timeout, huge }, count = { options.count, 1 }, keep = { options.boolean } }
arguments.TRY_PERMITS = { count = { options.count, 1 }, keep = { options.boolean } }

--- The settings of release.
arguments.RELEASE = { wait = { options.boolean }, timeout = { options.timeout } }

--- Returns the number of permits that the settings ask for: 1 except for semaphores.
-- @treturn number; or nil and what is wrong
local function read_count(self, settings)
    local count = settings.count or 1
    if self._permits and count > self._permits then
        return nil, format("count must not be more than the semaphore's permits (%d of %d)", count, self._permits)
    end
    return count
end

--- Reads the argument of acquire and with_lock: nil, seconds, or a table of the kind's settings.
-- @tparam Lock|Multi self
-- @tparam number|table|nil given
-- @treturn number seconds, count and whether to keep; or nil and what is wrong
function arguments.read_acquire(self, given)
    if given == nil then
        return huge, 1
    elseif type(given) == "number" and given >= 0 then
        return given, 1
    end
    local settings, wrong = options.read_timeout_or_table(given, self._kind.schema)
    if not settings then
        return nil, wrong
    end
    local count
    count, wrong = read_count(self, settings)
    if not count then
        return nil, wrong
    end
    return settings.timeout, count, settings.keep
end

--- Reads the argument of try_acquire: nil, or a table of the kind's settings.
-- @treturn number count and whether to keep; or nil and what is wrong
function arguments.read_try(self, given)
    if given == nil then
        return 1
    end
    local settings, wrong = options.read(given, self._kind.try_schema)
    local count
    if settings then
        count, wrong = read_count(self, settings)
    end
    if not count then
        return nil, wrong
    end
    return count, settings.keep
end

return arguments
