--- A reentrant lock of any kind is acquired several times by one node, and must be released as often.

local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    describe("a reentrant " .. kind.name, function()
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

        it("answers deadlock to a second acquire if it is not reentrant, and stays held", function()
            local lock = kind.new(fixture.steady_client(), fixture.path())
            assert(lock:acquire(10))
            assert.equal("deadlock", select(3, lock:acquire()))
            assert.equal("deadlock", select(3, lock:try_acquire()))
            assert.is_true(lock:held())
            assert.is_true(lock:release())
            assert.is_false(lock:held())
        end)

        it("receives a revocation request once, however deep it is held", function()
            local client, asked = fixture.steady_client(), 0
            local path = fixture.path()
            local lock = kind.new(client, path, { reentrant = true, on_revoke = function(lock)
                asked = asked + 1
                assert.is_true(lock:release({ wait = false })) -- only the level of this acquire
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

describe("a reentrant semaphore", function()
    it("may be acquired again with a count up to the held count; a greater count is answered with deadlock #asan", function()
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
