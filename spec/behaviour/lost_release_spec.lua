--- A release that finds its node deleted answers lost, on every kind of lock.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    -- The heartbeats are six seconds apart, so no heartbeat reports the loss here.
    describe("a release that finds the node of a " .. kind.name .. " gone", function()
        --- Deletes the node by which the lock is held, and lets a rival acquire. Returns the node.
        local function rob(lock, rival)
            local node = lock:node()
            assert(fixture.observer():delete(node))
            assert(rival:acquire(20))
            assert.is_true(lock:held())
            return node
        end

        for name, new in pairs({ ["that blocks"] = fixture.client, ["in an event loop"] = fixture.loop_client }) do
            it("answers lost, once, and calls on_lost, with a client " .. name .. " #asan", function()
                local told = {}
                local client = new({ session_timeout = 30 })
                local path = fixture.path()
                local lock = kind.new(client, path, { on_lost = function(hold, ...)
                    told[#told + 1] = { hold:path(), ... }
                    assert.is_false(hold:held())
                end })
                local rival = kinds.new_rival(kind, path)
                assert(lock:acquire(20))
                local node = rob(lock, rival)
                local ok, message, code = lock:release()
                assert.same({ nil, "lost" }, { ok, code })
                assert.truthy(message:find(node, 1, true), message)
                assert.same({ { path, "lost", message } }, told)
                assert.equal(1, client:stats().losses)
                assert.equal("not_held", select(3, lock:release()))
                assert.is_true(rival:held())
                assert.is_true(rival:release())
                assert(lock:acquire(20))
                assert.is_true(lock:release())
                assert.same({ 1, 1 }, { #told, client:stats().losses })
            end)

            it("makes with_lock answer lost, with the function's results, with a client " .. name .. " #asan", function()
                local lost = 0
                local client = new({ session_timeout = 30 })
                local path = fixture.path()
                local lock = kind.new(client, path, { on_lost = function()
                    lost = lost + 1
                end })
                local rival = kinds.new_rival(kind, path)
                local results = { lock:with_lock(function()
                    rob(lock, rival)
                    return 1, 2
                end, 20) }
                assert.is_nil(results[1])
                assert.is_string(results[2])
                assert.same({ "lost", 1, 2 }, { results[3], results[4], results[5] })
                assert.equal(1, lost)
                assert(rival:release())
                local problem = {}
                local ok, raised = pcall(lock.with_lock, lock, function()
                    rob(lock, rival)
                    error(problem)
                end, 20)
                assert.is_true(not ok and raised == problem)
                assert.equal(2, lost)
            end)
        end

        it("does not call on_lost if it does not wait, but counts the loss", function()
            local lost = 0
            local client = fixture.steady_client()
            local path = fixture.path()
            local lock = kind.new(client, path, { on_lost = function()
                lost = lost + 1
            end })
            local rival = kinds.new_rival(kind, path)
            assert(lock:acquire(20))
            rob(lock, rival)
            assert.is_true(lock:release({ wait = false }))
            assert(client:flush(20))
            client:pump()
            assert.same({ 0, 1 }, { lost, client:stats().losses })
        end)

        it("answers lost for a member of a multi, and releases the other members", function()
            local client = fixture.steady_client()
            local path, other = fixture.path(), fixture.path()
            local lock = kind.new(client, path)
            local rival = kinds.new_rival(kind, path)
            local multi = client:multi({ client:mutex(other), lock })
            assert(multi:acquire(20))
            rob(lock, rival)
            local ok, message, code = multi:release()
            assert.same({ nil, "lost" }, { ok, code })
            assert.truthy(message:find(path, 1, true), message)
            assert.falsy(message:find(other, 1, true), message)
            assert.same({}, fixture.children(other))
            assert(rival:release())
            local results = { multi:with_lock(function()
                rob(lock, rival)
                return 1, 2
            end, 20) }
            assert.is_nil(results[1])
            assert.truthy(results[2]:find(path, 1, true), results[2])
            assert.same({ "lost", 1, 2 }, { results[3], results[4], results[5] })
            assert.same({}, fixture.children(other))
        end)
    end)
end

describe("a release that finds its node deleted", function()
    it("answers lost if any one of several permits was deleted", function()
        for which = 1, 3 do
            local client = fixture.steady_client()
            local path = fixture.path()
            local semaphore = client:semaphore(path, 3)
            assert(semaphore:acquire({ count = 3, timeout = 20 }))
            fixture.await_children(path .. "/locks", 0)
            local node = path .. "/leases/" .. fixture.children(path .. "/leases")[which]
            assert(fixture.observer():delete(node))
            local ok, message, code = semaphore:release()
            assert.same({ nil, "lost" }, { ok, code })
            assert.truthy(message:find(node, 1, true), message)
            assert.same({ 1, 0 }, { client:stats().losses, client:stats().entries })
            assert.same({}, fixture.children(path .. "/leases"))
        end
    end)

    it("answers lost only to the last of the acquisitions that shared the deleted node", function()
        local client = fixture.steady_client()
        local path = fixture.path()
        local first, second = client:mutex(path), client:mutex(path)
        local answers = {}
        loop.run(function()
            assert(first:acquire(20))
            loop.until_true(function()
                return client:stats().acquisitions == 2
            end)
            answers[1] = { first:release() }
        end, function()
            loop.until_true(function()
                return hold_of(first):held()
            end)
            assert(second:acquire(20))
            assert(fixture.observer():delete(second:node()))
            answers[2] = { second:release() }
        end)
        assert.equal(1, client:stats().hand_overs)
        assert.same({ true }, answers[1])
        assert.equal("lost", answers[2][3])
        assert.equal(1, client:stats().losses)
    end)

    it("reports no loss if the node was deleted while it lingered", function()
        local told = 0
        local client = fixture.steady_client()
        local path = fixture.path()
        local lock = client:mutex(path, { linger = 20, on_lost = function()
            told = told + 1
        end })
        assert(lock:acquire(20))
        local node = lock:node()
        assert.is_true(lock:release())
        assert(fixture.observer():delete(node))
        fixture.pump_until(client, function()
            return client:stats().entries == 0
        end)
        assert.same({ 0, 0 }, { told, client:stats().losses })
        assert(lock:acquire(20))
        assert(fixture.observer():delete(lock:node()))
        assert(lock:release({ wait = false }))
        assert(client:flush(20))
        assert.equal(0, told)
    end)

    it("does not answer lost if the reply to its own delete was lost", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        for _ = 1, 3 do
            assert(lock:acquire(20))
            link:arm("delete", "after")
            assert.is_true(lock:release())
            link:wait_fired()
        end
        assert.same({ 0, 1 }, { client:stats().losses, client:stats().sessions })
    end)
end)
