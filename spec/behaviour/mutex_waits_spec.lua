--- A try, a timeout and a cancel end the wait for a mutex in time, and leave nothing behind.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local takes = require "spec.support.takes"

after_each(fixture.clean)

describe("a try", function()
    it("acquires a lock that is free #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:try_acquire())
        assert.is_true(lock:release())
        assert(lock:acquire(0))
        assert.is_true(lock:release())
        assert(lock:acquire({ timeout = 0 }))
    end)

    it("is refused while another client holds the lock, and writes nothing #asan", function()
        local lock, client = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local before = fixture.observer():exists(lock:path())
        for _ = 1, 3 do
            local ok, message, code = lock:try_acquire()
            assert.same({ nil, "timeout" }, { ok, code })
            assert.truthy(message:find(lock:path(), 1, true))
        end
        assert(client:flush(10))
        assert.same(before, (fixture.observer():exists(lock:path())))
    end)

    it("is refused also while a waiter of its own client is ahead", function()
        local lock, client = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(20))
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.equal("timeout", select(3, client:mutex(lock:path()):try_acquire()))
            fixture.observer():delete(holder)
        end)
    end)

    it("succeeds for exactly one of twenty", function()
        local path = fixture.path()
        local clients, functions, codes = {}, {}, {}
        for index = 1, 4 do
            clients[index] = fixture.client({ wait = loop })
        end
        for index = 1, 20 do
            local lock = clients[index % 4 + 1]:mutex(path)
            functions[index] = function()
                local _, _, code = lock:try_acquire()
                codes[code or "ok"] = (codes[code or "ok"] or 0) + 1
                loop.until_true(function()
                    return (codes.ok or 0) + (codes.timeout or 0) == 20 -- this keeps the lock object until all have tried
                end)
                assert.equal(code == nil, lock:held())
            end
        end
        loop.run_all(functions)
        assert.same({ ok = 1, timeout = 19 }, codes)
        fixture.await_children(path, 1)
    end)
end)

describe("a timeout", function()
    it("ends the wait in time, names the path, and leaves nothing behind #valgrind #asan", function()
        local lock, client = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        takes(0.3, function()
            local ok, message, code = lock:acquire(0.3)
            assert.same({ nil, "timeout" }, { ok, code })
            assert.truthy(message:find(lock:path(), 1, true), message)
            assert.truthy(message:find("0.3 s", 1, true), message)
        end)
        assert(client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
        assert.is_false(fixture.is_watched(lock:path()))
        fixture.observer():delete(holder)
        assert(lock:acquire(10))
    end)

    it("of an earlier contender does not delay the later ones", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local impatient, patient = fixture.mutex(path), fixture.mutex(path)
        local codes = {}
        loop.run(function()
            codes[1] = select(3, impatient:acquire(1))
            fixture.observer():delete(holder)
        end, function()
            fixture.until_children(path, 2)
            assert(patient:acquire(20))
        end)
        assert.same({ "timeout" }, codes)
        assert.is_true(hold_of(patient):held())
    end)

    it("leaves nothing behind a hundred times: no node, no watch, no entry", function()
        local lock, client = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        for _ = 1, 100 do
            assert.is_nil((lock:acquire(0.002)))
        end
        assert(client:flush(20))
        assert.equal(1, #fixture.children(lock:path()))
        assert.is_false(fixture.is_watched(holder))
        assert.equal(0, client:stats().entries)
        assert.equal(0, client:stats().watches)
    end)
end)

describe("cancel", function()
    it("ends the wait of another coroutine, and leaves nothing behind #asan", function()
        local lock, client = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local answer
        loop.run(function()
            answer = { lock:acquire(20) }
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.is_true(lock:cancel())
        end)
        assert.is_nil(answer[1])
        assert.equal("cancelled", answer[3])
        assert(client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
        assert.is_false(fixture.is_watched(lock:path()))
    end)

    it("ends a wait whose requests have not yet reached the server", function()
        local lock = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local answer
        loop.run(function()
            answer = { lock:acquire(20) }
        end, function()
            assert.is_true(lock:cancel())
        end)
        assert.equal("cancelled", answer[3])
        fixture.await_children(lock:path(), 1)
    end)

    it("before acquiring does not affect the acquire that follows #valgrind", function()
        local lock = fixture.mutex(fixture.path())
        assert.is_false(lock:cancel())
        assert(lock:acquire(10))
    end)

    it("after acquiring does not affect the hold", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.is_false(lock:cancel())
        assert.is_true(lock:held())
        assert.is_true(lock:release())
    end)

    it("leaves the object ready for the next acquire", function()
        local lock = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert.equal("cancelled", select(3, lock:acquire(20)))
            fixture.observer():delete(holder)
            assert(lock:acquire(20))
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.is_true(lock:cancel())
        end)
        assert.is_true(hold_of(lock):held())
    end)

    it("of a waiter in the middle does not change the order of the others", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local locks = { fixture.mutex(path), fixture.mutex(path), fixture.mutex(path) }
        local served = {}
        local functions = {}
        for index, lock in ipairs(locks) do
            functions[index] = function()
                fixture.until_children(path, index)
                if lock:acquire(20) then
                    served[#served + 1] = index
                    assert(lock:release())
                end
            end
        end
        functions[4] = function()
            fixture.until_children(path, 4)
            locks[2]:cancel()
            fixture.until_children(path, 3)
            assert.same({}, served)
            fixture.observer():delete(holder)
        end
        loop.run_all(functions)
        assert.same({ 1, 3 }, served)
    end)
end)
