--- Requests over HTTP/2, inside nginx. The Lua there is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local daemon = require "spec.support.daemon"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

describe("over HTTP/2 #nginx", function()
    after_each(fixture.clean)

    --- Starts nginx with these locations, over HTTP/2 and TLS.
    local function start(locations)
        local directory = inside.certificate()
        return inside.start(locations, { head = inside.HEAD:gsub("backlog=4096;",
            ("ssl http2; ssl_certificate %s/cert; ssl_certificate_key %s/key;"):format(directory, directory)) })
    end

    --- Fails if nginx complains of more than its configuration: from 1.25.1 on `http2 on` takes the place of `listen … http2`.
    local function nobody_complained(server)
        for _, line in ipairs(server:complaints()) do
            assert.truthy(line:find('the "listen ... http2" directive is deprecated', 1, true), line)
        end
    end

    --- Returns the words of a command that requests all of these URLs by one connection.
    local function curl(server, ...)
        local words = { "curl", "-sS", "--insecure", "--http2", "--parallel" }
        for index = 1, select("#", ...) do
            words[#words + 1] = ("https://127.0.0.1:%d%s"):format(server.port, (select(index, ...)))
        end
        return words
    end

    it("streams of one connection wait for each other, and each has its own holds", function()
        local server = start([[
            location = /turn { content_by_lua_block {
                local inside = require "spec.support.inside_nginx"
                local lock = package.loaded.lock or inside.mutex("@PATH@")
                package.loaded.lock = lock
                assert(select(3, lock:release()) == "not_held")
                assert(lock:acquire(20))
                local others = inside.others or 0
                inside.others = 1
                ngx.sleep(0.01)
                inside.others = nil
                assert(lock:held())
                ngx.say(ngx.req.http_version(), " ", ngx.var.connection, " ", others) -- the request ends while it holds
            } }
        ]])
        local output = cluster.run(curl(server, "/turn", "/turn", "/turn", "/turn", "/turn", "/turn", "/turn", "/turn"))
        local connection = output:match("2 (%d+) 0")
        assert.equal(8, select(2, output:gsub(("2 %s 0"):format(connection), "")), output)
        fixture.await_children(server.path, 0)
        nobody_complained(server)
    end)

    it("requests of a client that hangs up leave the queue, whether they hold or wait", function()
        local server = start([[
            location = /hold { content_by_lua_block {
                assert(require("spec.support.inside_nginx").mutex("@PATH@"):acquire(60))
                ngx.sleep(600)
            } }
        ]])
        local directory = fixture.temporary_directory()
        local first = fixture.remember(daemon.start(curl(server, "/hold"), { directory = directory, signal = "TERM" }))
        fixture.await_children(server.path, 1)
        fixture.join(server.path)
        local second = fixture.remember(daemon.start(curl(server, "/hold"), { directory = directory, signal = "TERM" }))
        fixture.await_children(server.path, 3)
        second:finish()
        fixture.await_children(server.path, 2)
        first:finish()
        fixture.await_children(server.path, 1)
        nobody_complained(server)
    end)
end)
