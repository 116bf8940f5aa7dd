--- Inside nginx: the list of servers changes while requests hold and wait.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, nobody_complained, start = inside.cycle, inside.nobody_complained, inside.start

local LOCATIONS = [[
    location = /move { content_by_lua_block {
        ngx.say(tostring(require("spec.support.inside_nginx").client():set_servers(ngx.var.arg_servers)))
    } }
]]

describe("inside nginx #nginx", function()
    local servers

    before_each(function()
        servers = cluster.start { servers = 3, reconfig = true }
    end)

    after_each(function()
        fixture.clean()
        servers:stop()
    end)

    --- Waits until a worker is connected to that server.
    local function await_server(server, address)
        eventually(function()
            local latest
            for line in server:log():gmatch "[^\n]+" do
                latest = line:match "connected to '([^']*)'" or latest
            end
            return latest == address, latest
        end, 60, "a connection to " .. address)
    end

    --- Holds and waits while `move` makes another server the only one.
    local function moves(settings, move)
        servers:configure { 1, 2 }
        local server = start(LOCATIONS, { servers = servers:address(1), settings = settings })
        local holding = inside.hold(server)
        await_server(server, servers:address(1))
        eventually(function() local _, count = server:get("/waiters") return count == "0" end)
        local waiting = cycle(server)
        eventually(function() local _, count = server:get("/waiters") return count == "1" end, 20, "a waiter")
        move(server)
        await_server(server, servers:address(3))
        inside.go(server)
        assert.same({ 200, "held" }, { holding:answer() })
        assert.same({ 200, "held" }, { waiting:answer() })
        return server
    end

    it("a client that follows keeps holds and waits when its server leaves the ensemble", function()
        local server = moves("inside.follow = true; inside.log = function(_, text) ngx.log(ngx.NOTICE, text) end", function(server)
            servers:configure { 1, 2, 3 }
            servers:configure { 3 }
            eventually(function()
                return server:log():find(("the servers of the ensemble are '%s'"):format(servers:address(3)), 1, true)
            end, 60, "the new list")
            servers:kill(1)
        end)
        nobody_complained(server)
    end)

    it("set_servers keeps holds and waits, and moves to a server of the new list", function()
        local server = moves("inside.log = function(_, text) ngx.log(ngx.NOTICE, text) end", function(server)
            servers:configure { 1, 2, 3 }
            assert.same({ 200, "true" }, { server:get("/move?servers=" .. servers:address(3)) })
        end)
        nobody_complained(server)
    end)
end)
