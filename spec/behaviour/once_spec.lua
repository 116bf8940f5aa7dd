--- once: a job is done once in each period, whatever happens to the programs that do it.

local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local socket = require "socket"

--- A period that ends in no spec: all times since 1970 are in the first one.
local FOR_EVER = { every = 1e12 }

local function never()
    error("this must not run")
end

--- Returns the record that once has answered, which must say that the job has ended before.
local function already(done, record)
    assert.is_false(done)
    return record
end

after_each(fixture.clean)

describe("once", function()
    it("runs the function in one program of all, and tells the others who has run it, and when #asan", function()
        local path, ran, results, functions = fixture.path(), 0, {}, {}
        for index = 1, 5 do
            local client = fixture.steady_client { identity = "machine " .. index }
            functions[index] = function()
                results[index] = compat.pack(client:once(path, FOR_EVER, function(hold)
                    ran = ran + 1
                    assert.is_true(hold:held())
                    return "report", nil
                end))
            end
        end
        loop.run_all(functions)
        assert.equal(1, ran)
        local by
        for index = 1, 5 do
            if results[index][1] then
                by = "machine " .. index
                assert.same({ n = 3, true, "report", nil }, results[index])
            end
        end
        for index = 1, 5 do
            if not results[index][1] then
                local record = already(compat.unpack(results[index], 1, results[index].n))
                assert.same({ by, "done" }, { record.by, record.outcome })
                assert.is_true(record.begun > 1e9)
            end
        end
        assert.is_false(fixture.client():once(path, FOR_EVER, never))
    end)

    it("runs it again in the next name, in names that have any bytes, and not in the same", function()
        local client, path, ran = fixture.client { identity = "a\n%0A b" }, fixture.path(), {}
        local function run()
            ran[#ran + 1] = #ran + 1
        end
        for index, slot in ipairs { "2026-11-28", "2026-11-29", "v1.9", "v1.10\nbegun 5\n%41\1", ("x"):rep(1024) } do
            assert.is_true(client:once(path, { slot = slot }, run))
            local record = already(client:once(path, { slot = slot }, never))
            assert.same({ slot, "a\n%0A b", index }, { record.slot, record.by, #ran })
        end
    end)

    it("does not run a function again that has failed, unless retry_failed says so", function()
        local client, path, problem = fixture.client(), fixture.path(), {}
        local ok, raised = pcall(client.once, client, path, FOR_EVER, function()
            error(problem)
        end)
        assert.is_false(ok)
        assert.equal(problem, raised)
        assert.equal("failed", already(client:once(path, FOR_EVER, never)).outcome)
        local again = { every = FOR_EVER.every, retry_failed = true }
        assert.same({ n = 3, true, nil, "no disk" }, compat.pack(client:once(path, again, function()
            return nil, "no disk"
        end)))
        assert.equal("failed", already(client:once(path, FOR_EVER, never)).outcome)
        assert.same({ n = 2, true, false }, compat.pack(client:once(path, again, function()
            return false
        end)))
        assert.equal("done", already(client:once(path, again, never)).outcome)
    end)

    it("answers timeout while another program is at it", function()
        local path = fixture.path()
        fixture.join(path)
        assert.equal("timeout", select(3, fixture.client():once(path, { every = 60, timeout = 0 }, never)))
        assert.equal("timeout", select(3, fixture.client():once(path, { every = 60, timeout = 0.1 }, never)))
    end)

    it("at least once: a program that loses its session after the function's end has recorded nothing, and it runs again #asan",
        function()
            local path, ran, first = fixture.path(), 0, nil
            local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 4 })
            local other = fixture.steady_client()
            loop.run(function()
                first = compat.pack(client:once(path, FOR_EVER, function(hold)
                    ran = ran + 1
                    link:refuse()
                    link:cut()
                    return hold
                end))
            end, function()
                loop.until_true(function()
                    return ran == 1
                end)
                assert.is_true(other:once(path, FOR_EVER, function()
                    assert.is_false(first and first[4]:held() or false)
                    ran = ran + 1
                end))
            end)
            assert.same({ 4, "lost", 2 }, { first.n, first[3], ran })
            assert.is_false(other:once(path, FOR_EVER, never))
        end)

    it("records what has ended although the reply is lost", function()
        local path = fixture.path()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 20 })
        loop.run(function()
            assert.same({ true, 7 }, { client:once(path, FOR_EVER, function()
                link:arm("multi", "after")
                return 7
            end) })
        end)
        assert.equal("done", already(fixture.client():once(path, FOR_EVER, never)).outcome)
    end)

    it("answers lost at once if the lock is lost while the function runs", function()
        local client, path = fixture.client { session_timeout = 4 }, fixture.path()
        local results = compat.pack(client:once(path, FOR_EVER, function(hold)
            assert(fixture.observer():delete(hold:node()))
            fixture.await_not_held(hold)
            return 7
        end))
        assert.same({ nil, "lost", 7 }, { results[1], results[3], results[4] })
        assert.is_true(client:once(path, FOR_EVER, function() end))
    end)

    it("writes nothing after the lock was lost unnoticed", function()
        local client, path = fixture.client(), fixture.path()
        local results = compat.pack(client:once(path, FOR_EVER, function(hold)
            assert(fixture.observer():delete(hold:node()))
        end))
        assert.same({ nil, "lost" }, { results[1], results[3] })
        assert.equal("", (fixture.observer():get(path .. "%once")))
    end)

    it("does not run a function whose record is of a later period: a new leader's clock may be behind", function()
        local client, path = fixture.client(), fixture.path()
        assert(client:once(path, { every = 1 }, function() end))
        assert(fixture.observer():set(path .. "%once", "begun 99999999999\nby x\noutcome done\n"))
        assert.equal("x", already(client:once(path, { every = 1 }, never)).by)
    end)

    it("takes a marker that is no record for none", function()
        local client, path = fixture.client(), fixture.path()
        assert(client:once(path, FOR_EVER, function() end))
        assert(fixture.observer():set(path .. "%once", "begun\n\1"))
        assert.is_true(client:once(path, FOR_EVER, function() end))
        assert.is_false(client:once(path, FOR_EVER, never))
    end)

    it("refuses what is malformed", function()
        local client = fixture.client()
        local function nothing() end
        for words, arguments in pairs {
            ["path must be a string"] = { nil, { every = 1 }, nothing },
            ["give one of the options 'every' and 'slot'"] = { "/x", {}, nothing },
            ["give one of the options 'every' and 'slot' "] = { "/x", { every = 1, slot = "x" }, nothing },
            ["option 'every' must be a number of seconds above 0"] = { "/x", { every = 0 }, nothing },
            ["option 'slot' must be a string of 1 to 1024 bytes"] = { "/x", { slot = "" }, nothing },
            ["the third argument must be a function (got nil)"] = { "/x", { every = 1 } },
            ["unknown option 'period'"] = { "/x", { period = 1 }, nothing }
        } do
            mistake(function()
                client:once(arguments[1], arguments[2], arguments[3])
            end, "client:once: ", (words:gsub(" $", "")))
        end
    end)

    if is_virtual then
        it("runs it again in the next period of the servers' clock, whatever the clock of the machine says", function()
            local client, path, ran, time = fixture.client(), fixture.path(), 0, os.time
            local function run()
                ran = ran + 1
            end
            for round = 1, 3 do
                os.time = function() -- luacheck: ignore 122
                    return 1e9 * (round % 2)
                end
                client:once(path, { every = 3600 }, run)
                assert.equal(round, ran)
                assert.is_false(client:once(path, { every = 3600 }, never))
                socket.sleep(3600)
            end
            os.time = time -- luacheck: ignore 122
        end)
    end
end)
