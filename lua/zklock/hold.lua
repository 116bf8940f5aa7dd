--- hold: one acquisition of a lock object, from its request to its end, with its claim on the C side.
--
-- For zklock.lock and zklock.multi. A lock object has at most one hold (`_hold`, else false), which belongs to the coroutine that
-- acquired it (`taker`, see zklock.owner); it may have several levels, if the lock is reentrant. A multi that has some of its
-- locks and waits for others has their holds *on a tether*: such a hold is the object's, but ends when the multi's coroutine is
-- collected.

local getmetatable, setmetatable = getmetatable, setmetatable
local huge, max = math.huge, math.max

--- What a hold is in the beginning. What each of them is given, Hold.new lists: a table that gets a field more is made anew.
local Hold = {
    count = 1, levels = 1, asked = 0, cancelled = false, told = false, observed = false,
    keep = false,  -- whether it is to outlive the request that acquires it
    within = false -- the level at which it is with_lock's
}
Hold.__index = Hold

--- A new acquisition of so many permits (1 but for semaphores), of which nothing is sent yet.
-- @tparam string|boolean try one of Lock.WAIT, Lock.TRY, Lock.HASTY
-- @tparam number count
-- @tparam table taker what stands for the coroutine that acquires
-- @tparam boolean|nil keep whether it is to outlive the request that acquires it
-- @treturn table
function Hold.new(try, count, taker, keep)
    local hold = setmetatable({ claim = false, try = try, taker = taker, released = false }, Hold)
    if count ~= 1 then
        hold.count = count
    end
    if keep then
        hold.keep = true
    end
    return hold
end

--- with_lock holds the object from now on, by this hold.
function Hold.enclose(lock, hold)
    local enclose = lock._client._adapter.enclose
    if enclose and not hold.within then
        hold.within = hold.levels
        enclose(hold)
    end
end

--- The end of a with_lock that began at this level. Does nothing the second time.
function Hold.disclose(hold, level)
    if hold.within == level then
        hold.within = false
    end
end

--- Seconds that the release at the end of a with_lock waits at least, however short its acquisition was to be.
local SHORTEST_RELEASE = 1

--- How long the release at the end of with_lock waits at most: as long as its acquisition was to wait, but SHORTEST_RELEASE at
-- least; nil: there is no such bound.
function Hold.release_timeout(seconds)
    return seconds < huge and max(seconds, SHORTEST_RELEASE) or nil
end

-- Tethers -------------------------------------------------------------------------------------------------------------

local function no()
    return false
end

--- In place of the claim of a hold that went with its tether.
local GONE = { held = no, cancel = no, id = no }

--- Of a hold on a tether: it refers to its claim weakly.
local Tethered = { __mode = "v", __index = setmetatable({ claim = GONE }, Hold) }

--- What refers to that claim meanwhile, and hears of its changes.
local Tether = {}
Tether.__index = Tether

function Tether:_ticket_changed()
    self.lock:_ticket_changed()
end

--- Has the object's hold, which has one level, end when what this returns is collected. For a multi that goes on waiting.
function Hold.tether(lock)
    local hold = lock._hold
    local tether = setmetatable({ lock = lock, _hold = hold, claim = hold.claim, owner = hold.owner }, Tether)
    if hold.observed then
        lock._client._registry.observers[hold.claim:id()] = tether -- which is weak: nothing is left there either
    end
    return tether, setmetatable(hold, Tethered)
end

--- Ends that, if the hold is on a tether: it is the object's own.
function Hold.untether(lock, hold)
    if getmetatable(hold) ~= Tethered then
        return
    end
    setmetatable(hold, Hold)
    if hold.observed then
        lock._client._registry.observers[hold.claim:id()] = lock
    end
end

-- Looking -------------------------------------------------------------------------------------------------------------

--- The object's hold, or nil. One that went with its tether is none.
function Hold.present(lock)
    local hold = lock._hold
    if hold and hold.claim == GONE then
        lock._hold = false
        return nil
    end
    return hold or nil
end

--- The claim of an object that holds at this instant, or nil.
function Hold.held_claim(lock)
    local hold = lock and lock._hold
    return hold and hold.claim:held() and hold.claim or nil
end

return Hold
