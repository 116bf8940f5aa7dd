--- The man pages and the completion of `zklock` come from the same source as --help.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"
local terminals = require "spec.support.terminal"

--- Returns what zklock prints. Nothing here connects.
local function output_of(...)
    return (commands.output({ ... }, { servers = "127.0.0.1:1" }))
end

--- Returns the names of the subcommands.
local function subcommands()
    local names = {}
    for name in output_of("--help"):match("Commands:\n(.*)$"):gmatch "\n?   (%l+) " do
        names[#names + 1] = name
    end
    assert.is_true(#names >= 10)
    return names
end

describe("the help", function()
    after_each(fixture.clean)

    it("has a short usage, and both names of an option in one line", function()
        assert.truthy(output_of("break", "--help"):find "^Usage: zklock break %[OPTIONS%] %-%-node N PATH\n\n")
        assert.truthy(output_of("history", "--help"):find "^Usage: zklock history %[%-h%]")
        local text = output_of("run", "--help")
        assert.truthy(text:find("\n   -w SEC, --wait SEC    Wait ", 1, true), text)
        assert.truthy(text:find("\n   -E CODE, --conflict-exit-code CODE\n                         Exit ", 1, true), text)
        assert.is_nil(text:find ",[^%S\n]*\n", text)
    end)
end)

describe("a man page", function()
    after_each(fixture.clean)

    it("is there for each subcommand, with all of its options", function()
        local directory = commands.directory()
        local result = program.run("manpages", { program.interpreter(), "tools/manpages.lua", directory,
            program.interpreter(), "lua/zklock/cli/main.lua" }):finish()
        assert.equal(0, result.status, result.errors)
        for _, name in ipairs(subcommands()) do
            local page = files.read(("%s/zklock-%s.1"):format(directory, name))
            local options = 0
            for option in output_of(name, "--help"):gmatch "\n   [^\n]-(%-%-[%a-]+)" do
                options = options + 1
                assert.truthy(page:find("\n.B [^\n]*" .. option:gsub("%-", "\\%%-") .. "[^\n]*\n%S"), name .. " " .. option)
            end
            assert.is_true(options > 0)
            -- A page must have no other text where a term belongs.
            assert.is_nil(page:find "\n%.B [^\n]*,\n", name)
        end
        local page = files.read(directory .. "/zklock.1")
        assert.truthy(page:find("zklock \\- ", 1, true))
        assert.truthy(page:find(".SH SEE ALSO\nzklock\\-run(1), ", 1, true))
        page = files.read(directory .. "/zklock-run.1")
        assert.truthy(page:find("\nzklock run [OPTIONS] PATH \\-\\- COMMAND [ARG…]\n.br\nzklock run ", 1, true), page)
        assert.truthy(page:find(".SH ENVIRONMENT\nZKLOCK_SERVERS ", 1, true))
    end)
end)

describe("the completion", function()
    after_each(fixture.clean)

    --- Returns a file with the completion for a shell; nil: this system has no such shell.
    local function completion_for(shell)
        local file = commands.directory() .. "/completion"
        files.write(file, output_of("completion", shell))
        return select(2, cluster.run { "which", shell }) == 0 and file or nil
    end

    for _, shell in ipairs { "bash", "zsh", "fish" } do
        it("names each subcommand, and is a script that is accepted by " .. shell, function()
            local script = output_of("completion", shell)
            for _, name in ipairs(subcommands()) do
                assert.truthy(script:find("%f[%a]" .. name .. "%f[%A]"), name)
            end
            local file = completion_for(shell)
            if not file then
                return pending("needs " .. shell)
            end
            local output, status = cluster.run { shell, "-n", file }
            assert.equal(0, status, output)
        end)
    end

    it("completes values, files and the command behind --, and no path of a lock by a file, in zsh", function()
        local file = completion_for "zsh"
        if not file then
            return pending "needs zsh"
        end
        local terminal = terminals.open { "zsh", "-f" }
        terminal:type('cd ' .. commands.directory() .. ' && touch the-file && the-command() { }; autoload -Uz compinit')
        terminal:type('compinit -u -D && eval "$(<' .. file .. ')" && print -P "%Bready%b"')
        terminal:await "\nready"
        for typed, completed in pairs {
            ["zklock run --on-lost w"] = "--on-lost warn",
            ["zklock run --tls-ca-file the-"] = "--tls-ca-file the-file",
            ["zklock run /x --on-los"] = "/x --on-lost",
            ["zklock run /x -- the-c"] = "/x -- the-command",
            ["zklock dev -- cat the-"] = "-- cat the-file",
            ["zklock who the-f"] = "zklock who the-f"
        } do
            terminal:key "C-u"
            terminal:key(typed)
            terminal:key "Tab"
            terminal:key "."
            terminal:await((completed:gsub("%p", "%%%0")) .. " ?%.")
        end
    end)

    it("completes them in fish, too", function()
        local file = completion_for "fish"
        if not file then
            return pending "needs fish"
        end
        local directory = commands.directory()
        files.write(directory .. "/the-file", "")
        local begin = "cd " .. directory .. "; source " .. file .. "; function the-command; end; complete -C "
        for typed, completed in pairs {
            ["zklock run --on-lost w"] = "warn",
            ["zklock run --tls-ca-file the-"] = "the-file",
            ["zklock run /x --on-los"] = "--on-lost",
            ["zklock run /x -- the-c"] = "the-command",
            ["zklock dev -- cat the-"] = "the-file",
            ["zklock completion f"] = "fish",
            ["zklock who the-f"] = ""
        } do
            local output = cluster.run { "env", "HOME=" .. directory, "fish", "-c", begin .. cluster.quote(typed) }
            assert.equal(completed, output:match "^[^\t\n]*", typed)
        end
    end)
end)
