--- min_hold keeps what with_lock has acquired for a set time at least, on every kind of lock and on multis.

local compat = require "spec.support.compat"
local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local takes = require "spec.support.takes"

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    describe("min_hold of a " .. kind.name, function()
        it("keeps the lock for so long after the grant, and returns what the function has returned #valgrind #asan", function()
            local path = fixture.path()
            local lock, rival = kind.new(fixture.steady_client(), path), kinds.new_rival(kind, path)
            local granted, ran
            loop.run(function()
                assert.same({ n = 4, true, 1, nil, 3 }, compat.pack(lock:with_lock(function()
                    granted = core.now()
                    return 1, nil, 3
                end, { timeout = 10, min_hold = 2 })))
                assert.is_true(core.now() - granted >= 2 - 1e-6)
                ran = true
            end, function()
                loop.until_true(function()
                    return granted
                end)
                assert.same({ nil, "timeout" }, { (rival:acquire(0)), select(3, rival:acquire(0)) })
                assert(rival:acquire(20))
                assert.is_true(core.now() - granted >= 2 - 1e-6)
            end)
            assert.is_true(ran)
            assert.is_false(lock:held())
        end)
    end)
end

describe("min_hold", function()
    it("is over when the function takes longer", function()
        local lock, client = fixture.mutex(fixture.path())
        takes(1.5, function()
            assert.is_true(lock:with_lock(function()
                client:mutex(fixture.path()):with_lock(function() end, { min_hold = 1.5 })
            end, { min_hold = 1 }))
        end)
        assert.is_false(lock:held())
    end)

    it("keeps the lock after an error of the function, which is raised unchanged", function()
        local lock, problem = fixture.mutex(fixture.path()), {}
        takes(1, function()
            local ok, raised = pcall(lock.with_lock, lock, function()
                error(problem)
            end, { min_hold = 1 })
            assert.is_false(ok)
            assert.equal(problem, raised)
        end)
        assert.same({}, fixture.children(lock:path()))
    end)

    it("keeps all members of a multi", function()
        local client = fixture.client()
        local members = { client:mutex(fixture.path()), client:mutex(fixture.path()) }
        takes(1, function()
            assert.is_true(client:multi(members):with_lock(function() end, { timeout = 5, min_hold = 1 }))
        end)
        for _, member in ipairs(members) do
            assert.same({}, fixture.children(member:path()))
        end
    end)

    it("does not turn a loss that comes after the function's end into an answer lost; on_lost is told #asan", function()
        local path, told = fixture.path(), {}
        local lock = fixture.steady_client():mutex(path, { on_lost = function(_, reason)
            told[#told + 1] = reason
        end })
        local node
        loop.run(function()
            assert.same({ true, "done" }, { lock:with_lock(function(hold)
                node = hold:node()
                return "done"
            end, { min_hold = 30 }) })
            assert.same({ "lost" }, told)
        end, function()
            loop.until_true(function()
                return node and not lock:cancel()
            end)
            assert(fixture.observer():delete(node))
        end)
        assert.same({}, fixture.children(path))
    end)

    it("answers lost at once if the lock was lost while the function ran", function()
        local lock = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        local results = compat.pack(lock:with_lock(function()
            assert(fixture.observer():delete(lock:node()))
            fixture.await_not_held(lock)
            return 7
        end, { min_hold = 3600 }))
        assert.same({ nil, "lost", 7 }, { results[1], results[3], results[4] })
    end)

    it("does not wait if the function has released, or if max_hold ends the hold", function()
        local lock = fixture.mutex(fixture.path(), { max_hold = 1 })
        assert.is_true(lock:with_lock(function(hold)
            assert(hold:release())
        end, { min_hold = 3600 }))
        takes(1, function()
            assert.same({ true, 5 }, { lock:with_lock(function()
                return 5
            end, { min_hold = 3600 }) })
        end)
    end)

    it("of a nested level keeps that level, and the outer with_lock goes on holding", function()
        local lock = fixture.mutex(fixture.path(), { reentrant = true })
        assert.is_true(lock:with_lock(function(hold)
            takes(1, function()
                assert.is_true(lock:with_lock(function() end, { min_hold = 1 }))
            end)
            assert.is_true(hold:held())
        end))
        assert.is_false(lock:held())
    end)

    if compat.CLOSES then
        it("ends with its coroutine: the locks are released when that is closed #asan", function()
            local client = fixture.client { connect_timeout = 0, wait = { wake = function() end, wait = function()
                coroutine.yield()
                return true
            end } }
            local lock, other, held = client:mutex(fixture.path()), client:mutex(fixture.path()), nil
            for _, one in ipairs { lock, client:multi({ lock, other }) } do
                local ended = false
                local thread = coroutine.create(function()
                    one:with_lock(function(hold)
                        held, ended = hold, true
                    end, { min_hold = 3600 })
                end)
                eventually(function()
                    assert(coroutine.resume(thread))
                    client:pump()
                    return ended
                end)
                assert.is_true(held:held())
                assert.is_true((coroutine.close(thread))) -- luacheck: ignore
                assert.is_false(held:held())
                fixture.await_children(lock:path(), 0)
                fixture.await_children(other:path(), 0)
            end
            client:close(0)
            eventually(function()
                return client:state() == "closed"
            end)
        end)
    end

    it("must be a number of seconds above 0, and is no setting of acquire", function()
        local client = fixture.client()
        local lock = client:mutex(fixture.path())
        for _, value in ipairs { 0, -1, math.huge, "1", false } do
            mistake(function()
                lock:with_lock(function() end, { min_hold = value })
            end, "lock:with_lock: ", "option 'min_hold' must be a number of seconds above 0")
        end
        mistake(function()
            lock:acquire { min_hold = 1 }
        end, "lock:acquire: unknown option 'min_hold'")
        mistake(function()
            client:multi({ lock }):acquire { min_hold = 1 }
        end, "multi:acquire: unknown option 'min_hold'")
    end)

    if is_virtual then
        it("takes no request while it lasts, but for the heartbeats of the session", function()
            local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
            local sent
            assert.is_true(lock:with_lock(function()
                sent = fixture.sent(client)
            end, { min_hold = 300 }))
            assert.equal(sent + 1, fixture.sent(client)) -- the release
        end)
    end
end)
