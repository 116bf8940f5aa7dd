--- contention: many clients, each with its own session, take turns at one lock; the time of one hand-over.

local compare = require "compare"
local contestants = require "contestants"
local gate = require "gate"
local lib = require "lib"
local plots = require "plots"
local report = require "report"
local targets = require "targets"

local function draw(settings, all, values)
    local series = {}
    for _, contestant in ipairs(all) do
        local points = {}
        for _, clients in ipairs(settings.clients) do
            local its = values[contestant.name][clients]
            if its then
                table.insert(points, { clients, lib.summary(its) })
            end
        end
        if #points > 1 then
            table.insert(series, { name = contestant.name, points = points })
        end
    end
    if #series > 0 then
        plots.lines(settings, {
            name = "contention", title = "How long a lock takes to pass from one client to the next", x = "clients", log = "x",
            y = "µs a hand-over", series = series
        })
    end
end

return function(settings)
    local rounds = settings.rounds or (settings.quick and 1 or 3)
    local seconds = settings.quick and 0.5 or 1.5
    report.title("Contention: µs a hand-over (%g s / acquisitions); median of %d rounds (min..max)", seconds, rounds)
    gate.make(settings.scratch)
    local all = contestants.list(settings, "contend")
    local values = compare.collect(all, rounds, settings.clients, function(contestant, clients)
        local result = contestants.run(contestant, "contend", settings.servers, "/bench-contention-" .. contestant.name, clients,
            contestant.warm_up, seconds, settings.scratch)
        return { [clients] = contestants.hand_over_us(result) }
    end)
    local columns = {}
    for index, clients in ipairs(settings.clients) do
        columns[index] = { key = clients, text = clients .. " clients", shape = "%.0f" }
        targets.note("contention " .. clients, compare.ratios(values, "zklock", "go-zookeeper", clients))
    end
    compare.report(all, columns, values)
    report.say("No two clients held the lock at once: every turn was checked by a file that only one can rename.")
    draw(settings, all, values)
end
