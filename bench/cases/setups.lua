--- setups: the cycle and the hand-over again, with one server and with three, which write to the disk before they answer
-- (forceSync) or do not.

local compare = require "compare"
local contestants = require "contestants"
local gate = require "gate"
local lib = require "lib"
local report = require "report"

local SETUPS = {
    { text = "1 server", servers = 1, fsync = "no" },
    { text = "1 server, fsync", servers = 1, fsync = "yes" },
    { text = "3 servers", servers = 3, fsync = "no" },
    { text = "3 servers, fsync", servers = 3, fsync = "yes" }
}

--- The quick run measures only the setup that differs most.
local QUICK_SETUPS = { SETUPS[4] }

local CLIENTS = 8

--- The measured contestants: kazoo's hand-over takes long enough on one server.
local CYCLISTS = { "zklock", "C client", "go-zookeeper", "Curator", "kazoo" }
local CONTENDERS = { "zklock", "go-zookeeper", "Curator" }
local QUICK = { "zklock", "go-zookeeper" }

local function contains(names, wanted)
    for _, name in ipairs(names) do
        if name == wanted then
            return true
        end
    end
    return false
end

local function measure_setup(settings, all, setup, rounds, count, seconds)
    local cluster = lib.cluster(settings, "--servers", setup.servers, "--option", "forceSync=" .. setup.fsync, "--java-option",
        "-Dznode.container.checkIntervalMs=60000")
    -- Warms up the server, not the contestant.
    contestants.run(all[1], "cycle", cluster.servers, "/bench-setups-warm-up", 10 * count)
    local values = compare.collect(all, rounds, { "cycle", "contend" }, function(contestant, mode)
        local path = "/bench-setups-" .. contestant.name:gsub("%W", "")
        if mode == "cycle" then
            return { cycle = contestants.run(contestant, "cycle", cluster.servers, path, count).cycle_us }
        elseif contains(CONTENDERS, contestant.name) then
            local result = contestants.run(contestant, "contend", cluster.servers, path, CLIENTS, contestant.warm_up, seconds,
                settings.scratch)
            return { contend = contestants.hand_over_us(result) }
        end
    end)
    cluster.run("stop")
    return values
end

local function report_measure(all, setups, seen, key, title, ...)
    report.title(title, ...)
    local columns, values = {}, {}
    for index, setup in ipairs(setups) do
        columns[index] = { key = setup.text, text = setup.text, shape = "%.0f" }
        for name, its in pairs(seen[index]) do
            values[name] = values[name] or {}
            values[name][setup.text] = its[key]
        end
    end
    compare.report(all, columns, values)
end

return function(settings)
    local rounds, count = settings.rounds or (settings.quick and 1 or 2), settings.quick and 100 or 300
    local seconds, setups = settings.quick and 0.5 or 1, settings.quick and QUICK_SETUPS or SETUPS
    gate.make(settings.scratch)
    local all, seen = {}, {}
    for _, contestant in ipairs(contestants.list(settings, "cycle")) do
        if contains(settings.quick and QUICK or CYCLISTS, contestant.name) then
            table.insert(all, contestant)
        end
    end
    for index, setup in ipairs(setups) do
        seen[index] = measure_setup(settings, all, setup, rounds, count, seconds)
    end
    report_measure(all, setups, seen, "cycle", "One server and three, with fsync and without: µs a cycle, without "
        .. "contention; medians of %d cycles, median of %d rounds (min..max)", count, rounds)
    report_measure(all, setups, seen, "contend", "The same: µs a hand-over among %d clients (%g s / acquisitions)", CLIENTS,
        seconds)
end
