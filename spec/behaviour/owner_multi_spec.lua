--- Several coroutines use one multi. Each coroutine acquires for itself, also beside coroutines that use a member alone.

local compat = require "spec.support.compat"
local coroutines = require "spec.support.coroutines"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"

local assert_unused, begin = coroutines.assert_unused, coroutines.begin
local code_of, several = coroutines.code_of, coroutines.several

after_each(fixture.clean)

describe("a multi that several coroutines use", function()
    local function members_of(client, reentrant)
        return client:mutex(fixture.path(), { reentrant = reentrant }),
            client:rwlock(fixture.path(), { reentrant = reentrant }).write,
            client:semaphore(fixture.path(), 1, { reentrant = reentrant })
    end

    for _, reentrant in ipairs({ false, true }) do
        it(("is held by each for itself, also beside coroutines that use its members alone (reentrant: %s) #asan"):format(
            tostring(reentrant)), function()
            local client = fixture.loop_client()
            local mutex, writer, semaphore = members_of(client, reentrant)
            local all = client:multi({ mutex, writer, semaphore })
            local inside, turns = { [mutex] = 0, [writer] = 0, [semaphore] = 0 }, 0
            local function use(lock)
                inside[lock] = inside[lock] + 1
                assert.equal(1, inside[lock])
                fixture.pass(4)
                assert.is_true(lock:held())
                inside[lock] = inside[lock] - 1
            end
            local functions = several(3, function()
                for _ = 1, 3 do
                    assert.is_false(all:held())
                    assert(all:acquire(50))
                    assert.is_true(all:held())
                    use(mutex)
                    use(writer)
                    use(semaphore)
                    assert(all:transaction():check():commit(10))
                    assert.is_true(all:release())
                    assert.is_false(all:held())
                    assert.equal("not_held", code_of(all:release()))
                    turns = turns + 1
                end
            end)
            for _, lock in ipairs({ mutex, writer, semaphore }) do
                functions[#functions + 1] = function()
                    for _ = 1, 3 do
                        assert(lock:acquire(50))
                        use(lock)
                        assert.is_true(lock:release())
                        turns = turns + 1
                    end
                end
            end
            loop.run_all(functions)
            assert.equal(18, turns)
            for _, lock in ipairs({ mutex, writer, semaphore }) do
                assert_unused(lock)
            end
            fixture.assert_nothing_left(client)
        end)
    end

    it("runs with_lock for each coroutine", function()
        local client = fixture.loop_client()
        local all, inside, turns = client:multi({ members_of(client) }), 0, 0
        loop.run_all(several(3, function()
            assert.is_true(all:with_lock(function(given)
                inside, turns = inside + 1, turns + 1
                assert.equal(1, inside)
                assert.is_true(given:held())
                assert.equal("deadlock", code_of(all:with_lock(error, 10)))
                if compat.PCALL_YIELDS then
                    fixture.pass(4)
                end
                inside = inside - 1
            end, 50))
        end))
        assert.equal(3, turns)
        fixture.assert_nothing_left(client)
    end)

    it("ends all waits when cancelled, releases what they hold, and keeps a coroutine's wait for a member", function()
        local client, codes, waited = fixture.loop_client(), {}, nil
        local mutex, writer, semaphore = members_of(client)
        local all = client:multi({ mutex, writer, semaphore })
        local blocker = fixture.join(writer:path())
        local functions = several(2, function(number)
            codes[number] = code_of(all:acquire(50))
        end)
        functions[3] = function()
            waited = writer:acquire(50)
        end
        functions[4] = function()
            loop.until_true(function()
                return hold_of(mutex):held() and #fixture.children(writer:path()) > 1
            end)
            fixture.pass(4)
            assert.is_true(all:cancel())
            assert.is_false(all:cancel())
            fixture.pass(4)
            fixture.observer():delete(blocker)
        end
        loop.run_all(functions)
        assert.same({ "cancelled", "cancelled" }, codes)
        assert.truthy(waited)
        assert.is_true(waited:release())
        assert_unused(mutex)
        assert_unused(writer)
        fixture.assert_nothing_left(client)
    end)

    it("answers deadlock in a plain program if another coroutine holds a member", function()
        local client = fixture.client()
        local mutex, writer, semaphore = members_of(client)
        local all = client:multi({ mutex, writer, semaphore })
        for _, lock in ipairs({ mutex, writer, semaphore }) do
            local thread = begin(function()
                assert(lock:acquire(10))
                coroutine.yield()
                assert.is_true(lock:release())
            end)
            assert.equal("deadlock", code_of(all:acquire(10)))
            assert.equal("timeout", code_of(all:try_acquire()))
            assert(coroutine.resume(thread))
            assert(all:acquire(10))
            assert.is_true(all:release())
        end
        fixture.assert_nothing_left(client)
    end)
end)
