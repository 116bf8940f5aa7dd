--- latency: an uncontended acquire, and a whole cycle, against the bare C client and against other languages.
--
-- In each round everybody runs once, one after the other; ratios are of the same round.

local contestants = require "contestants"
local kinds = require "kinds"
local lib = require "lib"

--- What the ratios to the bare C client should stay below.
local ACQUIRE_TARGET, CYCLE_TARGET = "1.15", "1.10"

--- Collects results: name -> measure -> array by round.
local function note(times, result)
    local its = times[result.name] or {}
    times[result.name] = its
    for key, value in pairs(result) do
        its[key] = its[key] or {}
        table.insert(its[key], value)
    end
end

--- Against the bare C client: many short rounds, so that what else the machine does strikes both.
local function report_floor(settings, ourselves, count, rounds)
    lib.title("Latency against the C client, nobody else: medians of %d cycles; median of %d rounds (min..max)", count,
        rounds)
    if settings.missing.floor then
        print("  missing: floor")
        return
    end
    local times = {}
    for _ = 1, rounds do
        note(times, lib.run { settings.build .. "/floor", settings.servers, "/bench-floor", count })
        note(times, contestants.run(ourselves, "cycle", settings.servers, "/bench-latency", count))
    end
    local ours, floor = times.zklock, times.floor
    local function row(text, mine, its, target)
        local ratio = lib.spread(lib.ratios(mine, its), "%.2f")
        return { text, lib.spread(mine, "%.0f"), lib.spread(its, "%.0f"), ratio, target }
    end
    lib.columns {
        { "µs", "zklock", "C client", "ratio", "target" },
        row("acquire : create", ours.acquire_us, floor.create_us, ACQUIRE_TARGET),
        row("cycle : create, delete", ours.cycle_us, floor.cycle_us, CYCLE_TARGET),
        row("acquire : create and list together", ours.acquire_us, floor.pair_us, ""),
        row("cycle : create and list together, delete", ours.cycle_us, floor.pair_cycle_us, ""),
        row("release : delete", ours.release_us, floor.delete_us, "")
    }
end

local function report_peers(settings, all, count, rounds)
    lib.title("Latency against others, nobody else: medians of %d cycles; median of %d rounds (min..max)", count,
        rounds)
    local times = {}
    for _ = 1, rounds do
        for _, contestant in ipairs(all) do
            if not contestant.missing then
                local path = "/bench-cycle-" .. contestant.name
                note(times, contestants.run(contestant, "cycle", settings.servers, path, count))
            end
        end
    end
    local rows = { { "µs", "acquire", "cycle", "zklock's cycle : its" } }
    for _, contestant in ipairs(all) do
        local its = times[contestant.name]
        if its then
            table.insert(rows, {
                contestant.name, lib.spread(its.acquire_us, "%.0f"), lib.spread(its.cycle_us, "%.0f"),
                contestant.name == "zklock" and "" or
                    lib.spread(lib.ratios(times.zklock.cycle_us, its.cycle_us), "%.2f")
            })
        else
            table.insert(rows, { contestant.name, "missing", "missing", "-" })
        end
    end
    lib.columns(rows)
end

--- Each kind of lock, against those who have them.
local function report_kinds(settings, count, rounds)
    lib.title("Latency of each kind, nobody else: medians of %d cycles; median of %d rounds (min..max)", count, rounds)
    local all, times = contestants.with_kinds(settings), {} -- kind -> times by name, as in note
    for _ = 1, rounds do
        for _, contestant in ipairs(all) do
            local path = "/bench-kinds-" .. contestant.name
            for _, result in ipairs(contestants.run_lines(contestant, "cycle", settings.servers, path, count, "all")) do
                times[result.kind] = times[result.kind] or {}
                note(times[result.kind], result)
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
    lib.columns(rows)
end

return function(settings)
    local all = contestants.list(settings)
    local rounds = settings.rounds or (settings.quick and 2 or 5)
    report_floor(settings, all[1], settings.quick and 300 or 600, rounds * 3)
    report_peers(settings, all, settings.quick and 500 or 2000, rounds)
    report_kinds(settings, settings.quick and 100 or 300, settings.rounds or (settings.quick and 1 or 3))
end
