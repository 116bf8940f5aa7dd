--- worker: what a lock costs the worker of nginx that takes it: processor time by thread, system calls by kind, requests to
-- ZooKeeper.
--
-- One worker. In each round every location is requested once, one after the other. The system calls are counted in separate
-- runs, because counting slows the worker down.

local lib = require "lib"
local load = require "load"
local report = require "report"

local CONNECTIONS = 64
local SECONDS = 2
local TICKS_A_SECOND = 100 -- of the kernel's processor time

local HTTP = [[
    init_by_lua_block { require("bench.programs.in_nginx").servers = "@ZOOKEEPER@" }
    server {
        listen 127.0.0.1:@PORT@ backlog=4096;
        keepalive_requests 100000000;
        location = /plain { content_by_lua_block { ngx.header.content_length = 6 ngx.say("plain") } }
        location = /locked { content_by_lua_block { require("bench.programs.in_nginx").locked_few() } }
        location = /unwaited { content_by_lua_block { require("bench.programs.in_nginx").locked_few { wait = false } } }
        location = /lingering { content_by_lua_block { require("bench.programs.in_nginx").lingering() } }
        location = /requests { content_by_lua_block { require("bench.programs.in_nginx").requests() } }
    }
]]

local CONTESTANTS = {
    { text = "no lock", location = "/plain", connections = CONNECTIONS },
    { text = "one of 200 locks", location = "/locked", connections = CONNECTIONS },
    { text = "the same, release{wait = false}", location = "/unwaited", connections = CONNECTIONS },
    { text = "the same, linger = 5", location = "/lingering", connections = CONNECTIONS },
    { text = "one of 200 locks, 1 connection", location = "/locked", connections = 1 }
}

--- The system calls that have a column.
local CALLS = { "sendto", "recvfrom", "poll", "setsockopt", "futex", "epoll_wait", "write", "read", "writev" }

--- Processor time of a process so far, in seconds: of its first thread `user` and `system`, of all others together `others`.
local function processor_time(pid)
    local its = { user = 0, system = 0, others = 0 }
    local tasks = assert(io.popen("cat /proc/" .. pid .. "/task/*/stat"))
    for line in tasks:lines() do
        local user, system = line:match("%) %a " .. ("%S+ "):rep(10) .. "(%d+) (%d+)")
        if line:match("^%d+") == tostring(pid) then
            its.user, its.system = user / TICKS_A_SECOND, system / TICKS_A_SECOND
        else
            its.others = its.others + (user + system) / TICKS_A_SECOND
        end
    end
    tasks:close()
    return its
end

--- How many requests the worker has sent to ZooKeeper.
local function requests_of(server)
    local status, body = server:get("/requests", 60)
    assert(status == 200, server:log())
    return tonumber(body)
end

--- Requests a location. Returns what one of its answers costs.
local function measure(server, pid, contestant)
    local asked, before = requests_of(server), processor_time(pid)
    local run = load.run(server, contestant.location, contestant.connections, SECONDS)
    local after = processor_time(pid)
    local function cost(key)
        return (after[key] - before[key]) / run.count * 1e6
    end
    local user, system, others = cost("user"), cost("system"), cost("others")
    return {
        rate = run.rate, user = user, system = system, others = others, all = user + system + others,
        requests = (requests_of(server) - asked) / run.count
    }
end

local function report_time(server, pid, rounds)
    report.title("Processor time of the worker, µs for one request; requests to ZooKeeper for one; %d s each; " ..
        "median of %d rounds (min..max)", SECONDS, rounds)
    local figures = {}
    for round = 1, rounds do
        for index, contestant in ipairs(CONTESTANTS) do
            figures[index] = figures[index] or { rate = {}, user = {}, system = {}, others = {}, all = {}, requests = {} }
            for key, value in pairs(measure(server, pid, contestant)) do
                figures[index][key][round] = value
            end
        end
    end
    local rows = { { "", "a second", "nginx, user", "nginx, system", "I/O thread", "both", "to ZooKeeper" } }
    for index, contestant in ipairs(CONTESTANTS) do
        local its = figures[index]
        table.insert(rows, {
            contestant.text, lib.spread(its.rate, "%.0f"), lib.spread(its.user, "%.1f"), lib.spread(its.system, "%.1f"),
            lib.spread(its.others, "%.1f"), lib.spread(its.all, "%.1f"), lib.spread(its.requests, "%.2f")
        })
    end
    report.columns(rows)
end

--- The words of perf stat's -e for all columns.
local function events()
    local names = { "raw_syscalls:sys_enter" }
    for _, call in ipairs(CALLS) do
        table.insert(names, "syscalls:sys_enter_" .. call)
    end
    return table.concat(names, ",")
end

--- Whether perf may count system calls here.
local function may_count()
    return load.has_program("perf") and os.execute("perf stat -e " .. events() .. " true >/dev/null 2>&1") == true
end

--- Counts the system calls of a process while a location is requested. Returns the calls for one answer by kind, of the first
-- thread and of all others.
local function count_calls(settings, server, pid, contestant)
    local file = settings.scratch .. "/calls"
    local run = load.run(server, contestant.location, contestant.connections, SECONDS,
        string.format("perf stat -x, --per-thread -o %s -e %s -p %d --", file, events(), pid))
    local first, others = {}, {}
    for line in io.lines(file) do
        local thread, count, call = line:match("^[^,]-%-(%d+),(%d+),[^,]*,[^,]*:sys_enter_?([^,]*),")
        if thread then
            local calls = tonumber(thread) == pid and first or others
            calls[call] = (calls[call] or 0) + tonumber(count) / run.count
        end
    end
    assert(next(first), "perf counted nothing")
    return first, others
end

local function report_calls(settings, server, pid)
    report.title("System calls of the worker for one request")
    if not may_count() then
        report.say("missing: perf, or the right to count system calls with it")
        return
    end
    local rows = { { "", "all", table.unpack(CALLS) } }
    local function add(text, calls)
        local row = { text, string.format("%.2f", calls[""] or 0) }
        for _, call in ipairs(CALLS) do
            table.insert(row, string.format("%.2f", calls[call] or 0))
        end
        table.insert(rows, row)
    end
    for _, contestant in ipairs(CONTESTANTS) do
        local first, others = count_calls(settings, server, pid, contestant)
        add(contestant.text .. ": nginx", first)
        if (others[""] or 0) > 0.01 then
            add("I/O thread", others)
        end
    end
    report.columns(rows)
end

return function(settings)
    local root = settings.bench .. "/.."
    local problem = load.missing(root)
    if problem then
        report.title("A worker of nginx")
        report.say("missing: %s", problem)
        return
    end
    package.path = root .. "/?.lua;" .. package.path
    local server = require("spec.support.nginx").start { http = HTTP, values = { ZOOKEEPER = settings.servers } }
    local pid = server:workers()[1]
    for _, contestant in ipairs(CONTESTANTS) do -- makes the locks' directories, and the traces of LuaJIT
        load.run(server, contestant.location, contestant.connections, 1)
    end
    report_time(server, pid, settings.rounds or (settings.quick and 1 or 5))
    report_calls(settings, server, pid)
    server:stop()
end
