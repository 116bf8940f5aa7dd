--- Closing a client: what its calls answer then, and what is left of it.

local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local zklock = require "zklock"

describe("a client", function()
    after_each(fixture.clean)

    it("answers closed to every call after close #valgrind #asan", function()
        local client = fixture.client()
        local lock = client:mutex(fixture.path())
        client:close()
        assert.equal("closed", select(3, lock:acquire(5)))
        assert.equal("closed", select(3, lock:try_acquire()))
        assert.equal("closed", select(3, lock:contenders(5)))
        assert.equal("not_held", select(3, lock:release()))
        client:pump()
        assert.is_false(lock:held())
    end)

    it("is collected with its session when the program forgets it and its locks #valgrind #asan", function()
        local path = fixture.path()
        do
            local client = assert(zklock.connect(fixture.servers(), { session_timeout = 30, connect_timeout = 20 }))
            local lock = client:mutex(path, { on_lost = function()
                error(client)
            end })
            client:on("state", function()
                error(client)
            end)
            assert(lock:acquire(10))
            assert.equal(1, #fixture.children(path)) -- here both are still referenced
        end
        fixture.collect()
        fixture.await_children(path, 0, 10)
    end)

    it("leaves no memory allocated after it is closed and collected #asan", function()
        local function bytes_at_rest()
            fixture.clean()
            collectgarbage()
            return core.memory()
        end
        fixture.client()
        local before = bytes_at_rest()
        do
            local client = fixture.client()
            local path = fixture.path()
            local lock, other = client:mutex(path), client:mutex(path)
            assert(lock:acquire(10))
            fixture.assert_times_out(other)
            assert.equal("timeout", select(3, other:try_acquire()))
            assert.equal(1, #lock:contenders(10))
            assert(client:flush(10))
            assert.is_true(core.memory() > before)
        end
        eventually(function()
            return bytes_at_rest() <= before, core.memory() .. " bytes, before " .. before
        end)
    end)

    it("closes although no server answers, and does not block other coroutines meanwhile", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        link:stall()
        assert.is_true(lock:release({ wait = false }))
        local closed, turns = false, 0
        loop.run(function()
            assert.is_true(client:close(20))
            closed = true
        end, function()
            loop.until_true(function()
                turns = turns + 1
                return closed
            end)
        end)
        assert.is_true(turns > 1, turns)
    end)

    it("answers timeout to a close that does not wait, and keeps closing", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local held, released = client:mutex(fixture.path()), client:mutex(fixture.path())
        assert(held:acquire(20))
        assert(released:acquire(20))
        link:stall()
        assert.is_true(released:release({ wait = false })) -- the close waits for the answer
        local ok, message, code = client:close(0)
        assert.same({ nil, "timeout" }, { ok, code })
        assert.truthy(message:find("still closing", 1, true), message)
        assert.is_true(client:close(20))
        assert.equal("closed", (client:state()))
    end)

    it("answers a waiting flush when it is closed: nothing is left to flush then", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        fixture.cut_off(client, link)
        assert.is_true(lock:release({ wait = false }))
        local flushed
        loop.run(function()
            flushed = client:flush(50)
        end, function()
            assert.is_true(client:close(20))
        end)
        assert.is_true(flushed)
    end)

    it("leaves no thread and no file descriptor after it is closed", function()
        fixture.client()
        fixture.clean()
        local threads, descriptors = fixture.resources()
        for _ = 1, 5 do
            fixture.client():mutex(fixture.path()):acquire(10)
        end
        fixture.clean()
        eventually(function()
            local threads_now, descriptors_now = fixture.resources()
            return threads_now <= threads and descriptors_now <= descriptors,
                threads_now .. " threads, " .. descriptors_now .. " descriptors"
        end)
    end)

    it("keeps after its close only the notify pipe, which event loops may still use, until it is collected", function()
        fixture.client()
        fixture.clean()
        local threads, descriptors = fixture.resources()
        local clients = {}
        for i = 1, 5 do
            clients[i] = fixture.client()
            assert(clients[i]:mutex(fixture.path()):acquire(10))
            assert.is_true(clients[i]:close())
        end
        eventually(function() -- a joined thread may still be listed for a moment
            return fixture.resources() <= threads
        end)
        local _, descriptors_now = fixture.resources()
        assert.is_true(descriptors_now < descriptors + 3 * #clients, descriptors .. ", " .. descriptors_now)
        for _, client in ipairs(clients) do
            assert.is_true(client:close()) -- a second close does nothing
            assert.equal("closed", select(3, client:mutex(fixture.path()):acquire(1)))
        end
    end)
end)
