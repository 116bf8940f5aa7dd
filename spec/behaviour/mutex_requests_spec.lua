--- A mutex sends no request for a list whose result the client knows.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

after_each(fixture.clean)

describe("a client whose sequence numbers are adjacent", function()
    --- Returns a mutex, and its client, whose latest sequence number directly followed the number before.
    local function regular(path)
        local lock, client = fixture.mutex(path, nil, { session_timeout = 30 })
        for _ = 1, 3 do
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end
        return lock, client
    end

    local function requests_of(client, fn)
        local before = fixture.sent(client)
        fn()
        return fixture.sent(client) - before
    end

    it("needs no list: a cycle takes two requests #valgrind #asan", function()
        local lock, client = regular(fixture.path())
        eventually(function() -- until no second passes between a release and the next acquire
            local sent = requests_of(client, function()
                for _ = 1, 10 do
                    assert(lock:acquire(10))
                    assert.is_true(lock:release())
                end
            end)
            return sent == 20, sent
        end)
    end)

    it("needs no list either if it has written much elsewhere in between", function()
        local client = fixture.loop_client({ session_timeout = 30 })
        eventually(function() -- until no second passes between a release and the next acquire
            local locks = {}
            for index = 1, 4 do
                locks[index] = client:mutex(fixture.path())
            end
            local function round()
                for _, lock in ipairs(locks) do
                    assert(lock:acquire(10))
                    assert.is_true(lock:release())
                end
            end
            local least = math.huge
            for _ = 1, 7 do -- with more rounds the numbers would be high enough anyway
                least = math.min(least, requests_of(client, round))
            end
            return least == 2 * #locks, least
        end)
    end)

    it("lists again if other contenders have come in between #asan", function()
        local path = fixture.path()
        local lock, client = regular(path)
        local other = fixture.mutex(path)
        assert(other:acquire(10))
        assert.is_true(other:release())
        assert.equal(3, requests_of(client, function()
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end))
        assert(other:acquire(10))
        local _, _, code = lock:acquire(0.1)
        assert.equal("timeout", code)
        assert.is_true(other:release())
        assert.is_true(lock:with_lock(function() end, 10))
    end)

    it("is not misled by a directory that was made anew, where the adjacent number is the next one", function()
        local path = fixture.path()
        local lock = regular(path)                      -- got the numbers 0, 1 and 2
        fixture.observer():delete(path)
        local holder = fixture.mutex(path)
        for _ = 1, 3 do                                 -- 0, 1 and 2 again; the last of them holds
            if holder:held() then
                assert.is_true(holder:release())
            end
            assert(holder:acquire(10))
        end
        local taken, _, code = lock:acquire(0.1)        -- gets 3
        assert.is_nil(taken)
        assert.equal("timeout", code)
        assert.is_true(holder:held())
    end)
end)

describe("contenders in a steady rotation", function()
    --- Returns a path, and `count` locks on it, each of a separate client.
    local function circle(count)
        local path, locks = fixture.directory(), {}
        for index = 1, count do
            locks[index] = fixture.mutex(path, nil, { session_timeout = 30 })
        end
        return path, locks
    end

    --- Each lock is acquired `turns` times. No holder releases before all the others queue again, so that the order stays the same.
    -- Then each coroutine calls `afterwards(index)`. Returns the fewest requests that a cycle took, without the first three cycles.
    local function take_turns(path, locks, turns, afterwards)
        local least, functions = math.huge, {}
        for index, lock in ipairs(locks) do
            functions[index] = function()
                local before = 0
                fixture.until_children(path, index - 1) -- one after the other in the first round
                for turn = 1, turns do
                    assert(lock:acquire(20))
                    if turn < turns or afterwards then
                        fixture.until_children(path, #locks)
                    end
                    assert(lock:release())
                    local sent = fixture.sent(lock._client)
                    least = turn > 3 and turn < turns and math.min(least, sent - before) or least
                    before = sent
                end
                if afterwards then
                    afterwards(index)
                end
            end
        end
        loop.run_all(functions)
        return least
    end

    it("do not list the queue to find their predecessor #valgrind #asan", function()
        for count, requests in pairs({ [2] = 3, [3] = 4 }) do
            eventually(function() -- until no list is needed because a second has passed
                local path, locks = circle(count)
                local least = take_turns(path, locks, 7)
                return least == requests, ("%d requests with %d"):format(least, count)
            end)
        end
    end)

    it("are not granted when only a predicted predecessor has left #asan", function()
        local path, locks = circle(3)
        local order = {}
        take_turns(path, locks, 5, function(index)
            local lock = locks[index]
            local held, _, code = lock:acquire(20)
            order[#order + 1] = held and index or code
            if #order == 1 then
                fixture.until_children(path, 3)
                local third = locks[(index + 1) % 3 + 1]._client
                loop.until_true(function()
                    return third:stats().watches == 2 -- the node before its own, and its flag
                end)
                local sent = fixture.sent(third)
                locks[index % 3 + 1]:cancel()           -- this waiter is directly before the third
                loop.until_true(function()
                    return #order == 2 and fixture.sent(third) == sent + 3 and third:stats().watches == 1
                end)
                assert.same({ index, "cancelled" }, order)
            end
            if held then
                assert(lock:release())
            end
        end)
        assert.equal(3, #order)
        assert.equal(6, order[1] + order[3] + (order[1] % 3 + 1))
    end)

    it("list the queue if the predicted predecessor has stayed away #valgrind #asan", function()
        local path, locks = circle(2)
        take_turns(path, locks, 5)
        for _ = 1, 2 do
            for _, lock in ipairs(locks) do -- the other contender was here before, and is not now
                assert(lock:acquire(10))
                assert.equal(1, #fixture.children(path))
                assert.is_true(lock:release())
                fixture.assert_nothing_left(lock._client)
            end
        end
    end)
end)

describe("waiters of one client, each with a node", function()
    --- Lets waiters queue behind a holder, one after the other; `other(path, index)` is called before each, and returns how many
    -- nodes it has added. Returns the requests that each waiter took until it waited, and in which order they are granted.
    local function queue_up(count, other)
        local path, order, sent = fixture.path(), {}, {}
        local held = fixture.mutex(path)
        assert(held:acquire(10))
        local client, nodes = fixture.client({ session_timeout = 30 }), 1
        for index = 1, count do
            nodes = nodes + 1 + other(path, index)
            local before = fixture.sent(client)
            client:mutex(path, { handoff = 0 }):acquire { callback = function(hold)
                order[#order + 1] = index
                assert(hold):release { wait = false }
            end }
            fixture.pump_until(client, function() -- the first watches the holder's node; the others a node and its flag
                return fixture.has(path, nodes) and client:stats().watches == 2 * index - 1
            end)
            sent[index] = fixture.sent(client) - before
        end
        assert(held:release())
        return client, sent, order
    end

    it("find their predecessor without a list, once a list has shown one behind the other #asan #valgrind", function()
        eventually(function() -- until no second passes since that list
            local client, sent, order = queue_up(6, function()
                return 0
            end)
            fixture.pump_until(client, function()
                return #order == 6
            end)
            assert.same({ 1, 2, 3, 4, 5, 6 }, order)
            return table.concat(sent, " ") == "3 4 3 3 3 3", table.concat(sent, " ")
        end)
    end)

    it("wait for another client's node in between #asan", function()
        local other
        local client, _, order = queue_up(4, function(path, index)
            if index ~= 4 then
                return 0
            end
            other = fixture.client({ session_timeout = 30 })
            other:mutex(path):acquire { callback = function(hold)
                other.hold = hold
            end }
            fixture.pump_until(other, function()
                return fixture.has(path, 5)
            end)
            return 1
        end)
        fixture.pump_until(client, function()
            other:pump()
            return other.hold ~= nil
        end)
        assert.equal(3, client:stats().grants)
        assert.same({ 1, 2, 3 }, order)
        assert(other.hold:release())
        fixture.pump_until(client, function()
            return #order == 4
        end)
    end)
end)
