--- Inside nginx: a worker that ends passes its locks on, and leaves nothing behind. The Lua inside nginx is always LuaJIT, so these
-- specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, nobody_complained = inside.cycle, inside.nobody_complained
local sessions, start = inside.sessions, inside.start

describe("inside nginx #nginx", function()
    after_each(fixture.clean)

    --- Locks with owners of every kind, in a worker that is about to exit.
    local OWNERS = [[
        location = /park { content_by_lua_block {
            local inside = require "spec.support.inside_nginx"
            package.loaded.parked = assert(inside.mutex("@PATH@-parked"):acquire { timeout = 20, keep = true })
            ngx.say("parked")
        } }
        location = /lead { content_by_lua_block {
            assert(ngx.timer.at(0, function()
                local lock = require("spec.support.inside_nginx").mutex("@PATH@-leader")
                local held, message, code = lock:acquire()
                assert(held or code == "closed", message) -- the exit of the worker may come before the grant
                while held and lock:held() do ngx.sleep(0.05) end
            end))
            ngx.say("leads")
        } }
    ]]

    --- Makes a worker have a parked lock, a timer that leads, a timer that waits without end, a request that holds and a request
    -- that waits. `leave` ends the worker. The locks pass on, and the requests are served.
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

    it("a reload passes locks on at once, lets requests that hold or wait finish, and no worker hangs #nginxasan", function()
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

    --- A request that begins before its worker exits, and goes on as another request when the worker exits.
    local LATE = [[
        location = /late { content_by_lua_block {
            local args = ngx.req.get_uri_args()
            ngx.shared.results:incr("late", 1, 0)
            while not ngx.worker.exiting() do ngx.sleep(0.01) end
            ngx.exec(args.to, args)
        } }
    ]]

    --- Makes an exiting worker open its first client, park a lock, lead in a timer and hold in a request. The locks pass on before
    -- the sessions could expire, and the worker ends.
    local function opens_late(server)
        local parking, leading = server:ask("/late?to=/park"), server:ask("/late?to=/lead")
        local holding = server:ask(("/late?to=/cycle&path=%s&go=%s/go"):format(server.path, server.directory))
        inside.await_report(server, "late", "3")
        server:signal("QUIT")
        assert.same({ 200, "parked" }, { parking:answer() })
        assert.same({ 200, "leads" }, { leading:answer() })
        fixture.await_children(server.path, 1)
        local session = fixture.session_of(server.path)
        local client = fixture.client({ session_timeout = 60 })
        assert(client:mutex(server.path .. "-parked"):acquire(50))
        assert(client:mutex(server.path .. "-leader"):acquire(50))
        inside.go(server)
        assert(client:mutex(server.path):acquire(50))
        assert.same({ 200, "held" }, { holding:answer() })
        eventually(function()
            return not server:is_running()
        end, 20, "nginx to quit")
        fixture.assert_not_expired(session)
    end

    it("a worker that opens its first client while it exits passes locks on at once, too", function()
        local server = start(OWNERS .. LATE)
        opens_late(server)
        nobody_complained(server)
    end)

    -- docs/openresty.md explains the complaint. nginx never complains of a timer (its number is -1), and of a socket of a program
    -- with the socket's number.
    it("if that client has the worker's first timer, only ngx_lua complains, of a connection of its own", function()
        local server = start(OWNERS .. LATE, { idle = true })
        opens_late(server)
        for _, line in ipairs(server:complaints()) do
            assert.truthy(line:find("%*0 open socket #%-2 left in connection %d+$") or line:find(" aborting$"), line)
        end
    end)

    it("a worker's fast stop also ends its session at once #nginxasan", function()
        local server = start(OWNERS)
        server:get("/park")
        fixture.await_children(server.path .. "-parked", 1)
        local session = fixture.session_of(server.path .. "-parked")
        -- Not to the master, which kills its workers 1.55 s later: a busy machine may need longer.
        server:signal("TERM", server:workers()[1])
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
                return state:find('"waiters":0', 1, true) and state:find('"entries":0', 1, true), state
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
end)
