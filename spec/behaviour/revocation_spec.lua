--- revoke asks the holders of a lock to release it, and calls their on_revoke, on every kind of lock.

local caller = require "zklock.lock.caller"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local takes = require "spec.support.takes"

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    describe("revocation of a " .. kind.name, function()
        it("calls on_revoke where the holder waits; the holder releases, the requester gets the lock #valgrind #asan", function()
            local path = fixture.path()
            local client, asked = fixture.steady_client(), {}
            local lock = kind.new(client, path, { on_revoke = function(...)
                asked[#asked + 1] = { ... }
            end })
            local rival = kinds.new_rival(kind, path)
            local held = assert(lock:acquire(10))
            loop.run(function()
                loop.until_true(function()
                    client:pump()
                    return asked[1]
                end)
                assert.is_true(held:held())
                assert(held:release())
            end, function()
                assert.equal(1, rival:revoke(10))
                assert(rival:acquire(20))
            end)
            assert.equal(1, #asked)
            assert.same({ 1, held }, { #asked[1], asked[1][1] })
            assert(client:flush(10))
            assert.is_false(fixture.is_watched(path))
            assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
            assert.is_true(hold_of(rival):release())
            assert(lock:acquire(10)) -- the earlier request does not concern the next hold
            client:pump()
            assert.equal(1, #asked)
        end)

        it("may be answered by a release inside on_revoke #asan", function()
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

        it("leaves the name of a holder that hears of it, each time, and marks that holder", function()
            local client, path, asked = fixture.steady_client { identity = "web3\n7" }, fixture.path(), 0
            local lock = kind.new(client, path, { on_revoke = function()
                asked = asked + 1
            end })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(10))
            for times = 1, 3 do
                assert.equal(1, rival:revoke(10))
                local holder
                fixture.pump_until(client, function()
                    holder = lock:contenders()[1]
                    return asked == times and holder.identity ~= ""
                end)
                assert.same({ "web3\n7", true }, { holder.identity, holder.revoked })
            end
            assert(client:sync("/", { timeout = 10 }))
            client:pump()
            assert.equal(3, asked)
        end)

        it("asks no holder if there is none, and answers 0", function()
            local lock = kinds.new_rival(kind, fixture.path())
            assert.equal(0, lock:revoke(10))
            assert(lock:acquire(10))
            assert.is_true(lock:release())
            assert.equal(0, lock:revoke())
        end)

        it("is not noticed by a holder without on_revoke, which keeps the lock", function()
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

        it("may be requested any number of times, also through a reconnect #asan", function()
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
            link:cut() -- the word stays in the node, but there was no new request
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

        it("leaves no watch if the hold ends in another way: max_hold, a lost session, a closed client", function()
            local path = fixture.path()
            local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
            local lock = kind.new(client, path, { max_hold = 0.05, on_revoke = print })
            local held, message, code = lock:acquire(20)
            assert(held or code == "lost", message) -- on a busy machine max_hold passes before acquire has returned
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

        it("watches its node, and so calls on_lost at once when an administrator deletes the node #asan", function()
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
            takes(0, function() -- the heartbeat would have noticed after 15 s
                assert(fixture.observer():delete(node))
                fixture.pump_until(client, function()
                    return told
                end)
            end)
            assert.equal("lost", told)
            assert.is_false(lock:held())
            assert.equal("lost", select(3, lock:release()))
            assert(client:flush(10))
            assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
        end)
    end)
end

describe("revoke", function()
    it("asks the other holders when one holder releases meanwhile, and does not count that one", function()
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
            local _, query = next(client:desk().everybody)
            eventually(function()
                return query:done()
            end)
            fixture.observer():delete(nodes[1]) -- between the list and the write
        end)
        assert.equal(2, client:rwlock(path).write:revoke(10))
        eventually(function()
            holders[2]._client:pump()
            holders[3]._client:pump()
            return asked == 2
        end)
    end)

    it("asks every reader, and returns how many, but asks no waiting writer #asan", function()
        local path = fixture.path()
        local readers, functions, asked = {}, {}, {} -- a reader that is not kept would release its lock when collected
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
        assert.is_true(hold_of(writer.write):held())
        assert.is_nil(heard)
    end)

    it("asks a downgraded writer through both of its nodes", function()
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

    it("asks every holder of a semaphore's permits once, however many permits it holds", function()
        local path = fixture.path()
        local clients, asked = {}, {}
        for index = 1, 3 do
            clients[index] = fixture.steady_client()
            local holder = clients[index]:semaphore(path, 7, { on_revoke = function()
                asked[index] = (asked[index] or 0) + 1
            end })
            assert(holder:acquire({ count = index, timeout = 10 }))
            clients["lock" .. index] = holder -- kept, so that it is not collected
        end
        assert.equal(6, fixture.steady_client():semaphore(path, 7):revoke(10)) -- the number of nodes
        for index = 1, 3 do
            fixture.pump_until(clients[index], function()
                return asked[index]
            end)
            assert(clients[index]:sync("/", { timeout = 10 }))
            clients[index]:pump()
        end
        assert.same({ 1, 1, 1 }, asked)
    end)

    it("by the holder itself calls its own on_revoke", function()
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

    --- Within the loop: runs fn(lock) for a mutex whose on_revoke releases it. The program is notified of the grant and of the
    -- request in the same turn.
    local function with_early_revocation(fn)
        local client, path = fixture.steady_client(), fixture.directory()
        local holder = fixture.client():mutex(path)
        local lock = client:mutex(path, { on_revoke = function(hold)
            hold:release()
        end })
        local held = assert(holder:acquire(10))
        loop.run(function()
            fn(lock)
        end, function()
            local asked, node
            loop.until_true(function()
                for hold in caller.each(lock) do
                    asked, node = hold, not hold._try and hold._acquisition and hold._acquisition:node()
                end
                return node
            end)
            assert(fixture.observer():set(node, "__REVOKE__"))
            assert.is_true(held:release())
            eventually(function() -- the loop does not run meanwhile
                return asked._acquisition:revocations() > 0
            end)
        end)
        assert.is_false(lock:held())
        assert(client:flush(10))
        assert.same({}, fixture.children(path))
    end

    -- Random programs found this: with_lock failed at a hold that on_revoke had released.
    it("directly after the grant makes acquire answer lost if on_revoke releases the lock", function()
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

    it("that comes with the grant, or before any pump runs, still calls on_revoke", function()
        local asked = 0
        local client = fixture.steady_client({ wait = "blocking" })
        local lock = client:mutex(fixture.path(), { on_revoke = function()
            asked = asked + 1
        end })
        local other = fixture.steady_client({ wait = "blocking" }):mutex(lock:path())
        assert(lock:acquire(10))
        assert.equal(1, other:revoke(10)) -- perhaps before the watch is set
        fixture.pump_until(client, function()
            return asked > 0
        end)
        assert(client:sync("/", { timeout = 10 }))
        client:pump()
        assert.equal(1, asked)
    end)

    it("does not treat other data in a holder's node as a request", function()
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

    it("is reported through log if on_revoke raises, and the holder keeps the lock #asan", function()
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

    it("answers no_auth if the acl does not allow writing into the holder's node", function()
        local owner = fixture.steady_client({ auth = { { scheme = "digest", credential = "user:password" } } })
        local path = fixture.directory() -- open to every client, unlike the nodes
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
        takes(0.3, function()
            local count, _, code = lock:revoke(0.3)
            assert.is_nil(count)
            assert.is_true(code == "timeout" or code == "disconnected", code)
        end)
        link:resume()
    end)

    it("refuses an invalid timeout", function()
        local lock = fixture.steady_client():mutex(fixture.path())
        for _, timeout in ipairs({ -1, "soon", {}, 0 / 0 }) do
            mistake(function()
                local count = lock:revoke(timeout)
                return count
            end, "lock:revoke: timeout")
        end
    end)
end)
