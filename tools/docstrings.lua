--- docstrings: reads the functions of a Lua source and the comments directly above them.
--
-- tools/reference.lua makes the reference of them, and spec/contract/docs_api_spec.lua compares them with the functions that exist.
-- Reads sources as this project writes them, line by line; it is not a Lua parser.
--
-- A docstring is a comment whose first line begins with "---" and that is directly above a definition. Tags begin with "---@": they
-- are those that language servers read, "---@param name? type text" and "---@return type name text", or "# text" without a name.

local docstrings = {}

--- The public classes and modules, in the order in which the reference lists them: the files that define their functions, and the
-- module's name for require. Of a class the methods are public (`Class:name`), of a module its functions; names that begin with
-- one underscore are private. The text of a section of a class may be a file's header.
docstrings.PUBLIC = {
    { name = "zklock", kind = "module", module = "zklock", files = { "lua/zklock/init.lua", "lua/zklock/key.lua" } },
    { name = "Client", kind = "classmod", module = "zklock.client", files = { "lua/zklock/client.lua", "lua/zklock/node.lua" },
      sections = { ["lua/zklock/node.lua"] = "Nodes" } },
    { name = "Lock", kind = "classmod", module = "zklock.lock", files = { "lua/zklock/lock.lua" } },
    { name = "Hold", kind = "classmod", module = "zklock.lock.hold", files = { "lua/zklock/lock/hold.lua" } },
    { name = "RwLock", kind = "classmod", module = "zklock.rwlock", files = { "lua/zklock/rwlock.lua" } },
    { name = "Latch", kind = "classmod", module = "zklock.latch", files = { "lua/zklock/latch.lua" } },
    { name = "Semaphore", kind = "classmod", module = "zklock.semaphore", files = { "lua/zklock/semaphore.lua" }, base = "Lock" },
    { name = "Multi", kind = "classmod", module = "zklock.multi", files = { "lua/zklock/multi.lua" } },
    { name = "MultiHold", kind = "classmod", module = "zklock.multi.hold", files = { "lua/zklock/multi/hold.lua" } },
    { name = "Transaction", kind = "classmod", module = "zklock.transaction", files = { "lua/zklock/transaction.lua" } },
    { name = "Watch", kind = "classmod", module = "zklock.node", field = "Watch", files = { "lua/zklock/node.lua" } },
    { name = "metrics", kind = "module", module = "zklock.metrics", files = { "lua/zklock/metrics.lua" } },
    { name = "Collector", kind = "classmod", module = "zklock.metrics", field = "Collector",
      files = { "lua/zklock/metrics.lua" } },
    { name = "ui", kind = "module", module = "zklock.ui", files = { "lua/zklock/ui.lua" } },
    { name = "inspect", kind = "module", module = "zklock.inspect", files = { "lua/zklock/inspect.lua" } },
    { name = "Watcher", kind = "classmod", module = "zklock.inspect.watcher", files = { "lua/zklock/inspect/watcher.lua" } },
    { name = "Call", kind = "classmod", module = "zklock.call", files = { "lua/zklock/call.lua" } },
    { name = "Leader", kind = "classmod", module = "zklock.leader", files = { "lua/zklock/leader.lua" } }
}

function docstrings.read_file(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("*a")
    file:close()
    return text
end

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
    if not owner then
        owner, separator, name, arguments = text:match("^%s*([%a_][%w_]*)([.])([%w_]+)%s*=%s*function%s*(%b())")
    end
    if owner then
        return { kind = "function", owner = owner, separator = separator, name = name, arguments = split_arguments(arguments) }
    end
    arguments = text:match("^return function%s*(%b())")
    if arguments then
        return { kind = "function", name = "return", arguments = split_arguments(arguments) }
    end
    name, arguments = text:match("^%s*local%s+function%s+([%w_]+)%s*(%b())")
    if name then
        return { kind = "local", name = name, arguments = split_arguments(arguments) }
    end
    name = text:match("^local%s+([%a_][%w_]*)%s*=%s*{}$")
    if name then
        return { kind = "local_table", name = name }
    end
    name = text:match("^%s+([%a_][%w_]*)%s*=%s*[^=]")
    return name and { kind = "field", name = name } or nil
end

--- Splits 'number seconds, 1 or more' into the type and the text. A type has blanks between brackets, and after ":" and "," only.
function docstrings.split_type(text)
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

--- Splits a docstring, without its dashes, into `text` and its tags: `params` ({ name, optional, type, text }), `returns` ({ type,
-- name, text }; the name may be nil), `unknown` (names of tags that are none of these). Lines below a tag are part of its text.
function docstrings.parse_comment(lines)
    local doc = { text = "", params = {}, returns = {}, unknown = {} }
    local current = doc
    for _, line in ipairs(lines) do
        local tag, rest = line:match("^@(%w+)%s*(.*)$")
        if tag == "param" then
            local name, optional, described = rest:match("^([%w_.]+)(%??)%s*(.*)$")
            current = { name = name, optional = optional == "?" }
            current.type, current.text = docstrings.split_type(described or "")
            doc.params[#doc.params + 1] = current
        elseif tag == "return" then
            current = {}
            current.type, rest = docstrings.split_type(rest)
            current.name, current.text = rest:match("^([%a_.][%w_.]*) ?(.*)$")
            current.text = current.text or rest:gsub("^# ?", "")
            doc.returns[#doc.returns + 1] = current
        elseif tag then
            current = { tag = tag, text = rest }
            doc.unknown[#doc.unknown + 1] = current
        else
            current.text = current.text == "" and line or current.text .. "\n" .. line
        end
    end
    return doc
end

local function without_dashes(line)
    return (line:gsub("^%s*%-%-%-?", "", 1):gsub("^ ", "", 1):gsub("%s+$", ""))
end

--- Reads a source.
---@return table # `header`: the docstring that the file begins with, parsed, or nil; `definitions`: the definitions, in
--   order: `kind` ("function", "local", "field"), `owner`, `separator` ("." or ":"), `name`, `arguments`, `line`, and
--   `doc`, the docstring directly above, parsed, with its `lines`; nil if there is none; `titles`: { line, title } of the
--   comments that divide the file into sections
function docstrings.read(text)
    local lines = split_lines(text)
    local result = { definitions = {}, titles = {} }
    local comment, first
    for index, line in ipairs(lines) do
        if line:find("^%s*%-%-") then
            if not comment then
                comment, first = {}, index
                comment.is_doc = line:find("^%s*%-%-%-[^-]") ~= nil or line:find("^%s*%-%-%-$") ~= nil
                local title = line:match("^%-%- (%u[%w ]+) %-%-%-%-+$")
                if not title and (lines[index + 1] or ""):find("^%-%- %-%-%-%-+$") then
                    title = line:match("^%-%- (%u[%w ]+)$")
                end
                if title then
                    result.titles[#result.titles + 1] = { line = index, title = title }
                end
            end
            comment[#comment + 1] = without_dashes(line)
        else
            local doc = comment and comment.is_doc and docstrings.parse_comment(comment) or nil
            if doc and first == 1 then
                result.header = doc
            end
            local defined = definition(lines, index)
            if defined then
                defined.line = index
                defined.doc = doc
                result.definitions[#result.definitions + 1] = defined
            end
            comment = nil
        end
    end
    return result
end

--- Whether a definition is part of the public class or module of that entry of PUBLIC.
function docstrings.is_public(entry, defined)
    if defined.name:find("^_[^_]") then
        return false
    elseif defined.kind == "field" then
        return defined.doc ~= nil and not entry.field
    elseif defined.kind ~= "function" then
        return false
    elseif entry.kind == "module" then
        return defined.name == "return" or defined.owner == entry.name
    end
    return defined.owner == entry.name and defined.separator == ":"
end

return docstrings
