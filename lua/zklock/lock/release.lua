--- lock.release: the method release, and what else gives a hold back.
--
-- For the program, for zklock.lock.with_lock, which gives back by `leave`, and for multis, which begin to release all their
-- locks before they wait for the server.

local arguments = require "zklock.lock.arguments"
local class = require "zklock.lock.class"
local core = require "zklock.core"
local ending = require "zklock.lock.ending"
local Hold = require "zklock.hold"
local options = require "zklock.options"
local Owner = require "zklock.owner"
local wait = require "zklock.wait"

local error, getmetatable = error, getmetatable
local format = string.format
local min = math.min
local now = core.now
local drop, give_up_lost, tell_lost = ending.drop, ending.give_up_lost, ending.tell_lost
local meant_here, own, running_acquirer = Owner.meant_here, Owner.own, Owner.running
local present = Hold.present

local check_self, classes, Lock = class.check_self, class.classes, class.Lock
local RELEASE = arguments.RELEASE
local releases = {}

-- One object ----------------------------------------------------------------------------------------------------------

--- Begins the end of one level of the object's hold.
-- @tparam number|nil block_for for how many seconds this may block until the hold has ended
-- @treturn table|true|nil the hold, if the server has to acknowledge its end; true if there is nothing to wait for; or nil,
--   message, code
local function begin_release(self, block_for)
    local hold = present(self)
    if hold and hold.levels == 1 then
        local settled = drop(self, block_for, true)
        if settled ~= nil then
            return settled or hold
        end
    elseif hold and hold.acquisition:held() then
        hold.levels = hold.levels - 1
        return true
    end
    local state, problem, code = self._client._core:state()
    if state == nil then
        return nil, problem, code
    elseif hold then
        return give_up_lost(self)
    end
    return nil, format("the %s %s is not held", self._kind.name, self._path), "not_held"
end
Lock._begin_release = begin_release

--- Waits until the server has acknowledged the end of a hold, or until `deadline` on core.now()'s clock. `seconds` is the limit
-- of the release, for the message.
function Lock:_await_release(hold, deadline, seconds)
    local client, acquisition = self._client, hold.acquisition
    local done, message, code = wait.until_decided(client, hold.id, deadline, acquisition.finished, acquisition)
    if done and acquisition:released() then
        return true
    elseif done then
        local phase
        phase, code, message = acquisition:phase()
        if phase == nil then
            return nil, code, message -- as in _conclude
        elseif code == "lost" then
            tell_lost(self, hold, code, message)
        end
        return nil, message, code
    elseif done == nil then
        return nil, message, code
    end
    local what = format("release of the %s %s not acknowledged within %s", self._kind.name, self._path, options.in_seconds(seconds))
    return nil, client:_unreachable(what), "disconnected"
end

--- Ends one level of the object's hold.
-- @tparam boolean wait_for_server
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
local function leave(self, wait_for_server, timeout)
    local ask = wait_for_server and self._settings.linger == 0 and self._client._adapter.may_block_for
    local block_for, begun = ask and ask() or nil, timeout and now()
    if timeout and block_for then
        block_for = min(block_for, timeout)
    end
    local hold, message, code = begin_release(self, block_for)
    if not hold then
        return nil, message, code
    elseif hold == true or not wait_for_server then
        return true
    end
    local seconds = self._client:_release_timeout(timeout)
    return self:_await_release(hold, (begun or now()) + seconds, seconds)
end
releases.leave = leave

-- Which object --------------------------------------------------------------------------------------------------------

Lock._meant = meant_here

--- The answer to a coroutine that holds nothing through the object, while other coroutines do.
function Lock:_not_yours()
    local state, problem, code = self._client._core:state()
    if state == nil then
        return nil, problem, code
    end
    local hold = present(self)
    if hold and hold.acquisition:phase() == "released" then
        return nil, self:_lost_message(hold), "not_held"
    end
    return nil, format("the %s %s is not held by this coroutine, but by another one through the same object", self._kind.name,
        self._path), "not_held"
end

--- Finds the lock that the end of a with_lock has to release. with_lock had the object by this hold, `level` levels deep. If the
-- function released its own level, or more, nothing is left to release. If it acquired anew in the same coroutine, that is
-- released.
-- @treturn Lock|nil nil if there is nothing to release
function Lock:_ends(hold, level)
    local current = present(self)
    if current == hold then
        return current ~= nil and hold.levels >= level and self or nil
    elseif level > 1 then
        return nil
    end
    local me = running_acquirer(self._client)
    local anew = own(self, me)
    return anew and anew._hold and anew._hold.acquirer == me and anew or nil
end

--- Finds the lock that the end of a block has to release: the lock object by which this coroutine holds; otherwise the object
-- itself, if this coroutine was given its hold.
-- @treturn Lock|nil nil if there is nothing to release
function Lock:_closes()
    local me = running_acquirer(self._client)
    local mine = own(self, me)
    if mine and mine._hold and mine._hold.acquirer == me then
        return mine
    end
    return Owner.given(self, me)
end

-- Releasing -----------------------------------------------------------------------------------------------------------

--- Releases the lock; a reentrant lock, by one level. Waits until the server has acknowledged the release, unless told not to,
-- but never longer than the session timeout. After that the node is deleted in the background.
--
-- A coroutine also releases what another coroutine has acquired by the same object, if it has never acquired by the object
-- itself, or if the other coroutine has ended. Inside nginx a request does not release the hold of another request. In all
-- other cases the answer is "not_held".
-- @tparam table|nil settings `{wait = false}` returns at once; default: the lock's option wait_release. `{timeout = seconds}`
--   waits no longer than that; default and maximum: the session timeout
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code: "not_held"; "lost" (the hold had ended before; sometimes this shows only when the server finds no
--   node to delete. It is reported once, then the object is usable again. A release that does not wait does not report it);
--   "disconnected" (not acknowledged; the release goes on in the background); "no_auth" (the server refuses to delete the node,
--   which stays until the client closes); "forked"
-- @raise when settings are malformed
function Lock:release(settings)
    if not classes[getmetatable(self)] then
        check_self(self, "release")
    end
    local wait_for_server, timeout = self._settings.wait_release, nil
    if settings ~= nil then
        local read, wrong = options.read(settings, RELEASE)
        if not read then
            error("lock:release: " .. wrong, 2)
        end
        if read.wait ~= nil then
            wait_for_server = read.wait
        end
        timeout = read.timeout
    end
    local lock = meant_here(self)
    if not lock then
        return self:_not_yours()
    end
    return leave(lock, wait_for_server, timeout)
end

--- For Lua 5.4's `local held <close> = …`: releases the lock at the end of the block, if it is still held and is not another
-- coroutine's.
function Lock:__close()
    local lock = self:_closes()
    if lock then
        leave(lock, self._settings.wait_release and wait.is_possible(self._client))
    end
end

return releases
