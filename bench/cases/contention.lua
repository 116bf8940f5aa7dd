--- contention: many clients, each with its own session, take turns at one lock; the time of one hand-over.

local contestants = require "contestants"
local lib = require "lib"

return function(settings)
    local rounds = settings.rounds or (settings.quick and 1 or 3)
    local seconds = settings.quick and 0.5 or 1.5
    lib.title("Contention: µs a hand-over (%g s / acquisitions); median of %d rounds (min..max)", seconds, rounds)
    local free = assert(io.open(settings.scratch .. "/free", "w"))
    free:close()
    local all = contestants.list(settings)
    local times = {} -- name -> clients -> array by round
    for _ = 1, rounds do
        for _, clients in ipairs(settings.clients) do
            for _, contestant in ipairs(all) do
                if not contestant.missing then
                    local result = contestants.run(contestant, "contend", settings.servers,
                        "/bench-contention-" .. contestant.name, clients, contestant.warm_up, seconds, settings.scratch)
                    local its = times[contestant.name] or {}
                    times[contestant.name] = its
                    its[clients] = its[clients] or {}
                    table.insert(its[clients], result.seconds / result.turns * 1e6)
                end
            end
        end
    end
    local header = { "" }
    for _, clients in ipairs(settings.clients) do
        table.insert(header, clients .. " clients")
    end
    local rows, ratios = { header }, { table.move(header, 2, #header, 2, { "zklock's : its" }) }
    for _, contestant in ipairs(all) do
        local row, ratio = { contestant.name }, { contestant.name }
        for _, clients in ipairs(settings.clients) do
            local its = times[contestant.name] and times[contestant.name][clients]
            table.insert(row, its and lib.spread(its, "%.0f") or "missing")
            table.insert(ratio, its and lib.spread(lib.ratios(times.zklock[clients], its), "%.2f") or "-")
        end
        table.insert(rows, row)
        if contestant.name ~= "zklock" then
            table.insert(ratios, ratio)
        end
    end
    lib.columns(rows)
    print()
    lib.columns(ratios)
    print("  No two clients held the lock at once: every turn was checked by a file that only one can rename.")
end
