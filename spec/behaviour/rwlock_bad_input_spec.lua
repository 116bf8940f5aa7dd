--- A mistake in a call on read/write locks raises an error at the caller's line and names what is wrong.

local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"
local mistake = require "spec.support.mistake"

describe("client:rwlock refuses", function()
    local client

    setup(function()
        client = fixture.client()
    end)

    teardown(fixture.clean)

    for index, path in ipairs({ "", "x", "/", "/a/", "/a//b", "/a/./b", "/a\0b", 5, {}, true }) do
        it(("a bad path (%d)"):format(index), function()
            mistake(function()
                local rw = client:rwlock(path)
                return rw
            end, "client:rwlock: ")
        end)
    end

    it("a missing path, and a path in a table", function()
        mistake(function()
            local rw = client:rwlock()
            return rw
        end, "path")
        mistake(function()
            local rw = client:rwlock({ path = "/a" })
            return rw
        end, "path")
    end)

    for _, case in ipairs({
        { "reentrant", 1 }, { "max_hold", 0 }, { "max_hold", -1 }, { "max_hold", 0 / 0 }, { "max_hold", math.huge },
        { "max_hold", "5" }, { "on_lost", true }, { "on_revoke", "x" }, { "identity", "" }, { "wait_release", "no" },
        { "acl", "creator" }, { "acl", {} }
    }) do
        it(("a wrong %s (%s)"):format(case[1], tostring(case[2]):gsub("0x%x+", "")), function()
            mistake(function()
                local rw = client:rwlock("/a", { [case[1]] = case[2] })
                return rw
            end, "client:rwlock: option '" .. case[1] .. "' must")
        end)
    end

    it("unknown options, and a permits option", function()
        mistake(function()
            local rw = client:rwlock("/a", { permits = 5 })
            return rw
        end, "unknown option 'permits'")
        mistake(function()
            local rw = client:rwlock("/a", 5)
            return rw
        end, "options must be a table")
    end)

    it("a call with a dot instead of a colon", function()
        local rw = client:rwlock("/a")
        for _, method in ipairs({ "with_read", "with_write", "path", "contenders" }) do
            mistake(function()
                local result = rw[method]()
                return result
            end, "rwlock:" .. method)
        end
    end)

    it("a function argument that is not a function, an invalid timeout, a count", function()
        local rw = client:rwlock("/a")
        for _, way in ipairs({ "with_read", "with_write" }) do
            for text, arguments in pairs({ ["the first argument must be a function"] = { 5 }, timeout = { print, -1 } }) do
                mistake(function()
                    local result = rw[way](rw, compat.unpack(arguments))
                    return result
                end, "rwlock:" .. way .. ": " .. text)
            end
        end
        for _, lock in ipairs({ rw.read, rw.write }) do
            mistake(function()
                local result = lock:acquire({ count = 2 })
                return result
            end, "unknown option 'count'")
        end
        mistake(function()
            local result = rw:contenders("soon")
            return result
        end, "rwlock:contenders: timeout")
    end)
end)
