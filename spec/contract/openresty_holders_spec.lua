--- Inside nginx: a request, or a light thread, holds for itself what it acquires by a lock that a module keeps. The Lua inside
-- nginx is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local nobody_complained, start = inside.nobody_complained, inside.start

describe("inside nginx #nginx", function()
    after_each(fixture.clean)

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

    it("cluster_mutex with no_cleanup keeps its mutex when the request has ended, until ttl is over #nginxasan", function()
        local server = start([[
            location = /once { content_by_lua_block {
                local args = ngx.req.get_uri_args()
                collectgarbage()
                ngx.say(tostring((require("spec.support.inside_nginx").client():cluster_mutex("@PATH@" .. args.key, {
                    ttl = tonumber(args.ttl), timeout = tonumber(args.timeout), no_wait = not args.timeout, no_cleanup = true
                }, function() end))))
            } }
        ]])
        assert.same({ 200, "true" }, { server:get("/once?key=long&ttl=3600&timeout=60") })
        assert.same({ 200, "true" }, { server:get("/once?key=short&ttl=0.5") })
        for _ = 1, 3 do
            assert.same({ 200, "false" }, { server:get("/once?key=long&ttl=3600") })
        end
        assert.same({ 200, "false" }, { server:get("/once?key=short&ttl=0.5&timeout=60") }) -- it has waited
        nobody_complained(server)
    end)

    it("a request has in all its phases what it acquired by a module's lock, and no other request has it", function()
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
                inside.await_report(server, "inside", "true")
                assert.same({ 200, "false not_held false" }, { server:get("/stranger" .. arguments) })
                assert.same({ 200, "timeout timeout not_held not_held false" }, { server:get("/other" .. arguments) })
                assert.same({ 200, "true" }, { span:answer() })
                for name, outcome in pairs({ span = "true true", other = "not_held" }) do
                    inside.await_report(server, name, outcome)
                end
                assert.same({ 200, "forgotten" }, { server:get("/forget") })
            end
        end
        nobody_complained(server)
    end)

    it("light threads of a request acquire each for itself; a thread that never does may use its request's hold", function()
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
end)
