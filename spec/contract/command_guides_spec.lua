--- The programs of docs/guides.md (examples/command/), each on ten machines, which are processes. A witness
-- (spec/programs/witness.sh) runs in place of the jobs, and complains if two run at once.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local PROGRAMS = "examples/command/"
local MACHINES = 10

--- Seconds of the sessions of machines that are killed, and of the others, for machines that are too busy for shorter ones.
local SHORT_SESSION, LONG_SESSION = 6, 60

local Fleet = {}
Fleet.__index = Fleet

--- Makes a fleet: machines with zklock, the programs of the guide and, in place of what these start, the witness. It has the tree
-- below a chroot for itself.
local function new_fleet()
    local self = setmetatable({ chroot = fixture.directory(), bin = commands.install(), witness = commands.directory() }, Fleet)
    assert(os.execute(("ln -s \"$PWD\"/%s* %s"):format(PROGRAMS, self.bin)))
    assert(os.execute(("ln -s \"$PWD\"/spec/programs/witness.sh %s"):format(self.bin)))
    self:put("report", "exec witness.sh report")
    self:put("billing", "exec witness.sh billing")
    self:put("systemctl", "exec witness.sh restart 2")
    self:put("healthy", '[ ! -e "$WITNESS/broken" ]')
    self:put("job", 'exec witness.sh "$DEVICE"')
    -- Runs a command on a web server: what `ssh HOST COMMAND…` does.
    self:put("ssh", 'host=$1; shift; witness.sh deploy; echo "$host $2" >>"$WITNESS/deployed"; SITE=$WITNESS/$host exec "$@"')
    for _, host in ipairs { "a", "b" } do
        assert(os.execute("mkdir " .. self.witness .. "/" .. host))
    end
    return self
end

--- Writes a script for PATH.
function Fleet:put(name, text)
    files.write(self.bin .. "/" .. name, "#!/bin/sh\n" .. text .. "\n")
    assert(os.execute("chmod +x " .. self.bin .. "/" .. name))
end

--- Lets jobs begin, and not end before they are let go.
function Fleet:close_gate()
    assert(os.execute("mkfifo " .. self.witness .. "/gate"))
end

--- Waits until a job is at the gate, and lets it go.
function Fleet:let_go()
    assert(io.open(self.witness .. "/gate", "w")):close()
end

--- Lets all jobs go, these and later ones.
function Fleet:open_gate()
    if os.rename(self.witness .. "/gate", self.witness .. "/open") then
        assert(io.open(self.witness .. "/open", "r+")):close() -- does not wait for a job
    end
end

--- Starts a line for the shell on a machine. `variables`: list of "NAME=value".
function Fleet:start(line, variables)
    local words = { "env", "PATH=" .. self.bin .. ":" .. os.getenv "PATH", "WITNESS=" .. self.witness,
        "ZKLOCK_SERVERS=" .. fixture.servers() .. self.chroot, "ZKLOCK_SESSION_TIMEOUT=" .. LONG_SESSION,
        "ZKLOCK_CONNECT_TIMEOUT=" .. LONG_SESSION }
    for _, variable in ipairs(variables or {}) do
        words[#words + 1] = variable
    end
    for _, word in ipairs { "sh", "-c", line } do
        words[#words + 1] = word
    end
    local machine = fixture.remember(program.run("machine", words))
    fixture.on_clean(function() -- before the machine is stopped, whose end waits for its jobs
        self:open_gate()
    end)
    return machine
end

--- Starts a line on all machines.
function Fleet:start_all(line, variables)
    local machines = {}
    for index = 1, MACHINES do
        machines[index] = self:start(line, variables)
    end
    return machines
end

--- Runs a line to its end.
function Fleet:run(line, variables)
    return self:start(line, variables):finish()
end

--- Returns how many lines of a file of the witness match a pattern.
function Fleet:count(name, pattern)
    return select(2, files.read(self.witness .. "/" .. name):gsub(pattern, ""))
end

--- Returns how many jobs have begun.
function Fleet:begun()
    return self:count("log", "begin ")
end

--- Waits until so many jobs have begun.
function Fleet:await_begun(count)
    eventually(function()
        return self:begun() >= count, files.read(self.witness .. "/log")
    end)
end

--- Asserts that the witness has seen no two jobs at once.
function Fleet:assert_no_complaint()
    assert.equal("", files.read(self.witness .. "/complaints"))
end

--- Returns the process id of the zklock whose node is the first in a queue.
function Fleet:first_in(path)
    return eventually(function()
        local first, number
        for _, name in ipairs(fixture.children(self.chroot .. path)) do
            if not number or tonumber(name:match "%d+$") < number then
                first, number = name, tonumber(name:match "%d+$")
            end
        end
        local identity = first and fixture.observer():get(self.chroot .. path .. "/" .. first) -- nil: it has just gone
        return identity and identity:match ":(%d+)$"
    end)
end

--- Returns how many machines have ended.
local function count_ended(machines)
    local ended = 0
    for _, machine in ipairs(machines) do
        ended = ended + (files.read(machine.directory .. "/status") ~= "" and 1 or 0)
    end
    return ended
end

--- Waits for the end of all machines. Returns how many had each exit code, and their outputs.
local function finish_all(machines)
    local codes, outputs = {}, {}
    for index, machine in ipairs(machines) do
        local result = machine:finish()
        codes[result.status] = (codes[result.status] or 0) + 1
        outputs[index] = result.output .. result.errors
    end
    return codes, table.concat(outputs)
end

--- Returns the command of a unit, as a line for the shell, with a fleet's programs.
local function command_of(fleet, unit)
    local text = files.read(PROGRAMS .. unit):gsub("\\\n%s*", "") -- lines that go on
    local command = text:match "\nExecStart=([^\n]+)"
    assert.is_nil(command:find "[\"'$\\]") -- systemd and a shell read it alike
    return "exec " .. command:gsub("/usr/local/bin/", fleet.bin .. "/")
end

--- Returns whether a unit takes an exit code for success.
local function accepts(unit, code)
    local list = files.read(PROGRAMS .. unit):match "\nSuccessExitStatus=([%d ]+)\n"
    return list:find(("%%f[%%d]%d%%f[%%D]"):format(code)) ~= nil
end

--- Returns the command of a crontab, as cron gives it to the shell, and its variables.
local function read_crontab(file)
    local text, variables = files.read(PROGRAMS .. file), {}
    for line in text:gmatch "[^\n]+" do
        local name, value = line:match "^([%u_]+)=(.*)$"
        if name and name ~= "ZKLOCK_SERVERS" and name ~= "PATH" then
            variables[#variables + 1] = name .. "=" .. value
        end
    end
    return assert(text:match "\n%d+ %d+ %* %* %*  root  ([^\n]+)\n$"), variables
end

describe("docs/guides.md", function()
    it("has the text of each program", function()
        local blocks, problems, count = {}, {}, 0
        for _, block in ipairs(documentation.code_blocks(docstrings.read_file "docs/guides.md")) do
            blocks[block.text] = true
        end
        for path in cluster.run({ "find", PROGRAMS, "-type", "f" }):gmatch "[^\n]+" do
            count = count + 1
            if not blocks[files.read(path):sub(1, -2)] then
                problems[#problems + 1] = path .. " is not in docs/guides.md, or differs"
            end
        end
        assert.equal(13, count)
        documentation.none(problems)
    end)
end)

describe("the guide of cron", function()
    after_each(fixture.clean)

    it("runs the job on one of ten machines, and writes nothing", function()
        local fleet = new_fleet()
        local line, variables = read_crontab "report.cron"
        assert.truthy(table.concat(variables, " "):find("KEEP=60", 1, true))
        variables[#variables + 1] = "KEEP=0"
        fleet:close_gate()
        local machines = fleet:start_all(line, variables)
        eventually(function()
            return count_ended(machines) == MACHINES - 1
        end)
        fleet:let_go()
        assert.same({ { [0] = MACHINES }, "" }, { finish_all(machines) })
        assert.equal(1, fleet:begun())
        fleet:assert_no_complaint()
    end)

    it("does not run it on a machine that comes later, for as long as KEEP says", function()
        local fleet = new_fleet()
        local first = fleet:run("nightly /locks/report report", { "KEEP=600" })
        local keeper = fleet:first_in "/locks/report"
        fixture.on_clean(function()
            os.execute("kill -TERM " .. keeper)
            fixture.await_children(fleet.chroot .. "/locks/report", 0)
        end)
        assert.same({ 0, "", "", 1 }, { first.status, first.output, first.errors, fleet:count("log", "end ") })
        local late = fleet:run("nightly /locks/report report", { "KEEP=0" })
        assert.same({ 0, "", "" }, { late.status, late.output, late.errors })
        assert.equal(1, fleet:begun())
    end)

    it("writes what has happened, the code and the output of the job", function()
        local fleet = new_fleet()
        local result = fleet:run("nightly /locks/report sh -c 'echo half a report; exit 123'", { "KEEP=0" })
        assert.equal(123, result.status)
        assert.truthy(result.output:find(": exited, exit code 123\nhalf a report\n", 1, true), result.output)
        result = fleet:run("nightly /locks/report report", { "ZKLOCK_SERVERS=127.0.0.1:1", "ZKLOCK_CONNECT_TIMEOUT=0.2" })
        assert.equal(121, result.status)
        assert.truthy(result.output:find(": disconnected, exit code 121\nzklock: no connection to ", 1, true), result.output)
        assert.equal(127, fleet:run("nightly /locks/report no-such-job", { "KEEP=0" }).status)
        fleet:close_gate()
        local machine = fleet:start("nightly /locks/report report", { "KEEP=0" })
        fleet:await_begun(1)
        local lock = fleet.chroot .. "/locks/report"
        assert(fixture.observer():delete(lock .. "/" .. fixture.children(lock)[1]))
        result = machine:finish()
        assert.equal(120, result.status)
        assert.truthy(result.output:find(": lost, exit code 120\n", 1, true), result.output)
    end)
end)

describe("the guide of a job that is finished once a night", function()
    after_each(fixture.clean)

    it("runs it again if its machine crashes, and not on a machine that comes later", function()
        local fleet = new_fleet()
        local line, replaced = read_crontab("once.cron"):gsub("24h", "9999h") -- whenever this runs
        assert.equal(1, replaced)
        fleet:close_gate()
        local machines = fleet:start_all("exec " .. line, { "ZKLOCK_SESSION_TIMEOUT=" .. SHORT_SESSION })
        fleet:await_begun(1)
        assert(os.execute("kill -KILL " .. fleet:first_in "/locks/report"))
        fleet:await_begun(2)
        fleet:open_gate()
        local codes, output = finish_all(machines)
        assert.same({ { [0] = MACHINES - 1, [137] = 1 }, "Killed\n" }, { codes, output }) -- says the shell of that machine
        local late = fleet:run(line)
        assert.same({ 0, "", "", 2 }, { late.status, late.output, late.errors, fleet:begun() })
        fleet:assert_no_complaint()
    end)
end)

describe("the guide of deployments", function()
    after_each(fixture.clean)

    it("deploys one version after the other, on all hosts", function()
        local fleet = new_fleet()
        local machines = {}
        for index = 1, MACHINES do
            machines[index] = fleet:start(("exec deploy v%d a b"):format(index))
        end
        local codes, output = finish_all(machines)
        assert.same({ [0] = MACHINES }, codes, output)
        fleet:assert_no_complaint()
        local deployed, last = {}, nil
        for host, version in files.read(fleet.witness .. "/deployed"):gmatch "(%S+) (%S+)\n" do
            assert.equal(#deployed % 2 == 0 and "a" or "b", host)
            assert.is_true(host == "a" or last == version)
            deployed[#deployed + 1], last = version, version
        end
        assert.equal(2 * MACHINES, #deployed)
        for _, host in ipairs { "a", "b" } do
            assert.equal("releases/" .. last, (cluster.run { "readlink", fleet.witness .. "/" .. host .. "/current" }))
        end
    end)

    it("stops a deployment on request, and a host refuses what comes too late", function()
        local fleet = new_fleet()
        fleet:close_gate()
        local machine = fleet:start "exec deploy v1 a b"
        fleet:await_begun(1)
        assert.truthy(fleet:run("zklock who /locks/deploy").output:find("deploys v1", 1, true))
        assert.equal(0, fleet:run("zklock revoke /locks/deploy").status)
        local stopped = machine:finish()
        assert.equal(1, stopped.status)
        assert.truthy(stopped.errors:find("v1 was stopped at a\n", 1, true), stopped.errors)
        fleet:open_gate()
        assert.equal(0, fleet:run("deploy v2 a").status)
        local late = fleet:run("activate v1 0000000000000000001-0000000000", { "SITE=" .. fleet.witness .. "/a" })
        assert.equal(1, late.status)
        assert.truthy(late.errors:find("v1 comes too late", 1, true), late.errors)
        assert.equal("releases/v2", (cluster.run { "readlink", fleet.witness .. "/a/current" }))
    end)
end)

describe("the guide of an address", function()
    after_each(fixture.clean)

    it("gives it to one of ten machines after the other, and takes it from each before", function()
        local fleet = new_fleet()
        fleet:put("vip-up", 'echo "begin vip" >>"$WITNESS/log"; mkdir "$WITNESS/vip" || echo two >>"$WITNESS/complaints"')
        fleet:put("vip-down", 'rmdir "$WITNESS/vip"; echo "end vip" >>"$WITNESS/log"')
        local machines = fleet:start_all(command_of(fleet, "vip.service"))
        for count = 1, MACHINES do
            fleet:await_begun(count)
            os.execute("kill -TERM " .. fleet:first_in "/leaders/vip")
        end
        assert.same({ [143] = MACHINES }, (finish_all(machines)))
        assert.equal(MACHINES, fleet:count("log", "end "))
        fleet:assert_no_complaint()
    end)
end)

describe("the guide of a part of a script", function()
    after_each(fixture.clean)

    it("dumps on one machine at a time, and then goes on on all", function()
        local fleet = new_fleet()
        fleet:close_gate()
        local machines = fleet:start_all "exec backup 'witness.sh dump' true"
        fleet:await_begun(1)
        fleet:open_gate()
        assert.same({ [0] = MACHINES }, (finish_all(machines)))
        assert.equal(MACHINES, fleet:begun())
        fleet:assert_no_complaint()
    end)
end)

describe("the guide of systemd", function()
    after_each(fixture.clean)

    it("has units that systemd accepts", function()
        local fleet = new_fleet()
        local words = { "systemd-analyze", "verify", "--man=no" }
        for _, unit in ipairs { "report.service", "report.timer", "billing.service", "vip.service" } do
            -- systemd finds zklock, wherever it is installed
            local text, found = files.read(PROGRAMS .. unit):gsub("\nExecStart=zklock ", "\nExecStart=" .. fleet.bin .. "/zklock ")
            assert.equal(unit:find "service" and 1 or 0, found)
            files.write(fleet.witness .. "/" .. unit, (text:gsub("/usr/local/bin/", fleet.bin .. "/")))
            words[#words + 1] = fleet.witness .. "/" .. unit
        end
        assert.same({ "", 0 }, { cluster.run(words) })
    end)

    it("runs the report on one of ten machines; the others exit with the code that the unit accepts", function()
        local fleet = new_fleet()
        fleet:close_gate()
        local line, replaced = command_of(fleet, "report.service"):gsub("60s", "0s")
        assert.equal(1, replaced)
        local machines = fleet:start_all(line)
        eventually(function()
            return count_ended(machines) == MACHINES - 1
        end)
        fleet:let_go()
        local codes, output = finish_all(machines)
        assert.same({ [0] = 1, [123] = MACHINES - 1 }, codes, output)
        assert.is_true(accepts("report.service", 123))
        assert.equal(1, fleet:begun())
        fleet:assert_no_complaint()
    end)

    it("ends the service by TERM to zklock, and the next machine begins", function()
        local fleet = new_fleet()
        fleet:close_gate()
        local line = command_of(fleet, "billing.service")
        local first = fleet:start(line)
        fleet:await_begun(1)
        local second = fleet:start(line)
        fixture.await_children(fleet.chroot .. "/leaders/billing", 2)
        first:signal "TERM"
        assert.equal(143, first:finish().status)
        assert.is_true(accepts("billing.service", 143))
        fleet:await_begun(2)
        fleet:let_go()
        assert.equal(0, second:finish().status)
        fleet:assert_no_complaint()
    end)
end)

describe("the guide of a service on one machine", function()
    after_each(fixture.clean)

    it("moves the service when zklock is killed there, and when the service ends", function()
        local fleet = new_fleet()
        fleet:close_gate()
        local path = fleet.chroot .. "/leaders/billing"
        local machines = fleet:start_all("exec lead /leaders/billing billing", { "ZKLOCK_SESSION_TIMEOUT=" .. SHORT_SESSION })
        fixture.await_children(path, MACHINES)
        fleet:await_begun(1)
        local begun = fleet:begun()
        assert(os.execute("kill -KILL " .. fleet:first_in "/leaders/billing"))
        fleet:await_begun(begun + 1)
        fixture.await_children(path, MACHINES) -- the machine is in the queue again
        begun = fleet:begun()
        fleet:let_go()
        fleet:await_begun(begun + 1)
        fleet:assert_no_complaint()
        for _, machine in ipairs(machines) do
            machine:signal "TERM"
        end
        finish_all(machines)
        assert.same({}, fixture.children(path))
        fleet:assert_no_complaint()
    end)

    it("gives up where another start does not help", function()
        local fleet = new_fleet()
        assert.equal(127, fleet:run("lead /leaders/billing no-such-service").status)
    end)
end)

describe("the guide of a rolling restart", function()
    after_each(fixture.clean)

    local LINE = "exec rolling-restart 'systemctl restart web' healthy"

    it("restarts ten machines, two at a time at most", function()
        local fleet = new_fleet()
        local codes, output = finish_all(fleet:start_all(LINE))
        assert.same({ [0] = MACHINES }, codes, output)
        assert.equal(MACHINES, fleet:begun())
        fleet:assert_no_complaint()
    end)

    it("is stopped by two machines that do not come back, and goes on when one of them gives way", function()
        local fleet = new_fleet()
        files.write(fleet.witness .. "/broken", "")
        local machines, broken = {}, {}
        for index = 1, 4 do
            machines[index] = fleet:start(LINE, { "PATIENCE=0" })
        end
        local leases = fleet.chroot .. "/locks/restart-web/leases"
        eventually(function()
            broken = {}
            for _, machine in ipairs(machines) do
                if files.read(machine.directory .. "/err"):find("is not healthy; its permit is kept", 1, true) then
                    broken[#broken + 1] = machine
                end
            end
            return #broken == 2 and fixture.has(fleet.chroot .. "/locks/restart-web/locks", 2)
        end)
        assert.equal(2, fleet:begun())
        assert.is_true(#fixture.children(leases) >= 2)
        assert(os.remove(fleet.witness .. "/broken"))
        broken[1]:signal "TERM"
        eventually(function()
            return count_ended(machines) == 3
        end)
        assert.equal(4, fleet:begun())
        broken[2]:signal "TERM"
        assert.same({ [0] = 2, [143] = 2 }, (finish_all(machines)))
        fleet:assert_no_complaint()
    end)
end)

describe("the guide of devices", function()
    after_each(fixture.clean)

    it("uses all devices at once, and each for one job at a time", function()
        local fleet = new_fleet()
        fleet:close_gate()
        local machines = fleet:start_all "exec with-device job"
        fleet:await_begun(3)
        for device = 1, 3 do
            assert.equal(1, fleet:count("log", "begin rig%-" .. device))
        end
        fleet:open_gate()
        local codes, output = finish_all(machines)
        assert.same({ [0] = MACHINES }, codes, output)
        assert.equal(MACHINES, fleet:begun())
        fleet:assert_no_complaint()
    end)

    it("passes on the code and the output of the job", function()
        local result = new_fleet():run "with-device sh -c 'echo on $DEVICE; exit 123'"
        assert.same({ 123, "on rig-1\n" }, { result.status, result.output })
    end)
end)

describe("the witness", function()
    after_each(fixture.clean)

    --- A zklock that locks nothing.
    local BROKEN = 'while [ "$1" != -- ]; do path=$1; shift; done; shift\n' ..
        'export ZKLOCK_PATH=$path ZKLOCK_TOKEN=0; exec "$@"'

    for _, case in ipairs {
        { "the cron job", (read_crontab "report.cron") }, { "the deployment", "deploy v1 a" },
        { "the systemd service", unit = "report.service" }, { "the service on one machine", "exec lead /leaders/billing billing" },
        { "the rolling restart", "rolling-restart 'systemctl restart web' healthy" }, { "the devices", "with-device job" }
    } do
        it("notices if zklock locks nothing, for " .. case[1], function()
            local fleet = new_fleet()
            fleet:put("zklock", BROKEN)
            fleet:put("sleep", "exit 0")
            fleet:close_gate()
            local machines = {}
            for index = 1, 3 do
                machines[index] = fleet:start(case[2] or command_of(fleet, case.unit))
            end
            fleet:await_begun(3)
            assert.is_true(fleet:count("complaints", "at once") > 0)
            fleet:open_gate()
            for _, machine in ipairs(case[2] and case[2]:find "lead" and machines or {}) do -- which begins again and again
                machine:signal "TERM"
            end
            finish_all(machines)
        end)
    end
end)
