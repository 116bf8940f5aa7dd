--- Inside nginx's other processes: scripts that `resty` runs, and the privileged agent. The Lua inside nginx is always LuaJIT, so
-- these specs run only once.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local program = require "spec.support.nginx_program"

describe("a script that resty runs #nginx", function()
    after_each(fixture.clean)

    --- Runs a script, which has `client` and the path of a lock. Returns its output and its exit status.
    local function run(path, script)
        local file = fixture.temporary_directory() .. "/script.lua"
        files.write(file, [[
            local zklock = require "zklock"
            local client = assert(zklock.connect(arg[1], { connect_timeout = 20, session_timeout = 60 }))
            local path = arg[2]
        ]] .. script)
        return cluster.run(cluster.words(program.resty(), { "-I", cluster.root .. "/lua", "-I", cluster.root .. "/build/luajit",
            file, fixture.servers(), path }))
    end

    --- Defines a spec for a system that has resty.
    local function it_runs(title, body)
        it(title, function()
            if not program.resty() then
                return pending("needs OpenResty's resty (RESTY=… names it), and an nginx into which Lua is built (NGINX=…)")
            end
            body(fixture.path())
        end)
    end

    it_runs("waits for locks, and its locks are free when it has ended, also without a release", function(path)
        assert.same({ "true true", 0 }, { run(path, [[
            local lock = client:mutex(path)
            assert(lock:with_lock(function() return true end, 20))
            assert(lock:acquire(20))
            local _, _, code = client:mutex(path):acquire(0)
            print(tostring(lock:held()), " ", tostring(code == "deadlock" or code == "timeout"))
        ]]) })
        fixture.await_children(path, 0)
        fixture.join(path)
        assert.same({ "timeout", 0 }, { run(path, [[
            print((select(3, client:mutex(path):acquire(0.2))))
            client:close()
        ]]) })
        fixture.await_children(path, 1)
    end)

    it_runs("leaves no lock either if it fails, or exits with a status", function(path)
        local output, status = run(path, "assert(client:mutex(path):acquire(20)) error('as the spec wants it')")
        assert.equal(1, status)
        assert.truthy(output:find("as the spec wants it", 1, true), output)
        fixture.await_children(path, 0)
        assert.same({ "", 3 }, { run(path, "assert(client:mutex(path):acquire(20)) ngx.exit(3)") })
        fixture.await_children(path, 0)
    end)
end)

describe("nginx's privileged agent #nginx", function()
    after_each(fixture.clean)

    it("locks as a worker does, and its locks pass on when it exits", function()
        local server = inside.start(nil, { head = [[
            init_worker_by_lua_block {
                if require("ngx.process").type() == "privileged agent" then
                    assert(ngx.timer.at(0, function()
                        local inside = require "spec.support.inside_nginx"
                        local lock = inside.mutex("@PATH@")
                        local held, problem = lock:acquire { timeout = 60, keep = true }
                        ngx.shared.results:set("agent", held and ngx.worker.pid() or problem)
                        package.loaded.kept = lock
                    end))
                end
            }
        ]] .. inside.HEAD:gsub("init_by_lua_block {", [[%0
            local enabled, problem = require("ngx.process").enable_privileged_agent(64)
            ngx.shared.results:set("enabled", enabled and "yes" or problem)
        ]]) })
        local enabled = inside.await_report(server, "enabled")
        if enabled ~= "yes" then
            return pending("this nginx has no privileged agent, which is OpenResty's: " .. enabled)
        end
        local agent = tonumber(inside.await_report(server, "agent"))
        local workers = server:workers()
        assert.equal(2, #workers)
        assert.is_true(agent == workers[1] or agent == workers[2])
        -- The new agent has the lock after the old one.
        fixture.await_children(server.path, 1)
        local node = fixture.children(server.path)[1]
        server:reload()
        fixture.await_children(server.path, 1)
        assert.not_equal(node, fixture.children(server.path)[1])
        inside.nobody_complained(server)
    end)
end)
