--- contestants: who is compared, and how each is started.
--
-- Every contestant takes the same arguments and prints one line:
--
--     cycle SERVERS PATH COUNT                             -> name= count= acquire_us= cycle_us=
--     contend SERVERS PATH CLIENTS WARM_UP SECONDS DIR     -> name= clients= seconds= turns= violations= failures=
--
-- Those with locks of several kinds (`kinds`) also take what bench/programs/{kinds,queues,share}.lua say at their top, and
--
--     cycle SERVERS PATH COUNT all                         -> a line for each kind, with kind=

local lib = require "lib"

local contestants = {}

--- @treturn table array of `{name, command = words before the arguments, warm_up = seconds, kinds = true or nil}`,
-- ourselves first
function contestants.list(settings)
    local peers = settings.bench .. "/peers"
    local all = {
        { name = "zklock", command = { peers .. "/zklock/contestant" }, warm_up = 1, kinds = true },
        { name = "go-zookeeper", command = { settings.build .. "/go-zookeeper" }, warm_up = 1 },
        {
            -- Java compiles what runs often: it gets longer to warm up.
            name = "Curator",
            command = { "java", "-cp", os.getenv("BENCH_CLASSPATH"), "Contestant" },
            warm_up = 2,
            kinds = true
        },
        {
            name = "kazoo",
            command = { os.getenv("BENCH_PYTHON"), peers .. "/kazoo/contestant.py" },
            warm_up = 1
        }
    }
    local present = {}
    for _, contestant in ipairs(all) do
        contestant.missing = settings.missing[contestant.name]
        table.insert(present, contestant)
    end
    return present
end

--- Those that have locks of several kinds, and can run here.
function contestants.with_kinds(settings)
    local present = {}
    for _, contestant in ipairs(contestants.list(settings)) do
        if contestant.kinds and not contestant.missing then
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

--- Violated mutual exclusion ends the whole benchmark: a time of something that is no lock is none.
function contestants.check(contestant, result)
    if (result.violations or 0) ~= 0 then
        error(string.format("%s let in who must wait, %d times", contestant.name, result.violations))
    elseif (result.failures or 0) ~= 0 or result.turns == 0 then
        error(string.format("%d clients of %s failed, with %d turns taken", result.failures or 0, contestant.name,
            result.turns))
    elseif (result.late or 0) ~= 0 then
        print(string.format("  note: %d clients of %s were connected late", result.late, contestant.name))
    end
    return result
end

--- Runs a contestant.
function contestants.run(contestant, ...)
    return contestants.check(contestant, lib.run(contestants.words(contestant, ...)))
end

--- Runs a contestant that prints many lines.
function contestants.run_lines(contestant, ...)
    return lib.run_lines(contestants.words(contestant, ...))
end

return contestants
