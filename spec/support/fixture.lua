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

--- The state of one spec file: busted loads all modules anew for each file.
local state = {
    to_stop = {}, -- functions that fixture.clean calls, the last one first
    observer = nil, -- the independent client, once it is asked for
    paths = 0 -- how many paths have been given out
}

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

--- Has fixture.clean call a function; the ones given last are called first.
function fixture.on_clean(fn)
    state.to_stop[#state.to_stop + 1] = fn
end

--- A client that fixture.clean closes. `servers`: the shared ones unless given.
function fixture.client(options, servers)
    local client = assert(zklock.connect(servers or fixture.servers(), overlay({ connect_timeout = 20 }, options)))
    fixture.on_clean(function()
        client:close()
    end)
    return client
end

--- Returns such a client that waits in support.loop. `session_timeout`: zklock's default unless given; `servers`: the shared ones.
function fixture.loop_client(options, session_timeout, servers)
    return fixture.client(overlay({ wait = loop, session_timeout = session_timeout }, options), servers)
end

--- The same, of one whose heartbeats are rare, and whose session is so long that no node goes by its expiry.
function fixture.steady_client(options)
    return fixture.loop_client(options, 30)
end

--- A mutex of a client of its own, which waits in support.loop, and the client.
function fixture.mutex(path, options, client_options)
    local client = fixture.loop_client(client_options)
    return client:mutex(path, options), client
end

--- The same with a read/write lock.
function fixture.rwlock(path, options, client_options)
    local client = fixture.loop_client(client_options)
    return client:rwlock(path, options), client
end

--- The same with a semaphore.
function fixture.semaphore(path, permits, options, client_options)
    local client = fixture.loop_client(client_options)
    return client:semaphore(path, permits, options), client
end

--- A fault proxy before the shared servers, or others.
function fixture.proxy(servers)
    local link = proxy.start(servers or fixture.servers())
    fixture.on_clean(function()
        link:stop()
    end)
    return link
end

--- The same, and a client behind it.
function fixture.client_behind_proxy(options, servers)
    local link = fixture.proxy(servers)
    return fixture.client(options, link.address), link
end

--- A mutex behind a fault proxy of its own, that proxy and the client, which waits in support.loop. The session is so long, unless
-- given, that no node goes by its expiry.
function fixture.mutex_behind_proxy(path, session_timeout, options)
    local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = session_timeout or 30 })
    return client:mutex(path, options), link, client
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

--- Cuts a client's connection, and lets it have no other until link:accept(); waits until the client knows.
function fixture.cut_off(client, link)
    link:refuse()
    link:cut()
    eventually(function()
        return client:state() ~= "connected"
    end)
end

--- Starts a program of spec/programs/ that fixture.clean ends.
function fixture.program(...)
    local running = program.start(...)
    fixture.on_clean(function()
        running:stop()
    end)
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
    while state.to_stop[1] do
        table.remove(state.to_stop)()
    end
    collectgarbage()
end

--- An independent client of the shared servers.
function fixture.observer()
    state.observer = state.observer or assert(zk.connect(fixture.servers()))
    return state.observer
end

--- A path that nobody else uses and that does not exist; its parent does. It sorts behind those before it.
function fixture.path()
    state.paths = state.paths + 1
    local parent = ("/zklock-spec-%d"):format(cluster.process_id())
    fixture.observer():create(parent)
    return ("%s/%05d"):format(parent, state.paths)
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

--- The first child of a path that is not `node`, as a full path; nil if there is none.
function fixture.other_child(path, node)
    for _, name in ipairs(fixture.children(path)) do
        if path .. "/" .. name ~= node then
            return path .. "/" .. name
        end
    end
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
    end, timeout or 60, ("%d nodes under %s"):format(count, path))
end

--- The session that owns a path's first node, in hexadecimal digits.
function fixture.session_of(path)
    return assert(fixture.observer():exists(path .. "/" .. fixture.children(path)[1])).ephemeralOwner
end

--- Raises if the servers have ended a session by its timeout, and not because it was closed.
function fixture.assert_not_expired(session)
    assert(not cluster.shared():log():find("Expiring session 0x" .. session:gsub("^0+", ""), 1, true), "the session expired")
end

--- Within support.loop: lets the others run until so many nodes are under a path.
function fixture.until_children(path, count)
    loop.until_true(function()
        return fixture.has(path, count)
    end)
end

--- Within support.loop: lets the others run so many times.
function fixture.pass(turns)
    loop.until_true(function()
        turns = turns - 1
        return turns < 0
    end)
end

--- Runs a client's pump until a condition holds; `timeout` and `what` are those of `eventually`.
function fixture.pump_until(client, condition, timeout, what)
    return eventually(function()
        client:pump()
        return condition()
    end, timeout, what)
end

--- Waits, without running any pump, until a lock is not held.
function fixture.await_not_held(lock)
    eventually(function()
        return not lock:held()
    end)
end

--- Collects all garbage, that of finalizers as well.
function fixture.collect()
    collectgarbage()
    collectgarbage()
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

--- The UUID in the names of foreign clients' nodes.
fixture.UUID = "01234567-89ab-cdef-0123-456789abcdef"

--- Joins the queue of a path as a foreign client would (Curator's names unless a prefix is given); returns the node.
function fixture.join(path, prefix, identity)
    local name = prefix or "_c_" .. fixture.UUID .. "-lock-"
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

--- Within support.loop: lets the others run until a server holds a watch there.
function fixture.until_watched(path)
    loop.until_true(function()
        return fixture.is_watched(path)
    end)
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
