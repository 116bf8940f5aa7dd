--- command: what `zklock run` costs: to start, for a command that ends at once, and while a command runs. Beside it interpreters
-- that do nothing, flock, the bare C client, and kazoo.
--
-- In each round every command runs some times, one command after the other. System calls, instructions and requests are counted in
-- separate runs, because counting slows a command down.

local compare = require "compare"
local counter = require "counter"
local lib = require "lib"
local report = require "report"

local PATH, FLOOR_PATH, KAZOO_PATH = "/bench-command", "/bench-command-floor", "/bench-command-kazoo"

--- Seconds for a connection: on a busy machine the server may take long to answer.
local PATIENCE = 60

--- The exit code of `zklock run` if there is no connection.
local NO_CONNECTION = 121

--- While a command runs: the session timeout in seconds, and for how many session timeouts it runs.
local HELD, QUICK_HELD = { timeout = 10, sessions = 2 }, { timeout = 4, sessions = 1 }

--- Writes the script that `make install` would install for an interpreter. Returns its name.
local function install(settings, interpreter, modules)
    local root, directory = settings.bench .. "/..", settings.build .. "/command-" .. interpreter
    local script = directory .. "/zklock"
    assert(os.execute(string.format("mkdir -p '%s' && '%s/tools/command.sh' %s '%s/lua' '%s' >'%s' && chmod +x '%s'", directory,
        root, interpreter, root, modules, script, script)))
    return script
end

--- zklock by each interpreter: `{ text =, interpreter =, script =, missing = }`.
local function variants(settings)
    local missing = settings.missing["zklock, LuaJIT"]
    return {
        { text = "Lua 5.4", interpreter = "lua5.4", script = install(settings, "lua5.4", os.getenv "BENCH_MODULE") },
        {
            text = "LuaJIT", interpreter = "luajit", missing = missing,
            script = not missing and install(settings, "luajit", os.getenv "BENCH_LUAJIT_MODULE")
        }
    }
end

--- What a command is started by: only the variables that matter. A file with settings in the user's home is not read.
local function environment(settings, servers)
    return {
        "env", "-u", "LUA_PATH", "-u", "LUA_CPATH", "-u", "LUA_INIT", "-u", "ZKLOCK_CONFIG", "-u", "ZKLOCK_AUTH",
        "HOME=" .. settings.scratch, "XDG_CONFIG_HOME=" .. settings.scratch, "ZKLOCK_SERVERS=" .. servers,
        "ZKLOCK_CONNECT_TIMEOUT=" .. PATIENCE
    }
end

--- Several lists of words as one.
local function joined(...)
    local words = {}
    for _, list in ipairs { ... } do
        table.move(list, 1, #list, #words + 1, words)
    end
    return words
end

--- The commands that are compared when they start: `{ name =, words =, status = exit code if not 0, missing = }`.
local function starters(all)
    local list = {
        { name = "true", words = { "true" } }
    }
    for _, its in ipairs(all) do
        table.insert(list, { name = its.interpreter .. " -e ''", words = { its.interpreter, "-e", "" }, missing = its.missing })
    end
    for _, its in ipairs(all) do
        table.insert(list, {
            name = "zklock --version, " .. its.text, words = { its.script, "--version" }, missing = its.missing
        })
    end
    for _, its in ipairs(all) do
        table.insert(list, {
            name = "zklock run, no server, " .. its.text, status = NO_CONNECTION, missing = its.missing,
            words = { its.script, "run", "--servers", "127.0.0.1:1", "--connect-timeout", "0.001", PATH, "--", "true" }
        })
    end
    return list
end

--- The commands that run `true` under a lock, or only acquire and release it; the same form. `words` may be a function of the
-- servers; `counted`: it sends requests to them.
local function runners(settings, all)
    local list = {
        { name = "flock FILE true", words = { "flock", settings.scratch .. "/command-lock", "true" } },
        {
            name = "C client: create, delete", missing = settings.missing.floor, counted = true,
            words = function(servers)
                return { settings.build .. "/floor", "once", servers, FLOOR_PATH, 1 }
            end
        },
        {
            name = "kazoo: Lock, true", missing = settings.missing.kazoo, counted = true,
            slow = true, -- under valgrind
            words = function(servers)
                return { os.getenv "BENCH_PYTHON", settings.bench .. "/peers/kazoo/run.py", servers, KAZOO_PATH, "true" }
            end
        }
    }
    for _, its in ipairs(all) do
        table.insert(list, {
            name = "zklock hold, " .. its.text, words = { its.script, "hold", PATH }, missing = its.missing, counted = true
        })
    end
    for _, its in ipairs(all) do
        table.insert(list, {
            name = "zklock run PATH -- true, " .. its.text, words = { its.script, "run", PATH, "--", "true" },
            missing = its.missing, counted = true
        })
    end
    return list
end

--- The words that start a command against these servers.
local function words_of(command, servers)
    return type(command.words) == "function" and command.words(servers) or command.words
end

--- Runs a command `count` times, which must exit with `status`, 0 unless given. `servers` are those of its environment.
---@return table # what spawn prints
local function spawn(settings, servers, count, words, status)
    return lib.run(joined(environment(settings, servers), { settings.build .. "/spawn", count, status or 0 }, words))
end

--- Runs each command `count` times a round. Milliseconds and megabytes.
local function measure_times(settings, list, rounds, count)
    for _, command in ipairs(list) do
        if not command.missing then -- brings its files into memory, and makes the directory of its lock
            spawn(settings, settings.servers, 1, words_of(command, settings.servers), command.status)
        end
    end
    return compare.collect(list, rounds, { count }, function(command)
        local its = spawn(settings, settings.servers, count, words_of(command, settings.servers), command.status)
        return { wall = its.wall_us / 1000, least = its.least_us / 1000, cpu = its.cpu_us / 1000, memory = its.rss_kb / 1024 }
    end)
end

--- Whether a tool can run a command here.
local function can_run(...)
    return (pcall(lib.execute, { ... }))
end

--- System calls of a command and of all processes that it starts, and how many these are.
local function count_calls(settings, command)
    local file = settings.scratch .. "/command-calls"
    spawn(settings, settings.servers, 1, joined({ "strace", "-f", "-qq", "-e", "signal=none", "-o", file },
        words_of(command, settings.servers)), command.status)
    local counts = { calls = 0, tasks = 1 }
    for line in io.lines(file) do
        local call = line:match("^%d+ +([%l_][%w_]*)%(") -- not "<... NAME resumed>", which is the end of an earlier line
        counts.calls = counts.calls + (call and 1 or 0)
        if call and (call:find("^clone") or call:find("^v?fork$")) and not line:find("= %-1 ") then
            counts.tasks = counts.tasks + 1
        end
    end
    return counts
end

--- Millions of instructions that the largest process of a command executes in user space. There is no sum of all processes:
-- callgrind counts what a process has executed before a fork for the new process, too.
local function count_instructions(settings, command)
    local directory = settings.scratch .. "/command-instructions"
    lib.execute { "rm", "-rf", directory }
    lib.execute { "mkdir", directory }
    spawn(settings, settings.servers, 1, joined(
        { "valgrind", "--tool=callgrind", "--quiet", "--trace-children=yes", "--callgrind-out-file=" .. directory .. "/%p" },
        words_of(command, settings.servers)), command.status)
    local most = 0
    local profiles = assert(io.popen("cat '" .. directory .. "'/*"))
    for line in profiles:lines() do
        most = math.max(most, tonumber(line:match("^totals: (%d+)")) or 0)
    end
    assert(profiles:close() and most > 0, "callgrind counted nothing")
    return { instructions = most / 1e6 }
end

--- Requests to ZooKeeper, and the writes among them, without the two that open and close the session.
local function count_requests(settings, counts, proxy, command)
    local before = counts:counts()
    spawn(settings, proxy, 1, words_of(command, proxy), command.status)
    local after = counts:counts()
    return { requests = after.requests - before.requests, writes = after.writes - before.writes }
end

--- Counts for each command: name -> column -> array by round.
local function measure_counts(settings, list, rounds)
    local tools = { strace = can_run("strace", "-f", "-o", "/dev/null", "true"), valgrind = can_run("valgrind", "--version") }
    local proxy, control = counter.start(settings.proxy, settings.servers, settings.owner)
    local counts = counter.connect(control)
    local values = {}
    for _, command in ipairs(list) do
        values[command.name] = {}
    end
    local function collect(column_rounds, fn, wanted)
        for name, its in pairs(compare.collect(list, column_rounds, { 1 }, function(command)
            return wanted(command) and fn(command) or nil
        end)) do
            for column, numbers in pairs(its) do
                values[name][column] = numbers
            end
        end
    end
    collect(rounds, function(command)
        return count_calls(settings, command)
    end, function()
        return tools.strace
    end)
    collect(1, function(command) -- the next time it is the same to a few thousandths
        return count_instructions(settings, command)
    end, function(command)
        return tools.valgrind and not command.slow
    end)
    collect(rounds, function(command)
        return count_requests(settings, counts, proxy, command)
    end, function(command)
        return command.counted
    end)
    counts:quit()
    return values, tools
end

local function report_counts(list, values, tools)
    local columns = {
        { key = "calls", text = "system calls" }, { key = "tasks", text = "processes, threads" },
        { key = "instructions", text = "million instructions" },
        { key = "requests", text = "requests" }, { key = "writes", text = "of them writes" }
    }
    local header, rows = { "" }, {}
    for _, column in ipairs(columns) do
        table.insert(header, column.text)
    end
    table.insert(rows, header)
    for _, command in ipairs(list) do
        local row = { command.name }
        for _, column in ipairs(columns) do
            local its = values[command.name][column.key]
            local text = its and (column.key == "instructions" and lib.spread(its, "%.1f") or lib.counts(its))
            table.insert(row, text or command.missing and "missing" or "-")
        end
        table.insert(rows, row)
    end
    report.columns(rows)
    for _, tool in ipairs { "strace", "valgrind" } do
        if not tools[tool] then
            report.say("missing: %s, or the right to use it", tool)
        end
    end
end

--- What zklock does while a command runs, for one session timeout. All variants run at the same time: they wait nearly always.
local function report_holding(settings, all, rounds)
    local its = settings.quick and QUICK_HELD or HELD
    report.title("While a command runs, for each session timeout (%d s, %d of them a run); median of %d rounds (min..max)",
        its.timeout, its.sessions, rounds)
    local list, commands, values = {}, {}, {}
    for index, variant in ipairs(all) do
        list[index] = { name = "zklock run, " .. variant.text, missing = variant.missing }
        values[list[index].name] = {}
        if not variant.missing then
            commands[index] = joined(environment(settings, settings.servers), {
                variant.script, "run", "--session-timeout", its.timeout, PATH .. "-" .. variant.interpreter, "--", "lua5.4",
                settings.bench .. "/programs/supervised.lua", its.timeout * its.sessions
            })
        end
    end
    for round = 1, rounds do
        for index, result in ipairs(lib.run_together(commands, function() end)) do
            local row = values[list[index].name]
            for _, key in ipairs { "wrapper", "io", "guardian", "cpu_ms" } do
                row[key] = row[key] or {}
                row[key][round] = result[key] / its.sessions
            end
        end
    end
    compare.report(list, {
        { key = "wrapper", text = "waits of the wrapper", shape = "%.0f" },
        { key = "io", text = "of its I/O thread", shape = "%.0f" },
        { key = "guardian", text = "of the guardian", shape = "%.0f" }, { key = "cpu_ms", text = "processor, ms", shape = "%.1f" }
    }, values, {})
end

return function(settings)
    if settings.missing.spawn then
        report.title("The command")
        report.say("missing: spawn (%s)", settings.missing.spawn)
        return
    end
    local rounds, count = settings.rounds or (settings.quick and 1 or 5), settings.quick and 3 or 20
    local few = math.min(rounds, 3)
    local all = variants(settings)
    local starts, runs = starters(all), runners(settings, all)
    if not settings.missing.floor then
        lib.execute { settings.build .. "/floor", "cycle", settings.servers, FLOOR_PATH, 1 } -- makes its directory
    end
    local columns = {
        { key = "cpu", text = "processor, ms", shape = "%.1f" }, { key = "wall", text = "from start to end, ms", shape = "%.1f" },
        { key = "least", text = "the quickest run, ms", shape = "%.1f" },
        { key = "memory", text = "largest process, MB", shape = "%.1f" }
    }
    report.title("Starting the command: medians of %d runs; median of %d rounds (min..max)", count, rounds)
    compare.report(starts, columns, measure_times(settings, starts, rounds, count),
        { "zklock run, no server, Lua 5.4" }, { "cpu" })
    report.title("Running a command under a lock: medians of %d runs; median of %d rounds (min..max)", count, rounds)
    compare.report(runs, columns, measure_times(settings, runs, rounds, count),
        { "zklock run PATH -- true, Lua 5.4" }, { "cpu", "least" })
    local every = joined(starts, runs)
    report.title("Counts for one run of each")
    report_counts(every, measure_counts(settings, every, few))
    report_holding(settings, all, few)
end
