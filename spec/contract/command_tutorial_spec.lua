--- docs/tutorial.md, typed into one shell as it is written there. And the README's line of shell.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local terminals = require "spec.support.terminal"

--- Returns the texts of a page's blocks in some languages.
local function texts(path, languages)
    local found = {}
    for _, block in ipairs(documentation.code_blocks(docstrings.read_file(path))) do
        if languages[block.language] then
            found[#found + 1] = block.text
        end
    end
    return found
end

--- Returns a pattern for a text: numbers and blanks may differ, and an ellipsis stands for anything.
local function pattern_of(text)
    return (text:gsub("%p", "%%%0"):gsub("%d%d%d%d+", "%%d+"):gsub("%s+", "%%s+"):gsub("…", ".-"))
end

describe("docs/tutorial.md", function()
    after_each(fixture.clean)

    it("runs in one shell, and has the results that it shows", function()
        local typed = texts("docs/tutorial.md", { sh = true })
        local shown = texts("docs/tutorial.md", { text = true })
        assert.equal(6, #typed)
        local bin, directory = commands.install(), commands.directory()
        -- On a busy machine the first run must not end by its timeout (the second one does), and the lock must not get lost.
        local first = texts("docs/tutorial.md", { lua = true })[1]
        local patient, changed = first:gsub("timeout = 2 ", "timeout = 60 ")
        assert.equal(1, changed)
        typed[3], changed = typed[3]:gsub("%-%-session%-timeout 10 ", "--session-timeout 20 ")
        assert.equal(1, changed)
        files.write(directory .. "/first.lua", patient)
        local terminal = terminals.open { "env", "-u", "ZKLOCK_SERVERS", "-u", "ZOOKEEPER",
            "PATH=" .. bin .. ":" .. os.getenv "PATH", "SHELL=/bin/bash", "bash", "--norc", "-i" }
        terminal:resize(250, 40) -- no line is wrapped
        local function enter(text)
            for line in text:gmatch "[^\n]+" do
                terminal:type(line)
            end
        end
        terminal:type("cd " .. directory)
        enter(typed[1])
        terminal:await "export ZKLOCK_SERVERS=127%.0%.0%.1:%d+"
        enter(typed[2])
        terminal:await(pattern_of(shown[1]))
        files.write(directory .. "/first.lua", first)

        terminal:type "clear"
        enter(typed[3])
        -- The reader takes a moment, too, before the next lines.
        terminal:type "until zklock who /locks/nightly-report | grep holds; do :; done"
        terminal:await "exclusive +holds"
        terminal:type "clear"
        enter(typed[4])
        terminal:await "\n%d+ +exclusive +holds +%S+"
        terminal:await(pattern_of(shown[2]))

        terminal:type "clear"
        enter(typed[5])
        enter(typed[6])
        terminal:await "\nfree\n"
        terminal:type "exit"
    end)
end)

describe("the README's line for the shell", function()
    after_each(fixture.clean)

    it("runs its command while it holds the lock", function()
        local text = assert(texts("README.md", { sh = true })[1])
        local bin, directory = commands.install(), commands.directory()
        files.write(directory .. "/report", "#!/bin/sh\nzklock who --json $ZKLOCK_PATH\n")
        local pauses
        text, pauses = text:gsub("zk1:2181,zk2:2181,zk3:2181", fixture.servers()):gsub("60s", "0.1s")
        assert.equal(1, pauses)
        files.write(directory .. "/script", text)
        local output, status = cluster.run { "sh", "-c", ('cd "%s" && chmod +x report && PATH="%s:$PATH" sh -e script'):format(
            directory, bin) }
        assert.equal(0, status, output)
        assert.truthy(output:find('"holders":1', 1, true), output)
    end)
end)
