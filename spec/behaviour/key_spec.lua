--- zklock.path: any key becomes a separate path that ZooKeeper accepts.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local sha256 = require "zklock.sha256"
local zklock = require "zklock"

local path = zklock.path

--- Returns the key from which a path was made, if the path was not shortened.
local function key_of(whole, prefix)
    local written = assert(whole:sub(1, #prefix + 1) == prefix .. "/" and whole:sub(#prefix + 2))
    if written == "%" then
        return ""
    end
    assert(not written:find("/", 1, true))
    return (written:gsub("%%(%x%x)", function(digits)
        return string.char(tonumber(digits, 16))
    end))
end

describe("zklock.path", function()
    after_each(fixture.clean)

    it("leaves plain names as they are", function()
        for _, key in ipairs { "report", "Report_7.pdf", "a-b~c", "...x", "2026-11-21", "zookeeper" } do
            assert.equal("/locks/file/" .. key, path("/locks/file", key))
        end
    end)

    it("writes every other byte as a percent sign and two hexadecimal digits", function()
        assert.equal("/l/a%2Fb%00%20%25%C3%A4", path("/l", "a/b\0 %ä"))
    end)

    it("never makes an empty name or a name of dots", function()
        assert.equal("/l/%", path("/l", ""))
        assert.equal("/l/%2E", path("/l", "."))
        assert.equal("/l/%2E%2E", path("/l", ".."))
    end)

    it("escapes the last character of a name that a lock's own nodes could have", function()
        for key, written in pairs {
            ["lock-0000000002"] = "lock-000000000%32",
            ["import-lock-0000000002"] = "import-lock-000000000%32",
            ["_c_9-__WRIT__-000000009"] = "_c_9-__WRIT__-00000000%39",
            ["9__rlock__-2147483648"] = "9__rlock__-214748364%38",
            ["lease-0000000010"] = "lease-000000001%30",
            ["ex0000000001"] = "ex000000000%31",
            ["x-100-0000000001"] = "x-100-000000000%31",
            locks = "lock%73",
            leases = "lease%73"
        } do
            assert.equal("/l/" .. written, path("/l", key))
            assert.equal(key, key_of(path("/l", key), "/l"))
        end
        for _, key in ipairs {
            "order-1732272000", "2147483647", "import-lock-2", "lock-000000002", "lock-00000000002", "ex1", "lock-", "lock",
            "x-1-2", "lock-0000000002x", "lease", "index0000000001"
        } do
            assert.equal("/l/" .. key, path("/l", key))
        end
    end)

    it("gives different paths to keys that look alike", function()
        local keys = {
            "", "%", "%%", "%2F", "/", "//", ".", "%2E", "%2e", "..", "...", "a", "A", "a/", "/a", "a\0", "\0a",
            "locks", "lock%73", "lock-0000000001", "lock-000000000%31"
        }
        local seen = {}
        for _, key in ipairs(keys) do
            local made = path("/l", key)
            assert.is_nil(seen[made])
            seen[made] = true
            assert.equal(key, key_of(made, "/l"))
        end
    end)

    it("can be read back for any key of up to 66 bytes", function()
        for length = 1, 66 do
            local bytes = {}
            for index = 1, length do
                bytes[index] = string.char(math.random(0, 255))
            end
            local key = table.concat(bytes)
            assert.equal(key, key_of(path("/l", key), "/l"))
        end
        for code = 0, 255 do
            assert.equal(string.char(code), key_of(path("/l", string.char(code)), "/l"))
        end
    end)

    it("shortens names of more than 200 bytes, and keeps long keys with the same beginning and end apart", function()
        assert.equal("/l/" .. ("x"):rep(200), path("/l", ("x"):rep(200)))
        local long = ("x"):rep(201)
        assert.equal("/l/" .. ("x"):rep(100) .. "%-" .. sha256(long), path("/l", long))
        assert.is_true(path("/l", ("x"):rep(5000) .. "a" .. long) ~= path("/l", ("x"):rep(5000) .. "b" .. long))
        for lead = 0, 3 do
            local made = path("/l", ("x"):rep(lead) .. ("\0"):rep(100))
            assert.truthy(made:match("^/l/x*[%%0]*%%%-%x+$"))
            assert.is_nil(made:match("%%%x?%%"), made)
            assert.is_true(#made <= 3 + 100 + 2 + 64)
        end
    end)

    it("raises at the caller's line for an invalid prefix or key", function()
        for _, prefix in ipairs { "", "/", "locks", "/locks/", "/a//b", 7, false } do
            local ok, problem = pcall(function()
                path(prefix, "key")
            end)
            assert.is_false(ok)
            assert.truthy(problem:find("key_spec.lua:%d+: zklock.path: prefix: "), problem)
        end
        for _, case in ipairs { { 7, "7" }, { false, "false" }, { {}, "a table" } } do
            local ok, problem = pcall(function()
                path("/l", case[1])
            end)
            assert.is_false(ok)
            local wanted = ("key_spec.lua:%%d+: zklock.path: key must be a string %%(got %s%%)"):format(case[2])
            assert.truthy(problem:find(wanted), problem)
        end
    end)

    it("makes paths that ZooKeeper accepts, each of them a separate lock", function()
        local client = fixture.client()
        local prefix = fixture.path()
        local keys = { "", ".", "..", "/", "a/b", "\0", "zookeeper", "\127\128\255", "日本", "_c_0-lock-0000000001" }
        keys[#keys + 1] = ("long/"):rep(1000)
        for _, key in ipairs(keys) do
            assert(client:mutex(path(prefix, key)):acquire(10)):release()
        end
        local locks = {}
        for index, key in ipairs(keys) do
            locks[index] = client:mutex(path(prefix, key))
            assert(locks[index]:try_acquire())
        end
        for _, lock in ipairs(locks) do
            assert(lock:release())
        end
    end)
end)

describe("the hash of long keys", function()
    it("is SHA-256", function()
        assert.equal("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", sha256(""))
        assert.equal("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", sha256("abc"))
        for _, length in ipairs { 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 1000, 4096 } do
            local command = ("head -c %d /dev/zero | tr '\\0' '\\371' | sha256sum"):format(length)
            local expected = cluster.run({ "sh", "-c", command })
            assert.equal(expected:match("^%x+"), sha256(("\249"):rep(length)))
        end
    end)

    it("is the same when computed by arithmetic alone, for a Lua without bit operators and without a bit library", function()
        local bare = setmetatable({ _G = { loadstring = true }, require = error }, { __index = _G })
        local chunk
        if rawget(_G, "setfenv") then
            chunk = setfenv(assert(loadfile("lua/zklock/sha256.lua")), bare) -- luacheck: ignore
        else
            chunk = assert(loadfile("lua/zklock/sha256.lua", "t", bare))
        end
        local by_arithmetic = chunk()
        for _, text in ipairs { "", "abc", ("\249"):rep(119), ("\0\255"):rep(100) } do
            assert.equal(sha256(text), by_arithmetic(text))
        end
    end)
end)
