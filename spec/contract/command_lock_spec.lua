--- `zklock lock` and `zklock unlock`: a lock for a shell script.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local SHELLS = { "bash", "dash" }

--- Starts a script, which leads its process group unless `plain` is given. It has $LOCK, the path.
local function start(shell, path, script, options)
    options = options or {}
    local words = { "env", "PATH=" .. commands.install() .. ":" .. os.getenv "PATH", "ZKLOCK_CONNECT_TIMEOUT=60",
        "ZKLOCK_SERVERS=" .. (options.servers or fixture.servers()), "LOCK=" .. path }
    for _, word in ipairs(options.plain and { shell, "-c", script } or { "setsid", shell, "-c", script }) do
        words[#words + 1] = word
    end
    return fixture.remember(program.run("script", words))
end

local function run(shell, path, script, options)
    return start(shell, path, script, options):finish()
end

--- A number of seconds for sleep by which its process can be found.
local function new_mark()
    return ("600.%d%05d"):format(cluster.process_id(), math.random(99999))
end

--- Waits until another contender can get the lock. No process with the mark may run then.
local function assert_gone_when_free(path, mark)
    local result = commands.run { "run", "-w", "60", path, "--", "sh", "-c", "ps -eo args | grep '[s]leep " .. mark .. "'" }
    assert.same({ 1, "" }, { result.status, result.output })
end

local function await_free(path)
    eventually(function()
        return #fixture.children(path) == 0
    end)
end

describe("zklock lock", function()
    after_each(fixture.clean)

    for _, shell in ipairs(SHELLS) do
        it("holds the lock for " .. shell .. " until zklock unlock, and tells it path and token #asan", function()
            local path = fixture.path()
            local result = run(shell, path, [[
                eval "$(zklock lock "$LOCK")" || exit
                echo "$ZKLOCK_PATH $ZKLOCK_TOKEN"
                sh -c 'echo "$ZKLOCK_NODE"'
                zklock run -n "$LOCK" -- true; echo $?
                zklock lock -n "$LOCK"; echo $?
                zklock unlock; echo $?
                zklock run -n "$LOCK" -- true; echo $?
                zklock unlock; echo $?]])
            local told, token, node, codes = result.output:match "^(%S+) (%S*)\n(%S*)\n(.*)$"
            assert.same({ path, path .. "/" }, { told, node:sub(1, #path + 1) }, result.errors)
            assert.truthy(token:find "^%d+%-%d+$", token)
            assert.equal("123\n(exit 123)\n123\n0\n0\n120\n", codes)
        end)

        it("ends with " .. shell .. ", also by KILL, and with what the shell has left in its process group", function()
            for _, ending in ipairs { "exit 0", "kill -KILL $$" } do
                local path, mark = fixture.path(), new_mark()
                local script = start(shell, path, 'eval "$(zklock lock -k 60 "$LOCK")" || exit\n' ..
                    "sleep " .. mark .. " & echo begun; read line; " .. ending)
                assert.equal("begun", script:line())
                assert.equal(1, #fixture.children(path))
                script:tell ""
                assert_gone_when_free(path, mark)
            end
        end)
    end

    it("makes eval fail as zklock run does if it cannot acquire", function()
        local path = fixture.path()
        fixture.join(path)
        local function code_of(options, servers)
            local result = run("dash", path, 'eval "$(zklock lock ' .. options .. ' "$LOCK")" || exit; echo never',
                { servers = servers })
            assert.equal("", result.output)
            return result.status
        end
        assert.equal(123, code_of "-n")
        assert.equal(7, code_of "-n -E 7")
        assert.equal(124, commands.while_time_runs_out(function(seconds)
            return code_of("-w " .. seconds)
        end))
        assert.equal(121, code_of("--connect-timeout 0.2", "127.0.0.1:1"))
        assert.equal(125, code_of "-p 5/1")
        assert.equal(125, code_of "-p 2/3 --lock /other")
    end)

    it("gives its place up when the shell ends while it waits", function()
        local path = fixture.path()
        fixture.join(path)
        local script = start("dash", path, 'eval "$(zklock lock "$LOCK")" || exit')
        fixture.await_children(path, 2)
        script:signal "KILL"
        fixture.await_children(path, 1)
    end)

    it("shares, and takes permits and several locks", function()
        local path, other = fixture.path(), fixture.path()
        local result = run("bash", path, ([[
            eval "$(zklock lock -s "$LOCK")" || exit
            first=$ZKLOCK_HOLDER
            eval "$(zklock lock -s "$LOCK/shared" --lock %s)" || exit
            zklock run -n -s "$LOCK" -- echo "$ZKLOCK_PATH_2"
            zklock unlock && ZKLOCK_HOLDER=$first zklock unlock]]):format(other))
        assert.same({ 0, other .. "\n" }, { result.status, result.output }, result.errors)
        result = run("bash", path .. "/permits", [[
            eval "$(zklock lock -p 1/2 "$LOCK")" || exit
            zklock run -n -p 2/2 "$LOCK" -- true; echo $?]])
        assert.equal("123\n", result.output)
    end)

    for _, case in ipairs {
        { "the node is deleted", function(path)
            assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        end },
        { "the process that holds is killed", function(_, holder)
            cluster.run { "kill", "-KILL", holder }
        end, "--session-timeout 6" },
        { "the process that holds is stopped", function(_, holder)
            cluster.run { "kill", "-STOP", holder }
            fixture.on_clean(function()
                cluster.run { "kill", "-KILL", holder }
            end)
        end, "--session-timeout 6" },
        { "--max-hold is over", function()
        end, "--max-hold 0.3" }
    } do
        it("ends the shell and its process group when " .. case[1], function()
            local path, mark = fixture.path(), new_mark()
            local script = start("bash", path, 'eval "$(zklock lock ' .. (case[3] or "") .. ' "$LOCK")" || exit\n' ..
                'echo "${ZKLOCK_HOLDER%:*}"; sleep ' .. mark)
            case[2](path, script:line())
            local status = script:finish().status
            assert.truthy(status == 137 or status == 143, status)
            assert_gone_when_free(path, mark)
        end)
    end

    it("ends the shell before the session can have expired without a server", function()
        local path, mark, link = fixture.path(), new_mark(), fixture.proxy()
        local script = start("bash", path, 'eval "$(zklock lock --session-timeout 6 "$LOCK")" || exit\necho begun; sleep ' .. mark,
            { servers = link.address })
        assert.equal("begun", script:line())
        link:stop()
        assert_gone_when_free(path, mark)
        local result = script:finish()
        assert.truthy(result.errors:find("the lock " .. path .. " was lost; the shell was stopped", 1, true), result.errors)
    end)

    it("sends TERM to the shell only, if the process group belongs to another program", function()
        local path = fixture.path()
        local script = start("bash", path, 'trap "echo asked; exit 3" TERM\n' ..
            'eval "$(zklock lock --on-revoke stop "$LOCK")" || exit\n' ..
            "echo begun; while :; do sleep 0.1; done", { plain = true })
        assert.equal("begun", script:line())
        commands.output { "revoke", path }
        local result = script:finish()
        assert.same({ 3, "asked\n" }, { result.status, result.output })
        await_free(path)
    end)

    it("lets the shell go on after a loss with --on-lost warn; then zklock unlock exits with 120", function()
        local path = fixture.path()
        local script = start("dash", path, 'eval "$(zklock lock --on-lost warn "$LOCK")" || exit\n' ..
            "echo begun; read line\nzklock unlock")
        assert.equal("begun", script:line())
        assert(fixture.observer():delete(path .. "/" .. fixture.children(path)[1]))
        eventually(function()
            return commands.run({ "who", "--json", path }).output:find('"holders":0', 1, true)
        end)
        script:tell ""
        local result = script:finish()
        assert.equal(120, result.status)
        assert.equal("zklock: the lock " .. path .. " was lost", result.errors:match "^[^\n]*")
        assert.equal(1, select(2, result.errors:gsub(" was lost\n", "")), result.errors)
    end)

    it("fails with 125 where another process than the shell would keep the lock, or nobody runs what it prints", function()
        local path = fixture.path()
        local result = run("bash", path, 'eval "$(timeout 60 zklock lock "$LOCK")"; echo "$? $ZKLOCK_TOKEN"')
        assert.equal("125 \n", result.output)
        assert.truthy(result.errors:find("which is not this shell", 1, true), result.errors)
        await_free(path)
        result = run("bash", path, "unset ZKLOCK_HOLDER; zklock unlock")
        assert.equal(125, result.status)
    end)

    it("lets go of standard output, also where errors go there too", function()
        local path = fixture.path()
        local result = run("bash", path, 'text=$(zklock lock "$LOCK" 2>&1) && eval "$text" && zklock unlock && echo done | cat')
        assert.equal("done\n", result.output)
    end)

    it("speaks fish to a shell of that name", function()
        local path, directory = fixture.path(), fixture.temporary_directory()
        cluster.run { "sh", "-c", 'cp "$(command -v bash)" "$0"', directory .. "/fish" }
        local result = run(directory .. "/fish", path, 'zklock lock --identity "a\'b\\\\c" "$LOCK"; zklock lock -n "$LOCK"; true')
        assert.truthy(result.output:find("^test %$fish_pid = %d+; or begin; echo 'zklock: "), result.output)
        assert.truthy(result.output:find([[; and set -gx ZKLOCK_IDENTITY 'a\'b\\c'; and]], 1, true), result.output)
        assert.truthy(result.output:find("\nsh -c 'exit 123'\n", 1, true), result.output)
    end)
end)
