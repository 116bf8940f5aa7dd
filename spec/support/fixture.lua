--- support.fixture: what most specs need: clients that are closed afterwards, paths of their own, and an independent
-- look at the tree.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local loop = require "spec.support.loop"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
local zk = require "spec.support.zk"
local zklock = require "zklock"

local fixture = {}

local to_stop = {}
local observer
local paths = 0

--- The servers that specs share.
function fixture.servers()
    return cluster.shared().servers
end

--- The first table with what the second, which may be nil, has to add or to change.
local function overlay(settings, options)
    for name, value in pairs(options or {}) do
        settings[name] = value
    end
    return settings
end

--- A client that fixture.clean closes. `servers`: the shared ones unless given.
function fixture.client(options, servers)
    local client = assert(zklock.connect(servers or fixture.servers(), overlay({ connect_timeout = 20 }, options)))
    to_stop[#to_stop + 1] = function()
        client:close()
    end
    return client
end

--- The same, of one that waits in support.loop. `session_timeout`: zklock's own unless given.
function fixture.loop_client(options, session_timeout)
    return fixture.client(overlay({ wait = loop, session_timeout = session_timeout }, options))
end

--- A fault proxy before the shared servers, or others, and a client behind it.
function fixture.client_behind_proxy(options, servers)
    local link = proxy.start(servers or fixture.servers())
    to_stop[#to_stop + 1] = function()
        link:stop()
    end
    return fixture.client(options, link.address), link
end

--- A client behind a proxy with whose next wait a spec can interfere: returns also a function that is given a function. No
-- answer comes until that one is called, once, where the client would wait; what happens in it happens before the client looks
-- again.
function fixture.client_to_interfere(options)
    local hook, link
    local client
    client, link = fixture.client_behind_proxy(overlay({ wait = { wake = loop.wake, wait = function(...)
        local fn = hook
        if fn then
            hook = nil
            link:resume()
            fn()
        end
        return loop.wait(...)
    end } }, options))
    return client, link, function(fn)
        assert(client:flush(10))
        hook = fn
        link:stall("down")
    end
end

--- Starts a program of spec/programs/ that fixture.clean ends.
function fixture.program(...)
    local running = program.start(...)
    to_stop[#to_stop + 1] = function()
        running:stop()
    end
    return running
end

--- Starts the program "worker" and waits until it is connected.
function fixture.worker(path, session_timeout)
    local worker = fixture.program("worker", fixture.servers(), path, session_timeout or 20)
    assert(worker:line() == "ready", "the worker did not come up")
    return worker
end

--- For after_each: ends what the spec began, last things first.
function fixture.clean()
    while to_stop[1] do
        table.remove(to_stop)()
    end
    collectgarbage()
end

--- An independent client of the shared servers.
function fixture.observer()
    observer = observer or assert(zk.connect(fixture.servers()))
    return observer
end

--- A path that nobody else uses and that does not exist; its parent does. It sorts behind those before it.
function fixture.path()
    paths = paths + 1
    local parent = ("/zklock-spec-%d"):format(cluster.process_id())
    fixture.observer():create(parent)
    return ("%s/%05d"):format(parent, paths)
end

--- A path like that which exists.
function fixture.directory()
    local path = fixture.path()
    assert(fixture.observer():create(path))
    return path
end

--- The names of a path's children; none if there is no such path.
function fixture.children(path)
    return fixture.observer():children(path) or {}
end

--- Whether so many nodes are under a path.
function fixture.has(path, count)
    return #fixture.children(path) == count
end

--- Waits until so many nodes are under a path.
function fixture.await_children(path, count, timeout)
    eventually(function()
        local children = fixture.children(path)
        return #children == count, table.concat(children, " ")
    end, timeout or 15, ("%d nodes under %s"):format(count, path))
end

--- Within support.loop: lets the others run until so many nodes are under a path.
function fixture.until_children(path, count)
    loop.until_true(function()
        return fixture.has(path, count)
    end)
end

--- What a client has sent, but for what only keeps its lease.
function fixture.sent(client)
    local stats = client:stats()
    return stats.requests - stats.heartbeats
end

--- Raises unless a client has nothing left: no node, no watch. Waits for what is still on its way.
function fixture.assert_nothing_left(client)
    assert(client:flush(10))
    local stats = client:stats()
    assert(stats.seats == 0 and stats.watches == 0, ("%d seats, %d watches are left"):format(stats.seats, stats.watches))
end

local UUID = "01234567-89ab-cdef-0123-456789abcdef"

--- Joins the queue of a path as a foreign client would (Curator's names unless a prefix is given); returns the node.
function fixture.join(path, prefix, identity)
    local name = prefix or "_c_" .. UUID .. "-lock-"
    local node, problem
    repeat -- an empty directory may be reaped in between
        fixture.observer():create_all(path)
        node, problem = fixture.observer():create(path .. "/" .. name, identity or "foreigner",
            { ephemeral = true, sequential = true })
    until problem ~= "no_node"
    return assert(node, problem)
end

--- Ends the session that owns a node, as an expiry would. The victim may snatch its session back from us before we have
-- ended it: then again.
function fixture.kill_owner(node)
    local stat = assert(fixture.observer():exists(node))
    eventually(function()
        local _, problem = zk.kill_session(fixture.servers(), stat.ephemeralOwner)
        return not fixture.observer():exists(node), problem -- whatever the server has answered
    end)
end

--- The same for a client behind a proxy, which cannot come back meanwhile: a session that is snatched back while it ends
-- leaves a connection on which the server answers nothing any more.
function fixture.kill_owner_behind(link, node)
    link:refuse()
    link:cut()
    fixture.kill_owner(node)
    link:accept()
end

--- Whether a server holds a watch on the path or anything below it.
function fixture.is_watched(path)
    return (cluster.shared():ask("wchp") or ""):find(path, 1, true) ~= nil
end

local function count_entries(directory)
    local listing = cluster.run({ "ls", ("/proc/%d/%s"):format(cluster.process_id(), directory) })
    return select(2, listing:gsub("%S+", ""))
end

--- How many threads and file descriptors this process has.
function fixture.resources()
    return count_entries("task"), count_entries("fd")
end

return fixture
