--- crowd: many contenders in one process, of one client with one session: at a lock that all take turns at, and at a lock that all
-- read.

local compare = require "compare"
local contestants = require "contestants"
local gate = require "gate"
local report = require "report"
local targets = require "targets"

--- The contestants of each size; a thousand threads of kazoo would take minutes. `warm_up`: seconds until all are in the queue.
local TURNS = { { each = 8 }, { each = 1000, warm_up = 8, only = { zklock = true, ["go-zookeeper"] = true, Curator = true } } }
local READERS = 8

local function run(settings, contestant, kind, each, seconds, warm_up)
    return contestants.run(contestant, "crowd", settings.servers,
        string.format("/bench-crowd-%s-%d-%s", kind, each, contestant.name), kind, 1, each,
        warm_up or contestant.warm_up, seconds, settings.scratch)
end

local function report_turns(settings, rounds, seconds)
    report.title("Turns at one lock, one client: µs a hand-over (%g s / acquisitions); median of %d rounds (min..max)", seconds,
        rounds)
    gate.make(settings.scratch)
    local all, arrangements = contestants.list(settings, "crowd"), settings.quick and { TURNS[1] } or TURNS
    local values = compare.collect(all, rounds, arrangements, function(contestant, arrangement)
        if arrangement.only and not arrangement.only[contestant.name] then
            return nil
        end
        local result = run(settings, contestant, "one", arrangement.each, seconds, arrangement.warm_up)
        return { [arrangement.each] = contestants.hand_over_us(result) }
    end)
    local columns = {}
    for index, arrangement in ipairs(arrangements) do
        columns[index] = { key = arrangement.each, text = arrangement.each .. " who want it", shape = "%.0f" }
    end
    compare.report(all, columns, values, { "zklock" }, nil, "%.3f")
    targets.note("local", compare.ratios(values, "zklock", "Curator", 8))
    report.say("No two coroutines or threads held the lock at once: every turn was checked by a file that only one can rename.")
end

local function report_reads(settings, rounds, seconds)
    report.title("%d readers of one client, together: grants a second, over %g s; median of %d rounds (min..max)", READERS,
        seconds, rounds)
    local readers = contestants.list(settings, "readers")
    local values = compare.collect(readers, rounds, { "read" }, function(contestant, kind)
        local result = run(settings, contestant, kind, READERS, seconds)
        return { grants = result.turns / result.seconds, requests = result.requests }
    end)
    compare.report(readers, {
        { key = "grants", text = "grants a second", shape = "%.0f" },
        { key = "requests", text = "requests a grant", shape = "%.3f" }
    }, values, { "zklock" }, { "grants" })
    targets.note("reads", compare.ratios(values, "zklock", "Curator", "grants"))
end

return function(settings)
    local rounds, seconds = settings.rounds or (settings.quick and 1 or 3), settings.quick and 0.5 or 1.5
    report_turns(settings, rounds, seconds)
    report_reads(settings, rounds, seconds)
end
