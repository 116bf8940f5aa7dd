--- What ends a hold beside its release: that it lasted for max_hold, and others who ask for it. And what makes one longer:
-- acquiring again, on every kind of lock that is reentrant.

local socket = require "socket"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

for _, kind in ipairs(kinds) do
    describe("max_hold of a " .. kind.name, function()
        after_each(fixture.clean)

        it("ends the hold after so long, tells once, and lets the next one in #valgrind #asan", function()
            local told = {}
            local client = fixture.steady_client()
            local path = fixture.path()
            local lock = kind.new(client, path, { max_hold = 1.5, on_lost = function(...)
                told[#told + 1] = { ... }
                assert.is_false((...):held())
            end })
            local rival = kinds.new_rival(kind, path)
            local before = socket.gettime()
            assert(lock:acquire(10))
            local granted = socket.gettime()
            assert.is_true(lock:held())
            assert.is_true(lock:remaining() <= 1.5)
            loop.run(function()
                assert(rival:acquire(20))
                assert.is_false(lock:held())
            end)
            local after = socket.gettime()
            assert.is_true(after - before >= 1.49 and after - granted < 15, after - granted)
            assert.is_false(lock:held())
            assert.equal(0, lock:remaining())
            assert.is_nil(lock:token())
            assert.is_nil(lock:node())
            fixture.pump_until(client, function()
                return told[1]
            end)
            assert.equal(lock, told[1][1])
            assert.equal("max_hold", told[1][2])
            assert.truthy(told[1][3]:find(path, 1, true), told[1][3])
            assert.truthy(told[1][3]:find("max_hold", 1, true), told[1][3])
            assert.is_true(rival:release())
            assert(client:flush(10))
            assert.same({}, fixture.children(kinds.holders(kind, path)))
            local released, message, code = lock:release()
            assert.same({ nil, "lost" }, { released, code })
            assert.truthy(message:find("max_hold", 1, true), message)
            assert.equal("not_held", select(3, lock:release()))
            assert(lock:acquire(10))
            assert.is_true(lock:release())
            assert.equal(1, #told)
            assert.same({ 0, 0 }, { client:stats().seats, client:stats().watches })
        end)

        it("is over at the instant, though nobody pumps and no server answers #asan", function()
            local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
            local path = fixture.path()
            local told = {}
            local lock = kind.new(client, path, { max_hold = 1, on_lost = function(_, reason)
                told[#told + 1] = reason
            end })
            assert(lock:acquire(20))
            local granted = socket.gettime()
            link:stall()
            while lock:held() do
                assert(socket.gettime() - granted < 5)
            end
            assert.is_nil(lock:token())
            assert.equal(1, #fixture.children(kinds.holders(kind, path)))
            fixture.pump_until(client, function()
                return told[1]
            end)
            assert.same({ "max_hold" }, told)
            link:resume()
            fixture.await_children(kinds.holders(kind, path), 0)
            assert.equal("lost", select(3, lock:release()))
            assert.equal(1, client:stats().sessions)
            assert(lock:acquire(20))
        end)

        it("that is over before acquire has returned is answered with lost", function()
            local client = fixture.steady_client({ session_timeout = 60 })
            local lock = kind.new(client, fixture.path(), { max_hold = 1e-9 })
            for _ = 1, 20 do
                local held, message, code = lock:acquire(20)
                assert.same({ nil, "lost" }, { held, code }, message)
            end
            assert(client:flush(10))
            assert.equal(0, client:stats().seats)
        end)

        it("ends all levels of a reentrant hold, counted from the first #asan", function()
            local client = fixture.steady_client()
            local lock = kind.new(client, fixture.path(), { max_hold = 2, reentrant = true })
            assert(lock:acquire(10))
            local granted = socket.gettime()
            for _ = 1, 2 do
                socket.sleep(0.1)
                assert(lock:acquire(10))
            end
            fixture.await_not_held(lock)
            assert.is_true(socket.gettime() - granted < 15)
            assert.equal("lost", select(3, lock:acquire(10)))
            assert.equal("not_held", select(3, lock:release()))
            assert(lock:acquire(10))
            assert.is_true(lock:release())
            assert.is_false(lock:held())
        end)
    end)

    describe("revocation of a " .. kind.name, function()
        after_each(fixture.clean)

        it("is heard where the holder waits; it lets go, and who asked gets it #valgrind #asan", function()
            local path = fixture.path()
            local client, asked = fixture.steady_client(), {}
            local lock = kind.new(client, path, { on_revoke = function(...)
                asked[#asked + 1] = { ... }
            end })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(10))
            loop.run(function()
                loop.until_true(function()
                    client:pump()
                    return asked[1]
                end)
                assert.is_true(lock:held())
                assert(lock:release())
            end, function()
                assert.equal(1, rival:revoke(10))
                assert(rival:acquire(20))
            end)
            assert.equal(1, #asked)
            assert.same({ 1, lock }, { #asked[1], asked[1][1] })
            assert(client:flush(10))
            assert.is_false(fixture.is_watched(path))
            assert.same({ 0, 0 }, { client:stats().seats, client:stats().watches })
            assert.is_true(rival:release())
            assert(lock:acquire(10)) -- what was asked before does not concern the next hold
            client:pump()
            assert.equal(1, #asked)
        end)

        it("may be answered by a release within on_revoke #asan", function()
            local path = fixture.path()
            local client, released = fixture.steady_client({ wait = "blocking" }), {}
            local lock = kind.new(client, path, { on_revoke = function(lock)
                released = { lock:release() }
            end })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(10))
            assert.equal(1, rival:revoke(10))
            fixture.pump_until(client, function()
                return released[1]
            end)
            assert.same({ true }, released)
            assert.is_false(lock:held())
            assert(rival:try_acquire())
            assert.equal("not_held", select(3, lock:release()))
            assert(client:flush(10))
            assert.is_false(fixture.is_watched(path))
            assert.equal(0, client:stats().watches)
        end)

        it("asks nobody when nobody holds it, and says so", function()
            local lock = kinds.new_rival(kind, fixture.path())
            assert.equal(0, lock:revoke(10))
            assert(lock:acquire(10))
            assert.is_true(lock:release())
            assert.equal(0, lock:revoke())
        end)

        it("is not heard by a holder without on_revoke, who keeps the lock", function()
            local path = fixture.path()
            local client = fixture.steady_client()
            local lock = kind.new(client, path)
            assert(lock:acquire(10))
            assert.is_false(fixture.is_watched(path))
            assert.equal(1, kinds.new_rival(kind, path):revoke(10))
            assert.equal("__REVOKE__", (fixture.observer():get(lock:node())))
            assert(client:sync("/", { timeout = 10 }))
            client:pump()
            assert.is_true(lock:held())
            assert.equal("timeout", select(3, kinds.new_rival(kind, path):try_acquire()))
            assert.is_true(lock:release())
        end)

        it("may come as often as somebody asks, and through a reconnection #asan", function()
            local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
            local path = fixture.path()
            local asked = 0
            local lock = kind.new(client, path, { on_revoke = function()
                asked = asked + 1
            end })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(20))
            for times = 1, 4 do
                if times == 3 then
                    fixture.cut_off(client, link)
                end
                assert.equal(1, rival:revoke(10))
                link:accept()
                fixture.pump_until(client, function()
                    return asked >= times
                end)
                assert.equal(times, asked)
            end
            assert.equal(2, client:stats().connections)
            link:cut() -- the word stays in the node, but nobody has asked anew
            eventually(function()
                return client:stats().connections == 3
            end)
            assert(client:sync("/", { timeout = 10 }))
            client:pump()
            assert.equal(4, asked)
            assert.is_true(lock:held())
            assert.is_true(lock:release())
            assert(client:flush(10))
            assert.equal(0, client:stats().watches)
            assert.is_false(fixture.is_watched(path))
        end)

        it("leaves no watch when the hold ends in another way: max_hold, a lost session, a closed client", function()
            local path = fixture.path()
            local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
            local lock = kind.new(client, path, { max_hold = 0.05, on_revoke = print })
            local held, message, code = lock:acquire(20)
            assert(held or code == "lost", message) -- on a busy machine it is over before acquire has returned
            fixture.await_not_held(lock)
            assert(client:flush(10))
            assert.equal(0, client:stats().watches)
            assert.is_false(fixture.is_watched(path))
            lock = kind.new(client, path, { on_revoke = print })
            assert(lock:acquire(10))
            fixture.kill_owner_behind(link, lock:node())
            fixture.await_not_held(lock)
            assert.equal("lost", select(3, lock:release()))
            assert(client:flush(20))
            assert.equal(0, client:stats().watches)
            assert(lock:acquire(20))
            client:close()
            eventually(function()
                return not fixture.is_watched(path)
            end)
        end)

        it("watches its node, and so is told at once when an administrator deletes it #asan", function()
            local told
            local client = fixture.steady_client({ session_timeout = 60 })
            local lock = kind.new(client, fixture.path(), { on_revoke = print, on_lost = function(_, reason)
                told = reason
            end })
            assert(lock:acquire(10))
            local node = lock:node()
            eventually(function()
                return fixture.is_watched(node)
            end)
            local before = socket.gettime()
            assert(fixture.observer():delete(node))
            fixture.pump_until(client, function()
                return told
            end)
            assert.equal("lost", told)
            assert.is_false(lock:held())
            assert.is_true(socket.gettime() - before < 8) -- the heartbeat would have told after 15 s
            assert.equal("lost", select(3, lock:release()))
            assert(client:flush(10))
            assert.same({ 0, 0 }, { client:stats().seats, client:stats().watches })
        end)
    end)

    -- Nobody is told by a heartbeat here: they are six seconds apart.
    describe("a release that finds the node of a " .. kind.name .. " gone", function()
        after_each(fixture.clean)

        --- The nodes by which it is held, deleted; a rival holds then.
        local function rob(lock, rival)
            local node = lock:node()
            assert(fixture.observer():delete(node))
            assert(rival:acquire(20))
            assert.is_true(lock:held())
            return node
        end

        for name, new in pairs({ ["that blocks"] = fixture.client, ["in an event loop"] = fixture.loop_client }) do
            it("says lost, once, and tells on_lost, by a client " .. name .. " #asan", function()
                local told = {}
                local client = new({ session_timeout = 30 })
                local path = fixture.path()
                local lock = kind.new(client, path, { on_lost = function(...)
                    told[#told + 1] = { ... }
                    assert.is_false((...):held())
                end })
                local rival = kinds.new_rival(kind, path)
                assert(lock:acquire(20))
                local node = rob(lock, rival)
                local ok, message, code = lock:release()
                assert.same({ nil, "lost" }, { ok, code })
                assert.truthy(message:find(node, 1, true), message)
                assert.same({ { lock, "lost", message } }, told)
                assert.equal(1, client:stats().losses)
                assert.equal("not_held", select(3, lock:release()))
                assert.is_true(rival:held())
                assert.is_true(rival:release())
                assert(lock:acquire(20))
                assert.is_true(lock:release())
                assert.same({ 1, 1 }, { #told, client:stats().losses })
            end)

            it("has with_lock say lost, with the results, by a client " .. name .. " #asan", function()
                local lost = 0
                local client = new({ session_timeout = 30 })
                local path = fixture.path()
                local lock = kind.new(client, path, { on_lost = function()
                    lost = lost + 1
                end })
                local rival = kinds.new_rival(kind, path)
                local results = { lock:with_lock(function()
                    rob(lock, rival)
                    return 1, 2
                end, 20) }
                assert.is_nil(results[1])
                assert.is_string(results[2])
                assert.same({ "lost", 1, 2 }, { results[3], results[4], results[5] })
                assert.equal(1, lost)
                assert(rival:release())
                local problem = {}
                local ok, raised = pcall(lock.with_lock, lock, function()
                    rob(lock, rival)
                    error(problem)
                end, 20)
                assert.is_true(not ok and raised == problem)
                assert.equal(2, lost)
            end)
        end

        it("tells nobody when it is told not to wait, and counts the loss", function()
            local lost = 0
            local client = fixture.steady_client()
            local path = fixture.path()
            local lock = kind.new(client, path, { on_lost = function()
                lost = lost + 1
            end })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(20))
            rob(lock, rival)
            assert.is_true(lock:release({ wait = false }))
            assert(client:flush(20))
            client:pump()
            assert.same({ 0, 1 }, { lost, client:stats().losses })
        end)

        it("says so as a member of a multi, and releases the others", function()
            local client = fixture.steady_client()
            local path, other = fixture.path(), fixture.path()
            local lock = kind.new(client, path)
            local rival = kinds.new_rival(kind, path)
            local multi = client:multi({ client:mutex(other), lock })
            assert(multi:acquire(20))
            rob(lock, rival)
            local ok, message, code = multi:release()
            assert.same({ nil, "lost" }, { ok, code })
            assert.truthy(message:find(path, 1, true), message)
            assert.falsy(message:find(other, 1, true), message)
            assert.same({}, fixture.children(other))
            assert(rival:release())
            local results = { multi:with_lock(function()
                rob(lock, rival)
                return 1, 2
            end, 20) }
            assert.is_nil(results[1])
            assert.truthy(results[2]:find(path, 1, true), results[2])
            assert.same({ "lost", 1, 2 }, { results[3], results[4], results[5] })
            assert.same({}, fixture.children(other))
        end)
    end)

    describe("a reentrant " .. kind.name, function()
        after_each(fixture.clean)

        it("is acquired three deep by one node, and free after as many releases #asan", function()
            local client = fixture.steady_client()
            local path = fixture.path()
            local lock = kind.new(client, path, { reentrant = true })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(10))
            local token, node = lock:token(), lock:node()
            assert(lock:acquire())
            assert(lock:try_acquire())
            assert.same({ token, node }, { lock:token(), lock:node() })
            assert.equal(1, #fixture.children(kinds.holders(kind, path)))
            for _ = 1, 2 do
                assert.is_true(lock:release())
                assert.is_true(lock:held())
                assert.equal("timeout", select(3, rival:try_acquire()))
            end
            assert.is_true(lock:release())
            assert.is_false(lock:held())
            assert(rival:try_acquire())
            assert.equal("not_held", select(3, lock:release()))
        end)

        it("says deadlock at the second acquire when it is not reentrant, and stays held", function()
            local lock = kind.new(fixture.steady_client(), fixture.path())
            assert(lock:acquire(10))
            assert.equal("deadlock", select(3, lock:acquire()))
            assert.equal("deadlock", select(3, lock:try_acquire()))
            assert.is_true(lock:held())
            assert.is_true(lock:release())
            assert.is_false(lock:held())
        end)

        it("is asked once to let go, however deep it is held", function()
            local client, asked = fixture.steady_client(), 0
            local path = fixture.path()
            local lock = kind.new(client, path, { reentrant = true, on_revoke = function(lock)
                asked = asked + 1
                assert.is_true(lock:release({ wait = false })) -- its own level, no more
            end })
            local rival = kinds.new_rival(kind, path)
            for _ = 1, 3 do
                assert(lock:acquire(10))
            end
            for times = 1, 3 do
                assert.equal(1, rival:revoke(10))
                fixture.pump_until(client, function()
                    return asked >= times
                end)
                assert.equal(times, asked)
                assert.equal(times < 3, lock:held())
            end
            assert(rival:acquire(10))
        end)
    end)
end

describe("a release that finds its node gone", function()
    after_each(fixture.clean)

    it("says lost when one of several permits is, whichever", function()
        for which = 1, 3 do
            local client = fixture.steady_client()
            local path = fixture.path()
            local semaphore = client:semaphore(path, 3)
            assert(semaphore:acquire({ count = 3, timeout = 20 }))
            fixture.await_children(path .. "/locks", 0)
            local node = path .. "/leases/" .. fixture.children(path .. "/leases")[which]
            assert(fixture.observer():delete(node))
            local ok, message, code = semaphore:release()
            assert.same({ nil, "lost" }, { ok, code })
            assert.truthy(message:find(node, 1, true), message)
            assert.same({ 1, 0 }, { client:stats().losses, client:stats().seats })
            assert.same({}, fixture.children(path .. "/leases"))
        end
    end)

    it("says lost to the last of those to whom a node was handed, whose release it is", function()
        local client = fixture.steady_client()
        local path = fixture.path()
        local first, second = client:mutex(path), client:mutex(path)
        local answers = {}
        loop.run(function()
            assert(first:acquire(20))
            loop.until_true(function()
                return client:stats().claims == 2
            end)
            answers[1] = { first:release() }
        end, function()
            loop.until_true(function()
                return first:held()
            end)
            assert(second:acquire(20))
            assert(fixture.observer():delete(second:node()))
            answers[2] = { second:release() }
        end)
        assert.equal(1, client:stats().hand_overs)
        assert.same({ true }, answers[1])
        assert.equal("lost", answers[2][3])
        assert.equal(1, client:stats().losses)
    end)

    it("is no release of what lingers, and nobody's loss", function()
        local told = 0
        local client = fixture.steady_client()
        local path = fixture.path()
        local lock = client:mutex(path, { linger = 20, on_lost = function()
            told = told + 1
        end })
        assert(lock:acquire(20))
        local node = lock:node()
        assert.is_true(lock:release())
        assert(fixture.observer():delete(node))
        fixture.pump_until(client, function()
            return client:stats().seats == 0
        end)
        assert.same({ 0, 0 }, { told, client:stats().losses })
        assert(lock:acquire(20))
        assert(fixture.observer():delete(lock:node()))
        assert(lock:release({ wait = false }))
        assert(client:flush(20))
        assert.equal(0, told)
    end)

    it("does not take one that it has deleted itself for lost, when the answer was lost", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        for _ = 1, 3 do
            assert(lock:acquire(20))
            link:arm("delete", "after")
            assert.is_true(lock:release())
            link:wait_fired()
        end
        assert.same({ 0, 1 }, { client:stats().losses, client:stats().sessions })
    end)
end)

describe("max_hold", function()
    after_each(fixture.clean)

    it("that is not reached does nothing, and begins anew with each hold", function()
        local told = 0
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { max_hold = 3, on_lost = function()
            told = told + 1
        end })
        for _ = 1, 4 do
            assert(lock:acquire(10))
            assert.is_true(lock:remaining() > 0.2)
            socket.sleep(0.8)
            assert.is_true(lock:held())
            assert.is_true(lock:release())
        end
        client:pump()
        assert.equal(0, told)
    end)

    it("does not run while the lock is waited for", function()
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { max_hold = 5 })
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(20))
        end, function()
            fixture.until_watched(holder)
            socket.sleep(1.5)
            fixture.observer():delete(holder)
        end)
        assert.is_true(lock:remaining() > 3.6 and lock:remaining() <= 5, lock:remaining())
    end)

    it("that with_lock overruns is told with the function's results, and nothing is released twice #valgrind #asan", function()
        for _, kind in ipairs(kinds) do
            local lock = kind.new(fixture.steady_client(), fixture.path(), { max_hold = 1 })
            local results = { lock:with_lock(function(given, first)
                fixture.await_not_held(given)
                return first, nil, 3
            end, 10, "x") }
            assert.is_nil(results[1])
            assert.truthy(results[2]:find("max_hold", 1, true), results[2])
            assert.same({ "lost", "x", nil, 3 }, { results[3], results[4], results[5], results[6] })
            assert.equal("not_held", select(3, lock:release()))
            local problem = {}
            local ok, raised = pcall(lock.with_lock, lock, function(given)
                fixture.await_not_held(given)
                error(problem)
            end)
            assert.is_false(ok)
            assert.equal(problem, raised)
            assert.same({ true, 1 }, { lock:with_lock(function() return 1 end, 10) })
        end
    end)

    it("makes a stale holder's transaction be refused #asan", function()
        for _, kind in ipairs(kinds) do
            local client = fixture.steady_client()
            local path = fixture.path()
            local target = fixture.directory()
            local lock = kind.new(client, path, { max_hold = 1 })
            assert(lock:acquire(10))
            local stale = lock:transaction():set(target, "stale")
            fixture.await_not_held(lock)
            local results, message, code = stale:commit(10)
            assert.same({ nil, "lost" }, { results, code })
            assert.truthy(message:find(path, 1, true), message)
            assert.equal("lost", select(3, lock:release()))
            assert.equal("lost", select(3, stale:commit(10)))
            assert.equal("not_held", select(3, lock:transaction():set(target, "stale"):commit(10)))
            assert(lock:acquire(10))
            assert.equal("lost", select(3, stale:commit(10)))
            assert(lock:transaction():set(target, "fresh"):commit(10))
            assert.equal("fresh", (fixture.observer():get(target)))
        end
    end)

    it("counts for each of several holds, whichever ends first", function()
        local client = fixture.steady_client()
        local locks, order = {}, {}
        for index, seconds in ipairs({ 4, 1, 2.5 }) do
            locks[index] = client:mutex(fixture.path(), { max_hold = seconds, on_lost = function(_, reason)
                order[#order + 1] = index
                assert.equal("max_hold", reason)
            end })
            assert(locks[index]:acquire(10))
        end
        fixture.pump_until(client, function()
            return order[3]
        end)
        assert.same({ 2, 3, 1 }, order)
    end)

    it("of a read/write lock counts for each half: a downgraded reader goes on when its writer's is over #asan", function()
        local client = fixture.steady_client()
        local path = fixture.path()
        local reasons = {}
        local rw = client:rwlock(path, { max_hold = 1.5, on_lost = function(lock, reason)
            reasons[#reasons + 1] = { lock, reason }
        end })
        assert(rw.write:acquire(10))
        socket.sleep(0.8)
        assert(rw.read:acquire(10))
        fixture.await_not_held(rw.write)
        assert.is_true(rw.read:held())
        assert(client:rwlock(path).read:acquire(10)) -- let in where the writer was
        assert.is_true(rw.read:held())
        fixture.pump_until(client, function()
            return reasons[2]
        end)
        assert.same({ "max_hold", "max_hold" }, { reasons[1][2], reasons[2][2] })
        assert.is_true(reasons[1][1] == rw.write and reasons[2][1] == rw.read)
        assert.equal("lost", select(3, rw.write:release()))
        assert.equal("lost", select(3, rw.read:release()))
    end)

    it("takes all permits of a hold back together", function()
        local client = fixture.steady_client()
        local path = fixture.path()
        local lock = client:semaphore(path, 3, { max_hold = 2 })
        assert(lock:acquire({ count = 3, timeout = 10 }))
        assert.equal(3, #fixture.children(path .. "/leases"))
        fixture.await_not_held(lock)
        fixture.await_children(path .. "/leases", 0)
        assert(client:semaphore(path, 3):try_acquire({ count = 3 }))
        assert.equal("lost", select(3, lock:release()))
    end)

    it("is over in the first instruction after a busy spell that let nobody run", function()
        local told = 0
        local client = fixture.steady_client({ wait = "blocking" })
        local lock = client:mutex(fixture.path(), { max_hold = 0.2, on_lost = function()
            told = told + 1
        end })
        local found
        for _, finder in ipairs({ lock.release, lock.acquire }) do
            local before = told
            assert(lock:acquire(10))
            local granted = socket.gettime()
            while socket.gettime() - granted < 0.25 do
                assert(told == before)
            end
            assert.is_false(lock:held())
            found = finder(lock)
            assert.equal(before + 1, told) -- by who found it
            client:pump()
            assert.equal(before + 1, told)
        end
        assert.equal(lock, found) -- acquired anew
    end)
end)

describe("revoke", function()
    after_each(fixture.clean)

    it("asks the others when a holder lets go meanwhile, and does not count that one", function()
        local client, _, interfere = fixture.client_to_interfere({ session_timeout = 30 })
        local path, asked = fixture.path(), 0
        local holders, nodes = {}, {}
        for index = 1, 3 do
            holders[index] = fixture.steady_client():rwlock(path, { on_revoke = function()
                asked = asked + 1
            end }).read
            assert(holders[index]:acquire(10))
            nodes[index] = holders[index]:node()
        end
        interfere(function()
            local _, query = next(client._registry.everybody)
            eventually(function()
                return query:done()
            end)
            fixture.observer():delete(nodes[1]) -- between the list and the question
        end)
        assert.equal(2, client:rwlock(path).write:revoke(10))
        eventually(function()
            holders[2]._client:pump()
            holders[3]._client:pump()
            return asked == 2
        end)
    end)

    it("asks every reader, and says how many, but no writer that waits #asan", function()
        local path = fixture.path()
        local readers, functions, asked = {}, {}, {} -- a reader that nobody keeps would give its lock back when it is collected
        for index = 1, 3 do
            local client = fixture.steady_client()
            readers[index] = client:rwlock(path, { on_revoke = function(lock)
                asked[index] = (asked[index] or 0) + 1
                assert.is_true(lock:release({ wait = false }))
            end }).read
            assert(readers[index]:acquire(10))
            functions[index] = function()
                loop.until_true(function()
                    client:pump()
                    return asked[index]
                end)
            end
        end
        local heard
        local writer = fixture.steady_client():rwlock(path, { on_revoke = function()
            heard = true
        end })
        loop.run(functions[1], functions[2], functions[3], function()
            assert(writer.write:acquire(20))
        end, function()
            loop.until_true(function()
                return fixture.has(path, 4)
            end)
            assert.equal(3, writer:path() == path and fixture.steady_client():rwlock(path).read:revoke(10))
        end)
        assert.same({ 1, 1, 1 }, asked)
        assert.same({ false, false, false }, { readers[1]:held(), readers[2]:held(), readers[3]:held() })
        assert.is_true(writer.write:held())
        assert.is_nil(heard)
    end)

    it("asks a downgraded writer by both its nodes", function()
        local client, asked = fixture.steady_client(), {}
        local rw = client:rwlock(fixture.path(), { on_revoke = function(lock)
            asked[#asked + 1] = lock
            assert.is_true(lock:release({ wait = false }))
        end })
        assert(rw.write:acquire(10))
        assert(rw.read:acquire(10))
        assert.equal(2, fixture.steady_client():rwlock(rw:path()).write:revoke(10))
        fixture.pump_until(client, function()
            return #asked == 2
        end)
        assert.is_true(asked[1] ~= asked[2])
        assert(client:flush(10))
        assert.same({}, fixture.children(rw:path()))
        assert.equal(0, client:stats().watches)
    end)

    it("asks every holder of a semaphore's permits once, however many it has", function()
        local path = fixture.path()
        local clients, asked = {}, {}
        for index = 1, 3 do
            clients[index] = fixture.steady_client()
            local holder = clients[index]:semaphore(path, 7, { on_revoke = function()
                asked[index] = (asked[index] or 0) + 1
            end })
            assert(holder:acquire({ count = index, timeout = 10 }))
            clients["lock" .. index] = holder -- kept
        end
        assert.equal(6, fixture.steady_client():semaphore(path, 7):revoke(10)) -- as many nodes
        for index = 1, 3 do
            fixture.pump_until(clients[index], function()
                return asked[index]
            end)
            assert(clients[index]:sync("/", { timeout = 10 }))
            clients[index]:pump()
        end
        assert.same({ 1, 1, 1 }, asked)
    end)

    it("by the holder itself reaches its own on_revoke", function()
        local asked
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { on_revoke = function()
            asked = true
        end })
        assert(lock:acquire(10))
        assert.equal(1, lock:revoke(10))
        fixture.pump_until(client, function()
            return asked
        end)
        assert.is_true(lock:held())
    end)

    --- Within the loop: runs fn(lock) for a mutex that gives itself back when it is asked for, and sees to it that the program
    -- hears of its grant and of that at once.
    local function with_early_revocation(fn)
        local client, path = fixture.steady_client(), fixture.directory()
        local holder = fixture.client():mutex(path)
        local lock = client:mutex(path, { on_revoke = function(lock)
            lock:release()
        end })
        assert(holder:acquire(10))
        loop.run(function()
            fn(lock)
        end, function()
            local node
            loop.until_true(function()
                local hold = client._attempts[lock]
                node = hold and not hold.try and hold.claim:node()
                return node
            end)
            assert(fixture.observer():set(node, "__REVOKE__"))
            assert.is_true(holder:release())
            eventually(function() -- the loop stands still meanwhile
                return client._attempts[lock].claim:revocations() > 0
            end)
        end)
        assert.is_false(lock:held())
        assert(client:flush(10))
        assert.same({}, fixture.children(path))
    end

    -- Random programs found it: with_lock tripped over the hold that on_revoke had given back.
    it("as soon as it is granted makes acquire answer lost when on_revoke gives it back", function()
        with_early_revocation(function(lock)
            local got, message, code = lock:acquire(20)
            assert.same({ nil, "lost" }, { got, code })
            assert.truthy(message:find("others had asked for it", 1, true), message)
        end)
        with_early_revocation(function(lock)
            local ran = false
            assert.equal("lost", select(3, lock:with_lock(function()
                ran = true
            end, 20)))
            assert.is_false(ran)
        end)
        with_early_revocation(function(lock)
            local other = lock._client:mutex(lock:path() .. "-other")
            local both = lock._client:multi({ lock, other })
            assert.equal("lost", select(3, both:acquire(20)))
            assert.is_false(other:held())
        end)
    end)

    it("that comes with the grant, or before anybody pumps, is heard nevertheless", function()
        local asked = 0
        local client = fixture.steady_client({ wait = "blocking" })
        local lock = client:mutex(fixture.path(), { on_revoke = function()
            asked = asked + 1
        end })
        local other = fixture.steady_client({ wait = "blocking" }):mutex(lock:path())
        assert(lock:acquire(10))
        assert.equal(1, other:revoke(10)) -- perhaps before the watch is armed
        fixture.pump_until(client, function()
            return asked > 0
        end)
        assert(client:sync("/", { timeout = 10 }))
        client:pump()
        assert.equal(1, asked)
    end)

    it("does not take other words in a holder's node for a request", function()
        local asked
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { on_revoke = function()
            asked = true
        end })
        assert(lock:acquire(10))
        for _, word in ipairs({ "", "__REVOKE_", "__REVOKE__ ", "revoke", ("x"):rep(5000) }) do
            eventually(function()
                return fixture.is_watched(lock:node())
            end)
            assert(fixture.observer():set(lock:node(), word))
            eventually(function()
                return fixture.is_watched(lock:node())
            end)
            assert(client:sync("/", { timeout = 10 }))
            client:pump()
            assert.is_nil(asked)
        end
        assert.equal(1, fixture.steady_client():mutex(lock:path()):revoke(10))
        fixture.pump_until(client, function()
            return asked
        end)
    end)

    it("whose on_revoke raises is reported through log, and the holder goes on #asan", function()
        local reported = {}
        local client = fixture.steady_client({ wait = "blocking", log = function(level, message)
            if message:find("on_revoke", 1, true) then
                reported[#reported + 1] = level .. ": " .. message
            end
        end })
        local lock = client:mutex(fixture.path(), { on_revoke = function()
            error("no, mine")
        end })
        local other = fixture.steady_client():mutex(lock:path())
        assert(lock:acquire(10))
        for times = 1, 2 do
            assert.equal(1, other:revoke(10))
            fixture.pump_until(client, function()
                return #reported >= times
            end)
        end
        assert.truthy(reported[1]:find("^error: .*on_revoke raised: .*no, mine"), reported[1])
        assert.is_true(lock:held())
        assert.is_true(lock:release())
    end)

    it("answers no_auth when the acl does not let us write into the holder's node", function()
        local owner = fixture.steady_client({ auth = { { scheme = "digest", credential = "user:password" } } })
        local path = fixture.directory() -- open to everybody, unlike the nodes
        local acl = { { scheme = "auth", id = "", perms = "rcwda" }, { scheme = "world", id = "anyone", perms = "r" } }
        local asked
        local lock = owner:mutex(path, { acl = acl, on_revoke = function()
            asked = true
        end })
        assert(lock:acquire(10))
        local asking = fixture.steady_client():mutex(path)
        local count, message, code = asking:revoke(10)
        assert.same({ nil, "no_auth" }, { count, code })
        assert.truthy(message:find(path, 1, true), message)
        owner:pump()
        assert.is_nil(asked)
        assert.is_true(lock:held())
        local trusted = fixture.steady_client({ auth = { { scheme = "digest", credential = "user:password" } } }):mutex(path)
        assert.equal(1, trusted:revoke(10))
        fixture.pump_until(owner, function()
            return asked
        end)
    end)

    it("answers disconnected or timeout in time when no server answers", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        link:stall()
        local before = socket.gettime()
        local count, _, code = lock:revoke(0.3)
        assert.is_nil(count)
        assert.is_true(code == "timeout" or code == "disconnected", code)
        assert.is_true(socket.gettime() - before < 5)
        link:resume()
    end)

    it("refuses a timeout that is none", function()
        local lock = fixture.steady_client():mutex(fixture.path())
        for _, timeout in ipairs({ -1, "soon", {}, 0 / 0 }) do
            local ok, message = pcall(function()
                local count = lock:revoke(timeout)
                return count
            end)
            assert.is_false(ok)
            assert.truthy(message:find("^spec/behaviour/hold_spec.lua:%d+: lock:revoke: timeout"), message)
        end
    end)
end)

describe("a reentrant semaphore", function()
    after_each(fixture.clean)

    it("may be acquired again with a count up to the held one; with a greater one it says deadlock #asan", function()
        local client = fixture.steady_client()
        local path = fixture.path()
        local lock = client:semaphore(path, 5, { reentrant = true })
        assert(lock:acquire({ count = 3, timeout = 10 }))
        for _, count in ipairs({ 3, 1 }) do
            assert(lock:acquire({ count = count }))
        end
        for _, count in ipairs({ 4, 5 }) do
            local got, message, code = lock:acquire({ count = count })
            assert.same({ nil, "deadlock" }, { got, code })
            assert.truthy(message:find("count of 3", 1, true), message)
            assert.equal("deadlock", select(3, lock:try_acquire({ count = count })))
        end
        assert.equal(3, #fixture.children(path .. "/leases"))
        for _ = 1, 3 do
            assert.is_true(lock:held())
            assert.equal(2, lock:available(10))
            assert.is_true(lock:release())
        end
        assert.is_false(lock:held())
        assert.equal(5, lock:available(10))
        assert.equal("not_held", select(3, lock:release()))
    end)
end)
