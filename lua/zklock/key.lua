--- key: a safe path for any key.
--
-- Programs lock things that have names already: file names, URLs, customer numbers. Such a name may contain characters that a
-- ZooKeeper path must not contain (slashes, NUL, ".."). So it is written as one path component in harmless characters. Pure
-- functions.

local options = require "zklock.options"
local sha256 = require "zklock.sha256"

local byte, format = string.byte, string.format
local ipairs, type = ipairs, type

--- A component longer than this many bytes is shortened, because every request and every watch contains paths.
local LONGEST = 200

--- How many bytes of a shortened key stay readable at its beginning.
local READABLE = 100

local function escape(character)
    return format("%%%02X", byte(character))
end

--- The markers before the number in the names of contenders, of all clients that zklock recognizes.
local MARKERS = { "lock%-$", "lease%-$", "__$", "^ex$", "^sh$", "^x%-.*%-$" }

--- How ZooKeeper writes numbers: ten digits, or a hyphen and nine or ten.
local NUMBERS = { ("%d"):rep(10), "%-" .. ("%d"):rep(9), "%-" .. ("%d"):rep(10) }

--- Whether a component could be taken for a node of the lock whose path is the prefix: for a contender, or for one of the two
-- directories of a semaphore. It may return true for a few more components. The rule must not change: if the path of a key
-- changed, the key would not be locked against programs with another version.
local function resembles_node(written)
    if written == "locks" or written == "leases" then
        return true
    end
    for _, number in ipairs(NUMBERS) do
        local head = written:match("^(.*)" .. number .. "$")
        for _, marker in ipairs(head and MARKERS or {}) do
            if head:find(marker) then
                return true
            end
        end
    end
    return false
end

--- Returns the key as one component: never empty, "." or "..", never a name of a lock's nodes. Different keys give different
-- components, because "%" is followed by two upper-case hexadecimal digits where it stands for a byte, by nothing for the empty
-- key, and by "-" where a hash follows.
local function component(key)
    if key == "" then
        return "%"
    end
    local written = key:gsub("[^A-Za-z0-9_.~-]", escape)
    if not written:find("[^.]") then
        written = written:gsub("%.", escape)
    elseif resembles_node(written) then
        written = written:gsub(".$", escape)
    end
    if #written <= LONGEST then
        return written
    end
    return written:sub(1, READABLE):gsub("%%%x?$", "") .. "%-" .. sha256(key)
end

--- Returns the path of a key below a prefix, as zklock.path describes it.
---@return string?
---@return string? wrong
return function(prefix, key)
    local wrong = options.path_problem(prefix)
    if wrong then
        return nil, "prefix: " .. wrong
    elseif type(key) ~= "string" then
        return nil, format("key must be a string (got %s)", options.describe(key))
    end
    return prefix .. "/" .. component(key)
end
