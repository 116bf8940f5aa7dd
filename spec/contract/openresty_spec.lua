--- zklock inside nginx, whose Lua is LuaJIT whatever Lua runs the specs: once is enough.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local docstrings = require "tools.docstrings"
local eventually = require "spec.support.eventually"
local exposition = require "spec.support.exposition"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local nginx = require "spec.support.nginx"
local proxy = require "spec.support.proxy"
local seckill = require "spec.support.seckill"

local clean, cycle, nobody_complained = inside.clean, inside.cycle, inside.nobody_complained
local remember, sessions, start = inside.remember, inside.sessions, inside.start

describe("inside nginx #nginx", function()
    after_each(clean)

    it("locks work in every phase that can wait, and what needs no waiting works in all others", function()
        local directory = files.make_directory()
        local _, status = cluster.run({ "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
            "-keyout", directory .. "/key", "-out", directory .. "/cert" })
        assert.equal(0, status)
        local probe = "require('spec.support.inside_nginx').probe"
        local server = start(([[
            location = /hold {
                content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    inside.held = inside.mutex("@PATH@")
                    assert(inside.held:acquire { timeout = 20, keep = true })
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
                ssl_client_hello_by_lua_block { PROBE("ssl_client_hello") }
                ssl_certificate_by_lua_block { PROBE("ssl_cert") }
                location / { return 200 "encrypted"; }
            }
        ]]):gsub("PROBE", probe):gsub("DIR", directory) })
        local waiting = { "rewrite", "access", "content", "timer", "ssl_cert" }
        local others = { "set", "header_filter", "body_filter", "log", "balancer", "ssl_client_hello" }
        for _, phase in ipairs(others) do
            fixture.join(server.path .. "-" .. phase) -- a free lock may be granted before anybody has to wait
        end
        assert.equal(200, (server:get("/hold")))
        assert.equal(200, (server:get("/phases")))
        server:get("/balancer")
        assert.equal(200, (server:get("/ssl")))
        cluster.run({ "rm", "-rf", directory })
        local function report(name)
            local outcome = eventually(function()
                local _, text = server:get("/report?name=" .. name)
                return text ~= "" and text
            end, 20, "the probe in " .. name)
            return outcome
        end
        for _, phase in ipairs(waiting) do
            assert.equal(phase .. "; acquire true; release true; held true, token string", report(phase))
        end
        for _, phase in ipairs(others) do
            assert.equal(phase .. "; acquire phase; release not_held; held true, token string", report(phase))
        end
        -- What was refused has not stayed in a queue.
        fixture.await_children(server.path .. "-log", 1)
        nobody_complained(server)
    end)

    it("a lock acquired in one phase is released in another that cannot wait", function()
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

    it("locks that a module keeps are acquired by each request for itself #nginxasan", function()
        local server = start([[
            location = /use { content_by_lua_block { require("spec.support.inside_nginx").use_kept() } }
        ]])
        for _, kind in ipairs({ "mutex", "read", "write", "semaphore", "multi" }) do
            for _, reentrant in ipairs({ "false", "true" }) do
                for _, way in ipairs({ "acquire", "with_lock" }) do
                    local requests, place = {}, ("/use?kind=%s&reentrant=%s&way=%s"):format(kind, reentrant, way)
                    for index = 1, 4 do
                        requests[index] = server:ask(place)
                    end
                    local most
                    for index = 1, 4 do
                        local status, body = requests[index]:answer()
                        assert.equal(200, status, place)
                        most = body:match("^(%d+) not_held$")
                        assert.truthy(most, body)
                    end
                    assert.equal(kind ~= "read", most == "1", place .. ": " .. most)
                end
            end
        end
        nobody_complained(server)
    end)

    it("a request has what it acquired by a module's lock in all its phases, and no other request has it", function()
        local server = start([[
            location = /span {
                access_by_lua_block {
                    local args = ngx.req.get_uri_args()
                    local inside = require "spec.support.inside_nginx"
                    ngx.ctx.lock = inside.kept_lock(args.kind, args.reentrant == "true")
                    assert(ngx.ctx.lock:acquire(20))
                }
                content_by_lua_block {
                    local args, lock = ngx.req.get_uri_args(), ngx.ctx.lock
                    assert(lock:held())
                    local again, _, code = lock:acquire(20)
                    assert(args.reentrant == "true" and again or code == "deadlock", code)
                    ngx.shared.results:set("inside", "true")
                    while not ngx.shared.results:get("go on") do ngx.sleep(0.01) end
                    assert(not again or lock:release())
                    ngx.say(tostring(lock:held()))
                }
                log_by_lua_block {
                    local held = ngx.ctx.lock:held()
                    local ok, _, code = ngx.ctx.lock:release { wait = false }
                    ngx.shared.results:set("span", tostring(held) .. " " .. (ok and "true" or code))
                }
            }
            location = /other {
                content_by_lua_block {
                    local args = ngx.req.get_uri_args()
                    local lock = require("spec.support.inside_nginx").kept_lock(args.kind, args.reentrant == "true")
                    local words = {}
                    for index, answer in ipairs {
                        { lock:try_acquire() }, { lock:acquire(0.05) }, { lock:release() }, { lock:release { wait = false } }
                    } do
                        words[index] = answer[3] or tostring(answer[1] and true)
                    end
                    ngx.shared.results:set("go on", true)
                    ngx.say(table.concat(words, " "), " ", tostring(lock:held()))
                }
                log_by_lua_block {
                    local args = ngx.req.get_uri_args()
                    local lock = require("spec.support.inside_nginx").kept_lock(args.kind, args.reentrant == "true")
                    local ok, _, code = lock:release { wait = false }
                    ngx.shared.results:set("other", ok and "true" or code)
                }
            }
            location = /stranger {
                content_by_lua_block {
                    local args = ngx.req.get_uri_args()
                    local lock = require("spec.support.inside_nginx").kept_lock(args.kind, args.reentrant == "true")
                    local _, _, code = lock:release()
                    ngx.say(tostring(lock:held()), " ", code, " ", tostring(lock:cancel()))
                }
                log_by_lua_block {
                    local args = ngx.req.get_uri_args()
                    require("spec.support.inside_nginx").kept_lock(args.kind, args.reentrant == "true"):release { wait = false }
                }
            }
            location = /forget { content_by_lua_block { ngx.shared.results:flush_all() ngx.say("forgotten") } }
        ]])
        for _, kind in ipairs({ "mutex", "write", "semaphore", "multi" }) do
            for _, reentrant in ipairs({ "false", "true" }) do
                local arguments = ("?kind=%s&reentrant=%s"):format(kind, reentrant)
                local span = server:ask("/span" .. arguments)
                eventually(function()
                    return select(2, server:get("/report?name=inside")) == "true"
                end)
                assert.same({ 200, "false not_held false" }, { server:get("/stranger" .. arguments) })
                assert.same({ 200, "timeout timeout not_held not_held false" }, { server:get("/other" .. arguments) })
                assert.same({ 200, "true" }, { span:answer() })
                for name, outcome in pairs({ span = "true true", other = "not_held" }) do
                    eventually(function()
                        return select(2, server:get("/report?name=" .. name)) == outcome
                    end, 10, name .. arguments)
                end
                assert.same({ 200, "forgotten" }, { server:get("/forget") })
            end
        end
        nobody_complained(server)
    end)

    it("light threads of a request acquire each for itself; one that never does may use what its request holds", function()
        local server = start([[
            location = /threads { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local lock = inside.kept_lock("mutex", ngx.var.arg_reentrant == "true")
                local within, most = 0, 0
                local function turn()
                    assert(lock:with_lock(function()
                        within = within + 1
                        most = math.max(most, within)
                        ngx.sleep(0.01)
                        within = within - 1
                    end, 20))
                end
                local threads = {}
                for index = 1, 3 do
                    threads[index] = ngx.thread.spawn(turn)
                end
                for index = 1, 3 do
                    assert(ngx.thread.wait(threads[index]))
                end
                assert(lock:acquire(20))
                local code = select(3, coroutine.wrap(function() return lock:acquire(20) end)())
                local _, held, released = ngx.thread.wait(ngx.thread.spawn(function()
                    return lock:held(), (lock:release())
                end))
                ngx.say(most, " ", code, " ", tostring(held), " ", tostring(released), " ", tostring(lock:held()))
            } }
        ]])
        for _, reentrant in ipairs({ "false", "true" }) do
            assert.same({ 200, "1 deadlock true true false" }, { server:get("/threads?reentrant=" .. reentrant) })
        end
        nobody_complained(server)
    end)

    it("connect is refused in init_by_lua, where it would belong to the master, with a word about where to call it", function()
        local server = start(nil, { head = inside.HEAD:gsub('local inside = require "spec', [[
            local client, message, code = require("zklock").connect("@ZOOKEEPER@")
            ngx.shared.results:set("init", tostring(client) .. " " .. code .. " " .. message)
            %0]]) })
        local _, text = server:get("/report?name=init")
        assert.truthy(text:find("^nil phase "), text)
        assert.truthy(text:find("init_worker_by_lua", 1, true), text)
        assert.same({ 200, "held" }, { cycle(server):answer() })
    end)

    it("connect comes back at once in init_worker_by_lua, connecting, and is connected later", function()
        local link = remember(proxy.start(fixture.servers()))
        link:refuse() -- else it may be connected before it is asked for its state
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

    it("a request that its client aborts while it waits leaves the queue #nginxasan", function()
        local server = start()
        local holder = fixture.join(server.path)
        local waiting = {}
        for index = 1, 5 do
            waiting[index] = cycle(server)
        end
        fixture.await_children(server.path, 6)
        for index = 1, 4 do
            waiting[index]:abort()
        end
        fixture.await_children(server.path, 2)
        assert(fixture.observer():delete(holder))
        assert.same({ 200, "held" }, { waiting[5]:answer() })
        fixture.await_children(server.path, 0)
    end)

    it("a request whose on_abort cancels leaves the queue at once, and goes on #nginxasan", function()
        local server = start([[
            location = /cancels { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                assert(ngx.on_abort(function() lock:cancel() end))
                local _, _, code = lock:acquire()
                ngx.shared.results:set("cancels", code)
            } }
        ]])
        fixture.join(server.path)
        local request = server:ask("/cancels")
        fixture.await_children(server.path, 2)
        request:abort()
        eventually(function()
            return select(2, server:get("/report?name=cancels")) == "cancelled"
        end)
        fixture.await_children(server.path, 1)
    end)

    it("a light thread that is killed while it waits leaves the queue, and its lock can be acquired again #nginxasan", function()
        local server = start([[
            location = /kill { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local lock = inside.mutex("@PATH@")
                local thread = ngx.thread.spawn(lock.acquire, lock)
                ngx.say("waiting")
                ngx.flush(true)
                while inside.mutex("@PATH@"):contenders()[2] == nil do ngx.sleep(0.01) end
                assert(ngx.thread.kill(thread))
                while inside.mutex("@PATH@"):contenders()[2] ~= nil do ngx.sleep(0.01) end
                local _, _, code = lock:acquire(0.05)
                ngx.say(code)
            } }
            location = /operations { content_by_lua_block {
                local client = require("spec.support.inside_nginx").client()
                local all = client:multi { client:mutex("@PATH@"), client:mutex("@PATH@-other") }
                local thread = ngx.thread.spawn(all.acquire, all)
                while client:mutex("@PATH@"):contenders()[2] == nil do ngx.sleep(0.01) end
                assert(ngx.thread.kill(thread))
                ngx.say("killed")
            } }
        ]])
        fixture.join(server.path)
        local status, body = server:get("/kill")
        assert.equal(200, status)
        assert.equal("waiting\ntimeout", body)
        fixture.await_children(server.path, 1)
        assert.same({ 200, "killed" }, { server:get("/operations") })
        fixture.await_children(server.path, 1)
        fixture.await_children(server.path .. "-other", 0)
        nobody_complained(server)
    end)

    it("a light thread that is killed while it waits for the last of several locks gives back the others #nginxasan", function()
        local server = start([[
            location = /kill { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local client = inside.client()
                local first, last = client:mutex("@PATH@-a"), client:mutex("@PATH@-b")
                inside.all = client:multi { first, last } -- kept, as is the thread, so that no collector helps
                inside.kept = ngx.thread.spawn(inside.all.acquire, inside.all)
                while last:contenders()[2] == nil or not first:held() do ngx.sleep(0.01) end
                assert(ngx.thread.kill(inside.kept))
                while first:held() do ngx.sleep(0.01) end
                local _, _, code = inside.all:acquire(0.05)
                ngx.say(code)
            } }
            location = /passes { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local client = inside.client()
                local own, first, last = client:mutex("@PATH@-d"), client:mutex("@PATH@-c"), client:mutex("@PATH@-d")
                assert(own:acquire(20))
                inside.all = client:multi { first, last }
                inside.kept = ngx.thread.spawn(inside.all.acquire, inside.all)
                while client._attempts[last] == nil or not first:held() do ngx.sleep(0.01) end
                assert(own:release { wait = false }) -- a hand-over, here and now
                client:pump()
                assert(ngx.thread.kill(inside.kept))
                ngx.say("killed")
            } }
        ]])
        fixture.join(server.path .. "-b")
        assert.same({ 200, "timeout" }, { server:get("/kill") })
        fixture.await_children(server.path .. "-a", 0)
        fixture.await_children(server.path .. "-b", 1)
        assert.same({ 200, "killed" }, { server:get("/passes") })
        fixture.await_children(server.path .. "-c", 0)
        fixture.await_children(server.path .. "-d", 0)
        nobody_complained(server)
    end)

    it("a killed waiter to whom the lock is granted passes it on #nginxasan", function()
        local server = start()
        local holder = fixture.join(server.path)
        local first = cycle(server)
        fixture.await_children(server.path, 2)
        local second = cycle(server)
        fixture.await_children(server.path, 3)
        first:abort()
        assert(fixture.observer():delete(holder))
        assert.same({ 200, "held" }, { second:answer() })
    end)

    it("a waiter that is killed between its grant and its next line passes the lock on #nginxasan", function()
        local server = start([[
            location = /kill { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local client = inside.client()
                local first, second = client:mutex("@PATH@"), client:mutex("@PATH@")
                assert(first:acquire(20))
                inside.kept = ngx.thread.spawn(second.acquire, second) -- kept, so that no collector helps
                assert(first:release { wait = false }) -- a hand-over, here and now
                client:pump()
                assert(ngx.thread.kill(inside.kept))
                ngx.say("killed")
            } }
        ]])
        assert.same({ 200, "killed" }, { server:get("/kill") })
        assert.same({ 200, "held" }, { cycle(server):answer() })
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("waiters that are gone are passed over where one node serves many requests #nginxasan", function()
        local server = start([[
            location = /kill { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@", { handoff = 16 })
                local thread = ngx.thread.spawn(lock.acquire, lock)
                ngx.say(tostring(ngx.thread.kill(thread)))
            } }
        ]])
        local holding = inside.hold(server, "&handoff=16")
        fixture.await_children(server.path, 1)
        local waiting = {}
        for index = 1, 10 do
            waiting[index] = cycle(server, 0, "&handoff=16")
            assert.same({ 200, "1" }, { server:get("/kill") })
        end
        eventually(function()
            return select(2, server:get("/waiters")) == "10"
        end)
        for index = 1, 5 do
            waiting[index]:abort()
        end
        inside.go(server)
        assert.same({ 200, "held" }, { holding:answer() })
        for index = 6, 10 do
            assert.same({ 200, "held" }, { waiting[index]:answer() })
        end
        fixture.await_children(server.path, 0)
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

    -- nginx drops a timer that comes due while too many run, and says so to nobody but the error log. When that befell the pump,
    -- whoever waited was not told of anything any more.
    it("a lock is granted although nginx has dropped the timers of the pump", function()
        local server = start([[
            location = /fill {
                content_by_lua_block {
                    local begun = require("ngx.semaphore").new(0)
                    for _ = 1, 2 do
                        assert(ngx.timer.at(0, function()
                            begun:post()
                            while not package.loaded.enough do ngx.sleep(0.01) end
                        end))
                        assert(begun:wait(20))
                    end
                    ngx.say("filled")
                }
            }
            location = /enough { content_by_lua_block { package.loaded.enough = true } }
        ]], { head = "lua_max_running_timers 2;\n" .. inside.HEAD })
        assert.same({ 200, "filled" }, { server:get("/fill") })
        assert.same({ 200, "held" }, { cycle(server, 0, "&timeout=40"):answer() })
        local dropped = {}
        for _, line in ipairs(server:complaints()) do
            assert.truthy(line:find("lua_max_running_timers", 1, true), line)
            dropped[#dropped + 1] = line
        end
        assert.is_true(#dropped > 0)
        server:get("/enough")
        assert.same({ 200, "held" }, { cycle(server, 0, "&timeout=40"):answer() })
    end)

    --- Locks of every sort of owner, in a worker that is about to go.
    local OWNERS = [[
        location = /park { content_by_lua_block {
            local inside = require "spec.support.inside_nginx"
            package.loaded.parked = inside.mutex("@PATH@-parked")
            assert(package.loaded.parked:acquire { timeout = 20, keep = true })
            ngx.say("parked")
        } }
        location = /lead { content_by_lua_block {
            assert(ngx.timer.at(0, function()
                local lock = require("spec.support.inside_nginx").mutex("@PATH@-leader")
                assert(lock:acquire())
                while lock:held() do ngx.sleep(0.05) end
            end))
            ngx.say("leads")
        } }
    ]]

    --- Lets a worker have a parked lock, a timer that leads, a timer that waits for ever, and a request that holds and one that
    -- waits; `leave` ends it. The locks pass on, the requests are served.
    local function leaves_well(server, leave)
        server:get("/park")
        local session = fixture.session_of(server.path .. "-parked")
        server:get("/lead")
        fixture.await_children(server.path .. "-leader", 1)
        server:get("/lead")
        fixture.await_children(server.path .. "-leader", 2)
        local holding = inside.hold(server)
        fixture.await_children(server.path, 1)
        local waiting = cycle(server)
        fixture.await_children(server.path, 2)
        local client = fixture.client({ session_timeout = 60 })
        leave()
        assert(client:mutex(server.path .. "-parked"):acquire(100))
        assert(client:mutex(server.path .. "-leader"):acquire(100))
        fixture.assert_not_expired(session)
        inside.go(server)
        assert.same({ 200, "held" }, { holding:answer() })
        assert.same({ 200, "held" }, { waiting:answer() })
    end

    it("a reload passes locks on at once, lets requests finish that hold or wait, and no worker hangs #nginxasan", function()
        local server = start(OWNERS)
        local old = server:workers()
        leaves_well(server, function()
            server:signal("HUP")
        end)
        eventually(function()
            local now = server:workers()
            return #now == 1 and now[1] ~= old[1]
        end, 20, "the old worker to go")
        assert.same({ 200, "held" }, { cycle(server):answer() })
        nobody_complained(server)
    end)

    it("a graceful quit does the same #nginxasan", function()
        local server = start(OWNERS)
        leaves_well(server, function()
            server:signal("QUIT")
        end)
        eventually(function()
            return not server:is_running()
        end, 20, "nginx to quit")
        nobody_complained(server)
    end)

    it("a fast stop says goodbye too #nginxasan", function()
        local server = start(OWNERS)
        server:get("/park")
        fixture.await_children(server.path .. "-parked", 1)
        local session = fixture.session_of(server.path .. "-parked")
        server:signal("TERM")
        assert(fixture.client({ session_timeout = 60 }):mutex(server.path .. "-parked"):acquire(100))
        fixture.assert_not_expired(session)
        nobody_complained(server)
    end)

    it("thousands of cycles, timeouts, tries, killed threads, aborts and reloads leave nothing behind #nginxasan", function()
        local server = start([[
            location = /mixed { content_by_lua_block { require("spec.support.soaked").cycle() } }
            location = /wait { content_by_lua_block { require("spec.support.soaked").wait() } }
            location = /state { content_by_lua_block { require("spec.support.soaked").state() } }
        ]], { head = inside.HEAD:gsub("local inside = req", 'require("spec.support.soaked").open("@ZOOKEEPER@", "@PATH@")\n%0') })
        local before = sessions()
        fixture.join(server.path .. "/taken")
        for _ = 1, 3 do
            local waiting = {}
            for index = 1, 10 do
                waiting[index] = server:ask("/wait")
            end
            local load = io.popen(("ab -q -k -l -n 1000 -c 40 http://127.0.0.1:%d/mixed 2>&1"):format(server.port))
            for index = 1, 10 do
                waiting[index]:abort()
            end
            local output = load:read("*a")
            load:close()
            assert.truthy(output:find("Complete requests: +1000\n"), output)
            assert.is_nil(output:find("Non-2xx", 1, true), output)
            eventually(function()
                local _, state = server:get("/state")
                return state:find('"waiters":0', 1, true) and state:find('"seats":0', 1, true), state
            end, 30, "the worker to be idle")
            server:reload(60)
        end
        eventually(function()
            return sessions() <= before + 1
        end, 30, "the old workers' sessions to end")
        fixture.await_children(server.path .. "/taken", 1)
        nobody_complained(server)
    end)

    it("ten reloads under load leave nothing behind", function()
        local server = start()
        local before = sessions()
        for _ = 1, 10 do
            local requests = {}
            for index = 1, 20 do
                requests[index] = cycle(server)
            end
            server:signal("HUP")
            for index = 1, 20 do
                assert.same({ 200, "held" }, { requests[index]:answer() })
            end
        end
        eventually(function()
            return #server:workers() == 1 and sessions() <= before + 1, #server:workers() .. " workers"
        end, 30, "the old workers to go")
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("with lua_code_cache off every request has a client of its own, which goes again #nginxasan", function()
        local server = start([[
            location = /logs { content_by_lua_block {
                local client = assert(require("zklock").connect("@ZOOKEEPER@", { log = function() end }))
                assert(client:mutex("@PATH@"):acquire(20))
                ngx.say("held")
            } }
        ]], { head = "lua_code_cache off;\n" .. inside.HEAD })
        local before = sessions()
        for _ = 1, 10 do
            assert.same({ 200, "held" }, { cycle(server):answer() })
            assert.same({ 200, "held" }, { server:get("/logs") })
        end
        eventually(function()
            local now = sessions()
            return now <= before, ("%d sessions, %d before"):format(now, before)
        end, 40, "the clients to go")
        for _, line in ipairs(server:complaints()) do
            assert.truthy(line:find("lua_code_cache is off", 1, true), line)
        end
    end)

    it("a client that rests does not keep its pump, and wakes up for the next request", function()
        local server = start([[
            location = /timers { content_by_lua_block { ngx.say(ngx.timer.running_count()) } }
            location = /work { content_by_lua_block {
                assert(require("spec.support.inside_nginx").mutex("@PATH@"):acquire(60))
                ngx.say(ngx.timer.running_count())
            } }
        ]])
        assert.same({ 200, "1" }, { server:get("/work") })
        eventually(function()
            return select(2, server:get("/timers")) == "0"
        end, 60, "the pump to rest")
        assert.same({ 200, "held" }, { cycle(server):answer() })
        nobody_complained(server)
    end)

    it("callbacks run while nobody waits, and may wait themselves #nginxasan", function()
        local server = start([[
            location = /watch { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                -- The client hears of its session's end within most of a session timeout.
                local client = assert(require("zklock").shared("@ZOOKEEPER@", { session_timeout = 10 }))
                inside.watched = client:mutex("@PATH@", { on_lost = function(lock, reason)
                    ngx.sleep(0.001)
                    lock:release()
                    ngx.shared.results:set("lost", reason .. " " .. tostring(lock:acquire(60) ~= nil))
                end })
                assert(inside.watched:acquire { timeout = 60, keep = true })
                ngx.say(inside.watched:node())
            } }
        ]])
        local _, node = server:get("/watch")
        fixture.kill_owner(node)
        eventually(function()
            return select(2, server:get("/report?name=lost")) == "lost true"
        end, 100, "on_lost to have acquired anew")
    end)
end)

describe("the nginx.conf of docs/openresty.md #nginx", function()
    after_each(clean)

    it("is complete, and buys", function()
        local conf = files.read(cluster.root .. "/docs/openresty.md"):match("\n```nginx\n(.-)```")
        -- What differs is where things are.
        conf = conf:gsub("error_log [^;]*", "error_log @DIRECTORY@/error.log notice"):gsub("worker_processes auto", "%0;\n" ..
            "daemon off; pid @DIRECTORY@/nginx.pid"):gsub("listen 8080", "listen 127.0.0.1:@PORT@"):gsub("http {", "%0\n" .. [[
            access_log off;
            client_body_temp_path @DIRECTORY@/body;
            proxy_temp_path @DIRECTORY@/proxy;
            fastcgi_temp_path @DIRECTORY@/fastcgi;
            uwsgi_temp_path @DIRECTORY@/uwsgi;
            scgi_temp_path @DIRECTORY@/scgi;
            lua_package_path "@ROOT@/lua/?.lua;@ROOT@/lua/?/init.lua;;";
            lua_package_cpath "@BUILD@/?.so;;";]])
        conf = conf:gsub("zk1:2181,zk2:2181,zk3:2181", fixture.servers()):gsub("/locks/stock", fixture.path())
        local template = os.tmpname()
        files.write(template, "@MODULES@" .. conf)
        local server = remember(nginx.start { template = template })
        os.remove(template)
        local status, body = server:get("/buy")
        assert.equal(200, status)
        assert.truthy(body:find("^bought with %d+%-%d+$"), body)
        nobody_complained(server)
    end)
end)

describe("the metrics of examples/metrics #nginx", function()
    local CONF = cluster.root .. "/examples/metrics/nginx.conf"

    after_each(clean)

    local function start_example()
        local path = fixture.path()
        local server = remember(nginx.start { template = CONF, values = { ZOOKEEPER = fixture.servers(), PATH = path } })
        server.path = path
        return server
    end

    --- The sum of a metric over all workers, and how many workers there are.
    local function total(families, name)
        local sum, family = 0, assert(families[name], name)
        for _, sample in ipairs(family.samples) do
            assert.truthy(sample.labels.worker:find("^%d$"))
            sum = sum + sample.value
        end
        return sum, #family.samples
    end

    it("are exact Prometheus text, of all workers, whichever is asked", function()
        local server = start_example()
        for _ = 1, 10 do
            assert.equal(200, (server:get("/work")))
        end
        local families = eventually(function()
            local status, body = server:get("/metrics")
            assert.equal(200, status)
            local read = exposition(body .. "\n")
            local grants, workers = total(read, "zklock_grants_total")
            local connected = total(read, "zklock_connected") -- as of a second ago
            return grants == 10 and workers == 2 and connected == 2 and read,
                ("%d grants by %d workers, of which %d are connected"):format(grants, workers, connected)
        end, 20, "all workers' counters")
        assert.equal("histogram", families.zklock_wait_seconds.type)
        local waits = 0
        for _, sample in ipairs(families.zklock_wait_seconds.samples) do
            waits = waits + (sample.name == "zklock_wait_seconds_count" and sample.value or 0)
        end
        assert.equal(10, waits)
        assert.equal(0, (total(families, "zklock_losses_total")))
        local request = server:ask("/metrics")
        request:answer()
        assert.truthy(request.head:find("\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n", 1, true), request.head)
        nobody_complained(server)
    end)

    it("go on after a reload, and forget workers that are gone", function()
        local server = start_example()
        server:reload()
        server:get("/work")
        server:signal("KILL", server:workers()[1])
        eventually(function()
            local status, body = server:get("/metrics")
            if status ~= 200 then
                return false
            end
            local _, workers = total(exposition(body .. "\n"), "zklock_grants_total")
            assert.is_true(workers <= 2)
            return workers == 2
        end, 20, "both workers' counters")
    end)

    it("escape what labels have in them", function()
        local report = dofile(cluster.root .. "/examples/metrics/report.lua")
        local odd = 'back\\slash "quotes"\nand a newline'
        local sample = report.sample(fixture.client(), { servers = odd, other = "1" })
        local families = exposition(report.render { sample, report.sample(fixture.client(), { servers = "plain" }) })
        assert.same({ servers = odd, other = "1" }, families.zklock_grants_total.samples[1].labels)
        assert.same({ servers = "plain" }, families.zklock_grants_total.samples[2].labels)
    end)

    it("tell who holds and who waits for paths, as JSON", function()
        local server = start_example()
        fixture.join(server.path, nil, "somebody else")
        local waiting = server:ask("/work")
        fixture.await_children(server.path, 2)
        local status, body = server:get(("/locks?path=%s&path=%s-free"):format(server.path, server.path))
        assert.equal(200, status)
        local answer = require("cjson").decode(body)
        assert.equal(server.path, answer[1].path)
        assert.same({ "somebody else", "exclusive" }, { answer[1].holders[1].identity, answer[1].holders[1].mode })
        assert.is_nil(answer[1].holders[2])
        assert.truthy(answer[1].waiters[1].identity:find(":%d+$"), answer[1].waiters[1].identity)
        assert.same({ path = server.path .. "-free" }, answer[2])
        waiting:abort()
        for _, wrong in ipairs { "/locks", "/locks?path=malformed", "/locks?path" } do
            status, body = server:get(wrong)
            assert.equal(400, status)
            assert.is_string(require("cjson").decode(body).error)
        end
        nobody_complained(server)
    end)

    it("are set up as docs/openresty.md says", function()
        local page, conf = docstrings.read_file("docs/openresty.md"), docstrings.read_file("examples/metrics/nginx.conf")
        local shown = assert(page:match("\n## Watching it\n.-\n```nginx\n(.-)```"), "no nginx.conf in the page")
        conf = conf:gsub("@ZOOKEEPER@", "zk1:2181,zk2:2181,zk3:2181")
        local function squeezed(text)
            return (text:gsub("%s+", " "))
        end
        for part in shown:gmatch("(.-)\n\n") do
            assert.truthy(squeezed(conf):find(squeezed(part), 1, true), part)
        end
    end)
end)

describe("nginx's event loop is not blocked #nginx", function()
    after_each(clean)

    --- Answers of a plain location while something else is going on.
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
            waiting[index] = cycle(server, 0, "&wait=false")
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

    it("by a ZooKeeper that stands still #nginxasan", function()
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

    it("by a ZooKeeper that is not there, or whose name nobody knows", function()
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

describe("the seckill service #nginx", function()
    local servers, stage

    setup(function()
        servers = cluster.start()
        stage = seckill.start(servers.servers)
    end)

    teardown(function()
        stage:stop()
        servers:stop()
    end)

    --- Waits until so many have been sold in the present round.
    local function await_sales(count)
        eventually(function()
            local lucky, stock = stage:count()
            return lucky >= count, ("%d sold, %d left"):format(lucky, stock)
        end, 60, count .. " sales")
    end

    local function never_oversold(result)
        assert.equal(seckill.STOCK, result.lucky + result.stock, result.output)
        assert.is_true(result.lucky <= seckill.STOCK)
    end

    local function all_sold(result)
        assert.same({ stock = 0, lucky = seckill.STOCK, answered = seckill.REQUESTS },
            { stock = result.stock, lucky = result.lucky, answered = result.answered })
    end

    it("oversells without a lock, and with one per worker", function()
        for _, version in ipairs { "v1", "v2" } do
            -- Redis holds writes back until two requests of different workers have read the stock and want to write it.
            local result = stage:run(version, function()
                eventually(function()
                    local writers = select(2, stage:tell_redis("CLIENT", "LIST"):gsub(" cmd=set ", ""))
                    return writers >= 2, writers .. " requests write"
                end, 60)
                stage:tell_redis("CLIENT", "UNPAUSE")
            end, function()
                stage:tell_redis("CLIENT", "PAUSE", "600000", "WRITE")
            end)
            assert.is_true(result.lucky + result.stock > seckill.STOCK, result.output)
        end
    end)

    it("sells every piece once with zklock, and answers every request", function()
        all_sold(stage:run("v3"))
        for _, service in ipairs(stage.services) do
            nobody_complained(service)
        end
    end)

    it("oversells nothing while a service is reloaded", function()
        local result = stage:run("v3", function()
            await_sales(40)
            stage.services[1]:signal("HUP")
            await_sales(120)
            stage.services[1]:signal("HUP")
        end)
        never_oversold(result)
        for _, service in ipairs(stage.services) do
            nobody_complained(service)
        end
    end)

    it("oversells nothing while a worker is killed", function()
        local result = stage:run("v3", function()
            await_sales(40)
            stage.services[1]:signal("KILL", stage.services[1]:workers()[1])
        end)
        never_oversold(result)
    end)

    it("oversells nothing while ZooKeeper is restarted", function()
        local result = stage:run("v3", function()
            await_sales(40)
            servers:restart()
        end)
        never_oversold(result)
        all_sold(stage:run("v3"))
    end)
end)
