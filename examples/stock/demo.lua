-- The stock demo: 800 buyers in 8 processes want 288 pieces. There are three rounds: without a lock, with a lock per process,
-- with zklock. Shows a table, and fails unless zklock's round ends with a stock of 0 and exactly 288 lucky buyers.
--
--   demo.lua LUA REDIS_PORT ZOOKEEPER
--
-- `make demo` starts a separate Redis and ZooKeeper for it.

local uv = require "luv"
local redis = require "redis"

local lua, redis_port, zookeeper = arg[1], tonumber(arg[2]), arg[3]
local STOCK, BUYERS, PROCESSES = 288, 800, 8
local ROUNDS = {
    { name = "none", title = "no lock" },
    { name = "process", title = "a lock per process" },
    { name = "zklock", title = "zklock" },
}

local directory = arg[0]:match("^(.*)/") or "."
local shop = redis.connect("127.0.0.1", redis_port)
local live = uv.guess_handle(1) == "tty"

--- Shows the progress of a round, on one line that is overwritten; without a terminal, a line every 200 buyers.
local function show_progress(round, served, sold)
    local line = ("%-18s %4d of %d buyers served, %3d sold"):format(round.title, served, BUYERS, sold)
    if live then
        io.write("\r", line)
        io.flush()
    elseif served % 200 == 0 then
        print(line)
    end
end

--- Splits the output of a process into lines and passes each to `take`.
local function each_line(take)
    local rest = ""
    return function(err, chunk)
        assert(not err, err)
        rest = rest .. (chunk or "")
        while true do
            local line, after = rest:match("^([^\n]*)\n(.*)$")
            if not line then
                return
            end
            rest = after
            take(line)
        end
    end
end

--- Starts one process of buyers. `take` is called with its lines, `ended` with its exit code.
local function start_buyers(round, take, ended)
    local stdin, stdout = uv.new_pipe(false), uv.new_pipe(false)
    local process
    process = assert(uv.spawn(lua, {
        args = { directory .. "/buyer.lua", round.name, tostring(redis_port), zookeeper, tostring(BUYERS / PROCESSES) },
        stdio = { stdin, stdout, 2 },
    }, function(code)
        process:close()
        ended(code)
    end))
    stdout:read_start(each_line(take))
    return stdin
end

local function percentile(sorted, share)
    return sorted[math.max(1, math.ceil(#sorted * share))]
end

--- Runs one round to its end and returns its results.
local function run(round)
    shop:set("stock", STOCK)
    shop:set("lucky", 0)
    local inputs, waits = {}, {}
    local ready, served, sold, left, failed = 0, 0, 0, PROCESSES, false
    local began, finished
    local function take(line)
        local wait = line:match("^wait (%d+)$")
        if line == "ready" then
            ready = ready + 1
            if ready == PROCESSES then
                began = uv.hrtime()
                for _, input in ipairs(inputs) do
                    input:write("go\n")
                end
            end
        elseif wait then
            waits[#waits + 1] = tonumber(wait)
        elseif line == "sold" or line == "late" then
            served = served + 1
            sold = sold + (line == "sold" and 1 or 0)
            finished = uv.hrtime()
            show_progress(round, served, sold)
        end
    end
    for i = 1, PROCESSES do
        inputs[i] = start_buyers(round, take, function(code)
            left = left - 1
            failed = failed or code ~= 0
            if failed then
                uv.stop()
            end
        end)
    end
    uv.run()
    if failed or left > 0 then
        error(("round '%s': a process of buyers failed"):format(round.title), 0)
    end
    if live then
        io.write("\r", (" "):rep(70), "\r")
    end
    table.sort(waits)
    local seconds = (finished - began) / 1e9
    return {
        round = round,
        stock = tonumber(shop:get("stock")),
        lucky = tonumber(shop:get("lucky")),
        served = served,
        seconds = seconds,
        locks = round.name ~= "none" and served / seconds or nil,
        median = percentile(waits, 0.5) / 1000,
        p99 = percentile(waits, 0.99) / 1000,
    }
end

local function show(results)
    local format = "%-18s %10s %12s %9s %8s %8s %15s %12s"
    print(format:format("", "stock left", "lucky buyers", "oversold", "seconds", "locks/s", "median wait ms", "99% wait ms"))
    for _, r in ipairs(results) do
        print(format:format(r.round.title, r.stock, r.lucky, r.lucky - STOCK, ("%.2f"):format(r.seconds),
            r.locks and ("%.0f"):format(r.locks) or "-", ("%.2f"):format(r.median), ("%.2f"):format(r.p99)))
    end
end

print(("%d pieces, %d buyers in %d processes"):format(STOCK, BUYERS, PROCESSES))
local results = {}
for i, round in ipairs(ROUNDS) do
    results[i] = run(round)
end
show(results)
local ours = results[#results]
if ours.stock ~= 0 or ours.lucky ~= STOCK or ours.served ~= BUYERS then
    print(("zklock's round is wrong: expected stock 0 and %d lucky buyers of %d served"):format(STOCK, BUYERS))
    os.exit(1)
end
print(("zklock sold each of the %d pieces exactly once."):format(STOCK))
