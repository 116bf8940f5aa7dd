--- The guarantee of `zklock run`: no process of its command is alive when another contender gets the lock, whatever happens.
--
-- Each round has a command with a grandchild in its group, which both ignore TERM where the title says so, and a program that wants
-- the lock (spec/programs/grantee.lua). Rounds run at the same time. ZKLOCK_ROUNDS sets their number.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

local ROUNDS = tonumber(os.getenv "ZKLOCK_ROUNDS" or 2)

--- Seconds of the wrappers' sessions. On a machine that is too busy for such sessions, a round is begun again with longer ones.
local SESSION, TRIES = 6, 4

--- The command of a round: it and its child have the FIFO open, and nothing else has.
local CHILD = 'exec 3>"$0/fifo"; (%s while :; do sleep 600; done) & %s while :; do sleep 600; done'

--- Starts a command that holds a lock, and a program that waits for it.
-- @tparam table options ignores: it ignores TERM; grace; servers
local function start_round(options, session)
    local ignore = options.ignores and "trap '' TERM;" or ""
    local path, directory = fixture.path(), commands.directory()
    assert(os.execute("mkfifo " .. directory .. "/fifo"))
    local words = { "run", "--session-timeout", tostring(session), "-k", options.grace or "0.5" }
    for _, word in ipairs { path, "--", "sh", "-c", CHILD:format(ignore, ignore), directory } do
        words[#words + 1] = word
    end
    local round = { path = path, wrapper = commands.start(words, options) }
    -- The two opens of the FIFO wait for each other: the program begins when the command runs.
    round.grantee = fixture.remember(program.run("grantee", {
        "sh", "-c", 'exec "$1" spec/programs/grantee.lua "$2" "$3" 3<"$0/fifo"', directory, program.interpreter(),
        fixture.servers(), path
    }))
    return round
end

--- Waits until the program of a round waits for the lock. Returns false if the command has lost the lock before.
local function is_waiting(round)
    assert.equal("waits", round.grantee:line())
    local ended
    eventually(function()
        local status = io.open(round.wrapper.directory .. "/status")
        ended = status and status:read "*l"
        if status then
            status:close()
        end
        return ended or fixture.has(round.path, 2)
    end)
    return not ended
end

--- Starts all rounds; each program waits for its lock afterwards.
local function start_rounds(options)
    local rounds = {}
    for index = 1, ROUNDS do
        rounds[index] = start_round(options, SESSION)
    end
    for index = 1, ROUNDS do
        local session, tries = SESSION, 1
        while not is_waiting(rounds[index]) do
            assert(tries < TRIES, "the command loses its lock before anything is done to it")
            session, tries = 2 * session, tries + 1
            rounds[index] = start_round(options, session)
        end
    end
    return rounds
end

--- Asserts that every program got its lock after the last process of the command had ended. Returns what they said.
local function assert_dead(rounds)
    for index, round in ipairs(rounds) do
        local said = round.grantee:line()
        assert.truthy(said and said:find "^dead ", ("round %d: %s"):format(index, tostring(said)))
        if os.getenv "ZKLOCK_ROUNDS" then
            io.stderr:write(said, "\n")
        end
    end
end

local function signal_all(rounds, signal)
    for _, round in ipairs(rounds) do
        round.wrapper:signal(signal)
    end
end

local function assert_statuses(rounds, status)
    for _, round in ipairs(rounds) do
        assert.equal(status, round.wrapper:finish().status)
    end
end

describe("no process of a command is alive when another contender gets the lock", function()
    after_each(fixture.clean)

    it("if the command ends by a signal that zklock passes on", function()
        local rounds = start_rounds {}
        signal_all(rounds, "TERM")
        assert_dead(rounds)
        assert_statuses(rounds, 143)
    end)

    it("if only its first process ends by that, and the other one ignores TERM", function()
        local rounds = start_rounds { ignores = true }
        signal_all(rounds, "INT")
        assert_dead(rounds)
        assert_statuses(rounds, 130)
    end)

    it("if zklock is killed #asan", function()
        local rounds = start_rounds { ignores = true }
        signal_all(rounds, "KILL")
        assert_dead(rounds)
    end)

    it("if zklock is stopped", function()
        local rounds = start_rounds {}
        signal_all(rounds, "STOP")
        assert_dead(rounds)
        signal_all(rounds, "CONT")
        assert_statuses(rounds, 120)
    end)

    it("if zklock is stopped and the command ignores TERM", function()
        local rounds = start_rounds { ignores = true, grace = "600" }
        signal_all(rounds, "STOP")
        assert_dead(rounds)
    end)

    it("if zklock cannot reach ZooKeeper, and the command ignores TERM", function()
        local link = fixture.proxy()
        local rounds = start_rounds { ignores = true, grace = "600", servers = link.address }
        link:stall()
        assert_dead(rounds)
        assert_statuses(rounds, 120)
    end)

    it("if the guardian is killed before #asan", function()
        local rounds = start_rounds { ignores = true }
        for _, round in ipairs(rounds) do
            local guardian = cluster.run({ "pgrep", "-x", "-P", tostring(round.wrapper.pid), "zklock-guardian" })
            assert.truthy(guardian:find "^%d+$", guardian)
            os.execute("kill -KILL " .. guardian)
        end
        assert_dead(rounds)
        assert_statuses(rounds, 125)
    end)
end)

describe("a command whose node an administrator deletes", function()
    after_each(fixture.clean)

    it("is killed at once, although it ignores TERM and has any grace", function()
        local rounds = start_rounds { ignores = true, grace = "100000" }
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
        assert_statuses(rounds, 120)
    end)
end)
