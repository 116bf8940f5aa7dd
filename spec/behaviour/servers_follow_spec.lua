--- A client learns from the servers which servers there are.

local cluster = require "spec.support.cluster"
local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local zklock = require "zklock"

local NO_AUTH, THROTTLED = -102, -127

--- Returns a client that follows, and its log.
local function open(list, options)
    local log = {}
    local settings = { follow = true, log = function(_, message)
        log[#log + 1] = message
    end }
    for name, value in pairs(options or {}) do
        settings[name] = value
    end
    return fixture.client(settings, list), log
end

--- Returns how many lines of the log have this text.
local function count(log, text)
    local found = 0
    for _, line in ipairs(log) do
        found = found + (line:find(text, 1, true) and 1 or 0)
    end
    return found
end

--- Waits until the client has logged so many lines with this text.
local function await(client, log, text, times)
    eventually(function()
        client:pump()
        return count(log, text) == times
    end, 60, text)
end

local function await_server(client, log, address)
    eventually(function()
        client:pump()
        local latest
        for _, line in ipairs(log) do
            latest = line:match "^connected to '(.*)'$" or latest
        end
        return latest == address
    end, 60, "a connection to " .. address)
    assert(client:exists("/", { timeout = 60 }))
end

describe("a client that follows the configuration of the servers", function()
    local servers

    before_each(function()
        servers = cluster.start { servers = 3, reconfig = true }
    end)

    after_each(function()
        fixture.clean()
        servers:stop()
    end)

    for _, chroot in ipairs { "", "/chroot" } do
        local where = chroot ~= "" and ", below a chroot" or ""
        it("uses servers that join, and keeps its locks when its own server has left" .. where, function()
            servers:configure { 1, 2 }
            assert(fixture.client(nil, servers:address(1)):create "/chroot")
            local client, log = open(servers:address(1) .. chroot)
            await(client, log, "the servers of the ensemble are", 1)
            local lock = client:mutex("/lock")
            assert(lock:acquire(20))
            local token = lock:token()
            servers:configure { 1, 2, 3 }
            await(client, log, "the servers of the ensemble are", 2)
            servers:configure { 3 }
            await(client, log, ("the servers of the ensemble are '%s'"):format(servers:address(3)), 1)
            servers:kill(1)
            await_server(client, log, servers:address(3))
            assert.same({ true, token }, { lock:held(), lock:token() })
            assert.equal(1, client:stats().sessions)
            assert.same({ 0, 0 }, { count(log, "does not include chroot"), count(log, "cannot follow") })
        end)
    end

    it("keeps a connection with a server of its own list, which the configuration does not name", function()
        servers:configure { 2, 3 }
        local client, log = open(servers:address(1))
        await(client, log, "the servers of the ensemble are", 1)
        assert(client:exists "/")
        assert.equal(1, client:stats().connections)
    end)

    it("goes on following when the program cancels a watch of its own on the configuration", function()
        servers:configure { 1, 2 }
        local client, log = open(servers:address(1))
        await(client, log, "the servers of the ensemble are", 1)
        local _, _, watch = client:get("/zookeeper/config", { watch = true })
        watch:cancel()
        assert(client:exists "/")
        servers:configure { 1, 2, 3 }
        await(client, log, "the servers of the ensemble are", 2)
    end)

    it("returns to its own list if no server that it follows can be reached", function()
        local dead = is_virtual and "10.0.0.9" or "127.0.0.1"
        local line = ("server.9=%s:1:2:observer;%s:3"):format(dead, dead)
        servers:configure({ 1, 2, 3 }, not is_virtual and line or nil)
        if is_virtual then -- real servers must serve to be members
            servers:configure({}, "server.7=10.0.0.7:1:2:participant;2181\n" .. line)
        end
        local client, log = open(servers:address(1))
        await(client, log, dead .. ":3", 1)
        local lock = client:mutex("/lock")
        assert(lock:acquire(20))
        local token = lock:token()
        servers:kill(1)
        servers:restart(1)
        if is_virtual then
            await_server(client, log, servers:address(1))
        end
        assert(client:exists("/", { timeout = 60 }))
        assert.same({ true, token }, { lock:held(), lock:token() })
    end)

    it("takes another list from set_servers, and follows again on the next connection", function()
        servers:configure { 1, 2, 3 }
        local client, log = open(servers:address(1))
        await(client, log, "the servers of the ensemble are", 1)
        assert.is_true(client:set_servers(servers:address(2)))
        await_server(client, log, servers:address(2))
        await(client, log, "the servers of the ensemble are", 2)
        servers:kill(2)
        eventually(function()
            return client:stats().connections == 3
        end)
        assert(client:exists("/", { timeout = 60 }))
        assert.equal(1, client:stats().sessions)
    end)

    it("takes nothing from set_servers back when a configuration comes from the servers of before", function()
        servers:configure { 1 }
        local link = fixture.proxy(servers:address(1))
        local client, log = open(link.address)
        await(client, log, "the servers of the ensemble are", 1)
        link:delay(100)
        local requests = client:stats().requests
        servers:configure { 1, 3 }
        eventually(function()
            return client:stats().requests > requests
        end)
        local arrived = core.now() + 0.3
        while core.now() < arrived do end -- in virtual time no thread of the client reads the answer
        assert.is_true(client:set_servers(servers:address(2)))
        await_server(client, log, servers:address(2))
    end)
end)

describe("a client that follows a configuration which it cannot read", function()
    after_each(fixture.clean)

    local function says_once(wanted, prepare)
        local link = fixture.proxy()
        prepare(link)
        local client, log = open(link.address)
        await(client, log, "cannot follow the configuration of the servers", 1)
        for connections = 2, 3 do
            link:cut()
            eventually(function()
                return client:stats().connections == connections
            end)
            assert(client:exists("/", { timeout = 60 }))
            client:pump()
        end
        assert.equal(1, count(log, "cannot follow the configuration of the servers, '/zookeeper/config': " .. wanted
            .. "; the list of servers stays"))
        assert.equal(1, count(log, "cannot follow"))
    end

    it("says once that it names no ports for clients", function()
        says_once("it names no ports for clients", function() end)
    end)

    it("says once that it may not read it", function()
        says_once("not authenticated", function(link)
            link:deny("get", NO_AUTH)
        end)
    end)

    it("reads it again after a throttled request, or a lost reply", function()
        for _, prepare in ipairs {
            function(link)
                link:deny("get", THROTTLED, 1)
            end,
            function(link)
                link:arm("get", "after")
            end
        } do
            local link = fixture.proxy()
            prepare(link)
            local client, log = open(link.address)
            await(client, log, "it names no ports for clients", 1)
        end
    end)
end)

describe("the option follow", function()
    it("needs the same port for all servers with TLS", function()
        local wrong = "option 'follow' with 'tls' needs the same port for all servers"
        local settings = { follow = true, tls = {}, connect_timeout = 0 }
        local ok, problem = pcall(zklock.connect, "h1:2281,h2:2282/chroot", settings)
        assert.is_false(ok)
        assert.truthy(problem:find("zklock.connect: " .. wrong, 1, true), problem)
        local client = fixture.client(settings, "h1:2281,h2:2281/chroot")
        ok, problem = pcall(client.set_servers, client, "h1:2281,h2:2282")
        assert.is_false(ok)
        assert.truthy(problem:find("client:set_servers: " .. wrong, 1, true), problem)
        fixture.clean()
    end)

    it("costs a request for each connection, and none without it", function()
        local requests = {}
        for index, follow in ipairs { true, false } do
            local client = fixture.client { follow = follow }
            assert(client:exists "/")
            eventually(function()
                return client:stats().requests - client:stats().heartbeats >= (follow and 2 or 1)
            end)
            requests[index] = client:stats().requests - client:stats().heartbeats
        end
        assert.same({ 2, 1 }, requests)
        fixture.clean()
    end)
end)
