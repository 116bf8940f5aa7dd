--- A client's own watches: what fires them, what ends them, and what they survive.

local hold_of = require "spec.support.hold_of"
local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local primitives = require "spec.support.primitives"

local assert_code, client_and_node = primitives.assert_code, primitives.client_and_node

--- Returns the number of the server's watches, with those on children, which the server does not list.
local function watch_count()
    return tonumber(cluster.shared():ask("mntr"):match("zk_watch_count%s+(%d+)"))
end

describe("a watch", function()
    after_each(fixture.clean)

    it("fires once for one event, and keeps that event #valgrind #asan", function()
        local client, path = client_and_node()
        local observer = fixture.observer()
        local _, _, data = client:get(path, { watch = true })
        local _, _, children = client:children(path, { watch = true })
        local absent, creation = client:exists(path .. "/x", { watch = true })
        assert.is_false(absent)
        assert.is_nil(data:fired())
        assert.is_nil(children:fired())
        observer:set(path, "x")
        assert.equal("changed", data:wait(10))
        assert.is_nil(children:fired())
        observer:create(path .. "/x")
        assert.equal("created", creation:wait(10))
        assert.equal("child", children:wait(10))
        local stat, deletion = client:exists(path .. "/x", { watch = true })
        assert.equal(0, stat.version)
        observer:delete(path .. "/x")
        assert.equal("deleted", deletion:wait(10))
        assert.same({ "changed", "child", "created" }, { data:fired(), children:fired(), creation:wait() })
        assert.equal(("zklock watch (%s, changed)"):format(path), tostring(data))
        assert.equal(path, data:path())
        assert.is_false(fixture.is_watched(path))
        assert.equal(0, client:stats().watches) -- this spec still has all four, and they have fired
    end)

    it("on children also fires when their parent is deleted", function()
        local client, path = client_and_node()
        local _, _, watch = client:children(path, { watch = true })
        fixture.observer():delete(path)
        assert.equal("deleted", watch:wait(10))
    end)

    it("answers timeout each time it is waited for in vain, and still fires", function()
        local client, path = client_and_node()
        local _, _, watch = client:get(path, { watch = true })
        assert_code("timeout", { path, "0.05 s" }, watch:wait(0.05))
        assert_code("timeout", { path }, watch:wait(0))
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(10))
    end)

    it("wakes all coroutines that wait for it", function()
        local client, path = client_and_node()
        local _, _, watch = client:get(path, { watch = true })
        local events = {}
        local function waiter()
            local event = assert(watch:wait(20))
            events[#events + 1] = event
        end
        loop.run(waiter, waiter, function()
            fixture.observer():set(path, "x")
        end)
        assert.same({ "changed", "changed" }, events)
    end)

    it("can also be waited for with the blocking adapter", function()
        local client = fixture.client({ wait = "blocking" })
        local path = fixture.directory()
        local _, _, watch = client:get(path, { watch = true })
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(10))
    end)

    it("is not set by a read that fails", function()
        local client, path = client_and_node()
        assert_code("no_node", {}, client:get(path .. "/no", { watch = true }))
        assert_code("no_node", {}, client:children(path .. "/no", { watch = true }))
        assert.is_false(fixture.is_watched(path))
        assert.equal(0, client:stats().watches)
    end)

    it("is removed from the server when it is cancelled, which ends the waits for it #asan", function()
        local client, path = client_and_node()
        local kinds = { get = path, children = path, exists = path .. "/missing" }
        for method, where in pairs(kinds) do
            local before = watch_count()
            local first, second, third = client[method](client, where, { watch = true })
            local watch = third or second
            assert.truthy(first ~= nil)
            assert.equal(before + 1, watch_count())
            local answer
            loop.run(function()
                answer = compat.pack(watch:wait(20))
            end, function()
                watch:cancel()
            end)
            assert_code("cancelled", { where }, compat.unpack(answer, 1, answer.n))
            assert(client:flush(10))
            assert.equal(before, watch_count())
            watch:cancel()
            assert.is_nil(watch:fired())
        end
        assert.equal(0, client:stats().watches)
    end)

    it("is removed from the server when the program forgets it #asan", function()
        local client, path = client_and_node()
        client:get(path, { watch = true })
        client:exists(path .. "/missing", { watch = true })
        client:children(path, { watch = true })
        assert.is_true(fixture.is_watched(path))
        eventually(function() -- a slot of Lua's stack may refer to one for a while
            fixture.collect()
            assert(client:flush(10))
            return client:stats().watches == 0
        end)
        assert.is_false(fixture.is_watched(path))
    end)

    it("does not disturb another watch on the same path #asan", function()
        local client, path = client_and_node()
        local _, _, first = client:get(path, { watch = true })
        local _, second = client:exists(path, { watch = true })
        local _, _, children = client:children(path, { watch = true })
        first:cancel()
        assert(client:flush(10))
        assert.is_true(fixture.is_watched(path))
        fixture.observer():set(path, "x")
        assert.equal("changed", second:wait(10))
        children:cancel()
        assert(client:flush(10))
        assert.is_false(fixture.is_watched(path))
    end)

    it("that was cancelled is removed with the last watch on its path", function()
        local client, path = client_and_node()
        local _, _, first = client:get(path, { watch = true })
        local _, _, second = client:get(path, { watch = true })
        first:cancel()
        second:cancel()
        assert(client:flush(10))
        assert.is_false(fixture.is_watched(path))
        first, second = nil, nil -- luacheck: ignore
        fixture.collect()
        assert(client:flush(10))
        assert.equal(0, client:stats().watches)
    end)

    it("can coexist with the watch of a waiting lock, whichever ends first #asan", function()
        local client = fixture.client({ wait = loop })
        local path = fixture.path()
        local holder = fixture.join(path)
        for _, first in ipairs({ "watch", "lock" }) do
            local lock, watch, code = client:mutex(path), nil, nil
            loop.run(function()
                code = select(3, lock:acquire(30))
            end, function()
                fixture.until_watched(holder)
                local _
                _, _, watch = client:get(holder, { watch = true })
                if first == "watch" then
                    watch:cancel()
                    assert(client:flush(10))
                    assert.is_true(fixture.is_watched(holder))
                end
                assert.is_true(lock:cancel())
            end)
            assert.equal("cancelled", code)
            assert(client:flush(10))
            if first == "lock" then
                assert.is_true(fixture.is_watched(holder))
                assert.is_nil(watch:fired())
                watch:cancel()
                assert(client:flush(10))
            end
            assert.is_false(fixture.is_watched(holder))
        end
    end)

    it("that is cancelled on a waiting lock's path does not stop the lock from being granted", function()
        local client = fixture.client({ wait = loop })
        local path = fixture.path()
        local holder = fixture.join(path)
        local lock, event = client:mutex(path), nil
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_watched(holder)
            local _, _, cancelled = client:get(holder, { watch = true })
            local _, kept = client:exists(holder, { watch = true })
            cancelled:cancel()
            assert(client:flush(10))
            fixture.observer():delete(holder)
            event = kept:wait(20)
        end)
        assert.equal("deleted", event)
        assert.is_true(hold_of(lock):held())
    end)

    it("survives the loss of its connection #asan", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local _, _, watch = client:get(path, { watch = true })
        link:cut()
        eventually(function()
            return client:stats().connections == 2 and fixture.is_watched(path)
        end)
        assert.is_nil(watch:fired())
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(20))
    end)

    it("fires after the reconnect for what happened meanwhile", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local _, _, data = client:get(path, { watch = true })
        local _, creation = client:exists(path .. "/x", { watch = true })
        link:refuse()
        link:cut()
        fixture.observer():create(path .. "/x")
        fixture.observer():set(path, "x")
        link:accept()
        assert.equal("changed", data:wait(20))
        assert.equal("created", creation:wait(20))
    end)

    it("is set once by a read whose reply is lost", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        link:arm("get", "after")
        local _, _, watch = assert(client:get(path, { watch = true, timeout = 30 }))
        link:wait_fired()
        watch:cancel()
        assert(client:flush(20))
        assert.is_false(fixture.is_watched(path))
        assert.equal("0", ("%d"):format(client:stats().notifications))
    end)

    it("that was cancelled while disconnected is removed after the reconnect", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local _, _, watch = client:get(path, { watch = true })
        fixture.cut_off(client, link)
        watch:cancel()
        link:accept()
        assert(client:flush(20))
        assert.is_false(fixture.is_watched(path))
    end)

    it("ends with its session, and the next read sets a new one #asan", function()
        local client, path = client_and_node()
        local node = assert(client:create(path .. "/mine", "", { ephemeral = true }))
        local _, _, watch = client:get(path, { watch = true })
        fixture.kill_owner(node)
        assert_code("lost", { path, "session" }, watch:wait(30))
        assert_code("lost", { path }, watch:wait(0))
        _, _, watch = assert(client:get(path, { watch = true, timeout = 30 }))
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(20))
    end)

    it("is refused if the client watches more than a reconnect can carry", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local watches, message, code = {}, nil, nil
        local name = path .. "/" .. ("x"):rep(60000)
        for index = 1, 20 do
            local exists, watch, problem = client:exists(name .. index, { watch = true })
            if exists == nil then
                message, code = watch, problem
                break
            end
            watches[index] = watch
        end
        assert.equal("failed", code)
        assert.truthy(message:find("too many", 1, true), message)
        assert.is_true(#watches >= 10)
        link:cut()
        eventually(function()
            return client:stats().connections > 1
        end)
        fixture.observer():create(name .. 2)
        assert.equal("created", watches[2]:wait(20))
        assert.equal(2, client:stats().connections)
        watches[1]:cancel()
        watches[1] = nil
        assert(client:flush(10))
        fixture.collect()
        assert(client:flush(10))
        assert.is_false((client:exists(name .. "last", { watch = true })))
    end)
end)
