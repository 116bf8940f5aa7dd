--- lock: something that is acquired and released.
--
-- `Client:mutex` makes a lock. The two halves of a read/write lock (`RwLock`) are locks too, and a `Semaphore` is one. A lock is a
-- path with settings. Any number of coroutines (inside nginx: of requests) may use one object, for example one that a module
-- keeps, and two objects on one path exclude each other, also within one client. Times are in seconds.
--
-- `acquire` returns a *hold* (`Hold`), by which the acquisition is used and released. The lock has the same methods, for the usual
-- case that a coroutine releases what it has acquired: `release`, `held`, `token` and so on are about the hold that the running
-- coroutine has acquired by this object. Inside nginx they are also about the only one that another coroutine of the same request
-- has. If there is none, nothing is held, and the code is "not_held".

-- Implementation.
--
-- The C side decides which locks may be held at the same time, by the mode that a lock asks for. So all locks are one class with
-- a different *kind* (Lock.MUTEX, …). zklock.semaphore adds what only semaphores have. The Lua side decides who may ask when
-- (zklock.lock.deadlock), keeps deadlines, and notifies the program. zklock.lock.caller finds the holds of a coroutine.

local acquiring = require "zklock.lock.acquire"
local acquire_by_callback = require "zklock.lock.callback"
local arguments = require "zklock.lock.arguments"
local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local Hold = require "zklock.lock.hold"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local with_lock = require "zklock.lock.with_lock"

local error, getmetatable, ipairs, pairs, setmetatable, type = error, getmetatable, ipairs, pairs, setmetatable, type
local format = string.format
local huge = math.huge
local enter, new_record = acquiring.enter, acquiring.new_record
local meant, running = caller.meant, caller.running
local now, REVOKE = core.now, core.REVOKE
local read_acquire, read_try = arguments.read_acquire, arguments.read_try
local leave, release_timeout = Hold.leave, Hold.release_timeout

---@class zklock.Lock
local Lock = {}
Lock.__index = Lock

--- The kinds. `name` is for messages, `mode` is the kind's name on the C side. `schemas` describes the settings of its
-- methods.
Lock.MUTEX = { name = "mutex", mode = "mutex", schemas = arguments.LOCK }
Lock.READ = { name = "read lock", mode = "read", schemas = arguments.LOCK }
Lock.WRITE = { name = "write lock", mode = "write", schemas = arguments.LOCK }

--- The metatables of locks: this class and those that extend it.
local classes = { [Lock] = true }

local check_self, checked = new_check("lock", "a lock", classes)

--- Returns a class with all methods of a lock. Its own methods take precedence.
function Lock.subclass()
    local class = setmetatable({ __tostring = Lock.__tostring }, { __index = Lock })
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
        _spec = false,    -- the lock spec on the C side, made at the first acquisition
        _permits = false, -- the permits of a semaphore
        _twin = false,    -- the other half of a read/write lock
        _holds = false,   -- its holds and acquisitions under way, by their callers' keys (zklock.lock.caller)
        _kept = false,    -- the set of those that it keeps
        _room = 0,        -- how many more it begins to keep before it looks which ones have ended
        _latest = false   -- the caller that was granted it last
    }, class)
end

Lock._read_acquire = read_acquire

--- Returns the lock's client.
function Lock.client(self)
    return self._client
end

--- Returns the lock's settings, as of Lock.new.
function Lock.settings(self)
    return self._settings
end

--- Whether it is a semaphore.
function Lock.is_semaphore(self)
    return self._permits ~= false
end

-- Acquiring -----------------------------------------------------------------------------------------------------------

---@class zklock.WithLockOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field count? integer of a semaphore: the permits wanted, together or not at all, 1 to 1000; default: 1
-- seconds above 0: the lock is kept for so long at least, from the grant on, also when fn has ended; default: not
---@field min_hold? number

---@class zklock.AcquireOptions
---@field timeout? number seconds, 0 or more (0: a try); default: for ever
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field count? integer of a semaphore: the permits wanted, together or not at all, 1 to 1000; default: 1
-- gets what acquire would have returned; acquire returns a call at once
---@field callback? fun(hold: zklock.Hold?, message: string?, code: zklock.Code?)

---@class zklock.TryOptions
---@field keep? boolean in nginx: the hold outlives the request that acquires it; default: false
---@field count? integer of a semaphore: the permits wanted, together or not at all, 1 to 1000; default: 1
-- gets what try_acquire would have returned; try_acquire returns a call at once
---@field callback? fun(hold: zklock.Hold?, message: string?, code: zklock.Code?)

--- Acquires the lock and waits for it if necessary.
--
-- One deadline covers everything: waiting for a connection, waiting for other holders, reconnecting, retrying. When the
-- deadline passes, the place in the queue is given up in the background.
--
-- If the running coroutine already holds by this object, or is acquiring by it, the answer is "deadlock" at once, except for a
-- reentrant lock that is held. If another coroutine holds by the same object, acquire waits for it. The answer is "deadlock" if
-- that coroutine could not go on meanwhile. If an earlier hold was lost unnoticed, a new hold begins. A reentrant lock first
-- answers "lost" once, because the caller may be inside the lost hold.
--
-- A read/write lock can be downgraded but not upgraded. If this coroutine holds the write half, the read half of the same
-- object is granted at once, and the caller then releases the write half. While this coroutine holds
-- the read half, the write half is refused with "deadlock", because an upgrade would wait for itself.
--
-- From Lua 5.4 on, `local hold <close> = assert(lock:acquire(5))` releases the lock at the end of the block if it is still held.
--
-- In nginx the hold ends with the request, or the timer handler, that acquires it, and not before, also if nothing refers to the
-- lock. With `keep = true` it does not end with the request, but when neither it nor the lock is referred to. A further
-- acquisition of a reentrant lock returns the same hold, and changes nothing of that. Elsewhere `keep` has no effect.
--
-- With `callback`, acquire does not wait. It returns a call (`Call`), and later the pump calls `callback(hold)` or `callback(nil,
-- message, code)`: exactly once, also when the client is closed (code "closed"), and never from within acquire. Such a hold belongs
-- to no coroutine: a reentrant lock does not count it, the read half does not take the place of a write half that is held, and the
-- lock's own methods are not about it. The lock keeps it as long as it lasts. In nginx the callback runs in a timer, and the hold
-- ends when the callback ends, unless `keep` is true. nil, message, code: the callback is not going to be called (code "closed",
-- "forked", "phase", "unsupported"). An error raised while waiting (Ctrl-C) is raised again after the acquisition is given up.
--
---@param timeout? number|zklock.AcquireOptions seconds, 0 or more, or a table; nil: no limit; 0: as try_acquire
---@return zklock.Hold|zklock.Call|nil hold
---@return string? message
---@return zklock.Code? code "timeout" (another contender has the lock), "disconnected" (no connection to ZooKeeper when time
--   was up), "cancelled", "deadlock", "lost" (granted, and lost or given back by on_revoke before this returned), "mismatch"
--   (the semaphore was made for another number of permits), "no_auth", "auth_failed", "exhausted", "closed", "forked", "phase",
--   "failed"
function Lock:acquire(timeout)
    if not classes[getmetatable(self)] then
        check_self(self, "acquire") -- checked inline, because some programs spend most of their calls on this and release
    end
    local seconds, count, keep = huge, 1, nil
    if type(timeout) == "number" and timeout >= 0 then
        seconds = timeout -- inline, too
    elseif timeout ~= nil then
        local callback
        seconds, count, keep, callback = read_acquire(self, timeout, "acquire")
        if not seconds then
            error("lock:acquire: " .. count, 2)
        elseif callback then
            return acquire_by_callback(self, seconds, count, keep, callback)
        end
    end
    return enter(self, seconds, count, keep)
end

--- Acquires the lock if it is free and no contender is ahead. A refused try has written nothing. Without a connection the answer
-- is "disconnected" at once.
--
-- A lock that lingers at another client (option `linger`) looks like a held one. The try is refused, and because it writes
-- nothing, the lock stays there. The other client gives it up when a contender queues: call acquire with a short timeout.
---@param settings? zklock.TryOptions as of acquire
---@return zklock.Hold|zklock.Call|nil hold
---@return string? message
---@return zklock.Code? code as of acquire: "timeout" when another contender has the lock
function Lock:try_acquire(settings)
    check_self(self, "try_acquire")
    local count, keep, callback = checked("try_acquire", read_try(self, settings))
    if callback then
        return acquire_by_callback(self, 0, count, keep, callback)
    end
    return enter(self, 0, count, keep)
end

--- Ends the waits of other coroutines in this object's acquire, which answers "cancelled". If no coroutine waits, this has no
-- effect, now or later. Inside nginx only the waits of the calling request end.
---@return boolean was_waiting whether there was a wait to end
function Lock:cancel()
    check_self(self, "cancel")
    local waiting, cancelled, me = {}, false, running(self._settings.owner)
    for hold in pairs(self._settings.desk.attempts) do
        if hold._lock == self and caller.cancels(hold._caller, me) then
            waiting[#waiting + 1] = hold
        end
    end
    for index = 1, #waiting do
        cancelled = acquiring.cancel(waiting[index]) or cancelled
    end
    return cancelled
end

--- What with_lock does with one lock; see zklock.lock.with_lock.
local steps = {}

function steps.acquire(self, record, seconds, count, keep)
    local hold, message, code = enter(self, seconds, count, keep, record)
    if hold then
        hold:enclose()
    end
    return hold, message, code
end

function steps.lost(record)
    return record.hold:problem()
end

function steps.holds(record)
    return { with_lock.ends(record.hold, record.level) }
end

function steps.release(record, seconds, may_wait)
    local hold = record.hold
    if not hold then
        return nil
    elseif not hold._state then -- an error has ended its acquisition
        hold:_abandon()
        return nil
    end
    hold:disclose(record.level)
    local held = with_lock.ends(hold, record.level)
    if held then
        local _, message, code = leave(held, may_wait and held._lock._settings.wait_release, release_timeout(seconds))
        return code == "lost" and message or nil
    end
    return nil
end

--- Runs `fn(hold, …)` while holding the lock, and always releases it afterwards. `hold` is what acquire returns.
--
-- An error of fn goes on unchanged (the same object) after the release. fn may yield, but not on Lua 5.1, whose pcall does not
-- allow that. If its coroutine is closed there (coroutine.close), the lock is released at once; if it is forgotten, when it is
-- collected. fn may release the lock early itself. If fn then acquires it anew, the new hold is released too. A hold of this
-- object that another coroutine has acquired meanwhile is not released.
--
-- With `min_hold` the lock is kept for at least so many seconds after its grant, also if fn ends earlier or raises: with_lock waits
-- and releases then. So a program that comes later, because its clock is late, is still refused. A loss in that time is told to
-- on_lost, and does not change what with_lock returns. `max_hold` ends the hold earlier if it is shorter, and so does the end of
-- the client.
--
-- The release waits for the server for as long as the acquisition was allowed to wait, but at least a second and at most the
-- session timeout. If the server has not acknowledged it by then, the release goes on in the background. Raises what fn raises.
--
---@param fn fun(hold: zklock.Hold, ...: any): ...: any
---@param timeout? number|zklock.WithLockOptions as of acquire, without `callback`; nil: no limit
---@param ... any further arguments for fn
---@return true? ran nil: fn did not run, or the lock was lost before fn ended
---@return any ... fn's results; or message, code: as of acquire; when the code is "lost" and fn ran, its results follow
function Lock:with_lock(fn, timeout, ...)
    check_self(self, "with_lock")
    local seconds, count, keep, _, min_hold = checked("with_lock", with_lock.read(self, fn, timeout))
    local record = new_record(false, true)
    record.extra = min_hold and { min_hold = min_hold } or nil
    return with_lock.run(steps, self, record, fn, seconds, count, keep, ...)
end

--- with_lock with a record that has `extra` (zklock.lock.with_lock).
function Lock.with_record(self, record, fn, seconds)
    return with_lock.run(steps, self, record, fn, seconds, 1)
end

-- The running coroutine's hold ------------------------------------------------------------------------------------------

--- The answer to a coroutine that holds nothing by this object.
---@return nil
---@return string message
---@return zklock.Code code
function Lock.not_held(self)
    local state, problem, code = self._settings.desk.core:state()
    if state == nil then
        return nil, problem, code
    end
    for hold in caller.each(self) do
        if hold._state then
            return nil, format("the %s %s is not held by this coroutine, but by another one, or for a callback: call it of the " ..
                "hold that acquire returned", self._kind.name, self._path), "not_held"
        end
    end
    return nil, format("the %s %s is not held", self._kind.name, self._path), "not_held"
end

--- Releases the running coroutine's hold: as Hold:release.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code as of Hold:release; "not_held" also when this coroutine holds nothing by this object
function Lock:release(settings)
    if not classes[getmetatable(self)] then
        check_self(self, "release")
    end
    local wait_for_server, timeout = self._settings.wait_release, nil
    if settings ~= nil then
        wait_for_server, timeout = Hold.read_release(self, settings)
        if wait_for_server == nil then
            error("lock:release: " .. timeout, 2)
        end
    end
    local hold = meant(self)
    if not hold then
        return self:not_held()
    end
    return leave(hold, wait_for_server, timeout)
end

--- Whether the running coroutine holds the lock at this instant: as Hold:held.
---@return boolean held
function Lock:held()
    check_self(self, "held")
    local hold = meant(self)
    return hold ~= nil and hold:held()
end

--- As Hold:remaining.
---@return number seconds 0 when not held; math.huge without a lease
function Lock:remaining()
    check_self(self, "remaining")
    local hold = meant(self)
    return hold and hold:remaining() or 0
end

--- As Hold:waited.
---@return number? seconds from the request to the grant; nil when not held
function Lock:waited()
    check_self(self, "waited")
    local hold = meant(self)
    return hold and hold:waited()
end

--- As Hold:extend.
---@param seconds? number more than 0; math.huge: no limit; default: the option max_hold, without it no limit
---@return true? extended
---@return string? message
---@return zklock.Code? code as of Hold:extend; "not_held" also when this coroutine holds nothing by this object
function Lock:extend(seconds)
    check_self(self, "extend")
    local read = checked("extend", Hold.read_extend(self, seconds))
    local hold = meant(self)
    if not hold then
        return self:not_held()
    end
    return hold:_extend(read)
end

--- As Hold:token.
---@return string? token nil when not held
function Lock:token()
    check_self(self, "token")
    local hold = meant(self)
    return hold and hold:token()
end

--- As Hold:token_numbers.
---@return number? high nil when not held
---@return number? low the lower 32 bits of it
---@return number? grants how many grants the node has served before
function Lock:token_numbers()
    check_self(self, "token_numbers")
    local hold = meant(self)
    if hold then
        return hold:token_numbers()
    end
    return nil
end

--- As Hold:node.
---@return string? node nil when not held
function Lock:node()
    check_self(self, "node")
    local hold = meant(self)
    return hold and hold:node()
end

--- As Hold:transaction. Bound to the running coroutine's present hold: a later one needs another transaction.
---@return zklock.Transaction transaction
function Lock:transaction()
    check_self(self, "transaction")
    return require("zklock.transaction").new(self._client, { { lock = self, hold = meant(self) } })
end

-- The lock and its contenders -------------------------------------------------------------------------------------------

--- The path that the lock was made with.
---@return string path
function Lock:path()
    check_self(self, "path")
    return self._path
end

--- Reads the timeout of a question. Default: the session timeout.
---@return number? deadline on core.now()'s clock
---@return number|string seconds for messages, or what is wrong
function Lock.read_deadline(self, timeout)
    local seconds, wrong = options.read_timeout(timeout, self._client:cleanup_timeout())
    if not seconds then
        return nil, wrong
    end
    return now() + seconds, seconds
end

--- Reads the lock as zklock.inspect does, until a deadline `seconds` after the program asked.
---@param identities boolean|number true: the nodes of all contenders are read; 0: none
---@return table? # contenders in queue order
---@return number|string|nil # the limit that is written in a semaphore; message
---@return boolean|zklock.Code|nil # whether the semaphore was resized; code
function Lock.read_contenders(self, identities, deadline, seconds)
    local Reading = require "zklock.inspect.reading"
    local reading = Reading.new(self._client, deadline, seconds, { identities = identities, permits = self._permits })
    reading:examine(self._path)
    local ok, message, code = reading:run()
    if not ok then
        return nil, message, code
    elseif reading.refusal then
        return nil, reading.refusal, "no_auth"
    end
    local state = reading.states[1]
    return state and state.contenders or {}, state and state.limit, state and state.resized
end

--- Lists all holders and waiters of the lock's path in queue order, including those of other clients. For a semaphore: first the
-- permits that are taken (mode "lease"), then the queue of the waiters. All nodes are read: each contender has an `identity`.
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return zklock.inspect.Contender[]? contenders
---@return string? message
---@return zklock.Code? code "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
function Lock:contenders(timeout)
    check_self(self, "contenders")
    local deadline, seconds = checked("contenders", self:read_deadline(timeout))
    local contenders, message, code = self:read_contenders(true, deadline, seconds)
    if not contenders then
        return nil, message, code
    end
    for _, contender in ipairs(contenders) do
        contender.identity = contender.identity or ""
    end
    return contenders
end

--- Writes into a holder's node that another contender wants the lock.
local function ask_to_let_go(self, path, deadline, seconds)
    local write = { kind = "set", path = path, data = REVOKE, version = -1 }
    return require("zklock.node").perform(self._client, write, "writing " .. path, deadline, seconds)
end

--- Asks all holders of the lock to release it. A holder with the option on_revoke has it called wherever its program waits or
-- pumps. This is a request: a holder may ignore it. Revocable holders of Curator's locks receive it too.
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return integer? asked how many holders were asked; for a semaphore, how many permits they hold; 0 when there is no holder
---@return string? message
---@return zklock.Code? code "timeout", "disconnected", "no_auth" (the acl does not let us write into their nodes), "closed",
--   "forked", "phase", "failed"
function Lock:revoke(timeout)
    check_self(self, "revoke")
    local deadline, seconds = checked("revoke", self:read_deadline(timeout))
    local contenders, message, code = self:read_contenders(0, deadline, seconds)
    if not contenders then
        return nil, message, code
    end
    local asked = 0
    for index = 1, #contenders do
        local contender = contenders[index]
        if contender.holder then
            local written
            written, message, code = ask_to_let_go(self, contender.node, deadline, seconds)
            if written then
                asked = asked + 1
            elseif code ~= "no_node" then -- the holder released it meanwhile
                return nil, message, code
            end
        end
    end
    return asked
end

--- "zklock mutex (/path, held)": what coroutines of this program do with this object.
function Lock:__tostring()
    local state = "free"
    for hold in caller.each(self) do
        if hold:held() then
            state = "held"
        elseif state ~= "held" then
            state = hold._state and "lost" or "being acquired"
        end
    end
    return format("zklock %s (%s, %s)", self._kind.name, self._path, state)
end

return Lock
