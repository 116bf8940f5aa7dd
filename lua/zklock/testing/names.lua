--- testing.names: what zklock.core says of names and paths, for zklock.testing. The rules are those of csrc/lock/names.c, without
-- the names of other libraries, and of csrc/base/base.c.

local text = require "zklock.text"

local pairs, tonumber = pairs, tonumber

local names = {}

--- The kind of a node, by the part of its name before the number, which stands after "_c_", a uuid and a hyphen, or at the end.
local KINDS = { ["lock-"] = "exclusive", ["__WRIT__"] = "exclusive", ["__READ__"] = "shared", ["lease-"] = "lease" }

--- Returns what a name of a lock's child says: "exclusive", "shared" or "lease", its number, and what the uuids of its acquisition
-- have in common, if it has one; nil: it is no contender's.
function names.parse(name)
    local head, digits = name:match "^(.*%D)(%d%d%d%d%d%d%d%d%d%d)$"
    local uuid, rest = (head or ""):match "^_c_(%x+%-%x+%-%x+%-%x+%-%x+)%-(.*)$"
    for marker, kind in pairs(KINDS) do
        if head and (rest == marker or not uuid and ("-" .. head):sub(-#marker - 1) == "-" .. marker) then
            return kind, tonumber(digits), uuid and uuid:sub(1, -4)
        end
    end
    return nil
end

--- Returns the problem with the characters of a path, or nil.
local function text_problem(path)
    local at = 1
    while at <= #path do
        local first, length = path:byte(at), text.character(path, at)
        if not length and not path:find("^\237[\160-\191][\128-\191]", at) then -- half of a pair
            return "it must be UTF-8"
        end
        length = length or 3
        local code = length == 1 and first or first % 2 ^ (7 - length)
        for index = at + 1, at + length - 1 do
            code = code * 64 + path:byte(index) % 64
        end
        if code < 0x20 or code >= 0x7f and code <= 0x9f or code >= 0xd800 and code <= 0xf8ff or code >= 0xfff0 then
            return "it must not contain control characters or others that ZooKeeper forbids " ..
                "(U+D800 to U+F8FF, U+FFF0 and beyond)"
        end
        at = at + length
    end
    return nil
end

--- Returns the problem with a node's path, or nil.
function names.node_path_problem(path)
    if path:sub(1, 1) ~= "/" then
        return "it must start with '/'"
    elseif #path > 900000 then
        return "it must not be longer than 900000 bytes: a server takes no request with more"
    elseif path:find("%z") then
        return "it must not contain a NUL byte"
    elseif path == "/" then
        return nil
    elseif path:sub(-1) == "/" then
        return "it must not end with '/'"
    end
    for name in path:gmatch "/([^/]*)" do
        local problem = text_problem(name)
        if problem then
            return problem
        elseif name == "" then
            return "it must not contain an empty name ('//')"
        elseif name == "." or name == ".." then
            return "it must not contain the names '.' or '..'"
        end
    end
    return nil
end

--- Returns the problem with a lock's path, or nil.
function names.path_problem(path)
    if path == "/" then
        return "a lock needs a directory of its own below '/'"
    elseif path:find "^/zookeeper$" or path:find "^/zookeeper/" then
        return "'/zookeeper' is ZooKeeper's own"
    elseif #path > 32768 then
        return "it must not be longer than 32768 bytes: it is in each of a lock's requests, in some more than once"
    end
    return names.node_path_problem(path)
end

return names
