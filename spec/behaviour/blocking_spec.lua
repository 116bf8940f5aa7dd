--- A plain program that blocks while it waits and does other work in between: its client goes on without it.

local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"

local function new_client()
    return fixture.client { wait = "blocking", session_timeout = 4 }
end

--- Returns how many waits of `fn` go through the loop in Lua.
local function count_waits(fn)
    local blocking, count = require "zklock.adapters.blocking", 0
    local wait = blocking.wait
    blocking.wait = function(...)
        count = count + 1
        return wait(...)
    end
    local ok, problem = pcall(fn)
    blocking.wait = wait
    assert(ok, problem)
    return count
end

after_each(fixture.clean)

describe("a program that blocks", function()
    for _, adapter in ipairs { "blocking", "auto" } do
        it("waits inside the calls that acquire and release, with the adapter " .. adapter, function()
            local client = fixture.client { wait = adapter, session_timeout = 30 }
            local rw = client:rwlock(fixture.path())
            local locks = { client:mutex(fixture.path()), rw.read, rw.write, client:semaphore(fixture.path(), 2) }
            local calls, through_lua = 0, 0
            for _, lock in ipairs(locks) do
                for _, call in ipairs {
                    function() return lock:acquire() end, lock.release, function() return lock:acquire(20) end, lock.release,
                    lock.try_acquire, lock.release
                } do
                    local before = core.now()
                    local count = count_waits(function()
                        assert(call(lock))
                    end)
                    -- The call itself waits for up to half a second.
                    if count > 0 and core.now() <= before + 0.5 then
                        through_lua = through_lua + 1
                    end
                    calls = calls + 1
                end
            end
            -- On a busy machine the I/O thread may lose the processor while it uses the engine. The call does not wait for that.
            assert.is_true(through_lua == 0 or not is_virtual and through_lua < calls / 2, through_lua)
        end)
    end
end)

describe("a program that has blocked for a lock and now computes", function()
    it("keeps the lock for longer than its session would last without heartbeats #asan #valgrind", function()
        local client = fixture.client { wait = "blocking", session_timeout = 10 } -- no machine stands still for half of that
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        local before = client:stats().heartbeats
        eventually(function()
            return client:stats().heartbeats > before + 12 or not lock:held() -- there are ten in a session timeout
        end)
        assert(lock:release())
    end)

    it("receives revocation requests", function()
        local path, asked = fixture.path(), 0
        local client = fixture.client { wait = "blocking" }
        local lock = client:mutex(path, {
            on_revoke = function()
                asked = asked + 1
            end
        })
        assert(lock:acquire(20))
        assert.equal(1, fixture.client { wait = "blocking" }:mutex(path):revoke(20))
        fixture.pump_until(client, function()
            return asked == 1
        end)
    end)

    it("gives a lingering lock to the first other client that queues", function()
        local path = fixture.path()
        local client = new_client()
        local lock = client:mutex(path, { linger = 1000 })
        assert(lock:acquire(20))
        assert.is_true(lock:release())
        assert.equal(1, #fixture.children(path))
        assert(new_client():mutex(path):acquire(20))
    end)
end)

describe("a program that blocks for a lock", function()
    it("keeps waiting when the connection is lost, and gets the lock #asan", function()
        local path = fixture.path()
        local client, link = fixture.client_behind_proxy({ wait = "blocking", session_timeout = 20 })
        local lock = client:mutex(path)
        assert(lock:acquire(20))
        assert.is_true(lock:release())
        local blocker, states = fixture.join(path), {}
        client:on("state", function(state)
            states[#states + 1] = state
            if state == "suspended" then
                link:accept() -- only after the loss was noticed
                fixture.observer():delete(blocker)
            end
        end)
        link:refuse()
        link:arm("get", "after") -- the watch on the blocker
        assert(lock:acquire(20))
        assert.is_true(link:fired())
        assert.equal("suspended", states[1])
        assert.equal("connected", (client:state()))
    end)

    it("gets an answer when there is no connection all the time", function()
        local client, link = fixture.client_behind_proxy({ wait = "blocking", session_timeout = 20 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        assert.is_true(lock:release())
        link:refuse()
        link:cut()
        assert.equal("disconnected", select(3, lock:acquire(0.2)))
        link:accept()
        assert(lock:acquire(20))
    end)
end)
