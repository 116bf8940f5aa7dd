--- A client without a `wait` option chooses its event loop by itself. Each loop has additional promises.

local socket = require "socket"
local core = require "zklock.core"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loops = require "spec.support.loops"
local zklock = require "zklock"

after_each(fixture.clean)

describe("by itself,", function()
    local has_cqueues, cqueues = pcall(require, "cqueues")
    local has_luv, uv = pcall(require, "luv")
    local has_copas, copas = pcall(require, "copas")

    local test = { it = it, pending = pending }
    local it_with_cqueues = compat.it_with(test, has_cqueues, "cqueues")
    local it_with_luv = compat.it_with(test, has_luv, "luv")

    --- Returns a lock that is not free, of a client without a `wait` option.
    local function taken_lock()
        local lock = fixture.client():mutex(fixture.path())
        fixture.join(lock:path())
        return lock
    end

    it("a client waits like a plain program if no loop runs", function()
        local lock = taken_lock()
        fixture.assert_times_out(lock)
        local thread = coroutine.create(function()
            fixture.assert_times_out(lock)
            return "done"
        end)
        assert.same({ true, "done" }, { coroutine.resume(thread) })
        assert.equal("dead", coroutine.status(thread))
    end)

    it_with_cqueues("a client waits with cqueues in a coroutine of a controller, wherever the client was made", function()
        local lock, controller, code = taken_lock(), cqueues.new(), nil
        controller:wrap(function()
            code = select(3, lock:acquire(20))
        end)
        controller:wrap(function()
            cqueues.sleep(0.005)
            cqueues.sleep(0.005) -- a wait that blocks would not let it come here
            lock:cancel()
        end)
        assert(controller:loop())
        assert.equal("cancelled", code)
        fixture.assert_times_out(lock)
    end)

    it_with_cqueues("a client refuses to guess in a coroutine inside a coroutine of cqueues", function()
        local lock, controller, code = taken_lock(), cqueues.new(), nil
        controller:wrap(function()
            coroutine.wrap(function()
                code = select(3, lock:acquire(20))
            end)()
        end)
        assert(controller:loop())
        assert.equal("phase", code)
        assert(lock._client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it_with_cqueues("two controllers may wait for one client", function()
        local client, path, ended = fixture.client({ wait = "cqueues" }), fixture.path(), 0
        local node, outer = fixture.join(path), cqueues.new()
        for _ = 1, 2 do
            local inner = cqueues.new()
            inner:wrap(function()
                local lock = client:mutex(path, { handoff = 0 })
                assert(lock:acquire(20))
                assert(lock:release())
                ended = ended + 1
            end)
            outer:wrap(function()
                assert(inner:loop())
            end)
        end
        outer:wrap(function()
            while not fixture.has(path, 3) do
                cqueues.sleep(0.01)
            end
            fixture.observer():delete(node)
        end)
        assert(outer:loop(30))
        assert.equal(2, ended)
    end)

    it_with_luv("a client waits with luv while its loop runs, but not in a callback outside of coroutines", function()
        local lock, timer, codes = taken_lock(), uv.new_timer(), {}
        timer:start(1, 0, function()
            timer:close()
            codes.callback = { lock:acquire(20) }
            coroutine.wrap(function()
                codes.coroutine = select(3, lock:acquire(1))
            end)()
            codes.after = codes.coroutine or "it did not wait"
        end)
        uv.run()
        assert.equal("phase", codes.callback[3])
        assert.truthy(codes.callback[2]:find("coroutine", 1, true))
        assert.equal("it did not wait", codes.after)
        assert.equal("timeout", codes.coroutine)
        assert(lock._client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it_with_luv("a client waits with luv after the program has closed all handles of the loop", function()
        for _ = 1, 3 do
            local granted
            coroutine.wrap(function()
                local client = fixture.client({ wait = "luv" })
                local lock = client:mutex(fixture.path())
                granted = lock:acquire(20) ~= nil
                lock:release()
                client:close(2)
            end)()
            uv.run()
            assert.is_true(granted)
            uv.walk(function(handle)
                if not handle:is_closing() then
                    handle:close()
                end
            end)
            uv.run()
        end
    end)

    it_with_luv("no call waits in a luv callback outside of coroutines: the answer is phase", function()
        local client, link = fixture.client_behind_proxy({ wait = "luv", session_timeout = 30 })
        local path = fixture.directory()
        local lock, timer, codes = client:mutex(path .. "/lock"), uv.new_timer(), nil
        local _, _, watch = assert(client:get(path, { watch = true }))
        link:stall() -- a call that is answered at once needs no wait
        timer:start(1, 0, function()
            timer:close()
            codes = {
                acquire = select(3, lock:acquire(5)),
                contenders = select(3, lock:contenders(5)),
                get = select(3, client:get(path)),
                set = select(3, client:set(path, "text")),
                watch = select(3, watch:wait(5)),
                connect = select(3, zklock.connect(link.address, { wait = "luv" })),
                close = select(3, client:close())
            }
        end)
        uv.run()
        assert.same({ acquire = "phase", contenders = "phase", get = "phase", set = "phase", watch = "phase",
            connect = "phase", close = "phase" }, codes)
        link:resume()
        assert.is_true(client:close())
    end)

    it_with_luv("a client refuses to guess if two loops run", function()
        local lock, timer, code, message = taken_lock(), uv.new_timer(), nil, nil
        local before = package.loaded.copas
        package.loaded.copas = { running = true } -- as copas 2 sets it while it runs
        timer:start(1, 0, function()
            timer:close()
            coroutine.wrap(function()
                message, code = select(2, lock:acquire(20))
            end)()
        end)
        uv.run()
        package.loaded.copas = before
        assert.equal("phase", code)
        assert.truthy(message:find("more than one event loop", 1, true), message)
    end)

    local it_may_wait = compat.PCALL_YIELDS and it_with_luv or pending -- a callback in PUC Lua 5.1 cannot wait
    it_may_wait("a callback of a client without a wait option may wait while luv runs", function()
        local luv
        for _, loop in ipairs(loops.each()) do
            luv = loop.name == "luv" and loop or luv
        end
        local client, flushed = fixture.client({ session_timeout = 20 }), nil
        local lock = client:mutex(fixture.path(), { on_lost = function()
            local thread, main = coroutine.running()
            flushed = thread ~= nil and not main and client:flush(20)
        end })
        luv.run(function()
            luv.sleep(0.01) -- from here on the loop runs
            assert(lock:acquire(10))
            assert(fixture.observer():delete(lock:node()))
            loops.until_true(luv, function()
                return flushed ~= nil
            end)
        end)
        assert.is_true(flushed)
    end)

    local it_may_close = coroutine.close and it_with_luv or pending
    it_may_close("a wait of luv whose coroutine is closed keeps the loop no longer, even if it is notified", function()
        local client = fixture.client { wait = "luv", session_timeout = 30 }
        local lock = client:mutex(fixture.path())
        local node = fixture.join(lock:path())
        local thread = coroutine.create(lock.acquire)
        assert(coroutine.resume(thread, lock, 200))
        fixture.await_children(lock:path(), 2)
        fixture.observer():delete(node)
        local notified = { getfd = function()
            return client:pollfd()
        end }
        fixture.await_children(lock:path(), 1)
        assert(socket.select({ notified }, nil, 60)[1], "the grant is not notified")
        assert(coroutine.close(thread))
        local timer = uv.new_timer()
        timer:start(0, 0, function() -- a loop with nothing to do would not look at the notification
            timer:close()
        end)
        -- From libuv 1.45 on timers are fired at the end of a round, so that the next one ends what they close.
        assert.is_false(uv.run("nowait") and uv.run("nowait"))
    end)

    it_with_luv("clients with luv leave nothing in the loop when they end", function()
        for _ = 1, 20 do
            coroutine.wrap(function()
                local client = fixture.client({ wait = "luv" })
                assert(client:mutex(fixture.path()):acquire(10))
                assert(client:close())
            end)()
            uv.run()
        end
        local active = 0
        uv.walk(function(handle)
            active = active + (handle:is_active() and 1 or 0)
        end)
        assert.equal(0, active)
    end)

    it_with_luv("a program with luv that does not close its client ends normally", function()
        local worker = fixture.program("in_luv", fixture.servers(), fixture.path())
        assert.equal("held", worker:line())
        assert.equal("ended", worker:line())
        assert.equal(0, worker:finish().status)
    end)

    it_with_luv("an error that is no string, raised after a wait with luv, is printed and ends the program", function()
        local result = fixture.program("raiser", fixture.servers(), fixture.path()):finish()
        assert.not_equal(0, result.status)
        assert.truthy(result.errors:find("an error that is no string\nstack traceback:", 1, true), result.errors)
    end)

    -- PUC Lua 5.1 cannot tell whether the program has stopped the collector.
    local collects = pcall(collectgarbage, "isrunning")

    for name, present in pairs({ cqueues = has_cqueues, luv = has_luv, copas = has_copas }) do
        for _, what in ipairs({ "lock", name == "cqueues" and "controller" or nil }) do
            (collects and compat.it_with(test, present, name) or pending)(
                ("a %s that is forgotten is released while the program only waits, with %s"):format(what, name), function()
                    local forgotten, taken = fixture.path(), fixture.path()
                    local first, expected = what == "controller" and fixture.join(forgotten), what == "controller" and 1 or 0
                    fixture.join(taken)
                    local forgetter = fixture.program("forgetter", fixture.servers(), name, what, forgotten, taken)
                    assert.equal("forgotten", forgetter:line())
                    fixture.await_children(taken, 2)
                    fixture.await_children(forgotten, expected, 30)
                    assert.is_true(fixture.has(taken, 2))
                    assert.equal(first ~= false, fixture.has(forgotten, 1))
                end)
        end
    end

    compat.it_with(test, has_copas and copas.finished, "copas 2 or later")("a client waits with copas in its loop", function()
        local lock, code = taken_lock(), nil
        copas.addthread(function()
            code = select(3, lock:acquire(20))
        end)
        copas.addthread(function()
            copas.sleep(0.01)
            copas.sleep(0.01) -- a wait that blocks would not let it come here
            lock:cancel()
        end)
        copas.loop()
        assert.equal("cancelled", code)
    end)

    it("a client counts the time of successful acquisitions, and its reconnects", function()
        local client, link = fixture.client_behind_proxy()
        local lock, free = client:mutex(fixture.path()), client:mutex(fixture.path())
        local node = fixture.join(lock:path())
        fixture.assert_times_out(lock)
        local before = assert(client:stats())
        assert.equal(0, before.wait_time.count)
        assert.equal(0, before.reconnects)
        assert(free:acquire(10))
        fixture.observer():delete(node)
        assert(client:multi({ lock, client:mutex(fixture.path()) }):acquire(10))
        link:cut()
        local after = eventually(function()
            local stats = client:stats()
            return stats.reconnects == 1 and stats
        end, 20).wait_time
        assert.equal(3, after.count)
        assert.is_true(after.sum > 0)
        local last = { le = 0, count = 0 }
        for _, bucket in ipairs(after) do
            assert.is_true(bucket.le > last.le and bucket.count >= last.count)
            last = bucket
        end
        assert.same({ le = math.huge, count = 3 }, last)
    end)

    it("an alarm's descriptor becomes readable at its time", function()
        local alarm = core.alarm()
        assert.is_false(core.poll(alarm:fd(), 0))
        alarm:set(3600)
        assert.is_false(core.poll(alarm:fd(), 0.05))
        alarm:set(0.05)
        assert.is_true(core.poll(alarm:fd(), 20))
        alarm:set(0)
        assert.is_true(core.poll(alarm:fd(), 20))
        alarm:set(math.huge)
        assert.is_false(core.poll(alarm:fd(), 0))
        alarm:set(1 - 1e-10) -- the nanoseconds must stay below one second
        assert.is_true(core.poll(alarm:fd(), 20))
        assert.has_error(function()
            alarm.set({}, 1)
        end)
    end)
end)
