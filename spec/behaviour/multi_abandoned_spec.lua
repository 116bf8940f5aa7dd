--- All or none: a multi whose waiting coroutine is killed or forgotten releases everything.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"
local wait = require "zklock.wait"

after_each(fixture.clean)

describe("all or none: when one of its locks cannot be acquired, a multi", function()
    it("is free again when the coroutine that waits in it is forgotten #valgrind", function()
        local suspend = false
        local client = fixture.steady_client({ wait = { wake = loop.wake, wait = function(...)
            if suspend then
                coroutine.yield()
                return true
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all = multis.of(client, paths)
        local blocker = fixture.join(paths[1])
        suspend = true
        local thread = coroutine.create(function()
            all:acquire(20)
        end)
        assert(coroutine.resume(thread))
        suspend, thread = false, nil -- luacheck: ignore thread
        eventually(function()
            collectgarbage()
            return client:stats().entries == 0
        end)
        fixture.assert_nothing_left(client)
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
        assert.is_true(all:release())
        -- A multi that waits for its last lock holds the others: the next acquisition releases them.
        blocker = fixture.join(paths[3])
        loop.run(function()
            fixture.assert_times_out(all, 0.1)
        end)
        thread = coroutine.create(function()
            all:acquire(20)
        end)
        suspend = true
        eventually(function()
            assert(coroutine.resume(thread))
            client:pump()
            return multis.counts(paths) == "1 1 2"
        end)
        suspend, thread = false, nil -- luacheck: ignore thread
        eventually(function()
            collectgarbage()
            return client:stats().entries == 0
        end)
        fixture.observer():delete(blocker)
        assert(all:acquire(10))
        assert.is_true(all:release())
        fixture.assert_nothing_left(client)
    end)

    --- Returns a case whose `run()` makes a coroutine, suspended by its client's adapter. Its multi holds two locks and waits for
    -- the last one. It is never on the stack of the spec itself, where LuaJIT's collector would find references to it.
    local function waiting_for_the_last(options)
        local suspend, waiters = false, {}
        local adapter = { wake = function() end }
        function adapter.wait(client, waiter, seconds)
            if suspend then
                waiters[1] = waiter
                coroutine.yield()
                return true
            end
            return loop.wait(client, waiter, seconds)
        end
        local client = fixture.steady_client({ wait = adapter })
        local paths = multis.three_paths()
        fixture.join(paths[3])
        local all, locks = multis.of(client, paths, options)
        local case = { client = client, paths = paths, all = all, locks = locks, waiters = waiters, thread = nil }
        function case.held()
            return { hold_of(locks[1]):held(), hold_of(locks[2]):held(), hold_of(locks[3]):held() }
        end
        function case.run(before)
            coroutine.wrap(function()
                case.thread = coroutine.create(function()
                    if before then
                        before()
                    end
                    all:acquire(60)
                end)
                suspend = true
                eventually(function()
                    assert(coroutine.resume(case.thread))
                    client:pump()
                    return hold_of(locks[2]):held() and multis.counts(paths) == "1 1 2"
                end)
                suspend = false
            end)()
        end
        return case
    end

    local told
    local function on_lost()
        told = told + 1
    end
    for kind, settings in pairs({ locks = {}, ["locks with on_lost"] = { on_lost = on_lost },
        ["reentrant locks"] = { reentrant = true, on_lost = on_lost } }) do
        it(("releases by itself what it holds when the coroutine waiting for the last lock is collected (%s) #asan"):format(kind),
            function()
                told = 0
                local case = waiting_for_the_last(settings)
                case.run()
                case.thread, case.waiters[1] = nil, nil
                eventually(function()
                    collectgarbage()
                    return multis.counts(case.paths) == "0 0 1"
                end)
                for index = 1, 3 do
                    assert.is_false(hold_of(case.locks[index]):held())
                    assert.truthy(tostring(case.locks[index]):find("free", 1, true))
                    assert.equal("not_held", select(3, case.locks[index]:release()))
                end
                collectgarbage()
                assert.is_false(case.client:needs_pump())
                assert(case.locks[1]:acquire(10))
                assert.is_true(case.locks[1]:release())
                assert.is_false(case.locks[1]:held())
                fixture.assert_times_out(case.all, 0.1)
                assert.equal(0, told)
                fixture.assert_nothing_left(case.client)
            end)
    end

    it("releases what it holds when its adapter reports that the coroutine waiting for the last lock was killed #asan", function()
        local case = waiting_for_the_last()
        case.run()
        wait.abandon(case.client, case.waiters[1])
        assert.same({ false, false, false }, case.held())
        multis.await_counts(case.paths, "0 0 1")
        assert.is_false(case.all:cancel())
        fixture.assert_times_out(case.all, 0.1)
        wait.abandon(case.client, case.waiters[1])
        assert(case.locks[1]:acquire(10))
        assert.is_true(case.locks[1]:release())
        fixture.assert_nothing_left(case.client)
    end)

    it("abandons what it requested when its adapter reports that the coroutine was killed before any answer came", function()
        local suspend, last = false, nil
        local client, link = fixture.client_behind_proxy({ session_timeout = 30, wait = { wake = loop.wake, wait = function(...)
            if suspend then
                last = select(2, ...)
                coroutine.yield()
                return true
            end
            return loop.wait(...)
        end } })
        local paths = multis.three_paths()
        local all = multis.of(client, paths)
        link:stall("down")
        suspend = true
        local thread = coroutine.create(function()
            all:acquire(60)
        end)
        assert(coroutine.resume(thread))
        wait.abandon(client, last)
        suspend = false
        link:resume()
        fixture.assert_nothing_left(client)
        multis.await_counts(paths, "0 0 0")
        assert(all:acquire(10))
        assert.equal("suspended", coroutine.status(thread))
    end)

    it("keeps earlier holds of its reentrant locks when its coroutine is killed", function()
        local case = waiting_for_the_last({ reentrant = true })
        case.run(function()
            assert(case.locks[1]:acquire(10))
        end)
        wait.abandon(case.client, case.waiters[1])
        assert.same({ true, false, false }, case.held())
        assert.is_true(hold_of(case.locks[1]):release())
        multis.await_counts(case.paths, "0 0 1")
    end)

    it("keeps earlier holds of its reentrant locks when its coroutine is forgotten", function()
        local case = waiting_for_the_last({ reentrant = true })
        case.run(function()
            assert(case.locks[2]:acquire(10))
        end)
        case.thread, case.waiters[1] = nil, nil
        eventually(function()
            collectgarbage()
            return multis.counts(case.paths) == "0 1 1"
        end)
        assert.is_true(hold_of(case.locks[2]):held())
        fixture.assert_times_out(case.all, 0.1)
        assert.is_true(hold_of(case.locks[2]):held())
        assert.is_true(hold_of(case.locks[2]):release()) -- the forgotten multi has left no level
        multis.await_counts(case.paths, "0 0 1")
    end)
end)
