--- `zklock bench` on real servers: what it measures and leaves behind, and what it refuses.

local commands = require "spec.support.commands"
local dkjson = require "dkjson"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

local function exists(path)
    local stat, problem = fixture.observer():exists(path)
    assert(stat or problem == "no_node", problem)
    return stat ~= nil
end

describe("zklock bench", function()
    after_each(fixture.clean)

    it("measures, says what the figures mean, and leaves nothing behind", function()
        local path = fixture.directory() .. "/bench"
        local result = commands.run { "bench", "--seconds", "1", "--contenders", "3", "--path", path, "--json" }
        assert.equal(0, result.status, result.errors)
        local results = assert(dkjson.decode(result.output))
        for _, name in ipairs { "connect", "write", "read", "lock", "hand_over" } do
            local summary = results[name]
            assert.is_true(summary.count > 0, name)
            assert.is_true(summary.p50 > 0 and summary.p50 <= summary.p90, name)
            assert.is_true(summary.p90 <= summary.p99 and summary.p99 <= summary.max and summary.mean <= summary.max, name)
        end
        assert.equal(3, results.connect.count)
        assert.equal(30, results.session_timeout)
        assert.is_true(results.locks_per_second > 0 and results.most_locks_per_second > 0)
        assert.is_true(#results.remarks >= 5)
        assert.is_false(exists(path))
    end)

    it("begins no more operations than its rate allows", function()
        local path = fixture.directory() .. "/bench"
        local result = commands.run { "bench", "--seconds", "2", "--rate", "10", "--contenders", "2", "--path", path, "--json" }
        assert.equal(0, result.status, result.errors)
        local results = assert(dkjson.decode(result.output))
        for _, name in ipairs { "write", "read", "lock", "hand_over" } do
            assert.is_true(results[name].count <= 6, name) -- half a second; the first is at its beginning
        end
    end)

    it("writes a table for people, without colors where there is no terminal", function()
        local path = fixture.directory() .. "/bench"
        local result = commands.run { "bench", "--seconds", "1", "--path", path }
        assert.equal(0, result.status, result.errors)
        for _, text in ipairs {
            "MEDIAN +90 %% +99 %% +MAX +COUNT\n", "\nwrite +[%d.]+ m?s ", "\n4 contenders: ", "%-%-session%-timeout %d"
        } do
            assert.truthy(result.output:find(text), result.output)
        end
        assert.is_nil(result.output:find("\27", 1, true))
    end)

    it("removes its nodes when Ctrl-C ends it, whatever it is measuring", function()
        for _, part in ipairs { "write", "lock", "hand_over" } do
            local path = fixture.directory() .. "/bench"
            local bench = commands.start { "bench", "--seconds", part == "write" and "600" or "8", "--path", path }
            local below = ({ write = "", lock = "/alone", hand_over = "/shared" })[part]
            if below ~= "" then -- a node before the measurement's keeps it from going on
                eventually(function()
                    return exists(path)
                end)
                fixture.join(path .. below, nil, "somebody else")
                fixture.await_children(path .. below, part == "lock" and 2 or 5)
            end
            eventually(function()
                return exists(path .. below)
            end)
            bench:signal "INT"
            assert.equal(130, bench:finish().status, part)
            assert.is_false(exists(path), part)
        end
    end)

    --- Sends Ctrl-C while the reply to the create of its node is under way, and calls act(link). Returns the path and the errors.
    local function interrupt_create(act)
        local link, path = fixture.proxy(), fixture.directory() .. "/bench"
        link:arm("create", "stall-reply")
        local bench = commands.start({ "bench", "--path", path }, { servers = link.address })
        link:wait_fired(60)
        bench:signal "INT"
        act(link)
        local result = bench:finish()
        assert.equal(130, result.status)
        return path, result.errors
    end

    it("removes its node when Ctrl-C ends it before the servers have answered that they have created it", function()
        local path = interrupt_create(function(link)
            link:resume()
        end)
        assert.is_false(exists(path))
    end)

    it("says that it cannot know whether its node exists, if Ctrl-C ends it and the servers do not answer", function()
        local path, errors = interrupt_create(function() end)
        assert.truthy(errors:find("no server has said whether " .. path .. " was created", 1, true), errors)
        assert.is_true(exists(path))
    end)

    it("says so, too, if the connection is lost meanwhile", function()
        local path, errors = interrupt_create(function(link)
            link:refuse()
            link:cut()
        end)
        assert.truthy(errors:find("whether it was executed is not known", 1, true), errors)
        assert.is_true(exists(path))
    end)

    it("refuses a path that exists, and does not touch it", function()
        local path = fixture.directory()
        assert(fixture.observer():create(path .. "/mine", "data"))
        local result = commands.run { "bench", "--seconds", "1", "--path", path }
        assert.equal(125, result.status)
        assert.truthy(result.errors:find(path .. " exists", 1, true), result.errors)
        assert.equal("data", (fixture.observer():get(path .. "/mine")))
    end)

    it("refuses a path whose parent does not exist, and one that is malformed", function()
        local path = fixture.directory()
        local result = commands.run { "bench", "--path", path .. "/no/bench" }
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("the parent of " .. path .. "/no/bench does not exist", 1, true), result.errors)
        result = commands.run { "bench", "--path", "bench" }
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("bad path", 1, true), result.errors)
    end)

    it("asks before more load, and before it connects", function()
        for _, more in ipairs { { "--contenders", "17" }, { "--rate", "201" } } do
            local result = commands.run({ "bench", more[1], more[2] }, { servers = "127.0.0.1:1" })
            assert.equal(125, result.status)
            assert.truthy(result.errors:find("nothing is done without --yes", 1, true), result.errors)
        end
        local path = fixture.directory() .. "/bench"
        local result = commands.run { "bench", "--seconds", "1", "--contenders", "17", "--rate", "1000", "--yes", "--path", path,
            "--json" }
        assert.equal(0, result.status, result.errors)
        assert.equal(17, assert(dkjson.decode(result.output)).connect.count)
    end)

    it("ends with the code of a server that does not answer", function()
        local result = commands.run({ "bench", "--connect-timeout", "0.2" }, { servers = "127.0.0.1:1" })
        assert.equal(121, result.status)
    end)
end)
