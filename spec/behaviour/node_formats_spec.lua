--- Nodes of other versions: those that 1.0.0 makes, written here as literals. A later version must honour such nodes, and must make
-- nodes that look like them, so that two versions can use one path (docs/upgrading.md). These texts stay as they are within a major
-- version.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local semaphores = require "spec.support.semaphores"

after_each(fixture.clean)

--- The beginning of a node's name, and what is the same in all names, as a pattern.
local OTHER = "_c_0b7f4a3e-91c2-4d5e-8f60-00000000002a"
local UUID = "%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x"
local NUMBER = ("%d"):rep(10)

--- Makes a node as 1.0.0 does, in a session of another client. Returns its path.
local function make(prefix, data)
    local observer = fixture.observer()
    observer:create_all(prefix:match "^(.*)/")
    return assert(observer:create(prefix, data or "old:1", { ephemeral = true, sequential = true }))
end

--- Acquires while an older client's node is there: the lock must wait, and be granted when the node is deleted. `until_waiting`:
-- returns when the lock watches for that; it watches the node unless given.
local function waits_for(node, lock, until_waiting)
    fixture.assert_times_out(lock, 0.5)
    loop.run(function()
        assert(lock:acquire(20))
    end, function()
        (until_waiting or fixture.until_watched)(node)
        assert.is_false(lock:held())
        assert(fixture.observer():delete(node))
    end)
    assert.is_true(hold_of(lock):held())
    assert.is_true(hold_of(lock):release())
end

describe("a node of 1.0.0", function()
    it("excludes a mutex, and names its holder", function()
        local path = fixture.path()
        local node = make(path .. "/" .. OTHER .. "-lock-")
        local lock = fixture.mutex(path)
        local first = assert(lock:contenders(10))[1]
        assert.same({ node, "old:1" }, { first.node, first.identity })
        waits_for(node, lock)
    end)

    it("excludes both halves of a read/write lock if it is a writer's, and the writer only if it is a reader's", function()
        local path = fixture.path()
        local rwlock = fixture.rwlock(path)
        waits_for(make(path .. "/" .. OTHER .. "-__WRIT__"), rwlock.write)
        waits_for(make(path .. "/" .. OTHER .. "-__WRIT__"), rwlock.read)
        local reader = make(path .. "/" .. OTHER .. "-__READ__")
        assert(rwlock.read:acquire(10))
        assert.is_true(rwlock.read:release())
        waits_for(reader, rwlock.write)
    end)

    it("takes a permit of a semaphore, and is served first in its queue", function()
        local path = fixture.path()
        local lease = make(path .. "/leases/" .. OTHER .. "-lease-")
        assert(fixture.observer():set(path .. "/leases", "1"))
        waits_for(lease, fixture.semaphore(path, 1), function()
            loop.until_true(function()
                return semaphores.child_watches() == 1
            end)
        end)
        waits_for(make(path .. "/locks/" .. OTHER .. "-lock-"), (fixture.semaphore(path, 1)))
        assert.equal("mismatch", select(3, fixture.semaphore(path, 2):acquire(10)))
    end)

    it("counts down a latch, and opens it", function()
        local path = fixture.path()
        local observer = fixture.observer()
        local gate = "gate-" .. OTHER:sub(4)
        assert(observer:create(path, "2/3 " .. gate))
        assert(observer:create(path .. "/" .. gate, ""))
        assert(observer:create(path .. "/c-" .. OTHER:sub(4), "old:1"))
        local latch = fixture.loop_client():latch(path, 3)
        assert.equal(2, latch:count(10))
        assert.is_true(latch:count_down(10))
        assert.equal("1/3 " .. gate, (observer:get(path)))
        loop.run(function()
            assert.is_true(latch:wait(20))
        end, function()
            fixture.until_watched(path .. "/" .. gate)
            assert(observer:set(path, "0/3 " .. gate))
            assert(observer:delete(path .. "/" .. gate))
        end)
    end)

    it("is asked to release by the data that 1.0.0 understands", function()
        local path = fixture.path()
        local node = make(path .. "/" .. OTHER .. "-lock-")
        assert.equal(1, (assert(fixture.mutex(path):revoke(10))))
        assert.equal("__REVOKE__", (fixture.observer():get(node)))
    end)
end)

describe("a node for 1.0.0", function()
    --- Returns the names below a path.
    local function names(path)
        return fixture.children(path)
    end

    --- Returns the only child of a path; it must look like 1.0.0's.
    local function only_child(path, pattern)
        local children = names(path)
        assert.equal(1, #children)
        assert.truthy(children[1]:find("^" .. pattern .. "$"), children[1])
        return children[1]
    end

    it("is that of a mutex, with the identity as data", function()
        local lock = fixture.mutex(fixture.path(), nil, { identity = "new:2" })
        assert(lock:acquire(10))
        local name = only_child(lock:path(), "_c_" .. UUID .. "%-lock%-" .. NUMBER)
        assert.equal("new:2", (fixture.observer():get(lock:path() .. "/" .. name)))
    end)

    it("is that of a writer, or of a reader with the number of the writer that it was", function()
        local path = fixture.path()
        local rwlock = fixture.rwlock(path)
        assert(rwlock.write:acquire(10))
        local writer = only_child(path, "_c_" .. UUID .. "%-__WRIT__" .. NUMBER)
        assert(rwlock.read:acquire(10))
        assert.is_true(rwlock.write:release())
        fixture.await_children(path, 1)
        local reader = only_child(path, "_c_" .. UUID .. "%-__READ__" .. NUMBER)
        assert.equal(writer:match "%d+$", reader:match "%d+$")
    end)

    it("is that of a semaphore's permit, with the number of permits above it", function()
        local path = fixture.path()
        assert(fixture.semaphore(path, 3):acquire(10))
        only_child(path .. "/leases", "_c_" .. UUID .. "%-lease%-" .. NUMBER)
        assert.equal("3", (fixture.observer():get(path .. "/leases")))
        assert.same({ "leases", "locks" }, names(path))
    end)

    it("is that of a latch", function()
        local path = fixture.path()
        assert.is_true(fixture.loop_client():latch(path, 2):count_down(10))
        local data = (fixture.observer():get(path))
        local gate = data:match("^1/2 (gate%-" .. UUID .. ")$")
        assert.truthy(gate, data)
        local children = names(path)
        assert.equal(2, #children)
        assert.truthy(children[1]:find("^c%-" .. UUID .. "$"), children[1])
        assert.equal(gate, children[2])
    end)

    it("has a token of two decimal numbers, of 19 and 10 digits", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.truthy(lock:token():find("^" .. ("%d"):rep(19) .. "%-" .. NUMBER .. "$"), lock:token())
    end)
end)
