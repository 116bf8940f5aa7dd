--- A client follows its servers to other addresses, with its session and its locks.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

describe("client:set_servers", function()
    local servers

    before_each(function()
        servers = cluster.start { servers = 3 }
    end)

    after_each(function()
        fixture.clean()
        servers:stop()
    end)

    --- Returns a client that notes the servers with which it is connected, and a function that waits until it is with one of them.
    local function open(list, options)
        local connected = {}
        local settings = { log = function(_, message)
            connected[#connected + 1] = message:match "^connected to '(.*)'$"
        end }
        for name, value in pairs(options or {}) do
            settings[name] = value
        end
        local client = fixture.client(settings, list)
        return client, function(address)
            eventually(function()
                client:pump()
                return connected[#connected] == address
            end, 60, "a connection to " .. address)
            assert(client:exists("/", { timeout = 60 }))
        end
    end

    it("moves the session, and a lock that is held, to a server of the new list", function()
        local client, await = open(servers:address(1))
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        local token = lock:token()
        for _, number in ipairs { 2, 3, 1 } do
            assert.is_true(client:set_servers(servers:address(number)))
            await(servers:address(number))
            assert.same({ true, token }, { lock:held(), lock:token() })
        end
        assert.same({ 1, 4 }, { client:stats().sessions, client:stats().connections })
        assert.truthy(tostring(client):find(servers:address(1), 1, true))
    end)

    it("keeps the connection if its server is in the new list, and uses the others when that one fails", function()
        local client, await = open(servers:address(1))
        await(servers:address(1))
        for _ = 1, 3 do
            assert.is_true(client:set_servers(servers:address(2) .. "," .. servers:address(1)))
            assert(client:exists("/", { timeout = 20 }))
        end
        assert.equal(1, client:stats().connections)
        servers:kill(1)
        await(servers:address(2))
        assert.equal(1, client:stats().sessions)
    end)

    it("connects a client that has no connection, keeps the chroot, and the latest of several lists counts", function()
        local other, chroot = fixture.client(nil, servers:address(2)), "/chroot"
        assert(other:create(chroot))
        servers:kill(1)
        local client, await = open(servers:address(1) .. chroot, { connect_timeout = 0 })
        assert.is_true(client:set_servers(servers:address(1)))
        assert.is_true(client:set_servers(servers:address(2)))
        assert.is_true(client:set_servers(servers:address(3) .. chroot))
        await(servers:address(3))
        assert(client:create("/below"))
        assert(other:sync(chroot))
        assert.same({ "below" }, (other:children(chroot)))
    end)

    it("raises for a list that cannot be, and for another chroot; and says that a client is closed", function()
        local client = open(servers:address(1))
        for _, wrong in ipairs { "", "host:0", "h1:2181/other", 7 } do
            local ok, problem = pcall(client.set_servers, client, wrong)
            assert.is_false(ok)
            assert.truthy(problem:find("client:set_servers: ", 1, true), problem)
        end
        client:close()
        local set, _, code = client:set_servers(servers:address(1))
        assert.same({ nil, "closed" }, { set, code })
    end)
end)
