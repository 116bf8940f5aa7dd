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
-- `_acquisition` is its handle on the C side, false before the request is sent. A hold is *asked for* until it is `_granted`, and
-- ends as `_over`, which is "released" if it was held until then. C sets `_over` in the step in which it releases the acquisition,
-- so that a debug hook, which may raise an error at any instruction, finds either both or neither.

local arguments = require "zklock.lock.arguments"
local caller = require "zklock.caller"
local core = require "zklock.core"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local Transaction = require "zklock.transaction"
local wait = require "zklock.wait"

local error, getmetatable, setmetatable, tostring, type = error, getmetatable, setmetatable, tostring, type
local format = string.format
local huge, max, min = math.huge, math.max, math.min
local forget = caller.forget
local now = core.now
local RELEASE = arguments.RELEASE

--- The initial state of a hold. Hold.new sets the fields that each hold needs: Lua reallocates a table that gets a ninth one.
local Hold = {
    _try = false,        -- a way to acquire, see below
    _next = false,       -- see zklock.caller
    _count = 1,          -- permits of a semaphore
    _levels = 1,         -- how many times a reentrant lock was acquired
    _asked = 0,          -- for how many revocations on_revoke was called
    _cancelled = false,  -- the code of its end, while it is asked for
    _told = false,       -- whether on_lost was called
    _keep = false,       -- whether it outlives the request that acquires it
    _whole = true,       -- whether it is the program's when it is granted, and not part of a multi's acquisition
    _by_callback = false, -- whether a call (zklock.call) stands for its coroutine
    _within = false      -- the lowest level that belongs to with_lock
}
Hold.__index = Hold

local check_self = new_check("hold", "a hold", { [Hold] = true })

--- Ways to acquire. WAIT waits. TRY is refused if it would have to wait, and writes nothing then. The optimistic try
-- joins first and looks afterwards. That saves a round trip if the queue is empty, and leaves a node to clean up if it is not.
Hold.WAIT, Hold.TRY, Hold.OPTIMISTIC = false, "try", "optimistic"

--- Makes a hold for an acquisition of `count` permits (1 except for semaphores). Nothing is sent yet.
-- @tparam Lock lock
-- @tparam string|boolean try one of Hold.WAIT, Hold.TRY, Hold.OPTIMISTIC
-- @tparam number count
-- @tparam table|boolean me the caller that acquires (zklock.caller); false: none, but a callback
-- @tparam boolean|nil keep whether it outlives the request that acquires it
-- @treturn Hold
function Hold.new(lock, try, count, me, keep)
    local hold = setmetatable({
        _lock = lock, _acquisition = false, _id = false, _caller = me, _granted = false, _over = false
    }, Hold)
    if try then
        hold._try = try
    end
    if count ~= 1 then
        hold._count = count
    end
    if keep then
        hold._keep = true
    end
    return hold
end

--- Whether a value is a hold.
function Hold.is_hold(value)
    return getmetatable(value) == Hold
end

-- Its end -------------------------------------------------------------------------------------------------------------

--- Ends a hold. Whatever the server still has of it is cleaned up in the background.
-- @tparam Hold self
-- @tparam number|nil block_for for how many seconds this may block until the clean-up is complete
-- @tparam boolean|nil if_held true: only if it is held at this instant
-- @treturn boolean|nil true: nothing is left to clean up or to report; false: something is; nil: it is not held
local function drop(self, block_for, if_held)
    local client = self._lock._client
    local sending = client._adapter.sending
    if sending then
        sending(client)
    end
    local settled, news = self._acquisition:release(block_for, if_held, self, client._registry.observers)
    if settled == nil and if_held then
        return nil
    end
    forget(self)
    if news then
        wait.pump(client)
    end
    return settled
end

--- The reason why it has ended although the program has not released it, as C reports it.
-- @treturn string message
-- @treturn string code "lost"; "not_held" if the adapter has released it
function Hold:_lost_message()
    local lock, phase, _, message = self._lock, self._acquisition:phase()
    if phase == "lost" and message ~= "" then
        return message, "lost"
    elseif phase == "released" then
        return format("the %s %s was released when the request ended that had acquired it: acquire it with keep = true if it is " ..
            "to be held for longer", lock._kind.name, lock._path), "not_held"
    end
    return format("the %s %s was lost", lock._kind.name, lock._path), "lost"
end

--- Runs on_revoke if the lock has been asked for since on_revoke ran last.
function Hold:_tell_revoked()
    local on_revoke = self._lock._settings.on_revoke
    local asked = on_revoke and self._acquisition:revocations() or 0
    if asked > self._asked then
        self._asked = asked
        self._lock._client:_run_callback("on_revoke", on_revoke, self)
    end
end

--- Runs on_lost.
local function tell_lost(self, reason, message)
    self._told = true
    local on_lost = self._lock._settings.on_lost
    if on_lost then
        self._lock._client:_run_callback("on_lost", on_lost, self, reason, message)
    end
end

--- Notifies the program of a change: another contender asks for the lock, or the hold has ended. The end is reported once, by the
-- first to notice: the pump, which calls this when the acquisition changed, or a caller before the pump.
function Hold:_handle_changed()
    if not self._granted or self._over or self._told then
        return
    elseif self._acquisition:held() then
        return self:_tell_revoked()
    end
    caller.let_go(self)
    local phase, code = self._acquisition:phase()
    if phase == "released" then
        drop(self) -- the adapter released it because its request has ended
    else
        tell_lost(self, phase == "lost" and code or "lost", (self:_lost_message()))
    end
end

--- Ends a hold that is lost. Runs on_lost first.
function Hold:_drop_lost()
    self:_handle_changed()
    if not self._over then
        drop(self)
    end
end

--- Returns "lost" to a caller, or the other code of _lost_message, and makes the lock usable again.
function Hold:_give_up_lost()
    local message, code = self:_lost_message()
    self:_drop_lost()
    return nil, message, code
end

--- Gives up an acquisition, whatever its state. Does nothing the second time.
function Hold:_abandon()
    local client, acquisition = self._lock._client, self._acquisition
    client._attempts[self] = nil
    forget(self)
    if acquisition then
        client._registry.observers[acquisition:id()] = nil
        acquisition:cancel()
    end
end

-- Releasing -----------------------------------------------------------------------------------------------------------

--- Begins the end of one level.
-- @tparam number|nil block_for for how many seconds this may block until the hold has ended
-- @treturn Hold|true|nil itself, if the server has to acknowledge its end; true if there is nothing to wait for; or nil,
--   message, code
function Hold:_begin_release(block_for)
    local lock, over = self._lock, self._over
    if not over and self._levels == 1 then
        local settled = drop(self, block_for, true)
        if settled ~= nil then
            return settled or self
        end
    elseif not over and self._acquisition:held() then
        self._levels = self._levels - 1
        return true
    end
    local state, problem, code = lock._client._core:state()
    if state == nil then
        return nil, problem, code
    elseif not over then
        return self:_give_up_lost()
    elseif over ~= "released" and self._acquisition:phase() == "released" then
        return nil, self:_lost_message()
    end
    return nil, format("the %s %s is not held", lock._kind.name, lock._path), "not_held"
end

--- Waits until the server has acknowledged the end of a hold, or until `deadline` on core.now()'s clock. `seconds` is the limit
-- of the release, for the message.
function Hold:_await_release(deadline, seconds)
    local lock, acquisition = self._lock, self._acquisition
    local client = lock._client
    local done, message, code = wait.until_decided(client, self._id, deadline, acquisition.finished, acquisition)
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
    return nil, client:_unreachable(what), "disconnected"
end

--- Ends one level.
-- @tparam boolean wait_for_server
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
function Hold:_leave(wait_for_server, timeout)
    local lock = self._lock
    local ask = wait_for_server and lock._settings.linger == 0 and lock._client._adapter.may_block_for
    local block_for, begun = ask and ask() or nil, timeout and now()
    if timeout and block_for then
        block_for = min(block_for, timeout)
    end
    local hold, message, code = self:_begin_release(block_for)
    if not hold then
        return nil, message, code
    elseif hold == true or not wait_for_server then
        return true
    end
    local seconds = lock._client:_release_timeout(timeout)
    return self:_await_release((begun or now()) + seconds, seconds)
end

--- Reads the settings of a release.
-- @treturn boolean whether to wait for the server, and for how many seconds or nil; nil and what is wrong
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

--- Releases the lock; a reentrant lock, by one level. Waits until the server has acknowledged the release, unless told not to,
-- but never longer than the session timeout. After that the node is deleted in the background.
-- @tparam table|nil settings `{wait = false}` returns at once; default: the lock's option wait_release. `{timeout = seconds}`
--   waits no longer than that; default and maximum: the session timeout
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code: "not_held" (it was released before); "lost" (it had ended before; sometimes this shows only when the
--   server finds no node to delete. It is reported once. A release that does not wait does not report it); "disconnected" (not
--   acknowledged; the release goes on in the background); "phase" (it would have to wait, and nothing can wait here: the same);
--   "no_auth" (the server refuses to delete the node, which stays until the client closes); "forked"
-- @raise when settings are malformed
function Hold:release(settings)
    check_self(self, "release")
    local wait_for_server, timeout = Hold.read_release(self._lock, settings)
    if wait_for_server == nil then
        error("hold:release: " .. timeout, 2)
    end
    return self:_leave(wait_for_server, timeout)
end

--- For Lua 5.4's `local hold <close> = assert(lock:acquire(5))`: releases it at the end of the block, a reentrant lock by one
-- level, if it is still held.
function Hold:__close()
    if not self._over then
        self:_leave(self._lock._settings.wait_release and wait.is_possible(self._lock._client))
    end
end

-- Within with_lock ----------------------------------------------------------------------------------------------------

--- Notes that with_lock has the hold from now on.
function Hold:_enclose()
    local enclose = self._lock._client._adapter.enclose
    self._within = self._within or self._levels
    if enclose and self._within == self._levels then
        enclose(self)
    end
end

--- Ends the part of a with_lock that began at this level. Does nothing the second time.
function Hold:_disclose(level)
    if self._within == level then
        self._within = false
    end
end

--- Why it has ended although the program has not released it.
-- @treturn string|nil message; nil: it is held, or was released
-- @treturn string|nil code "lost"; "forked": this is the child of the process that holds it
function Hold:_problem()
    if self._over == "released" or self._acquisition:held() then
        return nil
    end
    local state, problem, code = self._lock._client._core:state()
    if state == nil then
        return problem, code
    end
    return self:_lost_message(), "lost"
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
    local acquisition = hold and not hold._over and hold._acquisition -- C may still have it for a moment
    return acquisition and acquisition:held() and acquisition or nil
end
local held_acquisition = Hold.held_acquisition

--- Whether it is held at this instant, by the local clock. True only while no other zklock client can hold the lock. Sends nothing.
-- @treturn boolean
function Hold:held()
    check_self(self, "held")
    return held_acquisition(self) ~= nil
end

--- How much longer it is certainly held if nothing more arrives from ZooKeeper.
-- @treturn number seconds; 0 when not held; math.huge without a lease
function Hold:remaining()
    check_self(self, "remaining")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:remaining() or 0
end

--- How long it was waited for. 0 exactly if no contender was before it that excluded it, however long the servers
-- took. So a program that fills a cache looks into the cache again only if this is above 0.
-- @treturn number|nil seconds from the request to the grant; nil when not held
function Hold:waited()
    check_self(self, "waited")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:waited() or nil
end

--- Reads the argument of extend.
-- @treturn number seconds; or nil and what is wrong
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
    return nil, format("seconds must be %s, or math.huge (got %s)", expected,
        type(seconds) == "number" and tostring(seconds) or "a " .. type(seconds))
end

--- Extends by what read_extend has returned.
function Hold:_extend(seconds)
    if not self._over and self._acquisition:extend(seconds) then
        return true
    end
    local lock = self._lock
    local state, problem, code = lock._client._core:state()
    if state == nil then
        return nil, problem, code
    elseif self._over ~= "released" then
        return nil, self:_lost_message()
    end
    return nil, format("the %s %s is not held", lock._kind.name, lock._path), "not_held"
end

--- Makes it end by itself so many seconds from now, whatever it had left: earlier or later than before. Sends
-- nothing. The option `max_hold` stays as it is for later holds.
-- @tparam number|nil seconds above 0; math.huge: no limit; default: the option `max_hold`, without it no limit
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code: "not_held" (it was released); "lost" (it has ended before, for example by max_hold); "forked"
-- @raise when seconds are malformed
function Hold:extend(seconds)
    check_self(self, "extend")
    local read, wrong = Hold.read_extend(self._lock, seconds)
    if not read then
        error("hold:extend: " .. wrong, 2)
    end
    return self:_extend(read)
end

--- The fencing token. Tokens of one path compare as strings, in every locale: a later grant's token is
-- greater. Pass the token to the resource that the lock protects, and have the resource refuse smaller tokens.
--
-- A token is 30 characters: 19 decimal digits (the czxid of the lock's node), a hyphen, 10 decimal digits (how many grants that
-- node has served before).
-- @treturn string|nil nil when not held
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
-- @treturn number|nil high the upper 32 bits of the czxid of the lock's node; nil when not held
-- @treturn number low the lower 32 bits of it
-- @treturn number grants how many grants that node has served before
function Hold:token_numbers()
    check_self(self, "token_numbers")
    local acquisition = held_acquisition(self)
    if acquisition then
        return acquisition:token_numbers()
    end
    return nil
end

--- The path of its lock.
-- @treturn string
function Hold:path()
    check_self(self, "path")
    return self._lock._path
end

--- The path of the znode by which it is held.
-- @treturn string|nil nil when not held
function Hold:node()
    check_self(self, "node")
    local acquisition = held_acquisition(self)
    return acquisition and acquisition:node() or nil
end

--- All nodes by which it is held: a semaphore has a node for each permit.
-- @treturn table|nil array of paths; nil when not held
-- @treturn string|nil message, when there was no memory for them
-- @treturn string|nil code
function Hold:_nodes()
    local acquisition = held_acquisition(self)
    if not acquisition then
        return nil
    end
    return acquisition:nodes()
end

--- Begins a transaction whose writes happen only if it is still held. The server checks that, for a semaphore of all
-- permits, together with the writes.
-- @treturn Transaction
function Hold:transaction()
    check_self(self, "transaction")
    return Transaction._guarded(self._lock._client, { { lock = self._lock, hold = self } })
end

--- "zklock hold (mutex /path, held)".
function Hold:__tostring()
    local state = self._over and "released" or "asked for"
    if self._granted and not self._over then
        state = self._acquisition:held() and "held" or "lost"
    end
    return format("zklock hold (%s %s, %s)", self._lock._kind.name, self._lock._path, state)
end

return Hold
