--- The fault campaign: real servers and clients, a seeded schedule of faults, and a judgement of what the clients saw.
-- To be run by spec/campaign/run, which gives it a network and a directory of its own.
--
-- Usage: main.lua --root DIRECTORY --directory DIRECTORY [--seconds N] [--seed N] [--write PAGE]
--                 [--size full|short|control|leased] [--keep DIRECTORY] [--loopback yes]

local uv = require "luv"
local socket = require "socket"
local checker = require "spec.campaign.checker"
local clients = require "spec.campaign.clients"
local faults = require "spec.campaign.faults"
local history = require "spec.campaign.history"
local register = require "spec.campaign.programs.register"
local report = require "spec.campaign.report"
local roster = require "spec.campaign.roster"
local schedule = require "spec.campaign.schedule"
local servers = require "spec.campaign.servers"
local tasks = require "spec.campaign.tasks"
local topology = require "spec.campaign.topology"

local REDIS_PORT = 6379
--- How long things may take that are not what is tested, on a machine with much else to do.
local PATIENCE = 90
--- Time for everybody to have a turn after the last fault, besides the check of 2 T.
local QUIET, QUIET_WITH_CURATOR = 9, 20
--- Where in the page the figures go.
local SECTIONS = { full = "campaign", short = "campaign", control = "control", leased = "leased" }
--- Within so many seconds a server that serves says that it does.
local SLOW = 3
--- Sessions of so many seconds are Curator's.
local LONG_SESSION = 20
--- How many violations are printed.
local LISTED, LISTED_OF_CONTROL = 20, 5

--- How names are found by clients of the route "named", for write_names.
local NAMES = {
    right = { hosts = true, switch = "hosts: files" },
    gone = { hosts = false, switch = "hosts: files" },
    -- Nobody is at that address.
    slow = { hosts = false, switch = "hosts: files dns", resolver = "nameserver 10.77.0.253\noptions timeout:2 attempts:1" }
}

local function say(...)
    io.stdout:write(string.format(...), "\n")
    io.stdout:flush()
end

local function parse_arguments(words)
    local options = { seconds = "60", size = "full" }
    for index = 1, #words, 2 do
        local name = words[index]:match("^%-%-(%a+)$")
        assert(name and words[index + 1], "cannot understand " .. words[index])
        options[name] = words[index + 1]
    end
    options.seconds, options.seed = assert(tonumber(options.seconds)), math.tointeger(tonumber(options.seed or os.time()))
    return options
end

-- The stage ------------------------------------------------------------------------------------------------------------

local Campaign = {}
Campaign.__index = Campaign

local function write(name, text)
    local file = assert(io.open(name, "w"))
    file:write(text)
    file:close()
end

local function read(name)
    local file = io.open(name)
    local text = file and file:read("*a") or ""
    if file then
        file:close()
    end
    return text
end

--- Sets how the servers' names are found: a name of NAMES. The files are this campaign's own, mounted over the machine's.
function Campaign:write_names(how)
    local names = NAMES[how]
    write(self.directory .. "/hosts", "127.0.0.1 localhost\n" .. (names.hosts and self.servers:hosts() or ""))
    write(self.directory .. "/nsswitch.conf", names.switch .. "\n")
    write(self.directory .. "/resolv.conf", (names.resolver or "") .. "\n")
end

local function build(options)
    local self = setmetatable({ directory = options.directory, busy = {}, kinds = {}, faults = 0, running = 0 }, Campaign)
    self.topology = topology.new(not options.loopback, uv.os_getpid())
    tasks.spawn(self.topology:at_hub {
        "redis-server", "--bind", self.topology.hub, "--port", tostring(REDIS_PORT), "--save", "", "--appendonly", "no",
        "--protected-mode", "no"
    }, { log = options.directory .. "/redis.log" })
    self.servers = servers.start(self.topology, options.directory, options.root)
    self:write_names("right")
    for _, name in ipairs(options.loopback and {} or { "hosts", "nsswitch.conf", "resolv.conf" }) do
        if uv.fs_stat("/etc/" .. name) then
            tasks.run({ "mount", "--bind", options.directory .. "/" .. name, "/etc/" .. name })
        end
    end
    assert(self.servers:await_all(PATIENCE), "the servers do not serve")
    self.roster = roster.of(options.size)
    self.clients = clients.new(self.roster, {
        root = options.root, directory = options.directory, topology = self.topology, servers = self.servers,
        redis_port = REDIS_PORT, seed = options.seed
    })
    return self
end

--- Whether every client's latest incarnation has been granted something.
function Campaign:everybody_had_a_turn()
    for _, one in ipairs(self.clients:records()) do
        if one.last and not read(one.name):find("\ng ") then
            return false
        end
    end
    return true
end

--- Does what the schedule says; returns when the last fault has been undone.
function Campaign:suffer(list)
    local began = tasks.now()
    for _, fault in ipairs(list) do
        tasks.sleep(began + fault.at - tasks.now())
        tasks.start(function()
            self.running = self.running + 1
            local from = tasks.now()
            if faults.run(self, fault) then
                self.faults = self.faults + 1
                self.kinds[fault.kind] = (self.kinds[fault.kind] or 0) + 1
                self.log:write(("%.3f %.3f %s\n"):format(from, tasks.now(), fault.kind))
                self.log:flush()
            end
            self.running = self.running - 1
        end)
    end
    assert(tasks.await(function()
        return self.running == 0
    end, PATIENCE), "the faults do not end")
    for _, client in ipairs(self.roster) do
        self.clients:start(client)
    end
    for number = 1, servers.count do
        self.servers:ensure(number)
    end
    assert(self.servers:await_all(PATIENCE), "the servers do not serve again after the faults")
    tasks.await(function()
        return self:all_started()
    end, PATIENCE, 0.2)
end

--- Waits until all servers have served for so many seconds; returns the beginning of that time. On a machine with much to do
-- one that has just come back may be given up by its leader once more.
function Campaign:rest(seconds)
    local since, deadline = tasks.now(), tasks.now() + PATIENCE
    while tasks.now() < since + seconds do
        tasks.sleep(0.25)
        if self.servers:serving(SLOW) < servers.count then
            assert(tasks.now() < deadline, "the servers do not go on serving")
            assert(self.servers:await_all(PATIENCE), "the servers do not serve any more")
            since = tasks.now()
        end
    end
    return since
end

--- Whether every client's latest incarnation is as far as taking turns: Curator takes long to start.
function Campaign:all_started()
    for _, one in ipairs(self.clients:records()) do
        local there = uv.fs_stat(one.name)
        if one.last and (not there or there.size == 0
            or one.client.runtime == "curator" and not read(one.name):find("\ng ")) then
            return false
        end
    end
    return true
end

-- The judgement --------------------------------------------------------------------------------------------------------

--- What is left on the servers that must not be: of sessions that have ended, and were closed.
function Campaign:leftovers(seconds)
    local found = {}
    local function check(what, name)
        local count
        if not tasks.await(function()
            count = self.servers:count(name)
            return count == 0
        end, seconds, 0.5) then
            found[#found + 1] = ("%d %s are left"):format(count, what)
            for number = 1, servers.count do
                found[#found + 1] = ("server %d: %s"):format(number, (self.servers:ask(number, "dump", 5) or "")
                    .. (self.servers:ask(number, "wchp", 5) or ""))
            end
        end
    end
    check("nodes", "zk_ephemerals_count")
    check("watches", "zk_watch_count")
    return found
end

local function lost_increments(hub, paths)
    local store = register.new(assert(socket.connect(hub, REDIS_PORT)))
    local lost = 0
    for path in pairs(paths) do
        local writes, counter = store:totals(path)
        lost = lost + writes - counter
    end
    store:close()
    return lost
end

--- Reads all records. `who` of a grant is the client's name, with the worker's number where there are several.
local function collect(campaign)
    local all = history.new()
    local expected, limits = {}, {}
    for _, one in ipairs(campaign.clients:records()) do
        local who = one.client.workers > 1 and one.client.name .. "/" .. one.worker or one.client.name
        history.add(all, read(one.name), who)
        if one.last then
            for fiber = 1, one.client.fibers do
                expected[#expected + 1] = { who = who, fiber = tostring(fiber) }
            end
            limits[who] = one.client
        end
    end
    return all, expected, limits
end

--- 2 T, of the longest session among those with whom a client shares paths.
local function limit_of(client, paths)
    local timeout = client.timeout
    for _, lock in ipairs(client.locks) do
        for _, member in ipairs(lock.members or { lock }) do
            timeout = math.max(timeout, paths[member.path])
        end
    end
    return 2 * timeout
end

local function judge(campaign, healed, leftovers, options)
    local paths = roster.paths(campaign.roster)
    local all, expected, limits = collect(campaign)
    local shared, users = {}, {}
    for _, grant in ipairs(all.grants) do
        users[grant.path] = users[grant.path] or {}
        users[grant.path][grant.who] = true
    end
    for _, grant in ipairs(all.grants) do
        local several = next(users[grant.path], next(users[grant.path]))
        -- Where Curator is, its long session decides how long others wait when it has lost its connection.
        shared[#shared + 1] = several and paths[grant.path] < LONG_SESSION and grant or nil
    end
    local result = {
        history = all, seconds = options.seconds, seed = options.seed, faults = campaign.faults, kinds = campaign.kinds,
        processes = #campaign.roster, fibers = #expected, found = { leftovers = leftovers, crashes = campaign.clients.crashes },
        lost_increments = lost_increments(campaign.topology.hub, paths)
    }
    for _, leak in ipairs(all.leaks) do
        table.insert(leftovers, leak)
    end
    result.found.overlaps, result.longest_overlap = checker.overlaps(all.grants)
    result.found.tokens = checker.tokens(all.grants)
    result.found.writes = checker.writes(all.writes)
    result.found.progress, result.progress = checker.progress(all.grants, expected, healed, function(who)
        return limit_of(limits[who], paths)
    end)
    result.unavailable, result.unavailable_path = checker.unavailability(shared)
    for _, failure in ipairs(campaign.servers.failures) do
        table.insert(result.found.crashes, failure)
    end
    local truncations = campaign.servers:truncations()
    result.forgotten, result.forgotten_first = checker.forgotten(all.grants, truncations)
    result.found.refusals = {}
    if all.refusals.exhausted and #truncations == 0 then
        result.found.refusals[1] = ("%d acquires ended with exhausted, and the servers have forgotten nothing"):format(
            all.refusals.exhausted)
    end
    return result
end

-- One campaign ---------------------------------------------------------------------------------------------------------

local function run(options)
    say("campaign: seed %d, %s, %d s of faults", options.seed, options.size, options.seconds)
    say("replay:   spec/campaign/run --size %s --seconds %d --seed %d", options.size, options.seconds, options.seed)
    local list = schedule.make(options.seed, options.seconds, options.size)
    for _, fault in ipairs(list) do
        assert(faults.knows(fault.kind), fault.kind)
    end
    local campaign = build(options)
    campaign.log = assert(io.open(options.directory .. "/faults", "w"))
    campaign.clients:start_all()
    assert(tasks.await(function()
        return campaign:everybody_had_a_turn()
    end, PATIENCE, 0.5), "not every client gets a lock, with nothing wrong")
    say("%d clients take turns", #campaign.roster)
    campaign:suffer(list)
    say("%d faults done", campaign.faults)
    local healed = campaign:rest(options.size == "full" and QUIET_WITH_CURATOR or QUIET)
    campaign.clients:stop_all(PATIENCE / 3)
    local leftovers = campaign:leftovers(25)
    return judge(campaign, healed, leftovers, options)
end

--- Copies what explains a failure to where it outlives the campaign.
local function keep(options)
    os.execute(([[
        rm -rf '%s'; mkdir -p '%s'; cd '%s' && cp -r *.record* *.output *.log faults */error.log '%s' 2>/dev/null
    ]]):format(options.keep, options.keep, options.directory, options.keep))
end

--- Says what was found; whether it is as it should be.
local function conclude(result, options)
    say("\n%s\n", report.text(result))
    local violations = report.violations(result)
    for index = 1, math.min(#violations, options.size == "control" and LISTED_OF_CONTROL or LISTED) do
        say("%s", violations[index])
    end
    if result.forgotten > 0 then
        say("The servers have forgotten what they had acknowledged, which no client can make good (ZOOKEEPER-4785): %s",
            result.forgotten_first)
    end
    local good = #violations == 0
    if options.size == "control" then
        good = #result.found.overlaps > 0
        say("without leases the checks find %d overlaps, and %d late writes where there is no fence", #result.found.overlaps,
            result.history.late)
    end
    if options.write and good then
        result.command = ("spec/campaign/run --size %s --seconds %d --seed %d"):format(options.size, options.seconds,
            options.seed)
        result.machine = ("%s, %d processors, Linux %s"):format(os.date("!%Y-%m-%d"), #uv.cpu_info(), uv.os_uname().release)
        write(options.write, report.replace(read(options.write), SECTIONS[options.size], report.markdown(result)))
    end
    return good
end

local options = parse_arguments(arg)
for _, name in ipairs({ "sigint", "sigterm", "sighup" }) do
    local signal = uv.new_signal()
    signal:start(name, function()
        os.exit(130)
    end)
    signal:unref()
end

local good = false
tasks.start(function()
    local result = run(options)
    good = conclude(result, options)
    tasks.stop()
end)
local ok, problem = pcall(tasks.loop)
if not ok then
    say("%s", problem)
end
good = ok and good
if not good and options.keep then
    keep(options)
    say("records and logs: %s", options.keep)
end
say(good and "1 passed, 0 failed" or "0 passed, 1 failed")
os.exit(good and 0 or 1)
