--- main: runs the cases that are given to bench/run, against the server that it started.

local report = require "report"
local targets = require "targets"

local CASES = {
    "requests", "kinds", "latency", "contention", "crowd", "many", "waiters", "sharing", "nginx", "worker", "long", "storm",
    "setups", "tls", "idle", "held", "command", "memory", "instructions"
}

--- Cases that are worth repeating against servers other than one that does not write to the disk.
local SERVER_CASES = { "latency", "contention" }

local settings = { quick = false, rounds = nil, clients = nil, write = false, servers_count = 1, fsync = false }
local wanted = {}

local function number_of(word, what)
    return (assert(math.tointeger(tonumber(word)), what .. " wants a number"))
end

local index = 1
local function next_word()
    index = index + 1
    return arg[index]
end

local options = {
    ["--quick"] = function()
        settings.quick = true
    end,
    ["--write"] = function()
        settings.write = true
    end,
    ["--fsync"] = function()
        settings.fsync = true
    end,
    ["--servers"] = function()
        settings.servers_count = number_of(next_word(), "--servers")
    end,
    ["--rounds"] = function()
        settings.rounds = number_of(next_word(), "--rounds")
    end,
    ["--clients"] = function()
        settings.clients = {}
        for number in next_word():gmatch("%d+") do
            table.insert(settings.clients, number_of(number, "--clients"))
        end
    end
}

while arg[index] do
    if options[arg[index]] then
        options[arg[index]]()
    else
        table.insert(wanted, arg[index])
    end
    index = index + 1
end

settings.clients = settings.clients or (settings.quick and { 2, 8 } or { 2, 8, 64 })
settings.servers = assert(os.getenv("ZOOKEEPER"), "start this by bench/run")
settings.bench = os.getenv("BENCH_DIR")
settings.build = os.getenv("BENCH_BUILD")
settings.scratch = os.getenv("BENCH_SCRATCH")
settings.proxy = os.getenv("BENCH_PROXY")
settings.owner = os.getenv("BENCH_OWNER")
settings.missing = {}

--- The first line that a program prints, or "?".
local function said_by(command)
    local pipe = assert(io.popen(command .. " 2>/dev/null"))
    local line = pipe:read("l")
    pipe:close()
    return line or "?"
end

--- Describes the servers, as in "3 servers, fsync"; returns nothing if they are the usual one.
local function set_up()
    local words = { settings.servers_count > 1 and settings.servers_count .. " servers" or nil }
    table.insert(words, settings.fsync and "fsync" or nil)
    return table.concat(words, ", ")
end

local unusual = set_up() ~= ""
local writes = settings.write and not unusual
settings.plots = writes and os.getenv("BENCH_PLOTS") or settings.build .. "/plots"
report.open(writes and { os.getenv("BENCH_PAGE"), os.getenv("BENCH_RESULTS") } or {},
    string.format("%s processors, load average %s, Linux %s, %s, %s%s", said_by("nproc"),
        said_by("cut -d ' ' -f 1-3 /proc/loadavg"), said_by("uname -r"), _VERSION, os.date("!%Y-%m-%d %H:%M UTC"),
        unusual and ", " .. set_up() or ""))
for name, reason in (os.getenv("BENCH_MISSING") or ""):gmatch("([^:\n]+): ([^\n]*)") do
    settings.missing[name] = reason
    print(string.format("missing: %s (%s)", name, reason))
end

local broken = {} -- names of cases that failed; the others are still measured

local function run_case(name)
    local case, began = require("cases." .. name), os.time()
    local ok, problem = report.section(name, function()
        case(settings)
    end)
    if not ok then
        io.stderr:write(string.format("bench: the case %s broke off: %s\n", name, problem))
        table.insert(broken, name)
    end
    print(string.format("(%s: %d s)", name, os.time() - began))
end

local whole = #wanted == 0 and not unusual
for _, name in ipairs(#wanted > 0 and wanted or unusual and SERVER_CASES or CASES) do
    run_case(name)
end
if whole then
    report.section("targets", function()
        targets.report(true)
    end)
elseif targets.any() then
    targets.report(false)
end
report.close()
if #broken > 0 then
    io.stderr:write(string.format("bench: broke off: %s\n", table.concat(broken, " ")))
    os.exit(1)
end
