--- lock_groups: the lock groups of a client. Each group keeps its own figures of acquisitions.
--
-- For zklock.client, whose locks each belong to a group, and for zklock.lock.acquire, zklock.lock.callback and
-- zklock.multi.acquire, which count refusals. A group has a *meter* on the C side (csrc/lock/meter.h): waits, holds and losses
-- are measured there, where an acquisition is granted and ends. Refusals are counted here, by the code that the caller gets. Many
-- of them, such as "deadlock", never reach C, and others are named only here: to C a wait whose time is up is a cancelled one.
--
-- The program names the groups. Metrics are kept in memory for as long as the client exists, so the number of groups has a bound.

local core = require "zklock.core"

local pairs = pairs

local LockGroups = {}
LockGroups.__index = LockGroups

--- The group of locks that were made without the option `metrics`, and the group of locks whose own group is one too many.
local DEFAULT, OTHER = "default", "other"

--- The most groups of a client, these two included.
LockGroups.MOST = 32

--- The codes of Lock:acquire that every group counts, from the start: a counter that appears with its first value hides that value
-- from Prometheus's rate().
LockGroups.CODES = {
    "timeout", "disconnected", "lost", "cancelled", "deadlock", "mismatch", "closed", "no_auth", "auth_failed", "exhausted",
    "phase", "failed"
}

--- Makes the groups of a client.
function LockGroups.new()
    return setmetatable({ by_name = {}, count = 0, overflows = 0 }, LockGroups)
end

local function add(groups, name)
    local group = { name = name, meter = core.meter() or nil, refusals = {} }
    for index = 1, #LockGroups.CODES do
        group.refusals[LockGroups.CODES[index]] = 0
    end
    groups.by_name[name] = group
    groups.count = groups.count + 1
    return group
end

--- Finds the group of a lock that is being made.
---@param name? string of the option `metrics`
---@return table # the group
function LockGroups:find(name)
    name = name or DEFAULT
    local group = self.by_name[name]
    if group then
        return group
    end
    local kept_free = (self.by_name[DEFAULT] and 0 or 1) + (self.by_name[OTHER] and 0 or 1)
    if name == DEFAULT or name == OTHER or self.count + kept_free < LockGroups.MOST then
        return add(self, name)
    end
    self.overflows = self.overflows + 1
    return self.by_name[OTHER] or add(self, OTHER)
end

--- Counts an acquisition that was answered without the lock.
function LockGroups.refuse(group, code)
    group.refusals[code] = (group.refusals[code] or 0) + 1
end

--- Reads all groups.
---@return table # name -> what Client:group_stats describes
function LockGroups:read()
    local all = {}
    for name, group in pairs(self.by_name) do
        local figures = group.meter and group.meter:read()
        if figures then
            figures.refusals = {}
            for code, count in pairs(group.refusals) do
                figures.refusals[code] = count
            end
            all[name] = figures
        end
    end
    return all
end

return LockGroups
