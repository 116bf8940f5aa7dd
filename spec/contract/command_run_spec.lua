--- `zklock run`: exit codes, what the command is told, and messages.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local dkjson = require "dkjson"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"
local prometheus = require "spec.support.prometheus"

--- Runs `zklock run` with these words.
local function run(words, options)
    local list = { "run" }
    for _, word in ipairs(words) do
        list[#list + 1] = word
    end
    return commands.run(list, options)
end

--- The status that zklock writes to standard output, on the last line.
local function status_in(result)
    return dkjson.decode(result.output:match "([^\n]*)\n$")
end

describe("zklock run exits", function()
    after_each(fixture.clean)

    it("with the code of the command, or 128 and its signal #asan", function()
        local path = fixture.path()
        assert.equal(0, run({ path, "--", "true" }).status)
        assert.equal(7, run({ path, "--", "sh", "-c", "exit 7" }).status)
        assert.equal(137, run({ path, "-c", "kill -KILL $$" }).status)
        assert.equal(130, run({ path, "-c", "kill -INT $$" }).status)
        assert.same({}, fixture.children(path))
    end)

    it("with 120 if the lock was lost while the command ran #asan", function()
        local path = fixture.path()
        local wrapper = commands.start { "run", "--status-fd", "1", path, "-c", "echo begun; exec sleep 600" }
        assert.equal("begun", wrapper:line())
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        local result = wrapper:finish()
        assert.equal(120, result.status)
        local status = status_in(result)
        assert.same({ "lost", "KILL", 120 }, { status.outcome, status.signal, status.exit })
        assert.truthy(result.errors:find("zklock: the lock " .. path .. " was lost", 1, true), result.errors)
    end)

    it("with 120 and the name of the lock that was lost, if there are several", function()
        local path, other = fixture.path(), fixture.path()
        for _, words in ipairs {
            { "run", path, "--lock", other, "-c", "echo begun; exec sleep 600" }, { "hold", path, "--lock", other }
        } do
            local wrapper = commands.start(words)
            assert.is_string(wrapper:line())
            assert(fixture.observer():delete(other .. "/" .. fixture.children(other)[1]))
            local result = wrapper:finish()
            assert.equal(120, result.status)
            assert.truthy(result.errors:find("zklock: the lock " .. other .. " was lost", 1, true), result.errors)
            assert.is_nil(result.errors:find(path .. " ", 1, true), result.errors)
        end
    end)

    it("with 121 if there is no ZooKeeper within the time", function()
        for _, words in ipairs { { "--connect-timeout", "0.2" }, { "-w", "0.2" } } do
            local result = run({ words[1], words[2], "/x", "--", "true" }, { servers = "127.0.0.1:1" })
            assert.equal(121, result.status)
            assert.truthy(result.errors:find("127.0.0.1:1", 1, true), result.errors)
        end
    end)

    it("with 122 if the acl does not let it create its node", function()
        local path = fixture.path()
        local owner = fixture.client({ auth = { { scheme = "digest", credential = "one:secret" } } })
        assert(owner:create(path, "", { acl = "creator" }))
        assert.equal(122, run({ path, "--", "true" }).status)
        local secret = { variables = { "ZKLOCK_AUTH=digest:one:secret" } }
        assert.equal(0, run({ path, "--", "true" }, secret).status)
    end)

    it("with 123 if it may not wait, 124 if its time is up, or another code, or 0", function()
        local path = fixture.path()
        fixture.join(path, nil, "web3:4711")
        local refused = run { "-n", path, "--", "true" }
        assert.equal(123, refused.status)
        assert.truthy(refused.errors:find("web3:4711", 1, true), refused.errors)
        assert.equal(124, commands.while_time_runs_out(function(seconds)
            return run({ "-w", seconds, path, "--", "true" }).status
        end))
        local late = run { "-w", "0", path, "--", "true" }
        assert.equal(124, late.status)
        assert.truthy(late.errors:find(("timed out after 0 s: %s is held by web3:4711"):format(path), 1, true), late.errors)
        local slots = fixture.path()
        assert(fixture.client({ identity = "web5:2" }):semaphore(slots, 2):acquire { count = 2 })
        local full = run { "-n", "-p", "1/2", slots, "--", "true" }
        assert.truthy(full.errors:find("is held by web5:2 (2) for ", 1, true), full.errors)
        assert.equal(9, run({ "-n", "-E", "9", path, "--", "true" }).status)
        assert.equal(0, commands.while_time_runs_out(function(seconds)
            return run({ "-w", seconds, "--skip-ok", path, "--", "true" }).status
        end))
        assert.equal(1, #fixture.children(path))
    end)

    it("with 121 if TLS fails, as if there were no connection", function()
        local result = run { "--tls-ca-file", "/nonexistent/ca.pem", "/not-reached", "--", "true" }
        assert.equal(121, result.status)
        assert.truthy(result.errors:find("/nonexistent/ca.pem", 1, true), result.errors)
    end)

    it("with 125 for its own usage, without a word to a server", function()
        local nowhere = { servers = "127.0.0.1:1" }
        for _, words in ipairs {
            {}, { "/x" }, { "/x", "--" }, { "-n", "-w", "1", "/x", "--", "true" }, { "-p", "3/2", "/x", "--", "true" },
            { "-p", "1001/2000", "/x", "--", "true" }, { "-p", "1/2147483648", "/x", "--", "true" },
            { "-w", ("x"):rep(1e5), "/x", "--", "true" },
            { "--signal", "NONE", "/x", "--", "true" }, { "-c", "true", "/x", "--", "true" }, { "-w", "-1", "/x", "--", "true" },
            { "--status-fd", "77", "/x", "--", "true" }, { "--lost-fd", "1", "/x", "--", "true" },
            { "--nonsense", "/x", "--", "true" }, { "-p", "2/2", "--lock", "/y", "/x", "--", "true" },
            { "no-path", "--", "true" }, { "--lock", ("x"):rep(1e5), "/x", "--", "true" },
        } do
            local result = run(words, nowhere)
            assert.equal(125, result.status, table.concat(words, " "))
            assert.truthy(result.errors:find "^zklock: ", result.errors)
            assert.is_nil(result.errors:find "%.lua:%d", result.errors)
            assert.is_true(#result.errors < 2000, #result.errors)
        end
        assert.equal(125, commands.run({ "nonsense" }).status)
    end)

    it("and says where -- belongs, if the command follows the path without it", function()
        for _, words in ipairs { { "/x", "true" }, { "/x", "ls", "-l" } } do
            local result = run(words, { servers = "127.0.0.1:1" })
            assert.equal(125, result.status)
            assert.truthy(result.errors:find("zklock run PATH -- COMMAND", 1, true), result.errors)
        end
    end)

    it("with the code of the command when durations have units, and options are before the subcommand", function()
        local words = { "--identity", "me", "--session-timeout", "10s", "run", "-w", "1m", "-k", "500ms", "--max-hold", "1.5h" }
        for _, word in ipairs { fixture.path(), "--", "sh", "-c", 'test "$ZKLOCK_IDENTITY" = me && exit 7' } do
            words[#words + 1] = word
        end
        assert.equal(7, commands.run(words).status)
        for _, wrong in ipairs { "5x", "1m30s", "m", "-1s", "inf", "nan", "1e400" } do
            assert.equal(125, run({ "-w", wrong, "/x", "--", "true" }, { servers = "127.0.0.1:1" }).status, wrong)
        end
    end)

    it("with the code of the command where few descriptors may be open", function()
        local words = { "sh", "-c", 'ulimit -n "$0" && exec "$@"', "100" }
        for _, word in ipairs(commands.words { "run", fixture.path(), "--", "sh", "-c", "exit 7" }) do
            words[#words + 1] = word
        end
        for _, limit in ipairs { "100", "32" } do
            words[4] = limit
            assert.equal(7, select(2, cluster.run(words)))
        end
    end)

    it("with the code of the command where no higher descriptor is free than the caller's", function()
        local words = { "bash", "-c", 'ulimit -n 100; exec 99>&1; exec "$@"', "bash" }
        for _, word in ipairs(commands.words { "run", "--status-fd", "99", fixture.path(), "--", "sh", "-c", "exit 7" }) do
            words[#words + 1] = word
        end
        local result = fixture.remember(program.run("limited", words)):finish()
        assert.equal(7, result.status, result.errors)
        assert.equal(7, status_in(result).code)
    end)

    it("with 126 for what cannot be executed, 127 for what does not exist, and leaves nothing #asan", function()
        local path = fixture.path()
        assert.equal(126, run({ path, "--", "./README.md" }).status)
        local result = run { path, "--", "no-such-command" }
        assert.equal(127, result.status)
        assert.truthy(result.errors:find("no-such-command", 1, true), result.errors)
        assert.same({}, fixture.children(path))
    end)
end)

describe("zklock run --at-least", function()
    after_each(fixture.clean)

    --- The time for which the lock is kept where the spec ends it by something else.
    local LONG = "1h"

    --- Waits until the command has ended, which has written a line.
    local function await_rest(path, wrapper)
        assert.is_string(wrapper:line())
        eventually(function()
            return cluster.run({ "pgrep", "-x", "-P", tostring(wrapper.pid), "zklock-guardian" }) == ""
        end, 60, "the guardian's end")
        assert.equal(1, #fixture.children(path))
    end

    it("keeps the lock for so long after its grant, and exits with the code of the command #asan", function()
        local path = fixture.path()
        local result = run { "--at-least", "1s", "--status-fd", "1", path, "--", "sh", "-c", "exit 7" }
        assert.equal(7, result.status)
        local status = status_in(result)
        assert.same({ "exited", 7 }, { status.outcome, status.code })
        assert.is_true(status.held >= 1)
        assert.same({}, fixture.children(path))
        assert.is_true(status_in(run { "--at-least", "0.1", "--status-fd", "1", path, "-c", "sleep 0.5" }).held >= 0.5)
    end)

    it("exits with the code of the command if the lock is lost after the command's end, and says so", function()
        local path = fixture.path()
        local wrapper = commands.start { "run", "--at-least", LONG, "--status-fd", "1", path, "-c", "echo begun; exit 3" }
        await_rest(path, wrapper)
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        local result = wrapper:finish()
        assert.equal(3, result.status)
        assert.equal("exited", status_in(result).outcome)
        assert.truthy(result.errors:find("the lock " .. path .. " was lost after the command had ended", 1, true), result.errors)
    end)

    it("ends earlier by a signal, and by a request with --on-revoke stop, and exits with the code of the command", function()
        local path = fixture.path()
        local lock = fixture.client():mutex(path)
        for _, interrupt in ipairs {
            function(wrapper) wrapper:signal "TERM" end, function() assert.equal(1, lock:revoke(20)) end
        } do
            local wrapper = commands.start { "run", "--at-least", LONG, "--on-revoke", "stop", path, "-c", "echo begun; exit 3" }
            await_rest(path, wrapper)
            interrupt(wrapper)
            assert.equal(3, wrapper:finish().status)
            assert.same({}, fixture.children(path))
        end
    end)

    it("does not keep the lock of a command that was asked to end, that lost it, or that never began", function()
        local path = fixture.path()
        local wrapper = commands.start { "run", "--at-least", LONG, path, "-c", "echo begun; exec sleep 600" }
        assert.equal("begun", wrapper:line())
        wrapper:signal "TERM"
        assert.equal(143, wrapper:finish().status)
        wrapper = commands.start { "run", "--at-least", LONG, path, "-c", "echo begun; exec sleep 600" }
        assert.equal("begun", wrapper:line())
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        assert.equal(120, wrapper:finish().status)
        assert.equal(127, run({ "--at-least", LONG, path, "--", "no-such-command" }).status)
        assert.same({}, fixture.children(path))
    end)

    it("with --detach ends with the command, also for who reads its output, and another process keeps the lock #asan", function()
        local path = fixture.path()
        local result = run { "--at-least", LONG, "--detach", "--status-fd", "1", path, "--", "sh", "-c", "echo done; exit 7" }
        assert.equal(7, result.status)
        assert.truthy(result.output:find "^done\n", result.output)
        local status = status_in(result)
        assert.same({ "exited", 7 }, { status.outcome, status.exit })
        assert.equal(123, run({ "-n", path, "--", "true" }).status)
        local keeper = tonumber(status.identity:match ":(%d+)$")
        assert.equal(keeper, tonumber((cluster.run { "ps", "-o", "sid=", "-p", tostring(keeper) })))
        local files_of = ("readlink /proc/%d/fd/[012]"):format(keeper)
        assert.equal("/dev/null\n/dev/null\n/dev/null", (cluster.run { "sh", "-c", files_of }))
        cluster.run { "kill", "-TERM", tostring(keeper) }
        fixture.await_children(path, 0)
        result = run { "--at-least", "0.3", "--detach", path, "--", "true" }
        assert.equal(0, result.status)
        fixture.await_children(path, 0)
    end)

    it("with --detach passes on signals, exits as without it otherwise, and ends the command when it is killed", function()
        local path = fixture.path()
        assert.equal(130, run({ "--at-least", LONG, "--detach", path, "-c", "kill -INT $$" }).status)
        assert.equal(127, run({ "--at-least", LONG, "--detach", path, "--", "no-such-command" }).status)
        assert.same({}, fixture.children(path))
        for signal, code in pairs { TERM = 143, KILL = 137 } do
            local front = commands.start { "run", "--at-least", LONG, "--detach", path, "-c", "echo begun; exec sleep 600" }
            assert.equal("begun", front:line())
            front:signal(signal)
            assert.equal(code, front:finish().status)
            fixture.await_children(path, 0)
        end
        fixture.join(path)
        assert.equal(123, run({ "-n", "--at-least", LONG, "--detach", path, "--", "true" }).status)
    end)

    it("with --detach needs --at-least", function()
        local result = run({ "--detach", "/x", "--", "true" }, { servers = "127.0.0.1:1" })
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("--detach needs --at-least", 1, true), result.errors)
    end)
end)

describe("the command of zklock run", function()
    after_each(fixture.clean)

    --- Runs `zklock run` with the words of `outer` and PATH, and below it one with the words of `inner`. Returns the result.
    local function nest(outer, inner, path, options)
        local words = { "run" }
        for word in outer:gmatch "%S+" do
            words[#words + 1] = word
        end
        for _, word in ipairs { path, "-c", ("%s run %s %s -- true"):format(cluster.command_line {
            program.interpreter(), "lua/zklock/cli/main.lua"
        }, inner, path) } do
            words[#words + 1] = word
        end
        return commands.run(words, options)
    end

    --- Whether zklock says that the command holds the lock itself.
    local function is_refused(result, path)
        return result.errors:find("holds " .. path .. ": it could wait for itself", 1, true) ~= nil
    end

    it("refuses at once a lock of any kind that a zklock run above it holds, unless that lock is free again", function()
        for _, case in ipairs {
            { "", "" }, { "-s", "" }, { "", "-s" }, { "-s", "-s" }, { "-p 1/2", "-p 1/2" }, { "-p 2/2", "" }
        } do
            local path = fixture.path()
            local result = nest(case[1], case[2], path)
            assert.equal(125, result.status, result.errors)
            assert.is_true(is_refused(result, path), result.errors)
        end
        local path, line = fixture.path(), cluster.command_line { program.interpreter(), "lua/zklock/cli/main.lua" }
        for _, inner in ipairs { path, path .. "-2" } do
            local between = ("%s run %s-between -c %s"):format(line, path, cluster.quote(("%s run %s -- true"):format(line, inner)))
            local result = commands.run { "run", path, "--lock", path .. "-2", "-c", between }
            assert.equal(125, result.status)
            assert.is_true(is_refused(result, inner), result.errors)
        end
        assert.equal(0, run({ path, "--", "true" }, { variables = { "ZKLOCK_HELD=" .. path .. "/_c_0-lock-0000000000" } }).status)
    end)

    it("asks for a lock that a zklock run above it holds, if it does not wait without limit", function()
        assert.equal(123, nest("", "-n", fixture.path()).status)
        assert.equal(0, nest("", "-n --skip-ok", fixture.path()).status)
        assert.equal(9, nest("-p 1/1", "-n -E 9 -p 1/1", fixture.path()).status)
        assert.equal(0, nest("-s", "-n -s", fixture.path()).status)
        assert.equal(0, nest("-p 1/2", "-n -p 1/2", fixture.path()).status)
        assert.equal(124, commands.while_time_runs_out(function(seconds)
            return nest("", "-w " .. seconds, fixture.path()).status
        end))
    end)

    it("is told of the newest locks above it, if there are too many for the environment", function()
        local path = fixture.path()
        local words = { "sh", "-c", 'ZKLOCK_HELD=$(yes /x | head -c 131000) exec "$@"', "sh" }
        for _, word in ipairs(commands.words { "run", path, "-c",
            'echo "$ZKLOCK_HELD" | sed -n -e 1p -e \\$p; test ${#ZKLOCK_HELD} -gt 90000; echo $? $ZKLOCK_NODE' }) do
            words[#words + 1] = word
        end
        local result = fixture.remember(program.run("grown", words)):finish()
        local first, last, rest = result.output:match "^(%S+)\n(%S+)\n([^\n]+)\n$"
        assert.same({ "/x", "0 " .. tostring(last) }, { first, rest }, result.errors)
        assert.equal(path, last:match "^(.*)/")
    end)

    it("ignores what is no path among the locks above it", function()
        local path = fixture.path()
        local variables = { ("ZKLOCK_HELD=x\n%s/_c_\1-lock-0000000000\n%s/\n/"):format(path, path) }
        assert.equal(0, run({ path, "--", "true" }, { variables = variables }).status)
    end)

    it("is not told of further locks that its caller holds", function()
        local path = fixture.path()
        local inner = cluster.command_line(commands.words { "run", path .. "-3", "-c", 'echo "${ZKLOCK_PATH_2-none}"' })
        assert.equal("none\n", commands.output { "run", path, "--lock", path .. "-2", "-c", inner })
    end)

    it("is told path, token, node, identity and servers", function()
        local path, other = fixture.path(), fixture.path()
        local script = 'echo "$ZKLOCK_PATH $ZKLOCK_IDENTITY $ZKLOCK_SERVERS $ZKLOCK_PATH_2"; ' ..
            'echo "$ZKLOCK_TOKEN"; echo "$ZKLOCK_NODE"; read -r line; echo "$ZKLOCK_TOKEN_2"'
        local wrapper = commands.start { "run", "--identity", "me", "--lock", other, path, "-c", script }
        assert.equal(("%s me %s %s"):format(path, fixture.servers(), other), wrapper:line())
        local token, node = wrapper:line(), wrapper:line()
        assert.truthy(token:find "^%d+%-%d+$", token)
        assert.equal("me", (fixture.observer():get(node)))
        assert.equal(1, #fixture.children(other))
        wrapper:tell "go on"
        assert.is_true(wrapper:line() > token)
        assert.equal(0, wrapper:finish().status)
        assert.same({}, fixture.children(other))
    end)

    it("has none of zklock's descriptors #asan", function()
        local path = fixture.path()
        local script = { "sh", "-c", "ls /proc/self/fd | wc -w" }
        local direct = fixture.remember(program.run("sh", script)):finish().output
        assert.equal(direct, run({ path, "--", script[1], script[2], script[3] }).output)
    end)

    it("reads the end of --lost-fd when the lock is lost, and goes on with --on-lost warn #asan", function()
        local path = fixture.path()
        local wrapper = commands.start { "run", "--on-lost", "warn", "--lost-fd", "7", path, "-c",
            "echo begun; cat <&7; echo lost; exit 4" }
        assert.equal("begun", wrapper:line())
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        assert.equal("lost", wrapper:line())
        local result = wrapper:finish()
        assert.equal(120, result.status)
        assert.truthy(result.errors:find("the command goes on", 1, true), result.errors)
    end)

    it("gets signals that zklock gets #asan", function()
        local path = fixture.path()
        local script = 'trap "echo usr1" USR1; trap "echo hup; exit 5" HUP; echo begun; while :; do sleep 0.05; done'
        local wrapper = commands.start { "run", path, "--", "sh", "-c", script }
        assert.equal("begun", wrapper:line())
        wrapper:signal "USR1"
        assert.equal("usr1", wrapper:line())
        wrapper:signal "HUP"
        assert.equal("hup", wrapper:line())
        assert.equal(5, wrapper:finish().status)
    end)

    it("begins with the signal mask and the actions that zklock was begun with #asan", function()
        local path = fixture.path()
        -- Without the signals above 28: the C library keeps two of them for itself.
        local script = "grep -E '^(SigBlk|SigIgn):' /proc/self/status | sed 's/0.*\\(.......\\)$/\\1/'"
        local direct = fixture.remember(program.run("sh", { "sh", "-c", script })):finish().output
        assert.equal(direct, run({ path, "--", "sh", "-c", script }).output)
    end)

    it("is asked to end when --max-hold is over, and killed after the grace #asan", function()
        local asked = run { "-k", "600", "--max-hold", "0.2", "--status-fd", "1", fixture.path(), "--", "sleep", "600" }
        assert.equal(143, asked.status)
        local status = status_in(asked)
        assert.same({ "max_hold", "TERM" }, { status.outcome, status.signal })
        -- A command that ignores TERM from its first instant on, because the shell that starts zklock ignores it.
        local words = commands.words { "run", "-k", "0.2", "--max-hold", "0.2", fixture.path(), "--", "sleep", "600" }
        local shell = program.run("sh", { "sh", "-c", "trap '' TERM; " .. cluster.command_line(words) })
        assert.equal(137, fixture.remember(shell):finish().status)
    end)

    it("is stopped when another contender asks for the lock, if --on-revoke says so", function()
        local path = fixture.path()
        local keeps = commands.start { "run", path, "-c", "echo begun; read -r line; exit 3" }
        assert.equal("begun", keeps:line())
        local lock = fixture.client():mutex(path)
        assert.equal(1, lock:revoke(20))
        keeps:tell "end"
        assert.equal(3, keeps:finish().status)
        local gives = commands.start { "run", "--on-revoke", "stop", path, "-c", "echo begun; exec sleep 600" }
        assert.equal("begun", gives:line())
        assert.equal(1, lock:revoke(20))
        assert.equal(143, gives:finish().status)
    end)

    it("is waited for with all processes of its group #asan", function()
        local path = fixture.path()
        local wrapper = commands.start { "run", "-k", "600", path, "--", "sh", "-c",
            '(trap "echo asked; exit 0" TERM; echo begun; while :; do sleep 0.05; done) & read -r line; exit 3' }
        assert.equal("begun", wrapper:line())
        wrapper:tell "end"
        assert.equal("asked", wrapper:line())
        assert.equal(3, wrapper:finish().status)
    end)
end)

describe("zklock run", function()
    after_each(fixture.clean)

    it("loads no modules for kinds of locks, nodes and looks that it does not need", function()
        local names_loaded = 'LUA_INIT=local exit = os.exit; function os.exit(...) for name in pairs(package.loaded) do ' ..
            'if name:find "^zklock" then io.stderr:write(name, "\\n") end end exit(...) end'
        local _, errors = commands.output({ "run", fixture.path(), "--", "true" }, { variables = { names_loaded } })
        local _, count = errors:gsub("\n", "")
        assert.is_true(count >= 20 and count <= 35, errors) -- two of them in C
    end)
end)

describe("zklock run reads the servers again at HUP, and", function()
    after_each(fixture.clean)

    --- Writes a configuration file with these servers. Returns the options for support.commands by which it counts.
    local function configure(directory, servers)
        files.write(directory .. "/zklock.lua", ("return { servers = %q }"):format(servers))
        return { servers = "", variables = { "ZKLOCK_CONFIG=" .. directory .. "/zklock.lua" } }
    end

    it("moves the session and its lock while the command runs", function()
        local path, directory, link = fixture.path(), commands.directory(), fixture.proxy()
        local wrapper = commands.start({ "run", "--session-timeout", "6", path, "-c",
            "trap 'echo hup' HUP; trap 'exit 7' TERM; echo begun; while :; do sleep 0.05; done" },
            configure(directory, link.address))
        assert.equal("begun", wrapper:line())
        local other = fixture.client({ session_timeout = 6 }, link.address):mutex(fixture.path())
        assert(other:acquire(20))
        configure(directory, fixture.servers())
        wrapper:signal "HUP"
        assert.equal("hup", wrapper:line())
        link:stop()
        eventually(function() -- so long the lock would have been held without a server
            return not other:held()
        end)
        wrapper:signal "TERM"
        local result = wrapper:finish()
        assert.equal(7, result.status, result.errors)
        assert.truthy(result.errors:find("the servers are " .. fixture.servers() .. " now", 1, true), result.errors)
    end)

    it("lets a job that goes on be done: zklock once does not run it again", function()
        local path = fixture.path()
        local mark = commands.directory() .. "/end"
        local job = commands.start { "once", "--every", "9999999h", path, "-c",
            ("trap 'echo hup' HUP; echo begun; until [ -e %s ]; do sleep 0.05; done; exit 0"):format(mark) }
        assert.equal("begun", job:line())
        job:signal "HUP"
        assert.equal("hup", job:line())
        files.write(mark, "")
        assert.equal(0, job:finish().status)
        assert.equal(123, commands.run({ "once", "--every", "9999999h", path, "--", "true" }).status)
    end)

    it("keeps its place while it waits without a terminal; a file that cannot be read changes nothing", function()
        local path, directory, link = fixture.path(), commands.directory(), fixture.proxy()
        local holder = fixture.client():mutex(path)
        assert(holder:acquire(20))
        local words = { "setsid" }
        for _, word in ipairs(commands.words({ "run", path, "--", "true" }, configure(directory, link.address))) do
            words[#words + 1] = word
        end
        local waiter = fixture.remember(program.run("zklock", words))
        fixture.await_children(path, 2)
        local node = fixture.children(path)
        files.write(directory .. "/zklock.lua", "return {")
        waiter:signal "HUP"
        local function await_message(text)
            eventually(function()
                return files.read(waiter.directory .. "/err"):find(text, 1, true)
            end)
        end
        await_message("the servers stay " .. link.address)
        configure(directory, fixture.servers())
        waiter:signal "HUP"
        await_message("the servers are " .. fixture.servers() .. " now")
        link:stop()
        assert.same(node, fixture.children(path))
        assert(holder:release())
        assert.equal(0, waiter:finish().status)
    end)
end)

describe("zklock run locks", function()
    after_each(fixture.clean)

    it("with other readers if -s is given, and not with a writer", function()
        local path = fixture.path()
        local reader = commands.start { "run", "-s", path, "-c", "echo begun; read -r line" }
        assert.equal("begun", reader:line())
        assert.equal(0, run({ "-s", "-w", "20", path, "--", "true" }).status)
        assert.equal(123, run({ "-n", path, "--", "true" }).status)
        reader:tell "end"
        assert.equal(0, reader:finish().status)
    end)

    it("as many permits as -p says", function()
        local path = fixture.path()
        local one = commands.start { "run", "-p", "2/3", path, "-c", "echo begun; read -r line" }
        assert.equal("begun", one:line())
        assert.equal(0, run({ "-n", "-p", "1/3", path, "--", "true" }).status)
        assert.equal(123, run({ "-n", "-p", "2/3", path, "--", "true" }).status)
        assert.equal(125, run({ "-n", "-p", "1/4", path, "--", "true" }).status)
        one:tell "end"
        assert.equal(0, one:finish().status)
    end)

    it("all paths or none", function()
        local path, other = fixture.path(), fixture.path()
        fixture.join(other)
        assert.equal(123, run({ "-n", "--lock", other, path, "--", "true" }).status)
        assert.same({}, fixture.children(path))
    end)
end)

describe("zklock run tells", function()
    after_each(fixture.clean)

    it("for whom it waits, and when it has the lock, but not with -q", function()
        for _, quiet in ipairs { false, true } do
            local path = fixture.path()
            local holder = fixture.join(path, nil, "web3:4711")
            local words = { "run", path, "-c", "echo begun" }
            if quiet then
                table.insert(words, 2, "-q")
            end
            local wrapper = commands.start(words)
            fixture.await_children(path, 2)
            if not quiet then
                eventually(function()
                    return files.read(wrapper.directory .. "/err"):find(
                        "zklock: waiting for " .. path .. ": held by web3:4711 for ", 1, true)
                end)
            end
            assert(fixture.observer():delete(holder))
            local result = wrapper:finish()
            assert.equal(0, result.status)
            assert.equal(not quiet, result.errors:find("zklock: acquired " .. path .. " after ", 1, true) ~= nil)
        end
    end)

    it("who holds a further lock, and not itself for a lock that it has already", function()
        local path = fixture.path()
        local further = path .. "-further"
        local holder = fixture.join(further, nil, "web3:4711")
        local wrapper = commands.start({ "run", path, "--lock", further, "--", "true" })
        eventually(function()
            return files.read(wrapper.directory .. "/err"):find("zklock: waiting for ", 1, true)
        end)
        assert(fixture.observer():delete(holder))
        local result = wrapper:finish()
        assert.equal(0, result.status)
        assert.truthy(result.errors:find("waiting for " .. further .. ": held by web3:4711 for ", 1, true), result.errors)
        assert.is_nil(result.errors:find("waiting for " .. path .. ":", 1, true))
        assert.truthy(result.errors:find("acquired " .. path .. ", " .. further .. " after ", 1, true), result.errors)
    end)

    it("metrics to a file that is never incomplete", function()
        local path, directory = fixture.path(), commands.directory()
        local file = directory .. "/run.prom"
        local holder = commands.start { "run", "--metrics-file", file, path, "-c", "echo begun; read -r line; exit 7" }
        assert.equal("begun", holder:line())
        local label = ('{path="%s"}'):format(path)
        local text = files.read(file)
        assert.truthy(text:find("zklock_run_running" .. label .. " 1\n", 1, true), text)
        assert.truthy(text:find("zklock_run_waited_seconds" .. label .. " ", 1, true), text)
        assert.is_nil(text:find("exit_code", 1, true))
        local refused = directory .. "/refused.prom"
        assert.equal(123, run({ "-n", "--metrics-file", refused, path, "--", "true" }).status)
        assert.truthy(files.read(refused):find('zklock_run_end_timestamp_seconds{outcome="refused",', 1, true))
        holder:tell "end"
        assert.equal(7, holder:finish().status)
        text = files.read(file)
        for _, line in ipairs { "zklock_run_running" .. label .. " 0", "zklock_run_exit_code" .. label .. " 7",
            "zklock_run_held_seconds" .. label, ('zklock_run_end_timestamp_seconds{outcome="exited",path="%s"}'):format(path) } do
            assert.truthy(text:find(line, 1, true), text)
        end
        assert.same({ "", 0 }, { prometheus.tool({ "check", "metrics" }, text) })
        assert.equal("refused.prom\nrun.prom", cluster.run { "ls", "-A", directory })
        local result = run { "--metrics-file", "/dev/full/x", path, "--", "true" }
        assert.equal(0, result.status)
        assert.truthy(result.errors:find("could not write the metrics: /dev/full/x", 1, true), result.errors)
    end)

    it("the outcome to --status-fd, also for codes that a command may use #asan", function()
        local path = fixture.path()
        local ended = status_in(run { "--status-fd", "1", path, "--", "sh", "-c", "exit 123" })
        assert.same({ "exited", 123, 123, path }, { ended.outcome, ended.code, ended.exit, ended.path })
        assert.truthy(ended.token:find "^%d+%-%d+$")
        assert.is_true(ended.waited >= 0 and ended.held >= 0)
        fixture.join(path)
        local refused = status_in(run { "--status-fd", "1", "-n", path, "--", "true" })
        assert.same({ "refused", 123 }, { refused.outcome, refused.exit })
        assert.is_nil(refused.code)
        local killed = status_in(run { "--status-fd", "1", fixture.path(), "-c", "kill -TERM $$" })
        assert.same({ "killed", "TERM", 143 }, { killed.outcome, killed.signal, killed.exit })
        local missing = status_in(run { "--status-fd", "1", fixture.path(), "--", "no-such-command" })
        assert.same({ "not_found", 127 }, { missing.outcome, missing.exit })
    end)
end)
