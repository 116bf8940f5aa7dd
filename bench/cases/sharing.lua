--- sharing: turns a second at what several may have at once, each client with its own session.

local contestants = require "contestants"
local lib = require "lib"
local socket = require "socket"

--- `processes`: into how many processes the clients are divided, of each contestant alike.
local ARRANGEMENTS = {
    { text = "rwlock, 90 % reads", kind = "rwlock", clients = 8, processes = 8, warm_up = 4 },
    { text = "rwlock, 90 % reads", kind = "rwlock", clients = 8, processes = 2, warm_up = 2 },
    { text = "semaphore of 10", kind = "semaphore", clients = 50, processes = 2, warm_up = 2 }
}

local PERMITS = 10
local PATIENCE = 60 -- seconds until all are connected

local function make(name)
    assert(io.open(name, "w")):close()
end

local function exists(name)
    local file = io.open(name)
    return file and file:close() or false
end

--- The files that the programs rename.
local function lay_out(dir, clients)
    make(dir .. "/free")
    for number = 1, clients do
        make(string.format("%s/reader-%d-out", dir, number))
    end
    for number = 1, PERMITS do
        make(string.format("%s/permit-%d-free", dir, number))
    end
end

--- Lets all begin when all are connected.
local function give_start(dir, firsts)
    local deadline = socket.gettime() + PATIENCE
    for _, first in ipairs(firsts) do
        while not exists(dir .. "/ready-" .. first) do
            if socket.gettime() > deadline then
                error("not all clients are connected")
            end
            socket.sleep(0.01)
        end
    end
    local file = assert(io.open(dir .. "/go.new", "w"))
    file:write(string.format("%.3f\n", socket.gettime() + 0.1))
    file:close()
    os.rename(dir .. "/go.new", dir .. "/go")
end

--- Turns a second of one contestant.
local function run(settings, contestant, arrangement, seconds)
    local dir = settings.scratch .. "/sharing"
    os.execute(string.format("rm -rf '%s' && mkdir '%s'", dir, dir))
    lay_out(dir, arrangement.clients)
    local each = arrangement.clients // arrangement.processes
    local commands, firsts = {}, {}
    for first = 1, arrangement.clients, each do
        table.insert(firsts, first)
        table.insert(commands, contestants.words(contestant, "share", settings.servers,
            string.format("/bench-sharing-%s-%s", arrangement.kind, contestant.name), arrangement.kind, first, each,
            arrangement.clients, arrangement.warm_up, seconds, dir))
    end
    local turns = 0
    for _, result in ipairs(lib.run_together(commands, function()
        give_start(dir, firsts)
    end)) do
        turns = turns + contestants.check(contestant, result).turns
    end
    return turns / seconds
end

return function(settings)
    local rounds = settings.rounds or (settings.quick and 1 or 3)
    local seconds = settings.quick and 0.5 or 1.5
    lib.title("Sharing: turns a second, over %g s; median of %d rounds (min..max)", seconds, rounds)
    local all = contestants.with_kinds(settings)
    local rates = {} -- arrangement -> name -> array by round
    for _ = 1, rounds do
        for index, arrangement in ipairs(ARRANGEMENTS) do
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
    for index, arrangement in ipairs(ARRANGEMENTS) do
        local row = { arrangement.text, tostring(arrangement.clients), tostring(arrangement.processes) }
        for _, contestant in ipairs(all) do
            table.insert(row, lib.spread(rates[index][contestant.name], "%.0f"))
        end
        for other = 2, #all do
            table.insert(row, lib.spread(lib.ratios(rates[index].zklock, rates[index][all[other].name]), "%.2f"))
        end
        table.insert(rows, row)
    end
    lib.columns(rows)
    print("  Writers were alone, and never more than 10 had a permit: every turn was checked by files that only one can rename.")
end
