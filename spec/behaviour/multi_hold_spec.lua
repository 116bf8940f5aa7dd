--- A multi holds all of its locks at once, of any kinds, and releases all of them.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"

after_each(fixture.clean)

describe("a multi", function()
    it("holds all of its locks, and releases all of them #valgrind #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, paths)
        assert.is_false(all:held())
        assert.equal(0, all:remaining())
        assert.equal("zklock multi (3 locks, not held)", tostring(all))
        assert(all:acquire(10))
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

    it("may have one lock, or fifty", function()
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

    it("holds after a wait as it does without a wait: it is not collected, and on_lost is called #asan", function()
        local paths, lost = multis.three_paths(), {}
        local client = fixture.steady_client({ session_timeout = 12 })
        local all, locks = multis.of(client, paths, { on_lost = function(lock)
            lost[#lost + 1] = lock:path()
        end })
        local blocker, held = fixture.join(paths[3]), nil
        loop.run(function()
            held = assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and hold_of(locks[2]):held()
            end)
            fixture.observer():delete(blocker)
        end)
        fixture.collect()
        assert.is_true(held:held())
        assert(client:flush(10))
        assert.equal("1 1 1", multis.counts(paths))
        fixture.observer():delete(held:holds()[1]:node())
        fixture.pump_until(client, function()
            return lost[1]
        end)
        assert.same({ paths[1] }, lost)
        assert.equal("lost", select(3, held:release()))
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("calls on_lost if it loses one of its locks while it waits for another", function()
        local paths, lost = multis.three_paths(), {}
        local client = fixture.steady_client({ session_timeout = 12 })
        local all, locks = multis.of(client, paths, { on_lost = function(lock)
            lost[#lost + 1] = lock:path()
        end })
        local blocker, held = fixture.join(paths[3]), nil
        loop.run(function()
            held = assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and hold_of(locks[2]):held()
            end)
            fixture.observer():delete(hold_of(locks[1]):node())
            loop.until_true(function()
                client:pump()
                return lost[1]
            end)
            fixture.observer():delete(blocker)
        end)
        assert.same({ paths[1] }, lost)
        assert.is_true(held:held())
        assert.is_true(held:release())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("may have locks of any kind #valgrind #asan", function()
        local base = fixture.path()
        local client, other = fixture.steady_client(), fixture.steady_client()
        local rw, wr = client:rwlock(base .. "/b"), client:rwlock(base .. "/c")
        local all = client:multi({ client:semaphore(base .. "/d", 2), wr.write, rw.read, client:mutex(base .. "/a") })
        assert(all:acquire(10))
        assert.is_true(all:held())
        local reader = other:rwlock(base .. "/b").read
        assert(reader:try_acquire())
        assert.equal("timeout", select(3, other:rwlock(base .. "/b").write:try_acquire()))
        assert.equal("timeout", select(3, other:rwlock(base .. "/c").read:try_acquire()))
        assert.equal("timeout", select(3, other:mutex(base .. "/a"):try_acquire()))
        local two = other:semaphore(base .. "/d", 2)
        assert.equal("timeout", select(3, two:try_acquire({ count = 2 })))
        assert(two:try_acquire())
        assert.is_true(two:release())
        assert.is_true(all:release())
        fixture.assert_nothing_left(client)
        -- The multi waits for each of its locks, one after the other.
        for _, name in ipairs({ "a", "b", "c", "d/locks" }) do
            local blocker = fixture.join(base .. "/" .. name)
            loop.run(function()
                assert(all:acquire(20))
                assert.is_true(all:release())
            end, function()
                fixture.until_children(base .. "/" .. name, name == "b" and 3 or 2)
                fixture.observer():delete(blocker)
            end)
        end
        assert.is_true(reader:held())
        fixture.assert_nothing_left(client)
    end)

    it("is acquired by several coroutines one after the other, by each for itself", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        local node = fixture.join(paths[2])
        local order, inside = {}, 0
        local function work(number)
            return function()
                assert(all:acquire(20))
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

    it("may have the same lock objects as another multi, which share one hold", function()
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

    it("is released when the program forgets it while holding #valgrind #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        do
            assert((multis.of(client, paths)):acquire(10))
        end
        fixture.collect()
        multis.await_counts(paths, "0 0 0")
    end)

    it("is free for other clients at once when its client closes", function()
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

describe("reentrant members of a multi", function()
    it("count their levels #asan", function()
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

    it("keep their levels if the multi cannot be acquired", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, paths, { reentrant = true })
        assert(locks[1]:acquire(10))
        local blocker = fixture.join(paths[3])
        fixture.assert_times_out(all, 0.2)
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
