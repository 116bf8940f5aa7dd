--- lock.class: the class of locks, its kinds, its objects, and the classes that extend it.
--
-- For the files of lua/zklock/lock/ that add the methods: ending, attempt, deadlock, acquire, release, with_lock and ask.
-- zklock.lock assembles them. Other files require zklock.lock.

local arguments = require "zklock.lock.arguments"
local new_check = require "zklock.check_self"

local getmetatable, setmetatable = getmetatable, setmetatable

local Lock = {}
Lock.__index = Lock

--- The kinds. `name` is for messages, `mode` is the kind's name on the C side. `schemas` describes the settings of its
-- methods.
Lock.MUTEX = { name = "mutex", mode = "mutex", schemas = arguments.LOCK }
Lock.READ = { name = "read lock", mode = "read", schemas = arguments.LOCK }
Lock.WRITE = { name = "write lock", mode = "write", schemas = arguments.LOCK }

--- The metatables of locks: this class and those that extend it.
local classes = { [Lock] = true }

--- Returns a class with all methods of a lock. Its own methods take precedence.
function Lock.subclass()
    local class = setmetatable({ __tostring = Lock.__tostring, __close = Lock.__close }, { __index = Lock })
    class.__index = class
    classes[class] = true
    return class
end

--- Whether a value is a lock of any kind.
function Lock.is_lock(value)
    return classes[getmetatable(value)] ~= nil
end

--- Makes a lock, for Client:mutex and similar methods. `class` is Lock or a class that extends it. `settings` are those of the
-- client's LOCK_SCHEMA, checked and with the client's settings in place of absent ones; and
--   * `group`: where the lock is measured (zklock.lock_groups);
--   * `specs`: mode -> the latest lock spec with these settings.
function Lock.new(class, client, kind, path, settings)
    return setmetatable({
        _client = client,
        _kind = kind,
        _path = path,
        _settings = settings, -- further locks may have the same table
        -- An absent field is false, so that Lua does not look for it in the class.
        -- The lock spec on the C side, made at the first acquisition.
        _spec = false,
        _permits = false, -- the permits of a semaphore
        _twin = false,    -- the other half of a read/write lock
        _acquirer = false,   -- the first acquirer that asked for the object
        _acquirers = false,  -- all other acquirers that asked for it
        _others = false,  -- the companions in use, by their acquirers
        _called = false,  -- the companions that callers use: the set of them, which keeps them
        _latest = false,  -- the companion that was granted last, in a weak table
        _origin = false,  -- of a companion: the object
        _hold = false
    }, class)
end

return { Lock = Lock, classes = classes, check_self = new_check("lock", "a lock", classes) }
