--- Inside nginx: what each phase of a request may call, and the client that a worker's requests share. The Lua inside nginx is
-- always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local proxy = require "spec.support.proxy"

local certificate, cycle, nobody_complained, start = inside.certificate, inside.cycle, inside.nobody_complained, inside.start
local remember = fixture.remember

describe("inside nginx #nginx", function()
    after_each(fixture.clean)

    it("locks work in every phase that can wait, and calls that need no wait work in all other phases", function()
        local directory = certificate()
        local probe = "require('spec.support.inside_nginx').probe"
        local server = start(([[
            location = /hold {
                content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    inside.held = assert(inside.mutex("@PATH@"):acquire { timeout = 20, keep = true })
                    ngx.say("held")
                }
            }
            location = /phases {
                set_by_lua_block $nothing { PROBE("set") return "" }
                rewrite_by_lua_block { PROBE("rewrite") }
                access_by_lua_block { PROBE("access") }
                content_by_lua_block {
                    PROBE("content")
                    assert(ngx.timer.at(0, function() PROBE("timer") end))
                    ngx.say("done")
                }
                header_filter_by_lua_block { PROBE("header_filter") }
                body_filter_by_lua_block { PROBE("body_filter") }
                log_by_lua_block { PROBE("log") }
            }
            location = /balancer { proxy_pass http://balanced/plain; }
            location = /ssl { proxy_pass https://127.0.0.1:@PORT2@; proxy_ssl_session_reuse off; }
        ]]):gsub("PROBE", probe), { http = ([[
            upstream balanced {
                server 0.0.0.1;
                balancer_by_lua_block {
                    PROBE("balancer")
                    assert(require("ngx.balancer").set_current_peer("127.0.0.1", @PORT@))
                }
            }
            server {
                listen 127.0.0.1:@PORT2@ ssl;
                ssl_certificate DIR/cert;
                ssl_certificate_key DIR/key;
                ssl_certificate_by_lua_block { PROBE("ssl_cert") }
                server_rewrite_by_lua_block { PROBE("server_rewrite") }
                location / { return 200 "encrypted"; }
            }
        ]]):gsub("PROBE", probe):gsub("DIR", directory) })
        local waiting = { "server_rewrite", "rewrite", "access", "content", "timer", "ssl_cert" }
        local others = { "set", "header_filter", "body_filter", "log", "balancer" }
        for _, phase in ipairs(others) do
            fixture.join(server.path .. "-" .. phase) -- a free lock may be granted before the call has to wait
        end
        assert.equal(200, (server:get("/hold")))
        assert.equal(200, (server:get("/phases")))
        server:get("/balancer")
        assert.equal(200, (server:get("/ssl")))
        for _, phase in ipairs(waiting) do
            assert.equal(phase .. "; acquire true; release true; held true, token string", inside.await_report(server, phase))
        end
        for _, phase in ipairs(others) do
            assert.equal(phase .. "; acquire phase; release not_held; held true, token string", inside.await_report(server, phase))
        end
        -- A refused acquisition has not stayed in a queue.
        fixture.await_children(server.path .. "-log", 1)
        nobody_complained(server)
    end)

    it("ssl_client_hello_by_lua waits where nginx can suspend the handshake, and answers phase elsewhere", function()
        local locations, hosts = {}, {}
        for name, lua in pairs { sleep = "ngx.sleep(0.001)", wait = "require('spec.support.inside_nginx').probe('hello', 1)" } do
            locations[#locations + 1] = ([[
                location = /NAME { proxy_pass https://unix:@DIRECTORY@/NAME; proxy_ssl_session_reuse off; }
            ]]):gsub("NAME", name)
            hosts[#hosts + 1] = ([[
                server {
                    listen unix:@DIRECTORY@/NAME ssl;
                    ssl_certificate DIR/cert;
                    ssl_certificate_key DIR/key;
                    ssl_client_hello_by_lua_block { LUA }
                    location / { return 200 "encrypted"; }
                }
            ]]):gsub("%f[%w@]%u+%f[^%w@]", { NAME = name, LUA = lua, DIR = certificate() })
        end
        local server = start(table.concat(locations), { http = table.concat(hosts) })
        fixture.join(server.path .. "-hello")
        assert.equal(200, (server:get("/wait")))
        local expected = server:get("/sleep") == 200 and "timeout" or "phase"
        assert.equal("ssl_client_hello; acquire " .. expected .. "; release not_held", inside.await_report(server, "hello"))
    end)

    it("the phases of TLS sessions call what needs no wait, and the first waits where the handshake can be suspended", function()
        local probe = "require('spec.support.inside_nginx').probe"
        local server = start([[
            location = /ssl {
                proxy_pass https://127.0.0.1:@PORT2@;
                proxy_ssl_protocols TLSv1.2;
            }
        ]], { head = ([[
            ssl_session_fetch_by_lua_block { PROBE("fetch", 1) }
            ssl_session_store_by_lua_block { PROBE("store", 1) }
        ]]):gsub("PROBE", probe) .. inside.HEAD, http = ([[
            server {
                listen 127.0.0.1:@PORT2@ ssl;
                ssl_protocols TLSv1.2;
                ssl_session_tickets off;
                ssl_certificate DIR/cert;
                ssl_certificate_key DIR/key;
                location / { return 200 "encrypted"; }
            }
        ]]):gsub("DIR", certificate()) })
        for _, phase in ipairs { "fetch", "store" } do
            fixture.join(server.path .. "-" .. phase)
        end
        for _ = 1, 2 do -- the second connection resumes the session of the first one
            assert.same({ 200, "encrypted" }, { server:get("/ssl") })
        end
        assert.equal("ssl_session_store; acquire phase; release not_held", inside.await_report(server, "store"))
        local fetched = inside.await_report(server, "fetch")
        assert.truthy(fetched == "ssl_session_fetch; acquire phase; release not_held"
            or fetched == "ssl_session_fetch; acquire timeout; release not_held", fetched)
        nobody_complained(server)
    end)

    it("connect and waits are refused in exit_worker_by_lua", function()
        local server = start(nil, { head = [[
            exit_worker_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local _, _, connecting = require("zklock").connect(inside.servers)
                local _, _, sharing = require("zklock").shared(inside.servers)
                local _, _, acquiring = inside.kept:acquire(1)
                ngx.log(ngx.NOTICE, "exits: ", connecting, " ", sharing, " ", acquiring, " ", tostring(inside.kept:held()))
            }
        ]] .. inside.HEAD .. [[
            location = /keep { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                inside.kept = inside.mutex("@PATH@")
                assert(inside.kept:acquire { timeout = 20, keep = true })
            } }
        ]] })
        assert.equal(200, (server:get("/keep")))
        server:quit()
        assert.truthy(server:log():find("exits: phase phase closed false", 1, true), server:log():match("exits: [^\n]*"))
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("a phase that this version does not know may wait if nginx can suspend it", function()
        -- As a later nginx would have it: under names that are not in any list.
        local server = start([[
            location = /new {
                access_by_lua_block { require("spec.support.inside_nginx").probe("new") }
                content_by_lua_block { ngx.say("done") }
                log_by_lua_block { require("spec.support.inside_nginx").probe("log") }
            }
        ]], { head = inside.HEAD:gsub('local inside = require "spec', [[
            local get_phase, names = ngx.get_phase, { access = "new", log = "new_log" }
            ngx.get_phase = function()
                local phase = get_phase()
                return names[phase] or phase
            end
            %0]]) })
        fixture.join(server.path .. "-log")
        assert.equal(200, (server:get("/new")))
        assert.equal("new; acquire true; release true", inside.await_report(server, "new"))
        assert.equal("new_log; acquire phase; release not_held", inside.await_report(server, "log"))
        nobody_complained(server)
    end)

    it("a thread of ngx.run_worker_thread locks with wait = \"blocking\", and is told so without it", function()
        local server = start([[
            location = /thread { content_by_lua_block {
                local wait = ngx.var.arg_wait
                local ran, result = ngx.run_worker_thread("pool", "spec.support.inside_thread", "cycle",
                    "@ZOOKEEPER@", "@PATH@", wait)
                ngx.say(tostring(ran), " ", tostring(result))
            } }
        ]], { main = "thread_pool pool threads=1;" })
        for _ = 1, 2 do
            assert.same({ 200, "true true" }, { server:get("/thread?wait=blocking") })
        end
        for _, query in ipairs { "", "?wait=openresty" } do
            local _, text = server:get("/thread" .. query)
            assert.truthy(text:find('option \'wait\': in ngx.run_worker_thread it must be "blocking"', 1, true), text)
        end
        nobody_complained(server)
    end)

    it("threads of ngx.run_worker_thread that use zklock at the same time take nothing from the worker", function()
        local server = start([[
            location = /thread { content_by_lua_block {
                local ran, result = ngx.run_worker_thread("pool", "spec.support.inside_thread", "cycle",
                    "@ZOOKEEPER@", "@PATH@", "blocking")
                ngx.say(tostring(ran), " ", tostring(result))
            } }
            location = /call { content_by_lua_block {
                local done = require("ngx.semaphore").new(0)
                local called, message, code = require("spec.support.inside_nginx").mutex("@PATH@-call"):acquire {
                    timeout = 20, callback = function(held) if held then done:post() end end
                }
                ngx.say(called and tostring(done:wait(20)) or code .. " " .. message)
            } }
        ]], { main = "thread_pool pool threads=3;" })
        local holder = fixture.join(server.path)
        local requests = {}
        for index = 1, 3 do
            requests[index] = server:ask("/thread")
        end
        fixture.await_children(server.path, 4)
        assert(fixture.observer():delete(holder))
        for index = 1, 3 do
            assert.same({ 200, "true true" }, { requests[index]:answer() })
        end
        assert.same({ 200, "true" }, { server:get("/call") })
        nobody_complained(server)
    end)

    it("a lock acquired in one phase is released in another phase that cannot wait", function()
        local server = start([[
            location = /span {
                access_by_lua_block {
                    ngx.ctx.lock = require("spec.support.inside_nginx").mutex("@PATH@")
                    assert(ngx.ctx.lock:acquire(20))
                }
                content_by_lua_block { ngx.say(tostring(ngx.ctx.lock:held())) }
                log_by_lua_block {
                    local ok, _, code = ngx.ctx.lock:release { wait = false }
                    ngx.shared.results:set("release", ok and "true" or code)
                }
            }
        ]])
        for _ = 1, 3 do
            assert.same({ 200, "true" }, { server:get("/span") })
        end
        eventually(function()
            return select(2, server:get("/report?name=release")) == "true"
        end)
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("connect is refused in init_by_lua, where the client would belong to the master, with a hint where to call it", function()
        local server = start(nil, { head = inside.HEAD:gsub('local inside = require "spec', [[
            local client, message, code = require("zklock").connect("@ZOOKEEPER@")
            ngx.shared.results:set("init", tostring(client) .. " " .. code .. " " .. message)
            %0]]) })
        local _, text = server:get("/report?name=init")
        assert.truthy(text:find("^nil phase "), text)
        assert.truthy(text:find("init_worker_by_lua", 1, true), text)
        assert.same({ 200, "held" }, { cycle(server):answer() })
    end)

    it("connect returns at once in init_worker_by_lua, in state connecting, and the client is connected later", function()
        local link = remember(proxy.start(fixture.servers()))
        link:refuse() -- otherwise it may be connected before its state is read
        local server = start([[
            location = /state { content_by_lua_block {
                local client = package.loaded.early
                local lock = client:mutex("@PATH@")
                assert(lock:acquire(20))
                ngx.say((client:state()))
                lock:release()
            } }
        ]], { servers = link.address, head = [[
            init_worker_by_lua_block {
                local client = assert(require("zklock").connect("@ZOOKEEPER@", { connect_timeout = 20 }))
                ngx.shared.results:set("init_worker", (client:state()))
                package.loaded.early = client
            }
        ]] .. inside.HEAD })
        assert.same({ 200, "connecting" }, { server:get("/report?name=init_worker") })
        link:accept()
        assert.same({ 200, "connected" }, { server:get("/state") })
        nobody_complained(server)
    end)

    it("a worker has one shared client for a server list and options", function()
        local server = start([[
            location = /shared { content_by_lua_block {
                local zklock = require "zklock"
                local function shared(options)
                    return assert(zklock.shared("@ZOOKEEPER@", options))
                end
                local first = shared { session_timeout = 7, log = function() end }
                assert(first == shared { session_timeout = 7, log = function() end, connect_timeout = 3 })
                assert(first ~= shared { session_timeout = 8 })
                assert(shared() == shared())
                first:close(10)
                local second = shared { session_timeout = 7 }
                assert(first ~= second)
                assert(second:mutex("@PATH@"):acquire(20))
                ngx.say("right")
            } }
        ]])
        assert.same({ 200, "right" }, { server:get("/shared") })
        nobody_complained(server)
    end)

    it("a try that needs no request is granted in phases that cannot wait", function()
        local server = start([[
            location = /linger {
                content_by_lua_block {
                    local lock = require("spec.support.inside_nginx").mutex("@PATH@", { handoff = 16, linger = 60 })
                    assert(lock:acquire(20))
                    assert(lock:release())
                    ngx.ctx.lock = lock
                    ngx.say("lingers")
                }
                log_by_lua_block {
                    local lock = ngx.ctx.lock
                    local got, message = lock:try_acquire()
                    ngx.shared.results:set("try", got and tostring(lock:held()) or message)
                    lock:release { wait = false }
                }
            }
        ]])
        for _ = 1, 5 do
            assert.same({ 200, "lingers" }, { server:get("/linger") })
            assert.same({ 200, "true" }, { server:get("/report?name=try") })
        end
        nobody_complained(server)
    end)
end)
