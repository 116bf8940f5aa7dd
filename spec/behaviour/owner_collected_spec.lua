--- Coroutines and owners that are collected leave the queue, and what they held.

local compat = require "spec.support.compat"
local coroutines = require "spec.support.coroutines"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local zklock = require "zklock"

local assert_unused, begin = coroutines.assert_unused, coroutines.begin

after_each(fixture.clean)

describe("coroutines that are forgotten", function()
    it("leave the queue and the object if they wait by an object that another coroutine holds #valgrind", function()
        local suspend = true
        local client = assert(zklock.connect(fixture.servers(), { connect_timeout = 0, wait = {
            wake = function() end,
            wait = function(...)
                if suspend then
                    coroutine.yield()
                    return true
                end
                return loop.wait(...)
            end
        } }))
        eventually(function()
            return client:state() == "connected"
        end)
        for _, kind in ipairs(kinds) do
            local path = fixture.path()
            local lock, rival = kind.new(client, path, { handoff = 0 }), kind.rival(client, path, { handoff = 0 })
            suspend = false
            assert(rival:acquire(10))
            suspend = true
            coroutine.wrap(function() -- not on the spec's stack, where LuaJIT's collector would find them
                for _ = 1, 3 do
                    begin(function()
                        lock:acquire(60)
                    end)
                end
            end)()
            suspend = false
            eventually(function()
                collectgarbage()
                client:pump()
                return next(client:desk().attempts) == nil
            end)
            eventually(function()
                collectgarbage()
                return not coroutines.is_used(lock)
            end)
            fixture.await_children(path .. kind.directories[#kind.directories], 1)
            assert.is_true(rival:release())
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end
        client:close(0)
    end)
end)

for _, kind in ipairs(kinds) do
    describe("a " .. kind.name .. " that is kept", function()
        --- Counts the nodes of holders.
        local function holders(path)
            return #fixture.children(path .. kind.directories[#kind.directories])
        end

        it("keeps no holds that were lost in coroutines that have ended", function()
            local client, path, seen = fixture.client(), fixture.path(), setmetatable({}, { __mode = "k" })
            local lock = kind.new(client, path, { max_hold = 0.01 })
            for _ = 1, 100 do
                begin(function()
                    seen[assert(lock:acquire(10))] = true
                end)
                eventually(function()
                    client:pump()
                    return holders(path) == 0
                end)
            end
            fixture.collect()
            local count = 0
            for _ in pairs(seen) do
                count = count + 1
            end
            assert.is_true(count <= 40, count)
        end)

        if not compat.PCALL_YIELDS then
            return
        end

        it("is released if the coroutine is collected that runs with_lock #valgrind", function()
            for _, reentrant in ipairs({ false, true }) do
                local client, path = fixture.client(), fixture.path()
                local lock = kind.new(client, path, { reentrant = reentrant })
                local all = client:multi({ lock, client:mutex(fixture.path(), { reentrant = reentrant }) })
                for _, object in ipairs({ lock, all }) do
                    coroutine.wrap(function() -- not on the spec's stack, where LuaJIT's collector would find them
                        begin(function()
                            object:with_lock(function()
                                assert.is_true(not reentrant or object:with_lock(fixture.collect, 10))
                                assert.is_true(lock:held())
                                coroutine.yield()
                            end, 10)
                        end)
                    end)()
                    assert.is_true(holders(path) > 0)
                    fixture.collect()
                    fixture.await_children(path .. kind.directories[#kind.directories], 0)
                    assert_unused(lock)
                end
            end
        end)

        it("stays held if with_lock's function has acquired a further level", function()
            local client, path = fixture.client(), fixture.path()
            local lock = kind.new(client, path, { reentrant = true })
            local all = client:multi({ lock, client:mutex(fixture.path(), { reentrant = true }) })
            for _, object in ipairs({ lock, all }) do
                for _, other in ipairs({ lock, all }) do
                    assert.is_true(object:with_lock(function()
                        assert(other:acquire(10))
                    end, 10))
                    fixture.collect()
                    assert.is_true(other:held())
                    assert.is_true(other:release())
                    assert.is_false(lock:held())
                end
            end
            assert_unused(lock)
        end)
    end)
end

describe("a coroutine that an object with a finalizer refers to", function()
    -- In the cycle that runs finalizers, Lua clears weak values but keeps weak keys: the acquisition is finalized before its hold
    -- is forgotten.
    it("is collected, and the lock can be looked at, cancelled and acquired in between", function()
        local suspend = false
        local client = fixture.client({ wait = {
            wake = function() end,
            wait = function(...)
                if suspend then
                    coroutine.yield()
                    return true
                end
                return loop.wait(...)
            end
        } })
        local path, finalized, waiting = fixture.path(), false, nil
        local lock, rival = client:mutex(path), fixture.client():mutex(path)
        assert(rival:acquire(10))
        suspend = true
        coroutine.wrap(function()
            local thread = coroutine.create(function()
                lock:acquire(60)
            end)
            assert(coroutine.resume(thread))
            waiting = tostring(lock)
            local function finalize()
                finalized = thread ~= nil
            end
            if newproxy then -- luacheck: ignore
                getmetatable(newproxy(true)).__gc = finalize -- luacheck: ignore
            else
                setmetatable({}, { __gc = finalize })
            end
        end)()
        suspend = false
        assert.truthy(waiting:find("being acquired", 1, true), waiting)
        for _ = 1, 4 do
            collectgarbage()
            assert.truthy(tostring(lock))
            assert.is_false(lock:held())
            lock:cancel()
        end
        assert.is_true(finalized)
        assert.is_true(rival:release())
        assert(lock:acquire(10))
        assert.is_true(lock:release())
    end)
end)

describe("owners that are collected", function()
    --- Returns a client whose coroutines work for owners[1]. The owner is in a table, so that no local variable keeps it alive.
    local function client_of(owners)
        local adapter = setmetatable({ owner = function()
            return owners[1]
        end }, { __index = require "zklock.adapters.blocking" })
        return fixture.client({ wait = adapter, session_timeout = 4 })
    end

    --- Runs `fn` in a coroutine for a new owner, which is then collected.
    local function for_an_owner(owners, fn)
        owners[1] = {}
        begin(fn)
        owners[1] = {}
        fixture.collect()
    end

    it("keep what an ended coroutine has left held, and nothing of a coroutine that has left nothing", function()
        local owners, seen = { {} }, setmetatable({}, { __mode = "k" })
        local client, path = client_of(owners), fixture.path()
        local rw = client:rwlock(path)
        local function run(release)
            begin(function()
                local held = assert(rw.read:acquire(10))
                seen[held] = true
                if release then
                    assert.is_true(held:release())
                end
            end)
        end
        run(true) -- stands for the owner
        coroutine.wrap(function() -- not on the spec's stack, where LuaJIT's collector would find them
            for _ = 1, 20 do
                run(true)
            end
            assert(rw.read:acquire(10))
            run(false)
            assert.is_true(rw.read:release())
        end)()
        fixture.collect()
        local count = 0
        for _ in pairs(seen) do
            count = count + 1
        end
        assert.equal(1, count)
        assert.equal("deadlock", select(3, rw.read:acquire(10))) -- the owner holds, by what the last one has left
        assert.is_true(rw.read:release())
        assert.equal("not_held", select(3, rw.read:release()))
        assert_unused(rw.read)
    end)

    it("do not end a hold with keep while the object is referred to, although its coroutine has ended", function()
        local first, kept = {}, {}
        local owners = { first }
        local client, path = client_of(owners), fixture.path()
        kept[1] = client:rwlock(path, { handoff = 0 }).read
        assert(kept[1]:acquire(10))
        for_an_owner(owners, function()
            assert(kept[1]:acquire { timeout = 10, keep = true })
        end)
        fixture.collect()
        owners[1] = first
        assert(client:flush(10))
        assert.equal(2, #fixture.children(path))
        kept[1], first, owners[1] = nil, nil, {} -- luacheck: ignore first
        fixture.collect()
        fixture.await_children(path, 0)
    end)

    it("leave no lost hold to a coroutine that acquires a reentrant lock", function()
        local owners = { {} }
        local client, path = client_of(owners), fixture.path()
        local read = client:rwlock(path, { reentrant = true, max_hold = 0.01 }).read
        local threads = {}
        for index = 1, 3 do
            threads[index] = begin(function()
                assert(read:acquire(10))
                coroutine.yield()
            end)
        end
        for index = 1, 3 do
            assert(coroutine.resume(threads[index]))
        end
        fixture.await_children(path, 0)
        assert(read:acquire(10))
    end)

    it("do not keep others from a multi whose coroutine works for another one now", function()
        local owners, busy, all = { {} }, false, nil
        local adapter = setmetatable({ owner = function()
            return owners[1]
        end, wait = function(client, waiter, seconds)
            if busy then
                owners[1], busy = {}, false
                assert.equal("timeout", select(3, all:try_acquire()))
            end
            return loop.wait(client, waiter, seconds)
        end }, { __index = loop })
        local client, path = fixture.client({ wait = adapter }), fixture.path()
        local rival = fixture.client():mutex(path)
        assert(rival:acquire(10))
        all = client:multi({ client:mutex(path) })
        busy = true
        fixture.assert_times_out(all, 0.1)
    end)

    it("answer not_held by holds that ended with them, whether the pump has run or not", function()
        local owners = { {} }
        local client = client_of(owners)
        for _, pump in ipairs({ false, true }) do
            for _, way in ipairs({ "release", "extend" }) do
                local held = assert(client:mutex(fixture.path()):acquire(10))
                held._acquisition:cancel() -- as an adapter does it
                if pump then
                    client:pump()
                end
                for _ = 1, 2 do
                    local ok, message, code = held[way](held)
                    assert.same({ nil, "not_held" }, { ok, code })
                    assert.truthy(message:find("keep = true", 1, true), message)
                end
            end
        end
    end)

    it("release what they held while others held too", function()
        local owners = {}
        local client, path = client_of(owners), fixture.path()
        local rw = client:rwlock(path)
        local first = {}
        owners[1] = first
        assert(rw.read:acquire(10))
        for_an_owner(owners, function()
            assert(rw.read:acquire(10))
        end)
        owners[1] = first
        assert.is_true(rw.read:held())
        assert.is_true(rw.read:release())
        eventually(function()
            collectgarbage()
            return client:rwlock(path).write:try_acquire()
        end)
    end)
end)
