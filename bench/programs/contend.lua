--- contend: one client of many; takes turns at a lock until the time is up. bench/peers/zklock/contestant starts them.
--
-- Counts the grants between START + WARM_UP and START + WARM_UP + SECONDS, on the clock that all processes of the machine share.
-- `violations` counts the times that another client held the lock as well.
--
-- Usage: contend.lua SERVERS PATH START WARM_UP SECONDS DIR

local core = require "zklock.core"
local gate = require "gate"
local zklock = require "zklock"

local now = core.now
local servers, path, start, is_alone = arg[1], arg[2], tonumber(arg[3]), gate.of(arg[6])
local from = start + tonumber(arg[4])
local to = from + tonumber(arg[5])

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
    if not is_alone() then
        violations = violations + 1
    end
    if at >= from and at < to then
        turns = turns + 1
    end
    assert(lock:release())
until at >= to
client:close()
print(string.format("turns=%d violations=%d late=%d", turns, violations, late and 1 or 0))
