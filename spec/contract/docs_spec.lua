--- What is written about zklock holds: every public function has a docstring and an annotation that fit it, every option and
-- code is documented, the README knows them all, and its code runs.

local docstrings = require "tools.docstrings"
local compat = require "spec.support.compat"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local zklock = require "zklock"

local META = "docs/types/library/zklock.lua"

--- Fails with one problem a line.
local function none(problems)
    assert(#problems == 0, "\n" .. table.concat(problems, "\n"))
end

local function append(list, more)
    for _, one in ipairs(more) do
        list[#list + 1] = one
    end
end

local function read(path)
    return docstrings.read_file(path)
end

--- Every public function that is there: "Lock:acquire" -> function. Metamethods are not called by name.
local function public_functions()
    local found = {}
    for _, entry in ipairs(docstrings.PUBLIC) do
        local class = require(entry.module)
        class = entry.field and class[entry.field] or class
        for name, value in pairs(class) do
            if type(name) == "string" and type(value) == "function" and not name:find("^_") then
                local defined = documentation.definition_of(value, read)
                if entry.kind == "module" then
                    found[entry.name .. "." .. name] = value
                elseif not defined or defined.separator ~= "." then -- what has a dot is for the other modules
                    found[entry.name .. ":" .. name] = value
                end
            end
        end
    end
    return found
end

--- Their docstrings by the same names.
local function docs_of(functions)
    local docs = {}
    for name, fn in pairs(functions) do
        local defined = documentation.definition_of(fn, read)
        docs[name] = defined and defined.doc
    end
    return docs
end

--- All codes, and those that are in C's table and that neither C nor Lua answers.
local function every_code()
    local engine, all = read("csrc/engine.c"), {}
    for _, path in ipairs(files.find("csrc", ".c")) do
        all[#all + 1] = read(path)
    end
    local codes, unused = documentation.c_codes(engine, table.concat(all))
    for _, path in ipairs(files.find("lua", ".lua")) do
        for code in pairs(documentation.lua_codes(read(path))) do
            codes[code] = true
            unused[code] = nil
        end
    end
    return codes, unused
end

describe("the documentation", function()
    local functions = public_functions()
    local docs = docs_of(functions)
    local meta = documentation.read_meta(read(META))
    local readme = read("README.md")
    local readme_code = documentation.code_of(readme)
    local codes = every_code()

    --- Everything with options: name -> { known = set, parameter = the one that takes them }.
    local function with_options()
        local client = zklock.connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
        local objects = {
            Client = client,
            Lock = client:mutex("/a"),
            RwLock = client:rwlock("/a"),
            Semaphore = client:semaphore("/a", 2),
            Multi = client:multi { client:mutex("/a") },
            Transaction = client:transaction()
        }
        local values = { servers = "127.0.0.1:1", path = "/a", permits = 2, fn = function() end }
        local found, problems = {}, {}
        local function look(name, doc, method, object)
            local parameter = doc and documentation.options_parameter(doc)
            if not parameter then
                return
            end
            local known = documentation.known_options(function(given)
                local arguments, count = {}, 0
                for index, one in ipairs(doc.params) do
                    arguments[index] = values[one.name]
                    count = index
                    if one == parameter then
                        arguments[index] = given
                    end
                end
                if object then
                    return method(object, compat.unpack(arguments, 1, count))
                end
                return method(compat.unpack(arguments, 1, count))
            end)
            if known then
                found[name] = { known = known, parameter = parameter }
            else
                problems[#problems + 1] = name .. ": is documented to take options and does not complain about unknown ones"
            end
        end
        for name, fn in pairs(functions) do
            look(name, docs[name], fn, objects[name:match("^%w+")])
        end
        for _, name in ipairs { "acquire", "try_acquire", "release", "with_lock" } do -- inherited, with more options
            look("Semaphore:" .. name, docs["Lock:" .. name], functions["Lock:" .. name], objects.Semaphore)
        end
        client:close()
        return found, problems
    end

    it("covers the API: classes, methods, options and codes are found at all", function()
        for _, name in ipairs { "zklock.connect", "zklock.path", "Client:get", "Client:mutex", "Lock:acquire", "RwLock:with_read",
            "Semaphore:available", "Multi:members", "Transaction:commit", "Watch:wait" } do
            assert(functions[name], name)
        end
        assert.is_nil(functions["Client:new"])
        assert.is_true(#documentation.sorted(functions) >= 50)
        assert.is_true(codes.timeout and codes.bad_version and codes.max_hold and codes.phase and codes.unsupported)
        local found = with_options()
        assert.is_true(found["Client:mutex"].known.max_hold and found["zklock.connect"].known.lease)
        assert.same({ keep = true }, found["Lock:try_acquire"].known)
        assert.same({ count = true, keep = true }, found["Semaphore:try_acquire"].known)
    end)

    it("has a docstring directly above every public function, with the function's parameters in their order", function()
        local problems = {}
        for _, name in ipairs(documentation.sorted(functions)) do
            append(problems, documentation.function_problems(name, functions[name], read, codes))
        end
        none(problems)
    end)

    it("makes the reference of exactly the functions that are there", function()
        local listed, real = {}, {}
        for _, entry in ipairs(docstrings.PUBLIC) do
            for _, path in ipairs(entry.files) do
                for _, defined in ipairs(docstrings.read(read(path)).definitions) do
                    if docstrings.is_public(entry, defined) and defined.kind == "function" and not defined.name:find("^__") then
                        local name = defined.name == "return" and "path" or defined.name
                        listed[entry.name .. (entry.kind == "module" and "." or ":") .. name] = true
                    end
                end
            end
        end
        for name in pairs(functions) do
            real[name] = true
        end
        none(documentation.differences("the sources", listed, "the running module", real))
    end)

    it("says something about every option that a function knows, in its docstring or one that it names", function()
        local found, problems = with_options()
        for _, name in ipairs(documentation.sorted(found)) do
            local of = docs[name] and name or name:gsub("^Semaphore", "Lock")
            append(problems, documentation.option_problems(of, docs, found[name].known))
        end
        none(problems)
    end)

    describe("for language servers", function()
        it("names exactly the public functions, with the parameters of their docstrings", function()
            local problems, real = {}, {}
            for name, fn in pairs(functions) do
                real[name] = fn
            end
            for name, annotated in pairs(meta.functions) do
                local inherited = name:match("^Semaphore:(.*)$")
                if not real[name] and inherited and functions["Lock:" .. inherited] then
                    real[name] = functions["Lock:" .. inherited]
                    docs[name] = docs["Lock:" .. inherited]
                end
                if real[name] and docs[name] then
                    append(problems, documentation.annotation_problems(name, docs[name], annotated))
                end
            end
            append(problems, documentation.differences(META, meta.functions, "zklock", real))
            none(problems)
        end)

        it("names exactly the options of each function", function()
            local found, problems = with_options()
            local used = {}
            for _, name in ipairs(documentation.sorted(found)) do
                local annotated = meta.functions[name] or meta.functions[name:gsub("^Semaphore", "Lock")]
                for _, param in ipairs(annotated.params) do
                    if param.name == found[name].parameter.name then
                        local class = param.type:match("zklock%.%w+Options")
                        used[class or ""] = true
                        append(problems, documentation.differences(name .. " (" .. (class or "{}") .. ")",
                            class and meta.classes[class].fields or {}, "what it takes", found[name].known))
                    end
                end
            end
            for class in pairs(meta.classes) do
                if class:find("Options$") and not used[class] then
                    problems[#problems + 1] = class .. ": nothing takes it"
                end
            end
            none(problems)
        end)

        it("names exactly the codes and states that there are", function()
            none(documentation.differences("zklock.Code", meta.aliases["zklock.Code"].literals, "the sources", codes))
            local states = {}
            local block = read("csrc/engine.c"):match("zkl_state_name%(zkl_state state%)%s*(%b{})")
            for state in block:gmatch('= "([%l_]+)"') do
                states[state] = true
            end
            none(documentation.differences("zklock.State", meta.aliases["zklock.State"].literals, "the sources", states))
        end)

        it("names exactly the fields of the tables that C makes, and the events of watches", function()
            local operation, client, ticket = read("csrc/lua_operation.c"), read("csrc/lua_client.c"), read("csrc/lua_ticket.c")
            local problems, stat = {}, {}
            for _, setter in ipairs { "set_hex", "set_number", "set_integer" } do
                for name in pairs(documentation.c_fields(operation, setter)) do
                    stat[name] = true
                end
            end
            append(problems, documentation.differences("zklock.Stat", meta.classes["zklock.Stat"].fields, "C", stat))
            local stats = documentation.c_fields(client:match("\nstatic int client_stats.-\n}"), "set_count")
            stats.memory, stats.reconnects, stats.wait_time = true, true, true -- the first two are Lua's
            append(problems, documentation.differences("zklock.Stats", meta.classes["zklock.Stats"].fields, "C", stats))
            local contender = documentation.c_fields(ticket:match("\nstatic void push_contender.-\n}"), "lua_setfield")
            append(problems, documentation.differences("zklock.Contender", meta.classes["zklock.Contender"].fields, "C",
                contender))
            local events = {}
            for event in operation:gmatch('%[ZKL_EVENT_%u+%] = "(%l+)"') do
                events[event] = true
            end
            append(problems, documentation.differences("zklock.Event", meta.aliases["zklock.Event"].literals, "C", events))
            none(problems)
        end)

        it("names exactly what the header of adapters.lua says of an adapter", function()
            local described = {}
            local header = table.concat(docstrings.read(read("lua/zklock/adapters.lua")).header.text, "\n")
            for name in header:gmatch("%f[%w]adapter%.(%l+)") do
                described[name] = true
            end
            none(documentation.differences("zklock.Adapter", meta.classes["zklock.Adapter"].fields, "adapters.lua", described))
        end)

        it("is a meta file that a language server finds under the module's name, and Lua can read", function()
            assert.matches("^%-%-%-@meta zklock\n", read(META))
            assert(loadfile(META))
        end)
    end)

    describe("of the README", function()
        it("lists exactly the codes that there are", function()
            local listed = documentation.table_words(readme, "| code | means |")
            none(documentation.differences("README.md", listed, "the sources", codes))
        end)

        it("has no code that nothing answers", function()
            assert.same({}, select(2, every_code()))
        end)

        it("shows every method", function()
            local problems = {}
            for _, name in ipairs(documentation.sorted(functions)) do
                local class, method = name:match("^(%w+)[:.](.*)$")
                local call = name
                if class ~= "zklock" then
                    call = class:lower() .. ":" .. method
                end
                if not readme_code:find("%f[%w_]" .. call:gsub("%.", "%%.") .. "%f[^%w_]") then
                    problems[#problems + 1] = call .. ": not in README.md"
                end
            end
            none(problems)
        end)

        it("shows every option", function()
            local problems = {}
            for name, one in pairs((with_options())) do
                for option in pairs(one.known) do
                    if not readme_code:find("%f[%w_]" .. option .. "%f[^%w_]") then
                        problems[#problems + 1] = ("%s: the option '%s' is not in README.md"):format(name, option)
                    end
                end
            end
            none(problems)
        end)

        it("shows every field of the tables that zklock hands out", function()
            local problems = {}
            for _, class in ipairs { "Stat", "Contender" } do
                for field in pairs(meta.classes["zklock." .. class].fields) do
                    if not readme_code:find("%f[%w_]" .. field .. "%f[^%w_]") then
                        problems[#problems + 1] = ("%s of a %s: not in README.md"):format(field, class)
                    end
                end
            end
            none(problems)
        end)
    end)
end)

describe("docs/reliability.md", function()
    local rows = documentation.rows(read("docs/reliability.md"), "Traps of the client and the server")
    local paths = {}
    for _, ending in ipairs { ".lua", ".c" } do
        for _, path in ipairs(files.find("spec", ending)) do
            paths[path:match("[^/]+$")] = path
        end
    end

    it("names, for each trap, what would notice it, or says why it cannot reach us", function()
        local problems = {}
        assert.is_true(#rows > 50, #rows)
        for _, cells in ipairs(rows) do
            if #cells ~= 3 then
                problems[#problems + 1] = ("%d cells: %s"):format(#cells, cells[1])
            elseif not documentation.references(cells[3])[1] and not cells[3]:find("^Not tested: %l") then
                problems[#problems + 1] = "nothing is named: " .. cells[1]
            end
        end
        none(problems)
    end)

    it("names only specs, checks and tests that are there", function()
        local problems, names = {}, 0
        for _, cells in ipairs(rows) do
            for _, reference in ipairs(documentation.references(cells[3] or "")) do
                local path = paths[reference.file]
                names = names + 1
                if not path or not documentation.has_title(path, read(path), reference.title) then
                    problems[#problems + 1] = ("%s: %s"):format(reference.file or "no file", reference.title)
                end
            end
        end
        assert.is_true(names > 80, names)
        none(problems)
    end)
end)

describe("the README's Lua", function()
    local readme = read("README.md")
    local printed, environment

    teardown(fixture.clean)

    setup(function()
        local client = fixture.client()
        printed = {}
        local root = fixture.directory()
        environment = setmetatable({
            client = client,
            zklock = zklock,
            expect = documentation.expect,
            lock = client:mutex(root .. "/lock"),
            os = setmetatable({
                getenv = function(name)
                    return name == "ZOOKEEPER" and fixture.servers() or os.getenv(name)
                end
            }, { __index = os }),
            print = function(...)
                local words = {}
                for index = 1, select("#", ...) do
                    words[index] = tostring((select(index, ...)))
                end
                printed[#printed + 1] = table.concat(words, "\t")
            end
        }, { __index = _G })
    end)

    local first
    for _, block in ipairs(documentation.code_blocks(readme)) do
        first = first or block.language == "lua" and block
        if block.language == "lua" then
            it("runs, and comes to what it says: the block at line " .. block.line, function()
                printed = {}
                assert(documentation.load_block(block.text, "=README.md:" .. block.line, environment))()
                if block == first then
                    local expected = assert(readme:match("\nprints, but for the number,\n\n```\n(.-)\n```"))
                    assert.equal((expected:gsub("%d+%-%d+", "N")), (table.concat(printed, "\n"):gsub("%d+%-%d+", "N")))
                end
            end)
        end
    end
end)

describe("the check of the documentation", function()
    --- A made-up source that is loaded, and what the check says of its function `name`.
    local function problems_of(source, name, codes)
        local chunk = assert(compat.load_text(source, "@made-up.lua"))
        return documentation.function_problems("Thing:" .. name, chunk()[name], function()
            return source
        end, codes or {})
    end

    local GOOD = [[
local Thing = {}

--- Does it.
-- @tparam string what
-- @tparam number|nil often
-- @param ... more
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code "lost"
function Thing:run(what, often, ...)
    return what, often, ...
end

return Thing
]]

    it("finds nothing wrong with a function that is documented", function()
        assert.same({}, problems_of(GOOD, "run", { lost = true }))
    end)

    it("misses a docstring that is not there, is an ordinary comment, or does not stand directly above", function()
        local expected = { "Thing:run: has no docstring directly above it" }
        assert.same(expected, problems_of(GOOD:gsub("%-%-%- Does it", "-- Does it"), "run", { lost = true }))
        assert.same(expected, problems_of(GOOD:gsub("\nfunction", "\n\nfunction"), "run", { lost = true }))
        assert.same(expected, problems_of("local Thing = {}\nfunction Thing:run() end\nreturn Thing", "run"))
    end)

    it("sees a parameter that is missing, too many, renamed or in another place", function()
        for changed, documented in pairs {
            [GOOD:gsub("%-%- @tparam string what\n", "")] = "(often, ...)",
            [GOOD:gsub("%-%- @param", "-- @tparam table extra\n-- @param")] = "(what, often, extra, ...)",
            [GOOD:gsub("nil often", "nil times")] = "(what, times, ...)",
            [GOOD:gsub("(%-%- @tparam string what\n)(%-%- @tparam number|nil often\n)", "%2%1")] = "(often, what, ...)"
        } do
            assert.same({ ("Thing:run: documented as %s, but it is (what, often, ...)"):format(documented) },
                problems_of(changed, "run", { lost = true }))
        end
    end)

    it("sees a tag that LDoc does not know, and a code that does not exist", function()
        assert.same({ "Thing:run: @tretrun is no tag" }, problems_of(GOOD:gsub("@treturn true", "@tretrun true"), "run",
            { lost = true }))
        assert.same({ 'Thing:run: there is no code "lost"' }, problems_of(GOOD, "run", { found = true }))
    end)

    it("learns the options from what a function says to one that it does not know", function()
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

    it("sees an option that is not documented, neither here nor where the docstring points", function()
        local all = {
            ["Thing:run"] = docstrings.parse_comment({ "Runs.", "@tparam table settings `first`; others as of Thing:walk" }),
            ["Thing:walk"] = docstrings.parse_comment({ "Walks.", "@tparam table settings `{second = true}`" })
        }
        assert.same({}, documentation.option_problems("Thing:run", all, { first = true, second = true }))
        assert.same({ "Thing:run: the option 'third' is not documented" },
            documentation.option_problems("Thing:run", all, { first = true, second = true, third = true }))
        all["Thing:walk"] = nil
        assert.same({ "Thing:run: the option 'second' is not documented" },
            documentation.option_problems("Thing:run", all, { first = true, second = true }))
    end)

    it("sees annotations that differ from the docstring", function()
        local function problems(annotations)
            local annotated = documentation.read_meta("---@class zklock.Thing\nlocal Thing = {}\n\n" .. annotations)
            local doc = docstrings.read(GOOD).definitions[2].doc
            return documentation.annotation_problems("Thing:run", doc, annotated.functions["Thing:run"])
        end
        assert.same({}, problems [[
---@param what string
---@param often? number
---@param ... any
function Thing:run(what, often, ...) end]])
        assert.same({ "Thing:run: often is optional in the docstring or the annotation, not in both" }, problems [[
---@param what string
---@param often number
---@param ... any
function Thing:run(what, often, ...) end]])
        assert.same({ "Thing:run: annotated as (what, often, ...), but its @params are (what, ...)" }, problems [[
---@param what string
---@param ... any
function Thing:run(what, often, ...) end]])
        assert.same({ "Thing:run: documented as (what, often, ...), annotated as (what)" }, problems [[
---@param what string
function Thing:run(what) end]])
    end)

    it("reads classes, fields and the literals of an alias", function()
        local meta = documentation.read_meta([[
---@alias zklock.Word
---| "yes" # or "no"
---| "maybe"

---@class zklock.Other : zklock.Thing
---@field name? string its "name"
]])
        assert.same({ yes = true, maybe = true }, meta.aliases["zklock.Word"].literals)
        assert.equal("zklock.Thing", meta.classes["zklock.Other"].base)
        assert.is_true(meta.classes["zklock.Other"].fields.name.optional)
    end)

    it("finds the codes in C, those that nothing answers, and those in Lua", function()
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

    it("says what one list has and the other has not, both ways", function()
        assert.same({ "a: in A and not in B", "c: in B and not in A" },
            documentation.differences("A", { a = true, b = true }, "B", { b = true, c = true }))
    end)

    it("reads code blocks, words between backticks and tables of Markdown", function()
        local page = "Say `one`.\n\n```lua\ntwo()\n```\n\n| code | means |\n|---|---|\n| `x`, `y` | `z` |\n\n| `v` | w |\n"
        assert.same({ x = true, y = true }, documentation.table_words(page, "| code | means |"))
        assert.equal("two()", documentation.code_blocks(page)[1].text)
        assert.equal(4, documentation.code_blocks(page)[1].line)
        assert.matches("two%(%)\none\nx", documentation.code_of(page))
    end)

    it("reads the rows of a section's tables, and what their cells refer to", function()
        local page = "## A\n\n| a | b |\n|---|---|\n| no | x |\n\n## B\n"
            .. '| a | b |\n|---|---|\n| 1 | `x_spec.lua`: "y z" |\n\n## C\n'
        local rows = documentation.rows(page, "B")
        assert.same({ { "1", '`x_spec.lua`: "y z"' } }, rows)
        assert.same({ { file = "x_spec.lua", title = "y z" } }, documentation.references(rows[1][2]))
        assert.same({ { file = "a.c", title = "b" }, { file = "a.c", title = "c" }, { file = "d.lua", title = "e" } },
            documentation.references('`T`: `a.c`: "b", "c"; `d.lua`: "e"'))
        assert.same({}, documentation.references("`a.c` only"))
    end)

    it("finds the titles of specs, also of those that are put together, and tests in C", function()
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

    it("runs code blocks, and holds what they come to against what they say", function()
        local function run(text)
            assert(documentation.load_block(text, "=x", { expect = documentation.expect, two = function() return 2, "b" end }))()
        end
        run('two() --> 2, "b"; and more\nlocal a, b = two()\nlocal c = two() --> 2, "b"\nprint(c) --> 2: two\ntwo() --> a number\n')
        assert.error_matches(function() run("\ntwo()  --> 3\n") end, 'expected 3, got 2, "b"')
        assert.is_nil((documentation.load_block("x = = 1", "=x", {})))
    end)
end)
