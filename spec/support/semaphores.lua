--- support.semaphores: the nodes of a semaphore: `path/locks` with its queue entries and `path/leases` with its lease entries.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

local semaphores = {}

--- Returns whether so many permits are taken.
function semaphores.has_leases(path, count)
    return fixture.has(path .. "/leases", count)
end

--- Returns whether the queue has so many nodes.
function semaphores.has_line(path, count)
    return fixture.has(path .. "/locks", count)
end

--- Within the loop: waits until the queue has so many nodes.
function semaphores.until_line(path, count)
    loop.until_true(function()
        return semaphores.has_line(path, count)
    end)
end

--- Within the loop: waits until so many permits are taken.
function semaphores.until_leases(path, count)
    loop.until_true(function()
        return semaphores.has_leases(path, count)
    end)
end

--- Waits until the semaphore's directories have so many nodes.
function semaphores.await_nodes(path, leases, line)
    fixture.await_children(path .. "/leases", leases)
    fixture.await_children(path .. "/locks", line or 0)
end

--- Takes a permit like Curator's clients, but without queueing. Returns the node.
function semaphores.take_lease(path)
    fixture.observer():create_all(path .. "/leases")
    return assert(fixture.observer():create(path .. "/leases/_c_" .. fixture.UUID .. "-lease-", "foreigner",
        { ephemeral = true, sequential = true }))
end

--- Acquires, and waits until the lock's own queue entry is gone, so that nodes in the queue are other clients'.
function semaphores.hold(lock, settings)
    assert(lock:acquire(settings))
    assert(lock._client:flush(10))
end

--- Waits until the server has no watch of any client; clients that were closed may need a moment.
function semaphores.await_no_watches()
    eventually(function()
        local count = cluster.shared():watch_count()
        return count == 0, count
    end, 10, "no watch on the server")
end

local function data_watches()
    local _, count = assert(cluster.shared():ask("wchp")):gsub("\t0x%x+", "")
    return count
end

--- Returns how many clients watch the children of some directory. The server lists only the watches on data, so their number is
-- subtracted from the number of all watches. If it has changed meanwhile, the server is asked again.
function semaphores.child_watches()
    local before, all, after
    repeat
        before, all, after = data_watches(), assert(cluster.shared():watch_count()), data_watches()
    until before == after
    return all - after
end

return semaphores
