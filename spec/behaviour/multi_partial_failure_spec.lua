--- All or none: a multi that cannot acquire one of its locks, for whatever reason, releases the others.

local core = require "zklock.core"
local caller = require "zklock.lock.caller"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"
local takes = require "spec.support.takes"

after_each(fixture.clean)

describe("all or none: when one of its locks cannot be acquired, a multi", function()
    it("names the time that the program has given, not what an earlier lock has left of it", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client { wait = loop }, paths)
        local first = fixture.join(paths[1])
        fixture.join(paths[2])
        local message
        loop.run(function()
            message = select(2, all:acquire(2))
        end, function()
            loop.until_true(function()
                return fixture.has(paths[1], 2)
            end)
            local due = core.now() + 0.5
            loop.until_true(function()
                return core.now() >= due
            end)
            fixture.observer():delete(first)
        end)
        assert.truthy(message:find(paths[2] .. " within 2 s: ", 1, true), message)
    end)

    for which = 1, 3 do
        it(("releases the others after a timeout, or a try (%d) #asan"):format(which), function()
            local paths = multis.three_paths()
            local client = fixture.steady_client()
            local all, locks = multis.of(client, paths)
            local blocker = fixture.join(paths[which])
            local expected = ({ "1 0 0", "0 1 0", "0 0 1" })[which]
            for _, timeout in ipairs({ 1, 0, 1, 0.001 }) do
                local ok, message, code = all:acquire(timeout)
                assert.same({ nil, "timeout" }, { ok, code })
                local named = message:find(paths[which], 1, true)
                for before = 1, timeout > 0 and which - 1 or 0 do -- acquiring these may have taken that long
                    named = named or message:find(paths[before], 1, true)
                end
                assert.truthy(named, message)
                assert.is_false(all:held())
                for _, lock in ipairs(locks) do
                    assert.is_false(lock:held())
                end
                fixture.assert_nothing_left(client)
                assert.equal(expected, multis.counts(paths))
            end
            fixture.observer():delete(blocker)
            assert(all:acquire(10))
        end)

        it(("releases the others when the server forbids one (%d)"):format(which), function()
            local paths = multis.three_paths()
            local admin = fixture.client()
            assert(fixture.observer():create_all(paths[which]:match("^(.*)/")))
            assert(admin:create(paths[which], "", { acl = { { scheme = "world", id = "anyone", perms = "rda" } } }))
            local client = fixture.steady_client()
            local all = multis.of(client, paths)
            for _, timeout in ipairs({ 10, 0, { timeout = 10 } }) do
                local ok, message, code = all:acquire(timeout)
                assert.same({ nil, "no_auth" }, { ok, code })
                assert.truthy(message:find(paths[which], 1, true), message)
                fixture.assert_nothing_left(client)
                assert.equal("0 0 0", multis.counts(paths))
            end
        end)

        it(("releases the others when one is a semaphore of another size (%d)"):format(which), function()
            local paths = multis.three_paths()
            local other, client = fixture.steady_client(), fixture.steady_client()
            local taken = other:semaphore(paths[which], 3)
            assert(taken:acquire(10))
            local locks = {}
            for index, path in ipairs(paths) do
                locks[index] = index == which and client:semaphore(path, 2) or client:mutex(path)
            end
            local all = client:multi(locks)
            for _ = 1, 2 do
                assert.equal("mismatch", select(3, all:acquire(10)))
                fixture.assert_nothing_left(client)
                assert.is_false(all:held())
            end
            for index, path in ipairs(paths) do
                assert.is_true(index == which or fixture.has(path, 0))
            end
            assert.is_true(taken:held())
        end)

        it(("answers deadlock if one lock object already holds its lock, which stays held (%d)"):format(which), function()
            local paths = multis.three_paths()
            local client = fixture.steady_client()
            local all, locks = multis.of(client, paths)
            assert(locks[which]:acquire(10))
            for _, timeout in ipairs({ 10, 0 }) do
                local ok, message, code = all:acquire(timeout)
                assert.same({ nil, "deadlock" }, { ok, code })
                assert.truthy(message:find(paths[which], 1, true), message)
                assert(client:flush(10))
                assert.equal(({ "1 0 0", "0 1 0", "0 0 1" })[which], multis.counts(paths))
            end
            assert.is_true(locks[which]:held())
            assert.is_true(locks[which]:release())
            assert(all:acquire(10))
        end)

        it(("is cancelled by another coroutine while it waits, and releases the others (%d) #asan"):format(which), function()
            local paths = multis.three_paths()
            local client = fixture.steady_client()
            local all = multis.of(client, paths)
            local blocker = fixture.join(paths[which])
            local answer
            for _ = 1, 2 do
                loop.run(function()
                    answer = compat.pack(all:acquire(30))
                end, function()
                    fixture.until_children(paths[which], 2)
                    loop.until_true(function()
                        return multis.counts(paths) == ({ "2 0 0", "1 2 0", "1 1 2" })[which]
                    end)
                    assert.is_true(all:cancel())
                    assert.is_false(all:cancel())
                end)
                assert.same({ nil, "cancelled" }, { answer[1], answer[3] })
                assert.is_string(answer[2])
                fixture.assert_nothing_left(client)
                assert.equal(({ "1 0 0", "0 1 0", "0 0 1" })[which], multis.counts(paths))
            end
            assert.is_false(all:cancel())
            fixture.observer():delete(blocker)
            assert(all:acquire(10))
            assert.is_false(all:cancel())
            assert.is_true(all:held())
        end)
    end

    it("can be cancelled before any request has reached the server", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        local blocker = fixture.join(paths[2]) -- requests may have reached the server, but not acquired all locks
        local answer
        loop.run(function()
            answer = compat.pack(all:acquire(30))
        end, function()
            assert.is_true(all:cancel())
        end)
        assert.same({ nil, "cancelled" }, { answer[1], answer[3] })
        fixture.assert_nothing_left(client)
        assert.equal("0 1 0", multis.counts(paths))
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
    end)

    it("releases what it holds when its client is closed during the wait", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        fixture.join(paths[3])
        local code
        loop.run(function()
            code = select(3, all:acquire(30))
        end, function()
            fixture.until_children(paths[3], 2)
            client:close()
        end)
        assert.equal("closed", code)
        multis.await_counts(paths, "0 0 1")
    end)

    it("observes one deadline, however many locks it waits for", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local blockers = { fixture.join(paths[1]), fixture.join(paths[2]), fixture.join(paths[3]) }
        local answer
        loop.run(function()
            takes(4, function()
                answer = compat.pack(all:acquire(4))
            end)
        end, function()
            for index = 1, 2 do
                fixture.until_children(paths[index], 2)
                local due = core.now() + 0.4
                loop.until_true(function()
                    return core.now() > due
                end)
                fixture.observer():delete(blockers[index])
            end
        end)
        assert.same({ nil, "timeout" }, { answer[1], answer[3] })
        assert.truthy(answer[2]:find(paths[3], 1, true), answer[2])
        multis.await_counts(paths, "0 0 1")
    end)

    --- The acquisition of a lock that is under way.
    local function asked_for(lock)
        for hold in caller.each(lock) do
            if not hold._state then
                return hold
            end
        end
    end

    --- Waits, without running the pump, until the lock is granted and another client's revocation request has arrived.
    local function until_revoked(lock)
        local acquisition = asked_for(lock)._acquisition
        eventually(function()
            return acquisition:phase() == "granted"
        end)
        assert.equal(1, fixture.client({ wait = "blocking" }):mutex(lock:path()):revoke(10))
        eventually(function()
            return acquisition:revocations() > 0
        end)
    end

    for _, timeout in ipairs({ 20, 0 }) do
        it(("answers lost if an on_revoke of one lock releases another before acquire returns (%g)"):format(timeout), function()
            local paths = multis.three_paths()
            local client, _, interfere = fixture.client_to_interfere({ session_timeout = 30 })
            local locks = { client:mutex(paths[1]), nil, client:mutex(paths[3]) }
            locks[2] = client:mutex(paths[2], { on_revoke = function()
                assert(locks[1]:release({ wait = false }))
            end })
            local all = client:multi(locks)
            interfere(function()
                until_revoked(locks[2])
            end)
            local ok, message, code = all:acquire(timeout)
            assert.same({ nil, "lost" }, { ok, code })
            assert.truthy(message:find(paths[1], 1, true), message)
            for index = 1, 3 do
                assert.is_false(locks[index]:held())
            end
            fixture.assert_nothing_left(client)
            assert.equal("0 0 0", multis.counts(paths))
        end)
    end

    it("asks for no further lock once it is cancelled, also by an on_revoke that runs outside a wait", function()
        local paths = multis.three_paths()
        local client, _, interfere = fixture.client_to_interfere({ session_timeout = 30 })
        local all
        local locks = { client:mutex(paths[1], { on_revoke = function()
            assert.is_true(all:cancel())
        end }), client:mutex(paths[2]) }
        all = client:multi(locks)
        client:desk().contended:note(paths[1]) -- so that the locks are acquired in their order
        interfere(function()
            until_revoked(locks[1])
        end)
        assert.equal("cancelled", select(3, all:acquire(20)))
        assert.same({ false, false }, { locks[1]:held(), locks[2]:held() })
        fixture.assert_nothing_left(client)
        assert.is_nil((fixture.observer():exists(paths[2])))
    end)

    it("waits no longer for the rest if the first lock came as time was up, even if no answer comes", function()
        local paths = multis.three_paths()
        local client, link, interfere = fixture.client_to_interfere({ session_timeout = 6 })
        local all, locks = multis.of(client, paths)
        client:desk().contended:note(paths[1])
        interfere(function()
            local acquisition = asked_for(locks[1])._acquisition
            local due = core.now() + 0.2
            eventually(function()
                return acquisition:phase() == "granted" and core.now() > due
            end)
            link:stall("down")
        end)
        local ok, message, code = all:acquire(0.2)
        link:resume()
        assert.same({ nil, "timeout" }, { ok, code }) -- a try would have waited until the connection was lost
        assert.truthy(message:find(paths[2], 1, true), message)
        fixture.assert_nothing_left(client)
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("tries the free locks once more when its time is up, and waits no longer", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        fixture.join(paths[1])
        takes(0, function()
            assert.equal("timeout", select(3, all:acquire(0.000001)))
        end)
        multis.await_counts(paths, "1 0 0")
    end)

    it("releases everything when the wait raises #asan", function()
        local broken = false
        local problem = {}
        local client = fixture.steady_client({ wait = { yields = false, wake = loop.wake, wait = function(...)
            if broken then
                error(problem)
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all, locks = multis.of(client, paths)
        local blocker = fixture.join(paths[3])
        for _, contended in ipairs({ false, true }) do
            broken = true
            local ok, raised = pcall(all.acquire, all, 20)
            broken = false
            assert.is_false(ok)
            assert.equal(problem, raised)
            for _, lock in ipairs(locks) do
                assert.is_false(lock:held())
                assert.truthy(tostring(lock):find("free", 1, true))
            end
            fixture.assert_nothing_left(client)
            assert.equal("0 0 1", multis.counts(paths))
            if not contended then
                assert.equal("timeout", select(3, all:acquire(0.1)))
                fixture.assert_nothing_left(client)
            end
        end
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
    end)

    it("releases everything if the adapter cannot wait", function()
        local nowhere = false
        local client, link = fixture.client_behind_proxy({ session_timeout = 30, wait = { wake = loop.wake, wait = function(...)
            if nowhere then
                return nil, "not in this phase", "phase"
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all = multis.of(client, paths)
        local blocker = fixture.join(paths[1]) -- otherwise the answers could be there before the multi has to wait
        nowhere = true
        assert.same({ nil, "not in this phase", "phase" }, { all:acquire(20) })
        nowhere = false
        fixture.assert_nothing_left(client)
        assert.equal("1 0 0", multis.counts(paths))
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
        nowhere = true
        link:stall("down") -- for the same reason
        local ok, message, code = all:release()
        link:resume()
        nowhere = false
        assert.same({ nil, "phase" }, { ok, code })
        assert.truthy(message:find("not in this phase", 1, true), message)
        fixture.assert_nothing_left(client)
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("releases, when its time is up, only what it has acquired itself", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, paths)
        fixture.join(paths[3])
        loop.run(function()
            assert.is_nil((all:acquire(4)))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and hold_of(locks[1]):held()
            end)
            assert.is_true(hold_of(locks[1]):release())
            assert(locks[1]:acquire(10))
        end)
        assert.is_true(hold_of(locks[1]):held())
        assert.is_false(hold_of(locks[2]):held())
        multis.await_counts(paths, "1 0 1")
    end)
end)
