--- A wait that cannot suspend, or that is never resumed, is abandoned, and does not keep the loop from ending.

local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loops = require "spec.support.loops"
local zklock = require "zklock"

--- Defines the promises for one loop.
local function promises(loop)
    after_each(fixture.clean)

    if not compat.PCALL_YIELDS then
        --- Functions that Lua 5.1 does not let yield, with their names. Each calls fn(...) and returns what pcall would return.
        local barriers = {
            pcall = pcall,
            ["a metamethod"] = function(fn, ...)
                local arguments = { ... }
                local proxy = setmetatable({}, { __index = function()
                    return fn(compat.unpack(arguments))
                end })
                return coroutine.resume(coroutine.create(function()
                    return proxy.result
                end))
            end,
            ["an iterator"] = function(fn, ...)
                local arguments = { ... }
                return coroutine.resume(coroutine.create(function()
                    for result in function() -- luacheck: ignore 512
                        return fn(compat.unpack(arguments))
                    end do
                        return result
                    end
                end))
            end
        }

        --- The error that a wait raises if it cannot suspend its coroutine.
        local BOUNDARY = "C-call boundary"

        for name, barrier in pairs(barriers) do
            it(("a wait that cannot suspend in %s abandons its requests before it raises"):format(name), function()
                finally(function()
                    collectgarbage("restart")
                end)
                loop.run(function()
                    local client = loops.client(loop)
                    local locks = { client:mutex(fixture.path()), client:mutex(fixture.path()) }
                    local all, node = client:multi(locks), fixture.join(locks[2]:path())
                    collectgarbage("stop") -- the spec must not depend on it
                    for _, object in ipairs({ locks[2], client:rwlock(locks[2]:path()).write, all }) do
                        local ok, problem = barrier(object.acquire, object, 20)
                        assert.is_false(ok)
                        assert.truthy(tostring(problem):find(BOUNDARY, 1, true), tostring(problem))
                        if name == "pcall" then -- Lua shows the other functions only partly: the pump finds what they leave
                            assert.is_nil(next(client:desk().attempts))
                        end
                        loops.until_true(loop, function()
                            return fixture.has(locks[2]:path(), 1) and fixture.has(locks[1]:path(), 0)
                        end, "the place in the queue to be given up")
                    end
                    loops.until_true(loop, function()
                        return not client:needs_pump()
                    end)
                    fixture.observer():delete(node)
                    local held = assert(all:acquire(20)):holds()
                    assert(held[1]:release())
                    local ok, problem = barrier(held[2].release, held[2]) -- this raises if it has to wait
                    assert.truthy(ok or tostring(problem):find(BOUNDARY, 1, true), tostring(problem))
                    assert.is_false(held[2]:held())
                    loops.until_true(loop, function()
                        return fixture.has(locks[2]:path(), 0)
                    end, "the lock to be given back")
                end)
            end)
        end

        it("other waits inside pcall raise, and no wait is left after them", function()
            finally(function()
                collectgarbage("restart")
            end)
            loop.run(function()
                local client, path = loops.client(loop), fixture.directory()
                local lock = client:mutex(fixture.path())
                local _, _, watch = assert(client:get(path, { watch = true }))
                collectgarbage("stop")
                for name, call in pairs({
                    get = function() client:get(path) end, set = function() client:set(path, "text") end,
                    contenders = function() lock:contenders() end, watch = function() watch:wait() end,
                    commit = function() client:transaction():check(path):commit() end
                }) do
                    local ok, problem = pcall(call) -- this raises if it has to wait
                    assert.truthy(ok or tostring(problem):find(BOUNDARY, 1, true), name .. ": " .. tostring(problem))
                end
                watch:cancel()
                assert(client:flush(20))
                loops.until_true(loop, function()
                    return not client:needs_pump()
                end)
                -- Behind this link no server answers, so the connect has to wait, however slow this program is.
                local link = fixture.proxy()
                link:stall()
                local ok, problem = pcall(zklock.connect, link.address, { wait = loop.name })
                assert.is_false(ok)
                assert.truthy(tostring(problem):find(BOUNDARY, 1, true), problem)
            end)
        end)

        if loop.run_out then
            it("a wait that could not suspend does not keep the loop from ending", function()
                finally(function()
                    collectgarbage("restart")
                end)
                collectgarbage("stop")
                loop.run_out(function()
                    local lock = loops.client(loop):mutex(fixture.path())
                    fixture.join(lock:path())
                    assert.is_false(pcall(lock.acquire, lock))
                end)
            end)
        end
    end

    local it_if_it_ends = compat.it_with({ it = it, pending = pending }, loop.run_out, loop.name .. " 2 or later")
    local it_if_it_drops = loop.drop and it or pending

    it_if_it_ends("the loop ends when the work is done, even if locks are held and watches set", function()
        local client, lock
        loop.run_out(function()
            client = loops.client(loop)
            lock = client:mutex(fixture.path())
            assert(lock:acquire(10))
            assert(client:get("/", { watch = true }))
            if loop.name == "copas" then
                lock:release() -- copas cannot tell whether any other work is left
            end
        end)
        assert(client:close())
    end)

    it_if_it_ends("the loop does not end while a coroutine waits", function()
        local got
        loop.run_out(function()
            local client = loops.client(loop)
            local lock = client:mutex(fixture.path())
            local node = fixture.join(lock:path())
            local worker = fixture.worker(lock:path()) -- luacheck: ignore worker
            fixture.observer():delete(node)
            got = lock:acquire()
            assert(lock:release())
        end)
        assert.truthy(got)
    end)

    local step = loop.step or function() end

    it_if_it_drops("a coroutine that is killed, or forgotten with its loop, leaves the queue #asan", function()
        local client = loops.client(loop, { session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        local node = fixture.join(lock:path())
        loop.drop(function()
            lock:acquire(200)
        end, function()
            return fixture.has(lock:path(), 2)
        end)
        eventually(function()
            step()
            collectgarbage()
            return fixture.has(lock:path(), 1)
        end, 60)
        eventually(function()
            step()
            collectgarbage()
            return tostring(lock):find("free", 1, true), tostring(lock)
        end, 60)
        fixture.observer():delete(node)
        assert(lock:acquire(10))
    end)

    it_if_it_drops("a coroutine that waits for the last of several locks releases the others if killed or forgotten", function()
        local client, rival = loops.client(loop, { session_timeout = 30 }), fixture.client({ wait = "blocking" })
        local first, last = client:mutex(fixture.path()), client:mutex(fixture.path())
        local all = client:multi({ first, last })
        fixture.join(last:path())
        loop.drop(function()
            all:acquire(200)
        end, function()
            return fixture.has(last:path(), 2) and hold_of(first):held()
        end)
        eventually(function()
            step()
            collectgarbage()
            return fixture.has(first:path(), 0) and fixture.has(last:path(), 1)
        end, 60)
        assert.is_false(hold_of(first):held())
        assert(rival:mutex(first:path()):acquire(10))
        fixture.assert_times_out(all)
    end)
end

for _, loop in ipairs(loops.each()) do
    describe("in " .. loop.name .. ",", function()
        promises(loop)
    end)
end

describe("a coroutine that is closed while it waits", function()
    after_each(fixture.clean)

    local has_luv, uv = pcall(require, "luv")

    --- Ways to wait in coroutines, each with a function that resumes them.
    local ways = { ["an adapter of the program's own"] = {
        adapter = { wake = function() end, wait = function()
            coroutine.yield()
            return true
        end },
        turn = function(thread)
            assert(coroutine.resume(thread))
        end
    }, luv = has_luv and {
        adapter = "luv",
        turn = function()
            uv.run("nowait")
        end
    } or nil }

    --- Runs fn in a coroutine, resumes it until `begun()`, and closes it.
    ---@return thread # for the caller to keep, so that the close and not the collector ends the wait
    local function close_while_waiting(way, client, fn, begun)
        local thread = coroutine.create(fn)
        assert(coroutine.resume(thread))
        eventually(function()
            way.turn(thread)
            client:pump()
            return begun()
        end)
        assert(coroutine.close(thread)) -- luacheck: ignore
        return thread
    end

    for name, way in pairs(ways) do
        (coroutine.close and it or pending)(("leaves the queue at once, with %s #asan"):format(name), function()
            finally(function()
                collectgarbage("restart")
            end)
            local client = assert(zklock.connect(fixture.servers(), { wait = way.adapter, connect_timeout = 0 }))
            eventually(function()
                return client:state() == "connected"
            end)
            collectgarbage("stop") -- the spec must not depend on it
            local first, last, kept = client:mutex(fixture.path()), client:mutex(fixture.path()), {}
            local all, node = client:multi({ first, last }), fixture.join(last:path())
            kept[1] = close_while_waiting(way, client, function()
                last:acquire(50)
            end, function()
                return fixture.has(last:path(), 2)
            end)
            assert.truthy(tostring(last):find("free", 1, true), tostring(last))
            fixture.await_children(last:path(), 1)
            kept[2] = close_while_waiting(way, client, function()
                all:acquire(50)
            end, function()
                return fixture.has(last:path(), 2) and hold_of(first):held()
            end)
            assert.is_false(hold_of(first):held())
            fixture.await_children(first:path(), 0)
            fixture.await_children(last:path(), 1)
            fixture.observer():delete(node)
            fixture.await_children(last:path(), 0)
            assert.is_false(client:needs_pump())
            assert.equal(2, #kept)
            client:close(0)
        end)
    end
end)

describe("a wait that is never resumed", function()
    after_each(fixture.clean)

    --- Begins a wait in a coroutine that the adapter suspends by `suspend`, and pumps until all is abandoned. Returns the thread.
    local function until_given_up(suspend, timeout, multi)
        finally(function()
            collectgarbage("restart")
        end)
        local client = assert(zklock.connect(fixture.servers(), {
            wait = { wait = suspend, wake = function() end }, connect_timeout = 0
        }))
        eventually(function()
            return client:state() == "connected"
        end)
        local lock, first = client:mutex(fixture.path()), client:mutex(fixture.path())
        lock, first = first, lock -- the taken lock comes last in the order of a multi
        local node, object = fixture.join(lock:path()), multi and client:multi({ first, lock }) or lock
        collectgarbage("stop")
        local thread = coroutine.create(function()
            object:acquire(timeout)
        end)
        assert(coroutine.resume(thread))
        eventually(function()
            coroutine.resume(thread, "pumped")
            client:pump()
            return not client:needs_pump() and fixture.has(lock:path(), 1) and fixture.has(first:path(), 0)
        end)
        fixture.observer():delete(node)
        assert.truthy(tostring(lock):find("free", 1, true), tostring(lock))
        client:close(0)
        return thread
    end

    for _, multi in ipairs({ false, true }) do
        local what = multi and "several locks" or "a lock"

        it(("for %s is abandoned after its deadline"):format(what), function()
            local thread = until_given_up(function()
                repeat until coroutine.yield() ~= "pumped"
                return true
            end, 1, multi)
            assert.equal("suspended", coroutine.status(thread))
        end)

        it(("for %s is abandoned if an error has ended its coroutine"):format(what), function()
            local thread = until_given_up(function()
                coroutine.yield()
                error("an error of the adapter's own")
            end, 600, multi)
            assert.equal("dead", coroutine.status(thread))
        end)
    end
end)
