--- A mutex while the servers disagree. A follower that is cut off from its leader still serves its clients, while the leader gives
-- their locks to other clients. And a create is executed long after its connection was lost.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local proxy = require "spec.support.proxy"

describe("a mutex held through a follower that is cut off from its leader #once", function()
    local servers, leader, follower, link

    setup(function()
        -- The follower waits for its leader for 30 s: it serves its client until the leader has ended the session.
        servers = cluster.start({ servers = 3, options = { syncLimit = 60 } })
        leader = servers:leader()
        follower = leader % 3 + 1
        link = proxy.between(servers, follower, leader)
        assert(servers:leader() == leader, "there is another leader")
    end)

    teardown(function()
        fixture.clean()
        link:stop()
        servers:stop()
    end)

    it("is not held any more when another client gets it", function()
        local told
        local inside = fixture.client({ wait = loop, session_timeout = 20 }, servers:address(follower))
        local outside = fixture.client({ wait = loop, session_timeout = 60 }, servers:address(leader))
        local cut_off = inside:mutex("/partition/lock", { on_lost = function(_, reason) told = reason end })
        local other = outside:mutex("/partition/lock")
        local held = assert(cut_off:acquire(20))
        local token = held:token()
        link:stall()
        assert.is_true(held:held())
        local granted
        loop.run(function()
            local got = assert(other:acquire(60))
            assert.is_false(held:held())
            granted = got
        end, function()
            loop.until_true(function()
                inside:pump()
                assert.is_false(held:held() and hold_of(other):held())
                return granted
            end, 60)
        end)
        loop.until_true(function()
            inside:pump()
            return told
        end)
        assert.is_true(granted:token() > token)
        assert.same({ "lost" }, { select(3, held:release()) })
        assert.is_true(granted:release())
    end)
end)

-- The leader has proposed the create, but a majority has not acknowledged it yet. The client connects to another follower, whose
-- list does not show the node. A client that trusted this list would create a second node behind its own first one, for ever.
describe("a mutex whose create surfaces after its client has connected to another server #once", function()
    local servers, leader, near, far

    setup(function()
        servers = cluster.start({ servers = 4, options = { syncLimit = 60 } })
        leader = servers:leader()
        local others = {}
        for number = 1, 4 do
            if number ~= leader then
                others[#others + 1] = number
            end
        end
        near = others[1]
        far = { proxy.between(servers, others[2], leader), proxy.between(servers, others[3], leader) }
        assert(servers:leader() == leader, "there is another leader")
    end)

    teardown(function()
        fixture.clean()
        for _, link in ipairs(far) do
            link:stop()
        end
        servers:stop()
    end)

    it("has only that node", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 }, servers:address(leader))
        local lock = client:mutex("/late")
        assert(lock:acquire(20))
        local first = tonumber(lock:node():match("%d+$"))
        assert.is_true(lock:release())
        for _, follower in ipairs(far) do
            follower:stall("up")
        end
        local held
        loop.run(function()
            held = assert(lock:acquire(50))
        end, function()
            loop.until_true(function()
                return tonumber((servers:ask("srvr", leader) or ""):match("Outstanding: (%d+)")) > 0
            end)
            link:target(servers:address(near))
            link:reset_counts()
            link:cut()
            loop.until_true(function()
                return link:counts().getChildren > 0
            end)
            for _, follower in ipairs(far) do
                follower:resume()
            end
        end)
        assert.equal(first + 1, tonumber(held:node():match("%d+$")))
        assert.equal(1, #assert(lock:contenders(10)))
        assert.is_true(held:release())
    end)
end)
