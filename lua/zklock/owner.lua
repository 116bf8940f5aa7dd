--- owner: which hold of a lock object a call is about, where several coroutines use the object.
--
-- A hold belongs to the coroutine that acquired it. The lock object itself holds for the first coroutine. A coroutine that
-- acquires while another coroutine uses the object gets a *companion*: a lock object with the same settings and a separate
-- hold, which queues behind the earlier ones. `acquire` returns the companion, and `with_lock` passes it to its function. All
-- methods of the object find the companion of the running coroutine (`_others`, by acquirer), so programs need not know about
-- companions.
--
-- An *acquirer* (`acquirer`) stands for a coroutine, without a strong reference to it. Where the adapter has the function `owner`,
-- the acquirers of one owner (inside nginx: of one request) form a *group*. They may use each other's holds. When a coroutine
-- ends, its holds belong to the group. The first acquirer stands for the group, too: most groups have no other.

local Hold = require "zklock.hold"

local coroutine, getmetatable, next, pairs, pcall, setmetatable = coroutine, getmetatable, next, pairs, pcall, setmetatable
local running = coroutine.running
local present = Hold.present

local Owner = {}

local WEAK_KEYS, WEAK_VALUES, WEAK = { __mode = "k" }, { __mode = "v" }, { __mode = "kv" }

--- Stands for the thread of the main program where Lua has no thread object for it.
local MAIN = {}

local NONE = {}

-- Acquirers -----------------------------------------------------------------------------------------------------------

--- thread -> its acquirer, where the adapter knows no owners.
local acquirers = setmetatable({}, WEAK_KEYS)

--- owner -> its group. (nginx reuses threads for other requests, so each group has separate acquirers.)
local groups = setmetatable({}, WEAK_KEYS)

--- Makes an acquirer. `weak.thread` is its coroutine, `weak.owner` its owner, if any. Lock objects remember `mark` for the acquirer
-- or for its whole group. `group` is the acquirer that stands for the group, or nil. `companions` are the companions that the
-- coroutine uses, by object, so that companions exist as long as the coroutine. Where the acquirer stands for a group, `held` has
-- the lock objects that must not be collected, by their holds, and `by_thread` finds its other acquirers, which exist as long as
-- their coroutines and holds.
local function new_acquirer(thread, owner)
    local weak = setmetatable({ thread = thread, owner = owner }, WEAK_VALUES)
    return { weak = weak, mark = weak, companions = false, held = false }
end

--- Makes an acquirer that stands for the group of an owner.
local function new_group(owner, thread)
    local group = new_acquirer(thread, owner)
    group.group = group
    groups[owner] = group
    return group
end

--- Returns the acquirer of a thread in the group of an owner.
local function member(owner, thread)
    local group = groups[owner]
    if not group then
        return new_group(owner, thread)
    elseif group.weak.thread == thread then
        return group
    elseif not group.by_thread then
        group.by_thread = setmetatable({}, WEAK_KEYS)
    end
    local acquirer = group.by_thread[thread]
    if not acquirer then
        acquirer = new_acquirer(thread, owner)
        acquirer.group, acquirer.mark = group, group.mark
        group.by_thread[thread] = acquirer
    end
    return acquirer
end

--- Returns the acquirer of the running coroutine.
local function running_acquirer(client)
    local thread, ask = running() or MAIN, client._adapter.owner
    local owner = ask and ask()
    if owner ~= nil then
        return member(owner, thread)
    end
    local acquirer = acquirers[thread]
    if not acquirer then
        acquirer = new_acquirer(thread)
        acquirers[thread] = acquirer
    end
    return acquirer
end
Owner.running = running_acquirer

--- The status of an acquirer's coroutine, as of coroutine.status: "dead" if it was collected. Inside nginx this is right only
-- for the request that asks.
local function status(acquirer)
    local thread = acquirer.weak.thread
    if thread == MAIN then
        return "normal"
    elseif thread == nil then
        return "dead"
    end
    local ok, word = pcall(coroutine.status, thread)
    return ok and word or "suspended"
end

--- Whether an acquirer's coroutine has ended and the running coroutine may use the holds that it left.
local function has_left(acquirer, me)
    if acquirer.group and acquirer.group ~= me.group then
        return false
    end
    local word = status(acquirer)
    return word == "dead" or word == "zombie" -- nginx's status of a finished light thread before ngx.thread.wait
end

--- Whether an acquirer's coroutine cannot run before the running coroutine yields or ends, because it has resumed the running
-- one.
local function is_above(acquirer, me)
    return acquirer ~= me and acquirer.group == me.group and status(acquirer) == "normal"
end
Owner.is_above = is_above

--- Whether no code is left that could ask for the result of an acquirer's hold.
function Owner.is_gone(acquirer)
    local weak = acquirer.weak
    if acquirer.group then
        return weak.owner == nil
    end
    return weak.thread == nil
end

--- Notes that a coroutine asks for a lock itself, by this lock object. (A group is noted as a whole.)
function Owner.note(lock, me)
    local object, mark = lock._origin or lock, me.mark
    if lock ~= object then
        object._others = object._others or setmetatable({}, WEAK)
        object._others[me] = lock
        me.companions = me.companions or setmetatable({}, WEAK_KEYS)
        me.companions[object] = lock
    end
    local first = object._acquirer
    if not first then
        object._acquirer = mark
    elseif first ~= mark then
        object._acquirers = object._acquirers or setmetatable({}, WEAK_KEYS)
        object._acquirers[mark] = true
    end
end

--- Whether a coroutine, or another coroutine of its group, has ever asked for the lock itself.
local function has_asked(lock, me)
    local object, mark = lock._origin or lock, me.mark
    return object._acquirer == mark or object._acquirers and object._acquirers[mark] or false
end
Owner.has_asked = has_asked

--- Returns which waits a cancel by this coroutine ends: all waits if there are no groups, or if the only group that has ever
-- asked for the lock is another one; otherwise the waits of its own group.
-- @treturn function(acquirer) whether a wait of this acquirer is ended
function Owner.cancels(lock, me)
    local group, object = me.group, lock._origin or lock
    local none_but_mine = group ~= nil and (has_asked(object, me) or object._acquirers ~= false)
    return function(acquirer)
        return not none_but_mine or acquirer.group == group
    end
end

-- Companions ----------------------------------------------------------------------------------------------------------

--- Returns the hold for which a lock object is in use: its own hold, or that of its acquisition under way; nil if the object is
-- free.
local function use(lock)
    return present(lock) or lock._client._attempts[lock]
end
Owner.use = use

--- Whether a lock object is in use by this coroutine.
local function is_used_by(lock, me)
    local hold = use(lock)
    return hold ~= nil and hold.acquirer == me
end

--- Makes a lock object with the settings of another one, for the acquisitions of one coroutine.
local function new_companion(object)
    local lock = {}
    for key, value in pairs(object) do
        lock[key] = value
    end
    lock._origin, lock._hold, lock._latest = object, false, false
    lock._acquirer, lock._acquirers, lock._others, lock._called = false, false, false, false
    return setmetatable(lock, getmetatable(object))
end

--- Finds, among the lock objects that hold through an object, one that an ended coroutine has left held and this coroutine may
-- use.
local function left_over(object, me)
    local hold = present(object)
    if hold and has_left(hold.acquirer, me) then
        return object
    elseif not object._others then
        return nil
    end
    for kept, lock in pairs(me.group and me.group.held or NONE) do
        if lock._origin == object and present(lock) == kept and has_left(kept.acquirer, me) then
            return lock
        end
    end
    local latest = object._latest and object._latest.lock
    return latest and present(latest) and has_left(latest._hold.acquirer, me) and latest or nil
end

--- Returns the lock object by which this coroutine holds, or is acquiring, through `lock`; nil if it does neither.
local function own(lock, me)
    local object = lock._origin or lock
    if is_used_by(object, me) then
        return object
    end
    local companion = object._others and object._others[me]
    if companion and is_used_by(companion, me) then
        return companion
    end
    return left_over(object, me)
end
Owner.own = own

--- Returns the lock object by which this coroutine must acquire: the one by which it holds already, else `lock` if that is free,
-- else a companion.
function Owner.place(lock, me)
    local mine = own(lock, me)
    if mine then
        return mine
    end
    return use(lock) == nil and lock or new_companion(lock._origin or lock)
end

--- Whether the owner of an acquirer holds this path already, by any lock object of the client.
function Owner.holds(client, path, acquirer)
    for hold, lock in pairs(acquirer.group and acquirer.group.held or NONE) do
        if lock._client == client and lock._path == path and hold.acquisition:held() then
            return true
        end
    end
    return false
end

--- Makes an object refer to one of its companions until the companion's hold ends, or until the program is told that it is lost.
local function refer(object, lock)
    object._called = object._called or {}
    object._called[lock] = true
end

--- Notes that this lock object holds now. It would release when it is collected. So its group refers to it, or, where the hold
-- outlives the group, the object that the program has.
function Owner.note_held(lock)
    local object, hold = lock._origin, lock._hold
    local group = hold.acquirer.group
    if group and not hold.keep then
        group.held = group.held or {}
        group.held[hold] = lock
    elseif group and object then
        refer(object, lock)
    end
    if object then
        object._latest = object._latest or setmetatable({}, WEAK_VALUES)
        object._latest.lock = lock
    end
end

--- Ends what `refer` has begun.
function Owner.forget_caller(lock)
    local called = lock._origin and lock._origin._called
    if called then
        called[lock] = nil
    end
end

--- Notes that a lock object need not exist for its hold any more.
local function let_go(hold)
    local acquirer = hold.acquirer -- nil: a weak hold's, which was collected
    local group = acquirer and acquirer.group
    if group and group.held then
        group.held[hold] = nil
    end
end
Owner.let_go = let_go

--- Notes that a hold of a lock object, or an attempt at one, has ended.
function Owner.forget(lock, hold)
    let_go(hold)
    local object = lock._origin
    if not object then
        return
    end
    Owner.forget_caller(lock)
    if object._latest and object._latest.lock == lock then
        object._latest.lock = nil
    end
    local others = object._others
    if others and others[hold.acquirer] == lock then
        others[hold.acquirer], hold.acquirer.companions[object] = nil, nil
        if next(others) == nil then
            object._others = false
        end
    end
end

--- An iterator over all lock objects that hold through an object, the object itself first.
function Owner.each(lock)
    local object = lock._origin or lock
    local others, at, begun = object._others, nil, false
    return function()
        if not begun then
            begun = true
            if object._hold then
                return object
            end
        end
        while others do
            local companion
            at, companion = next(others, at)
            if companion == nil then
                return nil
            elseif companion._hold then
                return companion
            end
        end
    end
end

-- Callers -------------------------------------------------------------------------------------------------------------

-- An acquisition by callback belongs to a *caller*: an acquirer that stands for no coroutine, and that never ends by itself.

--- Makes a caller.
function Owner.new_caller()
    local thread = {} -- stands for a coroutine that has not ended
    local caller = new_acquirer(thread)
    caller.thread = thread -- `weak` does not keep it
    return caller
end

--- Returns the lock object by which a caller must acquire. It is always a companion, which any code may use.
function Owner.place_of_caller(lock)
    return new_companion(lock._origin or lock)
end

--- Notes that a caller asks for a lock by this companion.
function Owner.note_caller(lock, caller)
    Owner.note(lock, caller)
    refer(lock._origin, lock)
end

--- Gives the hold of a caller to another acquirer, by the same lock object.
function Owner.pass(lock, hold, to)
    if present(lock) == hold then
        Owner.forget(lock, hold)
        hold.acquirer = to
        Owner.note_caller(lock, to)
        Owner.note_held(lock)
    end
end

-- Looking -------------------------------------------------------------------------------------------------------------

--- Whether this coroutine was given the object for another coroutine's hold: it has never asked for the lock itself. A hold of
-- another group was not given to it, unless the hold outlives that group (`keep`).
local function was_given(object, hold, me)
    local group = hold.acquirer.group
    return (group == nil or group == me.group or hold.keep == true) and not has_asked(object, me)
end

--- Returns a lock object if this coroutine was given its hold.
function Owner.given(lock, me)
    local hold = present(lock)
    return hold and was_given(lock, hold, me) and lock or nil
end

--- Whether this coroutine may use another coroutine's hold: the hold of its group, of a coroutine that has ended, or given to
-- it.
local function may_use(object, hold, me)
    return me.group ~= nil and hold.acquirer.group == me.group or was_given(object, hold, me) or has_left(hold.acquirer, me)
end

--- Returns the lock object that holds through `object` and for whose hold `fits` is true; nil if there is none or more than one.
local function only(object, fits, me)
    local found
    for lock in Owner.each(object) do
        local hold = present(lock)
        if hold and fits(object, hold, me) then
            if found then
                return nil
            end
            found = lock
        end
    end
    return found
end

local function is_of_group(_, hold, me)
    return hold.acquirer.group == me.group
end

local function is_held(object, hold, me)
    return hold.acquisition:held() and may_use(object, hold, me)
end

--- Finds the lock object that a method of `lock`, called by this coroutine, is about. A companion's methods are about the
-- companion. For an object it is, in this order: the lock object by which this coroutine holds; the only one by which its group
-- holds; the only one that it may use; the object itself, if nothing is held through it.
-- @treturn Lock|nil nil if this coroutine may not use what is held
local function meant(lock, me)
    local hold = present(lock)
    if lock._origin or hold and hold.acquirer == me then
        return lock
    end
    local others = lock._others
    if not others then
        return (not hold or may_use(lock, hold, me)) and lock or nil
    end
    local companion = others[me]
    if companion and present(companion) and companion._hold.acquirer == me then
        return companion
    end
    companion = me.group and only(lock, is_of_group, me) or only(lock, is_held, me)
    return companion or Owner.each(lock)() == nil and lock or nil
end

--- Returns the lock object that a call of the running coroutine is about; nil if the object's hold is not for that coroutine.
function Owner.meant_here(lock)
    return meant(lock, running_acquirer(lock._client))
end

return Owner
