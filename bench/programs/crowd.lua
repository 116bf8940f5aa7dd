--- crowd: many contenders in one process: EACH of each of CLIENTS clients, in coroutines under libuv's loop.
--
--   one     all take turns at one lock
--   many    each has a separate lock
--   read    all read at the same time
--
-- Counts the grants between WARM_UP seconds after all are connected and SECONDS later. `violations` counts the times that two held
-- the one lock; `requests` are those of all clients for each grant, without heartbeats.
--
-- Usage: crowd.lua SERVERS PATH one|many|read CLIENTS EACH WARM_UP SECONDS DIR

local gate = require "gate"
local loop = require "loop"
local now = require("zklock.core").now
local zklock = require "zklock"

local servers, path, kind = arg[1], arg[2], arg[3]
local count, each = math.tointeger(tonumber(arg[4])), math.tointeger(tonumber(arg[5]))
local warm_up, seconds, is_alone = tonumber(arg[6]), tonumber(arg[7]), gate.of(arg[8])

local turns, grants, violations = 0, 0, 0
local from, to

local function nothing_to_see()
    return true
end

local makers = {
    one = function(client)
        return client:mutex(path)
    end,
    many = function(client, number)
        return client:mutex(path .. "-" .. number)
    end,
    read = function(client)
        return client:rwlock(path).read
    end
}

local function take_turns(lock, look)
    local at
    repeat
        assert(lock:acquire())
        at = now()
        if not look() then
            violations = violations + 1
        end
        if at >= from and at < to then
            turns = turns + 1
        end
        grants = grants + 1
        assert(lock:release())
    until at >= to
end

local function requests_of(clients)
    local requests = 0
    for _, client in ipairs(clients) do
        local stats = client:stats()
        requests = requests + stats.requests - stats.heartbeats
    end
    return requests
end

local clients = {}
loop.run(function()
    for index = 1, count do
        clients[index] = assert(zklock.connect(servers, { connect_timeout = 20, wait = "luv" }))
    end
    from = now() + warm_up
    to = from + seconds
    local look = kind == "one" and is_alone or nothing_to_see
    for index = 1, count * each do
        loop.start(take_turns, makers[kind](clients[(index - 1) % count + 1], index), look)
    end
end)
print(string.format("name=zklock clients=%d each=%d seconds=%.3f turns=%d violations=%d failures=0 requests=%.3f", count, each,
    seconds, turns, violations, requests_of(clients) / grants))
for _, client in ipairs(clients) do
    client:close()
end
