--- The examples: each is run as a user would run it, and must show what it says that it shows.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- redis-lua is plain Lua that runs on 5.4, but Debian files it under 5.1 to 5.3 only.
local LUA_PATH = package.path .. ";/usr/share/lua/5.3/?.lua"

--- Runs an example to its end and returns what it printed.
local function run(name, ...)
    local output, status = cluster.run({
        "timeout", "-s", "KILL", "60", "env", "-u", "LUA_PATH_5_4", "-u", "LUA_CPATH_5_4",
        "LUA_PATH=" .. LUA_PATH, "LUA_CPATH=" .. package.cpath,
        program.interpreter(), "examples/" .. name .. ".lua", fixture.servers(), ...
    })
    assert(status == 0, ("%s ended with %d:\n%s"):format(name, status, output))
    return output
end

local function has(text, line)
    assert(("\n" .. text .. "\n"):find("\n" .. line .. "\n", 1, true), ("no line '%s' in\n%s"):format(line, text))
end

local function count(text, pattern)
    return select(2, text:gsub(pattern, ""))
end

describe("the example", function()
    after_each(fixture.clean)

    it("ten_clients shows ten processes that take turns in the order of the queue, two of which are killed", function()
        local output = run("ten_clients")
        local queue = assert(output:match("^the queue:([^\n]+)\n"))
        local expected = queue:gsub(" client%-4%f[^%d]", "")
        local came = ""
        for name in output:gmatch("\n(%S+) in%f[\n]") do
            came = came .. " " .. name
        end
        assert.equal(expected, came)
        assert.equal(9, count(output, "%S+ in\n"))
        assert.equal(8, count(output, "%S+ out\n"))
        has(output, "client-4 is killed while it waits")
        has(output, "client-7 is killed while it is inside")
    end)

    it("keys locks keys with any bytes in them, one lock each", function()
        local output = run("keys")
        has(output, "17 keys locked at once by one client")
        has(output, "each of them is taken and free by itself, for another client too")
    end)

    it("leader shows one leader at a time, and who takes over when it is killed or stands still", function()
        local story = {}
        for who, what in run("leader"):gmatch("(%a+) (%a+ ?%a*)[^\n]*") do
            if what == "leads" or what == "is killed" or what == "stands still" or what == "steps down" then
                story[#story + 1] = { who, what }
            end
        end
        local a, b, c = story[1][1], story[3][1], story[5][1]
        assert.is_true(a ~= b and b ~= c and c ~= a)
        assert.same({
            { a, "leads" }, { a, "is killed" }, { b, "leads" }, { b, "stands still" }, { c, "leads" }, { b, "steps down" },
            { c, "is killed" }, { b, "leads" }
        }, story)
    end)

    it("fencing shows that Redis refuses the late write of a holder that stood still, and takes it without a token", function()
        local output = run("fencing")
        has(output, "slow: wakes up, writes, and is refused")
        has(output, "slow: held() says false")
        has(output, "with tokens compared:    fast")
        assert.truthy(output:find("without the comparison:  slow ", 1, true))
    end)
end)
