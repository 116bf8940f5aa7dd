--- The fault campaign: real servers and clients, a seeded schedule of faults, and a check of what the clients recorded.
-- To be run by spec/campaign/run, which gives it a network and a directory.
--
-- Usage: main.lua --root DIRECTORY --directory DIRECTORY [--seconds N] [--seed N] [--write PAGE]
--                 [--size full|short|control|leased|stalled] [--keep DIRECTORY] [--loopback yes]

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
local silence = require "spec.campaign.silence"
local tasks = require "spec.campaign.tasks"
local topology = require "spec.campaign.topology"
local files = require "spec.support.files"

local REDIS_PORT = 6379
--- Seconds that steps outside the test may take on a busy machine.
local PATIENCE = 90
--- How long the servers must serve after the last fault, in seconds of service, and for how much a beat of their pulse counts at
-- most: see checker.service.
local QUIET, QUIET_WITH_CURATOR = 9, 20
local BEAT = 0.25
--- The section of the page that gets the figures.
local SECTIONS = { full = "campaign", short = "campaign", control = "control", leased = "leased", stalled = "stalled" }
--- Seconds that `zklock run`, and the command that records its turn, may take to start on a busy machine.
local STARTS = 30
--- Sessions of this many seconds are Curator's.
local LONG_SESSION = 20
--- How many violations are printed, and how much of each.
local LISTED, LISTED_OF_CONTROL = 10, 5
local LINE = 400

--- How clients of the route "named" find names, for write_names.
local NAMES = {
    right = { hosts = true, switch = "hosts: files" },
    gone = { hosts = false, switch = "hosts: files" },
    -- No machine has that address.
    slow = { hosts = false, switch = "hosts: files dns", resolver = "nameserver 10.77.0.253\noptions timeout:2 attempts:1" }
}

local function say(...)
    io.stdout:write(string.format(...), "\n")
    io.stdout:flush()
end

local launched = uv.hrtime()
local phase

--- Prints the phase that begins, so that the log shows it if the campaign is ended from outside.
local function enter(name)
    phase = name
    say("%6.1f s: %s", (uv.hrtime() - launched) / 1e9, name)
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

--- Sets how the servers' names are found: a key of NAMES. The files are this campaign's, mounted over the machine's.
function Campaign:write_names(how)
    local names = NAMES[how]
    files.write(self.directory .. "/hosts", "127.0.0.1 localhost\n" .. (names.hosts and self.servers:hosts() or ""))
    files.write(self.directory .. "/nsswitch.conf", names.switch .. "\n")
    files.write(self.directory .. "/resolv.conf", (names.resolver or "") .. "\n")
end

local function build(options)
    local self = setmetatable({
        directory = options.directory, root = options.root, busy = {}, kinds = {}, faults = 0, running = 0, current = {}
    }, Campaign)
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
    if self.topology.isolated and not self.servers.soon then
        say("This kernel has no tcp_rto_max_ms: links between servers deliver late after they work again.")
    end
    self.servers:await_all(PATIENCE, "after their start")
    self.roster = roster.of(options.size)
    self.clients = clients.new(self.roster, {
        root = options.root, directory = options.directory, topology = self.topology, servers = self.servers,
        redis_port = REDIS_PORT, seed = options.seed
    })
    return self
end

--- The records of the clients whose latest incarnation has not been granted a lock yet.
function Campaign:idle()
    local list = {}
    for _, one in ipairs(self.clients:records()) do
        if one.last and not files.read(one.name):find("\ng ") then
            list[#list + 1] = one
        end
    end
    return list
end

--- Describes the client of a record in words.
local function describe(one)
    local client = one.client
    local last = files.read(one.name):match("([^\n]*)\n$")
    return ("%s%s (%s): %s, its last record at %.3f is: %s"):format(client.name,
        client.workers > 1 and "/" .. one.worker or "", client.only and "server " .. client.only or client.route,
        client.process.running and "runs" or "does not run", tasks.now(), last or "none")
end

local function describe_all(list)
    local words = {}
    for index, one in ipairs(list) do
        words[index] = describe(one)
    end
    return table.concat(words, "\n")
end

--- Carries out the schedule. Returns when the last fault has been undone.
function Campaign:suffer(list)
    local began = tasks.now()
    for _, fault in ipairs(list) do
        tasks.sleep(began + fault.at - tasks.now())
        tasks.start(function()
            self.running = self.running + 1
            local from = tasks.now()
            self.current[fault] = from
            if faults.run(self, fault) then
                self.faults = self.faults + 1
                self.kinds[fault.kind] = (self.kinds[fault.kind] or 0) + 1
                self.log:write(("%.3f %.3f %s\n"):format(from, tasks.now(), fault.kind))
                self.log:flush()
            end
            self.running = self.running - 1
            self.current[fault] = nil
        end)
    end
    assert(tasks.await(function()
        return self.running == 0
    end, PATIENCE), "the faults do not end")
    enter(("%d faults done; waiting for the servers and all clients"):format(self.faults))
    for _, client in ipairs(self.roster) do
        -- A client that was ordered to stop itself may have done so when the order was no longer awaited.
        self.clients:signal(client, "sigcont")
        self.clients:start(client)
    end
    for number = 1, servers.count do
        self.servers:ensure(number)
    end
    self.servers:await_all(PATIENCE, "after the last fault")
    tasks.await(function()
        return self:all_started()
    end, PATIENCE, 0.2)
end

--- The beats of the servers' pulse so far (programs/pulse.lua).
function Campaign:beats()
    local beats = {}
    for line in files.read(self.directory .. "/pulse"):gmatch("([^\n]*)\n") do
        beats[#beats + 1] = tonumber(line)
    end
    return beats
end

function Campaign:begin_pulse()
    local words = { "lua5.4", self.root .. "/spec/campaign/programs/pulse.lua", self.directory .. "/pulse" }
    for number = 1, servers.count do
        words[#words + 1] = self.servers:address("direct", number)
    end
    self.pulse = tasks.spawn(self.topology:at_hub(words), { log = self.directory .. "/pulse.output" })
    assert(tasks.await(function()
        return self:beats()[1]
    end, PATIENCE), "the servers acknowledge no writes: " .. self.servers:describe())
end

--- The fibers that have not been granted a lock in the rest: a list of { record =, offset = where it ended, left = its fibers }.
local function who_waits(campaign)
    local list = {}
    for _, one in ipairs(campaign.clients:records()) do
        if one.last then
            local left = {}
            for fiber = 1, one.client.fibers do
                left[tostring(fiber)] = true
            end
            local there = uv.fs_stat(one.name)
            list[#list + 1] = { record = one, offset = there and there.size or 0, left = left }
        end
    end
    return list
end

--- Returns such a list without the fibers that have been granted a lock since then.
local function still_waiting(list, since)
    local waiting = {}
    for _, one in ipairs(list) do
        local file = io.open(one.record.name)
        if file then
            file:seek("set", one.offset)
            for fiber, time in file:read("*a"):gmatch("%f[^\n\0]g (%d+)%-%d+ %S+ %S+ %S+ %S+ %S+ (%S+)") do
                if tonumber(time) >= since then
                    one.left[fiber] = nil
                end
            end
            file:close()
        end
        waiting[#waiting + 1] = next(one.left) and one or nil
    end
    return waiting
end

--- Waits until all servers have served for `seconds` without a break and every fiber has been granted a lock in that time, or until
-- the longest limit is over. Returns the beginning of that time. On a busy machine a server that has just come back may be given up
-- by its leader once more.
function Campaign:rest(seconds, longest)
    local deadline = tasks.now() + PATIENCE + 2 * longest
    self.clients:be_brief()
    self:begin_pulse()
    local epoch, since, waiting, served
    repeat
        local now = self.servers:epoch()
        if not now or now ~= epoch then
            if not now then
                self.servers:await_all(PATIENCE, "some time after the last fault")
            end
            epoch = now
            since, served = tasks.now(), 0
            waiting = who_waits(self)
        else
            tasks.sleep(0.25)
            local service = checker.service(self:beats(), BEAT)
            served = service(tasks.now()) - service(since)
            waiting = still_waiting(waiting, since)
        end
        if tasks.now() > deadline then
            error(("the servers do not go on serving: for %.1f s of the last %.1f s; %s"):format(served, tasks.now() - since,
                self.servers:describe()), 0)
        end
    until served >= seconds and (#waiting == 0 or served > longest + 1)
    self.rested = tasks.now() - since
    self.stood_still = self.rested - served
    self.stuck = {}
    for index, one in ipairs(waiting) do
        self.stuck[index] = one.record
    end
    if #waiting > 0 then
        self.standstill = table.concat({
            describe_all(self.stuck), self.servers:describe(), self:describe_proxies(), self:describe_paths(self.stuck)
        }, "\n")
    end
    tasks.signal(self.pulse, "sigkill")
    return since
end

--- Describes the paths that clients of these records lock: whose nodes are there.
function Campaign:describe_paths(records)
    local list, words = {}, {}
    for index, one in ipairs(records) do
        list[index] = one.client
    end
    for path in pairs(roster.paths(list)) do
        words[#words + 1] = silence.describe_path(self.servers, path)
    end
    table.sort(words)
    return table.concat(words, "\n")
end

--- Describes the proxies by their own status.
function Campaign:describe_proxies()
    local words = {}
    for number = 1, servers.count do
        words[number] = ("proxy %d: %s"):format(number, self.servers:tell(number, "status") or "has ended")
    end
    return table.concat(words, "; ")
end

--- Whether every client's latest incarnation has begun to take turns: Curator takes long to start.
function Campaign:all_started()
    for _, one in ipairs(self.clients:records()) do
        local there = uv.fs_stat(one.name)
        if one.last and (not there or there.size == 0
            or one.client.runtime == "curator" and not files.read(one.name):find("\ng ")) then
            return false
        end
    end
    return true
end

-- The judgement --------------------------------------------------------------------------------------------------------

--- Nodes and watches that are left on the servers although all sessions have ended and were closed, and processes.
function Campaign:leftovers(seconds)
    local found = {}
    local function check(what, name, word, judgement)
        local left, stray
        tasks.await(function()
            local counts, leader = self.servers:counts(name), self.servers:leader()
            left, stray = nil, nil
            if counts and leader then
                left, stray = judgement(counts, leader)
            end
            return left == 0 and stray == 0
        end, seconds, 0.5)
        if left ~= 0 then
            found[#found + 1] = ("%s %s are left after %d s"):format(left or "nobody knows how many", what, seconds)
            for number = 1, servers.count do
                found[#found + 1] = ("server %d: %s"):format(number,
                    (self.servers:ask(number, word, 5) or "does not answer"):gsub("%s*\n%s*", " "))
            end
        end
        return stray
    end
    self.stray = check("nodes", "zk_ephemerals_count", "dump", checker.nodes) or 0
    check("watches", "zk_watch_count", "wchp", checker.watches)
    local processes
    if not tasks.await(function()
        processes = self.clients:processes()
        return #processes == 0
    end, seconds, 0.5) then
        for _, process in ipairs(processes) do
            found[#found + 1] = "a process is left: " .. process
        end
    end
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

--- Reads all records. `who` of a grant is the client's name, with the worker's number if there are several.
local function collect(campaign)
    local all = history.new()
    local expected, limits = {}, {}
    for _, one in ipairs(campaign.clients:records()) do
        local who = one.client.workers > 1 and one.client.name .. "/" .. one.worker or one.client.name
        history.add(all, files.read(one.name), who)
        if one.last then
            for fiber = 1, one.client.fibers do
                expected[#expected + 1] = { who = who, fiber = tostring(fiber) }
            end
            limits[who] = one.client
        end
    end
    return all, expected, limits
end

--- Twice the longest session timeout of all clients that share a path with this one, plus the longest time for which it is idle.
-- A client whose turns are processes also gets the time that they take to start.
local function limit_of(client, paths)
    local timeout = client.timeout
    for _, lock in ipairs(client.locks) do
        for _, member in ipairs(lock.members or { lock }) do
            timeout = math.max(timeout, paths[member.path])
        end
    end
    return 2 * timeout + (client.idle and client.idle + client.pause or 0) + (client.runtime == "command" and STARTS or 0)
end

--- The longest of these limits.
local function longest_limit(campaign)
    local paths, longest = roster.paths(campaign.roster), 0
    for _, client in ipairs(campaign.roster) do
        longest = math.max(longest, limit_of(client, paths))
    end
    return longest
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
        -- If Curator uses the path, its long session decides how long others wait after it has lost its connection.
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
    result.found.deleted, result.deleted, result.longest_deleted = checker.deleted(all.grants)
    result.of_commands = 0
    for _, sentence in ipairs(result.found.overlaps) do
        result.of_commands = result.of_commands + (sentence:find("command-", 1, true) and 1 or 0)
    end
    result.found.tokens = checker.tokens(all.grants)
    result.found.writes = checker.writes(all.writes)
    result.found.progress, result.progress = checker.progress(all.grants, expected, healed, function(who)
        return limit_of(limits[who], paths)
    end, checker.service(campaign:beats(), BEAT))
    result.rested, result.stood_still, result.restarts = campaign.rested, campaign.stood_still, campaign.servers.restarts
    result.standstill = campaign.standstill
    local last = healed + campaign.rested
    result.unavailable, result.unavailable_path = checker.unavailability(shared, last)
    local times = {}
    for index, grant in ipairs(all.grants) do
        times[index] = grant.from
    end
    table.sort(times)
    result.kept_away, result.kept_away_path = checker.unavailability(shared, last, checker.service(times, BEAT))
    for _, failure in ipairs(campaign.servers.failures) do
        table.insert(result.found.crashes, failure)
    end
    local truncations = campaign.servers:truncations()
    result.forgotten, result.forgotten_first = checker.forgotten(all.grants, truncations)
    result.stray = campaign.stray
    result.ghosts, result.unanswered = campaign.servers:ghosts(), campaign.servers:unanswered()
    result.found.refusals = {}
    if all.refusals.exhausted and #truncations == 0 and result.ghosts == 0 then
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
    enter("starting the servers")
    local campaign = build(options)
    enter("starting the clients")
    campaign.log = assert(io.open(options.directory .. "/faults", "w"))
    campaign.clients:start_all()
    if not tasks.await(function()
        return #campaign:idle() == 0
    end, PATIENCE, 0.5) then
        error(("not every client gets a lock, with nothing wrong:\n%s\n%s"):format(describe_all(campaign:idle()),
            campaign.servers:describe()), 0)
    end
    tasks.start(silence.watch, campaign, LONG_SESSION)
    enter(("%d clients take turns; the faults begin"):format(#campaign.roster))
    campaign:suffer(list)
    enter("everybody is to get something")
    local healed = campaign:rest(options.size == "full" and QUIET_WITH_CURATOR or QUIET, longest_limit(campaign))
    enter("stopping the clients")
    campaign.clients:stop_all(PATIENCE)
    enter("looking for what is left")
    local leftovers = campaign:leftovers(PATIENCE / 2)
    enter("judging")
    return judge(campaign, healed, leftovers, options)
end

--- Copies what explains a failure to a place where it outlives the campaign.
local function keep(options)
    os.execute(([[
        rm -rf '%s'; mkdir -p '%s'; cd '%s' && cp -r *.record* *.output *.log faults pulse */error.log '%s' 2>/dev/null
    ]]):format(options.keep, options.keep, options.directory, options.keep))
end

--- Prints what was found, violations last. Returns whether the result is as expected.
local function conclude(result, options)
    say("\n%s\n", report.text(result))
    if result.forgotten > 0 then
        say("The servers have forgotten what they had acknowledged, which no client can make good (ZOOKEEPER-4785): %s",
            result.forgotten_first)
    end
    if result.stray > 0 then
        say("At the end a server has %d nodes that its leader does not have, which no client can delete (ZOOKEEPER-4785)",
            result.stray)
    end
    if result.standstill then
        say("%s", result.standstill)
    end
    local violations = report.violations(result)
    local listed = options.size == "control" and LISTED_OF_CONTROL or LISTED
    for index = 1, math.min(#violations, listed) do
        say("%s", violations[index]:sub(1, LINE))
    end
    if #violations > listed then
        say("… and %d more", #violations - listed)
    end
    local good = #violations == 0
    if options.size == "control" then
        good = #result.found.overlaps > result.of_commands and result.of_commands > 0
        say("without leases the checks find %d overlaps, %d of them of commands, and %d late writes where there is no fence",
            #result.found.overlaps, result.of_commands, result.history.late)
    end
    if options.write and good then
        result.command = ("spec/campaign/run --size %s --seconds %d --seed %d"):format(options.size, options.seconds,
            options.seed)
        result.machine = ("%s, %d processors, Linux %s"):format(os.date("!%Y-%m-%d"), #uv.cpu_info(), uv.os_uname().release)
        files.write(options.write, report.replace(files.read(options.write), SECTIONS[options.size], report.markdown(result)))
    end
    return good
end

local options = parse_arguments(arg)
for _, name in ipairs({ "sigint", "sigterm", "sighup" }) do
    local signal = uv.new_signal()
    signal:start(name, function()
        say("ended by %s after %.1f s, while: %s", name, (uv.hrtime() - launched) / 1e9, phase or "it began")
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
good = ok and good
if options.keep then
    -- Also after a campaign without violations: it shows why a path was not granted for long.
    files.write(options.keep .. ".silence", files.read(options.directory .. "/silence.log"))
end
if not good and options.keep then
    keep(options)
    say("records and logs: %s", options.keep)
end
if not ok then
    local message, trace = problem:match("^(.-)\n(stack traceback.*)$")
    say("%s\n%s\nwhile: %s", trace or "", message or problem, phase)
end
if not good then
    say("replay: spec/campaign/run --size %s --seconds %d --seed %d", options.size, options.seconds, options.seed)
end
say(good and "1 passed, 0 failed" or "0 passed, 1 failed")
os.exit(good and 0 or 1)
