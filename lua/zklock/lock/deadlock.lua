--- lock.deadlock: acquisitions that would never end, because they would wait for the program itself.
--
-- For zklock.lock.acquire, whose docstring lists the cases, and for multis, which refuse such an acquisition with the code
-- "deadlock".

local caller = require "zklock.lock.caller"
local Hold = require "zklock.lock.hold"
local wait = require "zklock.wait"

local format = string.format
local held_acquisition = Hold.held_acquisition
local own = caller.own

--- Whether a lock is held by a coroutine that cannot go on while this coroutine waits. Where no other coroutine can run, each
-- other holder is one. Elsewhere only the coroutine is looked at that was granted the lock last: there may be many.
local function is_held_above(lock, me, alone)
    if alone then
        for hold in caller.each(lock) do
            if held_acquisition(hold) then
                return true
            end
        end
        return false
    end
    local latest = lock._latest
    return latest and caller.is_above(latest, me) and held_acquisition(own(lock, latest)) ~= nil
end

--- How many permits are held through a semaphore.
local function taken(lock)
    local count = 0
    for hold in caller.each(lock) do
        count = count + (held_acquisition(hold) and hold._count or 0)
    end
    return count
end

--- Whether a coroutine is waiting for the lock: it waits until the callback ends that now acquires.
local function is_waited_for(lock)
    for hold in caller.each(lock) do
        if not hold._state and hold._caller then
            return true
        end
    end
    return false
end

--- Whether waiting for `count` permits would block the coroutines that hold them through the same lock. For a semaphore this
-- is known only where no other coroutine can run.
local function waits_for_itself(lock, count, me)
    local alone, twin, mode = wait.is_alone(lock._client), lock._twin, lock._kind.mode
    if lock._permits then
        return alone and count + taken(lock) > lock._permits
    elseif alone and is_waited_for(lock) then
        return true
    end
    return mode ~= "read" and is_held_above(lock, me, alone)
        or twin and (mode == "write" or not held_acquisition(own(twin, me))) and is_held_above(twin, me, alone)
end

--- Returns a message if an acquisition would wait for itself; otherwise nil.
---@param lock zklock.Lock
---@param hold? zklock.Hold what the caller has by the lock already
---@param timeout number seconds; 0 does not wait
---@param count number
---@param me table the caller
return function(lock, hold, timeout, count, me)
    local name, path = lock._kind.name, lock._path
    if not hold then
        if lock._kind.mode == "write" and held_acquisition(own(lock._twin, me)) then
            return format("the write lock %s cannot be acquired while this object's read lock is held: it would wait for itself",
                path)
        elseif timeout > 0 and waits_for_itself(lock, count, me) then
            return format("the %s %s would wait for itself: this object holds in a coroutine that cannot go on meanwhile", name,
                path)
        end
        return nil
    elseif not hold._state then
        return format("the %s %s is already being acquired by this object", name, path)
    elseif not hold._acquisition:held() then
        return nil
    elseif not lock._settings.reentrant then
        return format("the %s %s is already held by this object", name, path)
    elseif count > hold._count then
        return format("the %s %s is held by this object with a count of %d and cannot be acquired again with one of %d", name, path,
            hold._count, count)
    end
    return nil
end
