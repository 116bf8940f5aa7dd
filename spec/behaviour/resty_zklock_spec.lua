--- resty.zklock has lua-resty-lock's interface: the same arguments, results and words. Here without nginx, where instants can be
-- asserted; spec/contract/openresty_resty_spec.lua has the cases of lua-resty-lock's documentation inside nginx.

local socket = require "socket"
local compat = require "spec.support.compat"
local configuration = require "spec.support.configuration"
local core = require "zklock.core"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local takes = require "spec.support.takes"
local zklock = require "zklock"

--- Returns the module as a program gets it that has just started.
local function fresh()
    package.loaded["resty.zklock"] = nil
    return require "resty.zklock"
end

local resty_lock, prefix, link

before_each(function()
    resty_lock, prefix, link = fresh(), fixture.path(), fixture.proxy()
    local settings = { wait = loop, session_timeout = 30 }
    assert.is_true(resty_lock.connect { servers = link.address, prefix = prefix, wait = loop, session_timeout = 30 })
    local client = zklock.shared(link.address, settings)
    fixture.on_clean(function()
        client:close()
    end)
    assert(client:flush(20))
    fixture.pump_until(client, function()
        return client:state() == "connected"
    end)
end)

after_each(fixture.clean)

--- Asserts all results of a call.
local function returns(expected, ...)
    assert.same(expected, compat.pack(...))
end

describe("resty.zklock", function()
    it("returns 0 for a free lock, and 1 for its release, and nothing else #asan", function()
        local lock = assert(resty_lock:new("my_locks"))
        for _ = 1, 3 do
            returns({ n = 1, 0 }, lock:lock("my_key"))
            assert.is_true(lock:held())
            assert.is_string(lock:token())
            returns({ n = 1, 1 }, lock:unlock())
            assert.is_falsy(lock:held())
            assert.is_nil(lock:token())
        end
    end)

    it("returns 0 however slow the servers are, and the time waited if another object held the lock", function()
        local one, other = resty_lock:new("my_locks"), resty_lock:new("my_locks")
        link:delay(200, "down")
        returns({ n = 1, 0 }, one:lock("key"))
        link:delay(0, "down")
        loop.run(function()
            local began = core.now()
            local elapsed = assert(other:lock("key"))
            -- However slow the machine is, the wait is within the call: both are measured by the same clock.
            assert.is_true(elapsed ~= 0 and elapsed <= core.now() - began, elapsed)
            if is_virtual then
                assert.near(0.6, elapsed, 0.02)
            end
        end, function()
            local at = core.now() + 0.6
            loop.until_true(function()
                return core.now() >= at
            end)
            assert(one:unlock())
        end)
    end)

    it("waits for the timeout, 5 s unless given, and answers timeout", function()
        local holder = resty_lock:new("my_locks")
        assert(holder:lock("key"))
        loop.run(function()
            for _, case in ipairs { { 5 }, { 5, {} }, { 0.25, { timeout = 0.25 } }, { 0, { timeout = 0 } }, { 0, { timeout = -1 } },
                { 0.5, { timeout = 9, exptime = 0.5 } }, { 5, { exptime = 0.5 } }, { 2, { timeout = "2" } },
                { 0.2, { timeout = 0.2, step = 5, ratio = 9, max_step = 7 } } } do
                takes(case[1], function()
                    returns({ n = 2, nil, "timeout" }, resty_lock:new("my_locks", case[2]):lock("key"))
                end)
            end
        end)
    end)

    it("answers locked while the object holds, whatever the key, and unlocked while it does not", function()
        local lock = resty_lock:new("my_locks")
        returns({ n = 2, nil, "unlocked" }, lock:unlock())
        returns({ n = 2, nil, "unlocked" }, lock:expire())
        assert(lock:lock("one"))
        returns({ n = 2, nil, "locked" }, lock:lock("one"))
        returns({ n = 2, nil, "locked" }, lock:lock("two"))
        assert(lock:unlock())
        returns({ n = 2, nil, "unlocked" }, lock:unlock())
        returns({ n = 1, 0 }, lock:lock("two"))
    end)

    it("holds one lock of one object that two coroutines use at once", function()
        local lock, other = resty_lock:new("my_locks"), resty_lock:new("my_locks")
        local results = {}
        loop.run(function()
            results[1] = { lock:lock("one") }
        end, function()
            results[2] = { lock:lock("two") }
        end)
        assert.same({ { 0 }, { nil, "locked" } }, results)
        assert(other:lock("two"))
    end)

    it("has a lock for each key of each dictionary: any bytes, and other values as tostring makes them", function()
        local keys = { "a", "b", "a/b", "..", ".", "a b\0\255", "%", ("k"):rep(65535), 5, true, 1.5 }
        for _, dictionary in ipairs { "one", "two", "o/../ne" } do
            for _, key in ipairs(keys) do
                returns({ n = 1, 0 }, resty_lock:new(dictionary, { timeout = 0 }):lock(key))
            end
        end
        fixture.collect()
        local holder = resty_lock:new("one")
        assert(holder:lock(5))
        returns({ n = 2, nil, "timeout" }, resty_lock:new("one", { timeout = 0 }):lock("5"))
        assert.is_true(fixture.has(prefix .. "/one/5", 1))
    end)

    it("refuses keys as a shared dictionary does", function()
        local lock = resty_lock:new("my_locks")
        returns({ n = 2, nil, "nil key" }, lock:lock())
        returns({ n = 2, nil, "nil key" }, lock:lock(false))
        returns({ n = 2, nil, "empty key" }, lock:lock(""))
        returns({ n = 2, nil, "key too long" }, lock:lock(("k"):rep(65536)))
        returns({ n = 2, nil, "dictionary not found" }, resty_lock:new())
        returns({ n = 2, nil, "dictionary not found" }, resty_lock:new(5))
        returns({ n = 2, nil, "dictionary not found" }, resty_lock:new(""))
    end)

    it("ends a hold after exptime, and another object gets the lock then", function()
        local lock, other = resty_lock:new("my_locks", { exptime = 1 }), resty_lock:new("my_locks", { timeout = 9 })
        takes(1, function()
            assert(lock:lock("key"))
            loop.run(function()
                assert.is_true(other:lock("key") > 0)
            end)
        end)
        assert.is_false(lock:held())
        returns({ n = 2, nil, "locked" }, lock:lock("another key")) -- as there: until unlock
        local ok, message, code = lock:unlock()
        assert.same({ nil, "lost" }, { ok, code })
        assert.truthy(message:find("max_hold", 1, true), message)
        assert.is_true(other:held())
        returns({ n = 1, 0 }, lock:lock("another key"))
    end)

    it("holds for 30 s unless told otherwise, and without end if exptime is 0", function()
        local lock, endless = resty_lock:new("my_locks"), resty_lock:new("my_locks", { exptime = 0 })
        assert(endless:lock("endless"))
        takes(30, function()
            assert(lock:lock("key"))
            loop.run(function()
                assert(resty_lock:new("my_locks", { timeout = 60, exptime = 60 }):lock("key"))
            end)
        end)
        assert.is_true(endless:held())
    end)

    it("expire gives the hold another end: exptime, or the given time, or none", function()
        local lock = resty_lock:new("my_locks", { exptime = 3 })
        --- Checks that the hold ends so many seconds after its `expire(time)`.
        local function ends_after(seconds, time, pause)
            takes(seconds, function()
                returns({ n = 1, true }, lock:expire(time))
                socket.sleep(pause or 0)
                loop.run(function()
                    assert(resty_lock:new("my_locks", { timeout = 60, exptime = 60 }):lock("key"))
                end)
            end)
            fixture.collect()
            assert.is_nil((lock:unlock()))
        end
        assert(lock:lock("key"))
        socket.sleep(1)
        ends_after(3)
        assert(lock:lock("key"))
        ends_after(0.3, 0.3)
        assert(lock:lock("key"))
        ends_after(5, 5, 4)
        assert(lock:lock("key"))
        returns({ n = 1, true }, lock:expire(0))
        socket.sleep(3.2)
        assert.is_true(lock:held())
        returns({ n = 1, true }, lock:expire(0.2))
        fixture.await_not_held(lock)
        returns({ n = 3, nil, "not found", "lost" }, lock:expire(5))
        mistake(function() lock:expire(-1) end, "resty.zklock:expire: time must be a number")
    end)

    it("gives the lock back when the object is collected", function()
        local lock = resty_lock:new("my_locks")
        assert(lock:lock("key"))
        lock = nil -- luacheck: ignore 311
        fixture.collect()
        loop.run(function()
            assert(resty_lock:new("my_locks"):lock("key"))
        end)
    end)

    it("answers with zklock's message and code if ZooKeeper does not answer", function()
        local lock, held = resty_lock:new("my_locks", { timeout = 0.5 }), resty_lock:new("my_locks")
        assert(held:lock("held"))
        link:stall()
        takes(0.5, function()
            assert.equal("disconnected", select(3, lock:lock("key")))
        end)
        returns({ n = 1, 1 }, held:unlock()) -- at once, and in the background
        link:resume()
        link:refuse()
        link:cut()
        local elapsed, message, code
        loop.run(function()
            elapsed, message, code = lock:lock("key")
        end)
        assert.same({ nil, "disconnected" }, { elapsed, code })
        assert.truthy(message:find("ZooKeeper", 1, true), message)
        link:accept()
    end)

    it("locks again by the same object when the shared client was closed", function()
        local lock = resty_lock:new("my_locks")
        assert(lock:lock("key"))
        assert(lock:unlock())
        zklock.shared(link.address, { wait = loop, session_timeout = 30 }):close()
        assert(lock:lock("key"))
        assert(lock:unlock())
        zklock.shared(link.address, { wait = loop, session_timeout = 30 }):close()
    end)

    it("is told by unlock that its node was deleted", function()
        local lock = resty_lock:new("my_locks")
        assert(lock:lock("key"))
        local node = prefix .. "/my_locks/key/" .. fixture.children(prefix .. "/my_locks/key")[1]
        assert(fixture.observer():delete(node))
        fixture.await_not_held(lock)
        assert.equal("lost", select(3, lock:unlock()))
        assert(lock:lock("key"))
    end)

    it("refuses options that are no numbers, and ignores those that it does not know", function()
        for _, name in ipairs { "timeout", "exptime", "step", "ratio", "max_step" } do
            mistake(function() resty_lock:new("my_locks", { [name] = {} }) end, "resty.zklock:new: opts." .. name)
            mistake(function() resty_lock:new("my_locks", { [name] = 0 / 0 }) end, "resty.zklock:new: opts." .. name)
        end
        mistake(function() resty_lock:new("my_locks", { exptime = -1 }) end, "opts.exptime must not be negative")
        assert(resty_lock:new("my_locks", { some_day = true }))
    end)
end)

describe("the servers of resty.zklock", function()
    it("are those of the configuration unless connect has named others", function()
        for _, connects in ipairs { false, true } do
            local module = fresh()
            local object = assert(module:new("my_locks"))
            configuration.set {}
            local lock, message, code = object:lock("key")
            assert.same({ nil, "failed" }, { lock, code })
            assert.truthy(message:find("no servers: ", 1, true), message)
            configuration.set { ZKLOCK_SERVERS = fixture.servers() }
            if connects then
                assert(module.connect { prefix = "/zklock" })
            end
            local elapsed = assert(object:lock("from the environment"))
            assert.equal(0, elapsed)
            assert.is_true(fixture.has("/zklock/my_locks/from%20the%20environment", 1))
            assert(object:unlock())
            zklock.shared(nil, {}):close()
        end
    end)

    it("are refused by connect in its name if they are malformed, and so are its other settings", function()
        local module = fresh()
        mistake(function() module.connect() end, "resty.zklock.connect: settings must be a table")
        mistake(function() module.connect { servers = 5 } end, "resty.zklock.connect: servers must be a string")
        mistake(function() module.connect { servers = ":::" } end, "resty.zklock.connect: servers must be")
        mistake(function() module.connect { servers = "a", tmeout = 5 } end, "resty.zklock.connect: unknown option 'tmeout'")
        mistake(function() module.connect { servers = "a", prefix = "x" } end, "resty.zklock.connect: option 'prefix': bad path")
        local ok, message, code = module.connect { servers = "a", tls = { ca_file = "/nonexistent" } }
        assert.same({ nil, "tls_failed" }, { ok, code }, message)
    end)
end)
