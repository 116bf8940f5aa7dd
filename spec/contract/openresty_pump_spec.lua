--- Inside nginx: the timer in which a client calls its callbacks and wakes its waiters. The Lua inside nginx is always LuaJIT, so
-- these specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, nobody_complained, start = inside.cycle, inside.nobody_complained, inside.start

describe("inside nginx #nginx", function()
    after_each(fixture.clean)

    -- nginx drops a timer that is due while too many timers run, and reports this only in its error log. When it dropped the pump's
    -- timer, waiters were no longer notified of anything.
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

    it("an idle client does not keep its pump, and starts it for the next request", function()
        local server = start([[
            location = /timers { content_by_lua_block { ngx.say(ngx.timer.running_count()) } }
            location = /work { content_by_lua_block {
                assert(require("spec.support.inside_nginx").mutex("@PATH@"):acquire(60))
                -- A request that need not wait may have its lock before the pump begins.
                while ngx.timer.running_count() == 0 do ngx.sleep(0.01) end
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

    it("callbacks run while no request waits, and may wait themselves #nginxasan", function()
        local server = start([[
            location = /watch { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                -- The client hears of its session's end within most of a session timeout.
                local client = assert(require("zklock").shared("@ZOOKEEPER@", { session_timeout = 20 }))
                inside.watched = client:mutex("@PATH@", { on_lost = function(hold, reason)
                    ngx.sleep(0.001)
                    hold:release()
                    ngx.shared.results:set("lost", reason .. " " .. tostring(inside.watched:acquire(60) ~= nil))
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

describe("a pump that nginx does not start #nginx", function()
    after_each(fixture.clean)

    it("because the program's timers have taken all places is reported, and its locks are granted", function()
        local server = inside.start([[
            location = /fill {
                content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    local begun = require("ngx.semaphore").new(0)
                    for _ = 1, 2 do
                        assert(ngx.timer.at(0, function()
                            begun:post()
                            while not inside.stop do ngx.sleep(0.01) end
                            inside.ended = (inside.ended or 0) + 1
                        end))
                        assert(begun:wait(20))
                    end
                    ngx.say("filled")
                }
            }
            location = /grant {
                content_by_lua_block {
                    local inside = require "spec.support.inside_nginx"
                    local client = inside.client()
                    local before = client:stats().grants
                    ngx.sleep(2.2) -- pauses that grow for ever are of two seconds by then
                    ngx.say("looking")
                    ngx.flush(true)
                    while client:stats().grants == before do ngx.sleep(0.001) end
                    -- Only the client knows of the grant so far. Timers run in the order in which they are due.
                    ngx.sleep(0.5)
                    ngx.say(tostring(inside.stop))
                }
            }
            location = /pumps { content_by_lua_block {
                local ended = require("spec.support.inside_nginx").ended or 0
                ngx.say(ngx.timer.running_count() - 2 + ended)
            } }
            location = /wait { content_by_lua_block {
                assert(require("spec.support.inside_nginx").mutex("@PATH@"):acquire())
                ngx.say("held")
            } }
            location = /acquire { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                assert(inside.mutex("@PATH@"):acquire(20))
                ngx.say("held while ", ngx.timer.running_count(), " timers run")
                inside.stop = true
            } }
        ]], { head = "lua_max_running_timers 2;\n" .. inside.HEAD })
        assert.same({ 200, "filled" }, { server:get("/fill") })
        local holder = fixture.join(server.path)
        local request = server:ask("/acquire")
        eventually(function()
            return server:log():find("zklock: nginx has not begun a timer", 1, true)
        end, 20, "the report")
        local grant = server:ask("/grant")
        repeat
            local line = assert(grant.connection:receive("*l"))
        until line == "looking"
        assert(fixture.observer():delete(holder))
        assert.same({ 200, "held while 2 timers run" }, { request:answer() })
        assert.truthy(grant.connection:receive("*a"):find("\ntrue\n"), "the waiter looked late")
        -- The places are free, and the pump takes one of them while a request waits.
        fixture.await_children(server.path, 0)
        holder = fixture.join(server.path)
        request = server:ask("/wait")
        eventually(function()
            return select(2, server:get("/pumps")) == "1"
        end, 60, "the pump")
        assert(fixture.observer():delete(holder))
        assert.same({ 200, "held" }, { request:answer() })
        for _, line in ipairs(server:complaints()) do
            assert.truthy(line:find("lua_max_running_timers", 1, true), line)
        end
    end)
end)

describe("a pump whose socket #nginx", function()
    after_each(fixture.clean)

    it("cannot have a directory gets an abstract name, and wakes its waiters", function()
        local server = start(nil, { settings = [[
            local ffi = require "ffi"
            ffi.cdef "int setenv(const char *name, const char *value, int overwrite);"
            assert(ffi.C.setenv("TMPDIR", "/proc/none", 1) == 0)
        ]] })
        local holder = fixture.join(server.path)
        local request = cycle(server)
        fixture.await_children(server.path, 2)
        assert(fixture.observer():delete(holder))
        assert.same({ 200, "held" }, { request:answer() })
        nobody_complained(server)
    end)

    it("cannot be made looks for notifications by a timer, and writes one line that names the directory", function()
        local server = start([[
            location = /fail { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local methods = getmetatable(inside.client():desk().core).__index
                local listen, tries = methods.listen, 0
                function methods.listen()
                    tries = tries + 1
                    return nil, "no socket in /none: Read-only file system"
                end
                local outcome = "none"
                assert(inside.mutex("@PATH@-callback"):acquire { timeout = 60, callback = function(held)
                    outcome = tostring(held and held:held())
                end })
                local deadline = ngx.now() + 60
                while (outcome == "none" or tries < 4) and ngx.now() < deadline do
                    ngx.sleep(0.01)
                end
                local most = tries
                methods.listen = listen
                ngx.say(outcome, " ", most)
            } }
        ]])
        assert.same({ 200, "true 4" }, { server:get("/fail") })
        assert.same({ 200, "held" }, { cycle(server):answer() })
        local complaints = server:complaints()
        assert.equal(1, #complaints)
        assert.truthy(complaints[1]:find("no socket in /none: Read-only file system", 1, true), complaints[1])
    end)
end)
