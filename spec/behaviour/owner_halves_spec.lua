--- Several coroutines use one read/write lock, or one semaphore: readers, writers and permits of different coroutines.

local coroutines = require "spec.support.coroutines"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"

local assert_unused, begin = coroutines.assert_unused, coroutines.begin
local code_of, several = coroutines.code_of, coroutines.several

after_each(fixture.clean)

describe("a read/write lock that several coroutines use", function()
    it("makes readers and writers of different coroutines wait for each other #asan", function()
        for _, reentrant in ipairs({ false, true }) do
            local client, path = fixture.loop_client(), fixture.path()
            local rw = client:rwlock(path, { reentrant = reentrant })
            local readers, writers, turns = 0, 0, 0
            loop.run_all(several(6, function(number)
                for round = 1, 3 do
                    if (number + round) % 3 == 0 then
                        assert(rw.write:acquire(30))
                        writers = writers + 1
                        assert.same({ 1, 0 }, { writers, readers })
                        fixture.pass(4)
                        assert.same({ 1, 0 }, { writers, readers })
                        assert(rw.read:acquire(30)) -- a downgrade by the coroutine that holds the write half
                        writers, readers = writers - 1, readers + 1
                        assert.is_true(rw.write:release())
                    else
                        assert(rw.read:acquire(30))
                        readers = readers + 1
                        assert.equal("deadlock", code_of(rw.write:acquire(30)))
                    end
                    assert.equal(0, writers)
                    fixture.pass(4)
                    readers = readers - 1
                    assert.is_true(rw.read:release())
                    turns = turns + 1
                end
            end))
            assert.equal(18, turns)
            assert_unused(rw.read)
            assert_unused(rw.write)
            fixture.assert_nothing_left(client)
        end
    end)

    it("does not treat a reader as a downgrade if another coroutine holds the write half", function()
        local client, path = fixture.loop_client(), fixture.path()
        local rw = client:rwlock(path)
        loop.run(function()
            assert(rw.write:acquire(30))
            fixture.pass(4)
            assert.is_true(rw.write:release())
        end, function()
            loop.until_true(function()
                return hold_of(rw.write):held()
            end)
            assert.equal("timeout", code_of(rw.read:try_acquire()))
            assert(rw.read:acquire(30))
            assert.is_false(hold_of(rw.write):held())
            assert.is_true(rw.read:release())
        end)
    end)

    it("answers deadlock in a plain program if another coroutine holds the other half", function()
        local client = fixture.client()
        local rw = client:rwlock(fixture.path())
        for held, wanted in pairs({ read = "write", write = "read" }) do
            local thread = begin(function()
                assert(rw[held]:acquire(10))
                coroutine.yield()
                assert.is_true(rw[held]:release())
            end)
            assert.equal("deadlock", code_of(rw[wanted]:acquire(10)))
            assert.equal("timeout", code_of(rw[wanted]:try_acquire()))
            assert(coroutine.resume(thread))
            assert(rw[wanted]:acquire(10))
            assert.is_true(rw[wanted]:release())
        end
    end)
end)

describe("a semaphore that several coroutines use", function()
    it("gives each coroutine its permits, and never more than there are #asan", function()
        local client, path = fixture.loop_client(), fixture.path()
        local semaphore = client:semaphore(path, 3)
        local out, most, turns = 0, 0, 0
        loop.run_all(several(6, function(number)
            local count = 1 + number % 2
            for _ = 1, 3 do
                local held = assert(semaphore:acquire({ count = count, timeout = 30 }))
                out = out + count
                most = math.max(most, out)
                assert.equal(count, #held:nodes())
                fixture.pass(4)
                out = out - count
                assert.is_true(semaphore:release())
                turns = turns + 1
            end
        end))
        assert.equal(18, turns)
        assert.is_true(most > 1 and most <= 3, most)
        assert_unused(semaphore)
        fixture.assert_nothing_left(client)
    end)

    it("answers deadlock in a plain program if its other coroutines hold the permits", function()
        local client = fixture.client()
        local semaphore = client:semaphore(fixture.path(), 3)
        local thread = begin(function()
            assert(semaphore:acquire({ count = 2, timeout = 10 }))
            coroutine.yield()
            assert.is_true(semaphore:release())
        end)
        assert.equal("deadlock", code_of(semaphore:acquire({ count = 2, timeout = 10 })))
        assert(semaphore:acquire(10))
        assert.is_true(semaphore:release())
        assert(coroutine.resume(thread))
        assert(semaphore:acquire({ count = 3, timeout = 10 }))
        assert.is_true(semaphore:release())
    end)
end)
