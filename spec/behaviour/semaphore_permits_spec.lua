--- No more permits of a semaphore are taken than there are. Several permits are taken together or not at all, in arrival order.

local hold_of = require "spec.support.hold_of"
local new_dice = require "spec.support.dice"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local semaphores = require "spec.support.semaphores"
local zklock = require "zklock"

after_each(fixture.clean)

describe("a semaphore", function()
    it("grants as many permits as it has, and refuses the next request #valgrind #asan", function()
        local path = fixture.path()
        local client = fixture.client()
        local taken = {}
        for index = 1, 3 do
            taken[index] = client:semaphore(path, 3)
            assert(taken[index]:acquire(10))
        end
        local late = client:semaphore(path, 3)
        local ok, message, code = late:try_acquire()
        assert.same({ nil, "timeout" }, { ok, code })
        assert.truthy(message:find(path, 1, true), message)
        eventually(function() -- if the notification has come in time
            ok, message, code = late:acquire(0.2)
            assert.same({ nil, "timeout" }, { ok, code })
            return message:find("within 0.2 s: it has not 1 of its 3 permits left", 1, true), message
        end)
        for index = 1, 3 do
            assert.is_true(taken[index]:held())
            assert.is_true(taken[index]:release())
        end
        semaphores.await_nodes(path, 0)
    end)

    it("grants one permit for each released permit #asan", function()
        local path = fixture.path()
        local first, second, third = fixture.semaphore(path, 2), fixture.semaphore(path, 2), fixture.semaphore(path, 2)
        local order = {}
        loop.run(function()
            semaphores.hold(first, 20)
            semaphores.hold(second, 20)
            semaphores.until_line(path, 1)
            order[#order + 1] = "given back"
            assert.is_true(second:release())
        end, function()
            semaphores.until_leases(path, 2)
            assert(third:acquire(20))
            order[#order + 1] = "let in"
        end)
        assert.same({ "given back", "let in" }, order)
        assert.is_true(hold_of(first):held() and hold_of(third):held())
        semaphores.await_nodes(path, 2)
    end)

    it("grants several permits together, and releases them together #valgrind #asan", function()
        local path = fixture.path()
        local three, two = fixture.semaphore(path, 4), fixture.semaphore(path, 4)
        assert(three:acquire({ count = 3, timeout = 10 }))
        semaphores.await_nodes(path, 3)
        assert.equal(1, three:available())
        assert.equal("timeout", select(3, two:try_acquire({ count = 2 })))
        assert.equal("timeout", select(3, two:acquire({ count = 2, timeout = 0.2 })))
        semaphores.await_nodes(path, 3)
        assert(two:try_acquire({ count = 1 }))
        assert.is_true(two:release())
        assert.is_true(three:release())
        semaphores.await_nodes(path, 0)
        assert(two:try_acquire({ count = 4 }))
        semaphores.await_nodes(path, 4)
    end)

    it("with one permit blocks like a mutex #asan", function()
        local path = fixture.path()
        local inside, most, turns, functions = 0, 0, 0, {}
        for index = 1, 4 do
            local mine = fixture.semaphore(path, 1)
            functions[index] = function()
                for _ = 1, 5 do
                    assert(mine:acquire(30))
                    inside = inside + 1
                    most = math.max(most, inside)
                    loop.until_true(function()
                        return true
                    end)
                    turns = turns + 1
                    inside = inside - 1
                    assert(mine:release())
                end
            end
        end
        loop.run_all(functions)
        assert.same({ 20, 1 }, { turns, most })
        semaphores.await_nodes(path, 0)
    end)

    it("serves waiters in arrival order, also a waiter for more permits than are free before a waiter for fewer", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 3)
        local counts, served, functions = { 2, 1, 3, 1 }, {}, {}
        semaphores.hold(holder, { count = 2, timeout = 10 })
        for index, count in ipairs(counts) do
            local mine = fixture.semaphore(path, 3)
            functions[index] = function()
                semaphores.until_line(path, index - 1)
                assert(mine:acquire({ count = count, timeout = 30 }))
                served[#served + 1] = index
                assert(mine:release())
            end
        end
        functions[#functions + 1] = function()
            semaphores.until_line(path, #counts)
            assert.same({}, served)
            assert(hold_of(holder):release())
        end
        loop.run_all(functions)
        assert.equal(#counts, #served)
        -- The first and the second waiter fit together, so either may be resumed first. The others do not fit together.
        assert.same({ 3, 4 }, { served[3], served[4] })
        semaphores.await_nodes(path, 0)
    end)

    it("returns the number of available permits", function()
        local path = fixture.path()
        local mine, client = fixture.semaphore(path, 5)
        assert.equal(5, mine:permits())
        assert.equal(5, mine:available())
        assert.is_nil((fixture.observer():exists(path)))
        assert(mine:acquire({ count = 2, timeout = 10 }))
        assert.equal(3, mine:available(10))
        assert.equal(3, client:semaphore(path, 5):available())
        local lease = semaphores.take_lease(path)
        assert.equal(2, mine:available())
        fixture.observer():delete(lease)
        assert.is_true(mine:release())
        assert.equal(5, mine:available())
        client:close()
        assert.equal("closed", select(3, mine:available()))
    end)

    it("lists the permits that are taken, then the waiters #valgrind #asan", function()
        local path = fixture.path()
        local first = fixture.semaphore(path, 3, { identity = "first" })
        local second = fixture.semaphore(path, 3, { identity = "second" })
        assert.same({}, first:contenders())
        semaphores.hold(first, { count = 2, timeout = 10 })
        assert.same({ true, "semaphore" }, { first:held(), tostring(first):match("^zklock (%a+) %(") and "semaphore" })
        local list
        loop.run(function()
            assert.equal("cancelled", select(3, second:acquire({ count = 2, timeout = 20 })))
        end, function()
            loop.until_true(function()
                return semaphores.has_line(path, 1) and semaphores.child_watches() == 1
            end)
            list = assert(first:contenders(10))
            second:cancel()
        end)
        local seen = {}
        for index, contender in ipairs(list) do
            seen[index] = ("%s %s %s"):format(contender.mode, contender.identity, tostring(contender.holder))
        end
        -- The waiter may have created its lease entries already.
        assert.same({ "lease first true", "lease first true" }, { seen[1], seen[2] })
        assert.equal("exclusive second false", seen[#seen])
        assert.equal(path .. "/leases", list[1].node:match("^(.*)/"))
        assert.equal(path .. "/locks", list[#list].node:match("^(.*)/"))
    end)

    it("is not granted while a lock on its queue is held, but is granted while a lock on a key below it is held", function()
        local path, client = fixture.path(), fixture.client()
        local permits, queue = client:semaphore(path, 2), client:mutex(path .. "/locks")
        assert(queue:acquire(10))
        fixture.assert_times_out(permits, 0.1)
        assert(queue:release())
        local one, other = client:mutex(zklock.path(path, "locks")), client:mutex(zklock.path(path, "leases"))
        assert(one:acquire(10))
        assert(other:acquire(10))
        assert(permits:acquire(10))
        assert.is_true(one:held() and other:held())
        assert(permits:release())
    end)

    it("has a node, a growing token and a path while it is held", function()
        local mine, client = fixture.semaphore(fixture.path(), 2)
        local last = ""
        for _ = 1, 5 do
            assert.is_nil(mine:token())
            assert.is_nil(mine:node())
            assert(mine:acquire({ count = 2, timeout = 10 }))
            assert.is_true(mine:token() > last, last)
            last = mine:token()
            assert.equal(mine:path() .. "/leases", mine:node():match("^(.*)/"))
            assert.is_true(mine:remaining() > 0)
            assert.is_true(mine:release())
        end
        assert.equal("not_held", select(3, mine:release()))
        assert(client:flush(10))
        semaphores.await_nodes(mine:path(), 0)
    end)

    it("answers deadlock to a second acquire of one object, unless it is reentrant and holds as many permits", function()
        local path = fixture.path()
        local plain, client = fixture.semaphore(path, 3)
        assert(plain:acquire(10))
        assert.equal("deadlock", select(3, plain:acquire(10)))
        assert.is_true(plain:release())
        local again = client:semaphore(path, 3, { reentrant = true })
        assert(again:acquire({ count = 2, timeout = 10 }))
        assert(again:acquire({ count = 1 }))
        assert(again:acquire({ count = 2 }))
        local ok, message, code = again:acquire({ count = 3 })
        assert.same({ nil, "deadlock" }, { ok, code })
        assert.truthy(message:find("3", 1, true) and message:find("2", 1, true), message)
        semaphores.await_nodes(path, 2)
        for _ = 1, 3 do
            assert.is_true(again:held())
            assert.is_true(again:release())
        end
        assert.is_false(again:held())
        semaphores.await_nodes(path, 0)
    end)

    it("runs with_lock with the given count, and releases the permits whatever the function does #valgrind #asan", function()
        local mine = fixture.semaphore(fixture.path(), 3)
        local function look(given, word)
            assert.is_true(given:held())
            return #fixture.children(mine:path() .. "/leases"), word
        end
        assert.same({ true, 2, "word" }, { mine:with_lock(look, { count = 2, timeout = 10 }, "word") })
        assert.same({ true, 1, "word" }, { mine:with_lock(look, 10, "word") })
        assert.same({ true, 1, "word" }, { mine:with_lock(look, nil, "word") })
        local problem = {}
        local ok, raised = pcall(mine.with_lock, mine, function()
            error(problem)
        end, { count = 3 })
        assert.is_false(ok)
        assert.equal(problem, raised)
        semaphores.await_nodes(mine:path(), 0)
        local other = fixture.semaphore(mine:path(), 3)
        assert(other:acquire({ count = 2, timeout = 10 }))
        assert.equal("timeout", select(3, mine:with_lock(look, { count = 2, timeout = 0.1 })))
        assert.equal("timeout", select(3, mine:with_lock(look, { count = 2, timeout = 0 })))
    end)

    it("is released before the server's acknowledgement if asked not to wait, and becomes free all the same", function()
        local mine, client = fixture.semaphore(fixture.path(), 2)
        for _ = 1, 5 do
            assert(mine:acquire({ count = 2, timeout = 10 }))
            assert.is_true(mine:release({ wait = false }))
            assert.is_false(mine:held())
        end
        assert(client:flush(10))
        assert.same({}, fixture.children(mine:path() .. "/leases"))
        assert.same({}, fixture.children(mine:path() .. "/locks"))
    end)

    it("grants a thousand permits at once #asan", function()
        local path = fixture.path()
        local mine, client = fixture.semaphore(path, 1000)
        assert(mine:acquire({ count = 1000, timeout = 30 }))
        semaphores.await_nodes(path, 1000)
        assert.equal(0, mine:available())
        assert.equal("timeout", select(3, client:semaphore(path, 1000):try_acquire()))
        assert.is_true(mine:release())
        semaphores.await_nodes(path, 0)
        local most = client:semaphore(fixture.path(), 2147483647)
        assert(most:acquire({ count = 1000, timeout = 30 }))
        assert.equal(2147483647 - 1000, most:available())
        assert.is_true(most:release())
        assert.equal(0, client:stats().entries)
    end)

    it("never has more permits taken than there are, whatever its clients do", function()
        local path = fixture.path()
        local permits, out, most, turns, functions = 3, 0, 0, 0, {}
        for index = 1, 5 do
            local mine, client = fixture.semaphore(path, permits)
            local roll = new_dice(index * 7919)
            functions[index] = function()
                for _ = 1, 12 do
                    local count = roll(permits)
                    local way = roll(4)
                    local got
                    if way == 1 then
                        got = mine:try_acquire({ count = count })
                    elseif way == 2 then
                        got = mine:acquire({ count = count, timeout = roll(20) / 1000 })
                    else
                        got = assert(mine:acquire({ count = count, timeout = 40 }))
                    end
                    if got then
                        out = out + count
                        most = math.max(most, out)
                        turns = turns + 1
                        loop.until_true(function()
                            return true
                        end)
                        out = out - count
                        assert.is_true(mine:release({ wait = roll(2) == 1 }))
                    end
                end
                assert(client:flush(20))
                assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
            end
        end
        loop.run_all(functions)
        assert.is_true(turns >= 30, turns)
        assert.is_true(most <= permits, most)
        semaphores.await_nodes(path, 0)
    end)
end)

describe("acquirers of several permits", function()
    for _, clients in ipairs({ 1, 2 }) do
        it(("two of 2 out of 2, of %d client(s), never block each other #asan"):format(clients), function()
            local path = fixture.path()
            local functions, out, turns = {}, 0, 0
            local first, client = fixture.semaphore(path, 2)
            for index, mine in ipairs({ first, clients == 1 and client:semaphore(path, 2) or fixture.semaphore(path, 2) }) do
                functions[index] = function()
                    for _ = 1, 40 do
                        assert(mine:acquire({ count = 2, timeout = 40 }))
                        out = out + 2
                        assert.equal(2, out)
                        turns = turns + 1
                        out = out - 2
                        assert(mine:release({ wait = turns % 2 == 0 }))
                    end
                end
            end
            loop.run_all(functions)
            assert.equal(80, turns)
            semaphores.await_nodes(path, 0)
        end)
    end

    it("in separate processes, of 2 out of 2, never block each other #real", function()
        local path = fixture.path()
        local acquirers = {}
        for index = 1, 2 do
            acquirers[index] = fixture.program("acquirer", fixture.servers(), path, 2, 20)
        end
        for index = 1, 2 do
            assert.equal("ready", acquirers[index]:line())
        end
        for index = 1, 2 do
            acquirers[index]:tell("rounds 60 2")
        end
        for index = 1, 2 do
            assert.equal("ok", acquirers[index]:line())
        end
        semaphores.await_nodes(path, 0)
    end)

    it("four of 1 to 3 out of 3 are all granted", function()
        local path = fixture.path()
        local functions, out, turns = {}, 0, 0
        for index = 1, 4 do
            local mine = fixture.semaphore(path, 3)
            local roll = new_dice(index * 104729)
            functions[index] = function()
                for _ = 1, 15 do
                    local count = roll(3)
                    assert(mine:acquire({ count = count, timeout = 40 }))
                    out = out + count
                    assert.is_true(out <= 3, out)
                    if roll(2) == 1 then
                        loop.until_true(function()
                            return true
                        end)
                    end
                    turns = turns + 1
                    out = out - count
                    assert(mine:release())
                end
            end
        end
        loop.run_all(functions)
        assert.equal(60, turns)
        semaphores.await_nodes(path, 0)
    end)
end)

describe("a semaphore made with a float", function()
    it("returns integers all the same, in a Lua that has integers", function()
        local path = fixture.path()
        local mine = fixture.client():semaphore(path, 3.0, { handoff = 2.0 })
        assert.equal("3", tostring(mine:permits()))
        assert.equal("3", tostring(mine:available()))
        assert(mine:acquire({ count = 2.0, timeout = 10 }))
        assert.equal("1", tostring(mine:available()))
        assert.equal("2", tostring(mine:revoke(10)))
        assert.is_true(mine:release())
    end)
end)
