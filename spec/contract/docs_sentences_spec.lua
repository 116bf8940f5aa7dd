--- Tests tools/sentences.lua, which finds sentences in comments and pages that are hard to read.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local sentences = require "tools.sentences"

-- Name of a turn -> sentences that have it.
local SAMPLES = {
    ["pronoun as subject"] = {
        "Who waits gets the lock.", "Whoever waits gets it.", "Whose node is first has the lock.", "Nobody holds the lock then."
    },
    ["no noun as subject"] = {
        "What is left is deleted.", "That is the reason for it.", "Which of them is first is random.", "Those who wait are woken.",
        "Of these the first is granted.", "Of it nothing is left."
    },
    ["who as object"] = { "The lock is for who waits longest.", "It is granted to whoever waits.", "The list tells who waits." },
    inverted = {
        "No node is left, nor is a watch.", "The node is deleted lest it blocks others.", "Any thread, be it ours, may call it.",
        "The lease ends, and so does the lock.", "It fails as do all calls."
    },
    ["two semicolons"] = { "One node is made; one is deleted; one is left." },
    long = { ("word "):rep(38) .. "end." }
}

-- Name of a turn that alone makes no hit -> sentences that have it.
local WEAK_SAMPLES = {
    ["and who"] = { "It says which node is first and who made it." },
    ["is to be"] = { "The node is still to be made.", "The nodes were to come later." },
    ["of its own"] = { "The thread has a queue of its own.", "A lock is deleted with one's own node." },
    ["thing as person"] = {
        "The node dies with its session.", "The client hears of the change.", "A writer starves here.",
        "The queue feeds the thread."
    },
    ["all that"] = { "The list has all that is needed.", "The call returns what it was given." },
    nobody = { "The lock is held by nobody." }
}

local function has(names, name)
    for _, one in ipairs(names or {}) do
        if one == name then
            return true
        end
    end
    return false
end

--- Runs the tool in a new tree that git knows, with these files. Returns what it prints, and the exit status.
local function run(tree, ...)
    local directory = files.make_directory()
    cluster.run({ "git", "init", "--quiet", directory })
    for path, text in pairs(tree) do
        cluster.run({ "mkdir", "-p", (directory .. "/" .. path):match("^(.*)/") })
        files.write(directory .. "/" .. path, text)
    end
    local output, status =
        cluster.run({ "sh", "-c", "tool=$PWD/tools/sentences.lua; cd \"$0\" && lua5.4 \"$tool\" \"$@\"", directory, ... })
    cluster.run({ "rm", "-rf", directory })
    return output, status
end

--- Returns the texts of the sentences in a file.
local function texts(path, text)
    local found = {}
    for index, sentence in ipairs(sentences.of(path, text)) do
        found[index] = sentence.text
    end
    return found
end

--- Returns Lua code with some comments that are hits, and plain ones.
local function comments(hits, plain)
    return ("--- Who waits gets the lock.\n"):rep(hits) .. ("--- The client makes a node.\n"):rep(plain)
end

describe("the check of sentences #once", function()
    it("finds each turn, and makes a hit of it", function()
        for name, list in pairs(SAMPLES) do
            for _, sample in ipairs(list) do
                assert.is_true(has(sentences.turns_of(sample), name), name .. ": " .. sample)
            end
        end
    end)

    it("makes a hit of a turn that plain sentences have, too, only beside another turn", function()
        for name, list in pairs(WEAK_SAMPLES) do
            for _, sample in ipairs(list) do
                assert.is_nil(sentences.turns_of(sample), sample)
                assert.is_true(has(sentences.turns_of(sample:gsub("%.$", ", nor is it read.")), name), name .. ": " .. sample)
            end
        end
    end)

    it("has a sample for each turn", function()
        for _, turn in ipairs(sentences.TURNS) do
            assert.truthy((turn.weak and WEAK_SAMPLES or SAMPLES)[turn.name], turn.name)
        end
    end)

    it("finds nothing in plain sentences, and no turn in a part of a word", function()
        for _, sample in ipairs({
            "The client makes a node.", "The whole list is read.", "What? The node is gone.",
            "A node has one id; its name has another.", "The list is for whole names.", "The fields of who_waits are read.",
            "A split session is to begin.", ("word "):rep(37) .. "end."
        }) do
            assert.is_nil(sentences.turns_of(sample), sample)
        end
    end)

    it("passes over code blocks, tables, and text in backquotes", function()
        assert.same({ "The first line is here.", "Text for X is here, over two lines." }, texts("page.md", [[
# Title

The first line is here.

```
Whoever is here is code.
```

| Who waits | gets the lock |
|---|---|
| Nobody waits | is said here |

Text for `who
ever` is here, over two lines.
]]))
    end)

    it("reads comments only, in C, in Lua and in shell scripts", function()
        assert.same({ "The first is here.", "The second has two lines.", "The third is here." }, texts("a.c", [[
/* The first is here. */
char *who = "Who waits gets the lock.";
/*
 * The second has
 * two lines.
 */
int x; /* The third is here. */
// Nobody reads this line here.
]]))
        assert.same({ "The first is here.", "The second is here." }, texts("a.lua", table.concat({
            "--- The first is here.", "-- @param x the name of the node", "local who = 'Who waits gets it.' -- The second is here."
        }, "\n")))
        assert.same({ "The first is here.", "The second is here." }, texts("a.sh", table.concat({
            "#!/bin/sh", "#", "# The first is here.", "echo 'Who waits gets the lock.'", "exit # The second is here."
        }, "\n")))
    end)

    it("gives the line in which a sentence begins", function()
        local lines = {}
        for index, sentence in ipairs(sentences.of("a.md", "One `a\nb` is here. The second is\nhere. Nodes are made here.\n")) do
            lines[index] = sentence.line
        end
        assert.same({ 1, 2, 3 }, lines)
    end)

    it("lists the hits of files, or of all files but changelogs and pages in Chinese", function()
        local tree = {
            ["a.lua"] = comments(1, 1), ["b/c.lua"] = comments(1, 0), ["CHANGELOG.md"] = "Who waits gets the lock.\n",
            ["docs/zh/a.md"] = "Who waits gets the lock.\n", ["README.zh-CN.md"] = "Who waits gets the lock.\n"
        }
        local a = "a.lua:1: pronoun as subject: Who waits gets the lock."
        local c = "b/c.lua:1: pronoun as subject: Who waits gets the lock."
        assert.same({ a .. "\n" .. c .. "\n2 of 3 sentences, 66.7 %", 0 }, { run(tree, "list") })
        assert.same({ c .. "\n1 of 1 sentences, 100.0 %", 0 }, { run(tree, "list", "b/c.lua") })
    end)

    it("accepts a tree with a few hits, and a small file with many", function()
        assert.same({ "4 of 100 sentences, 4.0 %", 0 }, { run({ ["a.lua"] = comments(4, 96) }, "check") })
        assert.same({ "2 of 104 sentences, 1.9 %", 0 },
            { run({ ["a.lua"] = comments(2, 48), ["b.lua"] = comments(0, 54) }, "check") })
    end)

    it("fails for a file with too many hits, and names it", function()
        local tree = { ["a.lua"] = comments(1, 20), ["b.lua"] = comments(3, 48), ["c.lua"] = comments(0, 80) }
        local output, status = run(tree, "check")
        assert.equal(1, status, output)
        assert.equal(table.concat({
            "b.lua: 3 of 51 sentences, 5.9 %, at most 4 % may be hit",
            "b.lua:1: pronoun as subject: Who waits gets the lock.",
            "b.lua:2: pronoun as subject: Who waits gets the lock.",
            "b.lua:3: pronoun as subject: Who waits gets the lock.",
            "4 of 152 sentences, 2.6 %"
        }, "\n"), output)
    end)

    it("fails for a tree with too many hits in small files", function()
        assert.same({ "a.lua:1: pronoun as subject: Who waits gets the lock.\n" ..
            "1 of 21 sentences, 4.8 %, at most 4 % may be hit", 1 }, { run({ ["a.lua"] = comments(1, 20) }, "check") })
    end)

    it("fails without a file to read", function()
        assert.same({ "there are no files: is this a git repository?", 1 }, { run({}, "check") })
    end)

    it("explains its use if the command is unknown", function()
        local output, status = run({}, "write")
        assert.equal(1, status)
        assert.matches("usage: lua5.4 tools/sentences.lua check | list", output, 1, true)
    end)
end)
