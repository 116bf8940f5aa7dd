--- Tests the checks of the documentation, which are in support.documentation, on small sources.

local compat = require "spec.support.compat"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"

describe("the checks of the documentation", function()
    --- Loads a made-up source. Returns the problems of its function `name`.
    local function problems_of(source, name, codes)
        local chunk = assert(compat.load_text(source, "@made-up.lua"))
        return documentation.function_problems("Thing:" .. name, chunk()[name], function()
            return source
        end, codes or {})
    end

    local GOOD = [[
local Thing = {}

--- Does it.
---@param what string
---@param often? number
---@param ... any more
---@return true? done
---@return string? message
---@return zklock.Code? code "lost"
function Thing:run(what, often, ...)
    return what, often, ...
end

return Thing
]]

    it("find nothing wrong with a documented function", function()
        assert.same({}, problems_of(GOOD, "run", { lost = true }))
    end)

    it("notice a docstring that is missing, is an ordinary comment, or is not directly above its function", function()
        local expected = { "Thing:run: has no docstring directly above it" }
        assert.same(expected, problems_of(GOOD:gsub("%-%-%- Does it", "-- Does it"), "run", { lost = true }))
        assert.same(expected, problems_of(GOOD:gsub("\nfunction", "\n\nfunction"), "run", { lost = true }))
        assert.same(expected, problems_of("local Thing = {}\nfunction Thing:run() end\nreturn Thing", "run"))
    end)

    it("notice a parameter that is missing, superfluous, renamed or in another place", function()
        for changed, documented in pairs {
            [GOOD:gsub("%-%-%-@param what string\n", "")] = "(often, ...)",
            [GOOD:gsub("%-%-%-@param %.", "---@param extra table\n%0")] = "(what, often, extra, ...)",
            [GOOD:gsub("param often", "param times")] = "(what, times, ...)",
            [GOOD:gsub("(%-%-%-@param what string\n)(%-%-%-@param often%? number\n)", "%2%1")] = "(often, what, ...)"
        } do
            assert.same({ ("Thing:run: documented as %s, but it is (what, often, ...)"):format(documented) },
                problems_of(changed, "run", { lost = true }))
        end
    end)

    it("notice a code that does not exist", function()
        assert.same({ 'Thing:run: there is no code "lost"' }, problems_of(GOOD, "run", { found = true }))
    end)

    it("notice a tag and a type that do not exist", function()
        local function problems(source)
            return documentation.tag_problems("run", docstrings.read(source).functions[1].doc, { Code = {} })
        end
        assert.same({}, problems(GOOD))
        assert.same({ "run: @retrun is no tag" }, problems(GOOD:gsub("@return true", "@retrun true")))
        assert.same({ "run: there is no zklock.Coda" }, problems(GOOD:gsub("zklock.Code", "zklock.Coda")))
    end)

    it("find the options of a function through its error about an unknown option", function()
        local options = require "zklock.options"
        local function call(given)
            local settings, wrong = options.read(given, { first = { options.boolean }, second = { options.boolean } })
            return settings or error(wrong)
        end
        assert.same({ first = true, second = true }, documentation.known_options(call))
        assert.is_nil(documentation.known_options(function() end))
        assert.same({}, documentation.known_options(function(given)
            return assert(options.read(given, {}))
        end))
    end)

    it("read classes, fields with texts beside and above them, the literals of an alias, and public functions", function()
        local source = docstrings.read([[
--- A word.
---@alias zklock.Word
---| "yes" # or "no"
---| "maybe"

--- A thing.
---@class zklock.Thing: zklock.Other
---@field name? fun(a: string, b: table): string, zklock.Word? its "name"
-- more than
-- fits
---@field size number
local Thing = {}

--- Does it.
---@return zklock.Some? some
---@return string # text
---@return any ... more
function Thing:run(one,
    two)
end

function Thing.new() end
function Thing:_hidden() end
]])
        local word, thing = source.entries[1], source.entries[2]
        assert.same({ { name = "yes", text = 'or "no"' }, { name = "maybe", text = "" } }, word.values)
        assert.same({ "Thing", "A thing.", "zklock.Other" }, { thing.name, thing.text, thing.base })
        local kind = "fun(a: string, b: table): string, zklock.Word?"
        assert.same({ { name = "name", optional = true, type = kind, text = 'its "name"' },
            { name = "size", optional = false, type = "number", text = "more than\nfits" } }, thing.fields)
        assert.equal(1, #thing.functions)
        local run = thing.functions[1]
        assert.same({ "run", "one", "two" }, { run.name, compat.unpack(run.arguments) })
        assert.same({ { type = "zklock.Some?", name = "some", text = "" }, { type = "string", text = "text" },
            { type = "any", name = "...", text = "more" } }, run.doc.returns)
        assert.same({ "thing: there is no zklock.Word" }, documentation.tag_problems("thing", thing, {}))
    end)

    it("find the codes in C, those that are never answered, and those in Lua", function()
        local engine = 'const char *zkl_code_name(zkl_code code)\n{\n[ZKL_OK] = "ok", [ZKL_A_B] = "a_b", [ZKL_A] = "a",\n}\n'
        local codes, unused = documentation.c_codes(engine, engine .. "return ZKL_A_B;")
        assert.same({ a = true, a_b = true }, codes)
        assert.same({ a = true }, unused)
        assert.same({ one = true, two = true, three = true }, documentation.lua_codes([[
            return nil, "some words", "one"
            return nil, format("x %s",
                y), "two"
            return nil, message, code or "three" -- "four"
            return nil, "five" .. "six" .. seven
            return true, "eight"]]))
    end)

    it("report the differences between two lists, both ways", function()
        assert.same({ "a: in A and not in B", "c: in B and not in A" },
            documentation.differences("A", { a = true, b = true }, "B", { b = true, c = true }))
    end)

    it("read code blocks, words between backticks and tables of Markdown", function()
        local page = "Say `one`.\n\n```lua\ntwo()\n```\n\n| code | means |\n|---|---|\n| `x`, `y` | `z` |\n\n| `v` | w |\n"
        assert.same({ x = true, y = true }, documentation.table_words(page, "| code | means |"))
        assert.equal("two()", documentation.code_blocks(page)[1].text)
        assert.equal(4, documentation.code_blocks(page)[1].line)
        assert.matches("two%(%)\none\nx", documentation.code_of(page))
    end)

    it("read the rows of a section's tables, and what their cells refer to", function()
        local page = "## A\n\n| a | b |\n|---|---|\n| no | x |\n\n## B\n"
            .. '| a | b |\n|---|---|\n| 1 | `x_spec.lua`: "y z" |\n\n## C\n'
        local rows = documentation.rows(page, "B")
        assert.same({ { "1", '`x_spec.lua`: "y z"' } }, rows)
        assert.same({ { file = "x_spec.lua", title = "y z" } }, documentation.references(rows[1][2]))
        assert.same({ { file = "a.c", title = "b" }, { file = "a.c", title = "c" }, { file = "d.lua", title = "e" } },
            documentation.references('`T`: `a.c`: "b", "c"; `d.lua`: "e"'))
        assert.same({}, documentation.references("`a.c` only"))
    end)

    it("find the titles of specs, also titles that are concatenated, and tests in C", function()
        local text = '    it("plain (one) #tag #more", function()\n    it(("cut %s it, %d"):format(moment, (1)), function()\n'
            .. '    it(title .. " limit #asan", function()\n  it("where " .. case[1] .. " says", function()\n  it(all, function()\n'
        for _, title in ipairs { "plain (one)", "cut before it, 3", "a limit", "where one says" } do
            assert.is_true(documentation.has_title("a_spec.lua", text, title), title)
        end
        for _, title in ipairs { "plain", "plain (one) #tag", "plain xonex", "cut before it, 3 times", "limits", "where", "" } do
            assert.is_false(documentation.has_title("a_spec.lua", text, title), title)
        end
        local c = 'static void does_it(void **state)\n{ fail("check", "x");'
        assert.is_true(documentation.has_title("a.c", c, "does_it"))
        assert.is_true(documentation.has_title("a.c", c, "check"))
        assert.is_false(documentation.has_title("a.c", c, "does"))
    end)

    it("run code blocks, and compare their results with the results shown", function()
        local function run(text)
            assert(documentation.load_block(text, "=x", { expect = documentation.expect, two = function() return 2, "b" end }))()
        end
        run('two() --> 2, "b"; and more\nlocal a, b = two()\nlocal c = two() --> 2, "b"\nprint(c) --> 2: two\ntwo() --> a number\n')
        assert.error_matches(function() run("\ntwo()  --> 3\n") end, 'expected 3, got 2, "b"')
        -- Characters that share bytes with an ellipsis are no ellipsis.
        assert.error_matches(function() run('two()  --> 2, "读者"\n') end, 'expected 2, "读者", got 2, "b"', 1, true)
        run('two()  --> 2, "…"\n')
        assert.is_nil((documentation.load_block("x = = 1", "=x", {})))
    end)
end)
