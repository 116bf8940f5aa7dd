--- Watches are few, none is left behind, and no packet with them is too large.

local hold_of = require "spec.support.hold_of"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local zk = require "spec.support.zk"

after_each(fixture.clean)

describe("watches", function()
    local servers

    setup(function()
        servers = cluster.start()
    end)

    teardown(function()
        servers:stop()
    end)

    it("do not stay on the server or in the client after timeouts, cancels, releases and grants #asan", function()
        local holder = fixture.client({ wait = loop }, servers.servers):mutex("/watched")
        local client = fixture.client({ wait = loop }, servers.servers)
        assert(holder:acquire(10))
        local lock = client:mutex("/watched")
        for _ = 1, 20 do
            fixture.assert_times_out(lock, 0.02)
        end
        loop.run(function()
            assert.equal("cancelled", select(3, lock:acquire(20)))
        end, function()
            loop.until_true(function()
                return servers:watch_count() > 0
            end)
            lock:cancel()
        end)
        assert(client:flush(10))
        eventually(function()
            return servers:watch_count() == 0, servers:watch_count()
        end)
        loop.run(function()
            assert(lock:acquire(20))
        end, function()
            loop.until_true(function()
                return servers:watch_count() > 0
            end)
            assert(hold_of(holder):release())
        end)
        assert.is_true(hold_of(lock):release())
        eventually(function()
            return servers:watch_count() == 0, servers:watch_count()
        end)
        assert.equal(0, client:stats().watches)
        assert.equal(0, client:stats().entries)
    end)

    -- An exists would set a watch for the node's creation, which never comes.
    it("do not stay on a node that was deleted before it could be watched", function()
        local observer = zk.connect(servers.servers)
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 }, servers.servers)
        local lock = client:mutex("/missed")
        observer:create("/missed")
        local holder = observer:create("/missed/_c_" .. fixture.UUID .. "-lock-", "", { sequential = true })
        link:arm("children", "stall-reply")
        loop.run(function()
            assert(lock:acquire(20))
        end, function()
            loop.until_true(function()
                return link:fired()
            end)
            observer:delete(holder)
            link:resume()
        end)
        observer:close()
        assert.equal(0, servers:watch_count())
        assert.equal(0, client:stats().watches)
        assert.equal(0, client:stats().notifications)
    end)

    it("are one for each waiter, on the nearest node before its own", function()
        local holder = fixture.client({ wait = loop }, servers.servers):mutex("/herd")
        local client = fixture.client({ wait = loop }, servers.servers)
        assert(holder:acquire(10))
        local functions = {}
        for index = 1, 5 do
            functions[index] = function()
                assert(client:mutex("/herd", { handoff = 0 }):with_lock(function() end, 30))
            end
        end
        functions[6] = function()
            loop.until_true(function()
                return #assert(holder:contenders(10)) == 6
            end)
            loop.until_true(function()
                return servers:watch_count() == 5 + 4 -- and for flags, but the first waiter needs none
            end)
            assert(hold_of(holder):release())
        end
        loop.run_all(functions)
        assert.is_true(client:stats().notifications <= 10, client:stats().notifications)
    end)
end)

describe("more waiters than watches fit into one packet", function()
    -- After a reconnect the C client sends all of its watches at once. A server closes the connection if they are more than a
    -- megabyte, and so it does with the next connection and all that follow.
    it("are all served, also when connection and session are lost in between #asan", function()
        local core = require "zklock.core"
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.path() .. "/" .. ("x"):rep(5000)
        local spec = assert(core.lock_spec { path = path, mode = "mutex", identity = "one of many", acl = "open" })
        local acquisitions = {}
        for index = 1, 300 do
            acquisitions[index] = fixture.ask(client, spec)
        end
        --- Waits until each entry with a node watches the node before its own. All but the first two watch for a flag too, but
        -- flags are not watched again after a reconnect. `flags`: waits for them, too.
        local function until_watched(flags)
            fixture.pump_until(client, function()
                local watches, nodes = client:stats().watches, #fixture.children(path) - 1
                return nodes > 100 and watches >= nodes + (flags and nodes - 1 or 0) and watches < 2 * nodes, watches
            end, 30)
        end
        --- Releases one acquisition after the other until `count` of them have had the lock.
        local function serve(count)
            local deadline, served = core.now() + 60, 0
            while served < count do
                assert.is_true(core.now() < deadline, ("only %d of them were served"):format(served))
                core.poll(client:pollfd(), 0.1)
                client:pump()
                for index = #acquisitions, 1, -1 do
                    if served < count and acquisitions[index]:phase() == "granted" then
                        served = served + 1
                        table.remove(acquisitions, index):cancel()
                    end
                end
            end
        end
        until_watched(true)
        table.remove(acquisitions, 200):cancel() -- this acquisition has no node yet
        link:cut()
        serve(100)
        until_watched()
        local holder
        eventually(function()
            for _, acquisition in ipairs(acquisitions) do
                holder = acquisition:phase() == "granted" and acquisition or holder
            end
            return holder
        end)
        fixture.kill_owner_behind(link, holder:node())
        eventually(function()
            local phase, stats = holder:phase(), client:stats()
            return phase == "lost", ("%s, %s, %d connections, %d sessions, %d losses"):format(phase, (client:state()),
                stats.connections, stats.sessions, stats.losses)
        end, 60)
        serve(#acquisitions - 1)
        assert.equal(2, client:stats().sessions)
    end)
end)

describe("more held locks than fit into one packet", function()
    -- The heartbeat names every node that is held. A server closes the connection at more than a megabyte, at each heartbeat.
    for title, lengths in pairs({ ["by their paths"] = { 1, 5000 }, ["by the chroot that is before each"] = { 5000, 1 } }) do
        it("are kept, over one connection, if this is caused " .. title, function()
            local core = require "zklock.core"
            local chroot = fixture.path() .. ("/" .. ("c"):rep(lengths[1]))
            fixture.observer():create_all(chroot)
            local client = fixture.client({ wait = loop, session_timeout = 20 }, fixture.servers() .. chroot)
            local acquisitions = {}
            for index = 1, 300 do
                local long = ("/%s%d"):format(("x"):rep(lengths[2]), index)
                local spec = assert(core.lock_spec { path = long, mode = "mutex", identity = "one of many", acl = "open" })
                acquisitions[index] = fixture.ask(client, spec)
            end
            fixture.pump_until_held(client, acquisitions)
            local before = client:stats().heartbeats
            fixture.pump_until(client, function()
                return client:stats().heartbeats > before + 60
            end, 60, "two heartbeats")
            fixture.pump_until_held(client, acquisitions)
            assert.equal(1, client:stats().connections)
            assert.equal(0, client:stats().losses)
            -- One by one: see docs/reliability.md about sessions that end with so many nodes.
            for _, acquisition in ipairs(acquisitions) do
                acquisition:cancel()
            end
            assert(client:flush(30))
        end)
    end
end)

describe("more holders with on_revoke than watches fit into one packet", function()
    -- Each holder watches its own node, and all watches are sent in one packet after a reconnect.
    it("keep their locks over a lost connection, and holders that no request can reach are logged", function()
        local core = require "zklock.core"
        local warnings = 0
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30, log = function(_, text)
            warnings = warnings + (text:find("too many locks are held to hear who asks", 1, true) and 1 or 0)
        end })
        local path = fixture.path() .. "/" .. ("x"):rep(5000)
        local acquisitions = {}
        for index = 1, 300 do
            local spec = assert(core.lock_spec {
                path = path .. index, mode = "mutex", identity = "one of many", acl = "open", revocable = true
            })
            acquisitions[index] = fixture.ask(client, spec)
        end
        fixture.pump_until_held(client, acquisitions)
        link:cut()
        fixture.pump_until(client, function()
            return client:stats().connections > 1 and client:state() == "connected"
        end)
        local heartbeats = client:stats().heartbeats
        fixture.pump_until(client, function()
            return client:stats().heartbeats > heartbeats + 60
        end, 60, "two heartbeats")
        fixture.pump_until_held(client, acquisitions)
        assert.equal(2, client:stats().connections)
        local watches = client:stats().watches
        assert.is_true(watches > 30 and watches < 50, watches)
        assert.is_true(warnings > 0)
        fixture.observer():set(acquisitions[1]:node(), core.REVOKE)
        fixture.pump_until(client, function()
            return acquisitions[1]:revocations() == 1
        end)
        for _, acquisition in ipairs(acquisitions) do
            acquisition:cancel()
        end
        assert(client:flush(30))
        assert.equal(0, client:stats().watches)
    end)
end)
