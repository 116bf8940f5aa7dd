--- Locks end with the request that acquired them, however it ends, and without the collector. The Lua inside nginx is always
-- LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local socket = require "socket"

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local nobody_complained = inside.nobody_complained

--- The ways in which a request ends (see support.inside_requests), the locations for some of them, and headers to send.
local WAYS = { "exit", "redirect", "exec", "set_uri", "hang_up", "hang_up_unseen", "body_timeout", "slow_reader", "error", "forget",
    "kill", "capture", "multi_exit", "multi_kill" }
local LOCATIONS = { set_uri = "/rewrite", hang_up_unseen = "/unseen" }
local HEADERS = { body_timeout = "Content-Length: 10\r\n" }

--- Where the waiter for the lock is.
local PLACES = { "same worker", "another worker", "another process" }

local LOCATIONS_OF_HOLDERS = [[
    client_body_timeout 1s;
    send_timeout 60s;
    location = /hold { content_by_lua_block { require("spec.support.inside_requests").hold() } }
    location = /rewrite { rewrite_by_lua_block { require("spec.support.inside_requests").hold() } }
    location = /unseen {
        lua_check_client_abort off;
        content_by_lua_block { require("spec.support.inside_requests").hold() }
    }
    location = /linger { content_by_lua_block { require("spec.support.inside_requests").linger() } }
    location = /wait { content_by_lua_block { require("spec.support.inside_requests").wait() } }
    location = /go { content_by_lua_block { require("spec.support.inside_requests").say("go") } }
    location = /stop { content_by_lua_block { require("spec.support.inside_requests").say("stop") } }
    location = /killed { content_by_lua_block { require("spec.support.inside_requests").kill() } }
    location = /busy { content_by_lua_block { ngx.sleep(0.005) ngx.say("busy") } }
]]

--- Starts nginx with two workers; the kernel distributes connections evenly between them. `before`: Lua that runs first.
local function start(megabytes, before, locations)
    local head = inside.HEAD:gsub("backlog=4096", "%0 reuseport"):gsub("init_by_lua_block {", "%0 " .. (before or ""))
    head = ("init_worker_by_lua_block { require('spec.support.inside_requests').fill_heap(%d) }\n"):format(megabytes) .. head
    return inside.start(LOCATIONS_OF_HOLDERS .. (locations or ""), { workers = 2, head = head })
end

--- Sends a request and does not wait for the answer.
local function send(server, location, headers)
    local connection = assert(socket.tcp())
    connection:settimeout(30)
    connection:setoption("tcp-nodelay", true)
    assert(connection:connect("127.0.0.1", server.port))
    assert(connection:send(("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"):format(location, headers or "Connection: close\r\n")))
    return connection
end

--- Makes a worker wait for the lock of that name. Returns the connection, on which the worker answers.
local function wait_in(server, name, worker)
    while true do
        local connection = send(server, ("/wait?name=%s&worker=%d"):format(name, worker))
        local line
        repeat
            line = assert(connection:receive("*l"))
        until line:find(" worker", 1, true)
        if line == "this worker" then
            return connection
        end
        connection:close()
    end
end

--- Sends a load of small requests until the returned function is called.
local function load(server)
    local pipe = io.popen(("exec ab -q -l -n 1000000 -c 2 http://127.0.0.1:%d/busy >/dev/null 2>&1 & echo $!"):format(server.port))
    local pid = pipe:read("*l")
    pipe:close()
    return function()
        os.execute("kill " .. pid)
    end
end

--- Waits until so many names are held.
local function await_holders(server, wanted)
    eventually(function()
        local _, count = server:get("/report?name=holders")
        return tonumber(count) == wanted, tostring(count) .. " hold"
    end, 30, "all to hold")
end

--- Ends requests in all of these ways, with a waiter in every place, all at once.
local function end_in(ways, server)
    local holders, waiters = {}, {}
    for _, way in ipairs(ways) do
        for place = 1, #PLACES do
            local location = ("%s?way=%s&name=%s%d"):format(LOCATIONS[way] or "/hold", way, way, place)
            holders[#holders + 1] = { way = way, connection = send(server, location, HEADERS[way]) }
        end
    end
    await_holders(server, #holders)
    for _, way in ipairs(ways) do
        for place = 1, #PLACES do
            local name = way .. place
            local path = server.path .. "-" .. name
            if place == #PLACES then
                fixture.join(path)
            else
                local _, worker = server:get("/report?name=worker-" .. name)
                waiters[#waiters + 1] = { name = way .. ", " .. PLACES[place],
                    connection = wait_in(server, name, place == 1 and worker or 1 - worker) }
            end
            fixture.await_children(path, 2)
        end
    end
    assert.equal(200, (server:get("/go")))
    for _, holder in ipairs(holders) do
        if holder.way:find("^hang_up") then
            holder.connection:close()
        end
    end
    for _, waiter in ipairs(waiters) do
        waiter.connection:settimeout(20)
        local line
        repeat
            line = waiter.connection:receive("*l")
        until line == nil or line == "held"
        assert(line, waiter.name)
        waiter.connection:close()
    end
    for _, way in ipairs(ways) do
        fixture.await_children(("%s-%s%d"):format(server.path, way, #PLACES), 1, 20)
    end
    assert.equal(200, (server:get("/stop")))
    for _, holder in ipairs(holders) do
        holder.connection:close()
    end
    for _, line in ipairs(server:complaints()) do
        assert.truthy(line:find("as the spec wants it", 1, true), line)
    end
end

--- Returns the lines of a text, sorted.
local function words(text)
    local lines = {}
    for line in text:gmatch("[^\n]+") do
        lines[#lines + 1] = line
    end
    table.sort(lines)
    return lines
end

describe("a request that ends while it holds releases its lock #nginx", function()
    after_each(fixture.clean)

    for _, megabytes in ipairs { 0, 50 } do
        it(("in every way, to every waiter, with a Lua heap of %d MB, idle and busy #nginxasan"):format(megabytes), function()
            end_in(WAYS, start(megabytes))
            local server = start(megabytes)
            local stop = load(server)
            local ok, problem = pcall(end_in, WAYS, server)
            stop()
            assert(ok, problem)
        end)
    end

    it("within a second of its end, if nginx does not export the functions for a cleanup handler", function()
        local ways = { "exit", "redirect", "hang_up", "hang_up_unseen", "body_timeout", "error", "forget", "kill" }
        end_in(ways, start(50, "require('zklock.core').scope = function() end "))
    end)

    --- Lua that removes the ticker, which would find an ended request by itself: a timer of one second never fires.
    local NO_TICKER = [[
        local at = ngx.timer.at
        ngx.timer.at = function(delay, ...)
            if delay == 1 then
                return true
            end
            return at(delay, ...)
        end ]]

    it("by nginx's cleanup handler, without the ticker", function()
        local server = start(0, NO_TICKER, [[
            location = /scope {
                access_by_lua_block { ngx.ctx.first = require("zklock.adapters.openresty").request() }
                content_by_lua_block {
                    local hold = assert(require("spec.support.inside_nginx").mutex("@PATH@"):acquire(20))
                    local request = hold._caller.owner
                    ngx.say(type(request.scope), " ", type(request.scope and request.scope:context()), " ",
                        tostring(request == ngx.ctx.first))
                }
            }
        ]])
        assert.same({ 200, "userdata number true" }, { server:get("/scope") })
        fixture.await_children(server.path, 0)
        end_in({ "exit", "redirect", "hang_up", "hang_up_unseen", "body_timeout", "error", "forget" }, server)
    end)

    it("also in a timer handler that fails", function()
        local server = start(50, nil, [[
            location = /timer { content_by_lua_block {
                assert(ngx.timer.at(0, function()
                    assert(require("spec.support.inside_nginx").mutex("@PATH@"):acquire(20))
                    error("as the spec wants it")
                end))
            } }
        ]])
        assert.equal(200, (server:get("/timer")))
        eventually(function()
            return server:log():find("as the spec wants it", 1, true)
        end, 20, "the timer")
        fixture.await_children(server.path, 0)
    end)

    for kind, code in pairs {
        mutex = "client:mutex(path)", semaphore = "client:semaphore(path, 1)", write = "client:rwlock(path).write",
        multi = "client:multi { client:mutex(path) }"
    } do
        it("and not before, although the collector runs and nothing refers to the " .. kind .. " any more", function()
            local server = inside.start([[
                location = /front {
                    access_by_lua_block {
                        local inside = require "spec.support.inside_nginx"
                        local client, path = inside.client(), inside.path
                        assert((]] .. code .. [[):acquire(20))
                    }
                    proxy_pass http://127.0.0.1:@PORT@/upstream;
                }
                location = /upstream { content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    local client, path = inside.client(), inside.path
                    collectgarbage()
                    collectgarbage() -- the first one has called the finalizers
                    assert(client:flush(20))
                    local other = ]] .. code .. [[

                    local _, _, code = other:try_acquire()
                    ngx.say(code)
                } }
                location = /free { content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    local client, path = inside.client(), inside.path
                    assert((]] .. code .. [[):with_lock(function() ngx.say("free") end, 20))
                } }
            ]])
            for _ = 1, 2 do
                assert.same({ 200, "timeout" }, { server:get("/front") })
                assert.same({ 200, "free" }, { server:get("/free") })
            end
            nobody_complained(server)
        end)
    end

    it("and not before, although a job of it has failed, a light thread was killed, or a subrequest has ended", function()
        local server = inside.start([[
            location = /leave { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                assert(inside.mutex("@PATH@-" .. ngx.var.arg_way):acquire(20))
            } }
            location = /long { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local way, thread = ngx.var.arg_way
                if way == "job" then
                    assert(not pcall(function()
                        assert(inside.mutex("@PATH@-job"):acquire(20))
                        error("it fails")
                    end))
                elseif way == "thread" then
                    local begun = require("ngx.semaphore").new(0)
                    thread = ngx.thread.spawn(function()
                        assert(inside.mutex("@PATH@-thread"):acquire(20))
                        begun:post()
                        ngx.sleep(100)
                    end)
                    assert(begun:wait(20))
                    assert(ngx.thread.kill(thread))
                else
                    assert(ngx.location.capture("/leave?way=" .. way).status == 200)
                end
                require("zklock.adapters.openresty.holds").release_abandoned(inside.client()) -- as the ticker does
                collectgarbage()
                collectgarbage()
                assert(inside.client():flush(20))
                local _, message, code = inside.mutex("@PATH@-" .. way):try_acquire()
                ngx.say(code, " ", tostring(message:find("the request that asks holds it itself", 1, true) ~= nil))
            } }
        ]])
        for way, itself in pairs { job = true, thread = true, subrequest = false } do
            assert.same({ 200, "timeout " .. tostring(itself) }, { server:get("/long?way=" .. way) })
            fixture.await_children(server.path .. "-" .. way, 0, 20)
        end
        nobody_complained(server)
    end)

    it("and the callback of an acquisition holds until it returns, although it has not kept the lock", function()
        local server = inside.start([[
            location = /call { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                assert(inside.mutex("@PATH@"):acquire { timeout = 20, callback = function()
                    ngx.sleep(0.001)
                    collectgarbage()
                    collectgarbage()
                    assert(inside.client():flush(20))
                    local _, _, code = inside.mutex("@PATH@"):try_acquire()
                    ngx.shared.results:set("other", code or "acquired")
                end })
            } }
        ]])
        server:get("/call")
        inside.await_report(server, "other", "timeout")
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("and is no longer referred to then", function()
        local server = inside.start([[
            location = /hold { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@")
                package.loaded.held = setmetatable({ lock }, { __mode = "v" })
                assert(lock:acquire(20))
            } }
            location = /look { content_by_lua_block {
                collectgarbage()
                ngx.say(tostring(package.loaded.held[1]))
            } }
        ]])
        server:get("/hold")
        fixture.await_children(server.path, 0)
        eventually(function()
            return select(2, server:get("/look")) == "nil"
        end, 20, "the lock object to be collected")
    end)

    it("and makes a lock object that it has kept free again, with a hint about keep", function()
        local server = inside.start([[
            location = /forget { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                inside.lock = inside.mutex("@PATH@", { on_lost = function() ngx.shared.results:set("lost", "told") end })
                inside.kept = assert(inside.lock:acquire(20))
            } }
            location = /use { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local kept, lock = inside.kept, inside.lock
                while kept:held() do ngx.sleep(0.01) end
                local released, message, code = kept:release()
                ngx.say(tostring(released), " ", code, " ", message)
                assert(lock:acquire(20))
                ngx.say(tostring(lock:release()))
            } }
        ]])
        server:get("/forget")
        fixture.await_children(server.path, 0) -- the request's answer comes before its end
        local _, text = server:get("/use")
        assert.truthy(text:find("^nil not_held .*keep = true.*\ntrue$"), text)
        assert.same({ 200, "" }, { server:get("/report?name=lost") })
        nobody_complained(server)
    end)

    it("and leaves nothing in a lock object that other requests use, too", function()
        local server = inside.start([[
            location = /first { content_by_lua_block {
                local inside, requests = require "spec.support.inside_nginx", require "spec.support.inside_requests"
                inside.kept = inside.mutex("@PATH@")
                assert(inside.kept:acquire(20))
                requests.held("first")
                ngx.exit(200)
            } }
            location = /next { content_by_lua_block {
                local kept = require("spec.support.inside_nginx").kept
                local held = assert(kept:acquire(20))
                ngx.say(tostring(held:held()), " ", tostring(kept:held()))
            } }
            location = /go { content_by_lua_block { require("spec.support.inside_requests").say("go") } }
            location = /look { content_by_lua_block {
                local kept = require("spec.support.inside_nginx").kept
                ngx.say(tostring(next((select(2, require("zklock.lock.caller").each(kept)))) ~= nil), " ", tostring(kept))
            } }
        ]])
        local first = server:ask("/first")
        await_holders(server, 1)
        local second = server:ask("/next")
        eventually(function()
            return select(2, server:get("/waiters")) == "1"
        end, 20, "the next request to wait")
        server:get("/go")
        assert.equal(200, (first:answer()))
        assert.same({ 200, "true true" }, { second:answer() })
        fixture.await_children(server.path, 0)
        eventually(function()
            return select(2, server:get("/look")):find("^false ")
        end, 20, "the second hold to be forgotten")
        assert.same({ 200, "true true" }, { server:get("/next") })
        nobody_complained(server)
    end)

    it("unless the lock was acquired with keep; then it ends with its release, in another request or a timer", function()
        local server = inside.start([[
            location = /keep { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local lock = inside.client()[ngx.var.arg_kind](inside.client(), "@PATH@", tonumber(ngx.var.arg_permits))
                lock = ngx.var.arg_multi and inside.client():multi { lock } or lock
                inside.kept = assert(lock:acquire { timeout = 20, keep = true })
                ngx.say("kept")
            } }
            location = /try { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                inside.kept = assert(inside.mutex("@PATH@"):try_acquire { keep = true })
                ngx.say("kept")
            } }
            location = /release { content_by_lua_block {
                local kept, round = require("spec.support.inside_nginx").kept, ngx.var.arg_round
                assert(kept:held())
                assert(ngx.timer.at(0, function()
                    ngx.shared.results:set("released" .. round, tostring(kept:release()))
                end))
            } }
        ]])
        for round, way in ipairs { "/keep?kind=mutex", "/keep?kind=mutex&multi=1", "/keep?kind=semaphore&permits=1", "/try" } do
            assert.same({ 200, "kept" }, { server:get(way) })
            server:get("/plain")
            server:get("/release?round=" .. round)
            inside.await_report(server, "released" .. round, "true")
        end
        nobody_complained(server)
    end)

    it("and a hold of with_lock with keep when its killed light thread is collected", function()
        local server = inside.start([[
            location = /kill { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                inside.kept = inside.mutex("@PATH@")
                local begun = require("ngx.semaphore").new(0)
                local thread = ngx.thread.spawn(inside.kept.with_lock, inside.kept, function()
                    begun:post(1)
                    ngx.sleep(60)
                end, { timeout = 20, keep = true })
                assert(begun:wait(20))
                ngx.say(tostring(inside.kept:held()))
                ngx.thread.kill(thread)
            } }
            location = /collect { content_by_lua_block {
                require("spec.support.inside_nginx").kept:cancel() -- looks which request asks
                collectgarbage()
            } }
        ]])
        assert.same({ 200, "true" }, { server:get("/kill") })
        eventually(function()
            server:get("/collect")
            return #fixture.children(server.path) == 0
        end, 20, "the lock to be released")
        nobody_complained(server)
    end)

    it("and its other light threads acquire anew what a killed one had by with_lock", function()
        local server = inside.start([[
            location = /kill { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                for _, reentrant in ipairs { false, true } do
                    local lock = inside.mutex("@PATH@", { reentrant = reentrant })
                    local killed
                    local thread = ngx.thread.spawn(lock.with_lock, lock, function(hold)
                        killed = hold
                        ngx.sleep(60)
                    end, 20)
                    while not killed do ngx.sleep(0.001) end
                    ngx.thread.kill(thread)
                    local hold, _, code = lock:acquire(20)
                    ngx.say(code or tostring(hold ~= killed), " ", tostring(lock:release()), " ", tostring(lock:held()))
                end
            } }
        ]])
        assert.same({ 200, "true true false\ntrue true false" }, { server:get("/kill") })
        nobody_complained(server)
    end)

    --- Lets a worker exit while a request holds that has assigned its ngx.ctx. `before`: Lua that runs first; `within`: the
    -- request's Lua after the assignment.
    local function assign_and_exit(before, within)
        local server = inside.start([[
            location = /assign { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                inside.mutex("@PATH@"):with_lock(function(lock)
                    ngx.ctx = {}
]] .. within .. [[
                    collections = 0
                    require("spec.support.inside_requests").held("assign")
                    ngx.say(tostring(lock:held()), " ", collections)
                end, 20)
            } }
            location = /park { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@-parked")
                package.loaded.parked = assert(lock:acquire { timeout = 20, keep = true })
            } }
            location = /go { content_by_lua_block { require("spec.support.inside_requests").say("go") } }
        ]], { head = inside.HEAD:gsub("init_by_lua_block {", [[%0
            ]] .. before .. [[
            local collect = collectgarbage
            collections = 0
            function collectgarbage(what, ...)
                collections = collections + ((what or "collect") == "collect" and 1 or 0)
                return collect(what, ...)
            end
        ]]) })
        server:get("/park")
        local request = server:ask("/assign")
        await_holders(server, 1)
        server:signal("HUP")
        -- The old worker checks its locks: locks that no request holds are released.
        local parked = fixture.client():mutex(server.path .. "-parked")
        assert(parked:acquire(20))
        server:get("/go")
        assert.same({ 200, "true 0" }, { request:answer() })
        nobody_complained(server)
    end

    it("but not if its ngx.ctx is assigned and the worker is about to exit; no full collection runs then", function()
        assign_and_exit("", [[
            local other = inside.mutex("@PATH@-other")
            assert(other:acquire(20))
            assert(other:release())
        ]])
    end)

    it("but not in that case if nginx does not export the functions for a cleanup handler", function()
        assign_and_exit("require('zklock.core').scope = function() end ", "")
    end)

    it("but not while a coroutine of any kind runs inside with_lock", function()
        local server = start(0, nil, [[
            location = /sorts { content_by_lua_block {
                local inside, requests = require "spec.support.inside_nginx", require "spec.support.inside_requests"
                local function hold(name)
                    return inside.mutex("@PATH@-" .. name):with_lock(function(lock)
                        requests.held(name)
                        ngx.say(name, " ", tostring(lock:held()))
                    end, 20)
                end
                local light = ngx.thread.spawn(hold, "light")
                local made = ngx.thread.spawn(function() coroutine.wrap(hold)("made") end)
                hold("entry")
                assert(ngx.thread.wait(light) and ngx.thread.wait(made))
            } }
        ]])
        local request = server:ask("/sorts")
        await_holders(server, 3)
        -- The ticker checks the holds: the hold of a killed light thread ends.
        local _, worker = server:get("/report?name=worker-entry")
        local name
        repeat
            name = "killed" .. socket.gettime()
            server:ask("/killed?name=" .. name)
        until inside.await_report(server, "worker-" .. name) == worker
        fixture.await_children(server.path .. "-" .. name, 0, 20)
        server:get("/go")
        local _, text = request:answer()
        assert.same({ "entry true", "light true", "made true" }, words(text))
        nobody_complained(server)
    end)
end)
