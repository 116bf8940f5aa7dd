--- The statements of docs/security.md about TLS, by stunnel.

local cluster = require "spec.support.cluster"
local credentials = require "spec.support.credentials"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local ports = require "spec.support.ports"
local stunnel = require "spec.support.stunnel"
local zklock = require "zklock"

local SECRET, digest = credentials.SECRET, credentials.digest
local assert_refused, trusted = credentials.assert_refused, credentials.trusted

describe("stunnel", function()
    local certificates, running = nil, {}

    setup(function()
        certificates = stunnel.is_there() and stunnel.make_certificates()
    end)

    teardown(function()
        if certificates then
            cluster.run({ "rm", "-r", certificates })
        end
    end)

    after_each(function()
        fixture.clean()
        while running[1] do
            table.remove(running):stop()
        end
    end)

    local function start(...)
        local tunnel = stunnel.start(...)
        running[#running + 1] = tunnel
        return tunnel
    end

    --- Returns the lines of a service that shows a certificate, if it has one, and requires a certificate of `trusts`.
    local function lines(mine, trusts, more)
        local list = { ("CAfile = %s/%s-ca.pem"):format(certificates, trusts), "verifyChain = yes" }
        if mine then
            list[#list + 1] = ("cert = %s/%s.pem"):format(certificates, mine)
            list[#list + 1] = ("key = %s/%s.key"):format(certificates, mine)
        end
        for _, line in ipairs(more or {}) do
            list[#list + 1] = line
        end
        return list
    end

    --- Starts a tunnel in front of the server.
    local function server_side()
        return start(fixture.servers(), lines("ours-server", "ours", { "sslVersionMin = TLSv1.2" }))
    end

    --- Starts a tunnel beside the program.
    local function client_side(to, mine, trusts, host, port)
        return start(to.address, lines(mine, trusts, { "client = yes", "checkHost = " .. host }), port)
    end

    local function spec(title, fn)
        it(title .. " #once", function()
            if not certificates then
                return pending("needs stunnel4 and openssl")
            end
            fn()
        end)
    end

    spec("on both sides carries locks through TLS, and the locks survive a restart of a tunnel", function()
        local far = server_side()
        local near = client_side(far, "ours-client", "ours", "zookeeper.example")
        local client = fixture.client({ auth = digest("fleet:" .. SECRET), acl = "creator", session_timeout = 60 }, near.address)
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        assert.equal("timeout", select(3, trusted():mutex(lock:path()):try_acquire()))
        local token = lock:token()
        near:stop()
        fixture.pump_until(client, function()
            return client:state() == "suspended"
        end)
        client_side(far, "ours-client", "ours", "zookeeper.example", near.port)
        fixture.pump_until(client, function()
            return client:state() == "connected"
        end)
        assert.is_true(lock:held())
        assert.equal(token, lock:token())
        assert.is_true(lock:release())
        assert.truthy(far:log():find("TLS accepted: new session negotiated", 1, true), far:log())
    end)

    for _, case in ipairs({
        { "a client without a certificate", nil, "ours", "zookeeper.example" },
        { "a client with a certificate of a foreign authority", "foreign-client", "ours", "zookeeper.example" },
        { "a server with a certificate of a foreign authority, for the client", "ours-client", "foreign", "zookeeper.example" },
        { "a server with another name, for the client", "ours-client", "ours", "other.example" }
    }) do
        spec("keeps out " .. case[1], function()
            local near = client_side(server_side(), case[2], case[3], case[4])
            local client, message, code = zklock.connect(near.address, { connect_timeout = 1 })
            assert.same({ nil, "disconnected" }, { client, code }, message)
        end)
    end

    spec("keeps out a client without TLS", function()
        local client, _, code = zklock.connect(server_side().address, { connect_timeout = 1 })
        assert.same({ nil, "disconnected" }, { client, code })
    end)

    spec("beside the program connects to ZooKeeper's own TLS port, where the certificate is an identity", function()
        local keys = certificates .. "/server-with-key.pem"
        files.write(keys, files.read(certificates .. "/ours-server.key") .. files.read(certificates .. "/ours-server.pem"))
        local port = ports.free()
        local secure = cluster.start { options = {
            secureClientPort = port, serverCnxnFactory = "org.apache.zookeeper.server.NettyServerCnxnFactory",
            ["ssl.keyStore.location"] = keys, ["ssl.keyStore.type"] = "PEM",
            ["ssl.trustStore.location"] = certificates .. "/ours-ca.pem", ["ssl.trustStore.type"] = "PEM"
        } }
        running[#running + 1] = secure
        local far = { address = "127.0.0.1:" .. port }
        local near = client_side(far, "ours-client", "ours", "zookeeper.example")
        local client = fixture.client({ acl = { { scheme = "x509", id = "CN=client", perms = "crwda" } } }, near.address)
        local lock = client:mutex("/lock")
        assert(lock:acquire(10))
        local stranger = fixture.client({}, secure.servers) -- through the port without TLS, if that is left open
        assert_refused(stranger:mutex("/lock"):acquire(10))
        assert_refused(stranger:mutex("/lock"):contenders(10))
        assert.is_true(lock:release())
        local nobody = client_side(far, nil, "ours", "zookeeper.example")
        assert.equal("disconnected", select(3, zklock.connect(nobody.address, { connect_timeout = 1 })))
    end)
end)
