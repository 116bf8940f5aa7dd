--- with_lock: the function runs while the lock is held, and the lock is released whatever the function does.

local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local is_virtual = require "spec.support.is_virtual"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

local function mutex(options, client_options)
    return fixture.client(client_options):mutex(fixture.path(), options)
end

--- Runs a function in a new coroutine; it must not yield.
local function beside(fn)
    local thread = coroutine.create(fn)
    assert(coroutine.resume(thread))
    assert.equal("dead", coroutine.status(thread))
end

--- Deletes the lock's node and waits until the lock has noticed.
local function lose(lock)
    assert(fixture.observer():delete(lock:node()))
    fixture.await_not_held(lock)
end

after_each(fixture.clean)

describe("with_lock", function()
    it("runs the function while the lock is held, and releases it #valgrind #asan", function()
        local lock = mutex()
        local held, token
        assert.is_true(lock:with_lock(function(given)
            held, token = given:held(), given:token()
            assert.equal(1, #fixture.children(lock:path()))
        end))
        assert.is_true(held)
        assert.is_string(token)
        assert.is_false(lock:held())
        assert.same({}, fixture.children(lock:path()))
    end)

    it("passes arguments and results unchanged, nils in any place included #valgrind #asan", function()
        local lock = mutex()
        local arguments
        local results = compat.pack(lock:with_lock(function(...)
            arguments = compat.pack(...)
            return nil, false, "x", nil
        end, 10, nil, 1, nil, nil))
        assert.equal(5, arguments.n)
        assert.equal("zklock hold (mutex " .. lock:path() .. ", released)", tostring(arguments[1]))
        assert.same({ [3] = 1 }, { [2] = arguments[2], [3] = arguments[3], [4] = arguments[4], [5] = arguments[5] })
        assert.equal(5, results.n)
        assert.is_true(results[1])
        assert.is_nil(results[2])
        assert.is_false(results[3])
        assert.equal("x", results[4])
        assert.is_nil(results[5])
        assert.equal(1, compat.pack(lock:with_lock(function() end)).n)
        assert.equal(251, compat.pack(lock:with_lock(function()
            return compat.unpack({}, 1, 250)
        end)).n)
    end)

    it("takes its timeout as a number, in a table, or not at all", function()
        local lock = mutex()
        fixture.join(lock:path())
        local function never()
            error("ran without the lock")
        end
        assert.equal("timeout", select(3, lock:with_lock(never, 0.05)))
        assert.equal("timeout", select(3, lock:with_lock(never, { timeout = 0.05 })))
        assert.equal("timeout", select(3, lock:with_lock(never, 0)))
    end)

    it("raises the error of the function, the very same object, after releasing #valgrind #asan", function()
        local lock = mutex()
        for _, problem in ipairs({ { code = 5 }, "a string", 7, print, false }) do
            local results = compat.pack(pcall(lock.with_lock, lock, function()
                error(problem, 0)
            end))
            assert.same({ n = 2, false, problem }, results)
            assert.equal(problem, results[2])
            assert.is_false(lock:held())
            assert.same({}, fixture.children(lock:path()))
        end
        local results = compat.pack(pcall(lock.with_lock, lock, function()
            error(nil)
        end))
        assert.is_false(results[1])
        assert.is_false(lock:held())
    end)

    it("adds no position to an error message", function()
        local lock = mutex()
        local _, message = pcall(lock.with_lock, lock, function()
            error("here")
        end)
        assert.truthy(message:find("^spec/behaviour/with_lock_spec.lua:%d+: here$"), message)
    end)

    it("answers lost, with the results, if the lock was lost while the function ran #asan", function()
        local lock = mutex(nil, { session_timeout = 4 })
        local results = compat.pack(lock:with_lock(function()
            lose(lock)
            return 1, nil, 3, nil
        end))
        assert.equal(7, results.n)
        assert.is_nil(results[1])
        assert.is_string(results[2])
        assert.equal("lost", results[3])
        assert.same({ 1, nil, 3, nil }, { results[4], results[5], results[6], results[7] })
        assert.equal("not_held", select(3, lock:release()))
        assert.is_true(lock:with_lock(function() end, 10))
    end)

    it("raises the function's error also if the lock was lost while it ran", function()
        local lock = mutex(nil, { session_timeout = 4 })
        local problem = {}
        local _, raised = pcall(lock.with_lock, lock, function()
            lose(lock)
            error(problem)
        end)
        assert.equal(problem, raised)
        assert.is_true(lock:with_lock(function() end, 10))
    end)

    it("accepts a function that releases early, or acquires again, and holds nothing in the end", function()
        local lock = mutex()
        assert.same({ true, "done" }, { lock:with_lock(function()
            assert.is_true(lock:release())
            return "done"
        end) })
        assert.same({ true, "done" }, { lock:with_lock(function()
            assert.is_true(lock:release())
            assert(lock:acquire(10))
            return "done"
        end) })
        assert.is_false(lock:held())
    end)

    it("does not release what another coroutine has acquired of the same object meanwhile", function()
        local lock, acquired = mutex(nil, { session_timeout = 4 }), nil
        local function acquire()
            acquired = assert(lock:acquire(10))
        end
        for name, let_go in pairs({ lost = lose, released = lock.release }) do
            assert.equal(name == "lost" and "lost" or "done", (select(name == "lost" and 3 or 2, lock:with_lock(function()
                let_go(lock)
                beside(acquire)
                return "done"
            end))))
            collectgarbage()
            assert.is_true(acquired:held(), name)
            assert.is_true(acquired:release())
        end
    end)

    it("releases only its own level of a reentrant lock if the inner function releases early", function()
        local lock = mutex({ reentrant = true })
        assert.is_true(lock:with_lock(function()
            assert.is_true(lock:with_lock(function()
                assert.is_true(lock:release())
            end))
            assert.is_true(lock:held())
        end))
        assert.is_false(lock:held())
    end)

    it("answers deadlock when nested on the same lock, and the outer call continues", function()
        local lock = mutex()
        assert.is_true(lock:with_lock(function()
            assert.equal("deadlock", select(3, lock:with_lock(function()
                error("ran twice")
            end)))
            assert.is_true(lock:held())
        end))
        assert.is_false(lock:held())
    end)

    it("nests on a reentrant lock, to any depth #valgrind #asan", function()
        local lock = mutex({ reentrant = true })
        local function dive(depth)
            return select(2, assert(lock:with_lock(function()
                assert.is_true(lock:held())
                return depth == 0 and 0 or 1 + dive(depth - 1)
            end, 10)))
        end
        assert.equal(10, dive(10))
        assert.is_false(lock:held())
        assert.same({}, fixture.children(lock:path()))
    end)

    it("keeps a reentrant lock when a nested function raises", function()
        local lock = mutex({ reentrant = true })
        assert.is_true(lock:with_lock(function()
            pcall(lock.with_lock, lock, error)
            assert.is_true(lock:held())
        end))
        assert.is_false(lock:held())
    end)

    it("nests on different locks", function()
        local client = fixture.client()
        local outer, inner = client:mutex(fixture.path()), client:mutex(fixture.path())
        assert.is_true(outer:with_lock(function()
            assert.is_true(inner:with_lock(function()
                assert.is_true(outer:held() and inner:held())
            end))
            assert.is_false(inner:held())
        end))
    end)

    it("runs inside coroutines", function()
        local lock = mutex(nil, { wait = loop })
        local turns = {}
        local function turn(name)
            return function()
                local mine = lock._client:mutex(lock:path())
                for _ = 1, 3 do
                    assert.is_true(mine:with_lock(function()
                        turns[#turns + 1] = name
                    end, 20))
                end
            end
        end
        loop.run(turn("a"), turn("b"), turn("c"))
        assert.equal(9, #turns)
        assert.same({}, fixture.children(lock:path()))
    end)

    if compat.PCALL_YIELDS then
        it("lets the function yield, and keeps the lock meanwhile #asan", function()
            local lock = mutex()
            local run = coroutine.wrap(function()
                return lock:with_lock(function(_, first)
                    local second = coroutine.yield(first + 1)
                    return second + 1
                end, 10, 1)
            end)
            assert.equal(2, run())
            assert.is_true(hold_of(lock):held())
            assert.same({ true, 11 }, { run(10) })
            assert.is_false(lock:held())
        end)

        it("lets the function wait for another lock in an event loop", function()
            local client = fixture.client({ wait = loop })
            local outer, inner = client:mutex(fixture.path()), client:mutex(fixture.path(), { handoff = 0 })
            local other = client:mutex(inner:path(), { handoff = 0 })
            local order = {}
            loop.run(function()
                assert(outer:with_lock(function()
                    loop.until_true(function()
                        return hold_of(other):held()
                    end)
                    assert(inner:with_lock(function()
                        order[#order + 1] = "inner"
                    end, 20))
                end, 20))
            end, function()
                assert(other:with_lock(function()
                    loop.until_true(function()
                        return fixture.has(inner:path(), 2)
                    end)
                    order[#order + 1] = "other"
                end, 20))
            end)
            assert.same({ "other", "inner" }, order)
        end)
    else
        it("raises Lua 5.1's own error where the function yields, and releases", function()
            local lock = mutex()
            local ok, message = coroutine.resume(coroutine.create(function()
                return lock:with_lock(coroutine.yield, 10)
            end))
            assert.is_false(ok)
            assert.truthy(message:find("yield", 1, true))
            assert.is_false(lock:held())
        end)
    end
end)

describe("a to-be-closed lock", function()
    if compat.CLOSES then
        it("is released at the end of its block, also by an error, also when lost #valgrind #asan", function()
            local scoped = assert(compat.load_text([[
                local lock, inside = ...
                local held <close> = assert(lock:acquire(10))
                inside(held)
            ]]))
            local lock = mutex(nil, { session_timeout = 4 })
            local was_held
            scoped(lock, function(held)
                was_held = held:held()
            end)
            assert.is_true(was_held)
            assert.is_false(lock:held())
            local problem = {}
            local ok, raised = pcall(scoped, lock, function()
                error(problem)
            end)
            assert.is_false(ok)
            assert.equal(problem, raised)
            assert.is_false(lock:held())
            assert.same({}, fixture.children(lock:path()))
            scoped(lock, lose)
            scoped(lock, function()
                assert.is_true(lock:release())
            end)
            assert(lock:acquire(10))
        end)

        it("does not release what another coroutine has acquired of the same object meanwhile", function()
            local scoped = assert(compat.load_text([[
                local lock, inside = ...
                local held <close> = assert(lock:acquire(10))
                inside(held)
            ]]))
            local lock, acquired = mutex(nil, { session_timeout = 4 }), nil
            local function acquire()
                acquired = assert(lock:acquire(10))
            end
            for name, let_go in pairs({ lost = lose, released = lock.release }) do
                for _ = 1, 2 do
                    beside(function()
                        scoped(lock, function()
                            let_go(lock)
                            beside(acquire)
                        end)
                    end)
                    collectgarbage()
                    assert.is_true(acquired:held(), name)
                    assert.is_true(acquired:release())
                end
            end
        end)

        --- Runs fn in a coroutine until it yields, and closes the coroutine.
        ---@return any # what coroutine.close returned
        local function close_inside(fn, ...)
            local thread = coroutine.create(fn)
            assert(coroutine.resume(thread, ...))
            return coroutine.close(thread) -- luacheck: ignore
        end

        for name, adapter in pairs({ ["an adapter that yields"] = loop, ["a blocking adapter"] = "blocking" }) do
            it(("releases what a closed coroutine holds, without an error, with %s #asan"):format(name), function()
                local scoped = assert(compat.load_text([[
                    local held <close> = ...
                    coroutine.yield()
                ]]))
                local client = fixture.client({ wait = adapter })
                for _, kind in ipairs(kinds) do
                    local path = fixture.path()
                    local lock = kind.new(client, path)
                    local all = client:multi({ lock, client:mutex(fixture.path()) })
                    for _, one in ipairs({ lock, all }) do
                        local held = assert(one:acquire(10)) -- outside of coroutines, where the adapter blocks
                        assert.is_true(held:held())
                        assert.is_true((close_inside(scoped, held)))
                        assert.is_false(held:held())
                        assert(client:flush(10))
                        fixture.await_children(path .. kind.directories[#kind.directories], 0)
                    end
                end
            end)

            it(("releases at an error in a coroutine, which is passed on unchanged, with %s"):format(name), function()
                local failing = assert(compat.load_text([[
                    local held <close>, problem = ...
                    error(problem)
                ]]))
                local lock = fixture.client({ wait = adapter }):mutex(fixture.path())
                local held = assert(lock:acquire(10))
                local problem = {}
                local ok, raised = pcall(coroutine.wrap(failing), held, problem)
                assert.same({ false, problem }, { ok, raised })
                assert.equal(problem, raised)
                assert.is_false(held:held())
                fixture.await_children(lock:path(), 0)
            end)

            it(("closes the client of a closed coroutine, without an error, with %s"):format(name), function()
                local scoped = assert(compat.load_text([[
                    local client <close> = ...
                    coroutine.yield()
                ]]))
                local client = fixture.client({ wait = adapter })
                assert.is_true((close_inside(scoped, client)))
                eventually(function()
                    return client:state() == "closed"
                end)
            end)
        end

        it("with_lock releases when the coroutine of its function is closed #asan", function()
            local yielding = { wake = function() end, wait = function()
                coroutine.yield()
                return true
            end }
            for _, adapter in ipairs({ yielding, "blocking" }) do
                local client = fixture.client({ wait = adapter, connect_timeout = 0 })
                for _, kind in ipairs(kinds) do
                    local path = fixture.path()
                    local lock = kind.new(client, path)
                    local all = client:multi({ lock, client:mutex(fixture.path()) })
                    for _, one in ipairs({ lock, all }) do
                        local held
                        local thread = coroutine.create(function()
                            one:with_lock(function(hold)
                                held = hold
                                coroutine.yield()
                            end, 10)
                        end)
                        eventually(function()
                            assert(coroutine.resume(thread))
                            client:pump()
                            return held
                        end)
                        assert.is_true(held:held())
                        assert.is_true((coroutine.close(thread))) -- luacheck: ignore
                        assert.is_false(held:held())
                        fixture.await_children(path .. kind.directories[#kind.directories], 0)
                    end
                end
                client:close(0)
            end
        end)

        it("releases what another coroutine has acquired", function()
            local scoped = assert(compat.load_text("local held <close> = ..."))
            local held = assert(mutex():acquire(10))
            beside(function()
                scoped(held)
            end)
            assert.is_false(held:held())
        end)

        it("closes a client at the end of its block", function()
            local client = fixture.client()
            assert(compat.load_text("local client <close> = ..."))(client)
            assert.equal("closed", (client:state()))
        end)
    else
        it("has its metamethod, which has no effect before Lua 5.4", function()
            local lock = mutex()
            local held = assert(lock:acquire(10))
            getmetatable(held).__close(held)
            assert.is_false(lock:held())
        end)
    end
end)

describe("a release while ZooKeeper does not answer", function()
    --- Returns a client behind a proxy, the proxy, and a function. The function returns the longest wait, in seconds, that the
    -- client has requested since the function was called last.
    local function watched_client()
        local longest = 0
        local client, link = fixture.client_behind_proxy({ session_timeout = 30, wait = {
            wake = loop.wake,
            wait = function(client, waiter, seconds)
                longest = math.max(longest, seconds)
                return loop.wait(client, waiter, seconds)
            end
        } })
        return client, link, function()
            local seconds = longest
            longest = 0
            return seconds
        end
    end

    it("by with_lock waits as long as the acquisition could wait, but at least one second", function()
        local client, link, asked = watched_client()
        local path = fixture.path()
        for seconds, bound in pairs { [5] = 5, [0] = 1 } do
            for _, lock in ipairs { client:mutex(path .. seconds), client:multi { client:mutex(path .. "multi" .. seconds) } } do
                assert(client:flush(20))
                local settled = lock:with_lock(function()
                    link:stall()
                    asked()
                end, { timeout = seconds })
                assert.is_true(settled)
                local longest = asked()
                assert.is_true(longest <= bound and (longest > bound - 0.02 or not is_virtual), tostring(longest))
                link:resume()
            end
        end
    end)

    it("waits no longer than its timeout", function()
        local client, link, asked = watched_client()
        local path = fixture.path()
        for index, lock in ipairs { client:mutex(path .. "1"), client:multi { client:mutex(path .. "2") } } do
            assert(lock:acquire(20))
            link:stall()
            asked()
            local released, message, code = lock:release { timeout = 0.2 }
            assert.is_nil(released)
            assert.equal("disconnected", code)
            assert.truthy(message:find("not acknowledged within 0.2 s", 1, true), message)
            assert.is_true(asked() <= 0.2)
            assert.is_false(lock:held())
            link:resume()
            fixture.await_children(path .. index, 0)
        end
    end)
end)
