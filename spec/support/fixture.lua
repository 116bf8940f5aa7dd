--- support.fixture: helpers of most specs: clients that are closed afterwards, separate paths, and an independent client that
-- looks at the tree.

local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local is_virtual = require "spec.support.is_virtual"
local loop = require "spec.support.loop"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
local state = require "spec.support.state"
local zk = require "spec.support.zk"
local zklock = require "zklock"

local fixture = {}

--- The servers that specs share.
function fixture.servers()
    return cluster.shared().servers
end

--- Returns the first table with the fields of the second, which may be nil, added or replaced.
local function overlay(settings, options)
    for name, value in pairs(options or {}) do
        settings[name] = value
    end
    return settings
end

--- Makes fixture.clean call a function. The function registered last is called first.
function fixture.on_clean(fn)
    state.to_stop[#state.to_stop + 1] = fn
end

--- Creates a directory that fixture.clean removes, after it has stopped what was registered later. Returns its path.
function fixture.temporary_directory()
    local directory = files.make_directory()
    fixture.on_clean(function()
        cluster.run { "rm", "-rf", directory }
    end)
    return directory
end

--- Makes fixture.clean call thing:stop(). Returns the thing.
function fixture.remember(thing)
    fixture.on_clean(function()
        thing:stop()
    end)
    return thing
end

--- The session timeout unless a spec gives another: zklock's default in virtual time. On a real machine that is busy, a session of
-- that length may end.
local SESSION_TIMEOUT = not is_virtual and 20 or nil

--- Returns a client that fixture.clean closes. `servers`: the shared servers unless given.
function fixture.client(options, servers)
    local client = assert(zklock.connect(servers or fixture.servers(), overlay({
        connect_timeout = 60, session_timeout = SESSION_TIMEOUT
    }, options)))
    fixture.on_clean(function()
        client:close()
    end)
    return client
end

--- Returns such a client that waits in support.loop. `session_timeout`: SESSION_TIMEOUT unless given; `servers`: the shared ones.
function fixture.loop_client(options, session_timeout, servers)
    return fixture.client(overlay({ wait = loop, session_timeout = session_timeout }, options), servers)
end

--- Returns such a client with rare heartbeats, and with a session so long that no node is removed by its expiry.
function fixture.steady_client(options)
    return fixture.loop_client(options, 30)
end

--- Returns a mutex of a new client, which waits in support.loop, and the client.
function fixture.mutex(path, options, client_options)
    local client = fixture.loop_client(client_options)
    return client:mutex(path, options), client
end

--- Returns a read/write lock of a new client, and the client.
function fixture.rwlock(path, options, client_options)
    local client = fixture.loop_client(client_options)
    return client:rwlock(path, options), client
end

--- Returns a semaphore of a new client, and the client.
function fixture.semaphore(path, permits, options, client_options)
    local client = fixture.loop_client(client_options)
    return client:semaphore(path, permits, options), client
end

--- Starts a fault proxy in front of the shared servers, or of others.
function fixture.proxy(servers)
    return fixture.remember(proxy.start(servers or fixture.servers()))
end

--- Returns a client behind a new fault proxy, and the proxy.
function fixture.client_behind_proxy(options, servers)
    local link = fixture.proxy(servers)
    return fixture.client(options, link.address), link
end

--- Returns a mutex behind a new fault proxy, the proxy, and the client, which waits in support.loop. Unless given, the session is
-- so long that no node is removed by its expiry.
function fixture.mutex_behind_proxy(path, session_timeout, options)
    local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = session_timeout or 30 })
    return client:mutex(path, options), link, client
end

--- Returns a client behind a proxy, the proxy, and a function with which a spec interferes in the client's next wait. It takes a
-- function that is called once, where the client would wait. No answer comes before that call, and the client sees the effects
-- of the call at its next check.
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

--- Cuts a client's connection, and refuses others until link:accept(). Waits until the client has noticed.
function fixture.cut_off(client, link)
    link:refuse()
    link:cut()
    eventually(function()
        return client:state() ~= "connected"
    end)
end

--- Starts a program in spec/programs/, which fixture.clean ends.
function fixture.program(...)
    return fixture.remember(program.start(...))
end

--- Starts the program "worker" and waits until it is connected.
function fixture.worker(path, session_timeout)
    local worker = fixture.program("worker", fixture.servers(), path, session_timeout or 20)
    assert(worker:line() == "ready", "the worker did not come up")
    return worker
end

--- For after_each: ends all that the spec has started, last things first. If something fails to end, the rest is ended all the
-- same, and then all problems are raised as one error. In virtual time all garbage is collected once a file (virtual.helper): a
-- collection takes as long as a spec.
function fixture.clean()
    local problems = {}
    while state.to_stop[1] do
        local ok, problem = pcall(table.remove(state.to_stop))
        if not ok then
            problems[#problems + 1] = tostring(problem)
        end
    end
    if not is_virtual then
        collectgarbage()
        if state.observer then
            state.observer.owns = false -- the next spec does not use nodes of this one
        end
    end
    if problems[1] then
        error(table.concat(problems, "\n"), 0)
    end
end

--- Returns an independent client of the shared servers. Its session ends if it is not used for a minute. The next call then gets
-- a new one, or fails if a node that the spec has created is gone with the session.
function fixture.observer()
    state.observer = state.observer or assert(zk.connect(fixture.servers(), nil, true))
    return state.observer
end

--- Returns a new path that does not exist; its parent does. It sorts after the paths returned before.
function fixture.path()
    state.paths = state.paths + 1
    local parent = ("/zklock-spec-%d"):format(cluster.process_id())
    fixture.observer():create(parent)
    return ("%s/%05d"):format(parent, state.paths)
end

--- Returns a new path that exists.
function fixture.directory()
    local path = fixture.path()
    assert(fixture.observer():create(path))
    return path
end

--- Returns the names of a path's children; none if the path does not exist.
function fixture.children(path)
    return fixture.observer():children(path) or {}
end

--- Returns the full path of a path's first child that is not `node`; nil if there is none.
function fixture.other_child(path, node)
    for _, name in ipairs(fixture.children(path)) do
        if path .. "/" .. name ~= node then
            return path .. "/" .. name
        end
    end
end

--- Returns whether a path has so many children.
function fixture.has(path, count)
    return #fixture.children(path) == count
end

--- Waits until a path has so many children.
function fixture.await_children(path, count, timeout)
    eventually(function()
        local children = fixture.children(path)
        return #children == count, table.concat(children, " ")
    end, timeout or 60, ("%d nodes under %s"):format(count, path))
end

--- Returns the session that owns a path's first node, in hexadecimal digits.
function fixture.session_of(path)
    return assert(fixture.observer():exists(path .. "/" .. fixture.children(path)[1])).ephemeralOwner
end

--- Raises if the servers have ended a session by its timeout, and not because its client closed it.
function fixture.assert_not_expired(session)
    assert(not cluster.shared():log():find("Expiring session 0x" .. session:gsub("^0+", ""), 1, true), "the session expired")
end

--- Within support.loop: lets the other coroutines run until a path has so many children.
function fixture.until_children(path, count)
    loop.until_true(function()
        return fixture.has(path, count)
    end)
end

--- Within support.loop: lets the other coroutines run so many times.
function fixture.pass(turns)
    loop.until_true(function()
        turns = turns - 1
        return turns < 0
    end)
end

--- Runs a client's pump until a condition holds. `timeout` and `what` as for `eventually`.
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

--- Collects all garbage, also the garbage of finalizers.
function fixture.collect()
    collectgarbage()
    collectgarbage()
end

--- Returns how many requests a client has sent, without those that only keep its lease.
function fixture.sent(client)
    local stats = client:stats()
    return stats.requests - stats.heartbeats
end

--- Raises unless a client has no entry and no watch left. Waits for requests in flight first.
function fixture.assert_nothing_left(client)
    assert(client:flush(10))
    local stats = client:stats()
    assert(stats.entries == 0 and stats.watches == 0, ("%d entries, %d watches are left"):format(stats.entries, stats.watches))
end

--- Returns the results of a function once its third one is not "disconnected", the code of what a slow server has not answered in
-- time. In virtual time no server is slow: the first results are returned.
function fixture.answered(fn)
    local results
    eventually(function()
        results = compat.pack(fn())
        return is_virtual or results[3] ~= "disconnected", results[2]
    end)
    return compat.unpack(results, 1, results.n)
end

--- Raises unless an acquisition of a lock that others have ends when its time is up: after so many seconds (1).
function fixture.assert_times_out(lock, seconds)
    local _, _, code = fixture.answered(function()
        return lock:acquire(seconds or 1)
    end)
    assert(code == "timeout", code or "it was acquired")
end

--- The UUID in the names of foreign clients' nodes.
fixture.UUID = "01234567-89ab-cdef-0123-456789abcdef"

--- Asks for a lock by a lock spec, without a lock object. Returns the C acquisition.
function fixture.ask(client, spec)
    local hold = {}
    local granted, message = require("zklock.core").acquire(client:desk().core, spec, hold)
    assert(granted ~= nil, message)
    return hold._acquisition
end

--- Runs a client's pump until all of these C acquisitions are held. Raises if one of them has ended.
function fixture.pump_until_held(client, acquisitions)
    fixture.pump_until(client, function()
        for index, acquisition in ipairs(acquisitions) do
            local phase, _, message = acquisition:phase()
            assert(phase == "waiting" or phase == "granted", message)
            if not acquisition:held() then
                return nil, index
            end
        end
        return true
    end, 30, "all of them to be held")
end

--- Joins the queue of a path like a foreign client (with Curator's names unless a prefix is given). Returns the node.
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

--- Ends a session that owns a node, like an expiry. The owner may take its session back before it has ended: then the function
-- tries again.
local function kill(session, node)
    eventually(function()
        local _, problem = zk.kill_session(fixture.servers(), session)
        return select(2, fixture.observer():exists(node)) == "no_node", problem -- whatever the server answered
    end)
end

--- Does so for the owner of a node that the observer may read.
function fixture.kill_owner(node)
    kill(assert(fixture.observer():exists(node)).ephemeralOwner, node)
end

--- Does the same for a client behind a proxy, which cannot reconnect meanwhile. If it took its session back while the session ends,
-- it would have a connection on which the server answers nothing any more.
function fixture.kill_owner_behind(link, node)
    link:refuse()
    link:cut()
    kill(link:session().id, node)
    link:accept()
end

--- Returns whether a server holds a watch on the path or on anything below it.
function fixture.is_watched(path)
    return (cluster.shared():ask("wchp") or ""):find(path, 1, true) ~= nil
end

--- Waits until no server holds a watch there. A server removes the watches of a client some time after the client has ended.
function fixture.await_unwatched(path)
    eventually(function()
        return not fixture.is_watched(path)
    end)
end

--- Within support.loop: lets the other coroutines run until a server holds a watch there.
function fixture.until_watched(path)
    loop.until_true(function()
        return fixture.is_watched(path)
    end)
end

local function count_entries(directory)
    local listing = cluster.run({ "ls", ("/proc/%d/%s"):format(cluster.process_id(), directory) })
    return select(2, listing:gsub("%S+", ""))
end

--- Returns how many threads and file descriptors this process has.
function fixture.resources()
    return count_entries("task"), count_entries("fd")
end

return fixture
