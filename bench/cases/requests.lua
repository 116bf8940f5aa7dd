--- requests: the requests that are sent, as counted by the clients and by the server.
--
-- Sessions of 60 s, so that neither a ping (every third of it) nor a heartbeat of the lease (every quarter) falls into a count.
-- Heartbeats are subtracted anyway, and connecting is not part of any count.

local fibers = require "fibers"
local lib = require "lib"
local report = require "report"
local targets = require "targets"
local zklock = require "zklock"

local CYCLES, TRIES = 200, 200
local QUEUES = { 2, 10, 50 }
local ROTATIONS, TURNS = { 2, 8, 64 }, 20

local OPTIONS = { session_timeout = 60, connect_timeout = 20, wait = fibers.adapter }

local function connect(settings)
    return assert(zklock.connect(settings.servers, OPTIONS))
end

--- Requests that `client` has sent so far without heartbeats, and heartbeats.
local function requests_of(client)
    local stats = client:stats()
    return stats.requests - stats.heartbeats, stats.heartbeats
end

--- Runs fn(). Returns how many requests that took according to the client and according to the server, and how many of them wrote.
local function counted(settings, client, fn)
    local requests, heartbeats = requests_of(client)
    local packets, transactions = lib.mntr(settings.servers).packets_received, lib.transactions(settings.servers)
    fn()
    assert(client:flush(10))
    local writes, requests_now, heartbeats_now = lib.transactions(settings.servers) - transactions, requests_of(client)
    return requests_now - requests, lib.mntr(settings.servers).packets_received - packets,
        writes - (heartbeats_now - heartbeats)
end

local function report_single(settings, rows)
    local client, other = connect(settings), connect(settings)
    local lock, rival = client:mutex("/bench-requests"), other:mutex("/bench-requests")
    assert(lock:acquire())
    assert(lock:release()) -- makes the directory
    local by_client, by_server, writes = counted(settings, client, function()
        for _ = 1, CYCLES do
            assert(lock:acquire())
            assert(lock:release())
        end
    end)
    table.insert(rows, {
        "acquire and release, without contention", string.format("%g", by_client / CYCLES),
        string.format("%g", by_server / CYCLES), string.format("%g", writes / CYCLES), "3, 2"
    })
    assert(lock:acquire())
    by_client, by_server, writes = counted(settings, other, function()
        for _ = 1, TRIES do
            local _, _, code = rival:try_acquire()
            assert(code == "timeout", code)
        end
    end)
    table.insert(rows, {
        "a refused try", string.format("%g", by_client / TRIES), string.format("%g", by_server / TRIES),
        string.format("%g", writes / TRIES), "1, 0"
    })
    targets.note("refused requests", { by_client / TRIES })
    targets.note("refused writes", { writes / TRIES })
    client:close()
    other:close()
end

--- One waiter: queues, is granted the lock, waits to be told to release it.
local function wait_in_line(waiter)
    local lock = waiter.client:mutex(waiter.path)
    waiter.before = requests_of(waiter.client)
    assert(lock:acquire())
    waiter.granted = true
    fibers.await("a holder is let go", function()
        return waiter.let_go
    end)
    assert(lock:release())
    assert(waiter.client:flush(10))
    waiter.requests = requests_of(waiter.client) - waiter.before
end

--- The notifications that each waiter's client has got so far.
local function notifications_of(waiters)
    local counts = {}
    for place, waiter in ipairs(waiters) do
        counts[place] = waiter.client:stats().notifications
    end
    return counts
end

--- How many clients have got any since.
local function notified_since(waiters, before)
    local clients = 0
    for place, count in ipairs(notifications_of(waiters)) do
        clients = clients + (count > before[place] and 1 or 0)
    end
    return clients
end

--- A queue of one holder and `count` waiters, which are granted the lock in order.
local function report_queue(settings, count, rows)
    local line = {}
    for place = 1, count + 1 do
        line[place] = { client = connect(settings), path = "/bench-queue-" .. count }
    end
    local packets = lib.mntr(settings.servers).packets_received
    for place, waiter in ipairs(line) do
        fibers.start(wait_in_line, waiter)
        fibers.await("a waiter is in the queue", function()
            -- The second waiter and those behind it wait for a flag, too.
            return place == 1 and waiter.granted or waiter.client:stats().watches == (place == 2 and 1 or 2)
        end)
    end
    local per_release, fired_per_release, lives = {}, {}, {}
    for place, waiter in ipairs(line) do
        local notifications, fired = notifications_of(line), lib.mntr(settings.servers).sum_node_deleted_watch_count
        waiter.let_go = true
        fibers.await("a release is done", function()
            return waiter.requests and (place > count or line[place + 1].granted)
        end)
        if place <= count then
            table.insert(per_release, notified_since(line, notifications))
            table.insert(fired_per_release, lib.mntr(settings.servers).sum_node_deleted_watch_count - fired)
        end
        if place > 1 then
            table.insert(lives, waiter.requests)
        end
    end
    packets = lib.mntr(settings.servers).packets_received - packets
    local sent = 0
    for _, waiter in ipairs(line) do
        sent = sent + waiter.requests
        waiter.client:close()
    end
    local function range(values)
        return string.format("%d..%d", math.min(table.unpack(values)), math.max(table.unpack(values)))
    end
    table.insert(rows, {
        tostring(count), range(per_release), range(fired_per_release), range(lives), tostring(sent), tostring(packets)
    })
end

--- Clients, each with its own session, that take turns without a pause. The first turns are not counted.
local function report_turns(settings, count, rows)
    local clients, ready, sums, counted_turns = {}, 0, { requests = 0, notifications = 0, passes = 0 }, 0
    local function take_turns(client)
        local lock, before, sent = client:mutex("/bench-turns-" .. count), nil, nil
        for turn = 1, 2 * TURNS do
            if turn == TURNS then
                ready = ready + 1
                before, sent = client:stats(), requests_of(client)
            end
            assert(lock:acquire())
            assert(lock:release())
            counted_turns = counted_turns + (before and 1 or 0)
        end
        local after = client:stats()
        sums.requests = sums.requests + requests_of(client) - sent
        sums.notifications = sums.notifications + after.notifications - before.notifications
        sums.passes = sums.passes + after.passes - before.passes
        ready = ready - 1
    end
    for index = 1, count do
        clients[index] = connect(settings)
    end
    for _, client in ipairs(clients) do
        fibers.start(take_turns, client)
    end
    fibers.await("all turns are over", function()
        return counted_turns == count * (TURNS + 1) and ready == 0
    end)
    for _, client in ipairs(clients) do
        client:close()
    end
    local row = { tostring(count) }
    for _, what in ipairs { "requests", "notifications", "passes" } do
        row[#row + 1] = string.format("%.2f", sums[what] / counted_turns)
    end
    table.insert(rows, row)
end

return function(settings)
    report.title("Requests")
    local rows = { { "requests of", "client's count", "server's count", "writes", "at most" } }
    local queues = {
        {
            "waiters", "clients notified by a release", "watches fired", "requests a waiter", "requests in all",
            "server's count"
        },
        { "(at most)", "1..1", "1..1", "7", "", "" }
    }
    local turns = { { "clients in turn", "requests a turn", "notifications", "passed on" }, { "(at most)", "4.2", "2", "" } }
    fibers.run(function()
        report_single(settings, rows)
        for _, count in ipairs(settings.quick and { 2, 8 } or ROTATIONS) do
            report_turns(settings, count, turns)
        end
        for _, count in ipairs(settings.quick and { 2, 10 } or QUEUES) do
            report_queue(settings, count, queues)
        end
    end)
    report.columns(rows)
    report.columns(turns)
    report.columns(queues)
end
