--- docstrings: reads Lua sources, and the comments that describe their functions and tables.
--
-- tools/reference.lua makes the reference of them, and spec/contract/docs_api_spec.lua compares them with the functions that exist.
-- Reads sources as this project writes them, line by line; it is not a Lua parser.
--
-- A docstring is a comment whose first line begins with "---". Tags are those of language servers (LuaCATS), and begin with "---@":
--
--     --- Says what the function does. Further lines begin with "--".
--     ---@param name? type text
--     ---@return type name text
--     ---@return type # text of a result without a name
--
--     --- Says what the table is. Directly above `local Thing = …` it is the class of the functions of Thing. A public class has
--     -- its methods (`Thing:method`), and a module, whose name begins with a small letter, has its functions (`thing.method`).
--     -- Names that begin with an underscore are private.
--     ---@class zklock.Thing: zklock.Base
--     ---@field name? type text
--     -- A text that is too long for that line stands above it.
--     ---@field name? type
--
--     ---@alias zklock.Word
--     ---| "literal" # text

local files = require "tools.files"

local docstrings = { read_file = files.read }

local function split_lines(text)
    local lines = {}
    for line in (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n") do
        lines[#lines + 1] = line
    end
    return lines
end

--- "(a, b, ...)" -> { "a", "b", "..." }
local function split_arguments(text)
    local names = {}
    for name in text:sub(2, -2):gmatch("[^,%s]+") do
        names[#names + 1] = name
    end
    return names
end

--- The definition in the line (and the following lines, if a parameter list continues there); or nil.
local function definition(lines, index)
    local text = lines[index]
    while text:find("function[^(]*%(") and not text:find("function[^(]*%b()") and lines[index + 1] do
        index = index + 1
        text = text .. " " .. lines[index]
    end
    local owner, separator, name, arguments = text:match("^%s*function%s+([%w_]+)([.:])([%w_]+)%s*(%b())")
    if owner then
        return { owner = owner, separator = separator, name = name, arguments = split_arguments(arguments) }
    end
    name, arguments = text:match("^%s*local%s+function%s+([%w_]+)%s*(%b())")
    return name and { name = name, arguments = split_arguments(arguments) } or nil
end

--- Splits 'number seconds, 1 or more' into the type and the text. A type has blanks between brackets, and after ":" and "," only.
local function split_type(text)
    local depth, quoted = 0, false
    for position = 1, #text do
        local char = text:sub(position, position)
        if char == '"' then
            quoted = not quoted
        elseif char:find("[(<{]") then
            depth = depth + 1
        elseif char:find("[)>}]") then
            depth = depth - 1
        elseif char == " " and depth == 0 and not quoted and not text:find("^[:,]", position - 1) then
            return text:sub(1, position - 1), text:sub(position + 1)
        end
    end
    return text, ""
end

--- 'name? type text' -> { name, optional, type, text }
local function split_field(text)
    local name, optional, described = text:match("^([%w_.]+)(%??)%s*(.*)$")
    local field = { name = name, optional = optional == "?" }
    field.type, field.text = split_type(described or "")
    return field
end

--- Reads a docstring, whose lines are without dashes.
---@return table # `text`; `params` and `fields`: { name, optional, type, text }; `returns`: { type, name, text }, the name may be
--   nil; `values` of an alias: { name, text }; `class`, `base`, `alias`: names or nil; `unknown`: tags that are none of these
function docstrings.parse_comment(lines)
    local doc = { text = "", params = {}, returns = {}, fields = {}, values = {}, unknown = {} }
    local current = doc
    local function add(list, one)
        list[#list + 1], current = one, one
        one.text = one.text or ""
    end
    for _, line in ipairs(lines) do
        local tag, rest = line:match("^@(%w+)%s*(.*)$")
        local literal, meaning = line:match('^| "([^"]*)"%s*#?%s*(.*)$')
        if tag == "param" then
            add(doc.params, split_field(rest))
        elseif tag == "return" then
            local kind, described = split_type(rest)
            local name, text = described:match("^([%a_.][%w_.]*) ?(.*)$")
            add(doc.returns, { type = kind, name = name, text = text or described:gsub("^# ?", "") })
        elseif tag == "class" then
            doc.class, doc.base = rest:match("^([%w_.]+):?%s*([%w_.]*)$")
            current = { text = "" } -- of the next field
        elseif tag == "field" then
            local above = current.text
            add(doc.fields, split_field(rest))
            current.text = current.text == "" and above or current.text
            current = { text = "" }
        elseif tag == "alias" then
            local kind
            doc.alias, kind = rest:match("^(%S+)%s*(.*)$")
            for value in kind:gmatch('"([^"]*)"') do
                add(doc.values, { name = value })
            end
        elseif literal then
            add(doc.values, { name = literal, text = meaning })
        elseif tag then
            add(doc.unknown, { name = tag })
        else
            current.text = current.text == "" and line or current.text .. "\n" .. line
        end
    end
    return doc
end

local function without_dashes(line)
    return (line:gsub("^%s*%-%-%-?", "", 1):gsub("^ ", "", 1):gsub("%s+$", ""))
end

--- Whether a definition is public, given the name of the class of its owner.
local function is_public(class, defined)
    return defined.separator == (class:find("%f[%w]%u") and ":" or ".") and not defined.name:find("^_[^_]")
end

--- Reads a source.
---@return table # `header`: the text that the file begins with, or nil; `functions`: all functions, in order: `owner`, `separator`
--   ("." or ":"), `name`, `arguments`, `line`, and `doc`, the docstring directly above, parsed, or nil; `entries`: docstrings of
--   classes and aliases, parsed, in order, with `name`, which is without "zklock.", and `functions`, the public ones of a class
function docstrings.read(text)
    local lines = split_lines(text)
    local source = { functions = {}, entries = {} }
    local classes, comment, first = {}, nil, nil
    for index, line in ipairs(lines) do
        if line:find("^%s*%-%-") then
            if not comment then
                comment, first = {}, index
            end
            comment[#comment + 1] = without_dashes(line)
        else
            local doc = comment and lines[first]:find("^%s*%-%-%-[^-]") and docstrings.parse_comment(comment) or nil
            if doc and first == 1 then
                source.header = doc.text
            end
            local name = doc and (doc.class or doc.alias)
            if name then
                doc.name, doc.functions = name:gsub("^zklock%.", ""), {}
                source.entries[#source.entries + 1] = doc
                classes[line:match("^local ([%a_][%w_]*) = ") or ""] = doc
            end
            local defined = definition(lines, index)
            if defined then
                defined.line, defined.doc = index, doc
                source.functions[#source.functions + 1] = defined
                local class = classes[defined.owner]
                if class and is_public(class.name, defined) then
                    class.functions[#class.functions + 1] = defined
                end
            end
            comment = nil
        end
    end
    return source
end

--- Returns the fields of a class, those of its base first.
local function all_fields(sources, entry)
    local fields = {}
    for _, source in ipairs(sources) do
        for _, base in ipairs(source.entries) do
            for _, field in ipairs(base.class == entry.base and base.fields or {}) do
                fields[#fields + 1] = field
            end
        end
    end
    for _, field in ipairs(entry.fields) do
        fields[#fields + 1] = field
    end
    return fields
end

--- Reads the sources of the library.
---@return table # in the order of their paths, as read, with `path` and `name`, the module's name
function docstrings.library()
    local sources = {}
    for _, path in ipairs(files.lines_of("find lua/zklock -name '*.lua' | LC_ALL=C sort")) do
        local source = docstrings.read(docstrings.read_file(path))
        source.path, source.name = path, path:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
        sources[#sources + 1] = source
    end
    for _, source in ipairs(sources) do
        for _, entry in ipairs(source.entries) do
            entry.fields = all_fields(sources, entry)
        end
    end
    return sources
end

return docstrings
