--- zklock.testing: clients and servers in memory. These specs are about its own functions. tools/specs.sh testing runs the other
-- specs of behaviour with its clients.

local mistake = require "spec.support.mistake"
local testing = require "zklock.testing"

describe("a world of zklock.testing", function()
    local world, client, mutex

    before_each(function()
        world = testing.world()
        client = assert(world:connect { identity = "me" })
        mutex = client:mutex "/jobs/report"
    end)

    it("has clients that are zklock, without its C module", function()
        assert.equal(require("zklock").VERSION, world.zklock.VERSION)
        assert.not_equal(require("zklock").connect, world.zklock.connect)
        assert.equal("zklock client (testing:2181, connected)", tostring(client))
        local hold = assert(mutex:acquire(5))
        assert.equal("/jobs/report", hold:path())
        assert.equal("me", assert(mutex:contenders())[1].identity)
        assert.is_true(mutex:release())
    end)

    it("gives time only to waits, and to advance", function()
        assert.equal(0, world:now())
        world:take "/jobs/report"
        assert.equal("timeout", select(3, mutex:acquire(5)))
        assert.equal(5, world:now())
        world:advance(0.5)
        assert.equal(5.5, world:now())
    end)

    it("has a client that takes and gives back a lock", function()
        world:take("/jobs/report", "web2")
        assert.equal("timeout", select(3, mutex:try_acquire()))
        assert.equal("web2", assert(mutex:contenders())[1].identity)
        world:give "/jobs/report"
        assert(mutex:try_acquire())
        mistake(function() world:take "/jobs/report" end, "world:take: '/jobs/report' is taken: ")
        mistake(function() world:give "/jobs/report" end, "world:give: '/jobs/report' was not taken")
        world:take "/stock/locks"
        assert.equal("timeout", select(3, client:semaphore("/stock", 2):acquire(1)))
    end)

    it("has a lock lost while the program works, and calls on_lost", function()
        local told = {}
        local lock = client:mutex("/lost", { on_lost = function(_, reason)
            told[#told + 1] = reason
        end })
        local ok, message, code, result = lock:with_lock(function(hold)
            world:lose "/lost"
            assert.is_false(hold:held())
            assert.same({ "lost" }, told)
            return "half done"
        end)
        assert.same({ nil, "lost", "half done" }, { ok, code, result })
        assert.truthy(message:find("'/lost' is lost: somebody deleted its node '/lost/", 1, true), message)
        mistake(function() world:lose "/lost" end, "world:lose: no client of the program holds '/lost'")
    end)

    it("ends a hold when max_hold is over, and an acquisition when its time is up", function()
        local told
        local lock = client:mutex("/short", { max_hold = 60, on_lost = function(_, reason)
            told = reason
        end })
        assert(lock:acquire())
        world:advance(59)
        assert.is_true(lock:held())
        world:advance(1)
        assert.is_false(lock:held())
        assert.equal("max_hold", told)
    end)

    it("loses a connection: locks last for half of the session timeout, nodes for the whole of it", function()
        local other = assert(world:connect { identity = "other" })
        assert(mutex:acquire())
        world:disconnect(client)
        assert.equal("suspended", (client:state()))
        world:advance(4)
        assert.is_true(mutex:held())
        assert.equal(1, mutex:remaining())
        world:advance(1)
        assert.is_false(mutex:held())
        assert.equal("timeout", select(3, other:mutex("/jobs/report"):acquire(4)))
        assert(other:mutex("/jobs/report"):acquire(2))
        world:reconnect(client)
        assert.equal("connected", (client:state()))
        assert.equal("lost", select(3, mutex:release()))
        assert.equal("timeout", select(3, mutex:try_acquire()))
    end)

    it("has a client that takes a lock also while the program has no connection", function()
        world:disconnect()
        world:delay(1)
        world:take "/jobs/report"
        world:reconnect()
        assert.equal("timeout", select(3, mutex:acquire(5)))
    end)

    it("keeps locks over a short interruption", function()
        assert(mutex:acquire())
        world:disconnect()
        assert.equal("disconnected", select(3, client:mutex("/other"):acquire(1)))
        world:reconnect()
        assert.is_true(mutex:held())
        assert.equal(5, mutex:remaining())
        assert.is_true(mutex:release())
        world:take "/jobs/report"
    end)

    it("gives no connection to clients that are opened while it is lost", function()
        world:disconnect()
        assert.same({ nil, "disconnected" }, { (world:connect()), (select(3, world:connect())) })
        world:reconnect()
        assert(world:connect())
    end)

    it("has servers that hang, which the client notices after two thirds of the session timeout", function()
        world:hang()
        assert.equal("disconnected", select(3, mutex:acquire(2)))
        assert.equal("connected", (client:state()))
        world:advance(5)
        assert.equal("suspended", (client:state()))
        world:reconnect()
        assert(mutex:acquire(2))
    end)

    it("has servers that take their time", function()
        world:delay(0.5)
        assert(mutex:acquire())
        assert.equal(0.5, world:now())
        assert.is_true(mutex:release { wait = false })
        assert.equal(0.5, world:now())
        assert(client:flush())
        assert.equal(1, world:now())
        world:delay(30, client)
        assert.equal("disconnected", select(3, mutex:acquire(1)))
    end)

    it("has the servers end a session", function()
        local states = {}
        client:on("state", function(state, _, code)
            states[#states + 1] = { state, code }
        end)
        client:pump()
        states = {}
        assert(mutex:acquire())
        local hold = assert(client:create("/alive", "", { ephemeral = true }))
        world:expire(client)
        assert.is_false(mutex:held())
        assert.same({ { "connecting", "lost" }, { "connected" } }, states)
        assert.is_false((client:exists(hold)))
        world:take "/jobs/report"
    end)

    it("runs functions that wait for each other, in the order of the queue", function()
        local order = {}
        local function contender(name)
            return function()
                assert(mutex:acquire(10))
                world:advance(1)
                order[#order + 1] = name .. world:now()
                assert(mutex:release())
            end
        end
        world:run(contender "a", contender "b", contender "c")
        assert.equal("a1 b2 c3", table.concat(order, " "))
        local told = false
        world:run(function()
            assert(client:mutex("/lost", { on_lost = function() told = true end }):acquire())
            world:lose "/lost"
            assert.is_true(told)
        end)
        assert.is_true(not pcall(world.run, world, function() error "raised" end))
    end)

    it("raises an error instead of a wait that nothing can end", function()
        world:take "/jobs/report"
        local ok, problem = pcall(mutex.acquire, mutex)
        assert.is_false(ok)
        assert.truthy(problem:find("this would wait for ever", 1, true), problem)
        world:give "/jobs/report"
        assert(mutex:acquire())
        ok, problem = pcall(world.run, world, function() client:mutex("/jobs/report"):acquire() end)
        assert.is_false(ok)
        assert.truthy(problem:find("this would wait for ever", 1, true), problem)
    end)

    it("elects a leader, opens a latch, counts permits, locks several paths, and reads and writes nodes", function()
        local elected = 0
        local leader = assert(client:leader("/leader", { on_elected = function() elected = elected + 1 end }))
        world:advance()
        assert.is_true(leader:is_leader())
        world:expire(client)
        assert.equal(2, elected)
        local latch = client:latch("/latch", 1)
        world:run(function() assert.is_true(latch:wait(5)) end, function() assert.is_true(latch:count_down(5)) end)
        local semaphore = client:semaphore("/permits", 3)
        assert(semaphore:acquire { count = 2 })
        assert.equal(1, semaphore:available())
        local multi = client:multi { client:mutex "/a", client:rwlock("/b").read }
        assert(multi:with_lock(function() return true end))
        local _, _, watch = client:get("/", { watch = true })
        assert.is_nil(watch:fired())
        assert(mutex:acquire())
        assert(mutex:transaction():create("/made", "data"):commit())
        assert.equal("data", (client:get "/made"))
    end)

    it("tells the permits of a client's acquisitions apart", function()
        local semaphore = client:semaphore("/jobs/slots", 2)
        local other = client:semaphore("/jobs/slots", 2)
        assert(semaphore:acquire(5))
        assert(other:acquire(5))
        local waits = client:semaphore("/jobs/slots", 2)
        waits:acquire { timeout = 5, callback = function() end }
        world:advance(1)
        assert.is_true(semaphore:resize(1))
        assert.equal(0, semaphore:available())
    end)

    it("bears a transaction that changes and deletes a holder's node", function()
        local hold = assert(mutex:acquire(5))
        assert(client:transaction():set(hold:node(), "x"):delete(hold:node()):commit())
        world:advance(1)
        assert.is_false(hold:held())
    end)

    it("refuses what cannot be meant", function()
        mistake(function() world:advance(-1) end, "world:advance: seconds must be a number, 0 or more (got -1)")
        mistake(function() world:delay() end, "world:delay: seconds must be a number, 0 or more (got nil)")
        mistake(function() world:expire(mutex) end, "world:expire: the client must be an open one of this world (got zklock mutex")
        mistake(function() world.advance(1) end, "world:advance: ")
        client:close()
        mistake(function() world:hang(client) end, "world:hang: the client must be an open one of this world (got zklock client")
    end)

    it("has nothing in common with other worlds", function()
        assert(mutex:acquire())
        local other = testing.world()
        assert(assert(other:connect()):mutex("/jobs/report"):try_acquire())
        assert.equal(0, other:now())
    end)

    it("gives its clients to a program that opens them itself, until undo", function()
        local before = package.loaded["zklock.client"]
        local real = require "zklock"
        local connect = real.connect
        local undo = world:install()
        local zklock = require "zklock"
        assert.equal(world.zklock, zklock)
        assert.equal(zklock.connect, real.connect)
        local shared = assert(zklock.shared "zk1:2181")
        assert(shared:mutex("/jobs/report"):acquire(5))
        assert.equal("timeout", select(3, mutex:try_acquire()))
        assert.equal(1, require("zklock.inspect").lock(shared, "/jobs/report").holders)
        assert(zklock.connect())
        undo()
        assert.equal(connect, real.connect)
        assert.equal(before, package.loaded["zklock.client"])
        assert.equal(real, require "zklock")
    end)
end)
