--- Text of other clients, before a terminal, JSON or HTML gets it (zklock.text).

local text = require "zklock.text"

local UNKNOWN = "\239\191\189"

describe("text of other clients", function()
    it("has no controls, no characters that change direction, and no invalid UTF-8", function()
        for _, bad in ipairs { "\27", "\127", "\0", "\n", "\194\155", "\194\133", "\216\156", "\226\128\174", "\226\129\166",
            "\255", "\192", "\239\187\191" } do
            assert.equal("a" .. UNKNOWN .. "b", text.clean("a" .. bad .. "b"))
        end
        assert.equal("é 锁 \240\159\148\146", text.clean("é 锁 \240\159\148\146"))
    end)

    it("keeps the lines of a message, but no other control", function()
        assert.equal("a\n\tb" .. UNKNOWN .. "[2J\n", text.clean_lines("a\n\tb\194\155[2J\n"))
    end)

    it("is short in a message", function()
        assert.equal("a long " .. ("x"):rep(1021) .. "… must not be there", text.clean_lines("a long " .. ("x"):rep(1e6) ..
            " must not be there"))
        assert.is_true(#text.clean_lines(("é\n "):rep(1e5)) <= 16384 + 3)
        assert.equal("é\n", text.clean_lines(("é\n"):rep(1e5)):sub(1, 3))
        assert.is_nil(text.clean_lines("é" .. (" é"):rep(1e5)):find(UNKNOWN, 1, true))
    end)

    it("is clean in each cell of a table of the command, and in its messages #real", function()
        local written = {}
        local stdout, stderr = io.stdout, io.stderr
        local file = { write = function(_, ...) written[#written + 1] = table.concat({ ... }) return true end }
        local Context, Output = require "zklock.cli.context", require "zklock.cli.output"
        local output = Output.new()
        io.stdout, io.stderr = file, file -- luacheck: ignore 122
        local ok, problem = pcall(function()
            output:rows { { "NODE" }, { "x\194\155[2J\226\128\174" } }
            Context.warn({}, "waiting for %s", "/x: held by a\194\155b\226\128\174")
            output:line(output.json { identity = "a\255" })
        end)
        io.stdout, io.stderr = stdout, stderr -- luacheck: ignore 122
        assert.is_true(ok, problem)
        local all = table.concat(written)
        assert.is_nil(all:find "\194\155")
        assert.is_nil(all:find "\226\128\174")
        assert.is_nil(all:find "\255")
        assert.truthy(all:find("waiting for /x: held by a" .. UNKNOWN .. "b", 1, true))
    end)
end)
