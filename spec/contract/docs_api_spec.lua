--- Checks the documentation of the API: every public function has a docstring that fits it, every option and code is documented,
-- and the pages of the reference show them all.

local compat = require "spec.support.compat"
local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local Hold = require "zklock.lock.hold"
local zklock = require "zklock"

local append, none, read = documentation.append, documentation.none, docstrings.read_file

local library = docstrings.library()

--- Returns every public function of the sources: "Lock:acquire" -> its definition. Metamethods are left out.
local function documented_functions()
    local found = {}
    for _, source in ipairs(library) do
        for _, entry in ipairs(source.entries) do
            for _, defined in ipairs(entry.functions) do
                if not defined.name:find("^_") then
                    found[entry.name .. defined.separator .. defined.name] = defined
                end
            end
        end
    end
    return found
end

--- Returns every public function that exists: "Lock:acquire" -> function. Metamethods are left out.
local function public_functions()
    local found = {}
    for _, source in ipairs(library) do
        for _, entry in ipairs(source.entries) do
            local class = entry.functions[1] and require(source.name)
            class = class and class[entry.name] or class
            for name, value in pairs(class or {}) do
                if type(name) == "string" and type(value) == "function" and not name:find("^_") then
                    local defined = documentation.definition_of(value, read)
                    local separator = entry.name:find("^%l") and "." or ":"
                    if not defined or defined.separator == separator then -- functions with a dot are for the other modules
                        found[entry.name .. separator .. name] = value
                    end
                end
            end
        end
    end
    return found
end

--- Returns all codes, and the codes in C's table that neither C nor Lua answers.
local function every_code()
    local engine, all = read("csrc/base/base.c"), {}
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
    local functions, documented = public_functions(), documented_functions()
    local entries = {}
    for _, source in ipairs(library) do
        for _, entry in ipairs(source.entries) do
            entries[entry.name] = entry
        end
    end
    local shown = {}
    for _, path in ipairs(files.find("docs/reference", ".md")) do
        shown[#shown + 1] = documentation.code_of(read(path))
    end
    for _, path in ipairs { "docs/metrics.md", "docs/live-view.md" } do
        shown[#shown + 1] = documentation.code_of(read(path))
    end
    shown = table.concat(shown, "\n")
    local codes = every_code()

    --- Every function with options: name -> { known = set, class = the name of the class of its options }.
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
            Leader = client:leader("/a"),
            Group = client:group("/a"),
            World = require("zklock.testing").world()
        }
        local values = { servers = "127.0.0.1:1", path = "/a", key = "a", permits = 2, count = 2, fn = function() end }
        local found, problems = {}, {}
        local function look(name, doc, method, object)
            local parameter, class = documentation.options_parameter(doc)
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
                found[name] = { known = known, class = class }
            else
                problems[#problems + 1] = name .. ": is documented to take options and does not complain about unknown ones"
            end
        end
        for name, fn in pairs(functions) do
            look(name, documented[name].doc, fn, objects[name:match("^%w+")])
        end
        for _, name in ipairs { "acquire", "try_acquire", "release", "with_lock" } do -- inherited methods with more options
            look("Semaphore:" .. name, documented["Lock:" .. name].doc, functions["Lock:" .. name], objects.Semaphore)
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
        none(documentation.differences("the sources", documented, "the running module", functions))
    end)

    it("names exactly the options that functions take", function()
        local found, problems = with_options()
        local taken = {}
        for _, one in pairs(found) do
            taken[one.class] = taken[one.class] or {}
            for option in pairs(one.known) do
                taken[one.class][option] = true
            end
        end
        for name, entry in pairs(entries) do
            if name:find("Options$") then
                local fields = documentation.names(entry.fields)
                append(problems, documentation.differences(name, fields, "what takes it", taken[name] or {}))
            end
        end
        none(problems)
    end)

    it("has no tag and no type that does not exist", function()
        local problems = {}
        for _, source in ipairs(library) do
            for _, entry in ipairs(source.entries) do
                append(problems, documentation.tag_problems(entry.name, entry, entries))
            end
            for _, defined in ipairs(source.functions) do
                local name = source.path .. ": " .. defined.name
                append(problems, defined.doc and documentation.tag_problems(name, defined.doc, entries) or {})
            end
        end
        none(problems)
    end)

    describe("of tables and words", function()
        it("names exactly the existing codes and states", function()
            none(documentation.differences("zklock.Code", documentation.names(entries.Code.values), "the sources", codes))
            local states = {}
            local block = read("csrc/zk/session.c"):match("zkl_state_name%(zkl_state state%)%s*(%b{})")
            for state in block:gmatch('= "([%l_]+)"') do
                states[state] = true
            end
            none(documentation.differences("zklock.State", documentation.names(entries.State.values), "the sources", states))
        end)

        it("names exactly the fields of the tables that C makes, and the events of watches", function()
            local operation, client = read("csrc/lua/lua_operation.c"), read("csrc/lua/lua_client.c")
            local problems, stat = {}, {}
            for _, setter in ipairs { "set_hex", "set_number", "set_integer" } do
                for name in pairs(documentation.c_fields(operation, setter)) do
                    stat[name] = true
                end
            end
            append(problems, documentation.differences("zklock.Stat", documentation.names(entries.Stat.fields), "C", stat))
            local stats, text = {}, client:match "\nstatic int client_stats.-\n}"
            for _, setter in ipairs { "set_integer", "set_seconds_left" } do
                for name in pairs(documentation.c_fields(text, setter)) do
                    stats[name] = true
                end
            end
            stats.memory, stats.reconnects, stats.group_overflows, stats.wait_time = true, true, true, true -- most by Lua
            append(problems, documentation.differences("zklock.Stats", documentation.names(entries.Stats.fields), "C", stats))
            local events = {}
            for event in operation:gmatch('%[ZKL_EVENT_%u+%] = "(%l+)"') do
                events[event] = true
            end
            append(problems, documentation.differences("zklock.Event", documentation.names(entries.Event.values), "C", events))
            none(problems)
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
    end)
end)
