--- nginx: what zklock costs inside nginx: waking a request, acquiring a lock in each request, and a crowd of waiters next to other
-- requests.
--
-- One worker everywhere. In each round every contestant runs once, one after the other; ratios are of the same round.

local lib = require "lib"
local load = require "load"
local report = require "report"

local CONNECTIONS = 64 -- that request the locked location, and cycles in flight of the C client
local CROWD = 1000
local CROWD_LIFETIME = 300 -- seconds at most
local CROWD_TARGET = "1.2"
local SHARES = { 0.5, 0.99, 0.999 } -- of the requests next to a crowd
local SHORT = 3 -- short rounds for each requested round
local PATIENCE = 60

--- For workers that are compared with each other: on different processors one of them would have the busier neighbours all the
-- time.
local ONE_PROCESSOR = "worker_cpu_affinity 01;"

local HTTP = [[
    init_by_lua_block { require("bench.programs.in_nginx").servers = "@ZOOKEEPER@" }
    server {
        listen 127.0.0.1:@PORT@ backlog=4096;
        keepalive_requests 100000000;
        location = /plain { content_by_lua_block { ngx.header.content_length = 6 ngx.say("plain") } }
        location = /locked { content_by_lua_block { require("bench.programs.in_nginx").locked() } }
        location = /unwaited { content_by_lua_block { require("bench.programs.in_nginx").locked { wait = false } } }
        location = /wait { content_by_lua_block { require("bench.programs.in_nginx").wait() } }
        location = /waiting { content_by_lua_block { require("bench.programs.in_nginx").waiting() } }
        location = /wake_up { content_by_lua_block { require("bench.programs.in_nginx").wake_up() } }
    }
]]

local function percentile(sorted, share)
    return sorted[math.max(1, math.ceil(#sorted * share))]
end

-- Wake-up --------------------------------------------------------------------------------------------------------------

local WAKE_UPS = {
    { "nginx, the reply to its own request", "alone" },
    { "nginx, another client lets go", "event" },
    { "nginx, another request of the worker lets go", "hand_over" }
}

local function report_wake_up(settings, server, rounds, count)
    report.title("From the grant in C to the next line: µs, of %d grants; median of %d rounds (min..max)", count, rounds)
    local medians, tails = {}, {}
    local function note(name, median, tail)
        medians[name], tails[name] = medians[name] or {}, tails[name] or {}
        table.insert(medians[name], median)
        table.insert(tails[name], tail)
    end
    for _ = 1, rounds do
        for _, wake_up in ipairs(WAKE_UPS) do
            local status, body = server:get(string.format("/wake_up?kind=%s&count=%d", wake_up[2], count), PATIENCE)
            assert(status == 200, server:log())
            local samples = {}
            for sample in body:gmatch("%S+") do
                table.insert(samples, tonumber(sample))
            end
            assert(#samples == count)
            note(wake_up[1], percentile(samples, 0.5), percentile(samples, 0.99))
        end
        local plain = lib.run { "lua5.4", settings.bench .. "/programs/wake_up.lua", settings.servers, "/bench-wake-up", count }
        note("plain Lua, the reply to its own request", plain.median_us, plain.p99_us)
    end
    local rows = { { "", "median", "99 %" } }
    for _, name in ipairs { WAKE_UPS[1][1], WAKE_UPS[2][1], WAKE_UPS[3][1], "plain Lua, the reply to its own request" } do
        table.insert(rows, { name, lib.spread(medians[name], "%.0f"), lib.spread(tails[name], "%.0f") })
    end
    report.columns(rows)
end

-- Requests per second --------------------------------------------------------------------------------------------------

local function report_throughput(settings, server, rounds)
    report.title("Requests a second, %d connections, one worker, 1 s each; median of %d rounds (min..max)", CONNECTIONS, rounds)
    local plain, locked, unwaited, bare = {}, {}, {}, {}
    local function rate(location)
        return load.run(server, location, CONNECTIONS, 1).rate
    end
    rate("/locked") -- makes the locks' directories
    for round = 1, rounds do
        plain[round] = rate("/plain")
        locked[round] = rate("/locked")
        unwaited[round] = rate("/unwaited")
        if not settings.missing.floor then
            local result = lib.run { settings.build .. "/floor", "crowd", settings.servers, "/bench-pipeline", "many", 1,
                CONNECTIONS, 0.2, 1, settings.scratch }
            bare[round] = result.turns / result.seconds
        end
    end
    local function row(text, rates)
        return { text, lib.spread(rates, "%.0f"), lib.spread(lib.ratios(rates, plain), "%.3f"),
            lib.spread(lib.ratios(rates, bare), "%.2f") }
    end
    report.columns {
        { "", "a second", ": no lock", ": C client" },
        row("no lock", plain),
        row("one of 1000 locks", locked),
        row("the same, release{wait = false}", unwaited),
        row("C client: create, delete, " .. CONNECTIONS .. " in flight", bare)
    }
end

-- A crowd --------------------------------------------------------------------------------------------------------------

--- Makes a crowd of requests wait at a server, from a separate process: a load tool that inherits a thousand connections has
-- no numbers left for its own. Returns a function that ends them.
local function gather(server)
    local socket = require "socket"
    local pipe = assert(io.popen(string.format("echo $$; exec wrk -t1 -c%d -d%ds --timeout %ds http://127.0.0.1:%d/wait",
        CROWD, CROWD_LIFETIME, CROWD_LIFETIME, server.port)))
    local pid = assert(math.tointeger(tonumber(pipe:read("l"))))
    local deadline, waiting = socket.gettime() + PATIENCE, nil
    repeat
        socket.sleep(0.05)
        assert(socket.gettime() < deadline, "only " .. tostring(waiting) .. " wait: " .. server:log():sub(-2000))
        waiting = select(2, server:get("/waiting", PATIENCE))
    until tonumber(waiting) == CROWD
    return function()
        os.execute("kill -KILL " .. pid)
        pipe:close()
    end
end

--- A connection that requests the plain location again and again. Returns a function that does so once and returns the time in ms.
local function neighbour(server)
    local socket, now = require "socket", require("zklock.core").now
    local connection = assert(socket.connect("127.0.0.1", server.port))
    connection:settimeout(PATIENCE)
    connection:setoption("tcp-nodelay", true)
    local request, length = "GET /plain HTTP/1.1\r\nHost: localhost\r\n\r\n", 0
    assert(connection:send(request))
    repeat
        local line = assert(connection:receive("*l"))
        length = length + #line + 2
    until line == ""
    length = length + #assert(connection:receive(#"plain\n"))
    return function()
        local began = now()
        assert(connection:send(request))
        assert(connection:receive(length)) -- every answer is as long as the first
        return (now() - began) * 1000
    end
end

--- Requests next to the crowd and without a crowd, in turn, so that other load of the machine affects both. Returns two sorted
-- lists.
local function ask_in_turn(crowded, empty, count)
    local with, without = {}, {}
    for index = 1, count do
        if index % 2 == 0 then -- the order alternates too
            with[index], without[index] = crowded(), empty()
        else
            without[index], with[index] = empty(), crowded()
        end
    end
    table.sort(with)
    table.sort(without)
    return with, without
end

--- Measures a neighbour of the crowd, and the same location without a crowd: share -> { with =, without = }, each an array by
-- round.
local function beside_crowd(start, servers, rounds, count, when_gathered)
    local crowded, empty = start(servers), start(servers)
    local disperse = gather(crowded)
    local figures = {}
    local ok, problem = pcall(function()
        if when_gathered then
            when_gathered()
        end
        local one, other = neighbour(crowded), neighbour(empty)
        ask_in_turn(one, other, count // 10)
        for round = 1, rounds do
            local with, without = ask_in_turn(one, other, count)
            for _, share in ipairs(SHARES) do
                figures[share] = figures[share] or { with = {}, without = {} }
                figures[share].with[round], figures[share].without[round] = percentile(with, share), percentile(without, share)
            end
        end
        local _, waiting = crowded:get("/waiting", PATIENCE)
        assert(tonumber(waiting) == CROWD, "only " .. tostring(waiting) .. " wait at the end")
    end)
    disperse()
    crowded:stop()
    empty:stop()
    assert(ok, problem)
    return figures
end

local function report_crowd(settings, start, rounds, count)
    report.title("A plain location of a worker where %d requests wait, and of one where none does: ms, %d requests to each; " ..
        "median of %d rounds (min..max)", CROWD, count, rounds)
    local cluster, zklock = require "spec.support.cluster", require "zklock"
    local rows = { { "", "", "with the crowd", "without", "ratio", "target" } }
    local function measure(text, servers, when_gathered)
        local figures = beside_crowd(start, servers, rounds, count, when_gathered)
        for index, share in ipairs(SHARES) do
            local with, without = figures[share].with, figures[share].without
            table.insert(rows, { index == 1 and text or "", string.format("%g %%", share * 100), lib.spread(with, "%.3f"),
                lib.spread(without, "%.3f"), lib.spread(lib.ratios(with, without), "%.2f"), share == 0.99 and CROWD_TARGET or "" })
        end
    end
    local function hold(servers)
        local client = assert(zklock.connect(servers, { session_timeout = 60 }))
        return client, assert(client:mutex("/bench-crowd"):acquire(PATIENCE)) -- must be kept: a collected lock is released
    end
    local client, held = hold(settings.servers)
    measure("another client holds it", settings.servers)
    assert(held:release())
    client:close()
    local stopped = cluster.start()
    client, held = hold(stopped.servers)
    measure("ZooKeeper stands still", stopped.servers, function()
        assert(held:held())
        stopped:pause()
    end)
    stopped:stop()
    client:close(0)
    measure("no server listens there", "127.0.0.1:1")
    measure("its name is unknown", "zookeeper.invalid:2181")
    report.columns(rows)
end

return function(settings)
    local root = settings.bench .. "/.."
    local rounds = settings.rounds or (settings.quick and 1 or 5)
    local problem = load.missing(root)
    if problem then
        report.title("nginx")
        report.say("missing: %s", problem)
        return
    end
    package.path = root .. "/?.lua;" .. package.path
    local nginx = require "spec.support.nginx"
    local function start(servers)
        return nginx.start { main = ONE_PROCESSOR, http = HTTP, values = { ZOOKEEPER = servers } }
    end
    local server = nginx.start { http = HTTP, values = { ZOOKEEPER = settings.servers } }
    report_wake_up(settings, server, rounds, settings.quick and 200 or 1000)
    report_throughput(settings, server, rounds * SHORT)
    server:stop()
    report_crowd(settings, start, rounds * SHORT, settings.quick and 1000 or 4000)
end
