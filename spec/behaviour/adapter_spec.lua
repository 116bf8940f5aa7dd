--- Callbacks, coroutines and adapters: what a wait does when other Lua code runs during it, ends it or forgets it.

local socket = require "socket"
local core = require "zklock.core"
local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local takes = require "spec.support.takes"
local zklock = require "zklock"

after_each(fixture.clean)

describe("callbacks", function()
    it("may use the client and the lock that they are called for", function()
        local client, lock, again = fixture.client(), nil, nil
        lock = client:mutex(fixture.path(), { on_lost = function(hold)
            hold:release()
            again = lock:acquire(10)
        end })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.pump_until(client, function()
            return again
        end)
        assert.is_true(lock:held())
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("that raise are reported, and do not break the wait that calls them", function()
        local lines = {}
        local client = fixture.client({ log = function(level, message)
            lines[#lines + 1] = level .. ": " .. message
        end })
        local node
        local lost = client:mutex(fixture.path(), { on_lost = function()
            assert(fixture.observer():delete(node))
            error("what now?")
        end })
        assert(lost:acquire(10))
        local waiting = client:mutex(fixture.path())
        node = fixture.join(waiting:path())
        assert(fixture.observer():delete(lost:node()))
        assert(waiting:acquire(30)) -- for this the wait must go on after the callback
        local text = table.concat(lines, "\n")
        assert.truthy(text:find("error: the callback on_lost raised: ", 1, true), text)
        assert.truthy(text:find("what now?", 1, true), text)
    end)

    it("run in coroutines of their own if the adapter can start coroutines", function()
        local spawned = 0
        local adapter = { wait = loop.wait, wake = loop.wake, spawn = function(fn)
            spawned = spawned + 1
            coroutine.wrap(fn)()
        end }
        local told
        local client = fixture.client({ wait = adapter })
        local lock = client:mutex(fixture.path(), { on_lost = function(...)
            told = compat.pack(...)
        end })
        local hold = assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.pump_until(client, function()
            return told
        end)
        assert.is_true(spawned >= 1)
        assert.equal(3, told.n)
        assert.equal(hold, told[1])
    end)
end)

describe("a client's notify socket #real", function()
    it("replaces the file descriptor, and can be connected again #asan", function()
        local unix = require "socket.unix"
        local client = fixture.client()
        for _ = 1, 2 do
            local path = assert(client:desk().core:listen())
            local directory = path:match("^(.*)/")
            assert.equal("700", (cluster.run({ "stat", "-c", "%a", directory })))
            local bell = unix.stream and unix.stream() or unix()
            assert(bell:connect(path))
            assert.is_true(client:desk().core:accept())
            assert.is_false(files.exists(directory))
            client:pump()
            local query = client:desk().core:flush()
            bell:settimeout(20)
            assert.equal(1, #assert(bell:receive(1)))
            fixture.pump_until(client, function()
                return query:done()
            end)
            bell:close()
            assert.is_true(client:desk().core:ring()) -- no peer is connected: the byte is dropped
        end
    end)

    it("can still be connected while the client's thread exits #asan", function()
        local unix = require "socket.unix"
        local client, link = fixture.client_behind_proxy({ session_timeout = 20 })
        link:stall() -- the thread waits for a server that takes its close request, and keeps listening
        client:desk().core:close()
        local path = assert(client:desk().core:listen())
        eventually(function()
            return client:state() == "closed"
        end)
        local bell = unix.stream and unix.stream() or unix()
        assert(bell:connect(path))
        assert.is_true(client:desk().core:accept())
        assert.is_false(files.exists(path))
        bell:close()
    end)

    it("leaves nothing behind if nothing connects to it #asan", function()
        local client = fixture.client()
        local first = assert(client:desk().core:listen())
        local second = assert(client:desk().core:listen())
        assert.is_false(files.exists(first))
        assert.is_true(files.exists(second))
        assert.is_false(client:desk().core:accept())
        assert.is_false(files.exists(second))
        assert.is_false(client:desk().core:ring())
    end)
end)

describe("an adapter that the program supplies", function()
    it("that raises ends the wait with that error, and the acquisition is abandoned #asan", function()
        local broken = false
        local problem = {}
        local client = fixture.client({ session_timeout = 30, wait = { yields = false, wake = loop.wake,
            wait = function(...)
                if broken then
                    error(problem)
                end
                return loop.wait(...)
            end } })
        local lock = client:mutex(fixture.path())
        local holder = fixture.join(lock:path())
        broken = true
        local ok, raised = pcall(lock.acquire, lock, 20)
        broken = false
        assert.is_false(ok)
        assert.equal(problem, raised)
        assert.equal("zklock mutex (" .. lock:path() .. ", free)", tostring(lock))
        assert(client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
        fixture.observer():delete(holder)
        assert(lock:acquire(10))
    end)

    it("that cannot wait where it is called ends the wait with the adapter's answer", function()
        local nowhere = false
        local client = fixture.client({ wait = { wake = loop.wake, wait = function(...)
            if nowhere then
                return nil, "not in this phase", "phase"
            end
            return loop.wait(...)
        end } })
        local lock = client:mutex(fixture.path())
        fixture.join(lock:path())
        nowhere = true
        assert.same({ nil, "not in this phase", "phase" }, { lock:acquire(20) })
        nowhere = false
        assert(client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("may forget a waiting coroutine: its place in the queue is given up, and the lock can be used again #asan", function()
        local suspend = false
        local client = fixture.client({ session_timeout = 30, wait = { wake = loop.wake, wait = function(...)
            if suspend then
                coroutine.yield()
                return true
            end
            return loop.wait(...)
        end } })
        local lock = client:mutex(fixture.path())
        local holder = fixture.join(lock:path())
        suspend = true
        local thread = coroutine.create(function()
            lock:acquire(20)
        end)
        assert(coroutine.resume(thread))
        assert.equal("zklock mutex (" .. lock:path() .. ", being acquired)", tostring(lock))
        fixture.await_children(lock:path(), 2)
        suspend, thread = false, nil -- luacheck: ignore thread
        eventually(function()
            collectgarbage()
            return tostring(lock):find("free", 1, true)
        end)
        fixture.await_children(lock:path(), 1)
        fixture.observer():delete(holder)
        assert(lock:acquire(10))
    end)

    for name, ask in pairs {
        ["a lock"] = function(client, timeout)
            local lock = client:mutex(fixture.path())
            fixture.join(lock:path())
            return lock, lock:acquire(timeout)
        end,
        ["several locks"] = function(client, timeout)
            local lock, other = client:mutex(fixture.path()), client:mutex(fixture.path())
            fixture.join(lock:path())
            return lock, client:multi({ lock, other }):acquire(timeout)
        end,
        ["a latch"] = function(client, timeout)
            return nil, client:latch(fixture.path(), 1):wait(timeout)
        end
    } do
        for _, case in ipairs { { 0.2, "timeout" }, { 0, "disconnected" }, { 0.2, "disconnected", ", where the server hangs" } } do
            local timeout, code, hangs = case[1], case[2], case[3]
            it(("may resume a coroutine long after its time: %s says so, with a timeout of %g s%s"):format(name, timeout,
                hangs or ""), function()
                local adapter = { wake = function() end, wait = function(...)
                    if loop.is_inside() then
                        coroutine.yield()
                        return true
                    end
                    return loop.wait(...)
                end }
                local client, link = fixture.client_behind_proxy({ wait = adapter, session_timeout = hangs and 60 })
                local answer
                local resume = coroutine.wrap(function()
                    answer = compat.pack(ask(client, timeout))
                end)
                link:stall("down") -- it has to wait
                resume()
                if not hangs then
                    link:resume()
                end
                local due = core.now() + (timeout == 0 and client:cleanup_timeout() or timeout) + 3
                repeat
                    socket.sleep(0.5)
                    client:pump()
                until core.now() > due
                resume()
                local lock, message = answer[1], answer[3]
                assert.equal(4, answer.n)
                assert.equal(code, answer[4])
                assert.truthy(message:find("its coroutine was not resumed in time", 1, true), message)
                link:resume()
                assert(client:flush(10))
                if lock then
                    assert.equal(1, #fixture.children(lock:path()))
                end
            end)
        end
    end

    it("is called when its client begins and when it ends", function()
        local attached, detached
        local client = fixture.client({ wait = { wait = loop.wait, wake = loop.wake,
            attach = function(opened)
                attached = opened
            end,
            detach = function(closed)
                detached = closed
            end } })
        assert.equal(client, attached)
        assert.is_nil(detached)
        client:close()
        assert.equal(client, detached)
    end)

    it("is called at the client's end also when connect fails", function()
        local attached, detached
        local client, _, code = zklock.connect("127.0.0.1:1", { connect_timeout = 0.2, wait = {
            wait = loop.wait, wake = loop.wake,
            attach = function(opened)
                attached = opened
            end,
            detach = function(closed)
                detached = closed
            end
        } })
        assert.is_nil(client)
        assert.equal("disconnected", code)
        assert.is_not_nil(attached)
        assert.equal(attached, detached)
        eventually(function()
            return attached:state() == "closed"
        end)
    end)

    it("that raises in connect closes the client, and the error is passed on", function()
        local attached, detached
        local problem = {}
        local ok, raised = pcall(zklock.connect, "127.0.0.1:1", { wait = {
            yields = false,
            wake = loop.wake,
            wait = function()
                error(problem)
            end,
            attach = function(opened)
                attached = opened
            end,
            detach = function(closed)
                detached = closed
            end
        } })
        assert.is_false(ok)
        assert.equal(problem, raised)
        assert.is_not_nil(attached)
        assert.equal(attached, detached)
        eventually(function()
            return attached:state() == "closed"
        end)
    end)

    it("is asked to wake a cancelled waiter at once, whatever the client is doing", function()
        local woken = 0
        local client = fixture.client({ wait = { wait = loop.wait, wake = function(waiter)
            woken = woken + 1
            loop.wake(waiter)
        end } })
        local lock = client:mutex(fixture.path())
        fixture.join(lock:path())
        loop.run(function()
            assert.equal("cancelled", select(3, lock:acquire(20)))
        end, function()
            loop.until_true(function()
                return fixture.has(lock:path(), 2)
            end)
            local before = woken
            assert.is_true(lock:cancel())
            assert.equal(before + 1, woken)
        end)
    end)

    it("wakes coroutines that wait for the client itself: connect and close do not wait for their timeouts", function()
        loop.run(function()
            takes(0, function()
                local client = assert(zklock.connect(fixture.servers(), { connect_timeout = 30, wait = loop }))
                assert.is_true(client:close(30))
            end)
        end)
    end)
end)

describe("a coroutine that waits for a lock", function()
    it("is not woken by a watch, nor by a change of the client's state, which concern others #asan", function()
        local woken, path, node = 0, fixture.path(), fixture.directory()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30, wait = { wait = loop.wait, wake = function(waiter)
            woken = woken + 1
            loop.wake(waiter)
        end } })
        local hold = assert(fixture.mutex(path):acquire(10))
        local functions = {}
        for index = 1, 20 do
            functions[index] = function()
                assert(client:mutex(path):acquire(60)):release()
            end
        end
        functions[21] = function()
            loop.until_true(function()
                return client:stats().acquisitions == 20 and fixture.has(path, 3)
            end)
            local _, _, watch = assert(client:get(node, { watch = true }))
            woken = 0
            assert(fixture.observer():set(node, "changed"))
            assert.equal("changed", watch:wait(20))
            assert.is_true(woken < 5, woken)
            woken = 0
            fixture.cut_off(client, link)
            link:accept()
            loop.until_true(function()
                return client:state() == "connected"
            end)
            assert.is_true(woken < 5, woken)
            assert(hold:release())
        end
        loop.run_all(functions)
    end)

    -- Lua 5.4 doubles a stack of 80 slots that is full, and its collector walks the stacks of all coroutines in one step.
    it("needs a small stack, also to be woken for nothing", function()
        if not coroutine.close then
            return
        end
        local threads, count = {}, 400
        local client = fixture.client({ session_timeout = 30, wait = {
            wait = function(...)
                if loop.is_inside() then
                    coroutine.yield()
                    return true
                end
                return loop.wait(...)
            end,
            wake = loop.wake
        } })
        local lock = client:mutex(fixture.path())
        local hold = assert(fixture.mutex(lock:path()):acquire(10))
        local function memory()
            collectgarbage()
            collectgarbage()
            return collectgarbage("count") * 1024
        end
        local before = memory()
        for index = 1, count do
            threads[index] = coroutine.create(function()
                assert(lock:acquire()):release()
            end)
        end
        for _ = 1, 3 do
            for index = 1, count do
                assert(coroutine.resume(threads[index]))
            end
        end
        local each = (memory() - before) / count
        assert.is_true(each < 3700, each)
        assert(hold:release())
    end)
end)
