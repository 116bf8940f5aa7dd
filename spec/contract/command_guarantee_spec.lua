--- The guarantee of `zklock run`: no process of its command is alive when another contender gets the lock, whatever happens.
--
-- Each round has a command with a grandchild in its group, which both ignore TERM where the title says so, and a program that wants
-- the lock (spec/programs/grantee.lua). Rounds run at the same time. ZKLOCK_ROUNDS sets their number.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local unpack = table.unpack or unpack

local ROUNDS = tonumber(os.getenv "ZKLOCK_ROUNDS" or 2)

--- Seconds of the wrappers' sessions. On a machine that is too busy for such sessions, the rounds are begun again with longer ones.
local SESSION, TRIES = 6, 4

--- With sessions of this many seconds and more, no wrapper may lose a lock that it should keep to the end.
local KEPT = 24

--- A command is killed at least a tenth of the session timeout before another contender can get the lock. If a process that wants
-- to run stands still for a quarter of that time, a killed process may as well, and the round shows nothing.
local TOO_LATE = 0.1 / 4

--- The command of a round: it and its child have the FIFO open, and nothing else has.
local CHILD = 'exec 3>"$0/fifo"; (%s while :; do sleep 600; done) & %s while :; do sleep 600; done'

--- Starts a command that holds a lock, and a program that waits for it.
---@param options table ignores: it ignores TERM; grace; proxied: it reaches the server by a proxy of its own
local function start_round(options, session)
    local ignore = options.ignores and "trap '' TERM;" or ""
    local path, directory = fixture.path(), commands.directory()
    assert(os.execute("mkfifo " .. directory .. "/fifo"))
    local words = { "run", "--session-timeout", tostring(session), "-k", options.grace or "0.5" }
    for _, word in ipairs { path, "--", "sh", "-c", CHILD:format(ignore, ignore), directory } do
        words[#words + 1] = word
    end
    local link = options.proxied and fixture.proxy() or nil
    local round = { path = path, link = link, wrapper = commands.start(words, { servers = link and link.address }) }
    -- The two opens of the FIFO wait for each other: the program begins when the command runs.
    round.grantee = fixture.remember(program.run("grantee", {
        "sh", "-c", 'exec 3<"$0/fifo"; echo >"$0/opened"; exec "$1" spec/programs/grantee.lua "$2" "$3"', directory,
        program.interpreter(), fixture.servers(), path
    }))
    round.opened = directory .. "/opened"
    return round
end

--- Waits until the program of a round waits for the lock. Returns false if the command has lost the lock before.
local function is_waiting(round)
    local function await(happens)
        local ended
        eventually(function()
            ended = round.wrapper:has_ended()
            return ended or happens()
        end)
        return not ended
    end
    return await(function()
        return files.read(round.opened) ~= ""
    end) and assert.equal("waits", round.grantee:line()) and await(function()
        return fixture.has(round.path, 2)
    end)
end

--- Starts all rounds; each program waits for its lock afterwards. Returns nil if a command has lost its lock before.
local function start_rounds(options, session)
    local rounds = {}
    for index = 1, ROUNDS do
        rounds[index] = start_round(options, session)
    end
    for _, round in ipairs(rounds) do
        if not is_waiting(round) then
            return nil
        end
    end
    return rounds
end

--- Asserts that every program gets its lock after the last process of its command has ended. Returns whether that was shown: not
-- if a process was alive on a machine that stood still.
local function shows_death(rounds, session)
    local shown = true
    for index, round in ipairs(rounds) do
        local said = round.grantee:line() or "nothing"
        local late = tonumber(said:match "late (%S+)$") or 0
        local problem = ("round %d, session timeout %d s: %s"):format(index, session, said)
        assert(said:find "^dead " or said:find "^alive " and late > session * TOO_LATE, problem)
        shown = shown and said:find "^dead " ~= nil
        if os.getenv "ZKLOCK_ROUNDS" then
            io.stderr:write(said, "\n")
        end
    end
    return shown
end

--- Asserts how the wrappers end. Returns false if one of them has lost its lock on a machine that is too busy for its session.
local function have_status(rounds, status, session)
    local kept = true
    for _, round in ipairs(rounds) do
        local ended = round.wrapper:finish().status
        assert(ended == status or ended == 120 and session < KEPT, ended)
        kept = kept and ended == status
    end
    return kept
end

--- Starts rounds, and calls act(rounds). With `outlived` every program must get its lock after its command has ended. If the
-- machine is too busy for the session timeout, or if act returns false, does so again with a longer one.
---@param options table see start_round; and `status`: with which the wrappers end
local function run_rounds(options, act, outlived)
    local session = SESSION
    for _ = 1, TRIES do
        local rounds = start_rounds(options, session)
        if rounds and act(rounds) ~= false and (not outlived or shows_death(rounds, session)) and
            (not options.status or have_status(rounds, options.status, session)) then
            return rounds
        end
        fixture.clean()
        session = 2 * session
    end
    error(("the machine is too busy for sessions of %d s"):format(session / 2))
end

local function assert_dead(options, act)
    return run_rounds(options, act, true)
end

--- Returns a function that sends a signal to the wrappers of rounds.
local function signals(signal)
    return function(rounds)
        for _, round in ipairs(rounds) do
            round.wrapper:signal(signal)
        end
    end
end

describe("no process of a command is alive when another contender gets the lock", function()
    after_each(fixture.clean)

    it("if the command ends by a signal that zklock passes on", function()
        assert_dead({ status = 143 }, signals "TERM")
    end)

    it("if only its first process ends by that, and the other one ignores TERM", function()
        assert_dead({ ignores = true, status = 130 }, signals "INT")
    end)

    it("if zklock is killed #asan", function()
        assert_dead({ ignores = true }, signals "KILL")
    end)

    it("if zklock is stopped", function()
        local rounds = assert_dead({}, signals "STOP")
        signals "CONT"(rounds)
        assert.is_true(have_status(rounds, 120, SESSION))
    end)

    it("if zklock is stopped and the command ignores TERM", function()
        assert_dead({ ignores = true, grace = "600" }, signals "STOP")
    end)

    it("if zklock cannot reach ZooKeeper, and the command ignores TERM", function()
        assert_dead({ ignores = true, grace = "600", proxied = true, status = 120 }, function(rounds)
            for _, round in ipairs(rounds) do
                round.link:stall()
            end
        end)
    end)

    --- Runs zklock in namespaces of its own, after a command of a shell. nil: this user may not make them.
    local function start_in_namespace(flags, before, words)
        local unshare = { "unshare", "--mount", unpack(flags) }
        if select(2, cluster.run(cluster.words(unshare, { "true" }))) ~= 0 then
            return nil
        end
        return fixture.remember(program.run("zklock", cluster.words(unshare, {
            "sh", "-c", before .. ' && exec "$@"', "sh" }, commands.words(words))))
    end

    -- The first process ends as soon as the others are ready. They end when the spec has written a file, or its directory is gone.
    local UNTIL_END = 'while [ -d "$0" ] && [ ! -e "$0/end" ]; do sleep 0.02; done'
    local MEMBER = "trap '' TERM; echo >\"$0/member\"; " .. UNTIL_END
    local LEFT = 'echo >"$0/left"; ' .. UNTIL_END

    --- Shows that a lock is kept as long as MEMBER lives. `where`: the arguments of start_in_namespace, and a command for a shell
    -- that prepares the directory. `ready`: the files that say so.
    local function assert_kept(where, script, ready)
        local path, directory = fixture.path(), commands.directory()
        local output, status = cluster.run { "sh", "-c", where[3] or "true", directory }
        assert.equal(0, status, output)
        for name, text in pairs { member_script = MEMBER, left_script = LEFT } do
            files.write(directory .. "/" .. name, text)
        end
        local wrapper = start_in_namespace(where[1], where[2], { "run", "-k", "1000", path, "--", "sh", "-c", script, directory })
        if not wrapper then
            return pending("needs the right to mount")
        end
        for _, name in ipairs(ready) do
            eventually(function()
                return files.exists(directory .. "/" .. name)
            end)
        end
        for _ = 1, 5 do -- each asks the servers; the wrapper looks at its group again and again meanwhile
            assert.equal(123, commands.run({ "run", "-n", path, "--", "true" }).status)
        end
        files.write(directory .. "/end", "")
        assert.equal(0, commands.run({ "run", "-w", "60", path, "--", "true" }).status)
        assert.is_number(wrapper:finish().status)
    end

    local NO_PROC = { {}, "mount -t tmpfs none /proc" }
    local MEMBER_IS_READY = 'while [ ! -e "$0/member" ]; do sleep 0.01; done'

    for title, where in pairs {
        ["there is no /proc"] = NO_PROC,
        ["/proc is that of another pid namespace"] = { { "--pid", "--fork" }, "true" }
    } do
        it("if only its first process ends, and " .. title .. " #once", function()
            assert_kept(where, 'sh -c "$(cat "$0/member_script")" "$0" >/dev/null 2>&1 & ' .. MEMBER_IS_READY, { "member" })
        end)
    end

    it("if a process has left its group, a child of that one has not, and there is no /proc #once", function()
        assert_kept(NO_PROC, [[(sh -c "$(cat "$0/member_script")" "$0" &
            exec setsid sh -c "$(cat "$0/left_script")" "$0") >/dev/null 2>&1 &
            while [ ! -e "$0/left" ]; do sleep 0.01; done; ]] .. MEMBER_IS_READY, { "member", "left" })
    end)

    -- The wrapper may neither see such a member nor send it a signal.
    it("if only its first process ends, a member has other rights, and /proc hides it #once", function()
        local nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups "
        if select(2, cluster.run { "sh", "-c", nobody .. "test -r lua/zklock/cli/main.lua" }) ~= 0 then
            return pending("needs root, and sources that others may read")
        end
        local prepare = 'cp "$(command -v setpriv)" "$0" && chown 0:65534 "$0/setpriv" && chmod 4510 "$0/setpriv"'
            .. ' && chown 65534 "$0"'
        assert_kept({ {}, "mount -t proc -o hidepid=2 proc /proc && exec " .. nobody .. '"$@"; false', prepare },
            '"$0/setpriv" --reuid 0 --clear-groups sh -c "$(cat "$0/member_script")" "$0" >/dev/null 2>&1 & '
            .. MEMBER_IS_READY, { "member" })
    end)

    it("if the guardian is killed before #asan", function()
        assert_dead({ ignores = true, status = 125 }, function(rounds)
            for _, round in ipairs(rounds) do
                local guardian = commands.await_guardian(round.wrapper)
                if not guardian then
                    assert.equal(120, round.wrapper:finish().status) -- the lock was lost already
                    return false
                end
                os.execute("kill -KILL " .. guardian)
            end
        end)
    end)
end)

describe("a command whose node an administrator deletes", function()
    after_each(fixture.clean)

    it("is killed at once, although it ignores TERM and has any grace", function()
        run_rounds({ ignores = true, grace = "100000", status = 120 }, function(rounds)
            for _, round in ipairs(rounds) do
                -- The node of the command is the first in the queue; the other one is the program's.
                local first
                for _, name in ipairs(fixture.children(round.path)) do
                    local number = tonumber(name:match "%d+$")
                    if not first or number < first.number then
                        first = { name = name, number = number }
                    end
                end
                assert(fixture.observer():delete(round.path .. "/" .. first.name))
            end
        end)
    end)
end)
