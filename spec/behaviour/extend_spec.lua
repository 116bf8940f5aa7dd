--- extend: a hold ends earlier or later than max_hold says. waited: how long the hold was waited for.

local socket = require "socket"
local core = require "zklock.core"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local is_virtual = require "spec.support.is_virtual"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local takes = require "spec.support.takes"

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    describe("extend of a " .. kind.name, function()
        it("puts off the end of the hold, as often as it is called #asan", function()
            local reasons = {}
            local client = fixture.steady_client()
            local lock = kind.new(client, fixture.path(), { max_hold = 2, on_lost = function(_, reason)
                reasons[#reasons + 1] = reason
            end })
            takes(4.2, function()
                assert(lock:acquire(10))
                for _ = 1, 3 do
                    assert.is_true(lock:extend(60))
                end
                socket.sleep(2.2)
                assert.is_true(lock:held())
                assert.is_true(lock:extend())
                fixture.await_not_held(lock)
            end)
            fixture.pump_until(client, function()
                return reasons[1]
            end)
            assert.same({ "max_hold" }, reasons)
            assert.equal("lost", select(3, lock:release()))
        end)

        it("makes the hold end earlier, and the next contender gets the lock then", function()
            local client, path = fixture.steady_client(), fixture.path()
            local lock, rival = kind.new(client, path, { max_hold = 60 }), kinds.new_rival(kind, path)
            assert(lock:acquire(10))
            takes(0.5, function()
                assert.is_true(lock:extend(0.5))
                loop.run(function()
                    assert(rival:acquire(20))
                end)
            end)
            assert.is_false(lock:held())
        end)

        it("gives a hold without max_hold an end, and takes it away again", function()
            local client, path = fixture.steady_client(), fixture.path()
            local lock = kind.new(client, path)
            assert(lock:acquire(10))
            assert.is_true(lock:extend(2))
            assert.is_true(lock:remaining() <= 2)
            assert.is_true(lock:extend(math.huge))
            socket.sleep(2.2)
            assert.is_true(lock:held())
            assert.is_true(lock:extend(2))
            assert.is_true(lock:extend()) -- there is no max_hold
            socket.sleep(2.2)
            assert.is_true(lock:held())
            assert.is_true(lock:release())
            assert.is_true(fixture.has(kinds.holders(kind, path), 0))
        end)

        it("does not bring back a hold that has ended", function()
            local lock = kind.new(fixture.steady_client(), fixture.path(), { max_hold = 0.5 })
            assert(lock:acquire(10))
            fixture.await_not_held(lock)
            local extended, message, code = lock:extend(10)
            assert.same({ nil, "lost" }, { extended, code })
            assert.truthy(message:find("max_hold", 1, true), message)
            assert.is_false(lock:held())
            assert.equal("lost", select(3, lock:release()))
            extended, message, code = lock:extend(10)
            assert.same({ nil, "not_held" }, { extended, code })
            assert.truthy(message:find(lock:path(), 1, true), message)
        end)
    end)
end

describe("extend", function()
    it("sends nothing", function()
        local client = fixture.steady_client()
        local lock = client:mutex(fixture.path(), { max_hold = 20 })
        assert(lock:acquire(10))
        assert(client:flush(5))
        local before = fixture.sent(client)
        for seconds = 1, 30 do
            assert(lock:extend(seconds))
        end
        assert(lock:extend(10))
        assert.equal(before, fixture.sent(client))
    end)

    it("is right up to the last instant: a hold is extended or has ended, and never both", function()
        local client, path = fixture.steady_client(), fixture.path()
        local lock, rival = client:mutex(path, { max_hold = 0.2 }), fixture.loop_client():mutex(path)
        local extended, ended = 0, 0
        for attempt = 1, is_virtual and 60 or 10 do
            assert(lock:acquire(20))
            socket.sleep(0.2 - 0.0002 * (attempt % 4))
            if lock:extend(5) then
                extended = extended + 1
                socket.sleep(0.3)
                assert.is_true(lock:held())
                assert.equal("timeout", select(3, rival:acquire(0)))
                assert.is_true(lock:release())
            else
                ended = ended + 1
                assert.is_false(lock:held())
                assert(rival:acquire(20))
                assert.is_false(lock:held())
                assert(rival:release())
                assert.equal("lost", select(3, lock:release()))
            end
        end
        if is_virtual then
            assert.is_true(extended > 0 and ended > 0, ("%d extended, %d ended"):format(extended, ended))
        end
    end)

    it("concerns this hold only: the next one has max_hold again", function()
        local lock = fixture.steady_client():mutex(fixture.path(), { max_hold = 2 })
        assert(lock:acquire(10))
        assert(lock:extend(30))
        assert(lock:release())
        takes(2, function()
            assert(lock:acquire(10))
            fixture.await_not_held(lock)
        end)
    end)

    it("outlasts a message that the hold gets meanwhile", function()
        local asked = 0
        local client, path = fixture.steady_client(), fixture.path()
        local lock = client:mutex(path, { max_hold = 2, on_revoke = function()
            asked = asked + 1
        end })
        assert(lock:acquire(10))
        assert(lock:extend(60))
        assert.equal(1, fixture.loop_client():mutex(path):revoke(10))
        fixture.pump_until(client, function()
            return asked == 1
        end)
        socket.sleep(2.5)
        assert.is_true(lock:held())
        assert(lock:release())
    end)

    it("of all levels of a reentrant hold is one", function()
        local lock = fixture.steady_client():mutex(fixture.path(), { max_hold = 2, reentrant = true })
        assert(lock:acquire(10))
        assert(lock:acquire(10))
        assert(lock:extend(60))
        assert(lock:release())
        socket.sleep(2.2)
        assert.is_true(lock:held())
        assert(lock:release())
    end)

    it("refuses what is no duration", function()
        local lock = fixture.client():mutex(fixture.path())
        for _, wrong in ipairs { 0, -1, 0 / 0, "5", {}, -math.huge } do
            mistake(function()
                lock:extend(wrong)
            end, "lock:extend: seconds must be a number of seconds above 0")
        end
    end)
end)

describe("waited", function()
    --- Within support.loop: lets the other coroutines run until a client waits for another contender, and knows it.
    local function until_waiting(client)
        loop.until_true(function()
            return client:stats().watches > 0
        end)
        assert(client:sync("/")) -- answered after the list that has armed the watch
    end

    it("is 0 if no contender was before the hold, however slow the servers are", function()
        for _, kind in ipairs(kinds) do
            local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 30 }
            local lock = kind.new(client, fixture.path())
            assert.is_nil(lock:waited())
            link:delay(300, "down")
            assert(lock:acquire(20))
            assert.equal(0, lock:waited())
            assert(lock:release())
            assert.is_nil(lock:waited())
            assert(lock:try_acquire())
            assert.equal(0, lock:waited())
        end
    end)

    it("is the time from the request to the grant if another client held the lock", function()
        for _, kind in ipairs(kinds) do
            local path, client = fixture.path(), fixture.steady_client()
            local lock, rival = kind.new(client, path), kinds.new_rival(kind, path)
            assert(rival:acquire(10))
            local asked, waiting, freed
            loop.run(function()
                asked = core.now()
                assert(lock:acquire(20))
                -- The two bounds hold however slow the machine is: the wait lies between the call's ends, on the same clock.
                local waited = lock:waited()
                assert.is_true(waited >= freed - waiting and waited <= core.now() - asked, waited)
                if is_virtual then
                    assert.near(freed - asked, waited, 0.02)
                end
            end, function()
                until_waiting(client)
                waiting = core.now()
                fixture.pass(20)
                freed = core.now()
                assert(hold_of(rival):release())
            end)
        end
    end)

    it("is more than 0 if the same client held the lock, by another object", function()
        for _, kind in ipairs(kinds) do
            local path, client = fixture.path(), fixture.steady_client()
            local lock, rival = kind.new(client, path), kind.rival(client, path)
            loop.run(function()
                assert(rival:acquire(10))
                loop.until_true(function()
                    return tostring(lock):find("being acquired", 1, true)
                end)
                assert(rival:release())
            end, function()
                assert(lock:acquire(20))
                assert.is_true(lock:waited() > 0)
            end)
        end
    end)

    it("is more than 0 for each of many that take turns, whether by a hand-over, a list or a prediction", function()
        local path, functions, waited = fixture.path(), {}, 0
        for client = 1, 4 do
            local lock = fixture.steady_client():mutex(path, { handoff = client % 2 * 16 })
            for _ = 1, 3 do
                functions[#functions + 1] = function()
                    for _ = 1, 10 do
                        assert(lock:with_lock(function(held)
                            waited = waited + (held:waited() > 0 and 1 or 0)
                        end, 60))
                    end
                end
            end
        end
        loop.run_all(functions)
        assert.is_true(waited >= 4 * 3 * 10 - 10, waited) -- a few may come to an empty queue, at the beginning and the end
    end)

    it("is 0 for readers that hold together, and more for a reader behind a writer", function()
        local path, client = fixture.path(), fixture.steady_client()
        local readers = {}
        loop.run(function()
            for index = 1, 3 do
                readers[index] = client:rwlock(path).read
                assert(readers[index]:acquire(10))
                assert.equal(0, readers[index]:waited())
            end
            assert(fixture.rwlock(path).read:acquire(10))
        end)
        local together, of_all = fixture.path(), {}
        for index = 1, 5 do
            of_all[index] = function()
                local reader = client:rwlock(together).read
                assert(reader:acquire(10))
                assert.equal(0, reader:waited())
            end
        end
        loop.run_all(of_all)
    end)

    it("is more than 0 for the second permit of a semaphore with one", function()
        local path = fixture.path()
        local first, second = fixture.semaphore(path, 2), fixture.semaphore(path, 2)
        assert(first:acquire(10))
        assert(second:acquire(10))
        assert.is_true(second:waited() == 0 or not is_virtual) -- on servers, the first's queue node may not be deleted yet
        local third, client = fixture.semaphore(path, 2)
        loop.run(function()
            assert(third:acquire(20))
            assert.is_true(third:waited() > 0)
        end, function()
            until_waiting(client)
            assert(hold_of(first):release())
        end)
    end)
end)
