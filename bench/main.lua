--- main: runs the cases that bench/run was asked for, against the server that it started.

local CASES = { "requests", "kinds", "latency", "contention", "sharing", "nginx", "memory", "instructions" }

local settings = { quick = false, rounds = nil, clients = nil }
local wanted = {}

local index = 1
while arg[index] do
    local word = arg[index]
    if word == "--quick" then
        settings.quick = true
    elseif word == "--rounds" then
        index = index + 1
        settings.rounds = assert(math.tointeger(tonumber(arg[index])), "--rounds wants a number")
    elseif word == "--clients" then
        index = index + 1
        settings.clients = {}
        for number in arg[index]:gmatch("%d+") do
            table.insert(settings.clients, math.tointeger(tonumber(number)))
        end
    else
        table.insert(wanted, word)
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

--- What a program prints first, or "?".
local function said_by(command)
    local pipe = assert(io.popen(command .. " 2>/dev/null"))
    local line = pipe:read("l")
    pipe:close()
    return line or "?"
end

print(string.format("%s processors, load average %s; Linux %s; %s; %s", said_by("nproc"),
    said_by("cut -d ' ' -f 1-3 /proc/loadavg"), said_by("uname -r"), _VERSION, os.date("!%Y-%m-%d %H:%M UTC")))
for name, reason in (os.getenv("BENCH_MISSING") or ""):gmatch("([^:\n]+): ([^\n]*)") do
    settings.missing[name] = reason
    print(string.format("missing: %s (%s)", name, reason))
end

for _, name in ipairs(#wanted > 0 and wanted or CASES) do
    local ok, problem = xpcall(require("cases." .. name), debug.traceback, settings)
    if not ok then
        io.stderr:write(string.format("bench: the case %s broke off: %s\n", name, problem))
        os.exit(1)
    end
end
