--- zklock inside nginx when something goes wrong: the worker is stopped, the connection is lost, the process forks or ends. The Lua
-- inside nginx is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, nobody_complained = inside.cycle, inside.nobody_complained

--- Locations with a lock that outlives the request that acquires it. `@TIMEOUT@` is the session timeout.
local KEPT = [[
    location = /hold { content_by_lua_block {
        local inside = require "spec.support.inside_nginx"
        local client = assert(require("zklock").shared("@ZOOKEEPER@", { session_timeout = @TIMEOUT@ }))
        inside.lock = client:mutex("@PATH@", { handoff = 0 })
        inside.kept = assert(inside.lock:acquire { timeout = 20, keep = true })
        inside.write = inside.kept:transaction():create("@PATH@-late", "late")
        ngx.say(inside.kept:token())
    } }
    location = /held { content_by_lua_block {
        ngx.say(tostring(require("spec.support.inside_nginx").kept:held()))
    } }
]]

local function start(locations, options)
    options = options or {}
    return inside.start((KEPT:gsub("@TIMEOUT@", options.session_timeout or 60)) .. (locations or ""), options)
end

--- Starts nginx behind a fault proxy. Returns both.
local function start_behind_proxy(locations)
    local link = fixture.proxy()
    return start(locations, { servers = link.address }), link
end

--- Cuts the connection; there is no other until link:accept().
local function disconnect(link)
    link:refuse()
    link:cut()
end

local function has_file(path)
    local file = io.open(path)
    return file and file:close() or false
end

describe("a worker that was stopped #nginx", function()
    after_each(fixture.clean)

    it("for longer than its session finds held() false at the first call, and its token and writes are refused", function()
        local server = start([[
            location = /spin { content_by_lua_block {
                local lock, now = require("spec.support.inside_nginx").kept, require("zklock.core").now
                assert(io.open("@DIRECTORY@/spins", "w")):close()
                local last, held, gap = now(), nil, nil
                repeat
                    local this = now()
                    held, gap, last = lock:held(), this - last, this
                until gap > 4 or not held
                ngx.say("held ", tostring(held), ", token ", tostring(lock:token()), ", release ", select(3, lock:release()))
            } }
            location = /write { content_by_lua_block {
                ngx.say(select(3, require("spec.support.inside_nginx").write:commit(20)))
            } }
        ]], { session_timeout = 6 })
        local _, token = server:get("/hold")
        local spinning = server:ask("/spin")
        eventually(function()
            return has_file(server.directory .. "/spins")
        end, 20, "the worker to look at its lock")
        local worker = server:workers()[1]
        server:signal("STOP", worker)
        local lock = fixture.client():mutex(server.path)
        assert(lock:acquire(60))
        assert.is_true(lock:token() > token)
        server:signal("CONT", worker)
        assert.same({ 200, "held false, token nil, release lost" }, { spinning:answer() })
        local _, code = server:get("/write")
        assert.truthy(code == "lost" or code == "not_held", code)
        assert.is_nil(fixture.observer():exists(server.path .. "-late"))
        assert.is_true(lock:held())
        assert(lock:release())
        assert.same({ 200, "held" }, { cycle(server):answer() })
        nobody_complained(server)
    end)

    it("with queued requests for longer than its session lets them join again, and all are served", function()
        local server = start([[
            location = /turn { content_by_lua_block {
                local client = assert(require("zklock").shared("@ZOOKEEPER@", { session_timeout = 20 }))
                local lock = client:mutex("@PATH@", { handoff = 0 })
                assert(lock:acquire(60))
                ngx.say(tostring(lock:held()))
                lock:release { wait = false }
            } }
        ]])
        local holder = fixture.join(server.path)
        local waiting = {}
        for index = 1, 5 do
            waiting[index] = server:ask("/turn")
        end
        fixture.await_children(server.path, 6)
        local worker = server:workers()[1]
        server:signal("STOP", worker)
        fixture.await_children(server.path, 1, 60)
        server:signal("CONT", worker)
        fixture.await_children(server.path, 6, 60)
        assert(fixture.observer():delete(holder))
        for index = 1, 5 do
            assert.same({ 200, "true" }, { waiting[index]:answer() })
        end
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)
end)

describe("a worker without a connection #nginx", function()
    after_each(fixture.clean)

    it("executes the releases made meanwhile as soon as it is connected again #nginxasan", function()
        local server, link = start_behind_proxy([[
            location = /release { content_by_lua_block {
                ngx.say(tostring(require("spec.support.inside_nginx").kept:release { wait = ngx.var.arg_wait == "true" }))
            } }
        ]])
        for _, waits in ipairs { false, true } do
            server:get("/hold")
            fixture.await_children(server.path, 1)
            disconnect(link)
            local release = server:ask("/release?wait=" .. tostring(waits))
            if not waits then
                assert.same({ 200, "true" }, { release:answer() })
            end
            assert.same({ 200, "false" }, { server:get("/held") })
            fixture.await_children(server.path, 1)
            link:accept()
            if waits then
                assert.same({ 200, "true" }, { release:answer(120) })
            end
            fixture.await_children(server.path, 0, 120)
        end
        nobody_complained(server)
    end)

    it("leaves nothing behind of waits that time out, are cancelled, aborted or killed meanwhile #nginxasan", function()
        local server, link = start_behind_proxy([[
            location = /cancels { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                assert(ngx.on_abort(function() lock:cancel() end))
                ngx.shared.results:set("cancels", select(3, lock:acquire()))
            } }
            location = /killer { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local lock = inside.mutex("@PATH@")
                local thread = ngx.thread.spawn(lock.acquire, lock)
                while not inside.kill do ngx.sleep(0.01) end
                ngx.say(tostring(ngx.thread.kill(thread)))
            } }
            location = /kill { content_by_lua_block {
                require("spec.support.inside_nginx").kill = true
                ngx.say("now")
            } }
        ]])
        fixture.join(server.path)
        local timing_out, aborted = {}, {}
        for index = 1, 5 do
            timing_out[index], aborted[index] = cycle(server, 0, "&timeout=25"), cycle(server)
        end
        local cancels, killer = server:ask("/cancels"), server:ask("/killer")
        fixture.await_children(server.path, 13)
        disconnect(link)
        for index = 1, 5 do
            aborted[index]:abort()
        end
        cancels:abort()
        server:get("/kill")
        assert.same({ 200, "1" }, { killer:answer() })
        inside.await_report(server, "cancels", "cancelled")
        for index = 1, 5 do
            local status, body = timing_out[index]:answer()
            assert.equal(503, status)
            assert.truthy(body:find("^disconnected ") or body:find("^timeout "), body)
        end
        eventually(function()
            local _, waiters = server:get("/waiters")
            return waiters == "0", waiters .. " waiters"
        end, 20, "the aborted requests to be noticed")
        fixture.await_children(server.path, 13)
        link:accept()
        fixture.await_children(server.path, 1, 120) -- the client's next try may be due only after most of a session timeout
        nobody_complained(server)
    end)
end)

describe("a worker #nginx", function()
    after_each(fixture.clean)

    it("that forks keeps its lock, and its child touches nothing, not even at its exit", function()
        local server = start([[
            location = /fork { content_by_lua_block {
                local inside, ffi = require "spec.support.inside_nginx", require "ffi"
                ffi.cdef "int fork(void); int waitpid(int, int *, int);"
                local client = require("zklock").shared("@ZOOKEEPER@", { session_timeout = 60 })
                local pid = ffi.C.fork()
                if pid == 0 then
                    local file = io.open("@DIRECTORY@/child", "w")
                    file:write(tostring(inside.kept:held()), " ", select(3, inside.kept:release()), " ",
                        select(3, inside.lock:acquire(5)), " ", select(3, client:state()))
                    file:close()
                    inside.kept, inside.lock, inside.write = nil, nil, nil
                    collectgarbage()
                    os.exit(0)
                end
                ffi.C.waitpid(pid, nil, 0)
                ngx.say(tostring(inside.kept:held()))
            } }
            location = /popen { content_by_lua_block {
                local pipe = io.popen("ls -l /proc/self/fd")
                local listing = pipe:read("*a")
                pipe:close()
                ngx.say((select(2, listing:gsub("pipe:", ""))))
            } }
        ]])
        local _, pipes = server:get("/popen")
        server:get("/hold")
        assert.same({ 200, "true" }, { server:get("/fork") })
        local file = assert(io.open(server.directory .. "/child"))
        assert.equal("false forked forked forked", file:read("*a"))
        file:close()
        -- A program that the worker starts does not inherit the client's pipes either.
        assert.same({ 200, pipes }, { server:get("/popen") })
        fixture.await_children(server.path, 1)
        assert.same({ 200, "true" }, { server:get("/held") })
        nobody_complained(server)
    end)

    it("that calls os.exit while it holds passes its locks on at once", function()
        local server = start([[
            location = /exit { content_by_lua_block { os.exit(0) } }
        ]])
        server:get("/hold")
        fixture.await_children(server.path, 1)
        local session = fixture.session_of(server.path)
        local waiting = cycle(server)
        fixture.await_children(server.path, 2)
        server:ask("/exit"):answer()
        local lock = fixture.client({ session_timeout = 60 }):mutex(server.path)
        assert(lock:acquire(100))
        fixture.assert_not_expired(session)
        waiting:answer()
        fixture.await_children(server.path, 1)
        assert(lock:release())
        assert.equal(200, (server:get("/plain")))
    end)

    it("that is killed while it holds passes its locks on after the session timeout #nginxasan", function()
        local server = start(nil, { session_timeout = 20 })
        server:get("/hold")
        fixture.await_children(server.path, 1)
        local old = server:workers()[1]
        server:signal("KILL", old)
        assert(fixture.client():mutex(server.path):acquire(100))
        eventually(function()
            local now = server:workers()
            return #now == 1 and now[1] ~= old
        end, 60, "a new worker")
        assert.equal(200, (server:get("/plain")))
    end)

    it("releases a lock that a request has forgotten when the lock is collected #nginxasan", function()
        local server = start([[
            location = /forget { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                assert(lock:acquire(20))
                ngx.say(tostring(lock:held()))
            } }
        ]])
        for _ = 1, 3 do
            assert.same({ 200, "true" }, { server:get("/forget") })
        end
        fixture.await_children(server.path, 0, 60)
        nobody_complained(server)
    end)

    it("whose client is closed answers the waiters, and releases what it holds", function()
        local server = start([[
            location = /wait { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                ngx.say(select(3, lock:acquire()))
            } }
            location = /close { content_by_lua_block {
                ngx.say(tostring(require("spec.support.inside_nginx").client():close(20)))
            } }
        ]])
        server:get("/hold")
        local waiting = { server:ask("/wait"), server:ask("/wait") }
        fixture.await_children(server.path, 3)
        assert.same({ 200, "true" }, { server:get("/close") })
        for _, request in ipairs(waiting) do
            assert.same({ 200, "closed" }, { request:answer() })
        end
        fixture.await_children(server.path, 0)
        assert.same({ 200, "held" }, { cycle(server):answer() })
        nobody_complained(server)
    end)

    it("without a Lua cache releases what a request has kept in its Lua, which no other request sees", function()
        local server = start(nil, { head = "lua_code_cache off;\n" .. inside.HEAD })
        local requests = {}
        for index = 1, 4 do
            requests[index] = server:ask("/hold")
        end
        for index = 1, 4 do
            assert.equal(200, (requests[index]:answer()))
        end
        fixture.await_children(server.path, 0, 60)
    end)
end)

describe("a proof that the process ends with its Lua #nginx", function()
    after_each(fixture.clean)

    it("is a reload while requests, timers and modules hold and wait: threads, sockets and sessions end", function()
        local server = start()
        local before = inside.sessions()
        local function entries(what)
            local listing = cluster.run({ "ls", ("/proc/%d/%s"):format(server:workers()[1], what) })
            return select(2, listing:gsub("%S+", ""))
        end
        assert.same({ 200, "held" }, { cycle(server):answer() })
        local threads, files = entries("task"), entries("fd")
        for _ = 1, 3 do
            server:get("/hold")
            server:reload()
            assert.same({ 200, "held" }, { cycle(server):answer() })
        end
        eventually(function()
            return inside.sessions() <= before + 1
        end, 20, "the old workers' sessions to end")
        assert.equal(threads, entries("task"))
        assert.is_true(entries("fd") <= files + 1)
        nobody_complained(server)
    end)
end)
