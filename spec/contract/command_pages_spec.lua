--- The man pages and the completion of `zklock` come from the same source as --help.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

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
        assert.truthy(files.read(directory .. "/zklock.1"):find("zklock \\- ", 1, true))
    end)
end)

describe("the completion", function()
    after_each(fixture.clean)

    it("names each subcommand, and is a script that bash accepts", function()
        for _, shell in ipairs { "bash", "zsh", "fish" } do
            local script = output_of("completion", shell)
            for _, name in ipairs(subcommands()) do
                assert.truthy(script:find("%f[%a]" .. name .. "%f[%A]"), shell .. " " .. name)
            end
        end
        local file = commands.directory() .. "/completion"
        files.write(file, output_of("completion", "bash"))
        local output, status = cluster.run { "bash", "-n", file }
        assert.equal(0, status, output)
    end)
end)
