--- Permits return when their holders end or fail. No permit is taken twice or lost with a connection.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local semaphores = require "spec.support.semaphores"

after_each(fixture.clean)

describe("permits return", function()
    it("at once when their client is closed #asan", function()
        local path = fixture.path()
        local mine, client = fixture.semaphore(path, 2, nil, { session_timeout = 30 })
        local other = fixture.semaphore(path, 2)
        semaphores.hold(mine, { count = 2, timeout = 10 })
        loop.run(function()
            assert(other:acquire({ count = 2, timeout = 20 }))
        end, function()
            semaphores.until_line(path, 1)
            assert.is_true(client:close())
        end)
        assert.is_false(mine:held())
        assert.equal("lost", select(3, mine:release()))
        assert.equal("closed", select(3, mine:acquire(10)))
        semaphores.await_nodes(path, 2)
    end)

    it("at once when their process ends, and after the session timeout when it is killed #real", function()
        local path = fixture.path()
        local mine = fixture.semaphore(path, 2, nil, { session_timeout = 30 })
        for _, case in ipairs({ { 30 }, { 6, "KILL" } }) do
            local acquirer = fixture.program("acquirer", fixture.servers(), path, 2, case[1])
            assert.equal("ready", acquirer:line())
            assert.equal("ok", acquirer:ask("take 2"))
            assert.equal("timeout", select(3, mine:try_acquire()))
            if case[2] then
                acquirer:signal(case[2])
            else
                acquirer:tell("exit")
            end
            assert(mine:acquire({ count = 2, timeout = 40 }))
            assert.is_true(mine:release())
        end
    end)

    it("when their session ends, and on_lost is called #asan", function()
        local path = fixture.path()
        local told
        local mine, client = fixture.semaphore(path, 2, { on_lost = function(...)
            told = { ... }
        end }, { session_timeout = 6 })
        assert(mine:acquire({ count = 2, timeout = 10 }))
        fixture.kill_owner(mine:node())
        local other = fixture.semaphore(path, 2)
        assert(other:acquire({ count = 2, timeout = 20 }))
        fixture.pump_until(client, function()
            return told
        end)
        assert.is_false(mine:held())
        assert.same({ path, "lost" }, { told[1]:path(), told[2] })
        assert.equal("lost", select(3, mine:release()))
        assert.is_true(other:release())
        assert(mine:acquire({ count = 2, timeout = 20 }))
    end)

    it("when the program forgets the lock object that holds them #valgrind #asan", function()
        local path = fixture.path()
        local client = fixture.client({ session_timeout = 30 })
        do
            assert(client:semaphore(path, 2):acquire({ count = 2, timeout = 10 }))
        end
        fixture.collect()
        semaphores.await_nodes(path, 0)
        assert(client:semaphore(path, 2):try_acquire({ count = 2 }))
    end)

    it("after max_hold, without a release", function()
        local path = fixture.path()
        local reason
        local mine, client = fixture.semaphore(path, 2, { max_hold = 2, on_lost = function(_, why)
            reason = why
        end })
        assert(mine:acquire({ count = 2, timeout = 10 }))
        local other = fixture.semaphore(path, 2)
        assert(other:acquire({ count = 2, timeout = 20 }))
        assert.is_false(mine:held())
        fixture.pump_until(client, function()
            return reason
        end)
        assert.equal("max_hold", reason)
        assert.is_true(other:held())
        assert.equal(2, #fixture.children(path .. "/leases"))
    end)
end)

describe("when the connection is lost, a semaphore", function()
    for _, case in ipairs({ { "create", 0 }, { "create", 1 }, { "create", 2 }, { "children", 0 }, { "children", 1 } }) do
        for _, moment in ipairs({ "before", "after" }) do
            it(("takes its permits once if %s %d is cut %s the server has it"):format(case[1], case[2] + 1, moment), function()
                local path = fixture.path()
                assert(fixture.observer():create_all(path .. "/locks"))
                assert(fixture.observer():create(path .. "/leases", "2"))
                local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
                local mine = client:semaphore(path, 2)
                link:arm(case[1], moment, case[2])
                assert(mine:acquire({ count = 2, timeout = 20 }))
                assert.equal(2, #fixture.children(path .. "/leases"))
                link:disarm()
                assert(mine:release())
                assert(client:flush(10))
                semaphores.await_nodes(path, 0)
                assert.equal(1, client:stats().sessions)
            end)
        end
    end

    it("releases its permits if a delete is cut", function()
        for skip = 0, 1 do
            local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
            local mine = client:semaphore(fixture.path(), 2)
            assert(mine:acquire({ count = 2, timeout = 20 }))
            assert(client:flush(10))
            link:arm("delete", "after", skip)
            assert.is_true(mine:release())
            assert(client:flush(10))
            semaphores.await_nodes(mine:path(), 0)
            fixture.clean()
        end
    end)

    it("answers disconnected to questions that it cannot answer", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local mine = client:semaphore(fixture.path(), 2)
        fixture.cut_off(client, link)
        assert.equal("disconnected", select(3, mine:available(0.2)))
        assert.equal("disconnected", select(3, mine:try_acquire()))
        assert.equal("disconnected", select(3, mine:acquire({ count = 2, timeout = 0.2 })))
        link:accept()
        assert(mine:acquire({ count = 2, timeout = 20 }))
    end)

    -- In a fault campaign a server had lost the directory of the permits. It did not answer the creates and did not list the other
    -- clients' nodes. The client then connected to another server, saw its lost permits in each list, and took them for another
    -- client's. No permit was granted for 87 s, until the client's session ended.
    it("deletes permits of its own that it did not know", function()
        local path, client, observer = fixture.directory(), fixture.client(), fixture.observer()
        local mine = client:semaphore(path, 2)
        assert(mine:acquire(10))
        local stem = mine:node():match("/_c_(%x+%-%x+%-%x+%-%x+%-)")
        assert.is_true(mine:release())
        local function leave(prefix)
            return assert(observer:create(("%s/leases/_c_%s-lease-"):format(path, prefix), "", { sequential = true }))
        end
        local others = leave(fixture.UUID)
        local stray = leave(stem .. "ffffffffffff")
        assert(mine:acquire(10))
        assert.is_false(observer:exists(stray) and true or false)
        assert.is_true(mine:release())
        stray = leave(stem .. "fffffffffffe")
        assert.equal("timeout", (select(3, mine:try_acquire())))
        eventually(function()
            return not observer:exists(stray)
        end)
        assert(observer:exists(others))
    end)

    it("whose session ends is notified, and its permits go to others", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 6 })
        local mine = client:semaphore(fixture.path(), 2)
        assert(mine:acquire({ count = 2, timeout = 20 }))
        link:stall()
        fixture.kill_owner(mine:node())
        assert(fixture.semaphore(mine:path(), 2):acquire({ count = 2, timeout = 20 }))
        link:resume()
        fixture.await_not_held(mine)
        assert.equal("lost", select(3, mine:release()))
    end)
end)
