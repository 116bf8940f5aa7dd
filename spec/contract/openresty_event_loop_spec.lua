--- zklock does not block nginx's event loop. The Lua inside nginx is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, nobody_complained, start = inside.cycle, inside.nobody_complained, inside.start
local remember = fixture.remember

describe("nginx's event loop is not blocked #nginx", function()
    after_each(fixture.clean)

    --- Checks the answers of a plain location while other work is going on.
    local function answers(server, count)
        for _ = 1, count do
            assert.same({ 200, "plain" }, { server:get("/plain", 20) })
        end
    end

    it("by 1000 requests that wait for one lock", function()
        local server = start()
        local holder = fixture.join(server.path)
        local waiting = {}
        for index = 1, 1000 do
            waiting[index] = cycle(server, 0, "&wait=false&timeout=600")
        end
        fixture.await_children(server.path, 1001, 60)
        answers(server, 200)
        assert(fixture.observer():delete(holder))
        answers(server, 20)
        for index = 1, 1000 do
            assert.same({ 200, "held" }, { waiting[index]:answer() })
        end
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("by a stopped ZooKeeper #nginxasan", function()
        local servers = cluster.start()
        remember(servers)
        local server = start(nil, { servers = servers.servers })
        assert.same({ 200, "held" }, { cycle(server):answer() })
        servers:pause()
        local waiting = {}
        for index = 1, 50 do
            waiting[index] = cycle(server, 0, "&timeout=2")
        end
        answers(server, 200)
        for index = 1, 50 do
            local status, body = waiting[index]:answer()
            assert.equal(503, status)
            assert.truthy(body:find("^disconnected ") or body:find("^timeout "), body)
        end
        servers:resume()
        assert.same({ 200, "held" }, { cycle(server):answer() })
        nobody_complained(server)
    end)

    it("by a ZooKeeper that does not run, or whose name does not resolve", function()
        for _, servers in ipairs { "127.0.0.1:1", "zookeeper.invalid:2181" } do
            local server = start(nil, { servers = servers })
            local waiting = {}
            for index = 1, 50 do
                waiting[index] = cycle(server, 0, "&timeout=2")
            end
            answers(server, 200)
            for index = 1, 50 do
                local status, body = waiting[index]:answer()
                assert.equal(503, status)
                assert.truthy(body:find("^disconnected "), body)
            end
            server:quit()
            nobody_complained(server)
        end
    end)
end)
