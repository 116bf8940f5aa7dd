--- multi.members: the check of the list of locks that a multi is made of.
--
-- For zklock.multi. Refuses lists whose locks would wait for each other, and puts the others in order.

local Lock = require "zklock.lock"
local options = require "zklock.options"
local short = require("zklock.text").short

local getmetatable, ipairs, pairs, type = getmetatable, ipairs, pairs, type
local format, sort = string.format, table.sort
local precedes = options.precedes

local members = {}

--- Orders by bytes: all programs of the fleet must have the same order, whatever their locales are.
local function by_path(one, other)
    return precedes(one:path(), other:path())
end

--- Finds a semaphore and a lock on the semaphore's queue, which cannot be held together: the lock would wait for the head of the
-- queue, which waits for the permits.
---@return string? # what is wrong
local function queue_among(locks)
    local queues = {}
    for _, member in ipairs(locks) do
        if member:is_semaphore() then
            queues[member:path() .. "/locks"] = member:path()
        end
    end
    for _, member in ipairs(locks) do
        local semaphore = not member:is_semaphore() and queues[member:path()]
        if semaphore then
            return format("the path %s is the queue of the semaphore %s: the two would wait for each other", member:path(),
                semaphore)
        end
    end
    return nil
end

--- Checks the members, for Client:multi.
---@return table? # the members in the order of their paths
---@return string? wrong
function members.check(client, given)
    if type(given) ~= "table" or getmetatable(given) ~= nil then
        return nil, "the argument must be a list of locks"
    end
    local count = 0
    for key in pairs(given) do
        if type(key) ~= "number" then
            return nil, format("the argument must be a list of locks (there is a key '%s')", short(key))
        end
        count = count + 1
    end
    if count == 0 then
        return nil, "there must be at least one lock"
    end
    local ordered = {}
    for index = 1, count do
        local member = given[index]
        if not Lock.is_lock(member) then
            return nil, format("member %d must be a lock (of a read/write lock: its read or its write)", index)
        elseif member:client() ~= client then
            return nil, format("member %d is a lock of another client", index)
        end
        ordered[index] = member
    end
    sort(ordered, by_path)
    for index = 2, count do
        if ordered[index]:path() == ordered[index - 1]:path() then
            return nil, format("two members are on the path %s: they would wait for each other", ordered[index]:path())
        end
    end
    local wrong = queue_among(ordered)
    if wrong then
        return nil, wrong
    end
    return ordered
end

return members
