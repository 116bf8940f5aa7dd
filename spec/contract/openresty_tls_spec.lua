--- Inside nginx: clients with TLS, in workers that use OpenSSL themselves. The Lua inside nginx is always LuaJIT, so these specs
-- run only once.

if not rawget(_G, "jit") then
    return
end

local certificates = require "spec.support.certificates"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local stunnel = require "spec.support.stunnel"

describe("inside nginx, a client with TLS #nginx", function()
    local made

    setup(function()
        if certificates.is_there() and stunnel.is_there() then
            made = certificates.new()
            made:add_authority "ours"
            made:add("server", { authority = "ours", names = "IP:127.0.0.1,DNS:localhost" })
            made:add("client", { authority = "ours" })
        end
    end)

    teardown(function()
        if made then
            made:stop()
        end
    end)

    after_each(fixture.clean)

    --- A spec that is pending where certificates cannot be made.
    local function spec(title, fn)
        it(title, function()
            if not made then
                return pending("needs stunnel4 and openssl")
            end
            fn()
        end)
    end

    --- Starts a stunnel in front of the shared server.
    local function tunnel_at(port)
        return fixture.remember(stunnel.start(fixture.servers(), {
            "cert = " .. made:file "server.pem", "key = " .. made:file "server.key", "CAfile = " .. made:file "ours-ca.pem",
            "verifyChain = yes"
        }, port))
    end

    --- Starts nginx, whose clients connect by that stunnel, with a location that takes a lock and keeps it.
    local function start(tunnel, workers, session_timeout)
        return inside.start([[
            location = /park { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                package.loaded.parked = assert(inside.mutex("@PATH@-parked"):acquire { timeout = 20, keep = true })
                ngx.say("parked")
            } }
            location = /parked { content_by_lua_block {
                local parked = package.loaded.parked
                ngx.say(parked and tostring(parked:held()) or "elsewhere")
            } }
        ]], {
            servers = tunnel.address, workers = workers, settings = ([[
                inside.session_timeout = %g
                inside.tls = { ca_file = "%s", cert_file = "%s", key_file = "%s" }
            ]]):format(session_timeout, made:file "ours-ca.pem", made:file "client.pem", made:file "client.key")
        })
    end

    spec("passes locks on at once when its worker exits, and the new workers connect", function()
        local tunnel = tunnel_at()
        local server = start(tunnel, 2, 60)
        local old = server:workers()
        assert.same({ 200, "parked" }, { server:get("/park") })
        local session = fixture.session_of(server.path .. "-parked")
        local holding = inside.hold(server)
        fixture.await_children(server.path, 1)
        server:signal("HUP")
        assert(fixture.client({ session_timeout = 60 }):mutex(server.path .. "-parked"):acquire(50))
        fixture.assert_not_expired(session)
        inside.go(server)
        assert.same({ 200, "held" }, { holding:answer() })
        eventually(function()
            local now = server:workers()
            return #now == 2 and now[1] ~= old[1] and now[1] ~= old[2] and now[2] ~= old[1] and now[2] ~= old[2]
        end, 20, "the old workers to go")
        local waiting = {}
        for index = 1, 20 do
            waiting[index] = inside.cycle(server)
        end
        for _, request in ipairs(waiting) do
            assert.same({ 200, "held" }, { request:answer() })
        end
        inside.nobody_complained(server)
    end)

    spec("loses its locks with its session, and goes on with a new one", function()
        local tunnel = tunnel_at()
        local server = start(tunnel, 1, 15)
        assert.same({ 200, "parked" }, { server:get("/park") })
        assert.same({ 200, "true" }, { server:get("/parked") })
        tunnel:stop()
        fixture.await_children(server.path .. "-parked", 0) -- the session has expired
        assert.same({ 200, "false" }, { server:get("/parked") })
        tunnel_at(tunnel.port)
        assert.same({ 200, "held" }, { inside.cycle(server):answer() })
        assert.same({ 200, "parked" }, { server:get("/park") })
        inside.nobody_complained(server)
    end)

    spec("works while nginx serves and requests HTTPS, and survives a reconnect", function()
        local tunnel = tunnel_at()
        local server = inside.start((([[
            location = /lock { content_by_lua_block {
                local zklock = require "zklock"
                local client = assert(zklock.shared("@TUNNEL@", { session_timeout = 30, tls = {
                    ca_file = "@FILES@/ours-ca.pem", cert_file = "@FILES@/client.pem", key_file = "@FILES@/client.key"
                } }))
                local lock = client:mutex("@PATH@-tls")
                for _ = 1, 20 do
                    assert(lock:acquire(20))
                    local socket = ngx.socket.tcp()
                    assert(socket:connect("127.0.0.1", @PORT2@))
                    assert(socket:sslhandshake(nil, "localhost", true))
                    assert(socket:send("GET / HTTP/1.0\r\n\r\n"))
                    assert(assert(socket:receive("*l")):find("200", 1, true))
                    socket:close()
                    assert(lock:release())
                end
                ngx.say(client:stats().grants)
            } }
            lua_ssl_trusted_certificate @FILES@/ours-ca.pem;
        ]]):gsub("@TUNNEL@", tunnel.address):gsub("@FILES@", made.directory)), { http = ([[
            server {
                listen 127.0.0.1:@PORT2@ ssl;
                ssl_certificate @FILES@/server.pem;
                ssl_certificate_key @FILES@/server.key;
                location / { return 200 "secure"; }
            }
        ]]):gsub("@FILES@", made.directory) })
        assert.same({ 200, "20" }, { server:get("/lock") })
        tunnel:stop()
        tunnel_at(tunnel.port)
        assert.same({ 200, "40" }, { server:get("/lock") })
        inside.nobody_complained(server)
    end)
end)
