--- The README's first lock, in two terminals as it is written there: with `zklock dev`, both find one server.

local commands = require "spec.support.commands"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local terminals = require "spec.support.terminal"

local PATH = "/locks/nightly-report"
local PROGRAM = "lua5.4 first.lua"

--- Returns the blocks of code of the section "A first lock".
local function blocks()
    local section = docstrings.read_file("README.md"):match "\n## A first lock\n(.-)\n## "
    return documentation.code_blocks(section)
end

--- Opens a terminal with a plain shell in a directory.
local function open(bin, directory)
    local terminal = terminals.open { "env", "-u", "ZKLOCK_SERVERS", "-u", "ZOOKEEPER", "PATH=" .. bin .. ":" .. os.getenv "PATH",
        "SHELL=/bin/sh", "sh" }
    terminal:type("cd " .. directory)
    return terminal
end

describe("the README's first lock", function()
    after_each(fixture.clean)

    it("is held in one terminal, and waited for in the other, with the server of zklock dev", function()
        local list = blocks()
        local texts = {}
        for index, block in ipairs(list) do
            texts[index] = block.text
        end
        assert.same({ "zklock dev", PROGRAM, "zklock who " .. PATH .. "\n" .. PROGRAM }, { texts[1], texts[3], texts[5] })
        assert.equal("lua", list[2].language)
        local bin, directory = commands.install(), commands.directory()
        files.write(directory .. "/first.lua", texts[2])

        local one = open(bin, directory)
        one:type(texts[1])
        local line = one:await "export ZKLOCK_SERVERS=127%.0%.0%.1:%d+"
        one:type(texts[3])
        one:await "\ninside +true +%d+%-%d+"
        one:key "Enter"
        one:await "\ntrue +done"

        one:type("clear; " .. texts[3])
        one:await "\n?inside +true"
        local two = open(bin, directory)
        two:type(line)
        for typed in texts[5]:gmatch "[^\n]+" do
            two:type(typed)
        end
        two:await "\n%d+ +exclusive +holds +%S+"
        two:await("could not acquire the mutex " .. PATH:gsub("%-", "%%-") .. " within 5 s: ")

        -- Once more. Where starting takes long, its five seconds may be over before Enter is pressed.
        local looking = fixture.client(nil, line:match "=(.*)$"):mutex(PATH)
        two:type("clear; " .. PROGRAM)
        eventually(function()
            return #assert(looking:contenders(20)) == 2 or two:screen():find("could not acquire", 1, true)
        end)
        one:key "Enter"
        one:await "\ntrue +done"
        eventually(function()
            local screen = two:screen()
            if screen:find("could not acquire", 1, true) then
                two:type("clear; " .. PROGRAM)
            end
            return screen:find "inside +true", screen
        end)
        two:key "Enter"
        two:await "\ntrue +done"
    end)
end)
