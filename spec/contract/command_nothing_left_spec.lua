--- `zklock` leaves no node and no process, whenever and however it ends.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"
local socket = require "socket"

local ROUNDS = tonumber(os.getenv "ZKLOCK_ROUNDS" or 6)

--- Seconds within which zklock starts, connects, acquires and begins its command.
local BEGINS_WITHIN = 0.6

--- The command lines of the command, of zklock and of its guardian contain the mark.
local function no_processes(mark)
    assert.same({}, commands.processes(mark))
end

--- A number of seconds for sleep by which its process can be found.
local function new_mark()
    return ("600.%d%05d"):format(cluster.process_id(), math.random(99999))
end

describe("zklock run leaves no node and no process", function()
    after_each(fixture.clean)

    for _, signal in ipairs { "INT", "TERM" } do
        it(("after %s at any instant of starting and holding"):format(signal), function()
            local rounds = {}
            for index = 1, ROUNDS do
                local path, mark = fixture.path(), new_mark()
                local wrapper = commands.start(index % 2 == 0 and { "run", path, "--", "sleep", mark }
                    or { "run", "--at-least", mark, "--detach", path, "--", "sleep", mark })
                socket.sleep(math.random() * BEGINS_WITHIN) -- the instant
                wrapper:signal(signal)
                rounds[index] = { path = path, mark = mark, wrapper = wrapper }
            end
            for _, round in ipairs(rounds) do
                -- A signal may come before zklock has taken it over: then it ends by the signal, or Lua's own handler ends it.
                local status = round.wrapper:finish().status
                assert.truthy(status == 128 + (signal == "INT" and 2 or 15) or signal == "INT" and status == 1, status)
                assert.same({}, fixture.children(round.path))
                no_processes(round.mark)
            end
        end)

        it(("after %s at any instant of waiting"):format(signal), function()
            local path = fixture.path()
            local holder = fixture.join(path)
            local waiters = {}
            for index = 1, ROUNDS do
                waiters[index] = commands.start { "run", path, "--", "true" }
            end
            fixture.await_children(path, ROUNDS + 1)
            for _, waiter in ipairs(waiters) do
                waiter:signal(signal)
            end
            for _, waiter in ipairs(waiters) do
                assert.equal(128 + (signal == "INT" and 2 or 15), waiter:finish().status)
            end
            assert.same({ holder:match "[^/]+$" }, fixture.children(path))
        end)
    end

    it("but its node, after KILL at any instant of starting and holding", function()
        for _ = 1, ROUNDS do
            local path, mark = fixture.path(), new_mark()
            local wrapper = commands.start { "run", path, "--", "sleep", mark }
            socket.sleep(math.random() * BEGINS_WITHIN) -- the instant
            wrapper:signal "KILL"
            assert.equal(137, wrapper:finish().status)
            eventually(function()
                local processes = commands.processes(mark)
                return #processes == 0, table.concat(processes, "\n")
            end)
        end
    end)

    it("after a signal while ZooKeeper does not answer", function()
        local link = fixture.proxy()
        link:stall()
        local wrapper = commands.start({ "run", "--connect-timeout", "100", "/x", "--", "true" }, { servers = link.address })
        eventually(function()
            return link:status().connections > 0
        end)
        wrapper:signal "INT"
        assert.equal(130, wrapper:finish().status)
    end)

    it("with standard input, output and error closed #asan", function()
        local path, mark = fixture.path(), new_mark()
        local line = cluster.command_line(commands.words { "run", path, "--", "sh", "-c", "sleep " .. mark .. " & exit 3" })
        local wrapper = program.run("closed", {
            "sh", "-c", line .. " <&- >&- 2>&-; echo $?"
        })
        fixture.remember(wrapper)
        assert.equal("3", wrapper:line())
        wrapper:finish()
        assert.same({}, fixture.children(path))
        no_processes(mark)
    end)

    --- Starts zklock with messages, status and standard output on a full disk. The shell prints its exit code.
    local function start_on_full_disk(words, options)
        local list = { "run", "--status-fd", "3" }
        for _, word in ipairs(words) do
            list[#list + 1] = word
        end
        local line = cluster.command_line(commands.words(list, options))
        return fixture.remember(program.run("full", { "sh", "-c", line .. " >/dev/full 2>/dev/full 3>/dev/full; echo $?" }))
    end

    --- The same to its end; returns the exit code.
    local function run_on_full_disk(words, options)
        return tonumber(start_on_full_disk(words, options):finish().output)
    end

    it("when messages and status cannot be written, because the disk is full, and exits with the same code", function()
        local path, taken, mark = fixture.path(), fixture.path(), new_mark()
        fixture.join(taken)
        for _, case in ipairs {
            { 3, path, "--", "sh", "-c", "exit 3" }, { 143, path, "-c", "kill -TERM $$" }, { 127, path, "--", "no-such-command" },
            { 143, "--max-hold", "0.1", path, "--", "sleep", mark }, { 123, "-n", taken, "--", "sleep", mark },
            { 0, "-n", "--skip-ok", taken, "--", "sleep", mark },
            { 125, "-n", "-w", "1", path, "--", "true" }, { 121, "-w", "0.2", path, "--", "true", servers = "127.0.0.1:1" }
        } do
            local code = table.remove(case, 1)
            assert.equal(code, run_on_full_disk(case, case), table.concat(case, " "))
        end
        assert.equal(124, commands.while_time_runs_out(function(seconds)
            return run_on_full_disk { "-w", seconds, taken, "--", "sleep", mark }
        end))
        local wrapper = start_on_full_disk { path, "--", "sleep", mark }
        fixture.await_children(path, 1)
        eventually(function()
            return commands.processes("sleep " .. mark)[3] ~= nil -- the shell, zklock, its guardian, the command
        end)
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        assert.equal("120\n", wrapper:finish().output)
        assert.same({}, fixture.children(path))
        assert.equal(1, #fixture.children(taken))
        no_processes(mark)
    end)

    it("when messages and status would make a file larger than the limit, and exits with the same code", function()
        local path, taken, file = fixture.path(), fixture.path(), commands.directory() .. "/log"
        fixture.join(taken)
        for _, case in ipairs { { "3", path }, { "123", "-n", taken } } do
            local words = { "run", "--status-fd", "2" }
            for index = 2, #case do
                words[#words + 1] = case[index]
            end
            for _, word in ipairs { "--", "sh", "-c", "exit 3" } do
                words[#words + 1] = word
            end
            local shell = program.run("limited", {
                "sh", "-c", "ulimit -f 0; " .. cluster.command_line(commands.words(words)) .. " 2>" .. file .. "; echo $?"
            })
            assert.equal(case[1], fixture.remember(shell):line())
        end
        assert.same({}, fixture.children(path))
        assert.equal(1, #fixture.children(taken))
    end)

    it("and ends its command at once after an error of its own #asan", function()
        local path, mark = fixture.path(), new_mark()
        -- Only the loop that watches the command polls a third descriptor, that of the guardian.
        local broken = 'LUA_INIT=local process = require "zklock.process"; local poll = process.poll; ' ..
            'process.poll = function(fds, ...) if (fds[3] or -1) >= 0 then error("made up") end; return poll(fds, ...) end'
        local wrapper = commands.start({ "run", "-k", "600", path, "--", "sleep", mark }, { variables = { broken } })
        local result = wrapper:finish()
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("made up", 1, true), result.errors)
        assert.same({}, fixture.children(path))
        no_processes(mark)
    end)

    it("and runs its command although the reader of its messages has ended", function()
        local path, directory = fixture.path(), commands.directory()
        local holder = fixture.join(path)
        assert(os.execute("mkfifo " .. directory .. "/messages"))
        local line = cluster.command_line(commands.words { "run", path, "--", "sh", "-c", "exit 3" })
        local shell = fixture.remember(program.run("sh", {
            "sh", "-c", line .. " 2>" .. directory .. "/messages; echo $?"
        }))
        local messages = assert(io.open(directory .. "/messages"))
        assert.truthy(messages:read("*l"):find("waiting for", 1, true))
        messages:close()
        assert(fixture.observer():delete(holder)) -- zklock says that it has the lock
        assert.equal("3", shell:line())
        assert.same({}, fixture.children(path))
    end)

    it("and no guardian when it has ended", function()
        local path = fixture.path()
        local wrapper = commands.start { "run", path, "-c", "echo begun; read -r line" }
        assert.equal("begun", wrapper:line())
        local guardian = commands.await_guardian(wrapper)
        wrapper:tell "end"
        assert.equal(0, wrapper:finish().status)
        assert.equal(1, select(2, cluster.run({ "kill", "-0", guardian })))
    end)

    it("and the guardian ends after the command if zklock is killed #asan", function()
        local path, mark = fixture.path(), new_mark()
        local wrapper = commands.start { "run", path, "--", "sh", "-c", "echo begun; sleep " .. mark .. " & wait" }
        assert.equal("begun", wrapper:line())
        local guardian = commands.await_guardian(wrapper)
        wrapper:signal "KILL"
        eventually(function()
            return select(2, cluster.run({ "kill", "-0", guardian })) == 1
        end, 60, "the end of the guardian")
        wrapper:finish()
        no_processes(mark)
    end)
end)

describe("zklock hold", function()
    after_each(fixture.clean)

    it("prints the token when it has the lock, and releases when standard input ends", function()
        local path = fixture.path()
        local line = cluster.command_line(commands.words { "hold", path })
        local shell = fixture.remember(program.run("sh", { "bash", "-c",
            "coproc HOLD { " .. line .. "; }; read -r token <&${HOLD[0]}; echo $token; read -r line; pid=$HOLD_PID; " ..
            "eval \"exec ${HOLD[1]}>&-\"; wait $pid; echo $?" }))
        assert.truthy(shell:line():find "^%d+%-%d+$")
        assert.equal(1, #fixture.children(path))
        shell:tell "release"
        assert.equal("0", shell:line())
        assert.same({}, fixture.children(path))
    end)

    it("and zklock lock hold the lock for the scripts of docs/command.md", function()
        local shells = { bash = 0, sh = 0 }
        for _, block in ipairs(documentation.code_blocks(files.read "docs/command.md")) do
            if shells[block.language] and block.text:find("/locks/deploy", 1, true) then
                shells[block.language] = shells[block.language] + 1
                local path, directory = fixture.path(), commands.directory()
                for _, step in ipairs { "first-step", "second-step" } do
                    files.write(directory .. "/" .. step, "#!/bin/sh\necho $1; read -r line </dev/stdin\n")
                    assert(os.execute("chmod +x " .. directory .. "/" .. step))
                end
                local text = block.text:gsub("%./", directory .. "/"):gsub("/locks/deploy", path)
                local script = fixture.remember(program.run("script", {
                    "env", "PATH=" .. commands.install() .. ":" .. os.getenv "PATH", "ZKLOCK_SERVERS=" .. fixture.servers(),
                    "ZKLOCK_CONNECT_TIMEOUT=60", block.language, "-c", text .. "\necho ended; read -r line"
                }))
                local token = script:line()
                assert.truthy(token:find "^%d+%-%d+$", token)
                assert.equal(1, #fixture.children(path))
                assert.equal(token, script:ask "go on")
                assert.equal(1, #fixture.children(path))
                assert.equal("ended", script:ask "go on")
                fixture.await_children(path, 0)
                script:tell "end"
                assert.equal(0, script:finish().status)
            end
        end
        assert.same({ bash = 1, sh = 1 }, shells)
    end)

    it("releases at a signal, and exits with 128 and its number", function()
        local path = fixture.path()
        local hold = commands.start { "hold", path }
        assert.truthy(hold:line():find "^%d+%-%d+$")
        hold:signal "TERM"
        assert.equal(143, hold:finish().status)
        assert.same({}, fixture.children(path))
    end)

    it("exits with 120 at once when the lock is lost", function()
        local path = fixture.path()
        local hold = commands.start { "hold", path }
        assert.truthy(hold:line():find "^%d+%-%d+$")
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        assert.equal(120, hold:finish().status)
    end)

    it("refuses standard input that is a file or at its end, before it has connected #asan", function()
        local line = cluster.command_line(commands.words({ "hold", "/x" }, { servers = "127.0.0.1:1" }))
        for _, shell in ipairs {
            "%s </dev/null", "%s <&-", "%s <<'END'\nEND", "%s & wait $!", "%s </dev/zero", "%s <docs/design.md", "seq 1 3000 | %s"
        } do
            local output, status = cluster.run { "sh", "-c", "exec 2>&1; " .. shell:format((line:gsub("%%", "%%%%"))) }
            assert.equal(125, status, shell)
            assert.truthy(output:find("^zklock: standard input is .*at its end, .*zklock lock"), output)
        end
    end)

    it("leaves the queue when standard input ends while it waits", function()
        local path = fixture.path()
        local lock = fixture.client():mutex(path)
        assert(lock:acquire(20))
        local line = cluster.command_line(commands.words { "hold", path })
        local shell = fixture.remember(program.run("sh", { "sh", "-c",
            "exec 3>&1; { read -r line; seq 1 3000; exec >&-; echo ended >&3; } | " .. line }))
        fixture.await_children(path, 2)
        assert.equal("ended", shell:ask "end")
        local result = shell:finish()
        assert.same({ 125, "" }, { result.status, result.output })
        assert.truthy(result.errors:find("at its end", 1, true), result.errors)
        assert.equal(1, #fixture.children(path))
        assert.is_true(lock:held())
    end)

    it("reads all of standard input, and goes on until its end", function()
        local path = fixture.path()
        local hold = commands.start { "hold", path }
        assert.truthy(hold:line():find "^%d+%-%d+$")
        hold:tell(("x"):rep(200000)) -- more than a pipe has room for
        assert.equal(1, #fixture.children(path))
        hold:signal "INT"
        assert.equal(130, hold:finish().status)
    end)

    it("exits with 123, 124 and 125 as zklock run does", function()
        local path = fixture.path()
        fixture.join(path)
        assert.equal(123, commands.run({ "hold", "-n", path }).status)
        assert.equal(124, commands.while_time_runs_out(function(seconds)
            return commands.run({ "hold", "-w", seconds, path }).status
        end))
        assert.equal(125, commands.run({ "hold" }).status)
    end)
end)
