--- hold: one acquisition of a lock object, from its request to its end, with its handle on the C side (`acquisition`).
--
-- For zklock.lock and zklock.multi, with their parts, and for zklock.owner. A lock object has at most one hold (`_hold`, else
-- false). The hold belongs to the coroutine that acquired it (`acquirer`, see zklock.owner), and has several levels if a
-- reentrant lock was acquired several times. A multi that has some of its locks and waits for further ones keeps them as *weak
-- holds*: such a hold belongs to the lock object, but ends when the multi's coroutine is collected.

local getmetatable, setmetatable = getmetatable, setmetatable
local huge, max = math.huge, math.max

--- The initial state of a hold. Hold.new sets the fields that each hold needs, at least in nginx: Lua reallocates a table that
-- gets a further field. `id` is that of `acquisition`.
local Hold = {
    count = 1, levels = 1, asked = 0, cancelled = false, told = false,
    keep = false,  -- whether it outlives the request that acquires it
    by_callback = false, -- whether a call (zklock.call) stands for its coroutine
    within = false -- the level that belongs to with_lock
}
Hold.__index = Hold

--- Ways to acquire. WAIT waits. TRY is refused if it would have to wait, and writes nothing then. The optimistic try
-- joins first and looks afterwards. That saves a round trip if the queue is empty, and leaves a node to clean up if it is not.
Hold.WAIT, Hold.TRY, Hold.OPTIMISTIC = false, "try", "optimistic"

--- Makes a hold for an acquisition of `count` permits (1 except for semaphores). Nothing is sent yet.
-- @tparam string|boolean try one of Hold.WAIT, Hold.TRY, Hold.OPTIMISTIC
-- @tparam number count
-- @tparam table acquirer the acquirer: stands for the coroutine that acquires
-- @tparam boolean|nil keep whether it outlives the request that acquires it
-- @treturn table
function Hold.new(try, count, acquirer, keep)
    local hold = setmetatable({
        acquisition = false, id = false, try = try, acquirer = acquirer, owner = false, observed = false, released = false
    }, Hold)
    if count ~= 1 then
        hold.count = count
    end
    if keep then
        hold.keep = true
    end
    return hold
end

--- Notes that with_lock holds the object by this hold from now on.
function Hold.enclose(lock, hold)
    local enclose = lock._client._adapter.enclose
    if enclose and not hold.within then
        hold.within = hold.levels
        enclose(hold)
    end
end

--- Ends the part of a with_lock that began at this level. Does nothing the second time.
function Hold.disclose(hold, level)
    if hold.within == level then
        hold.within = false
    end
end

--- Seconds that the release at the end of a with_lock waits at least, however short the limit of the acquisition was.
local SHORTEST_RELEASE = 1

--- How many seconds the release at the end of with_lock waits at most: as long as the limit of the acquisition, but at least
-- SHORTEST_RELEASE. nil: there is no such bound.
function Hold.release_timeout(seconds)
    return seconds < huge and max(seconds, SHORTEST_RELEASE) or nil
end

-- Weak holds ----------------------------------------------------------------------------------------------------------

local function no()
    return false
end

--- Takes the place of the `acquisition` of a weak hold after it was collected.
local GONE = { held = no, cancel = no }

--- The metatable of a weak hold, which refers to its `acquisition` weakly.
local WeaklyHeld = { __mode = "v", __index = setmetatable({ acquisition = GONE }, Hold) }

--- Refers to the `acquisition` of a weak hold strongly, and receives its notifications.
local HoldKeeper = {}
HoldKeeper.__index = HoldKeeper

function HoldKeeper:_handle_changed()
    self.lock:_handle_changed()
end

--- Makes the object's hold weak: the hold, which has one level, ends when the first result is collected. For a multi that waits
-- for further locks.
function Hold.weaken(lock)
    local hold = lock._hold
    local keeper = setmetatable({ lock = lock, _hold = hold, acquisition = hold.acquisition, owner = hold.owner }, HoldKeeper)
    if hold.observed then
        lock._client._registry.observers[hold.id] = keeper -- observers is weak: no entry is left
    end
    return keeper, setmetatable(hold, WeaklyHeld)
end

--- Makes a weak hold an ordinary hold of the object again. Does nothing to other holds.
function Hold.strengthen(lock, hold)
    if getmetatable(hold) ~= WeaklyHeld then
        return
    end
    setmetatable(hold, Hold)
    if hold.observed then
        lock._client._registry.observers[hold.id] = lock
    end
end

-- Looking -------------------------------------------------------------------------------------------------------------

--- Returns the object's hold, or nil. A weak hold whose `acquisition` was collected counts as none.
function Hold.present(lock)
    local hold = lock._hold
    if hold and hold.acquisition == GONE then
        lock._hold = false
        return nil
    end
    return hold or nil
end

--- Returns the C acquisition of an object that holds at this instant, or nil.
function Hold.held_acquisition(lock)
    local hold = lock and lock._hold
    return hold and hold.acquisition:held() and hold.acquisition or nil
end

return Hold
