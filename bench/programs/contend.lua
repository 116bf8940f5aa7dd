--- contend: one client of many; takes turns at a lock until the time is up. bench/peers/zklock/contestant starts them.
--
-- Counts the grants between START + WARM_UP and START + WARM_UP + SECONDS, on the clock that all processes of the
-- machine share. A holder renames a file that only one can rename: `violations` counts the times that somebody else
-- had.
--
-- Usage: contend.lua SERVERS PATH START WARM_UP SECONDS DIR

local core = require "zklock.core"
local zklock = require "zklock"

local now, rename = core.now, os.rename
local servers, path, start, dir = arg[1], arg[2], tonumber(arg[3]), arg[6]
local from = start + tonumber(arg[4])
local to = from + tonumber(arg[5])
local free, taken = dir .. "/free", dir .. "/taken"

local client = assert(zklock.connect(servers, { connect_timeout = 20 }))
local lock = client:mutex(path)
local late = now() > start
while now() < start do
    core.poll(client:pollfd(), start - now())
    client:pump()
end

local turns, violations = 0, 0
repeat
    assert(lock:acquire())
    local at = now()
    if not rename(free, taken) then
        violations = violations + 1
    end
    if at >= from and at < to then
        turns = turns + 1
    end
    rename(taken, free)
    assert(lock:release())
until at >= to
client:close()
print(string.format("turns=%d violations=%d late=%d", turns, violations, late and 1 or 0))
