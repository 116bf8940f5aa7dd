--- lock.deadlock: acquisitions that would never end, because they would wait for the program itself.
--
-- For zklock.lock.acquire and for multis, which refuse such an acquisition with the code "deadlock". docs/design.md lists the
-- cases.

local class = require "zklock.lock.class"
local Hold = require "zklock.hold"
local Owner = require "zklock.owner"
local wait = require "zklock.wait"

local format = string.format
local held_acquisition = Hold.held_acquisition
local own = Owner.own

local Lock = class.Lock

--- Whether a lock object is held by a coroutine that cannot go on while this coroutine waits.
local function is_held_above(lock, me, alone)
    local hold = lock and held_acquisition(lock) and lock._hold
    return hold and (alone and hold.acquirer ~= me or Owner.is_above(hold.acquirer, me)) or false
end

--- Whether is_held_above is true of one of the locks that hold through an object. Where other coroutines can run, only the
-- object and the companion that was granted last are checked, because there may be many.
local function any_held_above(object, me, alone)
    if not alone then
        return is_held_above(object, me) or object._latest and is_held_above(object._latest.lock, me)
    end
    for lock in Owner.each(object) do
        if is_held_above(lock, me, true) then
            return true
        end
    end
    return false
end

--- Whether waiting for `count` permits would block the coroutines that hold them through the same object. For a semaphore this
-- is known only where no other coroutine can run.
local function waits_for_itself(self, count, me)
    local object, alone = self._origin or self, wait.is_alone(self._client)
    if self._permits then
        local taken = count
        for lock in Owner.each(object) do
            taken = taken + (held_acquisition(lock) and lock._hold.count or 0)
        end
        return alone and taken > self._permits
    elseif alone and self._client._attempts[object] then
        return true -- a callback called during that attempt's wait acquires
    end
    return self._kind ~= Lock.READ and any_held_above(object, me, alone) or self._twin and
        (self._kind == Lock.WRITE or not held_acquisition(own(self._twin, me))) and any_held_above(self._twin, me, alone)
end

--- Returns a message if an acquisition of `count` permits would wait for itself; otherwise nil.
-- @tparam number timeout seconds; 0 does not wait
-- @tparam number count
-- @tparam table me the running coroutine's acquirer; this lock object belongs to it
function Lock:_deadlock(timeout, count, me)
    local hold = self._hold
    if self._client._attempts[self] then
        return format("the %s %s is already being acquired by this object", self._kind.name, self._path)
    elseif not hold then
        if self._kind == Lock.WRITE and held_acquisition(own(self._twin, me)) then
            return format("the write lock %s cannot be acquired while this object's read lock is held: it would wait for itself",
                self._path)
        elseif timeout > 0 and waits_for_itself(self, count, me) then
            return format("the %s %s would wait for itself: this object holds in a coroutine that cannot go on meanwhile",
                self._kind.name, self._path)
        end
        return nil
    elseif not hold.acquisition:held() then
        return nil
    elseif not self._settings.reentrant then
        return format("the %s %s is already held by this object", self._kind.name, self._path)
    elseif count > hold.count then
        return format("the %s %s is held by this object with a count of %d and cannot be acquired again with one of %d",
            self._kind.name, self._path, hold.count, count)
    end
    return nil
end
