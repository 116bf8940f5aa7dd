--- contestants: the programs that are compared, and how each is started.
--
-- A contestant supports some of these modes. All that support a mode take the same arguments and print the same output, on a line
-- each:
--
--     cycle SERVERS PATH COUNT                             -> name= count= acquire_us= cycle_us= quantiles_us=
--     contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR     -> name= clients= seconds= turns= violations= failures=
--     crowd SERVERS PATH KIND CLIENTS EACH WARM_UP SECONDS DIR      see bench/programs/crowd.lua
--         `crowd`: contestants with its kind "one"; `many` and `readers`: contestants with the other kinds
--     line SERVERS PROXY PATH CLIENTS EACH DIR                      see bench/programs/line.lua
--     storm SERVERS PATH CLIENTS PATIENCE DIR                       see bench/programs/storm.lua
--     kinds, queues, share …                                        see bench/programs/{kinds,queues,share}.lua
--     cycle SERVERS PATH COUNT all                         -> a line for each kind, with kind=; contestants with `kinds`
--
-- `quantiles_us` are the cycle's 0, 1, … 100 percent, separated by commas.

local lib = require "lib"

local contestants = {}

--- The words of a text, as keys.
local function set(text)
    local members = {}
    for member in text:gmatch("%S+") do
        members[member] = true
    end
    return members
end

--- The contestants that support a mode.
---@return table # array of `{name, command = words before the arguments, warm_up = seconds, missing = why it cannot run here}`,
-- zklock first
function contestants.list(settings, mode)
    local peers = settings.bench .. "/peers"
    local all = {
        {
            name = "zklock",
            command = { peers .. "/zklock/contestant" },
            warm_up = 1,
            modes = set "cycle contend crowd many readers line storm kinds queues share"
        },
        {
            name = "zklock, LuaJIT",
            command = { peers .. "/zklock/contestant", "--luajit" },
            modes = set "cycle"
        },
        { name = "C client", command = { settings.build .. "/floor" }, warm_up = 0.5, modes = set "cycle many" },
        {
            name = "go-zookeeper",
            command = { settings.build .. "/go-zookeeper" },
            warm_up = 1,
            modes = set "cycle contend crowd many line storm"
        },
        {
            -- Java compiles code that runs often: it gets longer to warm up.
            name = "Curator",
            command = { "java", "-cp", os.getenv("BENCH_CLASSPATH"), "Contestant" },
            warm_up = 2,
            modes = set "cycle contend crowd many readers line storm kinds queues share"
        },
        {
            name = "kazoo",
            command = { os.getenv("BENCH_PYTHON"), peers .. "/kazoo/contestant.py" },
            warm_up = 1,
            modes = set "cycle contend crowd many"
        }
    }
    local able = {}
    for _, contestant in ipairs(all) do
        contestant.missing = settings.missing[contestant.name]
        if contestant.modes[mode] then
            table.insert(able, contestant)
        end
    end
    return able
end

--- The contestants that support a mode and can run here.
function contestants.present(settings, mode)
    local present = {}
    for _, contestant in ipairs(contestants.list(settings, mode)) do
        if not contestant.missing then
            table.insert(present, contestant)
        end
    end
    return present
end

--- The command of a contestant.
function contestants.words(contestant, ...)
    local words = table.move(contestant.command, 1, #contestant.command, 1, {})
    for _, argument in ipairs({ ... }) do
        table.insert(words, argument)
    end
    return words
end

--- A violation of mutual exclusion ends the whole benchmark: the time of a lock that does not exclude means nothing.
function contestants.check(contestant, result)
    if (result.violations or 0) ~= 0 then
        io.stderr:write(string.format("bench: %s let in who must wait, %d times\n", contestant.name, result.violations))
        os.exit(1)
    elseif (result.failures or 0) ~= 0 then
        error(string.format("%d clients of %s failed", result.failures, contestant.name))
    elseif result.turns == 0 then
        print(string.format("  note: %s had no turn in the time that counts", contestant.name))
    elseif (result.late or 0) ~= 0 then
        print(string.format("  note: %d clients of %s were connected late", result.late, contestant.name))
    end
    return result
end

--- Runs a contestant.
function contestants.run(contestant, ...)
    return contestants.check(contestant, lib.run(contestants.words(contestant, ...)))
end

--- Microseconds from one turn to the next; nil if there was none.
function contestants.hand_over_us(result)
    return result.turns > 0 and result.seconds / result.turns * 1e6 or nil
end

--- The values of a result that are numbers.
function contestants.numbers(result)
    local numbers = {}
    for key, value in pairs(result) do
        numbers[key] = tonumber(value)
    end
    return numbers
end

--- Runs a contestant that prints many lines.
function contestants.run_lines(contestant, ...)
    return lib.run_lines(contestants.words(contestant, ...))
end

return contestants
