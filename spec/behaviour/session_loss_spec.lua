--- A mutex keeps its promises when its session ends. Heartbeats keep its lease.

local hold_of = require "spec.support.hold_of"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local loop = require "spec.support.loop"
local zk = require "spec.support.zk"

after_each(fixture.clean)

describe("when its session is killed, a mutex", function()
    it("is lost, calls on_lost once, and can be acquired in the next session #valgrind #asan", function()
        local told = 0
        local client = fixture.client({ session_timeout = 10 })
        local lock = client:mutex(fixture.path(), { on_lost = function()
            told = told + 1
        end })
        assert(lock:acquire(20))
        local token = lock:token()
        fixture.kill_owner(lock:node())
        fixture.pump_until(client, function()
            return told > 0
        end)
        assert.is_false(lock:held())
        assert.equal("lost", select(3, lock:release()))
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(20))
        assert.is_true(lock:token() > token)
        assert.equal(2, client:stats().sessions)
        client:pump()
        assert.equal(1, told)
    end)

    it("joins again at the tail if it was waiting #asan", function()
        local client = fixture.client({ wait = loop, session_timeout = 10 })
        local lock = client:mutex(fixture.path())
        local holder = fixture.join(lock:path())
        local later
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_children(lock:path(), 2)
            local first = fixture.other_child(lock:path(), holder)
            later = fixture.join(lock:path())
            fixture.kill_owner(first)
            loop.until_true(function()
                return fixture.has(lock:path(), 3) and not fixture.observer():exists(first)
            end)
            fixture.observer():delete(holder)
            fixture.until_watched(later)
            assert.equal("zklock mutex (" .. lock:path() .. ", being acquired)", tostring(lock))
            fixture.observer():delete(later)
        end)
        assert.is_true(hold_of(lock):held())
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("holds one node, or knows that it does not, if the session ends between create and list", function()
        local lock, link, client = fixture.mutex_behind_proxy(fixture.directory(), 10)
        local held
        link:arm("children", "stall-reply")
        loop.run(function()
            local message, code
            held, message, code = lock:acquire(30)
            assert(held or code == "lost", message) -- lost before the waiter was granted
        end, function()
            fixture.until_children(lock:path(), 1)
            loop.until_true(function()
                return link:fired()
            end)
            fixture.kill_owner(fixture.other_child(lock:path()))
            link:resume()
        end)
        fixture.pump_until(client, function()
            return client:stats().sessions == 2
        end)
        if not (held and held:held()) then
            held = assert(lock:acquire(20))
        end
        assert.same({ held:node() }, { fixture.other_child(lock:path()) })
        assert.equal(1, #fixture.children(lock:path()))
    end)
end)

describe("when its server is restarted, a mutex", function()
    --- Seconds: half of it, a lease, is longer than a restart on a busy machine.
    local SESSION = is_virtual and 40 or 400
    local servers

    setup(function()
        servers = cluster.start(not is_virtual and { options = { maxSessionTimeout = SESSION * 1000 } } or nil)
    end)

    teardown(function()
        servers:stop()
    end)

    it("stays held, keeps waiting, and both finish", function()
        local holder = fixture.client({ wait = loop, session_timeout = SESSION }, servers.servers):mutex("/restart")
        local waiter = fixture.client({ wait = loop, session_timeout = SESSION }, servers.servers):mutex("/restart")
        local waited
        loop.run(function()
            assert(holder:acquire(20))
            loop.until_true(function()
                return (servers:ask("wchp") or ""):find("/restart", 1, true)
            end)
            servers:restart()
            assert.is_true(holder:held())
            assert.is_nil(waited)
            assert.is_true(holder:release())
        end, function()
            loop.until_true(function()
                return hold_of(holder):held()
            end)
            waited = assert(waiter:acquire(50))
        end)
        assert.is_true(waited:held())
        assert.is_true(waited:release())
        assert.same({}, waiter:contenders(10))
    end)
end)

describe("a lease", function()
    --- Returns the last transaction id of an ensemble's only server.
    local function last_transaction(servers)
        return tonumber(assert(servers:ask("srvr")):match("Zxid: 0x(%x+)"), 16)
    end

    it("is kept by transactions that change nothing and wake no client", function()
        local servers = cluster.start()
        local observer = zk.connect(servers.servers)
        local lock = fixture.client({ wait = loop, session_timeout = 8 }, servers.servers):mutex("/beaten")
        local waiting = fixture.client({ wait = loop, session_timeout = 8 }, servers.servers)
        local held = assert(lock:acquire(20))
        local waiter = waiting:mutex("/beaten")
        loop.run(function()
            assert.equal("cancelled", select(3, waiter:acquire(30)))
        end, function()
            loop.until_true(function()
                return servers:watch_count() == 1
            end)
            local before, transactions = observer:exists(held:node()), last_transaction(servers)
            local heartbeats = lock._client:stats().heartbeats
            loop.until_true(function()
                return lock._client:stats().heartbeats >= heartbeats + 4 -- every second heartbeat is an exists of the node
            end)
            -- The last heartbeat may be on its way.
            assert.is_true(last_transaction(servers) >= transactions + 1)
            assert.is_true(held:held())
            assert.same(before, observer:exists(held:node()))
            assert.equal(0, waiting:stats().notifications)
            assert.equal(1, servers:watch_count())
            waiter:cancel()
        end)
        observer:close()
        servers:stop()
    end)

    it("is shortened when a reconnect negotiates a shorter session #real", function()
        local servers = cluster.start({ options = { maxSessionTimeout = 10000 } })
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 10 }, servers.servers)
        local lock = client:mutex("/shortened")
        assert(lock:acquire(20))
        assert.equal(10, client:session_timeout())
        local name = servers.directory .. "/1/zoo.cfg"
        files.write(name, (files.read(name):gsub("maxSessionTimeout=%d+", "maxSessionTimeout=1000")))
        servers:restart(1)
        eventually(function()
            return client:session_timeout() == 1
        end)
        assert.is_true(lock:remaining() <= 0.9)
        link:stop()
        servers:stop()
    end)

    it("does not count what the follower received late as received early", function()
        local core = require "zklock.core"
        local timeout = 10
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = timeout })
        local lock = client:mutex(fixture.path())
        assert(client:exists("/"))
        link:stall("up")
        local stalled = core.now()
        eventually(function()
            return core.now() > stalled + 0.6 * timeout
        end)
        local spec = assert(core.lock_spec { path = lock:path(), mode = "mutex", identity = "late", acl = "open" })
        local acquisition = fixture.ask(client, spec)
        link:resume()
        local resumed = core.now()
        eventually(function()
            return acquisition:phase() ~= "waiting"
        end)
        -- The last request that was answered before the stall is the latest request that certainly restarted the session's timer.
        -- This ends when requests that were sent later have been answered, 3T/10 apart, or with a new connection.
        local proven_anew = core.now() >= resumed + 0.3 * timeout or client:stats().connections > 1
        -- The bound is computed first. So it holds however slow the machine is.
        local bound = stalled + 0.9 * timeout - core.now()
        local remaining = acquisition:remaining()
        assert.is_true(proven_anew or remaining <= bound + 0.05, ("%g is more than %g"):format(remaining, bound))
        assert.is_false(proven_anew and is_virtual)
    end)
end)
