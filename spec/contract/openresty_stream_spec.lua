--- Inside nginx's stream module: what each phase of a session may call, and that a lock ends with its session. The Lua inside nginx
-- is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local socket = require "socket"

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local nginx = require "spec.support.nginx"
local ports = require "spec.support.ports"
local program = require "spec.support.nginx_program"

local nobody_complained, remember = inside.nobody_complained, fixture.remember

if not program.has_stream() then
    describe("inside nginx's stream module #nginx", function()
        it("locks work", function()
            pending("needs an nginx with ngx_stream_lua, as OpenResty is; NGINX=… names it")
        end)
    end)
    return
end

--- The beginning of stream {}. The server at @PORT@ answers with the report that the client names.
local HEAD = [[
stream {
    lua_package_path "@ROOT@/lua/?.lua;@ROOT@/lua/?/init.lua;@ROOT@/?.lua;;";
    lua_package_cpath "@BUILD@/?.so;;";
    lua_check_client_abort on;
    lua_shared_dict results 1m;
    init_by_lua_block {
        local inside = require "spec.support.inside_nginx"
        inside.servers, inside.path = "@ZOOKEEPER@", "@PATH@"
    }
    init_worker_by_lua_block { assert(ngx.timer.at(0, function() end)) }
    server {
        listen 127.0.0.1:@PORT@;
        content_by_lua_block {
            require("spec.support.inside_nginx").report(assert(ngx.req.socket()):receive())
        }
    }
]]

--- Starts nginx with these servers in stream {}; @PORT2@ to @PORT6@ are free ports, which `server.ports` has by their numbers.
local function start(servers, http)
    local values = { ZOOKEEPER = fixture.servers(), PATH = fixture.path() }
    local free = {}
    for index = 2, 6 do
        free[index] = ports.free()
        values["PORT" .. index] = free[index]
    end
    local server = remember(nginx.start { main = HEAD .. servers .. "}", http = http or "", values = values })
    server.path, server.ports = values.PATH, free
    return server
end

--- Connects to a port, and sends a line if one is given.
local function connect(port, line)
    local connection = assert(socket.tcp())
    connection:settimeout(60)
    assert(connection:connect("127.0.0.1", port))
    assert(not line or connection:send(line .. "\n"))
    return connection
end

--- Returns all that a session answers to a line.
local function ask(port, line)
    local connection = connect(port, line)
    local text, _, part = connection:receive("*a")
    connection:close()
    return ((text or part):gsub("\n$", ""))
end

--- Waits until a phase has kept a report, and returns it.
local function await_report(server, name)
    return eventually(function()
        local text = ask(server.port, name)
        return text ~= "" and text
    end, 60, "the report " .. name)
end

describe("inside nginx's stream module #nginx", function()
    after_each(fixture.clean)

    it("locks work in every phase that can wait, and calls that need no wait work in all other phases", function()
        local server = start((([[
            server {
                listen 127.0.0.1:@PORT2@;
                content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    inside.held = assert(inside.mutex("@PATH@"):acquire { timeout = 20, keep = true })
                    ngx.say("held")
                }
            }
            server {
                listen 127.0.0.1:@PORT3@;
                preread_by_lua_block { PROBE("preread") }
                content_by_lua_block {
                    PROBE("content")
                    assert(ngx.timer.at(0, function() PROBE("timer") end))
                    ngx.say("done")
                }
                log_by_lua_block { PROBE("log") }
            }
            server { listen 127.0.0.1:@PORT4@; proxy_pass balanced; }
            upstream balanced {
                server 0.0.0.1:1;
                balancer_by_lua_block {
                    PROBE("balancer")
                    assert(require("ngx.balancer").set_current_peer("127.0.0.1", @PORT@))
                }
            }
            server { listen 127.0.0.1:@PORT5@; proxy_pass 127.0.0.1:@PORT6@; proxy_ssl on; }
            server {
                listen 127.0.0.1:@PORT6@ ssl;
                ssl_certificate DIR/cert;
                ssl_certificate_key DIR/key;
                ssl_certificate_by_lua_block { PROBE("ssl_cert") }
                content_by_lua_block { ngx.say("encrypted ", assert(ngx.req.socket()):receive()) }
            }
        ]]):gsub("PROBE", "require('spec.support.inside_nginx').probe"):gsub("DIR", inside.certificate())))
        local waiting, others = { "preread", "content", "timer", "ssl_cert" }, { "log", "balancer" }
        for _, phase in ipairs(others) do
            fixture.join(server.path .. "-" .. phase) -- a free lock may be granted before the call has to wait
        end
        assert.equal("held", ask(server.ports[2], ""))
        assert.equal("done", ask(server.ports[3], ""))
        ask(server.ports[4], "nothing")
        assert.equal("encrypted line", ask(server.ports[5], "line"))
        for _, phase in ipairs(waiting) do
            assert.equal(phase .. "; acquire true; release true; held true, token string", await_report(server, phase))
        end
        for _, phase in ipairs(others) do
            assert.equal(phase .. "; acquire phase; release not_held; held true, token string", await_report(server, phase))
            fixture.await_children(server.path .. "-" .. phase, 1) -- a refused acquisition has not stayed in the queue
        end
        nobody_complained(server)
    end)

    it("ssl_client_hello_by_lua waits where nginx can suspend the handshake, and answers phase elsewhere", function()
        local server = start((([[
            server { listen 127.0.0.1:@PORT2@; proxy_pass 127.0.0.1:@PORT3@; proxy_ssl on; }
            server {
                listen 127.0.0.1:@PORT3@ ssl;
                ssl_certificate DIR/cert;
                ssl_certificate_key DIR/key;
                ssl_client_hello_by_lua_block { require('spec.support.inside_nginx').probe("hello", 1) }
                content_by_lua_block { ngx.say("encrypted ", assert(ngx.req.socket()):receive()) }
            }
            server { listen 127.0.0.1:@PORT4@; proxy_pass 127.0.0.1:@PORT5@; proxy_ssl on; }
            server {
                listen 127.0.0.1:@PORT5@ ssl;
                ssl_certificate DIR/cert;
                ssl_certificate_key DIR/key;
                ssl_client_hello_by_lua_block { ngx.sleep(0.001) }
                content_by_lua_block { ngx.say("encrypted ", assert(ngx.req.socket()):receive()) }
            }
        ]]):gsub("DIR", inside.certificate())))
        fixture.join(server.path .. "-hello")
        assert.equal("encrypted line", ask(server.ports[2], "line"))
        local expected = ask(server.ports[4], "line") == "encrypted line" and "timeout" or "phase"
        assert.equal("ssl_client_hello; acquire " .. expected .. "; release not_held", await_report(server, "hello"))
    end)

    it("a lock ends with the session that acquired it, however that ends, and other sessions do not have it", function()
        local server = start([[
            server {
                listen 127.0.0.1:@PORT2@;
                content_by_lua_block {
                    local client = assert(ngx.req.socket())
                    local way = client:receive()
                    local locks = package.loaded.locks or {}
                    package.loaded.locks = locks
                    locks[way] = locks[way] or require("spec.support.inside_nginx").mutex("@PATH@-" .. way)
                    local lock = locks[way]
                    if client:receive() == "look" then
                        local _, _, code = lock:release()
                        return ngx.say(tostring(lock:held()), " ", code)
                    end
                    assert(lock:acquire(20))
                    ngx.say("held")
                    client:receive() -- until the client goes on, or hangs up
                    if way == "error" then
                        error("as the spec wants it")
                    elseif way == "exit" then
                        ngx.exit(ngx.OK)
                    end
                }
            }
            server {
                listen 127.0.0.1:@PORT3@;
                preread_by_lua_block { assert(require("spec.support.inside_nginx").mutex("@PATH@-proxied"):acquire(20)) }
                proxy_pass 127.0.0.1:@PORT4@;
            }
            server {
                listen 127.0.0.1:@PORT4@;
                content_by_lua_block {
                    ngx.say("held")
                    assert(ngx.req.socket()):receive("*a")
                }
            }
        ]])
        for _, way in ipairs { "return", "exit", "error", "hang_up", "proxied" } do
            local path = server.path .. "-" .. way
            local connection = connect(server.ports[way == "proxied" and 3 or 2], way .. "\nhold")
            assert.equal("held", connection:receive())
            local node = path .. "/" .. fixture.children(path)[1]
            if way ~= "proxied" then
                assert.equal("false not_held", ask(server.ports[2], way .. "\nlook"))
            end
            fixture.join(path)
            assert.truthy(fixture.observer():exists(node))
            if way == "hang_up" or way == "proxied" then
                connection:close()
            else
                connection:send("go on\n")
                connection:receive("*a")
                connection:close()
            end
            fixture.await_children(path, 1)
            assert.falsy(fixture.observer():exists(node))
        end
    end)

    it("a hold of with_lock ends with its light thread, although the session goes on", function()
        local server = start([[
            server {
                listen 127.0.0.1:@PORT2@;
                content_by_lua_block {
                    local client = assert(ngx.req.socket())
                    local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                    local thread = ngx.thread.spawn(lock.with_lock, lock, function()
                        ngx.say("held")
                        ngx.sleep(600)
                    end, 20)
                    client:receive()
                    assert(ngx.thread.kill(thread))
                    ngx.say("killed")
                    client:receive()
                }
            }
        ]])
        local session = connect(server.ports[2])
        assert.equal("held", session:receive())
        fixture.await_children(server.path, 1)
        session:send("kill it\n")
        assert.equal("killed", session:receive())
        fixture.await_children(server.path, 0)
        session:close()
        nobody_complained(server)
    end)

    it("UDP sessions hold locks, and resty.zklock is at hand", function()
        local server = start([[
            server {
                listen 127.0.0.2:@PORT2@ udp; # support.ports has a UDP socket at 127.0.0.1
                content_by_lua_block {
                    local resty_lock = require "resty.zklock"
                    assert(resty_lock.connect { servers = "@ZOOKEEPER@", prefix = "@PATH@" })
                    local client = assert(ngx.req.socket())
                    local lock = assert(resty_lock:new("locks", { timeout = 20 }))
                    assert(lock:lock(client:receive()))
                    client:send(tostring(lock:held()) .. " " .. lock:unlock())
                }
            }
        ]])
        local client = assert(socket.udp())
        client:settimeout(20)
        assert(client:setpeername("127.0.0.2", server.ports[2]))
        assert(client:send("a key"))
        assert.equal("true 1", client:receive(), server:log())
        client:close()
        fixture.await_children(server.path .. "/locks/a key", 0)
        nobody_complained(server)
    end)

    it("a client that hangs up while its session waits leaves the queue", function()
        local server = start([[
            server {
                listen 127.0.0.1:@PORT2@;
                preread_by_lua_block { require("spec.support.inside_nginx").mutex("@PATH@"):acquire(600) }
                return "";
            }
        ]])
        fixture.join(server.path)
        local connection = connect(server.ports[2]) -- nginx does not see the end behind bytes that the session has not read
        fixture.await_children(server.path, 2)
        connection:close()
        fixture.await_children(server.path, 1)
        nobody_complained(server)
    end)

    it("acquire with a callback works in phases that cannot wait", function()
        local server = start([[
            server {
                listen 127.0.0.1:@PORT2@;
                content_by_lua_block { ngx.say("done") }
                log_by_lua_block {
                    require("spec.support.inside_nginx").mutex("@PATH@"):acquire { timeout = 20, callback = function(held, message)
                        ngx.shared.results:set("answer", ngx.get_phase() .. " " .. tostring(held and held:held() or message))
                    end }
                }
            }
        ]])
        assert.equal("done", ask(server.ports[2], ""))
        assert.equal("timer true", await_report(server, "answer"))
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    --- A session holds from its first line to its second.
    local CYCLE = [[
        server {
            listen 127.0.0.1:@PORT2@;
            content_by_lua_block {
                local client = assert(ngx.req.socket())
                client:receive()
                local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                assert(lock:acquire(60))
                ngx.say("held")
                client:receive()
                assert(lock:held())
                assert(lock:release())
                ngx.say("released")
            }
        }
    ]]

    it("all sessions of a worker share a client, and those of http have another one", function()
        local server = start(CYCLE, [[
            init_by_lua_block { require("spec.support.inside_nginx").servers = "@ZOOKEEPER@" }
            server {
                listen 127.0.0.1:@PORT3@;
                location / { content_by_lua_block { require("spec.support.inside_nginx").cycle() } }
            }
        ]])
        local before = inside.sessions()
        for _ = 1, 3 do
            assert.equal("held\nreleased", ask(server.ports[2], "hold\ngo on"))
        end
        assert.equal(before + 1, inside.sessions())
        for _ = 1, 3 do
            assert.same({ 200, "held" }, { server:ask("/?path=" .. server.path, server.ports[3]):answer() })
        end
        assert.equal(before + 2, inside.sessions())
        nobody_complained(server)
        server:quit()
        eventually(function()
            return inside.sessions() == before
        end)
        nobody_complained(server)
    end)

    it("a reload lets a session that holds finish, and the next session is served by the new worker", function()
        local server = start(CYCLE)
        local first = connect(server.ports[2], "hold")
        assert.equal("held", first:receive())
        local old = server:workers()[1]
        local finish = server:begin_reload()
        eventually(function()
            return server:log():find("gracefully shutting down", 1, true) -- from now on only the new worker accepts sessions
        end)
        local second = connect(server.ports[2], "hold")
        fixture.await_children(server.path, 2)
        assert(first:send("go on\n"))
        assert.equal("released", first:receive())
        assert.equal("held", second:receive())
        finish()
        assert.not_equal(old, server:workers()[1])
        assert(second:send("go on\n"))
        assert.equal("released", second:receive())
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)
end)

describe("the relay of examples/device #nginx", function()
    local device, path

    --- Starts a machine with the relay.
    local function start_relay(patience)
        return remember(nginx.start {
            template = cluster.root .. "/examples/device/nginx.conf",
            values = { ZOOKEEPER = fixture.servers(), PATH = path, PATIENCE = patience, DEVICE_PORT = device.ports[2] }
        })
    end

    --- Starts the device. It answers each line with the number of sessions that it has at that moment.
    local function start_device()
        device, path = start([[
            server {
                listen 127.0.0.1:@PORT2@;
                content_by_lua_block {
                    local client, results = assert(ngx.req.socket()), ngx.shared.results
                    results:incr("sessions", 1, 0)
                    while client:receive() do
                        ngx.say(results:get("sessions"))
                    end
                    results:incr("sessions", -1)
                }
            }
        ]]), fixture.path()
    end

    after_each(fixture.clean)

    it("lets one session at a time through, over all machines", function()
        start_device()
        local relays = { start_relay(60), start_relay(60), start_relay(0.2) }
        local sessions = {}
        for index = 1, 6 do
            sessions[index] = connect(relays[index % 2 + 1].port, "how many")
        end
        for turn = 1, 6 do
            local answering = socket.select(sessions, nil, 60)[1]
            assert.equal("1", answering:receive())
            if turn == 1 then
                assert.truthy(ask(relays[3].port, ""):find("^the device is busy: could not acquire"))
            end
            answering:send("again\n")
            assert.equal("1", answering:receive())
            for index, session in ipairs(sessions) do
                if session == answering then
                    table.remove(sessions, index):close()
                end
            end
        end
        fixture.await_children(path, 0)
        for index = 1, 3 do
            nobody_complained(relays[index])
        end
    end)

    it("ends the session if the lock is lost", function()
        start_device()
        local relay = start_relay(60)
        local session = connect(relay.port, "how many")
        assert.equal("1", session:receive())
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        assert.equal("closed", select(2, session:receive()))
        session:close()
    end)
end)
