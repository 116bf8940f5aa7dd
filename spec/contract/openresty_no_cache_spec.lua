--- Inside nginx with lua_code_cache off, where each request has a Lua of its own. The Lua inside nginx is always LuaJIT, so these
-- specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local cycle, sessions, start = inside.cycle, inside.sessions, inside.start

describe("inside nginx #nginx", function()
    after_each(fixture.clean)

    it("with lua_code_cache off every request has its own client, which ends again #nginxasan", function()
        local server = start([[
            location = /logs { content_by_lua_block {
                local client = assert(require("zklock").connect("@ZOOKEEPER@", { connect_timeout = 20, log = function() end }))
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
end)

describe("without a Lua cache #nginx", function()
    after_each(fixture.clean)

    it("more requests than timers allowed do not stop the worker, and a reload ends it #nginxasan", function()
        local server = inside.start(nil, { head = "lua_code_cache off; lua_max_running_timers 16;\n" .. inside.HEAD })
        for _ = 1, 60 do
            assert.same({ 200, "held" }, { inside.cycle(server):answer() })
        end
        server:reload()
        assert.same({ 200, "held" }, { inside.cycle(server):answer() })
        for _, line in ipairs(server:complaints()) do
            assert.truthy(line:find("lua_code_cache is off", 1, true), line)
        end
    end)
end)
