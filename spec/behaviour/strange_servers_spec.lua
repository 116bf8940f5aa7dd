--- Locks keep their promises with servers that throttle requests, hide nodes, or send newer packets.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

after_each(fixture.clean)

-- A server that is configured to throttle answers ZTHROTTLEDOP to a request that has waited for too long, and does not execute
-- it. If that happened to the create of a lock's directory, the acquire was answered with "failed".
--
-- This server executes one request at a time, and refuses those that have waited for 20 ms. Each round has twice as many locks as
-- the one before, until their requests wait for so long. On a slow machine few locks are enough; a single request is hardly ever
-- refused there, so that all locks get on. The limits only end a hang.
describe("when the server throttles requests, locks #once #real", function()
    it("of every kind are acquired and released all the same", function()
        local servers = fixture.remember(cluster.start({ java_options = {
            "-Dzookeeper.request_throttle_max_requests=1", "-Dzookeeper.throttled_op_wait_time=20"
        } }))
        if not servers:has "throttled_ops" then
            return pending("these servers throttle nothing")
        end
        local client = fixture.client({ wait = loop, session_timeout = 60 }, servers.servers)
        local locks, each = 0, 1
        repeat
            local functions = {}
            each = 2 * each
            assert.is_true(each <= 512, "this server throttles nothing")
            for _ = 1, each do
                for _, kind in ipairs(kinds) do
                    locks = locks + 1
                    local lock = kind.new(client, ("/throttled/%s/%d"):format(kind.name, locks))
                    functions[#functions + 1] = function()
                        assert(lock:acquire(600))
                        assert.is_true(lock:release())
                    end
                end
            end
            loop.run_all(functions, 900)
        until servers:mntr().zk_throttled_ops > 5
        assert(client:flush(600))
        assert.equal(0, client:stats().entries)
    end)
end)

-- This is how servers behave since 3.8.4 and 3.9.2 (ZOOKEEPER-2590). A node that its owner may not read can be held without a
-- lease only: the heartbeat's check has always required that permission. The proxy answers like these servers.
describe("where an exists request requires the permission to read the node", function()
    local NO_AUTH = -102
    local UNREADABLE = { { scheme = "world", id = "anyone", perms = "cwda" } }

    local function behind_new_server(options)
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30, lease = options.lease })
        link:deny("exists", NO_AUTH)
        return client, link
    end

    it("a client is connected although it may not read the root, and its lease is extended", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 4, connect_timeout = 0 })
        link:deny("exists", NO_AUTH)
        link:cut()
        fixture.pump_until(client, function()
            return client:state() == "connected"
        end)
        local heartbeats = client:stats().heartbeats
        fixture.pump_until(client, function()
            return client:stats().heartbeats > heartbeats + 6
        end)
        assert(client:mutex(fixture.path()):acquire(20))
        assert.equal("connected", (client:state()))
    end)

    for _, kind in ipairs(kinds) do
        it(("a %s is acquired, by one node, when the reply to its create is lost"):format(kind.name), function()
            local client, link = behind_new_server({ lease = false })
            local path = fixture.directory()
            local holders = kinds.holders(kind, path)
            for _, directory in ipairs(kind.directories) do
                fixture.observer():create_all(path .. directory)
            end
            local lock = kind.new(client, path, { acl = UNREADABLE })
            link:arm("create", "after")
            assert(lock:acquire(20))
            link:wait_fired()
            assert.is_true(lock:release())
            assert(lock:acquire(20))
            fixture.await_children(holders, 1)
            assert.is_true(lock:release())
            fixture.assert_nothing_left(client)
            assert.same({}, fixture.children(holders))
            assert.equal(1, client:stats().sessions)
        end)
    end

    it("an abandoned acquisition leaves nothing behind if its create's reply is lost", function()
        local client, link = behind_new_server({ lease = false })
        local lock = client:mutex(fixture.directory(), { acl = UNREADABLE })
        link:refuse()
        link:arm("create", "after")
        assert.is_nil((lock:acquire(0.3)))
        link:wait_fired()
        assert.equal(1, #fixture.children(lock:path()))
        link:accept()
        fixture.await_children(lock:path(), 0)
        fixture.assert_nothing_left(client)
    end)

    it("a lock whose owner may not read its node is lost, and the log names the missing permission", function()
        local lines = {}
        local client = fixture.client({ session_timeout = 4, log = function(_, line)
            lines[#lines + 1] = line
        end })
        local lock = client:mutex(fixture.directory(), { acl = UNREADABLE })
        assert(lock:acquire(20))
        fixture.pump_until(client, function()
            return not lock:held()
        end)
        assert.truthy(table.concat(lines, "\n"):find("the acl must let the client read its own node", 1, true))
    end)
end)

-- Since 3.9. The C client must not store these zxids as the last zxid it has seen: a server that lags would refuse it for ever.
describe("watch events that carry a zxid #real", function()
    it("pass a lock on, and the next reconnect succeeds", function()
        local lock, link, client = fixture.mutex_behind_proxy(fixture.path())
        link:stamp("4611686018427387904")
        local holder, held = fixture.join(lock:path()), nil
        loop.run(function()
            held = assert(lock:acquire(30))
        end, function()
            fixture.until_watched(holder)
            fixture.observer():delete(holder)
        end)
        assert.is_true(link:counts().notifications > 0)
        link:cut()
        fixture.pump_until(client, function()
            return client:stats().connections == 2 and client:state() == "connected"
        end)
        assert.is_true(held:held())
        assert.equal(1, client:stats().sessions)
    end)
end)
