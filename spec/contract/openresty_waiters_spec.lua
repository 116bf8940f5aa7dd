--- Inside nginx: requests and light threads that wait, and end before or when they are granted. The Lua inside nginx is always
-- LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, nobody_complained, start = inside.cycle, inside.nobody_complained, inside.start

describe("inside nginx #nginx", function()
    after_each(fixture.clean)

    it("a waiting request whose client aborts leaves the queue #nginxasan", function()
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

    it("a request waits for a latch until others have counted down, and not after its client aborts #nginxasan", function()
        -- The wait must end with the aborted request itself. So no collector and no ticker can end it.
        local head = inside.HEAD:gsub("init_by_lua_block {", [[%0
            collectgarbage("stop")
            collectgarbage = function() return 0 end
            local at = ngx.timer.at
            ngx.timer.at = function(seconds, ...)
                return seconds > 0 or at(seconds, ...)
            end
        ]])
        local server = start([[
            location = /latch { content_by_lua_block {
                local latch = require("spec.support.inside_nginx").client():latch("@PATH@", 2)
                ngx.say(tostring(latch[ngx.var.arg_call](latch, 60)))
            } }
        ]], { head = head })
        local function is_watched()
            return fixture.is_watched(server.path .. "/gate")
        end
        local aborted = server:ask("/latch?call=wait")
        eventually(is_watched)
        aborted:abort()
        eventually(function()
            return not is_watched()
        end, 20, "the aborted request to leave the latch")
        local waiting = { server:ask("/latch?call=wait"), server:ask("/latch?call=wait") }
        eventually(is_watched)
        assert.same({ 200, "true" }, { server:get("/latch?call=count_down") })
        assert.same({ 200, "1" }, { server:get("/latch?call=count") })
        assert.same({ 200, "true" }, { server:get("/latch?call=count_down") })
        for index = 1, 2 do
            assert.same({ 200, "true" }, { waiting[index]:answer() })
        end
        nobody_complained(server)
    end)

    it("a request whose on_abort cancels leaves the queue at once, and continues #nginxasan", function()
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
        inside.await_report(server, "cancels", "cancelled")
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

    it("a light thread that is killed while it waits for the last of several locks releases the others #nginxasan", function()
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
                local code
                repeat -- a busy machine may have lost its connection
                    code = select(3, inside.all:acquire(0.05))
                until code ~= "disconnected"
                ngx.say(code)
            } }
            location = /passes { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local client = inside.client()
                local own, first, last = client:mutex("@PATH@-d"), client:mutex("@PATH@-c"), client:mutex("@PATH@-d")
                assert(own:acquire(20))
                inside.all = client:multi { first, last }
                inside.kept = ngx.thread.spawn(inside.all.acquire, inside.all)
                while not (tostring(last):find "being acquired" and tostring(first):find "held") do ngx.sleep(0.01) end
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

    it("a waiter that is killed between its grant and its next Lua line passes the lock on #nginxasan", function()
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

    it("waiters that no longer exist are skipped if one node serves many requests #nginxasan", function()
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
end)

describe("many waiters #nginx", function()
    after_each(fixture.clean)

    it("that get their lock at once are woken over several turns of nginx's event loop", function()
        local server = inside.start([[
            location = /turns { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                inside.turn, inside.woken = 0, {}
                ngx.say("turning")
                ngx.flush(true)
                while not inside.stop do
                    ngx.sleep(0.001)
                    inside.turn = inside.turn + 1
                end
                local most = 0
                for _, count in pairs(inside.woken) do most = math.max(most, count) end
                ngx.say(most)
            } }
            location = /read { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local lock = inside.client():rwlock("@PATH@").read
                assert(lock:acquire(60))
                inside.woken[inside.turn] = (inside.woken[inside.turn] or 0) + 1
                lock:release { wait = false }
                ngx.say("read")
            } }
            location = /stop { content_by_lua_block {
                require("spec.support.inside_nginx").stop = true
            } }
        ]])
        local writer = fixture.join(server.path, "__WRIT__")
        local turns = server:ask("/turns")
        repeat
            local line = assert(turns.connection:receive("*l"))
        until line == "turning"
        local readers = {}
        for index = 1, 300 do
            readers[index] = server:ask("/read")
        end
        eventually(function()
            return select(2, server:get("/waiters")) == "300"
        end, 30, "the readers to wait")
        assert(fixture.observer():delete(writer))
        for index = 1, 300 do
            assert.same({ 200, "read" }, { readers[index]:answer() })
        end
        server:get("/stop")
        local rest = turns.connection:receive("*a")
        local most = tonumber(rest:match("\r\n(%d+)\n"))
        assert.is_true(most <= 100, rest)
        nobody_complained(server)
    end)
end)
