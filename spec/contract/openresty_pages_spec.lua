--- nginx's blocks of the README, of docs/openresty.md and of docs/from/lua-resty-lock.md, as they are printed there, and the small
-- nginx.conf of the latter. The Lua in nginx is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local configuration = require "spec.support.configuration"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local nginx = require "spec.support.nginx"

--- Returns a page's first block in a language, or that with a number, with the servers of the specs.
local function block_of(path, language, number)
    return (documentation.block_of(path, language, number):gsub("zk1:2181,zk2:2181,zk3:2181", fixture.servers()))
end

describe("nginx's blocks #nginx", function()
    after_each(fixture.clean)

    it("of the README answer what the function returns, or a failure with its code", function()
        local block, path = block_of("README.md", "nginx"), fixture.path()
        local found
        block, found = block:gsub("/locks/stock", path)
        assert.equal(1, found)
        block, found = block:gsub("end, 5%)", "end, tonumber(ngx.var.arg_seconds))")
        assert.equal(1, found)
        local server = fixture.remember(nginx.start { http = "server { listen 127.0.0.1:@PORT@; " .. block .. " }" })
        local status, body = server:get("/transfer?seconds=20")
        assert.equal(200, status)
        assert.truthy(body:find("^%d+%-%d+$"), body)
        local lock = fixture.client():mutex(path)
        assert(lock:acquire(20))
        status, body = server:get("/transfer?seconds=1") -- long enough for a busy server to answer
        assert.same({ 503, "timeout" }, { status, body })
        assert(lock:release())
        inside.nobody_complained(server)
    end)

    it("of the README answer 504 if the lock is lost during the work", function()
        local path = fixture.path()
        local block = block_of("README.md", "nginx"):gsub("/locks/stock", path)
        local worked
        block, worked = block:gsub("return", "while hold:held() do ngx.sleep(0.01) end return", 1)
        assert.equal(1, worked)
        local server = fixture.remember(nginx.start { http = "server { listen 127.0.0.1:@PORT@; " .. block .. " }" })
        local request = server:ask("/transfer")
        fixture.await_children(path, 1)
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        local status, body = request:answer()
        assert.same({ 504, "lost" }, { status, body })
        inside.nobody_complained(server)
    end)

    it("of docs/openresty.md give the workers the configuration of the machine", function()
        local main = block_of("docs/openresty.md", "nginx", 2)
        local by_variable, variables = main:gsub("env ZKLOCK_SERVERS;", "env ZKLOCK_SERVERS=" .. fixture.servers() .. ";")
        local file = configuration.file(('return { servers = "%s", identity = "from the file" }'):format(fixture.servers()), "644")
        local by_file, files_named = main:gsub("/etc/nginx/zklock.lua", file)
        assert.same({ 1, 1 }, { variables, files_named })
        by_variable = by_variable:gsub("env ZKLOCK_CONFIG=[^;]*;", "env ZKLOCK_CONFIG=;")
        for lines, identity in pairs { [by_variable] = "^[^:]+:%d+$", [by_file] = "^from the file$" } do
            local server = fixture.remember(nginx.start { main = lines, http = ([[
                server { listen 127.0.0.1:@PORT@; location = /try { content_by_lua_block {
                    local lock = assert(require("zklock").shared()):mutex("%s")
                    assert(lock:acquire(20))
                    ngx.say(lock:contenders()[1].identity)
                } } }]]):format(fixture.path()) })
            local status, body = server:get("/try")
            assert.equal(200, status)
            assert.truthy(body:find(identity), body)
            inside.nobody_complained(server)
        end
    end)

    it("of docs/from/lua-resty-lock.md make locks with that interface", function()
        local server = fixture.remember(nginx.start { http = block_of("docs/from/lua-resty-lock.md", "nginx") ..
            "server { listen 127.0.0.1:@PORT@; location = /try { content_by_lua_block {" ..
            block_of("docs/from/lua-resty-lock.md", "lua") .. [[

                local lock = assert(resty_lock:new("my_locks", { timeout = 20 }))
                assert(lock:lock(tostring(ngx.now())))
                ngx.say(lock:held())
                assert(lock:unlock())
            } } }]] })
        local status, body = server:get("/try")
        assert.same({ 200, "true" }, { status, body })
        inside.nobody_complained(server)
    end)

    it("of examples/resty/nginx.conf let two requests take turns", function()
        local conf, directory = files.read(cluster.root .. "/examples/resty/nginx.conf"), files.make_directory()
        -- Only places, addresses, the pause and the limit for a busy machine are changed.
        for _, change in ipairs {
            { "include /etc/nginx/modules%-enabled/%*%.conf;", "@MODULES@" },
            { "/tmp/zklock%-trial%.pid", "@DIRECTORY@/nginx.pid" },
            { "error_log stderr", "error_log @DIRECTORY@/error.log" }, { "127%.0%.0%.1:8080", "127.0.0.1:@PORT@" },
            { "env ZKLOCK_SERVERS;", "env ZKLOCK_SERVERS=" .. fixture.servers() .. ";" }, { "ngx%.sleep%(1%)", "ngx.sleep(0.1)" },
            { "timeout = 20,", "timeout = 30," },
            { "my_locks", fixture.path():sub(2):gsub("/", "-") }, { "access_log off;", "%0\n" .. nginx.PLACES }
        } do
            local found
            conf, found = conf:gsub(change[1], (change[2]))
            assert.equal(1, found, change[1])
        end
        files.write(directory .. "/nginx.conf", conf)
        local server = fixture.remember(nginx.start { template = directory .. "/nginx.conf" })
        cluster.run { "rm", "-r", directory }
        local first, second = server:ask "/work", server:ask "/work"
        local tokens = {}
        for index, request in ipairs { first, second } do
            local status, body = request:answer()
            assert.equal(200, status, body)
            tokens[index] = assert(body:match "^waited for [%d.e-]+ s, token (%d+%-%d+)$", body)
        end
        assert.not_equal(tokens[1], tokens[2])
        inside.nobody_complained(server)
    end)
end)
