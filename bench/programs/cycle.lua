--- cycle: acquires and releases a free lock COUNT times; prints the medians in microseconds.
--
-- With "untimed" it does COUNT cycles and nothing else, for those who count instructions.
--
-- Usage: cycle.lua SERVERS PATH COUNT [untimed]

local now = require("zklock.core").now
local zklock = require "zklock"

local servers, path, count = arg[1], arg[2], math.tointeger(tonumber(arg[3]))
local client = assert(zklock.connect(servers, { session_timeout = 60 }))
local lock = client:mutex(path)

if arg[4] == "untimed" then
    for _ = 1, count do
        assert(lock:acquire())
        assert(lock:release())
    end
    client:close()
    print("name=zklock count=" .. count)
    return
end

local function cycle()
    local before = now()
    assert(lock:acquire())
    local between = now()
    assert(lock:release())
    return before, between, now()
end

local function median_us(values)
    table.sort(values)
    return values[#values // 2 + 1] * 1e6
end

for _ = 1, count // 10 + 1 do
    cycle()
end
local acquires, releases, cycles = {}, {}, {}
for index = 1, count do
    local before, between, after = cycle()
    acquires[index], releases[index], cycles[index] = between - before, after - between, after - before
end
client:close()
print(string.format("name=zklock count=%d acquire_us=%.1f release_us=%.1f cycle_us=%.1f",
    count, median_us(acquires), median_us(releases), median_us(cycles)))
