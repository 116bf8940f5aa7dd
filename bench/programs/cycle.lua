--- cycle: acquires and releases a free lock COUNT times; prints the medians in microseconds, and the requests of a cycle.
--
-- With "untimed" it does only COUNT cycles, for counting instructions. KIND: as in kinds.lua; a mutex unless given. "all": each
-- kind in turn, on separate paths, a line each. Also runs under LuaJIT. BENCH_TLS, in the environment: connects by TLS, with the
-- certificates in that directory (cases/tls.lua).
--
-- Usage: cycle.lua SERVERS PATH COUNT [untimed|KIND|all]

local kinds = require "kinds"
local now = require("zklock.core").now
local zklock = require "zklock"

local floor = math.floor
local servers, path, count = arg[1], arg[2], tonumber(arg[3])
local certificates = os.getenv("BENCH_TLS")
local wait = arg[4] == "thread" and kinds.left_to_thread or nil
local client = assert(zklock.connect(servers, { session_timeout = 60, wait = wait, tls = certificates and {
    ca_file = certificates .. "/ca.pem", cert_file = certificates .. "/pair.pem", key_file = certificates .. "/pair.key",
    server_name = "zookeeper.example"
} or nil }))

if arg[4] == "untimed" then
    local lock = client:mutex(path)
    for _ = 1, count do
        assert(lock:acquire())
        assert(lock:release())
    end
    client:close()
    print("name=zklock count=" .. count)
    return
end

local function cycle(lock)
    local before = now()
    assert(lock:acquire())
    local between = now()
    assert(lock:release())
    return before, between, now()
end

local function median_us(values)
    table.sort(values)
    return values[floor(#values / 2) + 1] * 1e6
end

--- The quantiles of sorted values.
local function quantiles_us(values)
    local quantiles = {}
    for percent = 0, 100 do
        quantiles[percent + 1] = string.format("%.1f", values[floor((#values - 1) * percent / 100) + 1] * 1e6)
    end
    return table.concat(quantiles, ",")
end

local function requests()
    local stats = client:stats()
    return stats.requests - stats.heartbeats
end

local function measure(kind, lock)
    for _ = 1, floor(count / 10) + 1 do
        cycle(lock)
    end
    assert(client:flush(10))
    local sent = requests()
    local acquires, releases, cycles = {}, {}, {}
    for index = 1, count do
        local before, between, after = cycle(lock)
        acquires[index], releases[index], cycles[index] = between - before, after - between, after - before
    end
    print(string.format("name=zklock kind=%s count=%d acquire_us=%.2f release_us=%.2f cycle_us=%.2f requests=%.3f quantiles_us=%s",
        kind, count, median_us(acquires), median_us(releases), median_us(cycles), (requests() - sent) / count,
        quantiles_us(cycles)))
end

if arg[4] == "all" then
    for _, kind in ipairs(kinds.all) do
        measure(kind, kinds.make(kind, client, path .. "-" .. kind))
    end
else
    local kind = arg[4] or "mutex"
    measure(kind, kinds.make(kind, client, path))
end
client:close()
