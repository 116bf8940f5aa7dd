--- support.semaphores: the nodes of a semaphore, `path/locks` with its line and `path/leases` with the permits that are taken.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

local semaphores = {}

--- Whether so many permits are taken.
function semaphores.has_leases(path, count)
    return fixture.has(path .. "/leases", count)
end

--- Whether so many nodes stand in the line.
function semaphores.has_line(path, count)
    return fixture.has(path .. "/locks", count)
end

--- Within the loop: waits until so many nodes stand in the line.
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

--- Takes a permit as Curator's clients do, but out of turn; returns the node.
function semaphores.take_lease(path)
    fixture.observer():create_all(path .. "/leases")
    return assert(fixture.observer():create(path .. "/leases/_c_" .. fixture.UUID .. "-lease-", "foreigner",
        { ephemeral = true, sequential = true }))
end

--- Acquires, and waits until the lock's own node in the line is gone: a node that stands there then is another client's.
function semaphores.hold(lock, settings)
    assert(lock:acquire(settings))
    assert(lock._client:flush(10))
end

--- Waits until the server has no watch of any client; clients that have closed may take a moment.
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

--- How many clients watch who comes and goes in some directory: of all watches, the server lists those on data. It is asked
-- again if those have become more or fewer meanwhile.
function semaphores.child_watches()
    local before, all, after
    repeat
        before, all, after = data_watches(), assert(cluster.shared():watch_count()), data_watches()
    until before == after
    return all - after
end

return semaphores
