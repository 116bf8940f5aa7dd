--- Checks the documentation of the API: every public function has a docstring and an annotation that fit it, every option and code
-- is documented, and the pages of the reference show them all.

local compat = require "spec.support.compat"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local Hold = require "zklock.lock.hold"
local zklock = require "zklock"

local META = "docs/types/library/zklock.lua"

local append, none, read = documentation.append, documentation.none, docstrings.read_file

--- Returns every public function: "Lock:acquire" -> function. Metamethods are left out, since they are not called by name.
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
                elseif not defined or defined.separator ~= "." then -- functions with a dot are for the other modules
                    found[entry.name .. ":" .. name] = value
                end
            end
        end
    end
    return found
end

--- Returns the docstrings of functions, by the same names.
local function docs_of(functions)
    local docs = {}
    for name, fn in pairs(functions) do
        local defined = documentation.definition_of(fn, read)
        docs[name] = defined and defined.doc
    end
    return docs
end

--- Returns all codes, and the codes in C's table that neither C nor Lua answers.
local function every_code()
    local engine, all = read("csrc/base/code.c"), {}
    for _, path in ipairs(files.find("csrc", ".c")) do
        all[#all + 1] = read(path)
    end
    local codes, unused = documentation.c_codes(engine, table.concat(all))
    for _, path in ipairs(files.find("lua/zklock", ".lua")) do
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
    local shown = {}
    for _, path in ipairs(files.find("docs/reference", ".md")) do
        shown[#shown + 1] = documentation.code_of(read(path))
    end
    for _, path in ipairs { "docs/metrics.md", "docs/live-view.md" } do
        shown[#shown + 1] = documentation.code_of(read(path))
    end
    shown = table.concat(shown, "\n")
    local codes = every_code()

    --- Every function with options: name -> { known = set, parameter = the parameter with the options }.
    local function with_options()
        local client = zklock.connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
        local objects = {
            Client = client,
            Lock = client:mutex("/a"),
            Hold = Hold.new(client:mutex("/a"), false),
            RwLock = client:rwlock("/a"),
            Semaphore = client:semaphore("/a", 2),
            Latch = client:latch("/a", 2),
            Multi = client:multi { client:mutex("/a") },
            MultiHold = require("zklock.multi.hold").new(client:multi { client:mutex("/a") }, {}),
            Transaction = client:transaction(),
            Watch = setmetatable({}, require("zklock.node").Watch),
            Leader = client:leader("/a")
        }
        local values = { servers = "127.0.0.1:1", path = "/a", key = "a", permits = 2, count = 2, fn = function() end }
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
        for _, name in ipairs { "acquire", "try_acquire", "release", "with_lock" } do -- inherited methods with more options
            look("Semaphore:" .. name, docs["Lock:" .. name], functions["Lock:" .. name], objects.Semaphore)
        end
        client:close()
        return found, problems
    end

    it("covers the API: the checks find classes, methods, options and codes", function()
        for _, name in ipairs { "zklock.connect", "zklock.path", "Client:get", "Client:mutex", "Lock:acquire", "RwLock:with_read",
            "Semaphore:available", "Multi:members", "Transaction:commit", "Watch:wait" } do
            assert(functions[name], name)
        end
        assert.is_nil(functions["Client:new"])
        assert.is_true(#documentation.sorted(functions) >= 50)
        assert.is_true(codes.timeout and codes.bad_version and codes.max_hold and codes.phase and codes.unsupported)
        local found = with_options()
        assert.is_true(found["Client:mutex"].known.max_hold and found["zklock.connect"].known.lease)
        assert.same({ callback = true, keep = true }, found["Lock:try_acquire"].known)
        assert.same({ callback = true, count = true, keep = true }, found["Semaphore:try_acquire"].known)
    end)

    it("has a docstring directly above every public function, with the function's parameters in their order", function()
        local problems = {}
        for _, name in ipairs(documentation.sorted(functions)) do
            append(problems, documentation.function_problems(name, functions[name], read, codes))
        end
        none(problems)
    end)

    it("makes the reference of exactly the public functions", function()
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

    it("mentions every option of a function, in its docstring or in a docstring that it refers to", function()
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

        it("names exactly the existing codes and states", function()
            none(documentation.differences("zklock.Code", meta.aliases["zklock.Code"].literals, "the sources", codes))
            local states = {}
            local block = read("csrc/zk/session.c"):match("zkl_state_name%(zkl_state state%)%s*(%b{})")
            for state in block:gmatch('= "([%l_]+)"') do
                states[state] = true
            end
            none(documentation.differences("zklock.State", meta.aliases["zklock.State"].literals, "the sources", states))
        end)

        it("names exactly the fields of the tables that C makes, and the events of watches", function()
            local operation, client = read("csrc/lua/lua_operation.c"), read("csrc/lua/lua_client.c")
            local problems, stat = {}, {}
            for _, setter in ipairs { "set_hex", "set_number", "set_integer" } do
                for name in pairs(documentation.c_fields(operation, setter)) do
                    stat[name] = true
                end
            end
            append(problems, documentation.differences("zklock.Stat", meta.classes["zklock.Stat"].fields, "C", stat))
            local stats = documentation.c_fields(client:match("\nstatic int client_stats.-\n}"), "set_count")
            stats.memory, stats.reconnects, stats.group_overflows, stats.wait_time = true, true, true, true -- most by Lua
            append(problems, documentation.differences("zklock.Stats", meta.classes["zklock.Stats"].fields, "C", stats))
            local events = {}
            for event in operation:gmatch('%[ZKL_EVENT_%u+%] = "(%l+)"') do
                events[event] = true
            end
            append(problems, documentation.differences("zklock.Event", meta.aliases["zklock.Event"].literals, "C", events))
            none(problems)
        end)

        it("names exactly the adapter functions in the header of adapters.lua", function()
            local described = {}
            local header = docstrings.read(read("lua/zklock/adapters.lua")).header.text
            for name in header:gmatch("%f[%w]adapter%.([%l_]+)") do
                described[name] = true
            end
            none(documentation.differences("zklock.Adapter", meta.classes["zklock.Adapter"].fields, "adapters.lua", described))
        end)

        it("is a meta file that a language server finds by the module's name, and that Lua can read", function()
            assert.matches("^%-%-%-@meta zklock\n", read(META))
            assert(loadfile(META))
        end)
    end)

    describe("of the reference", function()
        it("lists exactly the existing codes", function()
            local listed = documentation.table_words(read("docs/reference/codes.md"), "| code | means |")
            none(documentation.differences("docs/reference/codes.md", listed, "the sources", codes))
        end)

        it("has no code that zklock never answers", function()
            assert.same({}, select(2, every_code()))
        end)

        it("shows every method", function()
            local problems = {}
            for _, name in ipairs(documentation.sorted(functions)) do
                local class, separator, method = name:match("^(%w+)([:.])(.*)$")
                local call = name
                if separator == ":" then
                    call = class:lower() .. ":" .. method
                end
                if not shown:find("%f[%w_]" .. call:gsub("%.", "%%.") .. "%f[^%w_]") then
                    problems[#problems + 1] = call .. ": not in docs/reference"
                end
            end
            none(problems)
        end)

        it("shows every option", function()
            local problems = {}
            for name, one in pairs((with_options())) do
                for option in pairs(one.known) do
                    if not shown:find("%f[%w_]" .. option .. "%f[^%w_]") then
                        problems[#problems + 1] = ("%s: the option '%s' is not in docs/reference"):format(name, option)
                    end
                end
            end
            none(problems)
        end)

        it("shows every field of the tables that zklock returns", function()
            local problems = {}
            for _, class in ipairs { "Stat", "Contender" } do
                for field in pairs(meta.classes["zklock." .. class].fields) do
                    if not shown:find("%f[%w_]" .. field .. "%f[^%w_]") then
                        problems[#problems + 1] = ("%s of a %s: not in docs/reference"):format(field, class)
                    end
                end
            end
            none(problems)
        end)
    end)
end)
