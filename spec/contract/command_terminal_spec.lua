--- `zklock run` in a terminal: its keys, the shell's jobs, pipelines.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local terminals = require "spec.support.terminal"

--- A shell with job control. The function `z` in it is `zklock run` of this project.
local function open_shell()
    local shell = terminals.open { "bash", "--norc", "--noprofile", "-i" }
    shell:type("cd " .. cluster.root)
    shell:type("z() { " .. cluster.command_line(commands.words { "run" }) .. ' "$@"; }')
    shell:type("clear; echo shell $((40 + 2))")
    shell:await "shell 42"
    return shell
end

describe("a command of zklock run in a terminal", function()
    after_each(fixture.clean)

    it("has the terminal: it reads what is typed", function()
        local shell, path = open_shell(), fixture.path()
        shell:type("z " .. path .. " -- sh -c 'echo what; read -r line; echo got $line'")
        shell:await "\nwhat"
        shell:type "this"
        shell:await "\ngot this"
        shell:type "echo code $?"
        shell:await "\ncode 0"
    end)

    for title, options in pairs { [""] = "", [", with --detach"] = "--at-least 0 --detach " } do
        it("ends by Ctrl-C, with zklock and the script that runs it" .. title, function()
            local shell, path, directory = open_shell(), fixture.path(), commands.directory()
            local script, words = assert(io.open(directory .. "/script", "w")), { "run" }
            for word in (options .. path):gmatch "%S+" do
                words[#words + 1] = word
            end
            words[#words + 1], words[#words + 2] = "-c", "echo begun; sleep 600"
            script:write(cluster.command_line(commands.words(words)), "\necho after\n")
            script:close()
            shell:type("sh " .. directory .. "/script")
            shell:await "\nbegun"
            shell:key "C-c"
            shell:type "echo code $?"
            shell:await "\ncode 130"
            assert.is_nil(shell:screen():find("\nafter", 1, true))
            assert.same({}, fixture.children(path))
        end)

        it("stops by Ctrl-Z as a job, and goes on by fg" .. title, function()
            local shell, path = open_shell(), fixture.path()
            shell:type("z --session-timeout 60 " .. options .. path .. " -- sh -c 'echo begun; read -r line; echo got $line'")
            shell:await "\nbegun"
            shell:key "C-z"
            shell:await "Stopped"
            shell:type "echo prompt $((1 + 1))"
            shell:await "\nprompt 2"
            assert.equal(1, #fixture.children(path))
            shell:type "fg"
            shell:await "fg\n.-run"
            shell:type "this"
            shell:await "\ngot this"
            shell:type "echo code $?"
            shell:await "\ncode 0"
            assert.same({}, fixture.children(path))
        end)
    end

    it("does not go on by fg if the lock was lost while it was stopped", function()
        local shell, path = open_shell(), fixture.path()
        shell:type("z --session-timeout 20 " .. path .. " -- sh -c 'echo begun; while read -r line; do echo got $line; done'")
        shell:await "\nbegun"
        shell:key "C-z"
        shell:await "Stopped"
        local lock = fixture.client({ session_timeout = 60 }):mutex(path)
        assert(lock:acquire(60))
        shell:type "fg"
        shell:await "the lock .- was lost"
        shell:type "echo code $?"
        shell:await "\ncode 120"
        assert.is_true(lock:held())
    end)

    it("leaves the terminal to others of its pipeline until it reads", function()
        local shell, path = open_shell(), fixture.path()
        shell:type("z " .. path .. " -- sh -c 'echo begun; read -r line </dev/tty; echo got $line' | cat")
        shell:await "\nbegun"
        shell:type "this"
        shell:await "\ngot this"
        shell:type "echo code ${PIPESTATUS[0]}"
        shell:await "\ncode 0"
    end)

    it("stops as a job when it reads in the background, and goes on by fg", function()
        local shell, path = open_shell(), fixture.path()
        shell:type("z --session-timeout 60 " .. path .. " -- sh -c 'echo begun; read -r line; echo got $line' &")
        shell:await "begun\n"
        shell:type "wait %1; jobs"
        shell:await "Stopped"
        shell:type "fg"
        shell:await "fg\nz "
        shell:type "this"
        shell:await "\ngot this"
        shell:type "echo code $?"
        shell:await "\ncode 0"
    end)

    it("ends with the terminal, and leaves nothing", function()
        local shell, path = open_shell(), fixture.path()
        local mark = ("600.%d"):format(cluster.process_id())
        shell:type("z " .. path .. " -- sh -c 'echo begun; sleep " .. mark .. "'")
        shell:await "\nbegun"
        shell:close()
        fixture.await_children(path, 0)
        eventually(function()
            return #commands.processes("sleep " .. mark) == 0
        end)
    end)

    it("is interrupted while it waits for the lock", function()
        local shell, path = open_shell(), fixture.path()
        fixture.join(path, nil, "web3:4711")
        shell:type("z " .. path .. " -- true")
        shell:await "zklock: waiting for .-: held by web3:4711"
        shell:key "C-c"
        shell:type "echo code $?"
        shell:await "\ncode 130"
        assert.equal(1, #fixture.children(path))
    end)
end)

describe("zklock hold in a terminal", function()
    after_each(fixture.clean)

    it("does not read it while another job has it, and is not stopped", function()
        local shell, path = open_shell(), fixture.path()
        shell:type("h() { " .. cluster.command_line(commands.words { "hold", "--session-timeout", "60" }) .. ' "$@"; }')
        shell:type("clear; h " .. path .. " &")
        shell:await "%d+%-%d+\n"
        for index = 1, 3 do
            shell:type("echo prompt $((40 + " .. index .. "))")
            shell:await("\nprompt " .. 40 + index)
        end
        assert.is_nil(shell:screen():find("Stopped", 1, true))
        shell:type "fg"
        shell:await "fg\nh "
        assert.equal(1, #fixture.children(path))
        shell:key "C-d"
        shell:type "echo code $?"
        shell:await "\ncode 0"
        assert.same({}, fixture.children(path))
    end)
end)
