--- line: a long queue: one session holds a lock, EACH waiters of each of CLIENTS other clients queue behind it. At the beginning
-- the holder releases the lock; each waiter releases it as soon as it is granted.
--
-- The waiters' sessions go through the proxy, which carries only those; the measuring program reads its counters. They stand for
-- CLIENTS processes of a service: between two waiters of a client there is one of each other client.
--
-- Usage: line.lua SERVERS PROXY PATH CLIENTS EACH DIR [HANDOFF]

local gate = require "gate"
local loop = require "loop"
local start = require "start"
local zklock = require "zklock"

local servers, proxy, path = arg[1], arg[2], arg[3]
local count, each, dir = math.tointeger(tonumber(arg[4])), math.tointeger(tonumber(arg[5])), arg[6]

local OPTIONS = { session_timeout = 60, connect_timeout = 20, wait = "luv" }
local LOCK = { handoff = tonumber(arg[7]) }

local is_alone, turns, violations = gate.of(dir), 0, 0

local function wait_in_line(client)
    local lock = client:mutex(path, LOCK)
    assert(lock:acquire())
    turns = turns + 1
    if not is_alone() then
        violations = violations + 1
    end
    assert(lock:release())
end

loop.run(function()
    local held = assert(zklock.connect(servers, OPTIONS)):mutex(path)
    assert(held:acquire())
    local clients = {}
    for index = 1, count do
        clients[index] = assert(zklock.connect(proxy, OPTIONS))
    end
    for index = 1, count * each do
        loop.start(wait_in_line, clients[(index - 1) % count + 1])
    end
    start.await(dir, 1, loop.sleep)
    assert(held:release())
end)
print(string.format("name=zklock turns=%d violations=%d failures=0", turns, violations))
