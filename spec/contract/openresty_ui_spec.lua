--- The live view inside nginx: page and events, reload with viewers, workers that exit, refusals. The Lua in nginx is always
-- LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local eventually = require "spec.support.eventually"
local events = require "spec.support.events"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

--- nginx would log each word that a busy server has not answered within a second.
local HEAD = [[
    lua_socket_log_errors off;
    init_worker_by_lua_block {
        require("zklock").shared("@ZOOKEEPER@", { session_timeout = 60 })
    }
    server {
        listen 127.0.0.1:@PORT@;
        server_name locks.example;
        location = /ui { content_by_lua_block { require("zklock.ui").serve { paths = { "@PATH@" } } } }
        location = /proxied { proxy_pass http://127.0.0.1:@PORT@/ui; }
        location = /passed { proxy_pass http://127.0.0.1:@PORT@/ui; proxy_set_header Host $http_host; }
        location = /mistake { content_by_lua_block { require("zklock.ui").serve { paths = { "no/path" } } } }
        location = /hold { content_by_lua_block {
            local client = require("zklock").shared("@ZOOKEEPER@", { session_timeout = 60 })
            local lock = client:mutex("@PATH@/mine", { identity = "the request" })
            assert(lock:acquire(20))
            ngx.say "held"
            ngx.flush(true)
            ngx.sleep(tonumber(ngx.var.arg_seconds))
        } }
]]

local function start(options)
    local server = inside.start("", { head = HEAD, workers = options and options.workers })
    fixture.observer():create_all(server.path)
    return server
end

describe("the live view inside nginx #nginx", function()
    after_each(fixture.clean)

    it("serves the page with its policy, and a table without JavaScript", function()
        local server = start()
        fixture.join(server.path .. "/a", nil, "<b>one</b>")
        local request = server:ask "/ui"
        local status, body = request:answer()
        assert.equal(200, status)
        assert.truthy(request.head:find("Content%-Security%-Policy: default%-src 'none'; script%-src 'sha256%-"))
        assert.truthy(body:find("<title>zklock</title>", 1, true))
        eventually(function()
            body = select(2, server:get "/ui?table")
            return body:find("&lt;b&gt;one&lt;/b&gt;", 1, true)
        end)
        inside.nobody_complained(server)
    end)

    it("sends a snapshot and then changes, and shows the worker's own lease", function()
        local server = start()
        local viewer = events.open(server.port, "/ui?events")
        assert.equal("snapshot", viewer:next().event)
        server:ask "/hold?seconds=60"
        local event = viewer:await(function(event)
            return event.locks[1] and event.locks[1].names[1] == "the request" and event
        end)
        assert.equal(server.path .. "/mine", event.locks[1].path)
        local own = event.frame.own
        assert.same({ 1, 1, 0 }, { own.held, #own.leases, own.losses })
        assert.equal(server.path .. "/mine/", own.leases[1].node:sub(1, #server.path + 6))
        assert(own.leases[1].remaining > 0)
        viewer:close()
        inside.nobody_complained(server)
    end)

    it("reaches viewers behind a proxy at once, and refuses the names that the proxy passes on", function()
        local server = start()
        for index, location in ipairs { "/proxied", "/passed" } do
            local viewer = events.open(server.port, location .. "?events",
                "Last-Event-ID: 1e999\r\nX-Forwarded-Host: evil.example\r\n")
            assert.equal("snapshot", viewer:next().event)
            local path = ("%s/%d"):format(server.path, index)
            fixture.join(path, nil, "one")
            viewer:await(function(event)
                for _, lock in ipairs(event.locks) do -- another lock may have changed, too
                    if lock.path == path then
                        return true
                    end
                end
                return false
            end)
            viewer:close()
        end
        assert.equal(421, (server:ask("/passed", nil, "Host: evil.example\r\n", true):answer()))
        assert.equal(403, (server:ask("/passed?events", nil, "Origin: http://evil.example\r\n"):answer()))
        inside.nobody_complained(server)
    end)

    it("does not delay a reload: streams end, and viewers get the next worker", function()
        local server = start()
        local viewer = events.open(server.port, "/ui?events")
        assert.equal("snapshot", viewer:next().event)
        server:reload(20)
        assert.equal("end", viewer:finish(20))
        local again = events.open(server.port, "/ui?events")
        assert.equal("snapshot", again:next().event)
        again:close()
        server:quit(20)
        inside.nobody_complained(server)
    end)

    it("refuses other names, other methods, and settings that are wrong", function()
        local server = start()
        assert.equal(421, (server:ask("/ui", nil, "Host: evil.example\r\n", true):answer()))
        assert.equal(200, (server:ask("/ui", nil, "Host: locks.example\r\n", true):answer()))
        assert.equal(403, (server:ask("/ui?events", nil, "Sec-Fetch-Site: cross-site\r\n"):answer()))
        assert.equal(500, (server:get "/mistake"))
        assert.truthy(server:log():find("zklock.ui.serve: option 'paths' must be a list of paths", 1, true))
    end)

    it("says that it needs dkjson where that is not installed", function()
        local gone = "init_by_lua_block { package.preload.dkjson = function() error 'gone' end }"
        local server = inside.start("", { head = gone .. HEAD })
        assert.equal(500, (server:get "/ui"))
        assert.truthy(server:log():find("zklock.ui.serve: the live view needs the module dkjson: install the rock", 1, true))
    end)

    it("ends the poller when nobody looks, and lets its watches go", function()
        local server = start()
        local viewer = events.open(server.port, "/ui?events")
        viewer:next()
        eventually(function()
            return select(2, server:get "/ui?table"):find("locks, as of", 1, true)
        end)
        viewer:close()
        server:quit(20)
        fixture.await_unwatched(server.path)
        inside.nobody_complained(server)
    end)
end)
