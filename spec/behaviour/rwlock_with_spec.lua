--- with_read and with_write run a function while their half is held.

local fixture = require "spec.support.fixture"

after_each(fixture.clean)

describe("with_read and with_write", function()
    it("run the function while the half is held, and pass arguments and results #valgrind #asan", function()
        local rw = fixture.rwlock(fixture.path())
        for way, lock in pairs({ with_read = rw.read, with_write = rw.write }) do
            local results = { rw[way](rw, function(given, ...)
                assert.is_true(given:held() and lock:held())
                return select("#", ...), (select(2, ...))
            end, 10, nil, "x", nil) }
            assert.same({ true, 3, "x" }, results)
            assert.is_false(lock:held())
        end
        assert.same({}, fixture.children(rw:path()))
    end)

    it("raise the function's error after releasing", function()
        local rw = fixture.rwlock(fixture.path())
        for way, lock in pairs({ with_read = rw.read, with_write = rw.write }) do
            local problem = { way }
            local ok, raised = pcall(rw[way], rw, function()
                error(problem)
            end)
            assert.is_false(ok)
            assert.equal(problem, raised)
            assert.is_false(lock:held())
        end
        assert.same({}, fixture.children(rw:path()))
    end)

    it("do not run the function if the lock cannot be acquired", function()
        local rw = fixture.rwlock(fixture.path())
        fixture.join(rw:path())
        assert.equal("timeout", select(3, rw:with_read(error, 0.05)))
        assert.equal("timeout", select(3, rw:with_write(error, { timeout = 0.05 })))
    end)

    it("let the function downgrade: what it acquired stays held", function()
        local rw = fixture.rwlock(fixture.path())
        assert.is_true(rw:with_write(function()
            assert(rw.read:acquire(10))
        end, 10))
        assert.is_false(rw.write:held())
        assert.is_true(rw.read:held())
        assert.is_true(rw.read:release())
        assert.is_true(rw:with_write(function()
            return assert(rw:with_read(function()
                assert.is_true(rw.read:held() and rw.write:held())
            end, 10))
        end, 10))
        assert.same({}, fixture.children(rw:path()))
    end)

    it("answer lost, with the results, if the lock was lost meanwhile", function()
        local rw = fixture.rwlock(fixture.path(), nil, { session_timeout = 4 })
        for way, lock in pairs({ with_read = rw.read, with_write = rw.write }) do
            local results = { rw[way](rw, function()
                assert(fixture.observer():delete(lock:node()))
                fixture.await_not_held(lock)
                return 1, 2
            end, 10) }
            assert.same({ "lost", 1, 2 }, { results[3], results[4], results[5] })
            assert.is_nil(results[1])
        end
    end)
end)
