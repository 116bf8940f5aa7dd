--- The option `tls`, on real servers: ZooKeeper's own port for TLS, and stunnel where a server must be wrong in some way.

local certificates = require "spec.support.certificates"
local commands = require "spec.support.commands"
local cluster = require "spec.support.cluster"
local core = require "zklock.core"
local eventually = require "spec.support.eventually"
local events = require "spec.support.events"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local holes = require "spec.support.holes"
local metrics = require "zklock.metrics"
local ports = require "spec.support.ports"
local proxy = require "spec.support.proxy"
local socket = require "socket"
local stunnel = require "spec.support.stunnel"
local zklock = require "zklock"

local NAME = "zookeeper.example"

--- In place of a field of the option tls: without it.
local NONE = {}

describe("tls", function()
    local made, secure, address

    setup(function()
        if not (certificates.is_there() and stunnel.is_there()) then
            return
        end
        made = certificates.new()
        made:add_authority "ours"
        made:add_authority "foreign"
        made:add("server", { authority = "ours", names = "DNS:" .. NAME .. ",DNS:localhost,IP:127.0.0.1" })
        made:add("misnamed", { authority = "ours", names = "DNS:other.example" })
        made:add("expired", { authority = "ours", expired = true, names = "DNS:" .. NAME })
        made:add("self-signed", { names = "DNS:" .. NAME })
        made:add("client", { authority = "ours" })
        made:add("locked", { authority = "ours", password = "open-sesame" })
        made:add("stranger", { authority = "foreign" })
        local port = ports.free()
        address = "127.0.0.1:" .. port
        secure = cluster.start { options = {
            secureClientPort = port, serverCnxnFactory = "org.apache.zookeeper.server.NettyServerCnxnFactory",
            ["ssl.keyStore.location"] = made:file "server-both.pem", ["ssl.keyStore.type"] = "PEM",
            ["ssl.trustStore.location"] = made:file "ours-ca.pem", ["ssl.trustStore.type"] = "PEM",
            ["ssl.enabledProtocols"] = "TLSv1.2" -- 3.9 also has TLS 1.3, if its netty has
        } }
    end)

    teardown(function()
        if made then
            secure:stop()
            made:stop()
        end
    end)

    after_each(fixture.clean)

    --- A spec that is pending where certificates cannot be made.
    local function spec(title, fn)
        it(title .. " #once", function()
            if not made then
                return pending("needs stunnel4 and openssl")
            end
            fn()
        end)
    end

    --- Returns the options of a client with these fields of tls in place of the right ones.
    local function options(fields, more)
        local tls = {
            ca_file = made:file "ours-ca.pem", cert_file = made:file "client.pem", key_file = made:file "client.key"
        }
        for name, value in pairs(fields or {}) do
            tls[name] = value
            if value == NONE then
                tls[name] = nil
            end
        end
        local all = { tls = tls, session_timeout = 30 }
        for name, value in pairs(more or {}) do
            all[name] = value
        end
        return all
    end

    local function connect(fields, servers, more)
        return fixture.client(options(fields, more), servers or address)
    end

    --- Starts a stunnel with a certificate in front of the server's port without TLS.
    local function tunnel(certificate, lines, port, to)
        local all = { "cert = " .. made:file(certificate .. ".pem"), "key = " .. made:file(certificate .. ".key") }
        for _, line in ipairs(lines or {}) do
            all[#all + 1] = line
        end
        return fixture.remember(stunnel.start(to or secure.servers, all, port))
    end

    --- Fails unless a client cannot connect, with a problem of this pattern. Options that cannot be used are refused by connect.
    local function assert_refused(servers, settings, pattern, code)
        settings.connect_timeout = 0
        local client, problem, why = zklock.connect(servers, settings)
        if client then
            fixture.on_clean(function()
                client:close()
            end)
            fixture.pump_until(client, function()
                local state
                state, problem, why = client:state()
                assert.not_equal("connected", state)
                return why == (code or "tls_failed") and problem:find(pattern)
            end, 10)
        end
        assert.equal(code or "tls_failed", why, problem)
        assert.truthy(problem:find(pattern), problem)
        assert.is_nil(problem:find("open-sesame", 1, true), problem)
    end

    spec("carries locks, and passes them on at once when the client is closed", function()
        local first = connect()
        local lock = first:mutex "/passed"
        assert(lock:acquire(10))
        local second = connect():mutex "/passed"
        assert.equal("timeout", select(3, second:try_acquire()))
        local token = lock:token()
        assert(first:close(10))
        assert(second:acquire(10))
        assert.is_true(second:token() > token)
    end)

    spec("moves the session, with its locks, to another name of a server", function()
        local client = connect()
        local lock, other = client:mutex "/moved", (address:gsub("127.0.0.1", "localhost"))
        assert(lock:acquire(10))
        for index, list in ipairs { address, other .. "," .. address, other, other, address } do
            local connections = index < 3 and 1 or index < 5 and 2 or 3
            assert.is_true(client:set_servers(list))
            fixture.pump_until(client, function()
                return client:exists("/", { timeout = 20 }) and client:stats().connections == connections
            end, 20)
        end
        assert.is_true(lock:held())
        assert.equal(1, client:stats().sessions)
    end)

    spec("follows the hosts of the ensemble's configuration, at the port of the list", function()
        local ensemble = fixture.remember(cluster.start { servers = 3 })
        local front = tunnel("server", nil, nil, ensemble:address(1)).address
        local log, given = {}, front:gsub("127.0.0.1", "localhost")
        local client = connect({ server_name = NAME }, given, { follow = true, log = function(_, line)
            log[#log + 1] = line
        end })
        fixture.pump_until(client, function()
            return table.concat(log, "\n"):find(("the servers of the ensemble are '%s'"):format(front), 1, true)
        end, 20)
        assert.is_true(client:exists "/" ~= nil)
        assert.equal(1, client:stats().connections)
    end)

    spec("shows a certificate that is an identity in acls", function()
        local client = connect(nil, nil, { acl = "creator" })
        local lock = client:mutex "/closed"
        assert(lock:acquire(10))
        local stranger = fixture.client({}, secure.servers) -- through the port without TLS
        assert.equal("no_auth", select(3, stranger:mutex("/closed"):acquire(10)))
        assert.equal("timeout", select(3, connect():mutex("/closed"):try_acquire())) -- the same identity
        assert(lock:release())
    end)

    spec("uses a key with a password, and one file for key and certificate", function()
        connect { cert_file = made:file "locked.pem", key_file = made:file "locked.key", key_password = "open-sesame" }
        connect { cert_file = made:file "client-both.pem", key_file = NONE }
    end)

    spec("verifies the name in the list of servers, the address there, or the one in the options", function()
        connect(nil, (address:gsub("127.0.0.1", "localhost")))
        connect { server_name = NAME }
        connect { server_name = "127.0.0.1" }
        assert_refused(address, options { server_name = "zookeeper.example.org" }, "hostname mismatch; list the server by a name")
        local misnamed = tunnel "misnamed"
        assert_refused(misnamed.address, options(), "IP address mismatch; list the server by a name")
        connect({ server_name = "other.example" }, misnamed.address)
        assert(zklock.connect(misnamed.address, { tls = { verify = false }, connect_timeout = 20 })):close()
    end)

    spec("trusts the authorities of a directory, and an authority that another one has signed", function()
        connect { ca_file = NONE, ca_path = made:add_directory "ours" }
        made:add_authority("middle", "ours")
        made:add("below", { authority = "middle", names = "IP:127.0.0.1" })
        local alone = tunnel "below"
        connect({ ca_file = made:file "middle-ca.pem" }, alone.address)
        assert_refused(alone.address, options(), "is not accepted: .*; the option tls.ca_file")
        files.write(made:file "chain.pem", files.read(made:file "below.pem") .. files.read(made:file "middle-ca.pem"))
        files.write(made:file "chain.key", files.read(made:file "below.key"))
        connect(nil, tunnel("chain").address)
    end)

    spec("warns when nothing is verified", function()
        local lines = {}
        connect({ ca_file = NONE, verify = false }, nil, { log = function(level, text)
            lines[#lines + 1] = level .. " " .. text
        end })
        assert.truthy(table.concat(lines, "\n"):find("warn tls.verify is off", 1, true))
    end)

    spec("connects past servers that swallow packets or say nothing", function()
        local servers = holes.before(holes.before(address, 3, holes.swallowing), 1, holes.silent)
        for _ = 1, 3 do
            -- Shares of the session timeout would take longer than the client tries to connect.
            local client = assert(zklock.connect(servers, options(nil, { session_timeout = 60, connect_timeout = 20 })))
            assert.is_true(client:close())
        end
    end)

    describe("refuses", function()
        spec("a server of another authority", function()
            assert_refused(address, options { ca_file = made:file "foreign-ca.pem" }, "is not accepted: .*; the option tls.ca_file")
        end)

        spec("a server that has signed its certificate itself", function()
            assert_refused(tunnel("self-signed").address, options { server_name = NAME }, "self.signed certificate; the option")
        end)

        spec("a server of our own authority where those of the system are to be trusted", function()
            assert_refused(address, options { ca_file = NONE }, "is not accepted: .*; the option tls.ca_file")
        end)

        spec("an expired certificate", function()
            assert_refused(tunnel("expired").address, options { server_name = NAME }, "certificate has expired; renew")
        end)

        spec("an old version of TLS", function()
            assert_refused(address, options { min_version = "1.3" }, "protocol version; .*tls.min_version")
            connect({ min_version = "1.3" }, tunnel("server").address)
            local old = tunnel("server", { "sslVersionMax = TLSv1.2", "sslVersionMin = TLSv1.2" })
            assert_refused(old.address, options { min_version = "1.3" }, "protocol version; .*tls.min_version")
        end)

        spec("ciphers that the two do not share", function()
            assert_refused(address, options { ciphers = "PSK-AES128-CBC-SHA" }, "the two have no cipher in common")
            connect({ ciphers = "TLS_AES_256_GCM_SHA384:ECDHE-ECDSA-AES128-GCM-SHA256" })
        end)

        spec("a port without TLS", function()
            assert_refused(secure.servers, options(), "closed the connection during the TLS handshake; use the server's secureC")
        end)

        spec("a server that says nothing", function()
            local listener = assert(socket.bind("127.0.0.1", 0))
            local silent = ("127.0.0.1:%d"):format(select(2, listener:getsockname()))
            assert_refused(silent, options(nil, { session_timeout = 0.6 }),
                "did not finish the TLS handshake in time")
            listener:close()
        end)

        spec("files that cannot be used, at once", function()
            assert_refused(address, options({ ca_file = "/nonexistent" }), "cannot read '/nonexistent' of the option tls.ca_file")
            assert_refused(address, options({ ca_path = "/nonexistent", ca_file = NONE }), "of the option tls.ca_path")
            assert_refused(address, options({ cert_file = "/nonexistent" }), "of the option tls.cert_file: No such file")
            assert_refused(address, options({ key_file = "/nonexistent" }), "of the option tls.key_file: No such file")
            assert_refused(address, options({ key_file = made:file "stranger.key" }), "of the option tls.key_file: key values m")
            assert_refused(address, options({ ca_file = made:file "client.key" }), "it must hold certificates in PEM")
            assert_refused(address, options({ cert_file = made:file "client.key" }), "it must hold a certificate in PEM")
            local locked = { cert_file = made:file "locked.pem", key_file = made:file "locked.key" }
            assert_refused(address, options(locked), "an encrypted key needs tls.key_password")
            locked.key_password = "open-barley"
            assert_refused(address, options(locked), "with the password tls.key_password")
            assert_refused(address, options({ ciphers = "open-air" }), "of the option tls.ciphers")
        end)
    end)

    describe("is refused with a reason by a server that wants", function()
        -- Servers with Java 21, and OpenSSL with TLS 1.2, give no other reason than for ciphers.
        spec("a certificate", function()
            local without, wanted = options { cert_file = NONE, key_file = NONE },
                "refuses TLS with this client: .* the server wants a certificate of the client; see the option.*tls.cert_file"
            assert_refused(address, without, wanted)
            local strict = { "CAfile = " .. made:file "ours-ca.pem", "verifyChain = yes", "sslVersionMax = TLSv1.2" }
            assert_refused(tunnel("server", strict).address, without, wanted)
        end)

        spec("one of its own authority", function()
            assert_refused(address, options { cert_file = made:file "stranger.pem", key_file = made:file "stranger.key" },
                "refuses TLS with this client: .*; the server refuses the client's certificate")
        end)

        spec("one of its own authority, by TLS 1.3, which says so after the handshake", function()
            local strict = tunnel("server", { "CAfile = " .. made:file "ours-ca.pem", "verifyChain = yes" })
            assert_refused(strict.address, options { cert_file = NONE, key_file = NONE, min_version = "1.3" },
                "refuses TLS with this client: .*; the server wants a certificate of the client")
            connect({ min_version = "1.3" }, strict.address)
        end)

        spec("TLS", function()
            assert_refused(address, {}, "closed the connection; .*; if this is a port for TLS, see the option tls", "disconnected")
        end)
    end)

    spec("reads renewed files at the next connection", function()
        made:add("renewed", { authority = "ours" })
        local link = fixture.remember(proxy.start(address, { raw = true }))
        local client = connect(
            { cert_file = made:file "renewed.pem", key_file = made:file "renewed.key" }, link.address, { session_timeout = 60 })
        local lock = client:mutex "/renewed"
        assert(lock:acquire(10))
        made:replace("renewed", "stranger")
        link:cut()
        fixture.pump_until(client, function()
            return client:state() ~= "connected" and select(3, client:state()) == "tls_failed"
        end)
        assert.truthy(metrics.text(client):find("\nzklock_tls_failed_clients 1\n", 1, true))
        made:replace("renewed", "client")
        fixture.pump_until(client, function()
            return client:state() == "connected"
        end)
        assert.is_true(lock:release())
    end)

    spec("tells how long the certificates are still valid, as metrics too", function()
        local day = 86400 -- certificates are valid for two days
        for _, case in ipairs { { nil, 1 }, { { cert_file = NONE, key_file = NONE }, 0 } } do
            local client = connect(case[1], case[2] == 0 and tunnel("server").address or nil)
            local stats = client:stats()
            assert.is_true(stats.server_certificate_left > day and stats.server_certificate_left <= 2 * day)
            assert.equal(case[2], stats.own_certificate_left and 1 or 0)
            local left = metrics.text(client):match('\nzklock_certificate_left_seconds{whose="server"} ([%d.]+)\n')
            assert.is_true(math.abs(tonumber(left) - stats.server_certificate_left) < 60)
        end
        assert.is_nil(fixture.client():stats().server_certificate_left)
    end)

    spec("makes connect fail with its code when the time is over", function()
        local client, message, code = zklock.connect(secure.servers, options(nil, { connect_timeout = 5 }))
        assert.same({ nil, "tls_failed" }, { client, code })
        assert.truthy(message:find("at .* within 5 s: '127.0.0.1:%d+' closed the connection during the TLS"), message)
    end)

    spec("goes on with the next of three servers, one of which has the wrong name", function()
        local tunnels = { tunnel "server", tunnel "misnamed", tunnel "server" }
        local list = {}
        for index, each in ipairs(tunnels) do
            list[index] = each.address
        end
        local client = connect(nil, table.concat(list, ","), { session_timeout = 60 })
        local lock = client:mutex "/three"
        assert(lock:acquire(10))
        local token = lock:token()
        for _, index in ipairs({ 1, 3 }) do
            tunnels[index]:stop()
            fixture.pump_until(client, function()
                return client:state() == "connected"
            end)
            client:get("/three", { timeout = 10 }) -- by a server that is there
            if index == 1 then
                tunnels[1] = tunnel("server", nil, tunnels[1].port)
            end
        end
        assert.equal(token, lock:token())
        assert.is_true(lock:release())
    end)

    spec("keeps its session in an ensemble whose servers all get certificates of another authority, one by one #long", function()
        made:add_authority "next"
        local names = "DNS:localhost,IP:127.0.0.2,IP:127.0.0.3"
        for number = 1, 3 do
            made:add("server-" .. number, { authority = "ours", names = names })
            made:add("next-server-" .. number, { authority = "next", names = names })
        end
        local port = ports.free()
        local servers = fixture.remember(cluster.start { servers = 3, options = {
            secureClientPort = port, secureClientPortAddress = "127.0.0.@SERVER@",
            serverCnxnFactory = "org.apache.zookeeper.server.NettyServerCnxnFactory",
            ["ssl.keyStore.location"] = made:file "server-@SERVER@-both.pem", ["ssl.keyStore.type"] = "PEM",
            ["ssl.trustStore.location"] = made:file "ours-ca.pem", ["ssl.trustStore.type"] = "PEM"
        } })
        local function put(name, ...)
            local parts = { ... }
            for index, part in ipairs(parts) do
                parts[index] = files.read(made:file(part))
            end
            files.write(made:file(name), table.concat(parts))
        end
        put("authorities.pem", "ours-ca.pem")
        local list = ("localhost:%d,127.0.0.2:%d,127.0.0.3:%d"):format(port, port, port)
        local client = connect({ ca_file = made:file "authorities.pem" }, list, { session_timeout = 40 })
        local lock = client:mutex "/rolled"
        assert(lock:acquire(20))
        local token = lock:token()
        put("authorities.pem", "ours-ca.pem", "next-ca.pem")
        for number = 1, 3 do
            put(("server-%d-both.pem"):format(number), ("next-server-%d-both.pem"):format(number))
            servers:kill(number)
            assert(client:get("/rolled", { timeout = 30 })) -- by another server
            servers:restart(number)
        end
        assert.is_true(client:stats().connections > 1)
        put("authorities.pem", "next-ca.pem")
        assert_refused(list, options { ca_file = made:file "ours-ca.pem" }, "is not accepted: .*; the option tls.ca_file")
        connect({ ca_file = made:file "authorities.pem" }, list)
        assert.same({ true, token }, { lock:held(), lock:token() })
        assert.is_true(lock:release())
    end)

    spec("is passed on by zklock run to its command", function()
        local result = commands.run({
            "run", "--tls-ca-file", made:file "ours-ca.pem", "--tls-cert-file", made:file "locked.pem", "--tls-key-file",
            made:file "locked.key", "/passed-on", "--", "sh", "-c",
            'echo "$ZKLOCK_TLS $ZKLOCK_TLS_CA_FILE $ZKLOCK_TLS_CERT_FILE $ZKLOCK_TLS_KEY_FILE"'
        }, { servers = address, variables = { "ZKLOCK_TLS_KEY_PASSWORD=open-sesame" } })
        assert.same({ 0, ("yes %s %s %s\n"):format(made:file "ours-ca.pem", made:file "locked.pem", made:file "locked.key") },
            { result.status, result.output }, result.errors)
    end)

    spec("is what zklock doctor connects by, which then asks the servers nothing unencrypted", function()
        local result = commands.run({
            "doctor", "--tls-ca-file", made:file "ours-ca.pem", "--tls-cert-file", made:file "client-both.pem"
        }, { servers = address })
        assert.truthy(result.output:find(address .. " is reached by TLS, and four-letter words have none", 1, true),
            result.output .. result.errors)
        assert.is_nil(result.output:find("Start the server", 1, true), result.output)
    end)

    spec("is what zklock who connects by, which then asks the servers nothing unencrypted", function()
        local lock = connect():mutex "/looked-at"
        assert(lock:acquire(20))
        local result = commands.run({
            "who", "--tls-ca-file", made:file "ours-ca.pem", "--tls-cert-file", made:file "client-both.pem", "/looked-at"
        }, { servers = address })
        assert.truthy(result.output:find("/looked-at  mutex  held", 1, true), result.output)
        assert.truthy(result.errors:find(address .. " is reached by TLS, and four-letter words have none", 1, true),
            result.output .. result.errors)
        assert.is_nil(result.errors:find("the word cons", 1, true), result.errors)
        assert(lock:release())
    end)

    spec("is what zklock ui connects by", function()
        local lock = connect():mutex "/viewed"
        assert(lock:acquire(20))
        local view = commands.start({
            "ui", "--listen", "127.0.0.1:0", "--tls-ca-file", made:file "ours-ca.pem", "--tls-cert-file",
            made:file "client-both.pem", "/viewed"
        }, { servers = address })
        local viewer = events.open(assert(view:line():match "^http://[^/:]+:(%d+)/"), "/?events")
        local seen = viewer:await(function(event)
            return event.locks[1] and event.locks[1].kind == "mutex" and event
        end)
        assert.equal("/viewed", seen.locks[1].path)
        viewer:close()
        assert(lock:release())
    end)

    spec("leaves neither descriptors nor memory behind", function()
        local function descriptors()
            return select(2, cluster.run({ "ls", ("/proc/%d/fd"):format(cluster.process_id()) }):gsub("\n", ""))
        end
        local function once()
            assert(zklock.connect(address, options(nil, { connect_timeout = 10 }))):close(10)
            zklock.connect(address, options({ ca_file = made:file "foreign-ca.pem" }, { connect_timeout = 0.05 }))
            zklock.connect(secure.servers, options(nil, { connect_timeout = 0.05 }))
        end
        once()
        collectgarbage()
        collectgarbage()
        local before, bytes = descriptors(), core.memory()
        for _ = 1, 5 do
            once()
        end
        eventually(function()
            collectgarbage()
            collectgarbage()
            return descriptors() <= before and core.memory() <= bytes
        end, 20, "the end of the clients")
    end)

    describe("survives", function()
        local function client_behind(link)
            local client = connect(nil, link.address, { session_timeout = 60 })
            local lock = client:mutex(fixture.path())
            assert(lock:acquire(10))
            return client, lock
        end

        for name, interfere in pairs({
            ["that is cut, with a reset"] = function(link)
                link:cut "rst"
            end,
            ["that is cut"] = function(link)
                link:cut "fin"
            end,
            ["whose client has half of it closed"] = function(link)
                link:half_close "client"
            end,
            ["whose server has half of it closed"] = function(link)
                link:half_close "server"
            end
        }) do
            spec("a connection " .. name, function()
                local link = fixture.remember(proxy.start(address, { raw = true }))
                local client, lock = client_behind(link)
                for turn = 1, 3 do
                    interfere(link)
                    fixture.pump_until(client, function()
                        return client:stats().connections > turn and client:state() == "connected"
                    end, 20)
                end
                assert.is_true(lock:release())
            end)
        end

        spec("a server that falls silent, and then everything that it sent at once", function()
            local link = fixture.remember(proxy.start(address, { raw = true }))
            local client, lock = client_behind(link)
            link:stall "down"
            assert.equal("disconnected", select(3, client:get(lock:path(), { timeout = 0.3 })))
            link:resume()
            assert(client:get(lock:path(), { timeout = 20 }))
        end)

        spec("data of many records in both directions", function()
            local client = connect()
            local data = {}
            for index = 1, 15000 do
                data[index] = ("%060d"):format(index)
            end
            data = table.concat(data)
            assert(client:create("/long", data, { timeout = 20 }))
            assert.is_true(data == client:get("/long", { timeout = 20 }))
            assert(client:delete("/long"))
        end)
    end)
end)
