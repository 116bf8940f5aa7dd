--- What a client reports to its program: its states, and lines for a log.

local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

describe("on(\"state\")", function()
    after_each(fixture.clean)

    it("reports a lost connection and the next one, in that order", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 20 })
        client:pump() -- the state connected may not have been reported yet
        local seen = {}
        local off = client:on("state", function(state)
            if seen[#seen] ~= state then
                seen[#seen + 1] = state
            end
        end)
        link:refuse()
        link:cut()
        fixture.pump_until(client, function()
            return seen[1] == "suspended"
        end)
        link:accept()
        fixture.pump_until(client, function()
            return seen[2] == "connected"
        end)
        off()
        client:close()
        assert.same({ "suspended", "connected" }, seen)
    end)

    it("reports the problem", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 20 })
        local problems = {}
        client:pump()
        client:on("state", function(_, problem)
            problems[#problems + 1] = problem
        end)
        link:refuse()
        link:cut()
        fixture.pump_until(client, function()
            return problems[1] and problems[1] ~= ""
        end)
    end)

    it("reports the client's end", function()
        local client = fixture.client()
        local last
        client:on("state", function(state)
            last = state
        end)
        client:close()
        assert.equal("closed", last)
    end)

    it("survives a callback that raises, reports the error, and still calls the other callbacks", function()
        local lines, called = {}, false
        local client = fixture.client({ log = function(level, message)
            lines[#lines + 1] = level .. ": " .. message
        end })
        client:on("state", function()
            error("not my day", 0)
        end)
        client:on("state", function()
            called = true
        end)
        assert.is_true(client:close())
        assert.is_true(called)
        assert.truthy(table.concat(lines, "\n"):find('error: the callback on("state") raised: not my day', 1, true))
    end)
end)

describe("the log option", function()
    after_each(fixture.clean)

    it("keeps the latest 64 lines for a program that does not fetch them", function()
        local lines = {}
        local client = fixture.client({ session_timeout = 20, log = function(_, message)
            lines[#lines + 1] = message
        end })
        client:pump()
        lines = {} -- where it is connected
        local path, acquisitions = fixture.path(), {}
        local spec = assert(core.lock_spec { path = path, mode = "mutex", identity = "one of many", acl = "open" })
        fixture.join(path)
        for index = 1, 70 do
            acquisitions[index] = fixture.ask(client, spec)
        end
        fixture.await_children(path, 71)
        local deleted = {}
        for _, name in ipairs(fixture.children(path)) do
            if name:find("%-lock%-") and not name:find("01234567", 1, true) then
                deleted[name] = true
                fixture.observer():delete(path .. "/" .. name)
            end
        end
        eventually(function() -- all of them queue again, and each writes a line
            local again = 0
            for _, name in ipairs(fixture.children(path)) do
                again = again + (deleted[name] and 0 or 1)
            end
            return again == 71, again
        end)
        client:pump()
        assert.equal("waiting", (acquisitions[70]:phase()))
        assert.equal(64, #lines)
        local last = 64
        while lines[last]:find("Exceeded deadline", 1, true) do -- libzookeeper says so on a busy machine
            last = last - 1
        end
        assert.truthy(lines[last]:find("queueing again", 1, true), lines[last])
    end)

    it("is called for each line, with a level", function()
        local levels = {}
        local client, link = fixture.client_behind_proxy({ log = function(level, message)
            assert(type(message) == "string")
            levels[level] = (levels[level] or 0) + 1
        end })
        link:cut()
        fixture.pump_until(client, function()
            return next(levels)
        end)
        for level in pairs(levels) do
            assert.truthy(({ error = true, warn = true, info = true, debug = true })[level])
        end
    end)

    it("may raise without harm", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 20, log = function()
            error("no log today")
        end })
        link:cut()
        assert(client:mutex(fixture.path()):acquire(20))
    end)
end)
