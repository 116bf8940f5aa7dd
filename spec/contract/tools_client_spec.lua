-- The independent client that specs rely on, and their wait for a condition.

local cluster = require("spec.support.cluster")
local eventually = require("spec.support.eventually")
local zk = require("spec.support.zk")

describe("the client for specs #once", function()
    local servers, client

    setup(function()
        servers = cluster.shared().servers
    end)

    before_each(function()
        client = zk.connect(servers)
    end)

    after_each(function()
        client:delete_recursive("/spec")
        client:close()
    end)

    it("creates, reads, writes, lists and deletes nodes", function()
        assert.equal("/spec", client:create("/spec", "first"))
        local data, stat = client:get("/spec")
        assert.equal("first", data)
        assert.equal(0, stat.version)
        assert.equal(("0"):rep(16), stat.ephemeralOwner)
        assert.equal(16, #stat.czxid)
        assert.equal(1, client:set("/spec", "").version)
        assert.equal("", client:get("/spec"))
        assert(client:create("/spec/b"))
        assert(client:create("/spec/a"))
        assert.same({"a", "b"}, client:children("/spec"))
        stat = client:exists("/spec")
        assert.equal(2, stat.numChildren)
        assert.equal(2, stat.cversion)
        assert.is_true(client:delete("/spec/a"))
        assert.same({nil, "no_node"}, {client:delete("/spec/a")})
        assert.same({nil, "not_empty"}, {client:delete("/spec")})
        assert.same({nil, "node_exists"}, {client:create("/spec")})
        assert.same({nil, "no_node"}, {client:create("/nothing/here")})
    end)

    it("carries bytes of every value", function()
        local bytes = {}
        for i = 0, 255 do
            bytes[#bytes + 1] = string.char(i)
        end
        local data = table.concat(bytes)
        client:create("/spec", data)
        assert.equal(data, (client:get("/spec")))
    end)

    it("makes ephemeral and sequential nodes that end with its session", function()
        client:create("/spec")
        local other = zk.connect(servers)
        local path, stat = other:create("/spec/x-", "", {ephemeral = true, sequential = true})
        assert.equal("/spec/x-0000000000", path)
        assert.equal(other.session_id, stat.ephemeralOwner)
        assert.is_true(other:close())
        assert.same({}, client:children("/spec"))
    end)

    it("makes containers, which the server removes once they are empty again", function()
        local reaping = cluster.start({reap = 100})
        finally(function() reaping:stop() end)
        local maker = zk.connect(reaping.servers)
        assert.equal("/spec", maker:create("/spec", "", {container = true}))
        maker:create("/spec/child")
        maker:delete("/spec/child")
        eventually(function() return not maker:exists("/spec") end)
        maker:close()
    end)

    it("deletes whole trees and creates all parents", function()
        assert.equal("/spec/a/b/c", client:create_all("/spec/a/b/c"))
        client:create("/spec/a/d")
        assert.is_true(client:delete_recursive("/spec"))
        assert.same({nil, "no_node"}, {client:exists("/spec")})
        assert.is_true(client:delete_recursive("/spec"))
    end)

    it("keeps its session after its connection was lost", function()
        client:create("/spec", "", {ephemeral = true})
        local id = client.session_id
        client:disconnect()
        assert.equal(id, client:exists("/spec").ephemeralOwner)
    end)

    it("knows the password that the server gives to a session", function()
        for _ = 1, 5 do
            local other = zk.connect(servers)
            local expected = other.password:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
            assert.equal(expected, zk.password_of(other.session_id))
            other:close()
        end
    end)

    it("ends any session, given its id", function()
        local victim = zk.connect(servers)
        victim:create("/spec", "", {ephemeral = true})
        assert.is_true(zk.kill_session(servers, client:exists("/spec").ephemeralOwner))
        assert.is_nil((client:exists("/spec")))
        assert.same({nil, "session_expired"}, {victim:exists("/spec")})
        assert.same({nil, "no_node"}, {victim:exists("/spec")})
        victim:close()
        assert.same({nil, "session_expired"}, {zk.kill_session(servers, "0x1234")})
    end)
end)

describe("eventually #once", function()
    it("returns what the condition returns once it holds", function()
        local calls = 0
        assert.equal("third", eventually(function()
            calls = calls + 1
            return calls == 3 and "third"
        end))
    end)

    it("names what it has waited for, and why it failed", function()
        assert.has_error(function()
            eventually(function() return nil, "not here" end, 0.05, "a guest")
        end, "still waiting after 0.05 s for a guest: not here")
    end)
end)
