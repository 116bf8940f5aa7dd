--- Inside nginx: clients with TLS, in workers that use OpenSSL themselves. The Lua inside nginx is always LuaJIT, so these specs
-- run only once.

if not rawget(_G, "jit") then
    return
end

local certificates = require "spec.support.certificates"
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

    it("works while nginx serves and requests HTTPS, and survives a reconnect", function()
        if not made then
            return pending("needs stunnel4 and openssl")
        end
        local lines = {
            "cert = " .. made:file "server.pem", "key = " .. made:file "server.key", "CAfile = " .. made:file "ours-ca.pem",
            "verifyChain = yes"
        }
        local tunnel = fixture.remember(stunnel.start(fixture.servers(), lines))
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
        fixture.remember(stunnel.start(fixture.servers(), lines, tunnel.port))
        assert.same({ 200, "40" }, { server:get("/lock") })
        inside.nobody_complained(server)
    end)
end)
