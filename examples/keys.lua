-- Many keys, one lock each. Keys come from outside the program and may contain anything: slashes, NUL, dots, any script,
-- nothing, or a whole page. The function zklock.path makes a path of each key, and different paths of different keys, so that
-- two keys never share a lock. A lock object costs nothing until it is acquired, and ZooKeeper removes an unused lock's
-- directory itself: there is no limit to the number of keys.
--
--   lua examples/keys.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local zklock = require "zklock"

local KEYS = {
    "order 4711", "order/4711", "order%2F4711", "order", "", ".", "..", "...", "/", "//", "a\0b", "a",
    "Straße", "東京", "\255\254", ("a very long key, "):rep(100), ("a very long key, "):rep(101)
}

-- Shortens a text for a line of output.
local function short(text, head, tail)
    return #text > head + tail and text:sub(1, head) .. "..." .. text:sub(-tail) or text
end

local function quoted(key)
    return '"' .. key:gsub("[%z\1-\31\127-\255]", function(c) return ("\\%d"):format(c:byte()) end) .. '"'
end

common.main(function()
    local prefix = common.fresh_path("keys")
    local ours, theirs = assert(zklock.connect(common.servers)), assert(zklock.connect(common.servers))

    local locks = {}
    for index, key in ipairs(KEYS) do
        local path = zklock.path(prefix, key)
        locks[index] = ours:mutex(path)
        assert(locks[index]:try_acquire()) -- free, although we hold the locks of all earlier keys
        print(("%-28s %s"):format(short(quoted(key), 20, 4), short(path:sub(#prefix + 1), 24, 24)))
    end
    print(("%d keys locked at once by one client"):format(#KEYS))

    for index, key in ipairs(KEYS) do
        local lock = theirs:mutex(zklock.path(prefix, key))
        local _, _, code = lock:try_acquire()
        assert(code == "timeout") -- the other client finds the same key taken …
        assert(locks[index]:release())
        assert(lock:try_acquire()) -- … and free as soon as we give it back, whatever other keys we hold
    end
    print("each of them is taken and free by itself, for another client too")
end)
