--- Locks in event loops: what every adapter promises, and what each has of its own.

local core = require "zklock.core"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loops = require "spec.support.loops"
local zklock = require "zklock"

--- Runs in a loop: others go on until the condition holds.
local function until_true(loop, condition, what)
    local deadline = core.now() + 30
    while not condition() do
        assert(core.now() < deadline, "still waiting for " .. (what or "a condition"))
        loop.sleep(0.01)
    end
end

--- A coroutine's body that notes how long it was kept from running, until `stop` is set in what comes with it.
local function new_ticker(loop)
    local ticks = { count = 0, longest = 0, stop = false }
    return ticks, function()
        local last = core.now()
        while not ticks.stop do
            loop.sleep(0.005)
            local now = core.now()
            ticks.count, ticks.longest, last = ticks.count + 1, math.max(ticks.longest, now - last), now
        end
    end
end

--- How long a loop may stand still on a machine that is busy with other things, in seconds; and how often a machine may be busier
-- than that. What blocks a loop does so each time.
local STANDSTILL, ROUNDS = 0.7, 5

--- Does something up to so often, until the ticker has shown once that the loop went on all the while, and as many times.
local function assert_goes_on(ticks, least, fn)
    local rounds = 0
    repeat
        rounds = rounds + 1
        ticks.count, ticks.longest = 0, 0
        fn()
        local goes_on = ticks.count >= least and ticks.longest < STANDSTILL
        assert(goes_on or rounds < ROUNDS, ("%d ticks, stood still for %g s"):format(ticks.count, ticks.longest))
    until goes_on
end

--- What holds under each of them, with coroutines.
local function promises(loop)
    after_each(fixture.clean)

    local function client_of(settings, servers)
        settings = settings or {}
        settings.wait = settings.wait or loop.name
        return fixture.client(settings, servers)
    end

    it("coroutines that share a path hold it one at a time, in the order of the queue #asan", function()
        loop.run(function()
            local client, path, order, inside = client_of(), fixture.path(), {}, 0
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
                until_true(loop, function()
                    return fixture.has(path, number + 1)
                end)
            end
            fixture.observer():delete(first)
            until_true(loop, function()
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
                        client = client_of()
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
                        until_true(loop, function()
                            return turns == 5
                        end)
                        assert(client:flush(10))
                        assert.is_false(lock._others)
                        assert.same({}, fixture.children(path .. kind.directories[#kind.directories]))
                    end)
                    assert.equal(shared, most > 1)
                end)
        end
    end

    it("a wait lets the others run", function()
        local ticks, ticker = new_ticker(loop)
        loop.run(function()
            local client = client_of()
            local lock = client:mutex(fixture.path())
            fixture.join(lock:path())
            assert_goes_on(ticks, 10, function()
                assert.equal("timeout", select(3, lock:acquire(0.5)))
            end)
            ticks.stop = true
        end, ticker)
    end)

    it("two coroutines wait for two locks, and each gets its own when that is free", function()
        local events = {}
        loop.run(function()
            local client = client_of()
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
            until_true(loop, function()
                return fixture.has(locks[1]:path(), 2) and fixture.has(locks[2]:path(), 2)
            end)
            fixture.observer():delete(nodes[2])
            until_true(loop, function()
                return got == 1
            end)
            fixture.observer():delete(nodes[1])
            until_true(loop, function()
                return got == 2
            end)
            assert.same({ 2, 1 }, events)
        end)
    end)

    it("a wait ends when its time is up, and leaves nothing", function()
        loop.run(function()
            local client = client_of()
            local lock = client:mutex(fixture.path())
            fixture.join(lock:path())
            local began = core.now()
            assert.equal("timeout", select(3, lock:acquire(0.3)))
            local took = core.now() - began
            assert.is_true(took >= 0.3 and took < 5, ("took %g s"):format(took))
            assert.equal("timeout", select(3, lock:try_acquire()))
            assert(client:flush(10))
            assert.equal(1, #fixture.children(lock:path()))
        end)
    end)

    it("a wait that is cancelled by another coroutine ends, and leaves nothing #asan", function()
        loop.run(function()
            local client = client_of()
            local lock, answer = client:mutex(fixture.path()), nil
            fixture.join(lock:path())
            loop.spawn(function()
                answer = compat.pack(lock:acquire(20))
            end)
            until_true(loop, function()
                return fixture.has(lock:path(), 2)
            end)
            assert.is_true(lock:cancel())
            until_true(loop, function()
                return answer
            end)
            assert.equal("cancelled", answer[3])
            assert(client:flush(10))
            assert.equal(1, #fixture.children(lock:path()))
        end)
    end)

    it("a client that is closed ends the waits of others", function()
        loop.run(function()
            local client = client_of()
            local lock, answers = client:mutex(fixture.path()), {}
            local _, _, watch = assert(client:get(fixture.directory(), { watch = true }))
            fixture.join(lock:path())
            loop.spawn(function()
                answers.lock = compat.pack(lock:acquire(20))[3]
            end)
            loop.spawn(function()
                answers.watch = compat.pack(watch:wait(20))[3]
            end)
            until_true(loop, function()
                return fixture.has(lock:path(), 2)
            end)
            assert(client:close())
            until_true(loop, function()
                return answers.lock and answers.watch
            end)
            assert.same({ lock = "closed", watch = "closed" }, answers)
            assert.equal("closed", select(3, lock:acquire(5)))
        end)
    end)

    if compat.PCALL_YIELDS then
        it("with_lock holds while its function waits for other things", function()
            loop.run(function()
                local client, rival = client_of(), client_of()
                local path = fixture.path()
                assert.same({ true, 1, 2 }, { client:mutex(path):with_lock(function()
                    loop.sleep(0.05)
                    assert.equal("timeout", select(3, rival:mutex(path):acquire(0.1)))
                    return 1, 2
                end, 10) })
                local ok, problem = pcall(function()
                    client:mutex(path):with_lock(function()
                        loop.sleep(0.01)
                        error("broken inside", 0)
                    end)
                end)
                assert.is_false(ok)
                assert.equal("broken inside", problem)
                assert(rival:mutex(path):acquire(10))
            end)
        end)

        it("on_lost may wait for the lock anew", function()
            loop.run(function()
                local reason, answer
                local client = client_of()
                local lock = client:mutex(fixture.path(), { on_lost = function(lock, why)
                    reason = why
                    lock:release()
                    answer = compat.pack(lock:acquire(20))
                end })
                assert(lock:acquire(10))
                assert(fixture.observer():delete(lock:node()))
                until_true(loop, function()
                    return reason
                end, "on_lost")
                until_true(loop, function()
                    return answer
                end, "the lock anew")
                assert.equal(lock, answer[1], answer[2])
                assert.is_true(lock:held())
            end)
        end)
    end

    if not compat.PCALL_YIELDS then
        --- Calls of functions that Lua 5.1 does not let yield, by name: each calls fn(...) and returns what pcall would.
        local barriers = {
            pcall = pcall,
            ["a metamethod"] = function(fn, ...)
                local arguments = { ... }
                local proxy = setmetatable({}, { __index = function()
                    return fn(compat.unpack(arguments))
                end })
                return coroutine.resume(coroutine.create(function()
                    return proxy.result
                end))
            end,
            ["an iterator"] = function(fn, ...)
                local arguments = { ... }
                return coroutine.resume(coroutine.create(function()
                    for result in function()
                        return fn(compat.unpack(arguments))
                    end do
                        return result
                    end
                end))
            end
        }

        --- What a wait raises that cannot suspend its coroutine.
        local BOUNDARY = "C-call boundary"

        for name, barrier in pairs(barriers) do
            it(("a wait that cannot suspend in %s gives up what it asked for before it raises"):format(name), function()
                finally(function()
                    collectgarbage("restart")
                end)
                loop.run(function()
                    local client = client_of()
                    local locks = { client:mutex(fixture.path()), client:mutex(fixture.path()) }
                    local all, node = client:multi(locks), fixture.join(locks[2]:path())
                    collectgarbage("stop") -- nothing may depend on it
                    for _, object in ipairs({ locks[2], client:rwlock(locks[2]:path()).write, all }) do
                        local ok, problem = barrier(object.acquire, object, 20)
                        assert.is_false(ok)
                        assert.truthy(tostring(problem):find(BOUNDARY, 1, true), tostring(problem))
                        if name == "pcall" then -- Lua shows the others only partly: what they leave is found by the pump
                            assert.is_nil(next(client._attempts))
                        end
                        until_true(loop, function()
                            return fixture.has(locks[2]:path(), 1) and fixture.has(locks[1]:path(), 0)
                        end, "the place in the queue to be given up")
                    end
                    until_true(loop, function()
                        return not client:needs_pump()
                    end)
                    fixture.observer():delete(node)
                    assert(all:acquire(20))
                    assert(locks[1]:release())
                    local ok, problem = barrier(locks[2].release, locks[2]) -- which raises if it has to wait
                    assert.truthy(ok or tostring(problem):find(BOUNDARY, 1, true), tostring(problem))
                    assert.is_false(locks[2]:held())
                    until_true(loop, function()
                        return fixture.has(locks[2]:path(), 0)
                    end, "the lock to be given back")
                end)
            end)
        end

        it("other waits inside pcall raise, and nothing waits on after them", function()
            finally(function()
                collectgarbage("restart")
            end)
            loop.run(function()
                local client, path = client_of(), fixture.directory()
                local lock = client:mutex(fixture.path())
                local _, _, watch = assert(client:get(path, { watch = true }))
                collectgarbage("stop")
                for name, call in pairs({
                    get = function() client:get(path) end, set = function() client:set(path, "text") end,
                    contenders = function() lock:contenders() end, watch = function() watch:wait() end,
                    commit = function() client:transaction():check(path):commit() end
                }) do
                    local ok, problem = pcall(call) -- which raises if it has to wait
                    assert.truthy(ok or tostring(problem):find(BOUNDARY, 1, true), name .. ": " .. tostring(problem))
                end
                watch:cancel()
                assert(client:flush(20))
                until_true(loop, function()
                    return not client:needs_pump()
                end)
                assert.is_false(pcall(zklock.connect, fixture.servers(), { wait = loop.name }))
            end)
        end)

        if loop.run_out then
            it("a wait that could not suspend does not keep the loop from ending", function()
                finally(function()
                    collectgarbage("restart")
                end)
                collectgarbage("stop")
                loop.run_out(function()
                    local lock = client_of():mutex(fixture.path())
                    fixture.join(lock:path())
                    assert.is_false(pcall(lock.acquire, lock))
                end)
            end)
        end
    end

    -- Granted without a wait: the node is there already, or the answer was, while the caller stood still. No wait starts the pump.
    it("on_lost is called for a lock that nobody has waited for", function()
        local client, lock, reason
        loop.run(function()
            client = client_of({ session_timeout = 8 })
            lock = client:mutex(fixture.path(), { linger = 600, on_lost = function(_, why)
                reason = why
            end })
            assert(lock:acquire(10))
            assert(lock:release())
        end)
        loop.run(function()
            until_true(loop, function()
                return not client:needs_pump()
            end)
            loop.sleep(0.7) -- the pump of before has time to end
        end)
        loop.run(function()
            assert(lock:try_acquire())
            assert(fixture.observer():delete(lock:node()))
            until_true(loop, function()
                return reason
            end, "on_lost")
            assert.equal("lost", reason)
        end)
    end)

    it("on_lost and on_revoke are called while nobody waits for the client, and their errors reported", function()
        loop.run(function()
            local seen, log = {}, {}
            local client = client_of({ log = function(level, message)
                log[#log + 1] = level .. ": " .. message
            end })
            local lock = client:mutex(fixture.path(), {
                on_revoke = function()
                    seen.revoked = true
                    error("no, I do not want to")
                end,
                on_lost = function(_, reason)
                    seen.lost = reason
                    error("oh no")
                end
            })
            assert(lock:acquire(10))
            local rival = fixture.client({ wait = "blocking" })
            assert.equal(1, rival:mutex(lock:path()):revoke(10))
            until_true(loop, function()
                return seen.revoked
            end)
            assert(fixture.observer():delete(lock:node()))
            until_true(loop, function()
                return seen.lost
            end)
            assert.equal("lost", seen.lost)
            local text = table.concat(log, "\n")
            assert.truthy(text:find("error: the callback on_revoke raised: .*no, I do not want to"), text)
            assert.truthy(text:find("error: the callback on_lost raised: .*oh no"), text)
        end)
    end)

    it("several coroutines wait for one watch, and for none in vain", function()
        loop.run(function()
            local client, path = client_of(), fixture.directory()
            local _, _, watch = assert(client:get(path, { watch = true }))
            local events, heard, late = {}, 0, nil
            for index = 1, 3 do
                loop.spawn(function()
                    events[index] = watch:wait(20)
                    heard = heard + 1
                end)
            end
            loop.spawn(function()
                late = compat.pack(watch:wait(0.05))
            end)
            until_true(loop, function()
                return late
            end)
            assert.equal("timeout", late[3])
            assert(client:set(path, "news"))
            until_true(loop, function()
                return heard == 3
            end)
            assert.same({ "changed", "changed", "changed" }, events)
        end)
    end)

    it("semaphores, read/write locks and several locks at once wait as well", function()
        loop.run(function()
            local client = client_of()
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
            until_true(loop, function()
                return ended == 5
            end)
            assert.is_true(most <= 2)
            most, ended = 0, 0
            work(client:multi({ first, second }))
            work(client:multi({ client:mutex(second:path()), client:mutex(first:path()) }))
            until_true(loop, function()
                return ended == 2
            end)
            assert.equal(1, most)
            assert(rwlock.read:acquire(10))
            assert.equal("timeout", select(3, client:rwlock(rwlock.read:path()).write:acquire(0.1)))
        end)
    end)

    it("several clients wait in one loop", function()
        loop.run(function()
            local path, ended = fixture.path(), 0
            local clients = {}
            for index = 1, 4 do
                loop.spawn(function()
                    clients[index] = client_of()
                    assert(clients[index]:mutex(path):with_lock(function()
                        ended = ended + 1
                    end, 20))
                end)
            end
            until_true(loop, function()
                return ended == 4
            end)
        end)
    end)

    it("two hundred coroutines wait for one lock, and each gets it #asan", function()
        local ticks, ticker = new_ticker(loop)
        loop.run(function()
            local client, path, ended = client_of({ session_timeout = 20 }), fixture.path(), 0
            local node = fixture.join(path)
            for _ = 1, 200 do
                loop.spawn(function()
                    local lock = client:mutex(path, { wait_release = false, handoff = 0 })
                    assert(lock:acquire(50))
                    ended = ended + 1
                    assert(lock:release())
                end)
            end
            until_true(loop, function()
                return fixture.has(path, 201)
            end)
            ticks.longest = 0
            fixture.observer():delete(node)
            until_true(loop, function()
                return ended == 200
            end)
            assert.is_true(ticks.longest < STANDSTILL, ("stood still for %g s"):format(ticks.longest))
            ticks.stop = true
        end, ticker)
    end)

    it("a ZooKeeper that does not answer keeps nobody else from running", function()
        local client, link = fixture.client_behind_proxy({ wait = "blocking" })
        client:close()
        local ticks, ticker = new_ticker(loop)
        loop.run(function()
            client = client_of({ session_timeout = 4 }, link.address)
            local lock = client:mutex(fixture.path())
            link:stall()
            assert_goes_on(ticks, 20, function()
                assert.is_nil((lock:acquire(0.5)))
                local other, _, code = zklock.connect(link.address, { connect_timeout = 0.5, wait = loop.name })
                assert.is_nil(other)
                assert.equal("disconnected", code)
            end)
            link:resume()
            assert(lock:acquire(30))
            ticks.stop = true
        end, ticker)
    end)

    it("a wait on the main thread runs the loop", function()
        local client = client_of()
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        assert.equal("timeout", select(3, client:mutex(lock:path()):acquire(0.3)))
        assert(lock:release())
        assert(client:close())
    end)

    local function it_if(condition, ...)
        (condition and it or pending)(...)
    end

    it_if(loop.run_out, "the loop ends when the work is done, whatever is still held and watched", function()
        local client, lock
        local began = core.now()
        loop.run_out(function()
            client = client_of()
            lock = client:mutex(fixture.path())
            assert(lock:acquire(10))
            assert(client:get("/", { watch = true }))
            if loop.name == "copas" then
                lock:release() -- copas cannot be asked whether anything else is left
            end
        end)
        assert.is_true(core.now() - began < 20)
        assert(client:close())
    end)

    it_if(loop.run_out, "the loop does not end while somebody waits", function()
        local got
        loop.run_out(function()
            local client = client_of()
            local lock = client:mutex(fixture.path())
            local node = fixture.join(lock:path())
            local worker = fixture.worker(lock:path()) -- luacheck: ignore worker
            fixture.observer():delete(node)
            got = lock:acquire()
            assert(lock:release())
        end)
        assert.truthy(got)
    end)

    it_if(loop.drop, "a coroutine that is killed, or forgotten with its loop, leaves the queue #asan", function()
        local client = client_of({ session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        local node = fixture.join(lock:path())
        loop.drop(function()
            lock:acquire(50)
        end, function()
            return fixture.has(lock:path(), 2)
        end)
        eventually(function()
            collectgarbage()
            return fixture.has(lock:path(), 1)
        end, 20)
        eventually(function()
            collectgarbage()
            return tostring(lock):find("free", 1, true), tostring(lock)
        end, 20)
        fixture.observer():delete(node)
        assert(lock:acquire(10))
    end)

    it_if(loop.drop, "a coroutine that waits for the last of several locks gives back the others if killed or forgotten", function()
        local client, rival = client_of({ session_timeout = 30 }), fixture.client({ wait = "blocking" })
        local first, last = client:mutex(fixture.path()), client:mutex(fixture.path())
        local all = client:multi({ first, last })
        fixture.join(last:path())
        loop.drop(function()
            all:acquire(50)
        end, function()
            return fixture.has(last:path(), 2) and first:held()
        end)
        eventually(function()
            collectgarbage()
            return fixture.has(first:path(), 0) and fixture.has(last:path(), 1)
        end, 20)
        assert.is_false(first:held())
        assert(rival:mutex(first:path()):acquire(10))
        assert.equal("timeout", select(3, all:acquire(0.1)))
    end)
end

for _, loop in ipairs(loops.each()) do
    describe("in " .. loop.name .. ",", function()
        promises(loop)
    end)
end

-- Coroutines that are closed (Lua 5.4) ---------------------------------------------------------------------------------

describe("a coroutine that is closed while it waits", function()
    after_each(fixture.clean)

    local has_luv, uv = pcall(require, "luv")

    --- Ways to wait in coroutines, each with how to have them go on.
    local ways = { ["an adapter of the program's own"] = {
        adapter = { wake = function() end, wait = function()
            coroutine.yield()
            return true
        end },
        turn = function(thread)
            assert(coroutine.resume(thread))
        end
    }, luv = has_luv and {
        adapter = "luv",
        turn = function()
            uv.run("nowait")
        end
    } or nil }

    --- Begins fn in a coroutine, has it go on until `begun()`, and closes it.
    -- @treturn thread for the caller to keep: that it is closed must do
    local function close_while_waiting(way, client, fn, begun)
        local thread = coroutine.create(fn)
        assert(coroutine.resume(thread))
        eventually(function()
            way.turn(thread)
            client:pump()
            return begun()
        end)
        assert(coroutine.close(thread)) -- luacheck: ignore
        return thread
    end

    for name, way in pairs(ways) do
        (coroutine.close and it or pending)(("leaves the queue at once, by %s #asan"):format(name), function()
            finally(function()
                collectgarbage("restart")
            end)
            local client = assert(zklock.connect(fixture.servers(), { wait = way.adapter, connect_timeout = 0 }))
            eventually(function()
                return client:state() == "connected"
            end)
            collectgarbage("stop") -- nothing may depend on it
            local first, last, kept = client:mutex(fixture.path()), client:mutex(fixture.path()), {}
            local all, node = client:multi({ first, last }), fixture.join(last:path())
            kept[1] = close_while_waiting(way, client, function()
                last:acquire(50)
            end, function()
                return fixture.has(last:path(), 2)
            end)
            assert.truthy(tostring(last):find("free", 1, true), tostring(last))
            fixture.await_children(last:path(), 1)
            kept[2] = close_while_waiting(way, client, function()
                all:acquire(50)
            end, function()
                return fixture.has(last:path(), 2) and first:held()
            end)
            assert.is_false(first:held())
            fixture.await_children(first:path(), 0)
            fixture.await_children(last:path(), 1)
            fixture.observer():delete(node)
            fixture.await_children(last:path(), 0)
            assert.is_false(client:needs_pump())
            assert.equal(2, #kept)
            client:close(0)
        end)
    end
end)

describe("a wait that nobody will resume", function()
    after_each(fixture.clean)

    --- Begins to wait for a lock in a coroutine whose adapter suspends it so, and pumps until all is given up. Returns the lock.
    local function until_given_up(suspend, timeout, multi)
        finally(function()
            collectgarbage("restart")
        end)
        local client = assert(zklock.connect(fixture.servers(), {
            wait = { wait = suspend, wake = function() end }, connect_timeout = 0
        }))
        eventually(function()
            return client:state() == "connected"
        end)
        local lock, first = client:mutex(fixture.path()), client:mutex(fixture.path())
        lock, first = first, lock -- the one that is waited for comes last in the order of a multi
        local node, object = fixture.join(lock:path()), multi and client:multi({ first, lock }) or lock
        collectgarbage("stop")
        local thread = coroutine.create(function()
            object:acquire(timeout)
        end)
        assert(coroutine.resume(thread))
        eventually(function()
            coroutine.resume(thread, "pumped")
            client:pump()
            return not client:needs_pump() and fixture.has(lock:path(), 1) and fixture.has(first:path(), 0)
        end)
        fixture.observer():delete(node)
        assert.truthy(tostring(lock):find("free", 1, true), tostring(lock))
        client:close(0)
        return thread
    end

    for _, multi in ipairs({ false, true }) do
        local what = multi and "several locks" or "a lock"

        it(("for %s is given up after its deadline"):format(what), function()
            local thread = until_given_up(function()
                repeat until coroutine.yield() ~= "pumped"
                return true
            end, 0.1, multi)
            assert.equal("suspended", coroutine.status(thread))
        end)

        it(("for %s is given up where an error has ended its coroutine"):format(what), function()
            local thread = until_given_up(function()
                coroutine.yield()
                error("an error of the adapter's own")
            end, 600, multi)
            assert.equal("dead", coroutine.status(thread))
        end)
    end
end)

-- What each has of its own ---------------------------------------------------------------------------------------------

describe("by itself,", function()
    after_each(fixture.clean)

    local has_cqueues, cqueues = pcall(require, "cqueues")
    local has_luv, uv = pcall(require, "luv")
    local has_copas, copas = pcall(require, "copas")

    local function it_with(present, ...)
        (present and it or pending)(...)
    end

    --- A lock that is not free, of a client that was told nothing about loops.
    local function taken_lock()
        local lock = fixture.client():mutex(fixture.path())
        fixture.join(lock:path())
        return lock
    end

    it("a client waits as a plain program where no loop is running", function()
        local lock = taken_lock()
        assert.equal("timeout", select(3, lock:acquire(0.1)))
        local thread = coroutine.create(function()
            return select(3, lock:acquire(0.1))
        end)
        assert.same({ true, "timeout" }, { coroutine.resume(thread) })
        assert.equal("dead", coroutine.status(thread))
    end)

    it_with(has_cqueues, "a client waits by cqueues in a coroutine of a controller, wherever it was made", function()
        local lock, controller, ticks, code = taken_lock(), cqueues.new(), 0, nil
        controller:wrap(function()
            code = select(3, lock:acquire(0.3))
        end)
        controller:wrap(function()
            while not code do
                cqueues.sleep(0.005)
                ticks = ticks + 1
            end
        end)
        assert(controller:loop())
        assert.equal("timeout", code)
        assert.is_true(ticks >= 2) -- a wait that blocks lets none pass but the first
        assert.equal("timeout", select(3, lock:acquire(0.1)))
    end)

    it_with(has_cqueues, "a client does not guess in a coroutine within a coroutine of cqueues", function()
        local lock, controller, code = taken_lock(), cqueues.new(), nil
        controller:wrap(function()
            coroutine.wrap(function()
                code = select(3, lock:acquire(0.3))
            end)()
        end)
        assert(controller:loop())
        assert.equal("phase", code)
        assert(lock._client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it_with(has_cqueues, "two controllers may wait for one client", function()
        local client, path, ended = fixture.client({ wait = "cqueues" }), fixture.path(), 0
        local node, outer = fixture.join(path), cqueues.new()
        for _ = 1, 2 do
            local inner = cqueues.new()
            inner:wrap(function()
                local lock = client:mutex(path, { handoff = 0 })
                assert(lock:acquire(20))
                assert(lock:release())
                ended = ended + 1
            end)
            outer:wrap(function()
                assert(inner:loop())
            end)
        end
        outer:wrap(function()
            while not fixture.has(path, 3) do
                cqueues.sleep(0.01)
            end
            fixture.observer():delete(node)
        end)
        assert(outer:loop(30))
        assert.equal(2, ended)
    end)

    it_with(has_luv, "a client waits by luv while its loop is running, and not in a callback outside of coroutines", function()
        local lock, timer, codes = taken_lock(), uv.new_timer(), {}
        timer:start(1, 0, function()
            timer:close()
            codes.callback = { lock:acquire(0.3) }
            coroutine.wrap(function()
                codes.coroutine = select(3, lock:acquire(0.3))
            end)()
            codes.after = codes.coroutine or "it did not wait"
        end)
        uv.run()
        assert.equal("phase", codes.callback[3])
        assert.truthy(codes.callback[2]:find("coroutine", 1, true))
        assert.equal("it did not wait", codes.after)
        assert.equal("timeout", codes.coroutine)
        assert(lock._client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it_with(has_luv, "nothing waits in a callback of luv's outside of coroutines: the answer is phase", function()
        local client, link = fixture.client_behind_proxy({ wait = "luv", session_timeout = 30 })
        local path = fixture.directory()
        local lock, timer, codes = client:mutex(path .. "/lock"), uv.new_timer(), nil
        local _, _, watch = assert(client:get(path, { watch = true }))
        link:stall() -- what is answered at once needs no wait
        timer:start(1, 0, function()
            timer:close()
            codes = {
                acquire = select(3, lock:acquire(5)),
                contenders = select(3, lock:contenders(5)),
                get = select(3, client:get(path)),
                set = select(3, client:set(path, "text")),
                watch = select(3, watch:wait(5)),
                connect = select(3, zklock.connect(link.address, { wait = "luv" })),
                close = select(3, client:close())
            }
        end)
        uv.run()
        assert.same({ acquire = "phase", contenders = "phase", get = "phase", set = "phase", watch = "phase",
            connect = "phase", close = "phase" }, codes)
        link:resume()
        assert.is_true(client:close())
    end)

    it_with(has_luv, "a client does not guess where two loops are running", function()
        local lock, timer, code, message = taken_lock(), uv.new_timer(), nil, nil
        local before = package.loaded.copas
        package.loaded.copas = { running = true } -- as copas 2 says of itself
        timer:start(1, 0, function()
            timer:close()
            coroutine.wrap(function()
                message, code = select(2, lock:acquire(0.3))
            end)()
        end)
        uv.run()
        package.loaded.copas = before
        assert.equal("phase", code)
        assert.truthy(message:find("more than one event loop", 1, true), message)
    end)

    local may_wait = has_luv and compat.PCALL_YIELDS -- a callback of PUC Lua 5.1 cannot
    it_with(may_wait, "a callback of a client that was told nothing about loops may wait where luv runs", function()
        local luv
        for _, loop in ipairs(loops.each()) do
            luv = loop.name == "luv" and loop or luv
        end
        local client, flushed = fixture.client({ session_timeout = 4 }), nil
        local lock = client:mutex(fixture.path(), { on_lost = function()
            local thread, main = coroutine.running()
            flushed = thread ~= nil and not main and client:flush(20)
        end })
        luv.run(function()
            luv.sleep(0.01) -- from here on the loop is running
            assert(lock:acquire(10))
            assert(fixture.observer():delete(lock:node()))
            until_true(luv, function()
                return flushed ~= nil
            end)
        end)
        assert.is_true(flushed)
    end)

    it_with(has_luv, "luv's clients come and go without leaving anything in the loop", function()
        for _ = 1, 20 do
            coroutine.wrap(function()
                local client = fixture.client({ wait = "luv" })
                assert(client:mutex(fixture.path()):acquire(10))
                assert(client:close())
            end)()
            uv.run()
        end
        local active = 0
        uv.walk(function(handle)
            active = active + (handle:is_active() and 1 or 0)
        end)
        assert.equal(0, active)
    end)

    it_with(has_luv, "a program of luv's that forgets to close its client ends well", function()
        local worker = fixture.program("in_luv", fixture.servers(), fixture.path())
        assert.equal("held", worker:line())
        assert.equal("ended", worker:line())
        assert.equal(0, worker:finish().status)
    end)

    -- PUC Lua 5.1 cannot tell whether the program has stopped the collector.
    local collects = pcall(collectgarbage, "isrunning")

    for name, present in pairs({ cqueues = has_cqueues, luv = has_luv, copas = has_copas }) do
        for _, what in ipairs({ "lock", name == "cqueues" and "controller" or nil }) do
            it_with(present and collects,
                ("a %s that is forgotten is given up while the program only waits, by %s"):format(what, name), function()
                    local forgotten, taken = fixture.path(), fixture.path()
                    local first, expected = what == "controller" and fixture.join(forgotten), what == "controller" and 1 or 0
                    fixture.join(taken)
                    local forgetter = fixture.program("forgetter", fixture.servers(), name, what, forgotten, taken)
                    assert.equal("forgotten", forgetter:line())
                    fixture.await_children(taken, 2)
                    fixture.await_children(forgotten, expected, 30)
                    assert.is_true(fixture.has(taken, 2))
                    assert.equal(first ~= false, fixture.has(forgotten, 1))
                end)
        end
    end

    it_with(has_copas and copas.finished, "a client waits by copas in its loop", function()
        local lock, code, ticks = taken_lock(), nil, 0
        copas.addthread(function()
            code = select(3, lock:acquire(0.3))
        end)
        copas.addthread(function()
            while not code do
                copas.sleep(0.01)
                ticks = ticks + 1
            end
        end)
        copas.loop()
        assert.equal("timeout", code)
        assert.is_true(ticks >= 2) -- a wait that blocks lets none pass but the first
    end)

    it("a client counts how long acquisitions took that got their lock, and its reconnects", function()
        local client, link = fixture.client_behind_proxy()
        local lock, free = client:mutex(fixture.path()), client:mutex(fixture.path())
        local node = fixture.join(lock:path())
        assert.equal("timeout", select(3, lock:acquire(0.1)))
        local before = assert(client:stats())
        assert.equal(0, before.wait_time.count)
        assert.equal(0, before.reconnects)
        assert(free:acquire(10))
        fixture.observer():delete(node)
        assert(client:multi({ lock, client:mutex(fixture.path()) }):acquire(10))
        link:cut()
        local after = eventually(function()
            local stats = client:stats()
            return stats.reconnects == 1 and stats
        end, 20).wait_time
        assert.equal(3, after.count)
        assert.is_true(after.sum > 0)
        local last = { le = 0, count = 0 }
        for _, bucket in ipairs(after) do
            assert.is_true(bucket.le > last.le and bucket.count >= last.count)
            last = bucket
        end
        assert.same({ le = math.huge, count = 3 }, last)
    end)

    it("an alarm's descriptor is readable at its time", function()
        local alarm = core.alarm()
        assert.is_false(core.poll(alarm:fd(), 0))
        local began = core.now()
        alarm:set(0.05)
        assert.is_true(core.poll(alarm:fd(), 20))
        assert.is_true(core.now() - began >= 0.05)
        alarm:set(0)
        assert.is_true(core.poll(alarm:fd(), 20))
        alarm:set(math.huge)
        assert.is_false(core.poll(alarm:fd(), 0))
        alarm:set(1 - 1e-10) -- no more nanoseconds than a second has
        assert.is_true(core.poll(alarm:fd(), 20))
        assert.has_error(function()
            alarm.set({}, 1)
        end)
    end)
end)
