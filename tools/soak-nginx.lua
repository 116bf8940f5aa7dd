--- soak-nginx: 100 000 lock cycles through nginx, and the resources that its worker uses meanwhile.
--
-- Two services with one worker each compete for the same locks. The first is measured and never reloaded. The second is reloaded
-- all the time, so that sessions come and go next to the first one's, and locks change hands between processes. The first
-- interprets its Lua: the code that LuaJIT compiles grows for hundreds of thousands of cycles, and would hide leaks. Each request
-- acquires one of 16 locks and releases it. One in fifty waits until its timeout for a lock that is never free, one in fifty tries
-- for it, one in a hundred has its light thread killed while it waits. After each portion some clients hang up while their
-- requests wait.
--
-- Measured after each portion, without requests and after a full collection: resident memory, file descriptors and threads of the
-- worker, the memory that zklock has allocated in C, and Lua's memory. The first third is warm-up. After it, the median of the
-- last third must not exceed the median of the second third by more than the allowance below, and there must be no more threads
-- and no more file descriptors at the end than after the warm-up. At the end no node may be left, and no request may wait.
--
--   tools/zookeeper run -- luajit tools/soak-nginx.lua CYCLES        (ZOOKEEPER in the environment)

local cjson = require "cjson"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local nginx = require "spec.support.nginx"
local zk = require "spec.support.zk"

local PORTIONS = 50
local CONNECTIONS = 40

--- Kilobytes that the last third may use beyond the second, which is 33 000 cycles before it. zklock's allocations in C are counted
-- to the byte. Lua's tables of waiters grow to the largest number that ever waited, and garbage differs; resident memory comes in
-- pages. A leak of 16 bytes a cycle makes 530 of them, a leak of a table a timeout 130.
local ALLOWANCE = { resident = 128, lua = 48, c = 1 }

--- Clients that hang up after each portion.
local ABORTS = 10

--- The lock that is never free, because another session's node stays there.
local TAKEN = "/soak/taken"

local PATIENCE = 120

local cycles = assert(tonumber(arg[1]), "how many cycles?")
local zookeeper = assert(os.getenv("ZOOKEEPER"), "start this by tools/soak-nginx.sh")

local HTTP = [[
    lua_check_client_abort on;
    init_by_lua_block { @JIT@ require("spec.support.soaked").open("@ZOOKEEPER@", "/soak") }
    server {
        listen 127.0.0.1:@PORT@ backlog=1024;
        keepalive_requests 1000000;
        location = /cycle { content_by_lua_block { require("spec.support.soaked").cycle() } }
        location = /wait { content_by_lua_block { require("spec.support.soaked").wait() } }
        location = /state { content_by_lua_block { require("spec.support.soaked").state() } }
    }
]]

local function start(jit)
    return nginx.start { http = HTTP, values = { ZOOKEEPER = zookeeper, JIT = jit } }
end

--- Sends requests with ab in the background. Returns a function that waits for its end and returns how many were not answered as
-- expected. `options`: "-k" keeps connections, which a reload would close under ab's requests.
local function send(server, count, options)
    local load = assert(io.popen(("ab -q -l -r -s 110 %s -n %d -c %d http://127.0.0.1:%d/cycle 2>&1"):format(options, count,
        math.min(CONNECTIONS, count), server.port)))
    return function()
        local output = load:read("*a")
        load:close()
        local function number(pattern)
            return tonumber(output:match(pattern))
        end
        assert(number("Complete requests: +(%d+)") == count, output)
        return number("Failed requests: +(%d+)") + (number("Non%-2xx responses: +(%d+)") or 0)
    end
end

--- Lets some clients hang up while their requests wait.
local function hang_up(server)
    local waiting = {}
    for index = 1, ABORTS do
        waiting[index] = server:ask("/wait")
    end
    eventually(function()
        return cjson.decode((select(2, server:get("/state")))).waiters >= ABORTS
    end, PATIENCE, "requests to wait")
    for index = 1, ABORTS do
        waiting[index]:abort()
    end
end

local function count_entries(pid, directory)
    return select(2, (cluster.run({ "ls", ("/proc/%d/%s"):format(pid, directory) })):gsub("%S+", ""))
end

--- The resources of the worker, once no request waits any more.
local function measure(server)
    local state = eventually(function()
        local now = cjson.decode((select(2, server:get("/state"))))
        return now.waiters == 0 and now.entries == 0 and now, ("%d wait, %d nodes"):format(now.waiters, now.entries)
    end, PATIENCE, "the worker to be idle")
    local pid = server:workers()[1]
    local file = assert(io.open(("/proc/%d/status"):format(pid)))
    local status = file:read("*a")
    file:close()
    return {
        cycles = state.grants, refusals = state.refusals, lua = state.lua, c = state.memory / 1024,
        resident = tonumber(status:match("VmRSS:%s+(%d+)")), threads = tonumber(status:match("Threads:%s+(%d+)")),
        files = count_entries(pid, "fd"), pid = pid
    }
end

local function median(samples, name, from, to)
    local values = {}
    for index = from, to do
        values[#values + 1] = samples[index][name]
    end
    table.sort(values)
    return values[math.ceil(#values / 2)]
end

local HEADER = "%9s %9s %9s %9s %11s %8s %8s %7s %8s"
local ROW = "%9d %9d %9d %9d %11d %8.0f %8.1f %7d %8d"

local function show(sample, reloads, aborts)
    print(ROW:format(sample.cycles, sample.refusals, aborts, reloads, sample.resident, sample.lua, sample.c, sample.files,
        sample.threads))
    io.stdout:flush()
end

--- Reports resources that have grown. Returns whether there are any.
local function grown(samples)
    local bad, third = false, math.floor(#samples / 3)
    for _, name in ipairs { "resident", "lua", "c" } do
        local before = median(samples, name, third + 1, 2 * third)
        local after = median(samples, name, #samples - third + 1, #samples)
        local verdict = after - before <= ALLOWANCE[name] and "flat" or "GROWN"
        print(("%-9s second third %9.1f KB, last third %9.1f KB, %+.1f KB of %+d: %s"):format(name, before, after, after - before,
            ALLOWANCE[name], verdict))
        bad = bad or verdict ~= "flat"
    end
    for _, name in ipairs { "threads", "files" } do
        local before, after = samples[third][name], samples[#samples][name]
        print(("%-9s %d after the warm-up, %d at the end: %s"):format(name, before, after, after <= before and "flat" or "GROWN"))
        bad = bad or after > before
    end
    return bad
end

local function main()
    local measured, reloaded = start("jit.off()"), start("")
    local observer = assert(zk.connect(zookeeper))
    observer:create_all(TAKEN)
    assert(observer:create(TAKEN .. "/_c_00000000-0000-0000-0000-000000000000-lock-", "nobody", { sequential = true }))
    observer:close()
    local samples, reloads, aborts, failed, next_shown = {}, 0, 0, 0, 0
    local portion = math.ceil(cycles / PORTIONS)
    print(HEADER:format("cycles", "refused", "aborted", "reloads", "resident KB", "Lua KB", "C KB", "files", "threads"))
    local began = os.time()
    repeat
        local one, other = send(measured, portion, "-k"), send(reloaded, math.ceil(portion / 4), "")
        reloaded:reload(PATIENCE)
        reloads = reloads + 1
        failed = failed + one() + other()
        hang_up(measured)
        aborts = aborts + ABORTS
        local sample = measure(measured)
        assert(not samples[1] or sample.pid == samples[1].pid, "the worker that is measured is another one")
        samples[#samples + 1] = sample
        if sample.cycles >= next_shown or sample.cycles >= cycles then
            show(sample, reloads, aborts)
            next_shown = next_shown + cycles / 10
        end
    until sample.cycles >= cycles
    print(("%d requests, %d s, %d answered otherwise than expected"):format(#samples * portion, os.time() - began, failed))
    local bad = grown(samples) or failed > 0
    for _, server in ipairs { measured, reloaded } do
        for _, line in ipairs(server:complaints()) do
            print(line)
            bad = true
        end
        assert(#server:workers() == 1, "workers that do not end")
        server:stop()
    end
    local left = assert(assert(zk.connect(zookeeper)):children(TAKEN))
    print(("%d nodes left"):format(#left - 1))
    return not bad and #left == 1
end

local ok, good = xpcall(main, debug.traceback)
if not ok then
    io.stderr:write(tostring(good), "\n")
end
os.exit(ok and good and 0 or 1)
