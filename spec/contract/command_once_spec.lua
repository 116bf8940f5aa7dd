--- `zklock once`: outcomes and exit codes. once_spec.lua says what is promised.

local commands = require "spec.support.commands"
local dkjson = require "dkjson"
local fixture = require "spec.support.fixture"

--- A period that ends while no spec runs.
local FOR_EVER = "9999999h"

--- Runs `zklock once` with these words. The command writes "ran".
local function once(path, words, script, options)
    local list = { "once", "--status-fd", "1" }
    for _, word in ipairs(words) do
        list[#list + 1] = word
    end
    for _, word in ipairs { path, "-c", "echo ran; " .. (script or "exit 0") } do
        list[#list + 1] = word
    end
    local result = commands.run(list, options)
    result.ran = result.output:find "^ran\n" ~= nil
    result.outcome = dkjson.decode(result.output:match "([^\n]*)\n$" or "{}")
    return result
end

describe("zklock once", function()
    after_each(fixture.clean)

    it("runs the command once in a period, and then says who has done it, and exits with 123, another code, or 0 #asan", function()
        local path = fixture.path()
        local first = once(path, { "--identity", "web3", "--every", FOR_EVER })
        assert.same({ 0, true, "exited" }, { first.status, first.ran, first.outcome.outcome })
        for code, words in pairs { [123] = {}, [9] = { "-E", "9" }, [0] = { "--skip-ok" } } do
            words[#words + 1], words[#words + 2] = "--every", FOR_EVER
            local result = once(path, words)
            assert.same({ code, false, "already" }, { result.status, result.ran, result.outcome.outcome })
            assert.same({ "web3", "done" }, { result.outcome.last.by, result.outcome.last.outcome })
            assert.is_true(result.outcome.last.begun > 1e9 and result.outcome.last.age < 3600)
            local said = "zklock: " .. path .. " was done in this period by web3, "
            assert.equal(said, result.errors:sub(1, #said))
            assert.truthy(result.errors:sub(#said + 1):find "^%S+ %a+ ago\n$", result.errors)
        end
        local quiet = once(path, { "-q", "--every", FOR_EVER })
        assert.same({ 123, "" }, { quiet.status, quiet.errors })
        assert.equal(0, once(path, { "--slot", "another" }).status)
        assert.same({}, fixture.children(path))
    end)

    it("runs a command that has failed again if --retry-failed is given", function()
        local path = fixture.path()
        assert.equal(7, once(path, { "--slot", "x" }, "exit 7").status)
        local failed = once(path, { "--slot", "x" })
        assert.same({ 123, false, "failed" }, { failed.status, failed.ran, failed.outcome.last.outcome })
        assert.truthy(failed.errors:find("--retry-failed runs it again", 1, true), failed.errors)
        assert.equal(137, once(path, { "--slot", "x", "--retry-failed" }, "kill -KILL $$").status)
        assert.is_true(once(path, { "--slot", "x", "--retry-failed" }).ran)
        assert.is_false(once(path, { "--slot", "x", "--retry-failed" }).ran)
    end)

    it("runs a command again that was lost, was stopped by a signal, or gave way to another contender #asan", function()
        local path = fixture.path()
        local lock = fixture.client():mutex(path)
        for _, stop in ipairs {
            function()
                assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
                return 120
            end,
            function(wrapper)
                wrapper:signal "TERM"
                return 143
            end,
            function()
                assert.equal(1, lock:revoke(20))
                return 143
            end
        } do
            local wrapper = commands.start { "once", "--on-revoke", "stop", "--slot", "x", path, "-c",
                "echo begun; exec sleep 600" }
            assert.equal("begun", wrapper:line())
            local code = stop(wrapper)
            assert.equal(code, wrapper:finish().status)
        end
        assert.is_true(once(path, { "--slot", "x" }).ran)
    end)

    it("makes a new node for the record if the old one was deleted", function()
        local path = fixture.path()
        local wrapper = commands.start { "once", "--slot", "x", path, "-c", "echo begun; read -r line" }
        assert.equal("begun", wrapper:line())
        assert(fixture.observer():delete(path .. "%once"))
        wrapper:tell "end"
        assert.equal(0, wrapper:finish().status)
        assert.is_false(once(path, { "--slot", "x" }).ran)
    end)

    it("keeps the lock after the record with --at-least, and releases at once where there is nothing to do", function()
        local path = fixture.path()
        local result = once(path, { "--slot", "x", "--at-least", "1s" })
        assert.same({ 0, true }, { result.status, result.ran })
        assert.is_true(result.outcome.held >= 1)
        result = once(path, { "--slot", "x", "--at-least", "1h" })
        assert.same({ 123, "already" }, { result.status, result.outcome.outcome })
    end)

    it("exits with 125 for its own usage", function()
        local nowhere = { servers = "127.0.0.1:1" }
        for words, problem in pairs {
            ["/x"] = "give --every TIME or --slot NAME", ["--every 0 /x"] = "must be a duration above 0",
            ["--every 1h --slot x /x"] = "can not be used", ["-s --every 1h /x"] = "-s and -p cannot be combined",
            ["-p 1/2 --every 1h /x"] = "-s and -p cannot be combined", ["--every 1h --detach /x"] = "--detach needs --at-least"
        } do
            local list = { "once" }
            for word in words:gmatch "%S+" do
                list[#list + 1] = word
            end
            list[#list + 1], list[#list + 2] = "-c", "true"
            local result = commands.run(list, nowhere)
            assert.equal(125, result.status, words)
            assert.truthy(result.errors:find(problem, 1, true), result.errors)
        end
        local result = commands.run({ "once", "--every", "1h", "/x", "true" }, nowhere)
        assert.truthy(result.errors:find("zklock once PATH -- COMMAND", 1, true), result.errors)
    end)
end)
