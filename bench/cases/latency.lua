--- latency: an uncontended acquire, and a whole cycle, against the bare C client and against other languages.
--
-- In each round every contestant runs once, one after the other; ratios are of the same round.

local compare = require "compare"
local contestants = require "contestants"
local kinds = require "kinds"
local lib = require "lib"
local plots = require "plots"
local report = require "report"
local targets = require "targets"

local UNAWAITED, LINGER = "zklock, release not awaited", "zklock, linger"
local THREAD = "zklock, its I/O thread polls"

--- The contestants of a list that have that name; may be none.
local function named(all, name)
    for _, contestant in ipairs(all) do
        if contestant.name == name then
            return contestant
        end
    end
end

--- Against the bare C client: many short rounds, so that other load of the machine affects both.
local function report_floor(settings, all, count, rounds)
    report.title("Latency against the C client, without contention: medians of %d cycles; median of %d rounds (min..max)", count,
        rounds)
    local pair = { named(all, "C client"), named(all, "zklock") }
    if pair[1].missing then
        report.say("missing: C client")
        return
    end
    local values = compare.collect(pair, rounds, { "cycle" }, function(contestant, mode)
        return contestants.numbers(contestants.run(contestant, mode, settings.servers, "/bench-latency-floor", count))
    end)
    local ours, floor = values.zklock, values["C client"]
    local function row(text, mine, its)
        return { text, lib.spread(mine, "%.0f"), lib.spread(its, "%.0f"), lib.spread(lib.ratios(mine, its), "%.2f") }
    end
    report.columns {
        { "µs", "zklock", "C client", "ratio" },
        row("acquire : create", ours.acquire_us, floor.acquire_us),
        row("cycle : create, delete", ours.cycle_us, floor.cycle_us),
        row("acquire : create and list together", ours.acquire_us, floor.pair_us),
        row("cycle : create and list together, delete", ours.cycle_us, floor.pair_cycle_us),
        row("release : delete", ours.release_us, floor.release_us)
    }
    targets.note("acquire", lib.ratios(ours.acquire_us, floor.acquire_us))
end

--- The contestants of a cycle, and zklock in its variants: with the `kind` that they are started with.
local function cyclists(all)
    local list = {}
    for _, contestant in ipairs(all) do
        table.insert(list, contestant)
        if contestant.name == "zklock" then
            for _, variant in ipairs {
                { name = UNAWAITED, kind = "unawaited" }, { name = LINGER, kind = "linger" }, { name = THREAD, kind = "thread" }
            } do
                table.insert(list, setmetatable(variant, { __index = contestant }))
            end
        end
    end
    return list
end

local function draw_cycles(settings, values, distributions)
    local bars, series = {}, {}
    for name, its in pairs(values) do
        if its.cycle_us and name ~= LINGER then -- too short to be seen next to the others
            table.insert(bars, { name = name, values = { lib.summary(its.cycle_us) } })
            local quantiles = {}
            for index, by_round in ipairs(distributions[name]) do
                quantiles[index] = lib.median(by_round)
            end
            table.insert(series, { name = name, quantiles = quantiles })
        end
    end
    table.sort(bars, function(a, b)
        return a.values[1] < b.values[1]
    end)
    plots.bars(settings, {
        name = "cycle", title = "What acquiring and releasing a free lock takes",
        x = "µs, median; the line is the range of the rounds", shape = "%.0f", bars = bars
    })
    plots.distribution(settings, {
        name = "cycle-distribution", title = "How the time of a cycle is distributed", x = "µs at most (logarithmic)",
        series = series
    })
end

local function report_peers(settings, all, count, rounds)
    report.title("Latency against others, without contention: medians of %d cycles; median of %d rounds (min..max)", count, rounds)
    local list, distributions = cyclists(all), {} -- name -> percent -> array by round
    local values = compare.collect(list, rounds, { "cycle" }, function(contestant, mode)
        local result = contestants.run(contestant, mode, settings.servers, "/bench-cycle-" .. contestant.name:gsub("%W", ""),
            count, contestant.kind)
        local its = distributions[contestant.name] or {}
        distributions[contestant.name] = its
        for index, quantile in ipairs(lib.numbers(result.quantiles_us)) do
            its[index] = its[index] or {}
            table.insert(its[index], quantile)
        end
        return contestants.numbers(result)
    end)
    compare.report(list, {
        { key = "acquire_us", text = "acquire, µs", shape = "%.0f" }, { key = "cycle_us", text = "cycle, µs", shape = "%.0f" },
        { key = "requests", text = "requests", shape = "%.2f" }
    }, values, { "zklock", UNAWAITED }, { "acquire_us", "cycle_us" })
    for _, peer in ipairs({ "go-zookeeper", "Curator", "kazoo" }) do
        targets.note("cycle " .. peer, compare.ratios(values, "zklock", peer, "cycle_us"))
    end
    targets.note("unawaited go-zookeeper", compare.ratios(values, UNAWAITED, "go-zookeeper", "cycle_us"))
    targets.note("linger time", values[LINGER].cycle_us)
    targets.note("linger requests", values[LINGER].requests)
    draw_cycles(settings, values, distributions)
end

--- Each kind of lock, against the contestants that have it.
local function report_kinds(settings, count, rounds)
    report.title("Latency of each kind, without contention: medians of %d cycles; median of %d rounds (min..max)", count, rounds)
    local all, times = contestants.present(settings, "kinds"), {} -- kind -> name -> measure -> array by round
    for _, kind in ipairs(kinds.all) do
        times[kind] = {}
    end
    for _ = 1, rounds do
        for _, contestant in ipairs(all) do
            local path = "/bench-kinds-" .. contestant.name
            for _, result in ipairs(contestants.run_lines(contestant, "cycle", settings.servers, path, count, "all")) do
                local its = times[result.kind]
                its[contestant.name] = its[contestant.name] or { acquire_us = {}, cycle_us = {} }
                table.insert(its[contestant.name].acquire_us, result.acquire_us)
                table.insert(its[contestant.name].cycle_us, result.cycle_us)
            end
        end
    end
    local header = { "µs" }
    for _, contestant in ipairs(all) do
        table.insert(header, contestant.name .. ": acquire")
        table.insert(header, "cycle")
    end
    for index = 2, #all do
        table.insert(header, "zklock's cycle : " .. all[index].name .. "'s")
    end
    local rows = { header }
    for _, kind in ipairs(kinds.all) do
        local row, ours = { kinds.text[kind] }, times[kind].zklock
        for _, contestant in ipairs(all) do
            local its = times[kind][contestant.name]
            table.insert(row, lib.spread(its.acquire_us, "%.0f"))
            table.insert(row, lib.spread(its.cycle_us, "%.0f"))
        end
        for index = 2, #all do
            table.insert(row, lib.spread(lib.ratios(ours.cycle_us, times[kind][all[index].name].cycle_us), "%.2f"))
        end
        table.insert(rows, row)
    end
    report.columns(rows)
end

return function(settings)
    local all = contestants.list(settings, "cycle")
    local rounds = settings.rounds or (settings.quick and 1 or 5)
    report_peers(settings, all, settings.quick and 300 or 2000, rounds)
    report_floor(settings, all, settings.quick and 200 or 600, rounds * 3)
    report_kinds(settings, settings.quick and 50 or 300, settings.rounds or (settings.quick and 1 or 3))
end
