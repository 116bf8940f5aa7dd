--- A lock that lingers keeps its node after the release, for the next acquisition of its client.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local handoffs = require "spec.support.handoffs"
local loop = require "spec.support.loop"
local takes = require "spec.support.takes"

local grow = handoffs.grow

after_each(fixture.clean)

describe("a lock that lingers", function()
    it("is acquired again without a request", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock = client:mutex(path, { linger = 60 })
        assert(lock:with_lock(function() end, 10))
        assert(client:flush(5))
        local before, tokens = fixture.sent(client), {}
        for index = 1, 50 do
            assert((index % 2 == 0 and lock or client:mutex(path, { linger = 60 })):with_lock(function(held)
                tokens[index] = held:token()
            end, 10))
        end
        assert.equal(before, fixture.sent(client))
        grow(tokens)
        assert.is_true(fixture.has(path, 1))
        client:close()
        assert.same({}, fixture.children(path))
        assert.is_false(fixture.is_watched(path))
    end)

    it("goes to the first other client that queues, and does not linger while others wait", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock, remote = client:mutex(path, { linger = 60 }), fixture.steady_client():mutex(path)
        assert(lock:with_lock(function() end, 10))
        takes(0, function()
            assert(remote:acquire(10))
        end)
        loop.run(function()
            assert(lock:acquire(10))
            assert(lock:release())
            assert.is_true(fixture.has(path, 1)) -- it lingers again: no client waits
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(hold_of(remote):release())
        end)
        assert(remote:acquire(10))
        assert.is_true(fixture.has(path, 1))
        assert(remote:release())
    end)

    it("is refused to a try elsewhere, which writes nothing, and goes to the first that queues, even briefly #asan", function()
        for _, kind in ipairs({ "mutex", "read", "write" }) do
            local client, other, path = fixture.steady_client(), fixture.steady_client(), fixture.path()
            local function half(of, options)
                return kind == "mutex" and of:mutex(path, options) or of:rwlock(path, options)[kind]
            end
            local lock = half(client, { linger = 60 })
            local remote = kind == "read" and other:rwlock(path).write or half(other)
            assert(lock:with_lock(function() end, 10))
            local nodes = fixture.children(path)
            assert.equal(1, #nodes)
            for _ = 1, 2 do
                assert.equal("timeout", select(3, remote:try_acquire()))
                assert.equal("timeout", select(3, other:multi({ remote }):try_acquire()))
                assert.equal("timeout", select(3, remote:acquire(0)))
            end
            assert(lock:acquire(10)) -- by the same node: none of these tries has ended the linger
            assert.is_true(lock:release())
            assert.same(nodes, fixture.children(path))
            eventually(function() -- an acquisition that is abandoned at once has queued all the same
                return remote:acquire(0.01)
            end)
            assert.is_true(remote:release())
        end
    end)

    it("leaves by itself when its linger time is over", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock = client:mutex(path, { linger = 0.4 })
        takes(0.4, function()
            assert(lock:with_lock(function() end, 10))
            fixture.await_children(path, 0, 10)
        end)
        eventually(function()
            local stats = client:stats()
            return stats.entries == 0 and stats.watches == 0 and not fixture.is_watched(path)
        end)
    end)

    it("leaves at a revocation request", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock = client:mutex(path, { linger = 60, on_revoke = function() end })
        assert(lock:with_lock(function() end, 10))
        assert.is_true(fixture.has(path, 1))
        fixture.steady_client():mutex(path):revoke(10)
        fixture.await_children(path, 0, 10)
    end)

    it("leaves for a lock of its own client that cannot share it", function()
        local client, path = fixture.steady_client(), fixture.directory()
        assert(client:mutex(path, { linger = 60 }):with_lock(function() end, 10))
        assert(client:mutex(path, { identity = "other" }):with_lock(function()
            assert.is_true(fixture.has(path, 1))
        end, 10))
        assert(client:rwlock(path, { linger = 60 }).read:with_lock(function() end, 10))
        assert(client:rwlock(path).write:with_lock(function() end, 10))
        assert.same({}, fixture.children(path))
    end)

    it("is forgotten by its client when an administrator has deleted its node", function()
        local client, path = fixture.steady_client({ session_timeout = 4 }), fixture.directory()
        local lock = client:mutex(path, { linger = 60 })
        assert(lock:acquire(10))
        local node = lock:node()
        assert(lock:release())
        assert(fixture.observer():delete(node))
        eventually(function()
            return client:stats().entries == 0
        end)
        assert(lock:with_lock(function()
            assert.not_equal(node, lock:node())
        end, 10))
    end)
end)
