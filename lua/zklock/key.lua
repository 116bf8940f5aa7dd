--- key: a safe path for any key.
--
-- Programs lock things that have names of their own: file names, URLs, customer numbers. Such a name may hold what a
-- ZooKeeper path must not (slashes, NUL, ".."), so it is written as one path component in harmless characters. Pure
-- functions.

local options = require "zklock.options"
local sha256 = require "zklock.sha256"

local byte, format = string.byte, string.format
local error, ipairs, type = error, ipairs, type

--- A component longer than this many bytes is shortened: paths travel with every request and every watch.
local LONGEST = 200

--- How much of a shortened key stays readable at its beginning.
local READABLE = 100

local function escape(character)
    return format("%%%02X", byte(character))
end

--- The markers before the number in the names of contenders, of all clients that zklock knows.
local MARKERS = { "lock%-$", "lease%-$", "__$", "^ex$", "^sh$", "^x%-.*%-$" }

--- How ZooKeeper writes numbers: ten digits, or a hyphen and nine or ten.
local NUMBERS = { ("%d"):rep(10), "%-" .. ("%d"):rep(9), "%-" .. ("%d"):rep(10) }

--- Whether a component could be taken for a node of the lock whose path the prefix is: for a contender, or for one of the two
-- directories of a semaphore. It may answer true for a few more. The rule must stay as it is: a key whose path changed would not be
-- locked against programs with another version.
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

--- The key as one component: never empty, "." or "..", never what a lock's own nodes are called. Different keys give different
-- components, because a "%" is followed by two upper-case hexadecimal digits where it stands for a byte, by nothing for the empty
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

--- The path of a key below a prefix, for a lock of its own: `client:mutex(zklock.path("/locks/file", name))`.
--
-- Any string is a key. Letters, digits and `_ - . ~` stay, every other byte becomes `%` and two hexadecimal digits;
-- "." and ".." are written that way too, and the empty key is "%". So is the last character of a key that could be taken for a node
-- of a lock at the prefix, such as "import-lock-0000000002" or "leases". Different keys give different paths. Keys that
-- would take more than 200 bytes keep their beginning, followed by "%-" and the SHA-256 of the whole key: no two
-- strings with the same one are known, nor a way to find some, and even then the two keys would only keep each
-- other waiting.
--
-- The prefix may be the path of a lock. Neither blocks the other.
--
-- @tparam string prefix a path like "/locks/file"
-- @tparam string key
-- @treturn string "/locks/file/…"
-- @raise when prefix is no path, or key no string
return function(prefix, key)
    local wrong = options.path_problem(prefix)
    if wrong then
        error("zklock.path: prefix: " .. wrong, 2)
    elseif type(key) ~= "string" then
        error(format("zklock.path: key must be a string (got a %s)", type(key)), 2)
    end
    return prefix .. "/" .. component(key)
end
