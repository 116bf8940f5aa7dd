--- tools/states.lua: the table of an entry's states in docs/design.md against the enum and the transitions in the code.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local ENUM = "typedef enum {\n    ZKL_ENTRY_OFF, /* dark, ZKL_ENTRY_DIM */\n    ZKL_ENTRY_ON\n} zkl_entry_state;\n"
local OFF, ON = "| `OFF` | a switch | `ON`, for ever |", "| `ON`, bright | a switch | stays |"

--- Checks a table of these rows, and code in which so much may follow OFF. Returns what is printed, and the exit status.
local function check(rows, following)
    local directory = files.make_directory()
    cluster.run({ "mkdir", "-p", directory .. "/csrc/lock", directory .. "/docs" })
    files.write(directory .. "/csrc/lock/entry.h", ENUM)
    files.write(directory .. "/csrc/lock/entry.c", ([[
static const uint32_t next_states[] = {
    [ZKL_ENTRY_OFF] = %s,
    [ZKL_ENTRY_ON] = 0, /* it burns until its end */
};
]]):format(following or "TO(ON)"))
    files.write(directory .. "/docs/design.md", ("| state |\n|---|\n| `DIM` |\n\n<!-- states -->\n\n| from | event | to |\n" ..
        "|---|---|---|\n%s\n\nText.\n"):format(table.concat(rows, "\n")))
    local output, status = cluster.run({ "lua5.4", "tools/states.lua", directory })
    cluster.run({ "rm", "-r", directory })
    return output, status
end

describe("the check of the table of states #once", function()
    it("accepts the states and transitions of the code, and leaves other tables alone", function()
        assert.same({ "", 0 }, { check { OFF } })
        assert.same({ "", 0 }, { check { OFF .. " ", " " .. ON } })
    end)

    it("notices what the table lacks", function()
        assert.same({ "docs/design.md lacks the state ON\ndocs/design.md lacks the transition from OFF to ON", 1 },
            { check { "| `OFF` | a switch | stays |" } })
    end)

    it("notices what the code lacks", function()
        assert.same({ "csrc/lock/entry.[ch] lacks the transition from ON to OFF", 1 },
            { check { OFF, "| `ON` | a switch | `OFF` |" } })
        assert.same({ "csrc/lock/entry.[ch] lacks the transition from OFF to ON", 1 }, { check({ OFF }, "0") })
        assert.same({ "csrc/lock/entry.[ch] lacks the state DIM", 1 }, { check { OFF, "| `DIM` | a switch | stays |" } })
    end)

    it("notices rows and code that it cannot read", function()
        for _, row in ipairs { "| any other | a switch | `ON` |", "| `ON` | `OFF` |" } do
            assert.same({ "docs/design.md: a row has no state, or not 3 columns: " .. row, 1 }, { check { OFF, row } })
        end
        assert.same({ "csrc/lock/entry.c: what may follow OFF is more than TO(…): TO(ON) | DIMMED", 1 },
            { check({ OFF }, "TO(ON) | DIMMED") })
    end)
end)
