--- tools/states.lua: the tables of states in the pages against the enums and the transitions in the code.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local SOURCE = [[
typedef enum {
    ZKL_LAMP_OFF, /* dark, as at first */
    ZKL_LAMP_ON
} zkl_lamp;
]]

--- Checks a page with this text beside that source, or beside another one. Returns what is printed, and the exit status.
local function check(page, source)
    local directory = files.make_directory()
    cluster.run({ "mkdir", directory .. "/csrc", directory .. "/docs" })
    files.write(directory .. "/csrc/lamp.h", source or SOURCE)
    files.write(directory .. "/docs/page.md", page)
    local output, status =
        cluster.run({ "sh", "-c", "tool=$PWD/tools/states.lua; cd \"$0\" && lua5.4 \"$tool\"", directory })
    cluster.run({ "rm", "-r", directory })
    return output, status
end

--- The transitions of the lamp.
local TRANSITIONS = [[
#define TO(state) (1U << ZKL_LAMP_##state)
static const uint32_t next_states[] = {
    [ZKL_LAMP_OFF] = TO(ON),
    [ZKL_LAMP_ON] = 0, /* it burns until its end */
};
]]

local function table_of(...)
    return "<!-- states: zkl_lamp -->\n\n| state | what |\n|---|---|\n| " .. table.concat({ ... }, " | |\n| ") .. " | |\n\nText.\n"
end

describe("the check of the tables of states #once", function()
    it("accepts a table that has each state, also in several columns", function()
        assert.same({ "", 0 }, { check(table_of("`OFF`", "`ON`")) })
        assert.same({ "", 0 }, { check(table_of("`ON` | `OFF`, a `ZNODE-like` text")) })
    end)

    it("notices a state that is missing", function()
        assert.same({ "docs/page.md: the table of zkl_lamp lacks ON", 1 }, { check(table_of("`OFF`")) })
    end)

    it("notices a name that is no state", function()
        assert.same({ "docs/page.md: zkl_lamp has no state DIM", 1 }, { check(table_of("`OFF`", "`ON`", "`DIM`")) })
    end)

    it("notices an enum that does not exist, and a marker without a table", function()
        assert.same({ "docs/page.md: there is no enum zkl_lamps in csrc/", 1 }, { check("<!-- states: zkl_lamps -->\n") })
        assert.same({ "docs/page.md: the table of zkl_lamp lacks OFF\ndocs/page.md: the table of zkl_lamp lacks ON", 1 },
            { check("<!-- states: zkl_lamp -->\n\nText.\n") })
        assert.same({ "docs/page.md: the table of zkl_lamp lacks OFF\ndocs/page.md: the table of zkl_lamp lacks ON", 1 },
            { check("<!-- states: zkl_lamp -->\n\n" .. table_of("`OFF`", "`ON`")) })
    end)

    describe("of transitions", function()
        --- Checks a page with a table of these rows. Returns what is printed, and the exit status.
        local function check_rows(rows, transitions)
            return check("<!-- states: zkl_lamp -->\n\n| from | event | to |\n|---|---|---|\n" ..
                table.concat(rows, "\n") .. "\n\nText.\n", SOURCE .. (transitions or TRANSITIONS))
        end

        it("accepts those of the code", function()
            assert.same({ "", 0 }, { check_rows { "| `OFF` | a switch | `ON`, for ever |" } })
            assert.same({ "", 0 }, { check_rows { "| `OFF` | a switch | `ON` |", "| `ON`, bright | a switch | stays |" } })
            local page = "<!-- states: zkl_lamp -->\n\n| state | next |\n|---|---|\n| `OFF` | `ON` |\n| `ON` | – |\n"
            assert.same({ "", 0 }, { check(page, SOURCE .. TRANSITIONS) })
        end)

        it("notices one that the table lacks", function()
            assert.same({ "docs/page.md: the table of zkl_lamp lacks the transition from OFF to ON", 1 },
                { check_rows { "| `OFF` | a switch | stays |", "| `ON` | a switch | stays |" } })
        end)

        it("notices one that the code lacks", function()
            local row = "| `ON` | a switch | `OFF` |"
            for _, written in ipairs { row, row .. " ", " " .. row } do
                assert.same({ "docs/page.md: zkl_lamp has no transition from ON to OFF", 1 },
                    { check_rows { "| `OFF` | a switch | `ON` |", written } })
            end
        end)

        it("notices rows that it cannot compare", function()
            for _, row in ipairs { "| any other | a switch | `ON` |", "| `ON` | `OFF` |" } do
                local output, status = check_rows { "| `OFF` | a switch | `ON` |", row }
                assert.same({ "docs/page.md: a row of the table of zkl_lamp has no state, or not 3 columns: " .. row, 1 },
                    { output:match "[^\n]*", status })
            end
        end)

        it("notices that the code has none", function()
            assert.same({ "docs/page.md: zkl_lamp has no transition from OFF to ON", 1 },
                { check_rows({ "| `OFF` | a switch | `ON` |" }, "\n") })
        end)

        it("notices code that it cannot read", function()
            local row = "| `OFF` | a switch | `ON` |"
            local other = TRANSITIONS:gsub("TO%(ON%)", "TO(ON) | DIMMED")
            assert.same({ "csrc/lamp.h: the transitions of ZKL_LAMP_OFF have more than TO(…): TO(ON) | DIMMED", 1 },
                { check_rows({ row }, other) })
            assert.same({ "csrc/lamp.h: there are transitions of ZKL_LAMP_OFF twice", 1 },
                { check_rows({ row }, TRANSITIONS .. "uint32_t others[] = { [ZKL_LAMP_OFF] = TO(ON) };") })
        end)
    end)

    it("leaves tables without a marker alone", function()
        assert.same({ "", 0 }, { check("| state |\n|---|\n| `DIM` |\n") })
    end)
end)
