--- A waiter for permits leaves nothing behind, keeps its place, and sends no more requests than necessary.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local semaphores = require "spec.support.semaphores"

--- Returns the full path of the only node in a directory.
local function only_child(path)
    local names = fixture.children(path)
    assert.equal(1, #names)
    return path .. "/" .. names[1]
end

after_each(fixture.clean)

describe("a waiter for permits", function()
    it("that times out leaves no queue entry, no lease entry and no watch behind #valgrind #asan", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 2)
        local mine, client = fixture.semaphore(path, 2)
        semaphores.hold(holder, 10)
        for _ = 1, 10 do
            assert.equal("timeout", select(3, mine:acquire({ count = 2, timeout = 0.02 })))
        end
        assert(client:flush(10))
        assert.equal(1, #fixture.children(path .. "/leases"))
        assert.equal(0, #fixture.children(path .. "/locks"))
        semaphores.await_no_watches()
        assert.same({ 0, 0 }, { client:stats().entries, client:stats().watches })
        assert.is_true(holder:held())
    end)

    it("that is cancelled leaves no queue entry, no lease entry and no watch behind, at the head or behind it #asan", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 2)
        local head, head_client = fixture.semaphore(path, 2)
        local tail, tail_client = fixture.semaphore(path, 2)
        semaphores.hold(holder, 10)
        local codes = {}
        loop.run(function()
            codes[1] = select(3, head:acquire({ count = 2, timeout = 30 }))
        end, function()
            semaphores.until_line(path, 1)
            codes[2] = select(3, tail:acquire({ count = 2, timeout = 30 }))
        end, function()
            semaphores.until_line(path, 2)
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
            assert.is_true(tail:cancel())
            assert(tail_client:flush(10))
            assert.equal(1, #fixture.children(path .. "/locks"))
            assert.is_true(head:cancel())
        end)
        assert.same({ "cancelled", "cancelled" }, codes)
        assert(head_client:flush(10))
        assert.equal(1, #fixture.children(path .. "/leases"))
        assert.equal(0, #fixture.children(path .. "/locks"))
        semaphores.await_no_watches()
        assert.same({ 0, 0 }, { head_client:stats().watches, tail_client:stats().watches })
        assert(head:acquire(10))
    end)

    it("is answered when its client is closed during the wait, and leaves nothing behind", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 1)
        local mine, client = fixture.semaphore(path, 1)
        semaphores.hold(holder, 10)
        local code
        loop.run(function()
            code = select(3, mine:acquire(20))
        end, function()
            semaphores.until_line(path, 1)
            client:close()
        end)
        assert.equal("closed", code)
        semaphores.await_nodes(path, 1)
    end)

    it("survives the end of its session, at the head or behind it #asan", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 2)
        local waiters, functions, sessions = {}, {}, {}
        semaphores.hold(holder, { count = 2, timeout = 10 })
        for index = 1, 2 do
            local client
            waiters[index], client = fixture.semaphore(path, 2, nil, { session_timeout = 6 })
            functions[index] = function()
                semaphores.until_line(path, index - 1)
                assert(waiters[index]:acquire({ count = 2, timeout = 40 }))
                sessions[index] = client:stats().sessions
                assert(waiters[index]:release())
            end
        end
        functions[3] = function()
            semaphores.until_line(path, 2)
            local before = fixture.children(path .. "/locks")
            for _, name in ipairs(before) do
                fixture.kill_owner(path .. "/locks/" .. name)
            end
            loop.until_true(function()
                local now = fixture.children(path .. "/locks")
                return #now == 2 and now[1] ~= before[1] and now[1] ~= before[2] and now[2] ~= before[1] and now[2] ~= before[2]
            end)
            assert.is_true(hold_of(holder):held())
            assert(hold_of(holder):release())
        end
        loop.run_all(functions)
        assert.is_true(sessions[1] >= 2 and sessions[2] >= 2)
        semaphores.await_nodes(path, 0)
    end)

    it("joins again when an administrator deletes its queue entry #asan", function()
        local path = fixture.path()
        local holder, mine = fixture.semaphore(path, 1), fixture.semaphore(path, 1)
        semaphores.hold(holder, 10)
        loop.run(function()
            assert(mine:acquire(30))
        end, function()
            semaphores.until_line(path, 1)
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
            local node = only_child(path .. "/locks")
            assert(fixture.observer():delete(node))
            assert(hold_of(holder):release())
            loop.until_true(function()
                return hold_of(mine):held()
            end)
        end)
        semaphores.await_nodes(path, 1)
    end)

    it("behind others joins again when an administrator deletes its queue entry", function()
        local path = fixture.path()
        local holder, client = fixture.semaphore(path, 1)
        local ahead, mine = fixture.semaphore(path, 1), fixture.semaphore(path, 1, nil, { session_timeout = 8 })
        semaphores.hold(holder, 10)
        loop.run(function()
            assert(ahead:acquire(40))
            assert(ahead:release())
        end, function()
            semaphores.until_line(path, 1)
            assert(mine:acquire(40))
        end, function()
            semaphores.until_line(path, 2)
            local names = fixture.children(path .. "/locks")
            table.sort(names, function(a, b)
                return a:sub(-10) < b:sub(-10)
            end)
            assert(fixture.observer():delete(path .. "/locks/" .. names[2]))
            loop.until_true(function()
                local now = fixture.children(path .. "/locks")
                return #now == 2 and now[1] ~= names[2] and now[2] ~= names[2]
            end)
            assert(hold_of(holder):release())
        end)
        assert.is_true(hold_of(mine):held())
        assert(client:flush(10))
        semaphores.await_nodes(path, 1)
    end)

    it("creates its lease entries again when an administrator deletes one before the grant", function()
        local path = fixture.path()
        local foreign = { semaphores.take_lease(path), semaphores.take_lease(path) }
        local mine = fixture.semaphore(path, 2, nil, { session_timeout = 8 })
        loop.run(function()
            assert(mine:acquire({ count = 2, timeout = 40 }))
        end, function()
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
            for _, name in ipairs(fixture.children(path .. "/leases")) do
                local node = path .. "/leases/" .. name
                if node ~= foreign[1] and node ~= foreign[2] then
                    fixture.observer():delete(node)
                end
            end
            fixture.observer():delete(foreign[1])
            fixture.observer():delete(foreign[2])
        end)
        assert.is_true(hold_of(mine):held())
        semaphores.await_nodes(path, 2)
    end)

    it("is the only waiter that watches the permits if it is at the head of the queue #asan", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 1)
        semaphores.hold(holder, 10)
        local functions, most = {}, 0
        for index = 1, 3 do
            local mine = fixture.semaphore(path, 1)
            functions[index] = function()
                semaphores.until_line(path, index - 1)
                assert(mine:acquire(40))
                most = math.max(most, semaphores.child_watches())
                assert(mine:release())
            end
        end
        functions[4] = function()
            semaphores.until_line(path, 3)
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
            for _ = 1, 5 do
                assert.is_true(semaphores.child_watches() <= 1) -- none directly after the watch of the head has fired
            end
            assert(hold_of(holder):release())
        end
        loop.run_all(functions)
        assert.is_true(most <= 1, most)
        semaphores.await_no_watches()
    end)
end)

describe("requests of a semaphore", function()
    it("are five for each permit acquired and released, in one round trip each, if no client waits", function()
        local mine, client = fixture.semaphore(fixture.path(), 3, nil, { session_timeout = 30 })
        for _ = 1, 8 do -- until the client knows that there are no other contenders
            assert(mine:acquire(10))
            assert.is_true(mine:release())
        end
        assert(client:flush(10))
        eventually(function() -- until no second passes between a release and the next acquire
            local before = fixture.sent(client)
            assert(mine:acquire(10))
            assert(client:flush(10))
            local joining = fixture.sent(client) - before
            assert.is_true(mine:release())
            return joining == 4 and fixture.sent(client) - before == 5, joining
        end)
    end)

    it("go out without waiting for an answer", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local mine = client:semaphore(fixture.path(), 3)
        assert(mine:acquire(20))
        assert.is_true(mine:release())
        assert(client:flush(10))
        link:reset_counts()
        link:stall("down")
        loop.run(function()
            assert(mine:acquire(20))
        end, function()
            loop.until_true(function() -- its queue entry and its lease entry, and the lists of both
                local seen = link:counts()
                return (seen.create or 0) + (seen.create2 or 0) == 2 and
                    (seen.getChildren or 0) + (seen.getChildren2 or 0) == 2
            end)
            link:resume()
        end)
    end)

    it("write lease entries only at the head of the queue, after the semaphore had to wait once #asan", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 1, nil, { session_timeout = 30 })
        local mine, client = fixture.semaphore(path, 1, nil, { session_timeout = 30 })
        semaphores.hold(holder, 10)
        assert.equal("timeout", select(3, mine:try_acquire()))
        assert(client:flush(10))
        local before = assert(fixture.observer():exists(path .. "/leases"))
        loop.run(function()
            assert(mine:acquire(30))
        end, function()
            semaphores.until_line(path, 1)
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
            assert.same(before, (fixture.observer():exists(path .. "/leases")))
            assert(hold_of(holder):release())
        end)
        -- One node was deleted, one was created: nothing else happened to the permits.
        assert.equal(before.cversion + 2, fixture.observer():exists(path .. "/leases").cversion)
    end)

    it("of a refused try are no writes #asan", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 2)
        local mine, client = fixture.semaphore(path, 2, nil, { session_timeout = 30 })
        semaphores.hold(holder, { count = 2, timeout = 10 })
        assert(client:flush(10))
        local observer = fixture.observer()
        local leases, line = observer:exists(path .. "/leases"), observer:exists(path .. "/locks")
        for _ = 1, 5 do
            assert.equal("timeout", select(3, mine:try_acquire()))
            assert.equal("timeout", select(3, mine:try_acquire({ count = 2 })))
            assert.equal("timeout", select(3, mine:acquire(0)))
        end
        assert(client:flush(10))
        assert.same(leases, (observer:exists(path .. "/leases")))
        local line_now = observer:exists(path .. "/locks") -- nil if the server has reaped the empty container
        assert.same(line_now and line, line_now)
    end)

    it("of a try that is refused because of a queued waiter are no writes either", function()
        local path = fixture.path()
        local holder = fixture.semaphore(path, 2)
        semaphores.hold(holder, 10)
        fixture.join(path .. "/locks")
        local observer = fixture.observer()
        local leases, line = observer:exists(path .. "/leases"), observer:exists(path .. "/locks")
        assert.equal("timeout", select(3, fixture.semaphore(path, 2):try_acquire()))
        assert.same(leases, (observer:exists(path .. "/leases")))
        assert.same(line, (observer:exists(path .. "/locks")))
    end)
end)
