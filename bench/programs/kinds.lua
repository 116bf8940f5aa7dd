--- kinds: what each kind of lock sends, and how long it waits for the answers, through a proxy that counts and delays.
--
-- One session is connected directly, the other through the proxy, which carries only that session. COUNT times each:
--   alone      acquire and release, without another contender
--   contended  the other session holds, ours waits in the queue, is granted by the other's release, and releases
--   refused    the other session holds, ours tries
-- A line for each, with the proxy's counts, and, where they exist, the times of acquire (contended: since the other began to
-- release) and of release, in bare round trips, measured on an exists of "/".
--
-- Usage: kinds.lua SERVERS PROXY CONTROL PATH COUNT DELAY_MS

local counter = require "counter"
local kinds = require "kinds"
local loop = require "loop"
local now = require("zklock.core").now
local zklock = require "zklock"

local servers, proxy, control, path = arg[1], arg[2], arg[3], arg[4]
local count, delay = math.tointeger(tonumber(arg[5])), tonumber(arg[6])

local OPTIONS = { session_timeout = 60, connect_timeout = 20, wait = "luv" }
local counts = counter.connect(control)
local direct, client -- the other session, and the session that is measured

local function settle(since)
    counts:settle(math.max(0.03, delay * 6 / 1000), loop.sleep, since)
end

local function own_requests()
    local stats = client:stats()
    return stats.requests - stats.heartbeats, stats.heartbeats
end

--- Runs fn(), which returns two times or none, and prints the traffic meanwhile.
local function measure(what, kind, round_trip, fn)
    settle()
    local before, own_before, heartbeats_before = counts:counts(), own_requests()
    local acquire, release = fn()
    assert(client:flush(20))
    settle()
    local after, own, heartbeats = counts:counts(), own_requests()
    print(string.format(
        "name=zklock what=%s kind=%s requests=%d writes=%d notifications=%d own=%d acquire=%.2f release=%.2f", what, kind,
        after.requests - before.requests - (heartbeats - heartbeats_before), after.writes - before.writes,
        after.notifications - before.notifications, own - own_before, (acquire or 0) / round_trip,
        (release or 0) / round_trip))
end

local function bare_round_trip()
    local times = {}
    for index = 1, 9 do
        local before = now()
        assert(client:exists("/"))
        times[index] = now() - before
    end
    table.sort(times)
    return times[5]
end

local function alone(lock)
    local before = now()
    assert(lock:acquire())
    local between = now()
    assert(lock:release())
    return between - before, now() - between
end

local function contended(lock, rival)
    assert(rival:acquire())
    local before_asking = counts:total()
    local granted, ended
    loop.start(function()
        assert(lock:acquire())
        granted = now()
        assert(lock:release())
        ended = now()
    end)
    settle(before_asking)
    assert(not granted, "granted while somebody else held")
    local before = now()
    assert(rival:release())
    loop.await("the waiter is done", function()
        return ended
    end)
    return granted - before, ended - granted
end

local function refused(lock, rival)
    assert(rival:acquire())
    local _, _, code = lock:try_acquire()
    assert(code == "timeout", code)
    assert(rival:release())
end

local function measure_kind(kind)
    local its_path = path .. "-" .. kind
    local lock, rival = kinds.make(kind, client, its_path), kinds.make_rival(kind, direct, its_path)
    alone(rival)
    alone(lock) -- makes directories
    local round_trip = bare_round_trip()
    for _ = 1, count do
        measure("alone", kind, round_trip, function()
            return alone(lock)
        end)
    end
    if kind == "multi" then
        for _, which in ipairs({ "first", "last" }) do
            local in_the_way = direct:mutex(its_path .. (which == "first" and "/1" or "/3"))
            for _ = 1, count do
                measure("refused", "multi-" .. which, round_trip, function()
                    refused(lock, in_the_way)
                end)
            end
        end
    elseif kind ~= "downgrade" then
        for _ = 1, count do
            measure("refused", kind, round_trip, function()
                refused(lock, rival)
            end)
        end
    end
    for _ = 1, count do
        measure("contended", kind, round_trip, function()
            return contended(lock, rival)
        end)
    end
end

loop.run(function()
    direct, client = assert(zklock.connect(servers, OPTIONS)), assert(zklock.connect(proxy, OPTIONS))
    counts:delay(delay)
    for _, kind in ipairs(kinds.all) do
        measure_kind(kind)
    end
    counts:delay(0)
    direct:close()
    client:close()
end)
