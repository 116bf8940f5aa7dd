--- Inside nginx: acquisitions by callback, in every phase, and the holds of callbacks. The Lua inside nginx is always LuaJIT, so
-- these specs run only once.

if not rawget(_G, "jit") then
    return
end

local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local await_report, nobody_complained, start = inside.await_report, inside.nobody_complained, inside.start

describe("inside nginx, an acquisition by callback #nginx", function()
    after_each(fixture.clean)

    it("works in the phases that cannot wait, and its callback runs in a timer, which may wait", function()
        local phases = { "set", "header_filter", "body_filter", "log" }
        local server = start(([[
            location = /phases {
                set_by_lua_block $nothing { ASK("set") return "" }
                content_by_lua_block { ngx.say("done") }
                header_filter_by_lua_block { ASK("header_filter") }
                body_filter_by_lua_block { if ngx.arg[2] then ASK("body_filter") end }
                log_by_lua_block { ASK("log") }
            }
        ]]):gsub("ASK", "package.loaded.ask"), { head = inside.HEAD:gsub("local inside = req", [[
            package.loaded.ask = function(name)
                local inside = require "spec.support.inside_nginx"
                local phase = ngx.get_phase()
                local within = true
                local lock = inside.mutex("@PATH@-" .. name)
                assert(lock:acquire { timeout = 20, callback = function(held, message)
                    if not held then
                        return ngx.shared.results:set(name, message)
                    end
                    ngx.sleep(0.01)
                    ngx.shared.results:set(name, table.concat({
                        phase, ngx.get_phase(), tostring(within), tostring(held:held()), tostring(lock:held())
                    }, " "))
                    assert(held:release())
                end })
                within = false
            end
            %0]]) })
        server:get("/phases")
        for _, phase in ipairs(phases) do
            assert.equal(phase .. " timer false true true", await_report(server, phase))
            fixture.await_children(server.path .. "-" .. phase, 0)
        end
        nobody_complained(server)
    end)

    it("holds as long as the callback's timer runs, whatever becomes of the request, or longer with keep", function()
        local server = start([[
            location = /brief { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@-brief")
                assert(lock:acquire { callback = function(held)
                    ngx.shared.results:set("node", held:node())
                    while not ngx.shared.results:get("go") do ngx.sleep(0.01) end
                    ngx.shared.results:set("brief", tostring(held:held()))
                    error("broken on purpose")
                end })
                ngx.say("asked")
            } }
            location = /kept { content_by_lua_block {
                local lock = require("spec.support.inside_nginx").mutex("@PATH@-kept")
                assert(lock:acquire { keep = true, callback = function(held)
                    package.loaded.kept = held
                    ngx.shared.results:set("kept", tostring(held:held()))
                end })
                ngx.say("asked")
            } }
            location = /is_kept { content_by_lua_block { ngx.say(tostring(package.loaded.kept:held())) } }
            location = /release { content_by_lua_block { ngx.say(tostring(package.loaded.kept:release())) } }
            location = /go { content_by_lua_block { ngx.shared.results:set("go", true) ngx.say("goes") } }
        ]])
        assert.same({ 200, "asked" }, { server:get("/brief") })
        await_report(server, "node")
        fixture.await_children(server.path .. "-brief", 1)
        server:get("/go")
        assert.equal("true", await_report(server, "brief"))
        fixture.await_children(server.path .. "-brief", 0)
        assert.same({ 200, "asked" }, { server:get("/kept") })
        assert.equal("true", await_report(server, "kept"))
        collectgarbage()
        assert.same({ 200, "true" }, { server:get("/is_kept") })
        assert(fixture.client():mutex(server.path .. "-kept"):acquire(0.1) == nil)
        assert.same({ 200, "true" }, { server:get("/release") })
        fixture.await_children(server.path .. "-kept", 0)
    end)

    it("times out, is cancelled, and gets the code closed when its worker exits", function()
        local server = start([[
            location = /ask { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                assert(inside.mutex("@PATH@-free"):acquire(20)) -- now there is a connection
                local lock = inside.mutex("@PATH@-taken")
                local function note(name)
                    return function(_, _, code) ngx.shared.results:set(name, code) end
                end
                assert(lock:acquire { timeout = 0.05, callback = note("late") })
                local call = assert(lock:acquire { callback = note("cancelled") })
                assert(call:cancel())
                assert(lock:acquire { callback = note("closed") })
                assert(inside.client():get("/", { callback = function(data)
                    ngx.shared.results:set("get", type(data))
                end }))
                ngx.say("asked")
            } }
        ]])
        fixture.join(server.path .. "-taken")
        assert.same({ 200, "asked" }, { server:get("/ask") })
        assert.equal("timeout", await_report(server, "late"))
        assert.equal("cancelled", await_report(server, "cancelled"))
        assert.equal("string", await_report(server, "get"))
        fixture.await_children(server.path .. "-taken", 2)
        server:signal("HUP")
        assert.equal("closed", await_report(server, "closed"))
        fixture.await_children(server.path .. "-taken", 1)
        nobody_complained(server)
    end)

    describe("is called once, also if more callbacks are due at once than nginx may run timers,", function()
        --- Each request asks for `count` locks, and each callback sleeps for so many seconds.
        local function start_many()
            return start([[
                location = /many { content_by_lua_block {
                    local seconds = tonumber(ngx.var.arg_seconds)
                    for number = 1, ngx.var.arg_count do
                        local lock = require("spec.support.inside_nginx").mutex("@PATH@/" .. seconds .. "-" .. number)
                        assert(lock:acquire { timeout = 300, callback = function(held, message)
                            ngx.shared.results:incr("begun", 1, 0)
                            ngx.sleep(seconds)
                            ngx.shared.results:incr("called", 1, 0)
                            assert(held, message)
                            assert(held:release())
                        end })
                    end
                    ngx.say("asked")
                } }
            ]], { head = "lua_max_running_timers 8;\n" .. inside.HEAD })
        end

        it("and end soon", function()
            local server = start_many()
            assert.same({ 200, "asked" }, { server:get("/many?count=60&seconds=0.01") })
            await_report(server, "called", "60")
            for number = 1, 60 do
                fixture.await_children(server.path .. "/0.01-" .. number, 0)
            end
            assert.equal("60", await_report(server, "begun"))
        end)

        it("and end late, and the program does nothing else with zklock", function()
            local server = start_many()
            assert.same({ 200, "asked" }, { server:get("/many?count=7&seconds=3") })
            await_report(server, "begun", "7")
            assert.same({ 200, "asked" }, { server:get("/many?count=10&seconds=2.5") })
            await_report(server, "called", "17")
            assert.equal("17", await_report(server, "begun"))
        end)
    end)

    it("holds no longer than its callback, also if nginx takes no more timers and the pump calls the callbacks", function()
        local server = start([[
            location = /fill { content_by_lua_block {
                while ngx.timer.at(300, function() end) do end
                ngx.say("filled")
            } }
            location = /ask { content_by_lua_block {
                for number = 1, 4 do
                    local lock = require("spec.support.inside_nginx").mutex("@PATH@-" .. number)
                    assert(lock:acquire { timeout = 20, callback = function(held)
                        ngx.shared.results:incr("held", held:held() and 1 or 0, 0)
                    end })
                end
                ngx.say("asked")
            } }
        ]], { head = "lua_max_pending_timers 8;\n" .. inside.HEAD })
        assert.equal(200, (inside.cycle(server):answer())) -- the client has its timers
        assert.same({ 200, "filled" }, { server:get("/fill") })
        assert.same({ 200, "asked" }, { server:get("/ask") })
        await_report(server, "held", "4")
        for number = 1, 4 do
            fixture.await_children(server.path .. "-" .. number, 0, 20)
        end
        nobody_complained(server)
    end)

    describe("whose callback ngx.exit breaks off", function()
        local LOCATIONS = [[
            location = /ask { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local client = inside.client()
                if ngx.var.arg_new then -- its pump begins in a coroutine that was broken off
                    client = assert(require("zklock").connect(inside.servers, { connect_timeout = 0 }))
                end
                for number = 1, tonumber(ngx.var.arg_count) do
                    assert(client:mutex("@PATH@-" .. number):acquire { timeout = 60, callback = function(held)
                        ngx.shared.results:incr("called", held and 1 or 0, 0)
                        if number > 1 then
                            ngx.sleep(0.02) -- meanwhile the others begin
                        end
                        ngx.exit(ngx.ERROR)
                    end })
                end
                ngx.say("asked")
            } }
            location = /fill { content_by_lua_block {
                while ngx.timer.at(300, function() end) do end
                ngx.say("filled")
            } }
        ]]

        --- Asks some times for some locks, each time after the previous callbacks were called.
        local function ask(server, times, count, arguments)
            local before = tonumber(select(2, server:get("/report?name=called"))) or 0
            for number = 1, times do
                assert.same({ 200, "asked" }, { server:get(("/ask?count=%d%s"):format(count, arguments or "")) })
                await_report(server, "called", tostring(before + number * count))
            end
        end

        it("does not keep later ones from theirs, in whatever coroutines nginx uses again", function()
            local server = start(LOCATIONS)
            ask(server, 20, 16)
            ask(server, 4, 1, "&new=1")
            nobody_complained(server)
        end)

        it("does not keep later ones from theirs, if nginx takes no more timers and the pump calls the callbacks", function()
            local server = start(LOCATIONS, { head = "lua_max_pending_timers 8;\n" .. inside.HEAD })
            assert.equal(200, (inside.cycle(server):answer())) -- the client has its timers
            assert.same({ 200, "filled" }, { server:get("/fill") })
            ask(server, 3, 1)
            fixture.await_children(server.path .. "-1", 0, 20)
            for _, line in ipairs(server:complaints()) do
                assert.truthy(line:find("nginx has no timer for the pump", 1, true), line)
            end
        end)
    end)

    it("is refused where its callback could not be called: lua_code_cache off", function()
        local server = start([[
            location = /ask { content_by_lua_block {
                local client = require("zklock").connect("@ZOOKEEPER@", { connect_timeout = 20 })
                local call, message, code = client:mutex("@PATH@"):acquire { callback = function() end }
                ngx.say(tostring(call and true) .. " " .. tostring(code))
                client:close()
            } }
        ]], { head = "lua_code_cache off;\n" .. inside.HEAD })
        for _ = 1, 2 do
            server:get("/ask") -- the first Lua states of a worker could be those of all requests
        end
        assert.same({ 200, "nil unsupported" }, { server:get("/ask") })
    end)
end)
