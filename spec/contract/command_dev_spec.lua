--- `zklock dev`: a throwaway ZooKeeper for a command or a shell.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- Returns how many servers of `zklock dev` have their files in a directory.
local function count_servers(directory)
    local listing = cluster.run({ "ps", "-eo", "args" })
    return select(2, ("\n" .. listing):gsub("\njava [^\n]*" .. directory:gsub("%p", "%%%0"), ""))
end

describe("zklock dev", function()
    after_each(fixture.clean)

    it("gives its command a server of its own, and leaves no process and no directory", function()
        local directory = commands.directory()
        -- Settings of TLS are for other servers.
        local variables = { variables = { "TMPDIR=" .. directory, "ZKLOCK_TLS=yes", "ZKLOCK_TLS_CA_FILE=/nonexistent" } }
        local script = 'echo "$ZKLOCK_SERVERS"; "$0" lua/zklock/cli/main.lua run -q /x -- sh -c "echo inside; ls $TMPDIR"; exit 7'
        local result = commands.run({ "dev", "--", "sh", "-c", script, program.interpreter() }, variables)
        assert.equal(7, result.status, result.errors)
        assert.truthy(result.output:find "^127%.0%.0%.1:%d+\ninside\nzklock%-dev%.%w+\n$", result.output)
        assert.equal(0, count_servers(directory))
        assert.equal("", (cluster.run { "ls", directory }))
    end)

    it("ends the server when it is killed itself", function()
        local directory = commands.directory()
        local dev = commands.start({ "dev", "--", "sh", "-c", "echo begun; exec sleep 600" },
            { variables = { "TMPDIR=" .. directory } })
        assert.equal("begun", dev:line())
        assert.equal(1, count_servers(directory))
        dev:signal "KILL"
        eventually(function()
            return count_servers(directory) == 0
        end)
    end)

    it("waits for a server that is stopped while it starts, and goes on later", function()
        local directory = commands.directory()
        local server = directory .. "/java"
        files.write(server, [[#!/bin/sh
(until grep -q "^State:.T" /proc/$$/status; do :; done; sleep 0.5; kill -CONT $$) &
kill -STOP $$
exec java "$@"
]])
        assert(os.execute("chmod +x " .. server))
        local result = commands.run({ "dev", "--", "echo", "begun" },
            { variables = { "TMPDIR=" .. directory, "ZOOKEEPER_JAVA=" .. server } })
        assert.same({ 0, "begun\n" }, { result.status, result.output }, result.errors)
    end)

    it("ends with the signal that interrupts its start, and leaves nothing", function()
        local directory = commands.directory()
        local server, mark = directory .. "/java", "601." .. cluster.process_id()
        files.write(server, ("#!/bin/sh\necho begun >%s/begun\nexec sleep %s\n"):format(directory, mark)) -- it never serves
        assert(os.execute("chmod +x " .. server))
        local dev = commands.start({ "dev", "--", "true" }, { variables = { "TMPDIR=" .. directory, "ZOOKEEPER_JAVA=" .. server } })
        eventually(function()
            return files.read(directory .. "/begun") ~= ""
        end)
        dev:signal "TERM"
        assert.equal(143, dev:finish().status)
        assert.same({}, commands.processes("sleep " .. mark))
    end)

    it("passes HUP on to the command", function()
        local dev = commands.start { "dev", "--", "sh", "-c", "trap 'exit 3' HUP; echo begun; while :; do sleep 0.05; done" }
        assert.equal("begun", dev:line())
        dev:signal "HUP"
        assert.equal(3, dev:finish().status)
    end)

    it("fails if another program has the port, which may be a server", function()
        local port = fixture.servers():match ":(%d+)"
        local result = commands.run { "dev", "--port", port, "--", "echo", "begun" }
        assert.same({ 125, "" }, { result.status, result.output })
        local problem = "cannot listen on 127.0.0.1:" .. port .. ": address already in use"
        assert.truthy(result.errors:find(problem, 1, true), result.errors)
    end)

    it("says what is missing", function()
        local result = commands.run({ "dev", "--", "true" }, { variables = { "ZOOKEEPER_JAVA=/nonexistent" } })
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("no Java (/nonexistent): install it", 1, true), result.errors)
        result = commands.run({ "dev", "--", "true" }, { variables = { "TMPDIR=/nonexistent" } })
        assert.equal(125, result.status)
        assert.truthy(result.errors:find("cannot make a directory in /nonexistent: name another", 1, true), result.errors)
        assert.equal(127, commands.run({ "dev", "--", "no-such-command" }).status)
    end)
end)
