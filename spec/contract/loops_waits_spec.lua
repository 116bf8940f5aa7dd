--- In every event loop a wait suspends one coroutine: the other coroutines keep running, and each gets what it waits for.

local compat = require "spec.support.compat"
local coroutines = require "spec.support.coroutines"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loops = require "spec.support.loops"
local socket = require "socket"
local zklock = require "zklock"

--- Defines the promises for one loop.
local function promises(loop)
    after_each(fixture.clean)

    it("coroutines that share a path hold it one at a time, in the order of the queue #asan", function()
        loop.run(function()
            local client, path, order, inside = loops.client(loop), fixture.path(), {}, 0
            local first = fixture.join(path)
            for number = 1, 5 do
                local lock = client:mutex(path, { handoff = 0 })
                loop.spawn(function()
                    assert(lock:acquire(20))
                    order[#order + 1] = number
                    inside = inside + 1
                    assert.equal(1, inside)
                    loop.sleep(0.02)
                    inside = inside - 1
                    assert(lock:release())
                    order.released = (order.released or 0) + 1
                end)
                loops.until_true(loop, function()
                    return fixture.has(path, number + 1)
                end)
            end
            fixture.observer():delete(first)
            loops.until_true(loop, function()
                return order.released == 5
            end)
            assert.same({ 1, 2, 3, 4, 5, released = 5 }, order)
            assert(client:flush(10))
            assert.same({}, fixture.children(path))
        end)
    end)

    for _, kind in ipairs(kinds) do
        for _, reentrant in ipairs({ false, true }) do
            it(("coroutines use one %s object, each for itself (reentrant: %s) #asan"):format(kind.name, tostring(reentrant)),
                function()
                    local client, inside, most, turns = nil, 0, 0, 0
                    local shared = kind.name == "read lock"
                    loop.run(function()
                        client = loops.client(loop)
                        local path = fixture.path()
                        local lock, beside = kind.new(client, path, { reentrant = reentrant }), client:mutex(fixture.path())
                        local all = client:multi({ lock, beside })
                        for number = 1, 5 do
                            loop.spawn(function()
                                for round = 1, 2 do
                                    local mine = (number + round) % 3 == 0 and all or lock
                                    assert(mine:acquire(30))
                                    inside = inside + 1
                                    most = math.max(most, inside)
                                    assert.is_true(mine:held() and lock:held())
                                    if reentrant then
                                        assert(lock:acquire(30))
                                        assert.is_true(lock:release())
                                    else
                                        assert.equal("deadlock", select(3, lock:acquire(30)))
                                    end
                                    loop.sleep(0.02)
                                    assert.is_true(mine:held())
                                    inside = inside - 1
                                    assert.is_true(mine:release())
                                    assert.equal("not_held", select(3, mine:release()))
                                end
                                turns = turns + 1
                            end)
                        end
                        loops.until_true(loop, function()
                            return turns == 5
                        end)
                        assert(client:flush(10))
                        assert.is_false(coroutines.is_used(lock))
                        assert.same({}, fixture.children(path .. kind.directories[#kind.directories]))
                    end)
                    assert.equal(shared, most > 1)
                end)
        end
    end

    it("a wait lets the other coroutines run", function()
        local ticks, ticker = loops.new_ticker(loop)
        loop.run(function()
            local client = loops.client(loop)
            local lock = client:mutex(fixture.path())
            fixture.join(lock:path())
            assert.equal("cancelled", select(3, loops.while_going_on(ticks, 10, function()
                lock:cancel()
            end, function()
                return lock:acquire(60)
            end)))
            ticks.stop = true
        end, ticker)
    end)

    it("two coroutines wait for two locks, and each gets its own when it is free", function()
        local events = {}
        loop.run(function()
            local client = loops.client(loop)
            local nodes, got = {}, 0
            local locks = { client:mutex(fixture.path()), client:mutex(fixture.path()) }
            for index, lock in ipairs(locks) do
                nodes[index] = fixture.join(lock:path())
                loop.spawn(function()
                    assert(lock:acquire(20))
                    got = got + 1
                    events[#events + 1] = index
                end)
            end
            loops.until_true(loop, function()
                return fixture.has(locks[1]:path(), 2) and fixture.has(locks[2]:path(), 2)
            end)
            fixture.observer():delete(nodes[2])
            loops.until_true(loop, function()
                return got == 1
            end)
            fixture.observer():delete(nodes[1])
            loops.until_true(loop, function()
                return got == 2
            end)
            assert.same({ 2, 1 }, events)
        end)
    end)

    it("a wait ends when its time is up, and leaves nothing behind", function()
        loop.run(function()
            local client, path, answer = loops.client(loop), fixture.path(), nil
            local lock, patient = client:mutex(path, { handoff = 0 }), client:mutex(path, { handoff = 0 })
            fixture.join(path)
            loop.spawn(function()
                answer = compat.pack(patient:acquire(3600))
            end)
            loops.until_true(loop, function()
                return fixture.has(path, 2)
            end)
            fixture.assert_times_out(lock)
            assert.equal("timeout", select(3, lock:try_acquire()))
            assert.is_nil(answer) -- the time of the longer wait is not up
            assert(client:flush(10))
            assert.equal(2, #fixture.children(path))
            assert.is_true(patient:cancel())
            loops.until_true(loop, function()
                return answer
            end)
            assert.equal("cancelled", answer[3])
            assert(client:flush(10))
            assert.equal(1, #fixture.children(path))
        end)
    end)

    for _, several in ipairs { false, true } do
        it(("a wait for %s whose time is up while the loop stands still ends when the loop goes on"):format(
            several and "several locks" or "a lock"), function()
            loop.run(function()
                local client, begun, answer = loops.client(loop, { session_timeout = 30 }), false, nil
                local lock = client:mutex(fixture.path())
                local object = several and client:multi { client:mutex(fixture.path()), lock } or lock
                fixture.join(lock:path())
                loop.spawn(function()
                    begun = true
                    answer = compat.pack(object:acquire(0.2))
                end)
                loops.until_true(loop, function()
                    return begun
                end)
                -- The other coroutine is not resumed meanwhile, but each pump sees that it should have gone on.
                for _ = 1, 3 do
                    socket.sleep(0.8)
                    client:pump()
                end
                loops.until_true(loop, function()
                    return answer
                end, "the end of the wait")
                assert.same({ "timeout", 3 }, { answer[3], answer.n })
                assert.equal(1, client:group_stats().default.refusals.timeout)
                assert(client:flush(20))
                assert.equal(1, #fixture.children(lock:path()))
                loops.until_true(loop, function()
                    return not client:needs_pump()
                end)
            end)
        end)
    end

    it("a wait that another coroutine cancels ends, and leaves nothing behind #asan", function()
        loop.run(function()
            local client = loops.client(loop)
            local lock, answer = client:mutex(fixture.path()), nil
            fixture.join(lock:path())
            loop.spawn(function()
                answer = compat.pack(lock:acquire(20))
            end)
            loops.until_true(loop, function()
                return fixture.has(lock:path(), 2)
            end)
            assert.is_true(lock:cancel())
            loops.until_true(loop, function()
                return answer
            end)
            assert.equal("cancelled", answer[3])
            assert(client:flush(10))
            assert.equal(1, #fixture.children(lock:path()))
        end)
    end)

    it("a client that is closed ends the waits of its coroutines", function()
        loop.run(function()
            local client = loops.client(loop)
            local lock, answers = client:mutex(fixture.path()), {}
            local _, _, watch = assert(client:get(fixture.directory(), { watch = true }))
            fixture.join(lock:path())
            loop.spawn(function()
                answers.lock = compat.pack(lock:acquire(20))[3]
            end)
            loop.spawn(function()
                answers.watch = compat.pack(watch:wait(20))[3]
            end)
            loops.until_true(loop, function()
                return fixture.has(lock:path(), 2)
            end)
            assert(client:close())
            loops.until_true(loop, function()
                return answers.lock and answers.watch
            end)
            assert.same({ lock = "closed", watch = "closed" }, answers)
            assert.equal("closed", select(3, lock:acquire(5)))
        end)
    end)

    it("semaphores, read/write locks and multis wait as well", function()
        loop.run(function()
            local client = loops.client(loop)
            local first, second, path = client:mutex(fixture.path()), client:mutex(fixture.path()), fixture.path()
            local rwlock, inside, most, ended = client:rwlock(fixture.path()), 0, 0, 0
            local function work(lock)
                loop.spawn(function()
                    assert(lock:acquire(20))
                    inside = inside + 1
                    most = math.max(most, inside)
                    loop.sleep(0.02)
                    inside = inside - 1
                    assert(lock:release())
                    ended = ended + 1
                end)
            end
            for _ = 1, 5 do
                work(client:semaphore(path, 2))
            end
            loops.until_true(loop, function()
                return ended == 5
            end)
            assert.is_true(most <= 2)
            most, ended = 0, 0
            work(client:multi({ first, second }))
            work(client:multi({ client:mutex(second:path()), client:mutex(first:path()) }))
            loops.until_true(loop, function()
                return ended == 2
            end)
            assert.equal(1, most)
            assert(rwlock.read:acquire(10))
            fixture.assert_times_out(client:rwlock(rwlock.read:path()).write)
        end)
    end)

    it("coroutines wait for a latch, and another one counts down #asan", function()
        local ticks, ticker = loops.new_ticker(loop)
        loop.run(function()
            local client, path, open = loops.client(loop), fixture.path(), 0
            local latch, other = client:latch(path, 2), client:latch(path, 2)
            local function wait()
                assert.is_true(latch:wait(60))
                open = open + 1
            end
            loop.spawn(wait)
            loop.spawn(wait)
            loops.until_true(loop, function()
                return fixture.is_watched(path .. "/gate")
            end)
            assert.is_true(latch:count_down(60))
            assert.equal(1, latch:count(60))
            assert.equal(0, open)
            assert.equal("cancelled", select(3, loops.while_going_on(ticks, 10, function()
                other:cancel()
            end, function()
                return other:wait(60)
            end)))
            assert.is_true(latch:count_down(60))
            loops.until_true(loop, function()
                return open == 2
            end)
            assert.is_true(other:wait(0))
            ticks.stop = true
        end, ticker)
    end)

    it("several clients wait in one loop", function()
        loop.run(function()
            local path, ended = fixture.path(), 0
            local clients = {}
            for index = 1, 4 do
                loop.spawn(function()
                    clients[index] = loops.client(loop)
                    assert(clients[index]:mutex(path):with_lock(function()
                        ended = ended + 1
                    end, 20))
                end)
            end
            loops.until_true(loop, function()
                return ended == 4
            end)
        end)
    end)

    it("two hundred coroutines wait for one lock, and each gets it #asan", function()
        local ticks, ticker = loops.new_ticker(loop)
        loop.run(function()
            local client, path, ended = loops.client(loop, { session_timeout = 60 }), fixture.path(), 0
            local node = fixture.join(path)
            for _ = 1, 200 do
                loop.spawn(function()
                    local lock = client:mutex(path, { wait_release = false, handoff = 0 })
                    assert(lock:acquire(50))
                    ended = ended + 1
                    assert(lock:release())
                end)
            end
            loops.until_true(loop, function()
                return fixture.has(path, 201)
            end)
            local before, most = 0, 0 -- grants between two turns of the ticker; each grant needs a server's answer
            function ticks.each()
                before, most = ended, math.max(most, ended - before)
            end
            fixture.observer():delete(node)
            loops.until_true(loop, function()
                return ended == 200
            end)
            ticks.each()
            assert.is_true(most < 100, most .. " grants in one turn")
            ticks.stop = true
        end, ticker)
    end)

    it("a ZooKeeper that does not answer keeps no coroutine from running", function()
        local client, link = fixture.client_behind_proxy({ wait = "blocking" })
        client:close()
        local ticks, ticker = loops.new_ticker(loop)
        loop.run(function()
            client = loops.client(loop, { session_timeout = 60 }, link.address)
            local lock = client:mutex(fixture.path())
            link:stall()
            assert.equal("cancelled", select(3, loops.while_going_on(ticks, 20, function()
                lock:cancel()
            end, function()
                return lock:acquire(60)
            end)))
            local other, _, code = zklock.connect(link.address, { connect_timeout = 0.5, wait = loop.name })
            assert.is_nil(other)
            assert.equal("disconnected", code)
            assert(loops.while_going_on(ticks, 20, function()
                link:resume()
            end, function()
                return zklock.connect(link.address, { connect_timeout = 60, wait = loop.name })
            end)):close()
            assert(lock:acquire(60))
            ticks.stop = true
        end, ticker)
    end)

    it("a wait on the main thread runs the loop", function()
        local client = loops.client(loop)
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        fixture.assert_times_out(client:mutex(lock:path()))
        assert(lock:release())
        assert(client:close())
    end)
end

for _, loop in ipairs(loops.each()) do
    describe("in " .. loop.name .. ",", function()
        promises(loop)
    end)
end

-- A loop that this Lua lacks is named among what was left out, also if its package is there and cannot be loaded.
for _, name in ipairs { "cqueues", "luv", "copas" } do
    local there, problem = pcall(require, name)
    if not there then
        describe("in " .. name .. ",", function()
            it("locks work with " .. (jit and jit.version or _VERSION), function()
                pending(problem:match "^[^\n]*[^\n:]")
            end)
        end)
    end
end
