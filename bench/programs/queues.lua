--- queues: many waiters for one release: readers behind a writer, and the queue of a semaphore.
--
-- Each waiter has a separate session through the proxy, which carries only waiters. They come one after the other.
--   readers     COUNT readers behind a writer, which releases; all of them are granted together, and leave
--   semaphore   a semaphore of 5 permits, all taken; COUNT wait for one each; permits are given back one by one, first
--               those of the first holders, then the waiters' own, until all have had one
--   again       the same once more, after these sessions have used the semaphore
-- A line for each: the proxy's counts from when the first came until the last had left, and `woken`, the notifications between the
-- writer's release and the last reader's grant.
--
-- Usage: queues.lua SERVERS PROXY CONTROL PATH COUNT

local counter = require "counter"
local loop = require "loop"
local zklock = require "zklock"

local servers, proxy, control, path = arg[1], arg[2], arg[3], arg[4]
local count = math.tointeger(tonumber(arg[5]))

local PERMITS = 5
local OPTIONS = { session_timeout = 60, connect_timeout = 20, wait = "luv" }
local counts = counter.connect(control)

local function settle(since)
    counts:settle(0.03, loop.sleep, since)
end

--- Lets `count` waiters queue, each with a lock by make(client); they stay until they are told to leave.
local function line_up(clients, make)
    local line = {}
    for index, client in ipairs(clients) do
        local waiter, before = {}, counts:total()
        line[index] = waiter
        loop.start(function()
            local lock = make(client)
            assert(lock:acquire())
            waiter.granted = true
            loop.await("the waiter is let go", function()
                return waiter.let_go
            end)
            assert(lock:release())
            assert(client:flush(20))
            waiter.ended = true
        end)
        settle(before)
        assert(not waiter.granted, "granted while others held")
    end
    return line
end

local function await(waiter, what)
    loop.await("a waiter is " .. what, function()
        return waiter[what]
    end)
end

local function own_requests(clients)
    local requests, heartbeats = 0, 0
    for _, client in ipairs(clients) do
        local stats = client:stats()
        requests, heartbeats = requests + stats.requests - stats.heartbeats, heartbeats + stats.heartbeats
    end
    return requests, heartbeats
end

local function measure(what, clients, fn)
    settle()
    local before, own_before, heartbeats_before = counts:counts(), own_requests(clients)
    local woken = fn()
    settle()
    local after, own, heartbeats = counts:counts(), own_requests(clients)
    print(string.format("name=zklock what=%s count=%d requests=%d writes=%d notifications=%d own=%d woken=%d", what, count,
        after.requests - before.requests - (heartbeats - heartbeats_before), after.writes - before.writes,
        after.notifications - before.notifications, own - own_before, woken or 0))
end

local function readers(holder, clients)
    local writer = holder:rwlock(path .. "-rwlock").write
    assert(writer:acquire())
    local line = line_up(clients, function(client)
        return client:rwlock(path .. "-rwlock").read
    end)
    local before = counts:counts().notifications
    assert(writer:release())
    for _, waiter in ipairs(line) do
        await(waiter, "granted")
    end
    settle()
    local woken = counts:counts().notifications - before
    for _, waiter in ipairs(line) do
        waiter.let_go = true
    end
    for _, waiter in ipairs(line) do
        await(waiter, "ended")
    end
    return woken
end

local function semaphore(holder, clients)
    local first = {}
    for index = 1, PERMITS do
        first[index] = holder:semaphore(path .. "-semaphore", PERMITS)
        assert(first[index]:acquire())
    end
    local line = line_up(clients, function(client)
        return client:semaphore(path .. "-semaphore", PERMITS)
    end)
    for index, waiter in ipairs(line) do
        if index <= PERMITS then
            assert(first[index]:release())
        else
            line[index - PERMITS].let_go = true
        end
        await(waiter, "granted")
        settle()
    end
    for _, waiter in ipairs(line) do
        waiter.let_go = true
        await(waiter, "ended")
    end
end

loop.run(function()
    local holder, clients = assert(zklock.connect(servers, OPTIONS)), {}
    for index = 1, count do
        clients[index] = assert(zklock.connect(proxy, OPTIONS))
    end
    measure("readers", clients, function()
        return readers(holder, clients)
    end)
    for _, what in ipairs({ "semaphore", "again" }) do
        measure(what, clients, function()
            return semaphore(holder, clients)
        end)
    end
    holder:close()
    for _, client in ipairs(clients) do
        client:close()
    end
end)
