--- many: many different locks of one client at the same time, each taken and released again and again.

local compare = require "compare"
local contestants = require "contestants"
local report = require "report"
local targets = require "targets"

local LOCKS = 1000

return function(settings)
    local rounds, seconds = settings.rounds or (settings.quick and 1 or 3), settings.quick and 0.5 or 1.5
    report.title("%d different locks of one client: cycles a second, over %g s; median of %d rounds (min..max)", LOCKS, seconds,
        rounds)
    local all = contestants.list(settings, "many")
    local values = compare.collect(all, rounds, { "many" }, function(contestant, kind)
        if settings.quick and contestant.name == "kazoo" then
            return nil -- a thousand threads of Python are slow
        end
        local result = contestants.run(contestant, "crowd", settings.servers, "/bench-many-" .. contestant.name:gsub("%W", ""),
            kind, 1, LOCKS, contestant.warm_up, seconds, settings.scratch)
        return { rate = result.turns / result.seconds, requests = result.requests }
    end)
    compare.report(all, {
        { key = "rate", text = "cycles a second", shape = "%.0f" }, { key = "requests", text = "requests a cycle", shape = "%.2f" }
    }, values, { "zklock" }, { "rate" })
    targets.note("many", compare.ratios(values, "zklock", "C client", "rate"))
    report.say("The C client creates and deletes, and lists nothing: its requests are all on their way together.")
end
