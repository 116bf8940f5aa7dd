--- lock.ending: the end of a hold, by a release or by a loss, and what the program is told about its hold.
--
-- For zklock.lock.attempt, .acquire and .release. The pump calls `_handle_changed` when an acquisition has changed.

local class = require "zklock.lock.class"
local Hold = require "zklock.hold"
local Owner = require "zklock.owner"
local wait = require "zklock.wait"

local format = string.format
local forget, present = Owner.forget, Hold.present

local Lock = class.Lock
local ending = {}

--- Ends the object's hold. Whatever the server still has of it is cleaned up in the background.
-- @tparam number|nil block_for for how many seconds this may block until the clean-up is complete
-- @tparam boolean|nil if_held true: only if the object holds at this instant
-- @treturn boolean|nil true: nothing is left to clean up or to report; false: something is; nil: the object does not hold
local function drop(self, block_for, if_held)
    local hold, client = self._hold, self._client
    local sending = client._adapter.sending
    if sending then
        sending(client)
    end
    -- C records the end in the same step. It sets `released` if the hold was held, and removes the hold from object and
    -- observers.
    local settled, news = hold.acquisition:release(block_for, if_held, self, hold.observed and client._registry.observers)
    if settled == nil and if_held then
        return nil
    end
    forget(self, hold)
    if news then
        wait.pump(client)
    end
    return settled
end
ending.drop = drop

--- The reason why a hold was lost, as C reports it.
function Lock:_lost_message(hold)
    local phase, _, message = hold.acquisition:phase()
    if phase == "lost" and message ~= "" then
        return message
    elseif phase == "released" then
        return format("the %s %s was released when the request ended that had acquired it: acquire it with keep = true if it is " ..
            "to be held for longer", self._kind.name, self._path)
    end
    return format("the %s %s was lost", self._kind.name, self._path)
end

--- Runs on_revoke if the lock has been asked for since on_revoke ran last.
local function tell_revoked(self, hold)
    local on_revoke = self._settings.on_revoke
    local asked = on_revoke and hold.acquisition:revocations() or 0
    if asked > hold.asked then
        hold.asked = asked
        self._client:_run_callback("on_revoke", on_revoke, self)
    end
end
ending.tell_revoked = tell_revoked

--- Runs on_lost for a hold that is lost.
local function tell_lost(self, hold, reason, message)
    hold.told = true
    Owner.forget_caller(self)
    local on_lost = self._settings.on_lost
    if on_lost then
        self._client:_run_callback("on_lost", on_lost, self, reason, message)
    end
end
ending.tell_lost = tell_lost

--- Notifies the program of a change of its hold: another contender asks for the lock, or the hold has ended. The end is reported
-- once, by the first to notice: the pump, which calls this when the acquisition changed, or a caller before the pump.
function Lock:_handle_changed()
    local hold = present(self)
    if not hold or hold.told then
        return
    elseif hold.acquisition:held() then
        return tell_revoked(self, hold)
    end
    Owner.let_go(hold)
    local phase, code = hold.acquisition:phase()
    if phase ~= "released" then
        tell_lost(self, hold, phase == "lost" and code or "lost", self:_lost_message(hold))
    -- The adapter released it because its request has ended: nothing is going to use the companion.
    elseif self._origin then
        drop(self)
    end
end

--- Drops a hold that is lost. Runs on_lost first, which may have dropped the hold itself, or may have acquired anew.
local function drop_lost(self)
    local hold = self._hold
    self:_handle_changed()
    if self._hold == hold then
        drop(self)
    end
end
ending.drop_lost = drop_lost

--- Returns "lost" to a caller and makes the object usable again.
function ending.give_up_lost(self)
    local message = self:_lost_message(self._hold)
    drop_lost(self)
    return nil, message, "lost"
end

return ending
