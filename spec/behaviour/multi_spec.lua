--- What a multi promises: all of its locks or none, one deadline, no deadlock with others of its kind, and nothing left
-- behind.

local cluster = require "spec.support.cluster"
local core = require "zklock.core"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local multis = require "spec.support.multis"
local program = require "spec.support.program"
local assert_refused = require "spec.support.refused"
local wait = require "zklock.wait"

describe("a multi", function()
    after_each(fixture.clean)

    it("holds all of its locks, and releases all #valgrind #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, paths)
        assert.is_false(all:held())
        assert.equal(0, all:remaining())
        assert.equal("zklock multi (3 locks, not held)", tostring(all))
        assert.equal(all, all:acquire(10))
        assert.is_true(all:held())
        assert.is_true(all:remaining() > 0)
        assert.equal("zklock multi (3 locks, held)", tostring(all))
        for index, lock in ipairs(locks) do
            assert.is_true(lock:held())
            assert.is_string(lock:token())
            assert.equal(paths[index], lock:node():match("^(.*)/"))
        end
        assert.equal("1 1 1", multis.counts(paths))
        assert.is_true(all:release())
        assert.equal("0 0 0", multis.counts(paths))
        for _, lock in ipairs(locks) do
            assert.is_false(lock:held())
        end
        fixture.assert_nothing_left(client)
    end)

    it("can be acquired again and again, with tokens that grow", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        local last = { "", "", "" }
        for round = 1, 6 do
            assert(round % 2 == 0 and all:try_acquire() or all:acquire(10))
            for index, lock in ipairs(locks) do
                assert.is_true(lock:token() > last[index])
                last[index] = lock:token()
            end
            assert.is_true(all:release())
        end
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("is of one lock, or of fifty", function()
        local client = fixture.steady_client()
        local base = fixture.path()
        for _, size in ipairs({ 1, 50 }) do
            local paths = {}
            for index = 1, size do
                paths[index] = ("%s/%02d"):format(base, (index * 37) % 50)
            end
            local all = multis.of(client, paths)
            assert(all:acquire(20))
            assert.equal(("zklock multi (%d locks, held)"):format(size), tostring(all))
            assert.is_true(all:release())
            assert(all:try_acquire())
            assert.is_true(all:release())
        end
        fixture.assert_nothing_left(client)
    end)

    it("takes its locks in the order of their paths, whatever order they were given in #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, { paths[3], paths[1], paths[2] })
        assert.same({ locks[2], locks[3], locks[1] }, all:members())
        all:members()[1] = nil
        assert.equal(3, #all:members())
        -- At once, when all are free.
        assert(all:acquire(10))
        local tokens = { locks[2]:token(), locks[3]:token(), locks[1]:token() }
        assert.is_true(tokens[1] < tokens[2] and tokens[2] < tokens[3], table.concat(tokens, " "))
        assert.is_true(all:release())
        -- One after the other, when one is not.
        local blocker = fixture.join(paths[1])
        loop.run(function()
            assert(all:acquire(20))
        end, function()
            fixture.until_children(paths[1], 2)
            loop.until_true(function()
                return multis.counts(paths) == "2 0 0"
            end)
            fixture.observer():delete(blocker)
        end)
        tokens = { locks[2]:token(), locks[3]:token(), locks[1]:token() }
        assert.is_true(tokens[1] < tokens[2] and tokens[2] < tokens[3], table.concat(tokens, " "))
    end)

    it("orders paths by their bytes, the shorter first", function()
        local client = fixture.steady_client()
        local all = multis.of(client, { "/é", "/a/b", "/a-b", "/a", "/B", "/ab", "/a~", "/Z" })
        local paths = {}
        for index, lock in ipairs(all:members()) do
            paths[index] = lock:path()
        end
        assert.same({ "/B", "/Z", "/a", "/a-b", "/a/b", "/ab", "/a~", "/é" }, paths)
    end)

    -- A program may have called os.setlocale, or be part of one that has; others of the fleet have not.
    it("orders paths by their bytes in a locale that sorts otherwise, too", function()
        local directory = files.make_directory()
        local output, status = cluster.run({ "localedef", "-i", "en_US", "-f", "UTF-8", directory .. "/zklock.UTF-8" })
        if status ~= 0 then
            cluster.run({ "rm", "-rf", directory })
            pending("no such locale can be made here: " .. output)
            return
        end
        local sorter = program.run("sorter", { "env", "LOCPATH=" .. directory, "LC_ALL=zklock.UTF-8", program.interpreter(),
            "spec/programs/sorter.lua", "/é", "/a/b", "/a-b", "/a", "/B", "/ab", "/Z" })
        local collates, order = sorter:line(), sorter:line()
        sorter:stop()
        cluster.run({ "rm", "-rf", directory })
        assert.equal("/B /Z /a /a-b /a/b /ab /é", order)
        assert.equal(rawget(_G, "jit") and "a < B false" or "a < B true", collates) -- LuaJIT compares bytes anyway
    end)

    it("waits for one lock while holding those before it and none behind it", function()
        local paths = multis.three_paths()
        local blocker = fixture.join(paths[2])
        local all, locks = multis.of(fixture.steady_client(), { paths[2], paths[3], paths[1] })
        loop.run(function()
            assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 2 0" and locks[3]:held()
            end)
            assert.is_false(locks[1]:held())
            assert.is_false(locks[2]:held())
            assert.is_false(all:held())
            fixture.observer():delete(blocker)
        end)
        assert.is_true(all:held())
        assert.equal("1 1 1", multis.counts(paths))
    end)

    it("holds after a wait as it does without one: it is not collected, and hears of a loss #asan", function()
        local paths, lost = multis.three_paths(), {}
        local client = fixture.steady_client({ session_timeout = 12 })
        local all, locks = multis.of(client, paths, { on_lost = function(lock)
            lost[#lost + 1] = lock:path()
        end })
        local blocker = fixture.join(paths[3])
        loop.run(function()
            assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and locks[2]:held()
            end)
            fixture.observer():delete(blocker)
        end)
        fixture.collect()
        assert.is_true(all:held())
        assert(client:flush(10))
        assert.equal("1 1 1", multis.counts(paths))
        fixture.observer():delete(locks[1]:node())
        fixture.pump_until(client, function()
            return lost[1]
        end)
        assert.same({ paths[1] }, lost)
        assert.equal("lost", select(3, all:release()))
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("hears of the loss of one that it has while it waits for another", function()
        local paths, lost = multis.three_paths(), {}
        local client = fixture.steady_client({ session_timeout = 12 })
        local all, locks = multis.of(client, paths, { on_lost = function(lock)
            lost[#lost + 1] = lock:path()
        end })
        local blocker = fixture.join(paths[3])
        loop.run(function()
            assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and locks[2]:held()
            end)
            fixture.observer():delete(locks[1]:node())
            loop.until_true(function()
                client:pump()
                return lost[1]
            end)
            fixture.observer():delete(blocker)
        end)
        assert.same({ paths[1] }, lost)
        assert.is_true(all:held())
        assert.is_true(all:release())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("is of locks of any kind #valgrind #asan", function()
        local base = fixture.path()
        local client, other = fixture.steady_client(), fixture.steady_client()
        local rw, wr = client:rwlock(base .. "/b"), client:rwlock(base .. "/c")
        local all = client:multi({ client:semaphore(base .. "/d", 2), wr.write, rw.read, client:mutex(base .. "/a") })
        assert(all:acquire(10))
        assert.is_true(all:held())
        assert(other:rwlock(base .. "/b").read:try_acquire())
        assert.equal("timeout", select(3, other:rwlock(base .. "/b").write:try_acquire()))
        assert.equal("timeout", select(3, other:rwlock(base .. "/c").read:try_acquire()))
        assert.equal("timeout", select(3, other:mutex(base .. "/a"):try_acquire()))
        local two = other:semaphore(base .. "/d", 2)
        assert.equal("timeout", select(3, two:try_acquire({ count = 2 })))
        assert(two:try_acquire())
        assert.is_true(two:release())
        assert.is_true(all:release())
        fixture.assert_nothing_left(client)
        -- Waiting for each in turn.
        for _, name in ipairs({ "a", "b", "c", "d/locks" }) do
            local blocker = fixture.join(base .. "/" .. name)
            loop.run(function()
                assert(all:acquire(20))
            end, function()
                fixture.until_children(base .. "/" .. name, name == "b" and 3 or 2)
                fixture.observer():delete(blocker)
            end)
            assert.is_true(all:release())
        end
        fixture.assert_nothing_left(client)
    end)

    it("is acquired by several coroutines one after the other, each for itself", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        local node = fixture.join(paths[2])
        local order, inside = {}, 0
        local function work(number)
            return function()
                assert.equal(all, all:acquire(20))
                assert.same({ true, true, true }, { locks[1]:held(), locks[2]:held(), locks[3]:held() })
                assert.is_true(all:held())
                inside, order[#order + 1] = inside + 1, number
                assert.equal(1, inside)
                local turns = 0
                loop.until_true(function()
                    turns = turns + 1
                    return turns == 3
                end)
                inside = inside - 1
                assert.is_true(all:release())
                assert.is_false(all:held())
                assert.equal("not_held", select(3, all:release()))
            end
        end
        loop.run(work(1), work(2), work(3), function()
            fixture.until_children(paths[2], 2)
            assert(fixture.observer():delete(node))
        end)
        table.sort(order)
        assert.same({ 1, 2, 3 }, order)
        multis.await_counts(paths, "0 0 0")
    end)

    it("may have the same lock objects as another multi: they are one hold", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local a, b, c = client:mutex(paths[1]), client:mutex(paths[2]), client:mutex(paths[3])
        local first, second = client:multi({ a, b }), client:multi({ c, b })
        assert(first:acquire(10))
        local ok, message, code = second:acquire(10)
        assert.same({ nil, "deadlock" }, { ok, code })
        assert.truthy(message:find(paths[2], 1, true), message)
        assert.is_true(first:held())
        assert.is_false(c:held())
        assert.is_true(first:release())
        assert(second:acquire(10))
    end)

    it("is given up when the program forgets it while holding #valgrind #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        do
            assert((multis.of(client, paths)):acquire(10))
        end
        fixture.collect()
        multis.await_counts(paths, "0 0 0")
    end)

    it("is free for others at once when its client closes", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        assert(all:acquire(10))
        assert.is_true(client:close())
        assert.is_false(all:held())
        assert.equal("lost", select(3, all:release()))
        assert.equal("closed", select(3, all:acquire(10)))
        assert.equal("closed", select(3, all:try_acquire()))
        assert((multis.of(fixture.steady_client(), paths)):try_acquire())
    end)
end)

describe("requests of a multi", function()
    after_each(fixture.clean)

    it("are one create for each mutex, and a list unless it comes after itself, and one delete, when all are free", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local all = multis.of(client, { paths[2], paths[3], paths[1] })
        assert(all:acquire(20))
        assert.is_true(all:release())
        local function cycle()
            assert(client:flush(10))
            link:reset_counts()
            local before = fixture.sent(client)
            assert(all:acquire(20))
            local joining = fixture.sent(client) - before
            local seen = link:counts()
            assert.equal(3, (seen.create or 0) + (seen.create2 or 0))
            assert.is_true(all:release())
            return joining, fixture.sent(client) - before - joining
        end
        assert.same({ 6, 3 }, { cycle() })
        eventually(function() -- soon after one another
            local joining, leaving = cycle()
            return joining == 3 and leaving == 3, joining
        end)
    end)

    it("go out without waiting for an answer", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local all = multis.of(client, paths)
        assert(all:acquire(20))
        assert.is_true(all:release())
        assert(client:flush(10))
        --- Runs `ask` while no answer comes, until the proxy has seen what is expected; then lets the answers come.
        local function unanswered(ask, expected)
            link:reset_counts()
            link:stall("down")
            loop.run(function()
                assert(ask())
            end, function()
                loop.until_true(function()
                    local seen = link:counts()
                    return (seen.create or 0) + (seen.create2 or 0) == expected.create and
                        (seen.getChildren or 0) == expected.list and (seen.delete or 0) == expected.delete
                end)
                link:resume()
            end)
        end
        unanswered(function()
            return all:acquire(20)
        end, { create = 3, list = 3, delete = 0 })
        unanswered(function()
            return all:release()
        end, { create = 0, list = 0, delete = 3 })
    end)

    it("are no writes for a lock that is taken, and none at all for a try whose first is taken #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        for taken = 1, 3 do
            local blocker = fixture.join(paths[taken])
            local before = fixture.observer():exists(paths[taken])
            local ok, message, code = all:try_acquire()
            assert.same({ nil, "timeout" }, { ok, code })
            assert.truthy(message:find(paths[taken], 1, true), message)
            assert.equal("timeout", select(3, all:acquire(0)))
            assert(client:flush(10))
            assert.same(before, (fixture.observer():exists(paths[taken])))
            fixture.observer():delete(blocker)
            multis.await_counts(paths, "0 0 0")
        end
    end)
end)

describe("a lock of a multi that nobody has", function()
    after_each(fixture.clean)

    for _, timeout in ipairs({ 0.05, 0 }) do
        it(("is left alone while one before it is taken, also by multis that are made anew (%g)"):format(timeout), function()
            local paths = multis.three_paths()
            local client, first = fixture.steady_client(), fixture.join(paths[1])
            fixture.observer():create_all(paths[2]) -- or it would be removed whenever it is empty
            assert.equal("timeout", select(3, (multis.of(client, paths)):acquire(0.05))) -- which could not know
            assert(client:flush(10))
            local before = fixture.observer():exists(paths[2])
            for _ = 1, 20 do
                assert.equal("timeout", select(3, (multis.of(client, { paths[2], paths[1] })):acquire(timeout)))
            end
            assert(client:flush(10))
            assert.same(before, (fixture.observer():exists(paths[2])))
            fixture.observer():delete(first)
            for _ = 1, 10 do
                local all = multis.of(client, paths)
                assert(all:acquire(10))
                assert.is_true(all:release())
            end
        end)
    end

    it("is asked for at once again when those before it were free for a while", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local first = fixture.join(paths[1])
        assert.equal("timeout", select(3, (multis.of(client, paths)):acquire(0.05)))
        fixture.observer():delete(first)
        for _ = 1, 10 do
            local all = multis.of(client, paths)
            assert(all:acquire(20))
            assert.is_true(all:release())
        end
        assert(client:flush(10))
        link:reset_counts()
        link:stall("down")
        local all = multis.of(client, paths)
        loop.run(function()
            assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                local seen = link:counts()
                return (seen.create or 0) + (seen.create2 or 0) == 3
            end)
            link:resume()
        end)
    end)

    it("is left alone whatever else the client has found taken meanwhile, and what is remembered is bounded", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        fixture.join(paths[1])
        assert.equal("timeout", select(3, (multis.of(client, paths)):acquire(0.05)))
        local contended = client._contended
        for index = 1, 1000 do
            contended:note(("%s/%d"):format(paths[3], index))
        end
        local count = 0
        for _, generation in ipairs({ contended.recent, contended.older }) do
            for _ in pairs(generation) do
                count = count + 1
            end
        end
        assert.is_true(count >= 100 and count <= 256, count)
    end)
end)

describe("all or none: when one of its locks cannot be had, a multi", function()
    after_each(fixture.clean)

    for which = 1, 3 do
        it(("gives back the others after a timeout, or a try (%d) #asan"):format(which), function()
            local paths = multis.three_paths()
            local client = fixture.steady_client()
            local all, locks = multis.of(client, paths)
            local blocker = fixture.join(paths[which])
            local expected = ({ "1 0 0", "0 1 0", "0 0 1" })[which]
            for _, timeout in ipairs({ 0.2, 0, 0.2, 0.001 }) do
                local ok, message, code = all:acquire(timeout)
                assert.same({ nil, "timeout" }, { ok, code })
                local named = message:find(paths[which], 1, true)
                for before = 1, timeout > 0 and which - 1 or 0 do -- which may have taken that long
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

        it(("gives back the others when the server forbids one (%d)"):format(which), function()
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

        it(("gives back the others when one is a semaphore of another size (%d)"):format(which), function()
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

        it(("says deadlock when one is held by its object already, which stays held (%d)"):format(which), function()
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

        it(("is cancelled by another coroutine while it waits, and gives back the others (%d) #asan"):format(which), function()
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

    it("is cancelled before anything has come to the server, too", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        local blocker = fixture.join(paths[2]) -- it may have come there all the same, but it has not got them
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

    it("gives back what it has when its client is closed under it", function()
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

    it("answers its one deadline, however many it waits for", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local blockers = { fixture.join(paths[1]), fixture.join(paths[2]), fixture.join(paths[3]) }
        local answer, seconds
        loop.run(function()
            local before = core.now()
            answer = compat.pack(all:acquire(4))
            seconds = core.now() - before
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
        assert.is_true(seconds >= 3.99 and seconds < 15, seconds)
        multis.await_counts(paths, "0 0 1")
    end)

    --- Waits, without the client looking, until the lock is granted, and until another client that asks for it is heard.
    local function until_revoked(client, lock)
        local claim = client._attempts[lock].claim
        eventually(function()
            return claim:phase() == "granted"
        end)
        assert.equal(1, fixture.client({ wait = "blocking" }):mutex(lock:path()):revoke(10))
        eventually(function()
            return claim:revocations() > 0
        end)
    end

    for _, timeout in ipairs({ 20, 0 }) do
        it(("says lost when an on_revoke of one releases another before it returns (%g)"):format(timeout), function()
            local paths = multis.three_paths()
            local client, _, interfere = fixture.client_to_interfere({ session_timeout = 30 })
            local locks = { client:mutex(paths[1]), nil, client:mutex(paths[3]) }
            locks[2] = client:mutex(paths[2], { on_revoke = function()
                assert(locks[1]:release({ wait = false }))
            end })
            local all = client:multi(locks)
            interfere(function()
                until_revoked(client, locks[2])
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

    it("asks for no further lock once it is cancelled, also by an on_revoke when no wait is under way", function()
        local paths = multis.three_paths()
        local client, _, interfere = fixture.client_to_interfere({ session_timeout = 30 })
        local all
        local locks = { client:mutex(paths[1], { on_revoke = function()
            assert.is_true(all:cancel())
        end }), client:mutex(paths[2]) }
        all = client:multi(locks)
        client._contended:note(paths[1]) -- so that they are taken in their order
        interfere(function()
            until_revoked(client, locks[1])
        end)
        assert.equal("cancelled", select(3, all:acquire(20)))
        assert.same({ false, false }, { locks[1]:held(), locks[2]:held() })
        fixture.assert_nothing_left(client)
        assert.is_nil((fixture.observer():exists(paths[2])))
    end)

    it("waits no longer for the rest when the first came as time was up, even if no answer comes", function()
        local paths = multis.three_paths()
        local client, link, interfere = fixture.client_to_interfere({ session_timeout = 6 })
        local all, locks = multis.of(client, paths)
        client._contended:note(paths[1])
        interfere(function()
            local claim = client._attempts[locks[1]].claim
            local due = core.now() + 0.2
            eventually(function()
                return claim:phase() == "granted" and core.now() > due
            end)
            link:stall("down")
        end)
        local ok, message, code = all:acquire(0.2)
        link:resume()
        assert.same({ nil, "timeout" }, { ok, code }) -- a try would have waited for the connection to be lost
        assert.truthy(message:find(paths[2], 1, true), message)
        fixture.assert_nothing_left(client)
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("tries once more what is free when its time is up, and waits no longer", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        fixture.join(paths[1])
        local before = core.now()
        assert.equal("timeout", select(3, all:acquire(0.000001)))
        assert.is_true(core.now() - before < 5)
        multis.await_counts(paths, "1 0 0")
    end)

    it("gives back everything when the wait raises #asan", function()
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

    it("gives back everything where the adapter cannot wait", function()
        local nowhere = false
        local client, link = fixture.client_behind_proxy({ session_timeout = 30, wait = { wake = loop.wake, wait = function(...)
            if nowhere then
                return nil, "not in this phase", "phase"
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all = multis.of(client, paths)
        local blocker = fixture.join(paths[1]) -- or the answers might be there before anybody has to wait
        nowhere = true
        assert.same({ nil, "not in this phase", "phase" }, { all:acquire(20) })
        nowhere = false
        fixture.assert_nothing_left(client)
        assert.equal("1 0 0", multis.counts(paths))
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
        nowhere = true
        link:stall("down") -- likewise
        local ok, message, code = all:release()
        link:resume()
        nowhere = false
        assert.same({ nil, "phase" }, { ok, code })
        assert.truthy(message:find("not in this phase", 1, true), message)
        fixture.assert_nothing_left(client)
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("is free again when the coroutine that waited in it is forgotten #valgrind", function()
        local suspend = false
        local client = fixture.steady_client({ wait = { wake = loop.wake, wait = function(...)
            if suspend then
                coroutine.yield()
                return true
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all, locks = multis.of(client, paths)
        local blocker = fixture.join(paths[1])
        suspend = true
        local thread = coroutine.create(function()
            all:acquire(20)
        end)
        assert(coroutine.resume(thread))
        suspend, thread = false, nil -- luacheck: ignore thread
        eventually(function()
            collectgarbage()
            return tostring(locks[1]):find("free", 1, true)
        end)
        fixture.assert_nothing_left(client)
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
        assert.is_true(all:release())
        -- One that waits for the last has the others: the next acquisition gives them back.
        blocker = fixture.join(paths[3])
        loop.run(function()
            assert.equal("timeout", select(3, all:acquire(0.1)))
        end)
        thread = coroutine.create(function()
            all:acquire(20)
        end)
        suspend = true
        eventually(function()
            assert(coroutine.resume(thread))
            client:pump()
            return multis.counts(paths) == "1 1 2"
        end)
        suspend, thread = false, nil -- luacheck: ignore thread
        eventually(function()
            collectgarbage()
            return tostring(locks[3]):find("free", 1, true)
        end)
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
        assert.is_true(all:release())
        fixture.assert_nothing_left(client)
    end)

    --- A coroutine (`run()` makes it), suspended by its client's adapter, whose multi has two locks and waits for the last. It is
    -- never on the stack of the spec itself, where LuaJIT's collector would find what is left of it.
    local function waiting_for_the_last(options)
        local suspend, waiters = false, {}
        local adapter = { wake = function() end }
        function adapter.wait(client, waiter, seconds)
            if suspend then
                waiters[1] = waiter
                coroutine.yield()
                return true
            end
            return loop.wait(client, waiter, seconds)
        end
        local client = fixture.steady_client({ wait = adapter })
        local paths = multis.three_paths()
        fixture.join(paths[3])
        local all, locks = multis.of(client, paths, options)
        local case = { client = client, paths = paths, all = all, locks = locks, waiters = waiters, thread = nil }
        function case.run(before)
            coroutine.wrap(function()
                case.thread = coroutine.create(function()
                    if before then
                        before()
                    end
                    all:acquire(60)
                end)
                suspend = true
                eventually(function()
                    assert(coroutine.resume(case.thread))
                    client:pump()
                    return locks[2]:held() and multis.counts(paths) == "1 1 2"
                end)
                suspend = false
            end)()
        end
        return case
    end

    local told
    local function on_lost()
        told = told + 1
    end
    for kind, settings in pairs({ locks = {}, ["locks with on_lost"] = { on_lost = on_lost },
        ["reentrant locks"] = { reentrant = true, on_lost = on_lost } }) do
        it(("gives back what it has when the coroutine that waits for the last is forgotten, by itself (%s) #asan"):format(kind),
            function()
                told = 0
                local case = waiting_for_the_last(settings)
                case.run()
                case.thread, case.waiters[1] = nil, nil
                eventually(function()
                    collectgarbage()
                    return multis.counts(case.paths) == "0 0 1"
                end)
                for index = 1, 3 do
                    assert.is_false(case.locks[index]:held())
                    assert.truthy(tostring(case.locks[index]):find("free", 1, true))
                    assert.equal("not_held", select(3, case.locks[index]:release()))
                end
                collectgarbage()
                assert.is_false(case.client:needs_pump())
                assert(case.locks[1]:acquire(10))
                assert.is_true(case.locks[1]:release())
                assert.is_false(case.locks[1]:held())
                assert.equal("timeout", select(3, case.all:acquire(0.1)))
                assert.equal(0, told)
                fixture.assert_nothing_left(case.client)
            end)
    end

    it("gives back what it has when its adapter says that the coroutine that waits for the last was killed #asan", function()
        local case = waiting_for_the_last()
        case.run()
        wait.forsake(case.client, case.waiters[1])
        assert.same({ false, false, false }, { case.locks[1]:held(), case.locks[2]:held(), case.locks[3]:held() })
        multis.await_counts(case.paths, "0 0 1")
        assert.is_false(case.all:cancel())
        assert.equal("timeout", select(3, case.all:acquire(0.1)))
        wait.forsake(case.client, case.waiters[1])
        assert(case.locks[1]:acquire(10))
        assert.is_true(case.locks[1]:release())
        fixture.assert_nothing_left(case.client)
    end)

    it("gives back what it has asked for when its adapter says that the coroutine was killed before anything came", function()
        local suspend, last = false, nil
        local client, link = fixture.client_behind_proxy({ session_timeout = 30, wait = { wake = loop.wake, wait = function(...)
            if suspend then
                last = select(2, ...)
                coroutine.yield()
                return true
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all = multis.of(client, paths)
        link:stall("down")
        suspend = true
        local thread = coroutine.create(function()
            all:acquire(60)
        end)
        assert(coroutine.resume(thread))
        wait.forsake(client, last)
        suspend = false
        link:resume()
        fixture.assert_nothing_left(client)
        multis.await_counts(paths, "0 0 0")
        assert(all:acquire(10))
        assert.equal("suspended", coroutine.status(thread))
    end)

    it("leaves alone what was taken of its reentrant locks before, when its coroutine is killed", function()
        local case = waiting_for_the_last({ reentrant = true })
        case.run(function()
            assert(case.locks[1]:acquire(10))
        end)
        wait.forsake(case.client, case.waiters[1])
        assert.same({ true, false, false }, { case.locks[1]:held(), case.locks[2]:held(), case.locks[3]:held() })
        assert.is_true(case.locks[1]:release())
        assert.is_false(case.locks[1]:held())
        multis.await_counts(case.paths, "0 0 1")
    end)

    it("leaves alone what was taken of its reentrant locks before, when its coroutine is forgotten", function()
        local case = waiting_for_the_last({ reentrant = true })
        case.run(function()
            assert(case.locks[2]:acquire(10))
        end)
        case.thread, case.waiters[1] = nil, nil
        eventually(function()
            collectgarbage()
            return multis.counts(case.paths) == "0 1 1"
        end)
        assert.is_true(case.locks[2]:held())
        assert.equal("timeout", select(3, case.all:acquire(0.1))) -- which also gives back what the forgotten one had
        assert.is_true(case.locks[2]:held())
        assert.is_true(case.locks[2]:release())
        assert.is_false(case.locks[2]:held())
    end)

    it("gives back, when its time is up, only what it has taken itself", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, paths)
        fixture.join(paths[3])
        loop.run(function()
            assert.is_nil((all:acquire(4)))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and locks[1]:held()
            end)
            assert.is_true(locks[1]:release())
            assert(locks[1]:acquire(10))
        end)
        assert.is_true(locks[1]:held())
        assert.is_false(locks[2]:held())
        multis.await_counts(paths, "1 0 1")
    end)
end)

describe("multis never deadlock", function()
    after_each(fixture.clean)

    --- Two coroutines or more that take multis, so often; nobody may be inside a path with another.
    local function compete(takers, rounds)
        local inside, functions, turns = {}, {}, 0
        for index, taker in ipairs(takers) do
            functions[index] = function()
                for round = 1, rounds do
                    assert(taker.all:acquire(50))
                    for _, path in ipairs(taker.paths) do
                        assert.is_nil(inside[path])
                        inside[path] = index
                    end
                    if round % 3 == 0 then
                        loop.until_true(function()
                            return true
                        end)
                    end
                    turns = turns + 1
                    for _, path in ipairs(taker.paths) do
                        inside[path] = nil
                    end
                    assert(taker.all:release(round % 2 == 0 and { wait = false } or nil))
                end
            end
        end
        loop.run_all(functions)
        assert.equal(#takers * rounds, turns)
    end

    local function taker(client, paths)
        return { all = multis.of(client, paths), paths = paths }
    end

    for _, clients in ipairs({ 1, 2 }) do
        it(("when two of %d client(s) name the same locks in opposite order #asan"):format(clients), function()
            local paths = multis.three_paths()
            local first = fixture.steady_client()
            local second = clients == 1 and first or fixture.steady_client()
            compete({ taker(first, paths), taker(second, { paths[3], paths[2], paths[1] }) }, 30)
            multis.await_counts(paths, "0 0 0")
        end)
    end

    it("when three go round a ring", function()
        local paths = multis.three_paths()
        compete({
            taker(fixture.steady_client(), { paths[1], paths[2] }),
            taker(fixture.steady_client(), { paths[2], paths[3] }),
            taker(fixture.steady_client(), { paths[3], paths[1] })
        }, 25)
        multis.await_counts(paths, "0 0 0")
    end)

    it("with programs that take the same locks one by one in the order of their paths", function()
        local paths = multis.three_paths()
        local programs = {}
        for index = 1, 2 do
            programs[index] = fixture.program("chain", fixture.servers(), 25, paths[1], paths[2], paths[3])
            assert.equal("ready", programs[index]:line())
        end
        for index = 1, 2 do
            programs[index]:tell("go")
        end
        compete({ taker(fixture.steady_client(), { paths[3], paths[1], paths[2] }) }, 25)
        for index = 1, 2 do
            assert.equal("ok", programs[index]:line())
        end
        multis.await_counts(paths, "0 0 0")
    end)

    it("when two take permits of two semaphores in opposite order", function()
        local paths = multis.three_paths()
        local takers = {}
        for index = 1, 2 do
            local client = fixture.steady_client()
            local one, other = client:semaphore(paths[1], 1), client:semaphore(paths[2], 1)
            takers[index] = { all = client:multi(index == 1 and { one, other } or { other, one }), paths = { paths[1], paths[2] } }
        end
        compete(takers, 20)
        multis.await_counts({ paths[1] .. "/leases", paths[1] .. "/locks", paths[2] .. "/leases", paths[2] .. "/locks" }, "0 0 0 0")
    end)

    it("and each of three that want it gets a mutex of its neighbours in the end, with impatient others about", function()
        local paths = multis.three_paths()
        local impatient = multis.of(fixture.steady_client(), { paths[2], paths[1] })
        local done = 0
        local functions = { function()
            while done < 2 do
                if impatient:acquire(0.005) then
                    assert(impatient:release())
                end
            end
        end }
        for index = 1, 2 do
            local mine = taker(fixture.steady_client(), index == 1 and paths or { paths[3], paths[2], paths[1] })
            functions[index + 1] = function()
                for _ = 1, 10 do
                    assert(mine.all:acquire(40))
                    assert(mine.all:release())
                end
                done = done + 1
            end
        end
        loop.run_all(functions)
        multis.await_counts(paths, "0 0 0")
    end)
end)

describe("a release of a multi", function()
    after_each(fixture.clean)

    it("says not_held when it holds nothing, and at a second release, naming each", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local ok, message, code = all:release()
        assert.same({ nil, "not_held" }, { ok, code })
        for _, path in ipairs(paths) do
            assert.truthy(message:find(path, 1, true), message)
        end
        assert(all:acquire(10))
        assert.is_true(all:release())
        assert.equal("not_held", select(3, all:release()))
    end)

    it("releases the others when one was lost, and says which #valgrind #asan", function()
        for which = 1, 3 do
            local paths = multis.three_paths()
            local client = fixture.steady_client({ session_timeout = 8 })
            local all, locks = multis.of(client, paths)
            assert(all:acquire(10))
            fixture.observer():delete(locks[which]:node())
            fixture.await_not_held(all)
            assert.equal(0, all:remaining())
            local ok, message, code = all:release()
            assert.same({ nil, "lost" }, { ok, code })
            for index, path in ipairs(paths) do
                assert.equal(index == which, message:find(path, 1, true) ~= nil, message)
            end
            assert.equal("0 0 0", multis.counts(paths))
            assert(all:acquire(10))
            assert.is_true(all:release())
            fixture.clean()
        end
    end)

    it("releases the others when one was released by itself", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        assert(all:acquire(10))
        assert.is_true(locks[2]:release())
        assert.is_false(all:held())
        local ok, message, code = all:release()
        assert.same({ nil, "not_held" }, { ok, code })
        assert.truthy(message:find(paths[2], 1, true), message)
        assert.is_nil(message:find(paths[1], 1, true), message)
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("releases the others when the server refuses to delete some, and says which", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local kept = { acl = { { scheme = "world", id = "anyone", perms = "rcwa" } } }
        local admin = fixture.client()
        assert(fixture.observer():create_all(paths[1]:match("^(.*)/")))
        for index = 1, 3, 2 do
            assert(admin:create(paths[index], "", kept))
        end
        local all = multis.of(client, paths)
        assert(all:acquire(10))
        local ok, message, code = all:release()
        assert.same({ nil, "no_auth" }, { ok, code })
        for index, path in ipairs(paths) do
            assert.equal(index ~= 2, message:find(path .. "/", 1, true) ~= nil, message)
        end
        assert.truthy(message:find("refuses to delete", 1, true), message)
        assert.is_false(all:held())
        assert.equal("1 0 1", multis.counts(paths))
        client:close()
        multis.await_counts(paths, "0 0 0")
    end)

    it("does not wait when told so, or when its members were made so", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        assert(all:acquire(10))
        assert.is_true(all:release({ wait = false }))
        assert.is_false(all:held())
        assert(client:flush(10))
        assert.equal("0 0 0", multis.counts(paths))
        local hasty = multis.of(client, paths, { wait_release = false })
        assert(hasty:acquire(10))
        assert.is_true(hasty:release())
        assert(hasty:acquire(10))
        assert.is_true(hasty:release({ wait = true }))
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("while disconnected says so, and happens as soon as the connection is back", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local all = multis.of(client, paths)
        assert(all:acquire(20))
        fixture.cut_off(client, link)
        local released
        assert.is_true(all:release({ wait = false }))
        assert.is_false(all:held())
        link:accept()
        multis.await_counts(paths, "0 0 0")
        released = all:acquire(20)
        assert.equal(all, released)
    end)
end)

describe("reentrant members of a multi", function()
    after_each(fixture.clean)

    it("are counted #asan", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths, { reentrant = true })
        assert(locks[2]:acquire(10))
        assert(all:acquire(10))
        assert(all:acquire(10))
        assert(all:try_acquire() or true)
        assert.equal("1 1 1", multis.counts(paths))
        while locks[1]:held() do
            assert.is_true(all:release())
        end
        assert.is_true(locks[2]:held())
        assert.equal("0 1 0", multis.counts(paths))
        assert.is_true(locks[2]:release())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("keep what they had when the multi cannot be had", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, paths, { reentrant = true })
        assert(locks[1]:acquire(10))
        local blocker = fixture.join(paths[3])
        assert.equal("timeout", select(3, all:acquire(0.2)))
        assert.equal("timeout", select(3, all:try_acquire()))
        assert(client:flush(10))
        assert.is_true(locks[1]:held())
        assert.equal("1 0 1", multis.counts(paths))
        fixture.observer():delete(blocker)
        assert(all:try_acquire())
        assert.is_true(all:release())
        assert.is_true(locks[1]:held())
        assert.is_true(locks[1]:release())
        assert.is_false(locks[1]:held())
    end)
end)

describe("with_lock of a multi", function()
    after_each(fixture.clean)

    it("passes arguments, results and nils unchanged, and releases all #valgrind #asan", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local arguments
        local results = compat.pack(all:with_lock(function(...)
            arguments = compat.pack(...)
            assert.is_true(all:held())
            return nil, false, "x", nil
        end, 10, nil, 1, nil))
        assert.equal(4, arguments.n)
        assert.equal(all, arguments[1])
        assert.equal(1, arguments[3])
        assert.equal(5, results.n)
        assert.same({ true, nil, false, "x" }, { results[1], results[2], results[3], results[4] })
        assert.is_false(all:held())
        assert.equal("0 0 0", multis.counts(paths))
        assert.equal(1, compat.pack(all:with_lock(function() end)).n)
        assert.same({ true, 7 }, { all:with_lock(function()
            return 7
        end, { timeout = 10 }) })
    end)

    it("raises the function's error, the very same object, after releasing #valgrind #asan", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local problem = {}
        local ok, raised = pcall(all.with_lock, all, function()
            error(problem)
        end)
        assert.is_false(ok)
        assert.equal(problem, raised)
        assert.equal("0 0 0", multis.counts(paths))
        assert(all:acquire(10))
    end)

    it("does not run the function without all of the locks", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        fixture.join(paths[3])
        for _, timeout in ipairs({ 0.1, 0 }) do
            assert.equal("timeout", select(3, all:with_lock(function()
                error("ran without the locks")
            end, timeout)))
        end
    end)

    it("says lost, with the results, when one was lost while the function ran #asan", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client({ session_timeout = 8 }), paths)
        local results = compat.pack(all:with_lock(function()
            fixture.observer():delete(locks[2]:node())
            fixture.await_not_held(all)
            return 1, nil, 3
        end))
        assert.equal(6, results.n)
        assert.is_nil(results[1])
        assert.truthy(results[2]:find(paths[2], 1, true), results[2])
        assert.same({ "lost", 1, nil, 3 }, { results[3], results[4], results[5], results[6] })
        assert.equal("0 0 0", multis.counts(paths))
        assert.is_true(all:with_lock(function() end, 10))
    end)

    it("does not mind a function that releases early, or some, or takes again, and holds nothing in the end", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        assert.same({ true, "done" }, { all:with_lock(function()
            assert.is_true(all:release())
            return "done"
        end) })
        assert.same({ true, "done" }, { all:with_lock(function()
            assert.is_true(locks[2]:release())
            return "done"
        end) })
        assert.equal("0 0 0", multis.counts(paths))
        assert.same({ true, "done" }, { all:with_lock(function()
            assert.is_true(all:release())
            assert(all:acquire(10))
            return "done"
        end) })
        assert.is_false(all:held())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("leaves alone what another coroutine has acquired of its locks meanwhile", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.client({ session_timeout = 12 }), paths)
        local outcome = compat.pack(all:with_lock(function()
            fixture.observer():delete(locks[1]:node())
            fixture.await_not_held(locks[1])
            assert.is_true(locks[2]:release())
            local thread = coroutine.create(function()
                assert(locks[1]:acquire(10))
                assert(locks[2]:acquire(10))
            end)
            assert(coroutine.resume(thread))
            assert.equal("dead", coroutine.status(thread))
        end, 10))
        assert.equal("lost", outcome[3])
        assert.same({ true, true, false }, { locks[1]:held(), locks[2]:held(), locks[3]:held() })
        assert.equal("1 1 0", multis.counts(paths))
    end)

    it("leaves alone the outer level of a reentrant lock whose inner one its function has released", function()
        local all, locks = multis.of(fixture.steady_client(), multis.three_paths(), { reentrant = true })
        assert(locks[2]:acquire(10))
        assert.is_true(all:with_lock(function()
            assert.is_true(locks[2]:release())
        end, 10))
        assert.same({ false, true, false }, { locks[1]:held(), locks[2]:held(), locks[3]:held() })
        assert.is_true(locks[2]:release())
    end)

    it("says deadlock when nested, and nests on reentrant locks", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        assert.is_true(all:with_lock(function()
            assert.equal("deadlock", select(3, all:with_lock(error)))
            assert.is_true(all:held())
        end))
        local again = multis.of(fixture.steady_client(), paths, { reentrant = true })
        assert.same({ true, true, "deep" }, { again:with_lock(function()
            return again:with_lock(function()
                assert.is_true(again:held())
                return "deep"
            end, 10)
        end, 10) })
        assert.is_false(again:held())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("runs inside coroutines", function()
        local paths = multis.three_paths()
        local turns, functions = 0, {}
        for index = 1, 3 do
            local all = multis.of(fixture.steady_client(), paths)
            functions[index] = function()
                for _ = 1, 4 do
                    assert(all:with_lock(function()
                        turns = turns + 1
                    end, 40))
                end
            end
        end
        loop.run_all(functions)
        assert.equal(12, turns)
        multis.await_counts(paths, "0 0 0")
    end)

    if compat.PCALL_YIELDS then
        it("lets the function yield, and keeps the locks meanwhile", function()
            local all = multis.of(fixture.client(), multis.three_paths())
            local run = coroutine.wrap(function()
                return all:with_lock(function(_, first)
                    return coroutine.yield(first + 1) + 1
                end, 10, 1)
            end)
            assert.equal(2, run())
            assert.is_true(all:held())
            assert.same({ true, 11 }, { run(10) })
            assert.is_false(all:held())
        end)
    end
end)

describe("a transaction of a multi", function()
    after_each(fixture.clean)

    --- A client, a node with data "old", its path, and a multi of three mutexes below it.
    local function new_case(options)
        local case = { client = fixture.steady_client(options), path = fixture.directory(), paths = {} }
        assert(case.client:set(case.path, "old"))
        for index, name in ipairs({ "a", "b", "c" }) do
            case.paths[index] = case.path .. "/" .. name
        end
        case.all, case.locks = multis.of(case.client, case.paths)
        function case.data()
            return (fixture.observer():get(case.path))
        end
        return case
    end

    it("writes while all are held, and leaves its own checks out of the results #valgrind #asan", function()
        local case = new_case()
        assert(case.all:acquire(10))
        local results = assert(case.all:transaction():check():set(case.path, "new", 1):create(case.path .. "/n"):commit(10))
        assert.equal(2, #results)
        assert.equal(2, results[1].version)
        assert.equal(case.path .. "/n", results[2])
        assert.equal("new", case.data())
        assert.same({}, assert(case.all:transaction():commit(10)))
        assert_refused("no_node", 2, case.all:transaction():set(case.path, "newer"):delete(case.path .. "/no"):commit(10))
        assert_refused("bad_version", 1, case.all:transaction():check(case.path, 7):set(case.path, "newer"):commit(10))
        assert.equal("new", case.data())
        assert.is_true(case.all:held())
    end)

    for which = 1, 3 do
        it(("is refused by the server when somebody has deleted the node of one (%d) #asan"):format(which), function()
            local case = new_case()
            assert(case.all:acquire(10))
            fixture.observer():delete(case.locks[which]:node())
            local message = assert_refused("lost", nil, case.all:transaction():set(case.path, "new"):commit(10))
            assert.truthy(message:find(case.paths[which] .. "/", 1, true), message)
            assert.truthy(message:find("nothing was written", 1, true), message)
            assert.equal("old", case.data())
        end)

        it(("is refused without a request when one is not held, or not as it was (%d)"):format(which), function()
            local case = new_case()
            assert(case.all:acquire(10))
            local transaction = case.all:transaction():set(case.path, "new")
            assert.is_true(case.locks[which]:release())
            local requests = fixture.sent(case.client)
            local message = assert_refused("not_held", nil, transaction:commit(10))
            assert.truthy(message:find(case.paths[which], 1, true), message)
            assert_refused("not_held", nil, case.all:transaction():set(case.path, "new"):commit(10))
            assert.equal(requests, fixture.sent(case.client))
            assert(case.locks[which]:acquire(10))
            assert_refused("not_held", nil, transaction:commit(10))
            assert.equal("old", case.data())
            assert(case.all:transaction():set(case.path, "new"):commit(10))
            assert.equal("new", case.data())
        end)
    end

    it("is refused once one is known to be lost, and names it", function()
        local case = new_case({ session_timeout = 12 })
        assert(case.all:acquire(10))
        local transaction = case.all:transaction():set(case.path, "new")
        fixture.observer():delete(case.locks[2]:node())
        fixture.await_not_held(case.locks[2])
        local requests = fixture.sent(case.client)
        local message = assert_refused("lost", nil, transaction:commit(10))
        assert.truthy(message:find(case.paths[2], 1, true), message)
        assert.equal(requests, fixture.sent(case.client))
        assert.equal("old", case.data())
    end)

    it("is refused before it was acquired, and after the client's close", function()
        local case = new_case()
        assert_refused("not_held", nil, case.all:transaction():set(case.path, "new"):commit(10))
        assert(case.all:acquire(10))
        local transaction = case.all:transaction():set(case.path, "new")
        assert(case.client:close())
        local code = select(3, transaction:commit(10))
        assert.is_true(code == "lost" or code == "closed", code)
        assert.equal("old", case.data())
    end)

    it("checks locks of every kind", function()
        local base = fixture.directory()
        local client = fixture.steady_client()
        local members = {
            client:rwlock(base .. "/a").read, client:rwlock(base .. "/b").write, client:semaphore(base .. "/c", 2),
            client:mutex(base .. "/d")
        }
        local all = client:multi(members)
        for which = 1, 4 do
            assert(all:acquire(20))
            assert(all:transaction():set(base, "held"):commit(10))
            fixture.observer():delete(members[which]:node())
            assert_refused("lost", nil, all:transaction():set(base, "lost"):commit(10))
            assert.equal("held", (fixture.observer():get(base)))
            all:release()
        end
    end)
end)

describe("a to-be-closed multi", function()
    after_each(fixture.clean)

    if _VERSION == "Lua 5.4" then
        it("is released at the end of its block, also by an error, also when partly released #valgrind #asan", function()
            local scoped = assert(compat.load_text([[
                local all, inside = ...
                local held <close> = assert(all:acquire(10))
                return inside(held)
            ]]))
            local paths = multis.three_paths()
            local all, locks = multis.of(fixture.steady_client(), paths)
            assert.is_true(scoped(all, function(held)
                return held:held()
            end))
            assert.equal("0 0 0", multis.counts(paths))
            local problem = {}
            local ok, raised = pcall(scoped, all, function()
                error(problem)
            end)
            assert.is_false(ok)
            assert.equal(problem, raised)
            assert.equal("0 0 0", multis.counts(paths))
            scoped(all, function()
                assert.is_true(locks[2]:release())
            end)
            assert.equal("0 0 0", multis.counts(paths))
            scoped(all, function()
                assert.is_true(all:release())
            end)
            assert(all:acquire(10))
        end)

        it("leaves alone what another coroutine has acquired of its locks meanwhile", function()
            local scoped = assert(compat.load_text([[
                local all, inside = ...
                local held <close> = assert(all:acquire(10))
                inside()
            ]]))
            local paths = multis.three_paths()
            local all, locks = multis.of(fixture.client(), paths)
            scoped(all, function()
                assert.is_true(locks[2]:release())
                coroutine.wrap(function()
                    assert(locks[2]:acquire(10))
                end)()
            end)
            assert.same({ false, true, false }, { locks[1]:held(), locks[2]:held(), locks[3]:held() })
            assert.equal("0 1 0", multis.counts(paths))
        end)
    else
        it("has its metamethod, harmless before Lua 5.4", function()
            local all = multis.of(fixture.steady_client(), multis.three_paths())
            assert(all:acquire(10))
            getmetatable(all).__close(all)
            assert.is_false(all:held())
        end)
    end
end)

describe("when connections and sessions fail, a multi", function()
    after_each(fixture.clean)

    for _, case in ipairs({ { "create", 0 }, { "create", 1 }, { "create", 2 }, { "children", 1 } }) do
        for _, moment in ipairs({ "before", "after" }) do
            it(("is held once if %s %d is cut %s the server has it"):format(case[1], case[2] + 1, moment), function()
                local paths = multis.three_paths()
                for _, path in ipairs(paths) do
                    fixture.observer():create_all(path)
                end
                local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
                local all = multis.of(client, paths)
                link:arm(case[1], moment, case[2])
                assert(all:acquire(20))
                assert.equal("1 1 1", multis.counts(paths))
                link:disarm()
                assert.is_true(all:release())
                assert(client:flush(10))
                assert.equal("0 0 0", multis.counts(paths))
                assert.equal(1, client:stats().sessions)
            end)
        end
    end

    it("is lost as a whole with its session, and can be had again #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client({ session_timeout = 6 })
        local all, locks = multis.of(client, paths)
        assert(all:acquire(10))
        fixture.kill_owner(locks[1]:node())
        fixture.pump_until(client, function()
            return not all:held()
        end)
        local ok, message, code = all:release()
        assert.same({ nil, "lost" }, { ok, code })
        for _, path in ipairs(paths) do
            assert.truthy(message:find(path, 1, true), message)
        end
        assert(all:acquire(20))
    end)

    it("begins anew when its session ends while it waits, and returns with all of its locks held #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client({ session_timeout = 6 })
        local all, locks = multis.of(client, paths)
        local blocker = fixture.join(paths[3])
        loop.run(function()
            assert.equal(all, all:acquire(40))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and locks[1]:held() and locks[2]:held()
            end)
            fixture.kill_owner(locks[1]:node())
            loop.until_true(function()
                return not locks[1]:held() and multis.counts(paths) == "0 0 2"
            end)
            fixture.observer():delete(blocker)
        end)
        assert.is_true(all:held())
        assert.equal("1 1 1", multis.counts(paths))
        assert.is_true(all:release())
        fixture.assert_nothing_left(client)
    end)

    it("says lost instead when its locks are reentrant, since its program may stand within what was lost", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client({ session_timeout = 6 })
        local all, locks = multis.of(client, paths, { reentrant = true })
        local blocker = fixture.join(paths[3])
        local answer
        loop.run(function()
            assert(locks[1]:acquire(10))
            answer = compat.pack(all:acquire(40))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2"
            end)
            fixture.kill_owner(locks[1]:node())
            loop.until_true(function()
                return not locks[1]:held() and multis.counts(paths) == "0 0 2"
            end)
            fixture.observer():delete(blocker)
        end)
        assert.same({ nil, "lost" }, { answer[1], answer[3] })
        assert.truthy(answer[2]:find(paths[1], 1, true), answer[2])
        fixture.assert_nothing_left(client)
        assert.equal("0 0 0", multis.counts(paths))
        assert(all:acquire(10))
    end)

    it("says disconnected when nobody can be reached in time", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local all = multis.of(client, paths)
        fixture.cut_off(client, link)
        assert.equal("disconnected", select(3, all:acquire(0.3)))
        assert.equal("disconnected", select(3, all:try_acquire()))
        link:accept()
        assert(all:acquire(20))
        assert.equal("1 1 1", multis.counts(paths))
    end)
end)

describe("a multi refuses", function()
    local client, other

    setup(function()
        client, other = fixture.client(), fixture.client()
    end)

    teardown(fixture.clean)

    local function refused(what, ...)
        local arguments = compat.pack(...)
        mistake(function()
            client:multi(compat.unpack(arguments, 1, arguments.n))
        end, "client:multi: ", what)
    end

    it("to be of nothing #valgrind #asan", function()
        refused("there must be at least one lock", {})
        refused("list of locks")
        refused("list of locks", 5)
        refused("list of locks", "locks")
        refused("list of locks", client:mutex("/a"))
        refused("list of locks", client:mutex("/a"), client:mutex("/b"))
    end)

    it("what is no lock, and says which", function()
        refused("member 2 must be a lock", { client:mutex("/a"), "/b" })
        refused("member 1 must be a lock", { {} })
        refused("member 1 must be a lock", { false })
        refused("member 1 must be a lock (of a read/write lock: its read or its write)", { client:rwlock("/a") })
        refused("member 1 must be a lock", { client })
        refused("member 1 must be a lock", { client:multi({ client:mutex("/a") }) })
    end)

    it("a list with holes, or with names in it", function()
        refused("member 2 must be a lock", { client:mutex("/a"), nil, client:mutex("/b") })
        refused("member 1 must be a lock", { [2] = client:mutex("/a") })
        refused("must be a lock", { [0] = client:mutex("/a"), [1] = client:mutex("/b") })
        refused("must be a lock", { [1.5] = client:mutex("/a") })
        refused("there is a key 'timeout'", { client:mutex("/a"), timeout = 5 })
    end)

    it("the same lock twice, two locks on one path, and both halves of a read/write lock", function()
        local lock, rw = client:mutex("/a"), client:rwlock("/b")
        refused("two members are on the path /a", { lock, client:mutex("/b"), lock })
        refused("two members are on the path /a", { lock, client:semaphore("/a", 2) })
        refused("two members are on the path /b", { rw.read, lock, rw.write })
    end)

    it("a semaphore and a lock on its queue, which wait for each other as soon as another program waits for a permit", function()
        for _, inner in ipairs { client:mutex("/s/locks"), client:rwlock("/s/locks").read, client:rwlock("/s/locks").write } do
            refused("the path /s/locks is the queue of the semaphore /s", { inner, client:semaphore("/s", 2) })
            refused("the path /s/locks is the queue of the semaphore /s",
                { client:semaphore("/s", 2), client:mutex("/s/a"), inner })
        end
        -- These keep each other from nothing.
        assert(client:multi { client:semaphore("/s", 2), client:semaphore("/s/locks", 2), client:mutex("/s/locks/a") })
        assert(client:multi { client:mutex("/s"), client:mutex("/s/locks"), client:mutex("/s/leases"), client:semaphore("/t", 1) })
    end)

    it("a lock of another client", function()
        refused("member 2 is a lock of another client", { client:mutex("/a"), other:mutex("/b") })
    end)

    it("wrong timeouts and settings", function()
        local all = client:multi({ client:mutex("/a") })
        for _, timeout in ipairs({ -1, 0 / 0, "5", true }) do
            mistake(function()
                all:acquire(timeout)
            end, "multi:acquire: timeout must be a number of seconds, 0 or more")
            mistake(function()
                all:with_lock(print, timeout)
            end, "multi:with_lock: timeout must be a number of seconds, 0 or more")
        end
        mistake(function()
            all:acquire({ count = 1 })
        end, "unknown option 'count'")
        mistake(function()
            all:release({ wait = 5 })
        end, "multi:release: option 'wait' must be true or false")
        mistake(function()
            all:release(5)
        end, "multi:release: options must be a table")
        mistake(function()
            all:with_lock(nil)
        end, "multi:with_lock: the first argument must be a function")
        assert.equal("not_held", select(3, all:release()))
    end)

    it("to be called with a dot", function()
        local all = client:multi({ client:mutex("/a") })
        for _, method in ipairs({ "acquire", "try_acquire", "release", "with_lock", "cancel", "held", "remaining", "members",
            "transaction" }) do
            mistake(function()
                all[method](5)
            end, "multi:" .. method .. ": call it with a colon")
        end
        mistake(function()
            client.multi({})
        end, "colon")
    end)

    it("to keep to a list that the program changes afterwards", function()
        local list = { client:mutex(fixture.path()), client:mutex(fixture.path()) }
        local all = client:multi(list)
        list[1] = nil
        assert.equal(2, #all:members())
        assert(all:acquire(10))
        assert.is_true(all:release())
    end)
end)
