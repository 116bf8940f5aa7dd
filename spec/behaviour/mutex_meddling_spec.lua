--- A mutex notices when administrators and other programs change its nodes.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"

after_each(fixture.clean)

describe("when other programs change its nodes, a mutex", function()
    it("tells the holder when its node is deleted by an administrator #valgrind #asan", function()
        local told
        local lock = fixture.mutex(fixture.path(), { on_lost = function(...)
            told = { ... }
        end }, { session_timeout = 8 })
        local held = assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.pump_until(lock._client, function()
            return told
        end)
        assert.is_false(lock:held())
        assert.is_nil(lock:token())
        assert.equal(held, told[1])
        assert.equal("lost", told[2])
        assert.truthy(told[3]:find("somebody deleted its node", 1, true), told[3])
        assert.equal("zklock mutex (" .. lock:path() .. ", lost)", tostring(lock))
    end)

    -- A simulated schedule found this with two acquisitions of one client. The waiter behind the node was notified of its deletion
    -- and got the lock, while the holder by that node still counted as holding until the next heartbeat.
    it("does not let two acquisitions of one client hold when an administrator deletes the node between them #asan", function()
        local path, client = fixture.directory(), fixture.loop_client({ session_timeout = 30 })
        local first, second = client:mutex(path, { handoff = 0 }), client:mutex(path, { handoff = 0 })
        local held = assert(first:acquire(10))
        loop.run_all({
            function()
                assert(second:acquire(20))
                assert.is_false(held:held())
                assert.is_true(second:held())
            end,
            function()
                fixture.until_watched(held:node())
                assert(fixture.observer():delete(held:node()))
            end
        })
        assert.equal("lost", select(3, first:release()))
    end)

    it("answers lost to the release after an administrator deleted its node, once, and can be used again #asan", function()
        local lock = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        local ok, message, code = lock:release()
        assert.same({ nil, "lost" }, { ok, code })
        assert.truthy(message:find(lock:path(), 1, true))
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
    end)

    it("can be acquired again after a loss without a release", function()
        local lock = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        assert(lock:acquire(10))
        local token = lock:token()
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        assert(lock:acquire(10))
        assert.is_true(lock:token() > token)
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("calls on_lost once for each loss, also if a release or an acquire finds it first", function()
        local told = 0
        local lock, client = fixture.mutex(fixture.path(), { on_lost = function(lock)
            told = told + 1
            assert.is_false(lock:held())
        end }, { session_timeout = 4 })
        for index, finder in ipairs({ lock.release, lock.acquire }) do
            assert(lock:acquire(10))
            assert(fixture.observer():delete(lock:node()))
            fixture.await_not_held(lock)
            assert.equal(index - 1, told)
            finder(lock)
            assert.equal(index, told)
            client:pump()
            assert.equal(index, told)
        end
        assert.is_true(lock:held())
    end)

    it("lets on_lost acquire again, and then answers deadlock to the acquire that found the loss", function()
        local lock
        lock = fixture.mutex(fixture.path(), { on_lost = function()
            assert(lock:acquire(10))
        end }, { session_timeout = 4 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        assert.equal("deadlock", select(3, lock:acquire(10)))
        assert.is_true(lock:held())
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("answers lost to a reentrant holder's next acquire after the loss, once", function()
        local lock = fixture.mutex(fixture.path(), { reentrant = true }, { session_timeout = 4 })
        assert(lock:acquire(10))
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        assert.equal("lost", select(3, lock:acquire(10)))
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        assert.is_false(lock:held())
    end)

    it("answers lost to a release directly after the deletion of its node, before any client was notified", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        assert.equal("lost", select(3, lock:release()))
        assert(client:flush(10))
        assert(lock:acquire(10))
    end)

    it("joins again when its waiting node is deleted, and leaves no orphan #asan", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_children(lock:path(), 2)
            local waiting
            for _, name in ipairs(fixture.children(lock:path())) do
                local node = lock:path() .. "/" .. name
                waiting = node ~= holder and node or waiting
            end
            assert(fixture.observer():delete(waiting))
            loop.until_true(function()
                return fixture.has(lock:path(), 2) and not fixture.observer():exists(waiting)
            end)
            fixture.observer():delete(holder)
        end)
        assert.is_true(hold_of(lock):held())
        assert.is_true(hold_of(lock):release())
        assert(client:flush(10))
        assert.same({}, fixture.children(lock:path()))
    end)

    -- If names were numbers alone, the first node of the new directory would have the same name as the old first node.
    it("never deletes another client's node if its directory was made anew during its hold", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete_recursive(lock:path()))
        local theirs = fixture.join(lock:path())
        assert.equal(lock:node():match("%d+$"), theirs:match("%d+$"))
        lock:release()
        assert(client:flush(10))
        assert.same({ theirs:match("[^/]+$") }, fixture.children(lock:path()))
        assert.equal("timeout", select(3, lock:try_acquire()))
    end)

    it("keeps waiting when its predecessor leaves without having held", function()
        local lock = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        local predecessor = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_watched(predecessor)
            assert.is_false(fixture.is_watched(holder))
            fixture.observer():delete(predecessor)
            fixture.until_watched(holder)
            assert.equal("zklock mutex (" .. lock:path() .. ", being acquired)", tostring(lock))
            fixture.observer():delete(holder)
        end)
        assert.is_true(hold_of(lock):held())
    end)

    it("keeps waiting when the data of the node that it watches are written", function()
        local lock = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            for _ = 1, 3 do
                fixture.until_watched(holder)
                assert.truthy(fixture.observer():set(holder, "__REVOKE__"))
            end
            fixture.until_watched(holder)
            assert.equal("zklock mutex (" .. lock:path() .. ", being acquired)", tostring(lock))
            fixture.observer():delete(holder)
        end)
        assert.is_true(hold_of(lock):held())
    end)

    it("ignores children that are not lock nodes #asan", function()
        local lock = fixture.mutex(fixture.directory())
        local observer = fixture.observer()
        for _, name in ipairs({ "0", "lock", "config", "-", "lock-", "x-1-abc", "_c_-lock-", "99999999999", "ä" }) do
            assert(observer:create(lock:path() .. "/" .. name))
        end
        assert(lock:acquire(10))
        assert.equal(1, #lock:contenders(10))
        assert.is_true(lock:release())
    end)

    local HEX = ("0123456789abcdef"):rep(2)
    local foreign = {
        ["Curator's mutex"] = "_c_" .. fixture.UUID .. "-lock-",
        ["Curator's reader"] = "_c_" .. fixture.UUID .. "-__READ__",
        ["Curator's writer"] = "_c_" .. fixture.UUID .. "-__WRIT__",
        ["go-zookeeper"] = "_c_" .. HEX .. "-lock-",
        ["kazoo's lock"] = HEX .. "__lock__",
        ["kazoo's reader"] = HEX .. "__rlock__",
        ["zk-ruby's lock"] = "ex",
        ["zk-ruby's reader"] = "sh",
        ["the C recipe"] = "x-72057594037927936-"
    }
    for who, prefix in pairs(foreign) do
        it("waits for " .. who, function()
            local lock = fixture.mutex(fixture.path())
            local holder = fixture.join(lock:path(), prefix, who)
            assert.equal("timeout", select(3, lock:try_acquire()))
            local list = lock:contenders(10)
            assert.equal(who, list[1].identity)
            assert.is_true(list[1].holder)
            loop.run(function()
                assert(lock:acquire(20))
            end, function()
                fixture.until_children(lock:path(), 2)
                fixture.observer():delete(holder)
            end)
            assert.is_true(hold_of(lock):held())
        end)
    end
end)
