--- A semaphore copes with other programs that use, delete or forbid its nodes.

local fixture = require "spec.support.fixture"
local inspect = require "zklock.inspect"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local semaphores = require "spec.support.semaphores"

local AUTH = { { scheme = "digest", credential = "user:password" } }

after_each(fixture.clean)

describe("when other programs use its nodes, a semaphore", function()
    it("calls on_lost when one of its permits is deleted by an administrator #valgrind #asan", function()
        for which = 1, 2 do
            local path = fixture.path()
            local told
            local mine, client = fixture.semaphore(path, 2, { on_lost = function(...)
                told = { ... }
            end }, { session_timeout = 8 })
            assert(mine:acquire({ count = 2, timeout = 10 }))
            assert(fixture.observer():delete(path .. "/leases/" .. fixture.children(path .. "/leases")[which]))
            fixture.pump_until(client, function()
                return told
            end)
            assert.is_false(mine:held())
            assert.same({ path, "lost" }, { told[1]:path(), told[2] })
            assert.truthy(told[3]:find(path, 1, true), told[3])
            assert.equal("lost", select(3, mine:release()))
            semaphores.await_nodes(path, 0)
            assert(mine:acquire({ count = 2, timeout = 10 }))
            fixture.clean()
        end
    end)

    it("counts the permits that other programs have taken, and waits for them #asan", function()
        local path = fixture.path()
        local lease = semaphores.take_lease(path)
        local mine = fixture.semaphore(path, 2)
        assert.equal(1, mine:available())
        assert.equal("timeout", select(3, mine:try_acquire({ count = 2 })))
        assert(mine:acquire(10))
        assert.equal("timeout", select(3, fixture.semaphore(path, 2):try_acquire()))
        assert.is_true(mine:release())
        loop.run(function()
            assert(mine:acquire({ count = 2, timeout = 20 }))
        end, function()
            semaphores.until_line(path, 1)
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
            assert.is_false(mine:held())
            fixture.observer():delete(lease)
        end)
        semaphores.await_nodes(path, 2)
    end)

    it("has no permits available, and not fewer, if other programs have taken too many", function()
        local path = fixture.path()
        local leases = { semaphores.take_lease(path), semaphores.take_lease(path), semaphores.take_lease(path) }
        local mine = fixture.semaphore(path, 2)
        assert.equal(0, mine:available())
        assert.equal("timeout", select(3, mine:try_acquire()))
        local list = assert(mine:contenders())
        assert.equal(3, #list)
        for index = 1, 3 do
            assert.equal(leases[index], list[index].node)
            assert.equal(index <= 2, list[index].holder)
        end
        loop.run(function()
            assert(mine:acquire(20))
        end, function()
            semaphores.until_line(path, 1)
            fixture.observer():delete(leases[1])
            fixture.observer():delete(leases[2])
        end)
        assert.is_true(hold_of(mine):held())
    end)

    it("waits for the nodes of other programs before its own in the queue", function()
        local path = fixture.path()
        local foreign = fixture.join(path .. "/locks")
        local mine = fixture.semaphore(path, 2)
        assert.equal("timeout", select(3, mine:try_acquire()))
        loop.run(function()
            assert(mine:acquire(20))
        end, function()
            semaphores.until_line(path, 2)
            semaphores.until_leases(path, 0)
            assert.is_false(mine:held())
            fixture.observer():delete(foreign)
        end)
        semaphores.await_nodes(path, 1)
    end)

    it("ignores unrelated nodes in both directories and above them #asan", function()
        local path = fixture.path()
        local observer = fixture.observer()
        for _, directory in ipairs({ path .. "/locks", path .. "/leases" }) do
            observer:create_all(directory)
            for _, name in ipairs({ "config", "lease", "lease-x", "a-leases-0000000001", "-__READ__", "ä 7", "0000000003" }) do
                assert(observer:create(directory .. "/" .. name))
            end
        end
        assert(observer:create(path .. "/leases/_c_" .. fixture.UUID .. "-lock-0000000001"))
        assert(observer:create(path .. "/locks/_c_" .. fixture.UUID .. "-lease-0000000001"))
        assert(observer:create(path .. "/other"))
        fixture.join(path)
        local mine = fixture.semaphore(path, 2)
        assert.equal(2, mine:available())
        assert(mine:try_acquire({ count = 2 }))
        assert.equal(0, mine:available())
        assert.is_true(mine:release())
        assert(mine:acquire({ count = 2, timeout = 10 }))
        local leases = 0
        for _, contender in ipairs(assert(mine:contenders())) do
            leases = leases + (contender.holder and contender.mode == "lease" and 1 or 0)
        end
        assert.equal(2, leases)
    end)

    it("tells its holders from the head of its queue, which has a node for each permit already, and asks holders only", function()
        local path, ready = fixture.path(), false
        local mine = fixture.loop_client({ identity = "mine" }, 30):semaphore(path, 3)
        local theirs = fixture.loop_client({ identity = "theirs" }, 30):semaphore(path, 3)
        local function holders_of(contenders)
            local holders = {}
            for _, contender in ipairs(contenders) do
                holders[#holders + 1] = contender.holder and contender.identity or nil
            end
            return holders
        end
        loop.run(function()
            assert(mine:acquire(20))
            ready = true
            loop.until_true(function()
                return fixture.has(path .. "/leases", 4)
            end)
            assert.same({ "mine" }, holders_of(assert(mine:contenders(20))))
            assert.same({ "mine" }, holders_of(assert(inspect.lock(mine._client, path)).contenders))
            assert.equal(1, mine:revoke(20))
            assert(mine:release())
        end, function()
            loop.until_true(function()
                return ready
            end)
            assert(theirs:acquire { timeout = 60, count = 3 })
            assert.same({ "theirs", "theirs", "theirs" }, holders_of(assert(theirs:contenders(20))))
            assert(theirs:release())
        end)
    end)

    it("passes a revocation request to its holders", function()
        local path = fixture.path()
        local mine, client
        mine, client = fixture.semaphore(path, 2, { on_revoke = function(lock)
            assert(lock:release({ wait = false }))
        end })
        assert(mine:acquire({ count = 2, timeout = 10 }))
        local other = fixture.semaphore(path, 2)
        assert.is_true(assert(other:revoke(10)) >= 1)
        fixture.pump_until(client, function()
            return not mine:held()
        end)
        assert(other:acquire({ count = 2, timeout = 10 }))
    end)
end)

describe("an ACL on a semaphore", function()
    it("of creator keeps other clients out with no_auth, and leaves nothing of theirs behind #asan", function()
        local path = fixture.path()
        local owner = fixture.semaphore(path, 2, { acl = "creator" }, { auth = AUTH })
        assert(owner:acquire(10))
        local stranger, client = fixture.semaphore(path, 2)
        for _, timeout in ipairs({ 10, 0 }) do
            local ok, message, code = stranger:acquire(timeout)
            assert.same({ nil, "no_auth" }, { ok, code })
            assert.truthy(message:find(path, 1, true), message)
        end
        assert.equal("no_auth", select(3, stranger:available()))
        assert.equal("no_auth", select(3, stranger:contenders()))
        assert(client:flush(10))
        assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
        assert.equal(1, #owner:contenders())
        assert.is_true(owner:release())
    end)

    for _, case in ipairs({
        { "listing the permits", "leases", "cdwa" },
        { "taking a permit", "leases", "rdwa" },
        { "listing the queue", "locks", "cdwa" },
        { "joining the queue", "locks", "rdwa" },
    }) do
        it(("that forbids %s is answered with no_auth, and nothing is left behind"):format(case[1]), function()
            local path = fixture.path()
            local admin = fixture.client()
            assert(fixture.observer():create_all(path))
            for _, name in ipairs({ "locks", "leases" }) do
                assert(admin:create(path .. "/" .. name, "2", {
                    acl = { { scheme = "world", id = "anyone", perms = name == case[2] and case[3] or "crdwa" } }
                }))
            end
            local mine, client = fixture.semaphore(path, 2)
            for _, timeout in ipairs({ 10, 0, 10 }) do
                local ok, message, code = mine:acquire({ timeout = timeout, count = 2 })
                assert.same({ nil, "no_auth" }, { ok, code }, message)
                assert.truthy(message:find(path .. "/" .. case[2], 1, true), message)
                assert(client:flush(10))
            end
            assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
            for _, name in ipairs({ "locks", "leases" }) do
                assert(fixture.observer():delete(path .. "/" .. name)) -- it is empty
            end
            assert.is_false(mine:held())
        end)
    end

    it("that forbids reading the limit is answered with no_auth; one that forbids writing it does no harm", function()
        local path = fixture.path()
        local admin = fixture.client()
        assert(fixture.observer():create_all(path .. "/locks"))
        assert(admin:create(path .. "/leases", "", { acl = { { scheme = "world", id = "anyone", perms = "rcd" } } }))
        local mine = fixture.semaphore(path, 2)
        assert(mine:acquire({ count = 2, timeout = 10 }))
        assert.equal("timeout", select(3, fixture.semaphore(path, 2):acquire(0.1)))
        assert.equal("", (fixture.observer():get(path .. "/leases")))
        assert.is_true(mine:held())
    end)

    it("that allows taking but not deleting is answered with no_auth by release, and the nodes go with the client", function()
        local client = fixture.client({ session_timeout = 30 })
        local path = fixture.path()
        local mine = client:semaphore(path, 2, { acl = { { scheme = "world", id = "anyone", perms = "rcwa" } } })
        local taken, message, code = mine:acquire({ count = 2, timeout = 10 })
        if taken then
            taken, message, code = mine:release()
        end
        assert.same({ nil, "no_auth" }, { taken, code }, message)
        assert.is_false(mine:held())
        client:close()
        semaphores.await_nodes(path, 0)
    end)
end)
