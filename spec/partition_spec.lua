--- What a mutex promises when the servers do not agree any more: a follower that is cut off from its leader goes on serving
-- its clients, while the leader gives their locks to others.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local proxy = require "spec.support.proxy"

describe("a mutex held through a follower that is cut off from its leader #once", function()
    local servers, leader, follower, link

    setup(function()
        servers = cluster.start({ servers = 3 })
        leader = servers:leader()
        follower = leader % 3 + 1
        link = proxy.between(servers, follower, leader)
        leader = servers:leader()
    end)

    teardown(function()
        fixture.clean()
        link:stop()
        servers:stop()
    end)

    it("is not held any more when another client gets it", function()
        local told
        local inside = fixture.client({ wait = loop, session_timeout = 4 }, servers:address(follower))
        local outside = fixture.client({ wait = loop, session_timeout = 4 }, servers:address(leader))
        local cut_off = inside:mutex("/partition/lock", { on_lost = function(_, reason) told = reason end })
        local other = outside:mutex("/partition/lock")
        assert(cut_off:acquire(20))
        local token = cut_off:token()
        link:stall()
        assert.is_true(cut_off:held())
        local granted
        loop.run(function()
            assert(other:acquire(60))
            assert.is_false(cut_off:held())
            granted = true
        end, function()
            loop.until_true(function()
                inside:pump()
                assert.is_false(cut_off:held() and other:held())
                return granted
            end, 60)
        end)
        loop.until_true(function()
            inside:pump()
            return told
        end)
        assert.is_true(other:token() > token)
        assert.same({ "lost" }, { select(3, cut_off:release()) })
        assert.is_true(other:release())
    end)
end)
