--- caller: which coroutine calls, and inside nginx for which request; and which hold of a lock is the caller's.
--
-- A hold belongs to the coroutine that acquired it. Where the adapter has the function `owner`, as inside nginx, it belongs to
-- the coroutine's owner, a request, whose other coroutines may use it, too. A *caller* stands for a coroutine and its owner without
-- a strong reference to them: a table with weak values, `thread`, `owner`, and `key`, which is the owner, or else the thread.
-- `lasts` is true for the main program's thread, which lasts longer than any lock.
--
-- A lock finds its holds by that key (`lock._holds`). Keys are weak: what a coroutine asks for is collected with it. `_next` of a
-- hold is another hold of the same key. A hold that a coroutine has is also in the set `lock._kept`, so that it lasts as long as
-- its lock, and not only as long as the coroutine. If it ends with an owner, such as a request, that keeps it instead. Within
-- with_lock, only the coroutine's stack does. Nothing needs to keep the holds of a caller that lasts.

local core = require "zklock.core"

local coroutine, pairs, pcall, setmetatable = coroutine, pairs, pcall, setmetatable

local caller = {}

local WEAK_KEYS = { __mode = "k" }

--- owner -> set of the holds that last as long as it does.
local held_by_owner = setmetatable({}, WEAK_KEYS)

--- Returns the caller that stands for the running coroutine, the same one until another coroutine of its owner has asked. Takes the
-- adapter's function `owner`, or false.
local running = core.caller(setmetatable({}, WEAK_KEYS), { __mode = "v" })
caller.running = running

--- The status of a caller's coroutine, as of coroutine.status: "dead" if it was collected. Inside nginx this is right only for the
-- request that asks.
local function status(one)
    local thread = one.thread
    if thread == nil then
        return "dead"
    end
    local ok, word = pcall(coroutine.status, thread)
    return ok and word or "suspended"
end

--- Whether a caller's coroutine cannot run before this one yields or ends, because it has resumed this one.
function caller.is_above(one, me)
    return one.thread ~= me.thread and one.owner == me.owner and status(one) == "normal"
end

--- Whether a caller's coroutine has ended. nginx's status of a light thread is "zombie" before ngx.thread.wait.
local function has_ended(one)
    local word = status(one)
    return word == "dead" or word == "zombie"
end

--- Whether a hold, or an acquisition under way, has ended.
local function is_over(hold)
    local state = hold._state
    return state == "released" or state == "over"
end
caller.is_over = is_over

--- Returns the hold that the caller has by a lock, or its acquisition under way: that of its coroutine, otherwise what an ended
-- coroutine of its owner has left. A coroutine that was killed inside with_lock leaves nothing: that hold is going to end.
---@return zklock.Hold?
function caller.own(lock, me)
    local hold, left = lock._holds and lock._holds[me.key], nil
    while hold do
        if not is_over(hold) then
            if hold._caller.thread == me.thread then
                return hold
            elseif hold._state and not hold._within and has_ended(hold._caller) then
                left = hold
            end
        end
        hold = hold._next
    end
    return left
end

--- Returns the hold that a method of a lock is about: that of the running coroutine, otherwise the only one of its owner.
---@return zklock.Hold?
function caller.meant(lock)
    local holds = lock._holds
    if not holds then
        return nil
    end
    local me = running(lock._settings.owner)
    local hold, only = holds[me.key], nil
    while hold do
        if hold._state == "granted" then
            if hold._caller == me or hold._caller.thread == me.thread then
                return hold
            end
            only = only == nil and hold
        end
        hold = hold._next
    end
    return only or nil
end

--- Notes that a caller asks for a lock by this hold.
function caller.note(hold)
    local lock, key = hold._lock, hold._caller.key
    local holds = lock._holds
    if not holds then
        holds = setmetatable({}, WEAK_KEYS)
        lock._holds = holds
    end
    local before = holds[key]
    while before and is_over(before) do -- an error, such as Ctrl-C, has kept `forget` from its end
        before = before._next
    end
    if before then
        hold._next = before
    end
    holds[key] = hold
end

--- How many holds a lock begins to keep before it looks for those that were lost and that no coroutine has released.
local FEW = 32

--- Whether a hold was not granted yet, or is held.
local function lasts(hold)
    return not hold._state or hold._state == "granted" and hold._acquisition:held()
end

--- Drops from a lock's set of holds those that have ended. Returns how many it may begin to keep until the next time.
local function make_room(lock)
    local kept, room = {}, FEW
    for hold in pairs(lock._kept or {}) do
        if lasts(hold) then
            kept[hold], room = true, room + 1
        end
    end
    lock._kept = kept
    return room
end

--- Makes the lock keep a hold as long as it lasts.
function caller.keep(hold)
    local lock = hold._lock
    local room = lock._room
    if room == 0 then
        room = make_room(lock)
    end
    lock._kept[hold] = true
    lock._room = room - 1
end

--- Ends that.
function caller.let_go(hold)
    local kept, mine = hold._lock._kept, hold._caller
    if kept then
        kept[hold] = nil
    end
    local held = mine and mine.owner and held_by_owner[mine.owner]
    if held then
        held[hold] = nil
    end
end

--- Notes that a caller's hold was granted, and is the program's. `within`: with_lock is going to give it back.
function caller.note_granted(hold, within)
    local me = hold._caller
    hold._lock._latest = me
    local owner = me.owner
    if owner and not hold._keep then
        local held = held_by_owner[owner]
        if not held then
            held = {}
            held_by_owner[owner] = held
        end
        held[hold] = true
    elseif not me.lasts and not within then
        caller.keep(hold)
    end
end

--- Forgets a hold, or an acquisition under way, that has ended.
function caller.forget(hold)
    local lock, me = hold._lock, hold._caller
    if not me or not me.lasts then
        caller.let_go(hold)
    end
    local holds, key = lock._holds, me and me.key
    local at = holds and key and holds[key]
    if at == hold then
        holds[key] = hold._next or nil
        return
    end
    while at do
        if at._next == hold then
            at._next = hold._next
        end
        at = at._next
    end
end

--- Gives a hold that belongs to no coroutine to the running one.
function caller.pass(hold, me)
    caller.let_go(hold)
    hold._caller = me
    caller.note(hold)
    caller.note_granted(hold)
end

--- An iterator over all holds of a lock, and its acquisitions under way.
function caller.each(lock)
    local found = {}
    for _, first in pairs(lock._holds or {}) do
        local hold = first
        while hold do
            found[hold] = not is_over(hold) or nil
            hold = hold._next
        end
    end
    for hold in pairs(lock._kept or {}) do
        found[hold] = not is_over(hold) or nil
    end
    return pairs(found)
end

--- Releases all holds of a lock, also one of which its owner does not know because an error has come first. Does not wait.
function caller.release_all(lock)
    for hold in caller.each(lock) do
        hold:begin_release()
    end
end

--- Whether the caller's owner holds this path already, by any lock object of the client.
function caller.holds(client, path, me)
    for hold in pairs(me and me.owner and held_by_owner[me.owner] or {}) do
        if hold._lock._client == client and hold._lock._path == path and hold:held() then
            return true
        end
    end
    return false
end

--- Which waits a cancel by this caller ends: those of its owner, or all if it has none.
function caller.cancels(one, me)
    return not me.owner or one and one.owner == me.owner
end

return caller
