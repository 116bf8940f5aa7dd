--- wake_up: how long a plain program that waits in poll(2) takes from the grant in C to the line after acquire, without another
-- contender. programs/in_nginx.lua says how it is measured.
--
-- Usage: wake_up.lua SERVERS PATH COUNT

local zklock = require "zklock"

local MAX_HOLD = 5 -- seconds, less than a lease

local client = assert(zklock.connect(arg[1], { session_timeout = 30, wait = "blocking" }))
local lock, samples = client:mutex(arg[2], { max_hold = MAX_HOLD }), {}
local count = math.tointeger(arg[3])
for index = 1, count do
    assert(lock:acquire(20))
    samples[index] = (MAX_HOLD - lock:remaining()) * 1e6
    assert(lock:release())
end
client:close()
table.sort(samples)
print(string.format("name=zklock count=%d median_us=%.2f p99_us=%.2f", count, samples[(count + 1) // 2],
    samples[math.ceil(count * 0.99)]))
