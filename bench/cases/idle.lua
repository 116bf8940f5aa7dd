--- idle: what idle clients cost the servers, and what the first acquisition after a pause costs.
--
-- On three separate servers. The requests of an idle client decide for how long the next grant is certain, so the case compares
-- zklock with sessions of the bare C client (idle.c) that send other requests.

local compare = require "compare"
local counter = require "counter"
local lib = require "lib"
local report = require "report"
local socket = require "socket"
local start = require "start"

local SERVERS = 3
local SESSIONS, QUICK_SESSIONS = 1000, 200
local TIMEOUT = 10         -- seconds, zklock's default
local SETTLE = 2           -- seconds between the last session's opening and the measurement
local SPAN, QUICK_SPAN = 20, 10 -- multiples of the time between two requests of a session
local TICKS_A_SECOND = 100 -- of the kernel's processor time

local FIRST = { clients = 40, timeout = 4, pause = 6, count = 200 }
local QUICK_FIRST = { clients = 10, timeout = 4, pause = 2, count = 50 }
local DELAY_MS, DELAYED = 8, 10

--- The senders and their requests, and how many times in a session timeout.
local function senders(settings)
    local c = settings.build .. "/idle"
    local missing = settings.missing["C client, idle"]
    return {
        { name = "zklock", program = "lua" },
        { name = "C client, exists every T/6", program = c, request = "exists", parts = 6, missing = missing },
        { name = "C client, sync every T/6", program = c, request = "sync", parts = 6, missing = missing },
        { name = "C client, pings alone", program = c, request = "none", parts = 1, missing = missing }
    }
end

local function words_of(settings, sender, servers, sessions, dir)
    if sender.program == "lua" then
        return { "lua5.4", settings.bench .. "/programs/idle.lua", "hold", servers, sessions, TIMEOUT, dir }
    end
    return { sender.program, servers, sessions, TIMEOUT * 1000, sender.request, TIMEOUT * 1000 // sender.parts, dir }
end

--- The servers' process ids by number, and the leader's number.
local function look_up(cluster)
    local pids, leader = {}, nil
    for number, pid, mode in cluster.ask("status"):gmatch("(%d+) (%d+) %d+ (%a+)") do
        pids[tonumber(number)] = pid
        leader = mode == "leader" and tonumber(number) or leader
    end
    return pids, assert(leader, "there is no leader")
end

--- Seconds of processor time that a process has used.
local function processor_time(pid)
    local file = assert(io.open("/proc/" .. pid .. "/stat"))
    local user, system = file:read("a"):match("%) %a " .. ("%S+ "):rep(10) .. "(%d+) (%d+)")
    file:close()
    return (tonumber(user) + tonumber(system)) / TICKS_A_SECOND
end

--- The servers' counters so far.
local function account(cluster, pids, leader)
    local its = { at = socket.gettime(), leader = processor_time(pids[leader]), all = 0, received = 0 }
    local number = 0
    for server in cluster.servers:gmatch("[^,]+") do
        number = number + 1
        local counters = lib.mntr(server)
        its.all = its.all + processor_time(pids[number])
        its.received = its.received + counters.packets_received
        its.at_leader = number == leader and counters.prep_processor_request_queued or its.at_leader
    end
    return its
end

--- The servers' work in `span` seconds from now on: processor seconds a minute, packets and requests a second.
local function rates_of(cluster, span)
    local pids, leader = look_up(cluster)
    local before = account(cluster, pids, leader)
    socket.sleep(span)
    local after = account(cluster, pids, leader)
    local seconds = after.at - before.at
    return {
        leader = (after.leader - before.leader) / seconds * 60, all = (after.all - before.all) / seconds * 60,
        received = (after.received - before.received) / seconds, at_leader = (after.at_leader - before.at_leader) / seconds
    }
end

local function measure(settings, cluster, sender, sessions, span)
    local dir, rates = settings.scratch .. "/idle", nil
    start.prepare(dir)
    lib.run_together({ words_of(settings, sender, cluster.servers, sessions, dir) }, function()
        start.await_ready(dir, { 1 })
        socket.sleep(SETTLE)
        rates = rates_of(cluster, span)
        start.give(dir, 0)
    end)
    return rates
end

local function report_cost(settings, cluster)
    local rounds, sessions = settings.rounds or (settings.quick and 1 or 3), settings.quick and QUICK_SESSIONS or SESSIONS
    local span = settings.quick and QUICK_SPAN or SPAN
    report.title("Idle: what %d sessions of %d s cost %d servers, over %d s; median of %d rounds (min..max)", sessions, TIMEOUT,
        SERVERS, span, rounds)
    local all, without = senders(settings), rates_of(cluster, span)
    local values = compare.collect(all, rounds, { sessions }, function(sender, count)
        return measure(settings, cluster, sender, count, span)
    end)
    compare.report(all, {
        { key = "leader", text = "leader's processor, s a minute", shape = "%.2f" },
        { key = "all", text = "of all servers", shape = "%.2f" },
        { key = "received", text = "packets from clients a second", shape = "%.0f" },
        { key = "at_leader", text = "requests at the leader a second", shape = "%.0f" }
    }, values, { "zklock", "C client, sync every T/6" }, { "leader", "all", "received", "at_leader" })
    report.say("The sessions are spread evenly over the servers. A request at the leader comes from its own clients, or a follower "
        .. "forwards it: sync, but not exists.")
    report.say("Without clients the leader takes %.2f s a minute, all servers %.2f s.", without.leader, without.all)
end

--- Runs both programs at one address. Returns program -> { us =, requests = }.
local function run_first(settings, address, path, its, count)
    local results = {}
    for _, line in ipairs(lib.run_lines({
        "lua5.4", settings.bench .. "/programs/idle.lua", "first", address, path, its.clients, its.timeout, its.pause
    })) do
        results["zklock " .. line.what] = line
    end
    for _, line in ipairs(lib.run_lines({ settings.build .. "/floor", "first", address, path, count })) do
        results["C " .. line.what] = line
    end
    return results
end

local WHATS = {
    { name = "C client, create and list", key = "C create", requests = 2 },
    { name = "zklock, right after another", key = "zklock again" },
    { name = "zklock, after a pause", key = "zklock pause" },
    { name = "C client, create and list, then a check", key = "C create-check", requests = 3 }
}

local function report_first(settings, cluster)
    local rounds, its = settings.rounds or (settings.quick and 1 or 3), settings.quick and QUICK_FIRST or FIRST
    report.title("The first acquisition after %g s, sessions of %g s; medians, median of %d rounds (min..max)", its.pause,
        its.timeout, rounds)
    local _, leader = look_up(cluster)
    local addresses = {}
    for server in cluster.servers:gmatch("[^,]+") do
        table.insert(addresses, server)
    end
    local places = { leader = addresses[leader], follower = addresses[leader % SERVERS + 1] }
    local proxy, control = counter.start(settings.proxy, places.follower, settings.owner)
    local counts = counter.connect(control)
    counts:delay(DELAY_MS)
    places.delayed = proxy
    local delayed = { clients = DELAYED, timeout = its.timeout, pause = its.pause }
    local round = 0
    local values = compare.collect(WHATS, 1, { 1 }, function() end)
    for _ = 1, rounds do
        round = round + 1
        for place, address in pairs(places) do
            local results = run_first(settings, address, string.format("/bench-first-%s-%d", place, round),
                place == "delayed" and delayed or its, place == "delayed" and DELAYED or its.count)
            for _, what in ipairs(WHATS) do
                local line, row = results[what.key], values[what.name]
                local exists = results[what.key:match("^%S+") .. " exists"].us
                local key = place == "delayed" and "trips" or place
                row[key] = row[key] or {}
                table.insert(row[key], place == "delayed" and line.us / exists or line.us)
                if place == "leader" then
                    row.requests = row.requests or {}
                    table.insert(row.requests, line.requests or what.requests)
                end
            end
        end
    end
    counts:quit()
    compare.report(WHATS, {
        { key = "requests", text = "requests", shape = "%g" },
        { key = "trips", text = "round trips", shape = "%.1f" },
        { key = "leader", text = "at the leader, µs", shape = "%.0f" },
        { key = "follower", text = "at a follower, µs", shape = "%.0f" }
    }, values, { "zklock, after a pause", "C client, create and list, then a check" }, { "leader", "follower" })
    report.say("Round trips: the time through a proxy that adds %d ms each way, divided by the time of an exists through it.",
        DELAY_MS)
end

return function(settings)
    local cluster = lib.cluster(settings, "--servers", SERVERS, "--tick", 2000, "--option", "syncLimit=5", "--java-option",
        "-Dznode.container.checkIntervalMs=3600000") -- a directory that is removed in a pause would have to be made again
    report_cost(settings, cluster)
    report_first(settings, cluster)
    cluster.run("stop")
end
