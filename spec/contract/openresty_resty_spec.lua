--- resty.zklock inside nginx: the cases of lua-resty-lock's documentation and test suite, written anew, and what is more than
-- one nginx. The Lua inside nginx is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local await_report, nobody_complained = inside.await_report, inside.nobody_complained

--- The promises of lua-resty-lock, as the code of a request and its answer. `lines` has a pattern for each line of the answer.
local CASES = {
    {
        name = "acquires and releases, again and again",
        code = [[
            for i = 1, 2 do
                local lock, err = resty_lock:new("my_locks", { timeout = 20 })
                if not lock then
                    ngx.say("failed to create lock: ", err)
                end
                local elapsed, err = lock:lock("serial")
                ngx.say("lock: ", elapsed, ", ", err)
                local ok, err = lock:unlock()
                if not ok then
                    ngx.say("failed to unlock: ", err)
                end
                ngx.say("unlock: ", ok)
            end
        ]],
        lines = { "lock: 0, nil", "unlock: 1", "lock: 0, nil", "unlock: 1" }
    }, {
        name = "releases a lock whose object is collected",
        code = [[
            for i = 1, 3 do
                collectgarbage("collect")
                collectgarbage("collect")
                local lock = resty_lock:new("my_locks", { timeout = 20 })
                local elapsed, err = lock:lock("collected")
                ngx.say("lock: ", elapsed and "held", ", ", err)
            end
        ]],
        lines = { "lock: held, nil", "lock: held, nil", "lock: held, nil" }
    }, {
        name = "answers timeout to the second object, and unlocked to an object that has no lock",
        code = [[
            for _, timeout in ipairs { 0.01, 0 } do
                local lock1 = resty_lock:new("my_locks", { timeout = 20 })
                local lock2 = resty_lock:new("my_locks", { timeout = timeout })
                local elapsed, err = lock1:lock("timed out")
                ngx.say("lock 1: lock: ", elapsed, ", ", err)
                local elapsed, err = lock2:lock("timed out")
                ngx.say("lock 2: lock: ", elapsed, ", ", err)
                local ok, err = lock1:unlock()
                ngx.say("lock 1: unlock: ", ok, ", ", err)
                local ok, err = lock2:unlock()
                ngx.say("lock 2: unlock: ", ok, ", ", err)
                assert(resty_lock:new("my_locks", { timeout = 20 }):lock("drained")) -- the queue is empty before the next round
            end
        ]],
        lines = {
            "lock 1: lock: 0, nil", "lock 2: lock: nil, timeout", "lock 1: unlock: 1, nil", "lock 2: unlock: nil, unlocked",
            "lock 1: lock: %S+, nil", "lock 2: lock: nil, timeout", "lock 1: unlock: 1, nil", "lock 2: unlock: nil, unlocked"
        }
    }, {
        name = "waits for another light thread, without blocking the worker, whatever step, ratio and max_step are",
        code = [[
            for i, opts in ipairs { {}, { step = 0.01 }, { ratio = 3 }, { max_step = 0.05 } } do
                local key = "waited " .. i
                ngx.thread.spawn(function()
                    local lock = resty_lock:new("my_locks", { timeout = 20 })
                    local elapsed, err = lock:lock(key)
                    ngx.say("sub thread: lock: ", elapsed, " ", err)
                    ngx.sleep(0.1)
                    ngx.say("sub thread: unlock: ", lock:unlock(key))
                end)
                opts.timeout = 20
                local lock = resty_lock:new("my_locks", opts)
                local elapsed, err = lock:lock(key)
                ngx.say("main thread: lock: ", elapsed ~= 0 and "waited", " ", err)
                ngx.say("main thread: unlock: ", lock:unlock())
            end
        ]],
        lines = {
            "sub thread: lock: 0 nil", "sub thread: unlock: 1", "main thread: lock: waited nil", "main thread: unlock: 1",
            "sub thread: lock: 0 nil", "sub thread: unlock: 1", "main thread: lock: waited nil", "main thread: unlock: 1",
            "sub thread: lock: 0 nil", "sub thread: unlock: 1", "main thread: lock: waited nil", "main thread: unlock: 1",
            "sub thread: lock: 0 nil", "sub thread: unlock: 1", "main thread: lock: waited nil", "main thread: unlock: 1"
        }
    }, {
        name = "ends a lock by itself after exptime",
        code = [[
            local kept
            ngx.thread.spawn(function()
                kept = resty_lock:new("my_locks", { exptime = 5, timeout = 20 })
                kept.timeout = 20 -- new has cut it to exptime
                ngx.say("sub thread: lock: ", kept:lock("expires"))
            end)
            local lock = resty_lock:new("my_locks", { timeout = 20 })
            local elapsed, err = lock:lock("expires")
            ngx.say("main thread: lock: ", elapsed ~= 0 and "waited", " ", err)
            ngx.say("main thread: unlock: ", lock:unlock())
            ngx.say("sub thread: held: ", kept:held())
        ]],
        lines = { "sub thread: lock: 0", "main thread: lock: waited nil", "main thread: unlock: 1", "sub thread: held: false" }
    }, {
        name = "answers nil key, empty key, key too long, dictionary not found",
        code = [[
            local lock = resty_lock:new("my_locks")
            for _, key in ipairs { false, "", ("k"):rep(65536) } do
                local elapsed, err = lock:lock(key)
                ngx.say("failed to lock: ", err)
            end
            ngx.say("failed to lock: ", select(2, lock:lock(nil)))
            ngx.say("failed to create: ", select(2, resty_lock:new(nil)))
        ]],
        lines = {
            "failed to lock: nil key", "failed to lock: empty key", "failed to lock: key too long", "failed to lock: nil key",
            "failed to create: dictionary not found"
        }
    }, {
        name = "answers locked to an object that has a lock, of the same key or another",
        code = [[
            local lock = resty_lock:new("my_locks", { timeout = 20 })
            ngx.say(lock:lock("one"))
            ngx.say(select(2, lock:lock("one")), " ", select(2, lock:lock("two")))
            ngx.say(lock:unlock())
        ]],
        lines = { "0", "locked locked", "1" }
    }, {
        name = "extends a lock by expire, and shortens it",
        code = [[
            local lock1 = resty_lock:new("my_locks", { timeout = 20 })
            local lock2 = resty_lock:new("my_locks", { timeout = 0 })
            local lock3 = resty_lock:new("my_locks", { timeout = 20 })
            ngx.say("lock 1: expire: ", select(2, lock1:expire()))
            ngx.say("lock 1: lock: ", lock1:lock("extended"))
            ngx.say("lock 1: expire: ", lock1:expire())
            ngx.say("lock 2: lock: ", select(2, lock2:lock("extended")))
            ngx.say("lock 1: expire: ", lock1:expire(0.1))
            ngx.say("lock 3: lock: ", lock3:lock("extended") > 0)
            ngx.say("lock 1: expire: ", (select(2, lock1:expire(5))))
            ngx.say("lock 3: unlock: ", lock3:unlock())
            ngx.say("lock 3: expire: ", select(2, lock3:expire(0.2)))
        ]],
        lines = {
            "lock 1: expire: unlocked", "lock 1: lock: 0", "lock 1: expire: true", "lock 2: lock: timeout",
            "lock 1: expire: true", "lock 3: lock: true", "lock 1: expire: not found", "lock 3: unlock: 1",
            "lock 3: expire: unlocked"
        }
    }, {
        name = "guards a cache: one request asks the backend, the others find its value",
        code = [[
            local asked, cache, threads = 0, {}, {}
            local function get(key)
                if cache[key] then
                    return cache[key]
                end
                local lock = assert(resty_lock:new("my_locks", { timeout = 20 }))
                local elapsed, err = lock:lock(key)
                if not elapsed then
                    return "failed to acquire the lock: " .. err
                end
                if not cache[key] then
                    asked = asked + 1
                    ngx.sleep(0.05)
                    cache[key] = "value " .. asked
                end
                local ok, err = lock:unlock()
                return ok and cache[key] or "failed to unlock: " .. err
            end
            for i = 1, 50 do
                threads[i] = ngx.thread.spawn(get, "cached")
            end
            local answers = {}
            for i = 1, 50 do
                local _, answer = ngx.thread.wait(threads[i])
                answers[answer] = (answers[answer] or 0) + 1
            end
            ngx.say(asked, ": ", answers["value 1"])
        ]],
        lines = { "1: 50" }
    }
}

local LOCATIONS = [[
    location = /lock { content_by_lua_block {
        resty_lock.kept = assert(resty_lock:new("my_locks", { timeout = tonumber(ngx.var.arg_timeout) or 20, exptime = 60 }))
        ngx.say(tostring(resty_lock.kept:lock(ngx.var.arg_key)))
    } }
    location = /unlock { content_by_lua_block { ngx.say(tostring(resty_lock.kept:unlock())) } }
    location = /forget { content_by_lua_block { resty_lock.kept = nil; collectgarbage(); collectgarbage(); ngx.say("forgotten") } }
    location = /try { content_by_lua_block {
        local lock = assert(resty_lock:new(ngx.var.arg_dict or "my_locks", { timeout = 0 }))
        local elapsed, err = lock:lock(ngx.var.arg_key)
        ngx.say(elapsed and lock:unlock() or err)
    } }
    location = /phases {
        access_by_lua_block {
            ngx.ctx.lock = assert(resty_lock:new("my_locks", { timeout = 20 }))
            ngx.ctx.elapsed = assert(ngx.ctx.lock:lock("phases"))
        }
        content_by_lua_block { ngx.say(ngx.ctx.elapsed) }
        header_filter_by_lua_block {
            local lock = assert(resty_lock:new("my_locks", { timeout = 20 }))
            local elapsed, err, code = lock:lock("phases")
            ngx.header["X-Lock"] = tostring(elapsed) .. " " .. tostring(code)
        }
        log_by_lua_block { ngx.shared.results:set("unlock", tostring(ngx.ctx.lock:unlock())) }
    }
    location = /timer { content_by_lua_block {
        local lock = assert(resty_lock:new("my_locks", { timeout = 20 }))
        assert(lock:lock("timer"))
        ngx.timer.at(0, function()
            ngx.shared.results:set("timer", tostring(lock:held()) .. " " .. tostring(lock:unlock()))
        end)
        ngx.say("later")
    } }
]]

--- Starts nginx with the locations of all cases.
local function start(options)
    local locations = { LOCATIONS }
    for number, case in ipairs(CASES) do
        locations[#locations + 1] = ("location = /case%d { content_by_lua_block { %s } }"):format(number, case.code)
    end
    local head = inside.HEAD:gsub("init_by_lua_block {", function(line)
        return line .. [[
            resty_lock = require "resty.zklock"
            assert(resty_lock.connect { servers = "@ZOOKEEPER@", prefix = "@PATH@", session_timeout = 60 })
        ]]
    end)
    options = options or {}
    options.head = head
    return inside.start(table.concat(locations, "\n"), options)
end

--- Returns the body of the answer; fails if it is not 200.
local function ask(server, location)
    local status, body = server:get(location)
    assert.equal(200, status, location .. ": " .. tostring(body) .. server:log())
    return body
end

--- Asserts that a request which answers with the result of lock() had to wait: without a wait the result is exactly 0.
local function assert_waited(request)
    local status, elapsed = request:answer()
    assert.equal(200, status)
    assert.is_number(tonumber(elapsed), elapsed)
    assert.are_not.equal("0", elapsed)
end

describe("resty.zklock inside nginx #nginx", function()
    after_each(fixture.clean)

    it("answers as lua-resty-lock documents it, case by case", function()
        local server = start()
        for number, case in ipairs(CASES) do
            local lines = {}
            for line in (ask(server, "/case" .. number) .. "\n"):gmatch("([^\n]*)\n") do
                lines[#lines + 1] = line
                local expected = case.lines[#lines] or "no further line"
                assert.truthy(line:find("^" .. expected .. "$"),
                    ("it %s: line %d is %q, not %q"):format(case.name, #lines, line, expected))
            end
            assert.equal(#case.lines, #lines, case.name)
        end
        nobody_complained(server)
    end)

    it("excludes other workers and other machines, and not the same key of another dictionary", function()
        local path = fixture.path()
        local one, other = start { path = path }, start { path = path }
        for _, server in ipairs { one, other } do -- opens the worker's session
            assert.equal("0", ask(server, "/lock?key=first"))
            assert.equal("1", ask(server, "/unlock"))
            fixture.await_children(path .. "/my_locks/first", 0)
        end
        assert.equal("0", ask(one, "/lock?key=fleet"))
        assert.equal("timeout", ask(other, "/try?key=fleet"))
        assert.equal("1", ask(other, "/try?key=fleet&dict=another"))
        local waiting = other:ask("/lock?key=fleet")
        fixture.await_children(path .. "/my_locks/fleet", 2)
        assert.equal("1", ask(one, "/unlock"))
        assert_waited(waiting)
        nobody_complained(one)
        nobody_complained(other)
    end)

    it("holds beyond the request, until it is unlocked by another one or collected", function()
        local server = start()
        local held = server.path .. "/my_locks/kept"
        assert.equal("0", ask(server, "/lock?key=kept"))
        assert.equal("timeout", ask(server, "/try?key=kept"))
        assert.equal("1", ask(server, "/unlock"))
        fixture.await_children(held, 0)
        assert.equal("0", ask(server, "/lock?key=kept"))
        assert.equal("forgotten", ask(server, "/forget"))
        fixture.await_children(held, 0)
        assert.equal("later", ask(server, "/timer"))
        await_report(server, "timer", "true 1")
        nobody_complained(server)
    end)

    it("unlocks in every phase, and answers phase where lock would have to wait", function()
        local server = start()
        local request = server:ask("/phases")
        local status, body = request:answer()
        assert.same({ 200, "0" }, { status, body })
        assert.truthy(request.head:find("X-Lock: nil phase", 1, true), request.head)
        await_report(server, "unlock", "1")
        fixture.await_children(server.path .. "/my_locks/phases", 0)
        nobody_complained(server)
    end)

    it("passes the lock on when the session of a killed worker has ended", function()
        local path = fixture.path()
        local one, other = start { path = path }, start { path = path }
        assert.equal("0", ask(one, "/lock?key=crash"))
        local holder = fixture.other_child(path .. "/my_locks/crash")
        local waiting = other:ask("/lock?key=crash&timeout=60")
        fixture.await_children(path .. "/my_locks/crash", 2)
        one:signal("KILL", one:workers()[1])
        fixture.kill_owner(holder)
        assert_waited(waiting)
        nobody_complained(other)
    end)

    it("makes objects in init_by_lua, for all requests, also before connect", function()
        local server = inside.start([[
            location = /made { content_by_lua_block {
                local lock = package.loaded.made
                ngx.say(tostring(lock:lock("made")), " ", tostring(lock:unlock()))
            } }
        ]], { settings = [[
            local resty_lock = require "resty.zklock"
            package.loaded.made = assert(resty_lock:new("my_locks", { timeout = 20 }))
            assert(resty_lock.connect { servers = inside.servers, prefix = inside.path })
        ]] })
        for _ = 1, 2 do
            assert.equal("0 1", ask(server, "/made"))
        end
        nobody_complained(server)
    end)

    it("takes its servers from the environment, and says so if there are none", function()
        local locations = [[
            location = /new { content_by_lua_block {
                local lock = assert(require("resty.zklock"):new("my_locks", { timeout = 20 }))
                local elapsed, err = lock:lock(ngx.var.arg_key)
                ngx.say(elapsed and tostring(elapsed) or err)
            } }
        ]]
        local without = inside.start(locations)
        assert.truthy(ask(without, "/new?key=a"):find("ZKLOCK_SERVERS", 1, true))
        local with = fixture.remember(require("spec.support.nginx").start {
            main = "env ZKLOCK_SERVERS=" .. fixture.servers() .. ";",
            http = "server { listen 127.0.0.1:@PORT@; " .. locations .. "}"
        })
        assert.equal("0", ask(with, "/new?key=" .. fixture.path():gsub("/", "")))
        nobody_complained(with)
    end)
end)
