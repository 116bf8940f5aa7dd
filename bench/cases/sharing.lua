--- sharing: turns a second at locks that several clients may hold at once, each client with its own session.

local contestants = require "contestants"
local gate = require "gate"
local lib = require "lib"
local report = require "report"
local start = require "start"

--- `processes`: into how many processes the clients are divided, the same for each contestant.
local ARRANGEMENTS = {
    { text = "rwlock, 90 % reads", kind = "rwlock", clients = 8, processes = 8, warm_up = 4 },
    { text = "rwlock, 90 % reads", kind = "rwlock", clients = 8, processes = 2, warm_up = 2 },
    { text = "semaphore of 10", kind = "semaphore", clients = 50, processes = 2, warm_up = 2 }
}

local PERMITS = 10

local function make(name)
    assert(io.open(name, "w")):close()
end

--- The files that the programs rename.
local function lay_out(dir, clients)
    gate.make(dir)
    for number = 1, clients do
        make(string.format("%s/reader-%d-out", dir, number))
    end
    for number = 1, PERMITS do
        make(string.format("%s/permit-%d-free", dir, number))
    end
end

--- Turns a second of one contestant.
local function run(settings, contestant, arrangement, seconds)
    local dir = settings.scratch .. "/sharing"
    start.prepare(dir)
    lay_out(dir, arrangement.clients)
    local each = arrangement.clients // arrangement.processes
    local commands, firsts = {}, {}
    for first = 1, arrangement.clients, each do
        table.insert(firsts, first)
        table.insert(commands, contestants.words(contestant, "share", settings.servers,
            string.format("/bench-sharing-%s-%s", arrangement.kind, contestant.name), arrangement.kind, first, each,
            arrangement.clients, settings.quick and arrangement.warm_up / 2 or arrangement.warm_up, seconds, dir))
    end
    local turns = 0
    for _, result in ipairs(lib.run_together(commands, function()
        start.await_ready(dir, firsts)
        start.give(dir, 0.1)
    end)) do
        turns = turns + contestants.check(contestant, result).turns
    end
    return turns / seconds
end

return function(settings)
    local rounds = settings.rounds or (settings.quick and 1 or 3)
    local seconds = settings.quick and 0.5 or 1.5
    report.title("Sharing: turns a second, over %g s; median of %d rounds (min..max)", seconds, rounds)
    local all = contestants.present(settings, "share")
    local arrangements = settings.quick and { ARRANGEMENTS[2], ARRANGEMENTS[3] } or ARRANGEMENTS
    local rates = {} -- arrangement -> name -> array by round
    for _ = 1, rounds do
        for index, arrangement in ipairs(arrangements) do
            rates[index] = rates[index] or {}
            for _, contestant in ipairs(all) do
                rates[index][contestant.name] = rates[index][contestant.name] or {}
                table.insert(rates[index][contestant.name], run(settings, contestant, arrangement, seconds))
            end
        end
    end
    local header = { "", "clients", "processes" }
    for _, contestant in ipairs(all) do
        table.insert(header, contestant.name)
    end
    for index = 2, #all do
        table.insert(header, "zklock's : " .. all[index].name .. "'s")
    end
    local rows = { header }
    for index, arrangement in ipairs(arrangements) do
        local row = { arrangement.text, tostring(arrangement.clients), tostring(arrangement.processes) }
        for _, contestant in ipairs(all) do
            table.insert(row, lib.spread(rates[index][contestant.name], "%.0f"))
        end
        for other = 2, #all do
            table.insert(row, lib.spread(lib.ratios(rates[index].zklock, rates[index][all[other].name]), "%.2f"))
        end
        table.insert(rows, row)
    end
    report.columns(rows)
    report.say("Writers were alone, and never more than 10 had a permit: every turn was checked by files that only one can rename.")
end
