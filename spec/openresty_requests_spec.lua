--- What a request has acquired ends with the request, however it ends, and without the collector. LuaJIT whatever Lua runs the
-- specs: once is enough.

if not rawget(_G, "jit") then
    return
end

local socket = require "socket"

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"

local clean = inside.clean

--- The ways to end, in this order: in which location, and what is sent with the request.
local WAYS = { "exit", "redirect", "exec", "set_uri", "hang_up", "hang_up_unseen", "body_timeout", "slow_reader", "error", "forget",
    "kill", "capture" }
local LOCATIONS = { set_uri = "/rewrite", hang_up_unseen = "/unseen" }
local HEADERS = { body_timeout = "Content-Length: 10\r\n" }

--- Where who waits for the lock is.
local PLACES = { "same worker", "another worker", "another process" }

local LOCATIONS_OF_HOLDERS = [[
    client_body_timeout 1s;
    send_timeout 60s;
    location = /hold { content_by_lua_block { require("spec.support.inside_requests").hold() } }
    location = /rewrite { rewrite_by_lua_block { require("spec.support.inside_requests").hold() } }
    location = /unseen {
        lua_check_client_abort off;
        content_by_lua_block { require("spec.support.inside_requests").hold() }
    }
    location = /linger { content_by_lua_block { require("spec.support.inside_requests").linger() } }
    location = /wait { content_by_lua_block { require("spec.support.inside_requests").wait() } }
    location = /go { content_by_lua_block { require("spec.support.inside_requests").say("go") } }
    location = /stop { content_by_lua_block { require("spec.support.inside_requests").say("stop") } }
    location = /busy { content_by_lua_block { ngx.sleep(0.005) ngx.say("busy") } }
]]

--- Starts nginx with two workers, between which the kernel distributes connections evenly. `before`: Lua that runs before all else.
local function start(megabytes, before)
    local head = inside.HEAD:gsub("backlog=4096", "%0 reuseport"):gsub("init_by_lua_block {", "%0 " .. (before or ""))
    head = ("init_worker_by_lua_block { require('spec.support.inside_requests').fill_heap(%d) }\n"):format(megabytes) .. head
    return inside.start(LOCATIONS_OF_HOLDERS, { workers = 2, head = head })
end

--- Sends a request and does not wait for what comes of it.
local function send(server, location, headers)
    local connection = assert(socket.tcp())
    connection:settimeout(30)
    connection:setoption("tcp-nodelay", true)
    assert(connection:connect("127.0.0.1", server.port))
    assert(connection:send(("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"):format(location, headers or "Connection: close\r\n")))
    return connection
end

--- Has a worker wait for the lock of that name; the connection, on which it says what comes of it.
local function wait_in(server, name, worker)
    while true do
        local connection = send(server, ("/wait?name=%s&worker=%d"):format(name, worker))
        local line
        repeat
            line = assert(connection:receive("*l"))
        until line:find(" worker", 1, true)
        if line == "this worker" then
            return connection
        end
        connection:close()
    end
end

--- A load of small requests until the function that this returns is called.
local function load(server)
    local pipe = io.popen(("exec ab -q -l -n 1000000 -c 2 http://127.0.0.1:%d/busy >/dev/null 2>&1 & echo $!"):format(server.port))
    local pid = pipe:read("*l")
    pipe:close()
    return function()
        os.execute("kill " .. pid)
    end
end

--- Every way to end, with a waiter in every place, all at once.
local function all_ways(server)
    local holders, waiters = {}, {}
    for _, way in ipairs(WAYS) do
        for place = 1, #PLACES do
            local location = ("%s?way=%s&name=%s%d"):format(LOCATIONS[way] or "/hold", way, way, place)
            holders[#holders + 1] = { way = way, connection = send(server, location, HEADERS[way]) }
        end
    end
    eventually(function()
        local _, count = server:get("/report?name=holders")
        return tonumber(count) == #holders, tostring(count) .. " hold"
    end, 30, "all to hold")
    for _, way in ipairs(WAYS) do
        for place = 1, #PLACES do
            local name = way .. place
            local path = server.path .. "-" .. name
            if place == #PLACES then
                fixture.join(path)
            else
                local _, worker = server:get("/report?name=worker-" .. name)
                waiters[#waiters + 1] = { name = way .. ", " .. PLACES[place],
                    connection = wait_in(server, name, place == 1 and worker or 1 - worker) }
            end
            fixture.await_children(path, 2)
        end
    end
    assert.equal(200, (server:get("/go")))
    for _, holder in ipairs(holders) do
        if holder.way:find("^hang_up") then
            holder.connection:close()
        end
    end
    for _, waiter in ipairs(waiters) do
        waiter.connection:settimeout(20)
        local line
        repeat
            line = waiter.connection:receive("*l")
        until line == nil or line == "held"
        assert(line, waiter.name)
        waiter.connection:close()
    end
    for _, way in ipairs(WAYS) do
        fixture.await_children(("%s-%s%d"):format(server.path, way, #PLACES), 1, 20)
    end
    assert.equal(200, (server:get("/stop")))
    for _, holder in ipairs(holders) do
        holder.connection:close()
    end
    for _, line in ipairs(server:complaints()) do
        assert.truthy(line:find("as the spec wants it", 1, true), line)
    end
end

describe("a request that ends while it holds gives its lock back #nginx", function()
    after_each(clean)

    for _, megabytes in ipairs { 0, 50 } do
        it(("in every way, to every waiter, with a Lua heap of %d MB, idle and busy #nginxasan"):format(megabytes), function()
            all_ways(start(megabytes))
            local server = start(megabytes)
            local stop = load(server)
            local ok, problem = pcall(all_ways, server)
            stop()
            assert(ok, problem)
        end)
    end
end)
