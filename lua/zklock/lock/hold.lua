--- hold: one acquisition of a lock, from its request to its end.
--
-- `Lock:acquire` and `Lock:try_acquire` return a hold, `Lock:with_lock` passes it to its function, and a lock's `on_lost` and
-- `on_revoke` get it. Any code may use it, in any coroutine. A reentrant lock that is acquired again returns the same hold, which
-- then has one level more.
--
-- A hold lasts until it is released or lost. It also ends when it is collected: when the program refers neither to it nor to its
-- lock, or, within `with_lock`, when its coroutine is collected. In nginx it ends with its request. Times are in seconds.

-- Implementation.
--
-- `_acquisition` is its handle on the C side, false before the request is sent. `_state` is false as long as it is asked for, then
-- "granted", also when it is lost. It ends as "released", if it was held until then, or as "over". C sets these two in the step in
-- which it releases the acquisition, so that a debug hook, which may raise an error at any instruction, finds both or neither.

local arguments = require "zklock.lock.arguments"
local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local wait = require "zklock.wait"

local error, getmetatable, ipairs, pairs, setmetatable = error, getmetatable, ipairs, pairs, setmetatable
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local forget, is_over = caller.forget, caller.is_over
local now, release = core.now, core.release
local RELEASE = arguments.RELEASE

---@class zklock.Hold
local Hold = {
    -- The initial state of a hold. Hold.new sets the fields that each hold needs: Lua reallocates a table that gets a fifth one.
    _acquisition = false, -- as above
    _try = false,        -- true: it is refused if it would have to wait, and writes nothing then. "optimistic": see below
    _next = false,       -- see zklock.caller
    _count = 1,          -- permits of a semaphore
    _levels = 1,         -- how many times a reentrant lock was acquired
    _asked = 0,          -- for how many revocations on_revoke was called
    _cancelled = false,  -- the code of its end, while it is asked for
    _told = false,       -- whether on_lost was called
    _keep = false,       -- whether it outlives the request that acquires it
    _within = false      -- the lowest level that belongs to with_lock
}
Hold.__index = Hold

-- The optimistic try joins first and looks afterwards. That saves a round trip if the queue is empty, and leaves a node to clean up
-- if it is not.

local check_self, checked = new_check("hold", "a hold", { [Hold] = true })

--- Makes a hold for an acquisition that waits, of one permit. Nothing is sent yet.
---@param lock zklock.Lock
---@param me table|boolean the caller that acquires (zklock.lock.caller); false: none, but a callback
---@return zklock.Hold
function Hold.new(lock, me)
    return setmetatable({ _lock = lock, _caller = me, _state = false }, Hold) -- and C adds `_acquisition`
end

-- For other modules ---------------------------------------------------------------------------------------------------

--- Returns its lock.
function Hold.lock(self)
    return self._lock
end

--- Returns its handle on the C side, false before it was asked for.
function Hold.acquisition(self)
    return self._acquisition
end

--- Returns the caller that has it (zklock.lock.caller); false: none, but a callback.
function Hold.caller(self)
    return self._caller
end

--- Returns false as long as it is asked for; then "granted", until it ends as "released" or "over".
function Hold.state(self)
    return self._state
end

--- Whether it outlives the request that has acquired it.
function Hold.is_kept(self)
    return self._keep
end

--- Whether with_lock has it.
function Hold.is_enclosed(self)
    return self._within ~= false
end

--- Whether a value is a hold.
function Hold.is_hold(value)
    return getmetatable(value) == Hold
end

-- Its end -------------------------------------------------------------------------------------------------------------

--- Ends a hold that is lost. Whatever the server still has of it is cleaned up in the background.
local function drop(self)
    release(self._acquisition, nil, false, self, self._lock._settings.observers)
    forget(self)
end

--- The reason why it has ended although the program has not released it, as C reports it.
---@return string message
---@return zklock.Code code "lost"; "not_held" if the adapter has released it
function Hold.lost_message(self)
    local lock, phase, _, message = self._lock, self._acquisition:phase()
    if phase == "lost" and message ~= "" then
        return message, "lost"
    elseif phase == "released" then
        return format("the %s %s was released when the request ended that had acquired it: acquire it with keep = true if it is " ..
            "to be held for longer", lock._kind.name, lock._path), "not_held"
    end
    return format("the %s %s was lost", lock._kind.name, lock._path), "lost"
end

local function nothing()
end

--- Writes the identity behind a request to release, which has replaced it: so others still see who holds. A later request stays as
-- it is: it is answered by another write.
local function keep_identity(self)
    local lock = self._lock
    local data = core.REVOKE .. "\n" .. lock._settings.identity
    for _, path in ipairs(self:nodes() or {}) do
        lock._client:get(path, { callback = function(found, stat)
            if found == core.REVOKE then
                lock._client:set(path, data, { version = stat.version, callback = nothing })
            end
        end })
    end
end

--- Runs on_revoke if the lock has been asked for since on_revoke ran last.
function Hold:_tell_revoked()
    local on_revoke = self._lock._settings.on_revoke
    local asked = on_revoke and self._acquisition:revocations() or 0
    if asked > self._asked then
        self._asked = asked
        keep_identity(self)
        self._lock._client:run_callback("on_revoke", on_revoke, self)
    end
end

--- Runs on_lost.
local function tell_lost(self, reason, message)
    self._told = true
    local on_lost = self._lock._settings.on_lost
    if on_lost then
        self._lock._client:run_callback("on_lost", on_lost, self, reason, message)
    end
end

--- Notifies the program of a change: another contender asks for the lock, or the hold has ended. The end is reported once, by the
-- first to notice: the pump, which calls this when the acquisition changed, or a caller before the pump.
function Hold.handle_changed(self)
    if self._state ~= "granted" or self._told then
        return
    elseif self._acquisition:held() then
        return self:_tell_revoked()
    end
    caller.let_go(self)
    local phase, code = self._acquisition:phase()
    if phase == "released" then
        drop(self) -- the adapter released it because its request has ended
    else
        tell_lost(self, phase == "lost" and code or "lost", (self:lost_message()))
    end
end

--- Ends a hold that is lost. Runs on_lost first.
function Hold:_drop_lost()
    self:handle_changed()
    if self._state == "granted" then
        drop(self)
    end
end

--- Returns "lost" to a caller, or the other code of _lost_message, and makes the lock usable again.
function Hold:_give_up_lost()
    local message, code = self:lost_message()
    self:_drop_lost()
    return nil, message, code
end

--- Gives up an acquisition whose coroutine does not go on; if it does nevertheless, the answer is `code`. See zklock.wait.
function Hold.abandon(self, code)
    local attempts = self._lock._settings.desk.attempts
    self._cancelled = code
    if self._acquisition then
        self._acquisition:cancel()
    end
    if not attempts[self] then
        return
    end
    attempts[self] = nil
    self._state = "over"
    forget(self)
    for attempt in pairs(attempts) do
        if attempt.waits_for and attempt:waits_for(self) then
            return attempt:abandon(code)
        end
    end
end

--- Gives up an acquisition, whatever its state. Does nothing the second time, unless an error has kept the first one from its end.
function Hold:_abandon()
    local desk, acquisition = self._lock._settings.desk, self._acquisition
    desk.attempts[self] = nil
    if acquisition then
        acquisition:cancel()
        desk.observers[acquisition:id()] = nil
    end
    if self._state ~= "released" then
        self._state = "over"
    end
    forget(self)
end

-- Releasing -----------------------------------------------------------------------------------------------------------

--- Begins the end of one level.
---@param block_for? number for how many seconds this may block until the hold has ended
---@return zklock.Hold|true|nil # itself, if the server has to acknowledge its end; true if there is nothing to wait for
---@return string? message
---@return zklock.Code? code
function Hold.begin_release(self, block_for)
    local state = self._state
    if state == "granted" and self._levels == 1 then
        local lock = self._lock
        local settings = lock._settings
        local settled, news = release(self._acquisition, block_for, true, self, settings.observers)
        if settled ~= nil then
            forget(self)
            if news then
                wait.pump(lock._client)
            end
            return settled or self
        end
    elseif state == "granted" and self._acquisition:held() then
        self._levels = self._levels - 1
        return true
    end
    local lock = self._lock
    local alive, problem, code = lock._settings.desk.core:state()
    if alive == nil then
        return nil, problem, code
    elseif state == "granted" then
        return self:_give_up_lost()
    elseif state == "over" and self._acquisition:phase() == "released" then
        return nil, self:lost_message()
    end
    return nil, format("the %s %s is not held", lock._kind.name, lock._path), "not_held"
end
local begin_release = Hold.begin_release

--- Waits until the server has acknowledged the end of a hold, or until `deadline` on core.now()'s clock. `seconds` is the limit
-- of the release, for the message.
function Hold.await_release(self, deadline, seconds)
    local lock, acquisition = self._lock, self._acquisition
    local client = lock._client
    local done, message, code = wait.until_decided(client, acquisition:id(), deadline, acquisition.finished, acquisition)
    if done and acquisition:released() then
        return true
    elseif done then
        local phase
        phase, code, message = acquisition:phase()
        if phase == nil then
            return nil, code, message -- after a fork, these two are a message and its code
        elseif code == "lost" then
            tell_lost(self, code, message)
        end
        return nil, message, code
    elseif done == nil then
        return nil, message, code
    end
    local what = format("release of the %s %s not acknowledged within %s", lock._kind.name, lock._path, options.in_seconds(seconds))
    return nil, client:unreachable(what), "disconnected"
end

--- Ends one level.
---@param wait_for_server boolean
---@param timeout? number how many seconds to wait for the server, if less than the session timeout
function Hold.leave(self, wait_for_server, timeout)
    local ask, begun = wait_for_server and self._lock._settings.may_block_for, nil
    local block_for = ask and ask() or nil
    if timeout then
        begun = now()
        block_for = block_for and min(block_for, timeout)
    end
    local hold, message, code = begin_release(self, block_for)
    if hold == true or hold and not wait_for_server then
        return true
    elseif not hold then
        return nil, message, code
    end
    local seconds = self._lock._client:release_timeout(timeout)
    return self:await_release((begun or now()) + seconds, seconds)
end
local leave = Hold.leave

--- Reads the settings of a release.
---@return boolean? # whether to wait for the server
---@return number|string|nil seconds to wait, or what is wrong
function Hold.read_release(lock, settings)
    if settings == nil then
        return lock._settings.wait_release
    end
    local read, wrong = options.read(settings, RELEASE)
    if not read then
        return nil, wrong
    elseif read.wait == nil then
        return lock._settings.wait_release, read.timeout
    end
    return read.wait, read.timeout
end

---@class zklock.ReleaseOptions
---@field wait? boolean false: returns at once; default: the lock's option wait_release
---@field timeout? number seconds, 0 or more, to wait for the server; default and maximum: the session timeout

--- Releases the lock; a reentrant lock, by one level. Waits until the server has acknowledged the release, unless told not to,
-- but never longer than the session timeout. After that the node is deleted in the background.
---@param settings? zklock.ReleaseOptions
---@return true? released
---@return string? message
---@return zklock.Code? code "not_held" (it was released before); "lost" (it had ended before; sometimes this shows only when the
--   server finds no node to delete. It is reported once. A release that does not wait does not report it); "disconnected" (not
--   acknowledged; the release goes on in the background); "phase" (it would have to wait, and nothing can wait here: the same);
--   "no_auth" (the server refuses to delete the node, which stays until the client closes); "forked"
function Hold:release(settings)
    check_self(self, "release")
    local wait_for_server, timeout = Hold.read_release(self._lock, settings)
    if wait_for_server == nil then
        error("hold:release: " .. timeout, 2)
    end
    return leave(self, wait_for_server, timeout)
end

--- For Lua 5.4's `local hold <close> = assert(lock:acquire(5))`: releases it at the end of the block, a reentrant lock by one
-- level, if it is still held.
function Hold:__close()
    if self._state == "granted" then
        leave(self, self._lock._settings.wait_release and wait.is_possible(self._lock._client))
    end
end

-- Within with_lock ----------------------------------------------------------------------------------------------------

--- Notes that with_lock has the hold from now on.
function Hold.enclose(self)
    local enclose = self._lock._settings.desk.adapter.enclose
    self._within = self._within or self._levels
    if enclose and self._within == self._levels then
        enclose(self)
    end
end

--- Ends the part of a with_lock that began at this level. Does nothing the second time.
function Hold.disclose(self, level)
    if self._within == level then
        self._within = false
    end
end

--- Why it has ended although the program has not released it.
---@return string? message nil: it is held, or was released
---@return zklock.Code? code "lost"; "forked": this is the child of the process that holds it
function Hold.problem(self)
    if self._state == "released" or self._acquisition:held() then
        return nil
    end
    local state, problem, code = self._lock._settings.desk.core:state()
    if state == nil then
        return problem, code
    end
    return self:lost_message(), "lost"
end

--- Seconds that the release at the end of a with_lock waits at least, however short the limit of the acquisition was.
local SHORTEST_RELEASE = 1

--- How many seconds the release at the end of with_lock waits at most: as long as the limit of the acquisition, but at least
-- SHORTEST_RELEASE. nil: there is no such bound.
function Hold.release_timeout(seconds)
    return seconds < huge and max(seconds, SHORTEST_RELEASE) or nil
end

-- Looking -------------------------------------------------------------------------------------------------------------

--- Returns the C acquisition of a hold that is held at this instant, or nil.
function Hold.held_acquisition(hold)
    local acquisition = hold and not is_over(hold) and hold._acquisition -- C may still have it for a moment
    return acquisition and acquisition:held() and acquisition or nil
end
local held_acquisition = Hold.held_acquisition

--- Whether it is held at this instant, by the local clock. True only while no other zklock client can hold the lock. Sends nothing.
---@return boolean held
function Hold:held()
    check_self(self, "held")
    return held_acquisition(self) ~= nil
end

--- How much longer it is certainly held if nothing more arrives from ZooKeeper.
---@return number seconds 0 when not held; math.huge without a lease
function Hold:remaining()
    check_self(self, "remaining")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:remaining() or 0
end

--- How long it was waited for. 0 exactly if no contender was before it that excluded it, however long the servers
-- took. So a program that fills a cache looks into the cache again only if this is above 0.
---@return number? seconds from the request to the grant; nil when not held
function Hold:waited()
    check_self(self, "waited")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:waited() or nil
end

--- Reads the argument of extend.
---@return number? # seconds
---@return string? wrong
function Hold.read_extend(lock, seconds)
    if seconds == nil then
        return lock._settings.max_hold or huge
    elseif seconds == huge then
        return huge
    end
    local fits, expected = options.duration(seconds)
    if fits then
        return seconds
    end
    return nil, format("seconds must be %s, or math.huge (got %s)", expected, options.describe(seconds))
end

--- Extends by what read_extend has returned.
function Hold:_extend(seconds)
    if self._state == "granted" and self._acquisition:extend(seconds) then
        return true
    end
    local lock = self._lock
    local state, problem, code = lock._settings.desk.core:state()
    if state == nil then
        return nil, problem, code
    elseif self._state ~= "released" then
        return nil, self:lost_message()
    end
    return nil, format("the %s %s is not held", lock._kind.name, lock._path), "not_held"
end

--- Makes it end by itself so many seconds from now, whatever it had left: earlier or later than before. Sends
-- nothing. The option `max_hold` stays as it is for later holds.
---@param seconds? number above 0; math.huge: no limit; default: the option `max_hold`, without it no limit
---@return true? extended
---@return string? message
---@return zklock.Code? code "not_held" (it was released); "lost" (it has ended before, for example by max_hold); "forked"
function Hold:extend(seconds)
    check_self(self, "extend")
    local read = checked("extend", Hold.read_extend(self._lock, seconds))
    return self:_extend(read)
end

--- The fencing token. Tokens of one path compare as strings, in every locale: a later grant's token is
-- greater. Pass the token to the resource that the lock protects, and have the resource refuse smaller tokens.
--
-- A token is 30 characters: 19 decimal digits (the czxid of the lock's node), a hyphen, 10 decimal digits (how many grants that
-- node has served before).
---@return string? token nil when not held
function Hold:token()
    check_self(self, "token")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:token() or nil
end

--- The fencing token as three whole numbers, for stores that compare integers. Compare them in order: the
-- second number counts only where the first numbers are equal, and the third only where the second numbers are equal too.
--
-- Each number is less than 2^32, so every Lua holds and prints it exactly, also a Lua whose numbers are doubles. A single
-- number for the whole czxid could be rounded there.
---@return number? high the upper 32 bits of the czxid of the lock's node; nil when not held
---@return number? low the lower 32 bits of it
---@return number? grants how many grants that node has served before
function Hold:token_numbers()
    check_self(self, "token_numbers")
    local acquisition = held_acquisition(self)
    if acquisition then
        return acquisition:token_numbers()
    end
    return nil
end

--- The path of its lock.
---@return string path
function Hold:path()
    check_self(self, "path")
    return self._lock._path
end

--- The path of the znode by which it is held.
---@return string? node nil when not held
function Hold:node()
    check_self(self, "node")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:node() or nil
end

--- All nodes by which it is held: a semaphore has a node for each permit.
---@return table? # array of paths; nil when not held
---@return string? message when there was no memory for them
---@return zklock.Code? code
function Hold.nodes(self)
    local acquisition = held_acquisition(self)
    if not acquisition then
        return nil
    end
    return acquisition:nodes()
end

--- Begins a transaction whose writes happen only if it is still held. The server checks that, for a semaphore of all
-- permits, together with the writes.
---@return zklock.Transaction transaction
function Hold:transaction()
    check_self(self, "transaction")
    return require("zklock.transaction").new(self._lock._client, { { lock = self._lock, hold = self } })
end

--- "zklock hold (mutex /path, held)".
function Hold:__tostring()
    local state = self._state and "released" or "asked for"
    if self._state == "granted" then
        state = self._acquisition:held() and "held" or "lost"
    end
    return format("zklock hold (%s %s, %s)", self._lock._kind.name, self._lock._path, state)
end

return Hold
