--- support.nginx_fixture: helpers of specs inside nginx: servers that fixture.clean ends, with locations that use
-- support.inside_nginx. fixture.clean fails if a sanitizer has found an error in one of them.

local assert = require "luassert"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local nginx = require "spec.support.nginx"
local ports = require "spec.support.ports"

local inside = {}

--- The beginning of http {} unless a spec gives another one; the server {} is left open.
inside.HEAD = [[
    lua_check_client_abort on;
    lua_shared_dict results 1m;
    init_by_lua_block {
        local inside = require "spec.support.inside_nginx"
        inside.servers, inside.path = "@ZOOKEEPER@", "@PATH@"
        @SETTINGS@
    }
    server {
        listen 127.0.0.1:@PORT@ backlog=4096;
        location = /cycle { content_by_lua_block { require("spec.support.inside_nginx").cycle() } }
        location = /report { content_by_lua_block { require("spec.support.inside_nginx").report(ngx.var.arg_name) } }
        location = /waiters { content_by_lua_block { require("spec.support.inside_nginx").waiters() } }
        location = /plain { content_by_lua_block { ngx.say("plain") } }
]]

--- Starts nginx with one worker, or as many as the options give, the locations above and these; `@PATH@` is a new path. `idle`
-- and `main` as of nginx.start. `settings`: Lua that sets fields of support.inside_nginx, `inside`.
function inside.start(locations, options)
    options = options or {}
    local path = options.path or fixture.path()
    local server = fixture.remember(nginx.start {
        workers = options.workers, idle = options.idle, main = options.main,
        http = (options.head or inside.HEAD) .. (locations or "") .. "}\n" .. (options.http or ""),
        values = {
            ZOOKEEPER = options.servers or fixture.servers(), PATH = path, PORT2 = ports.free(), SETTINGS = options.settings or ""
        }
    })
    server.path = path
    return server
end

--- Sends a request that acquires the server's path and holds it for so many seconds.
function inside.cycle(server, seconds, more)
    return server:ask(("/cycle?path=%s&seconds=%g%s"):format(server.path, seconds or 0, more or ""))
end

--- Sends a request that does so until inside.go(server), which also reaches a worker that is about to exit.
function inside.hold(server, more)
    return inside.cycle(server, 0, ("&go=%s/go%s"):format(server.directory, more or ""))
end

function inside.go(server)
    files.write(server.directory .. "/go", "")
end

--- Makes a certificate and its key, the files cert and key, in a new directory. Returns the directory.
function inside.certificate()
    local directory = files.make_directory()
    local _, status = cluster.run({ "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
        "-keyout", directory .. "/key", "-out", directory .. "/cert" })
    assert.equal(0, status)
    fixture.on_clean(function()
        cluster.run({ "rm", "-rf", directory })
    end)
    return directory
end

function inside.nobody_complained(server)
    assert.same({}, server:complaints())
end

--- Waits until a location has kept the expected text under a name, or any text unless given. Returns the text.
function inside.await_report(server, name, expected)
    return eventually(function()
        local _, text = server:get("/report?name=" .. name)
        if expected and text == expected or not expected and text ~= "" then
            return text
        end
        return nil, text
    end, 60, "the report " .. name)
end

--- Returns the number of sessions of the shared ZooKeeper.
function inside.sessions()
    return assert(cluster.shared():mntr()).zk_num_alive_connections
end

return inside
