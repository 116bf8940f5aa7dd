--- with_lock of a multi, and a to-be-closed multi: all locks are held inside, and none afterwards.

local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"

after_each(fixture.clean)

describe("with_lock of a multi", function()
    it("passes arguments, results and nils unchanged, and releases all #valgrind #asan", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local arguments
        local results = compat.pack(all:with_lock(function(...)
            arguments = compat.pack(...)
            assert.is_true(all:held() and (...):held())
            return nil, false, "x", nil
        end, 10, nil, 1, nil))
        assert.equal(4, arguments.n)
        assert.is_false(arguments[1]:held())
        assert.equal(1, arguments[3])
        assert.equal(5, results.n)
        assert.same({ true, nil, false, "x" }, { results[1], results[2], results[3], results[4] })
        assert.is_false(all:held())
        assert.equal("0 0 0", multis.counts(paths))
        assert.equal(1, compat.pack(all:with_lock(function() end)).n)
        assert.same({ true, 7 }, { all:with_lock(function()
            return 7
        end, { timeout = 10 }) })
    end)

    it("raises the function's error, the very same object, after releasing #valgrind #asan", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local problem = {}
        local ok, raised = pcall(all.with_lock, all, function()
            error(problem)
        end)
        assert.is_false(ok)
        assert.equal(problem, raised)
        assert.equal("0 0 0", multis.counts(paths))
        assert(all:acquire(10))
    end)

    it("does not run the function without all of the locks", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        fixture.join(paths[3])
        for _, timeout in ipairs({ 0.1, 0 }) do
            assert.equal("timeout", select(3, all:with_lock(function()
                error("ran without the locks")
            end, timeout)))
        end
    end)

    it("answers lost, with the results, if a lock was lost while the function ran #asan", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client({ session_timeout = 8 }), paths)
        local results = compat.pack(all:with_lock(function()
            fixture.observer():delete(locks[2]:node())
            fixture.await_not_held(all)
            return 1, nil, 3
        end))
        assert.equal(6, results.n)
        assert.is_nil(results[1])
        assert.truthy(results[2]:find(paths[2], 1, true), results[2])
        assert.same({ "lost", 1, nil, 3 }, { results[3], results[4], results[5], results[6] })
        assert.equal("0 0 0", multis.counts(paths))
        assert.is_true(all:with_lock(function() end, 10))
    end)

    it("accepts a function that releases early, or some of the locks, or acquires again, and holds nothing in the end", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        assert.same({ true, "done" }, { all:with_lock(function()
            assert.is_true(all:release())
            return "done"
        end) })
        assert.same({ true, "done" }, { all:with_lock(function()
            assert.is_true(locks[2]:release())
            return "done"
        end) })
        assert.equal("0 0 0", multis.counts(paths))
        assert.same({ true, "done" }, { all:with_lock(function()
            assert.is_true(all:release())
            assert(all:acquire(10))
            return "done"
        end) })
        assert.is_false(all:held())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("does not release what another coroutine has acquired of its locks meanwhile", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.client({ session_timeout = 12 }), paths)
        local acquired = {}
        local outcome = compat.pack(all:with_lock(function()
            fixture.observer():delete(locks[1]:node())
            fixture.await_not_held(locks[1])
            assert.is_true(locks[2]:release())
            local thread = coroutine.create(function()
                acquired[1] = assert(locks[1]:acquire(10))
                acquired[2] = assert(locks[2]:acquire(10))
            end)
            assert(coroutine.resume(thread))
            assert.equal("dead", coroutine.status(thread))
        end, 10))
        assert.equal("lost", outcome[3])
        collectgarbage()
        assert.same({ true, true }, { acquired[1]:held(), acquired[2]:held() })
        assert.same({ true, true, false }, { hold_of(locks[1]):held(), hold_of(locks[2]):held(), hold_of(locks[3]):held() })
        assert.equal("1 1 0", multis.counts(paths))
    end)

    it("keeps the outer level of a reentrant lock whose inner level its function has released", function()
        local all, locks = multis.of(fixture.steady_client(), multis.three_paths(), { reentrant = true })
        assert(locks[2]:acquire(10))
        assert.is_true(all:with_lock(function()
            assert.is_true(locks[2]:release())
        end, 10))
        assert.same({ false, true, false }, { locks[1]:held(), locks[2]:held(), locks[3]:held() })
        assert.is_true(locks[2]:release())
    end)

    it("answers deadlock when nested, and nests on reentrant locks", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        assert.is_true(all:with_lock(function()
            assert.equal("deadlock", select(3, all:with_lock(error)))
            assert.is_true(all:held())
        end))
        local again = multis.of(fixture.steady_client(), paths, { reentrant = true })
        assert.same({ true, true, "deep" }, { again:with_lock(function()
            return again:with_lock(function()
                assert.is_true(again:held())
                return "deep"
            end, 10)
        end, 10) })
        assert.is_false(again:held())
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("runs inside coroutines", function()
        local paths = multis.three_paths()
        local turns, functions = 0, {}
        for index = 1, 3 do
            local all = multis.of(fixture.steady_client(), paths)
            functions[index] = function()
                for _ = 1, 4 do
                    assert(all:with_lock(function()
                        turns = turns + 1
                    end, 40))
                end
            end
        end
        loop.run_all(functions)
        assert.equal(12, turns)
        multis.await_counts(paths, "0 0 0")
    end)

    if compat.PCALL_YIELDS then
        it("lets the function yield, and keeps the locks meanwhile", function()
            local all = multis.of(fixture.client(), multis.three_paths())
            local run = coroutine.wrap(function()
                return all:with_lock(function(hold, first)
                    return coroutine.yield(hold, first + 1) + 1
                end, 10, 1)
            end)
            local hold, first = run()
            assert.equal(2, first)
            assert.is_true(hold:held())
            assert.same({ true, 11 }, { run(10) })
            assert.is_false(hold:held())
        end)
    end
end)

describe("a to-be-closed multi", function()
    if compat.CLOSES then
        it("is released at the end of its block, also by an error, also when partly released #valgrind #asan", function()
            local scoped = assert(compat.load_text([[
                local all, inside = ...
                local held <close> = assert(all:acquire(10))
                return inside(held)
            ]]))
            local paths = multis.three_paths()
            local all, locks = multis.of(fixture.steady_client(), paths)
            assert.is_true(scoped(all, function(held)
                return held:held()
            end))
            assert.equal("0 0 0", multis.counts(paths))
            local problem = {}
            local ok, raised = pcall(scoped, all, function()
                error(problem)
            end)
            assert.is_false(ok)
            assert.equal(problem, raised)
            assert.equal("0 0 0", multis.counts(paths))
            scoped(all, function()
                assert.is_true(locks[2]:release())
            end)
            assert.equal("0 0 0", multis.counts(paths))
            scoped(all, function()
                assert.is_true(all:release())
            end)
            assert(all:acquire(10))
        end)

        it("does not release what another coroutine has acquired of its locks meanwhile", function()
            local scoped = assert(compat.load_text([[
                local all, inside = ...
                local held <close> = assert(all:acquire(10))
                inside()
            ]]))
            local paths = multis.three_paths()
            local all, locks = multis.of(fixture.client(), paths)
            scoped(all, function()
                assert.is_true(locks[2]:release())
                coroutine.wrap(function()
                    assert(locks[2]:acquire(10))
                end)()
            end)
            assert.is_true(hold_of(locks[2]):held())
            assert.equal("0 1 0", multis.counts(paths))
        end)
    else
        it("has its metamethod, which has no effect before Lua 5.4", function()
            local all = multis.of(fixture.steady_client(), multis.three_paths())
            local held = assert(all:acquire(10))
            getmetatable(held).__close(held)
            assert.is_false(all:held())
        end)
    end
end)
