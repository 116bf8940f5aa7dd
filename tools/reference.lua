--- reference: writes the reference of modules in Markdown, from the docstrings of the sources. For tools/site.py.
--
--   lua5.4 tools/reference.lua PAGE…     prints the pages with their references, and "\0" after each
--
-- A page has a line `<!-- reference: MODULE… -->` where the text belongs. The text of a module is the header of its file, its
-- tables, and the functions of its classes. Of a function it says how to call it, whether it waits, and its arguments, options,
-- results and codes. The example is the first line of the page's code that calls it. A link begins with "/", and is from the
-- project's directory on.
-- Problems go to standard error, and the exit status is 1 if there are any.

local docstrings = require "tools.docstrings"

local CODES, PHASES = "/docs/reference/codes.md", "/docs/openresty.md#calls-by-phase"

local METAMETHODS = {
    __close = "`local x <close> = …` from Lua 5.4 on",
    __tostring = "`tostring`"
}

--- The modules with something to show, and all classes and aliases, by name.
local modules, classes = {}, {}
for _, source in ipairs(docstrings.library()) do
    for _, entry in ipairs(source.entries) do
        modules[source.name] = source
        classes[entry.name] = classes[entry.name] or entry
    end
end

local has_problems = false

local function complain(...)
    has_problems = true
    io.stderr:write(string.format(...), "\n")
end

--- "Lock:acquire" or "Stat" -> where it is described.
local places = {}

local function link(class, method)
    return places[method and class .. ":" .. method or class]
end

--- "Lock", "acquire" -> "lock-acquire"
local function anchor(class, name)
    return (class .. (name and "-" .. name or "")):gsub("%.", "-"):lower()
end

-- Text ------------------------------------------------------------------------------------------------------------------

--- Running text of a docstring as Markdown: the names of functions are links, words in quotes are code, and "<" begins no HTML.
-- Text between backticks is left alone.
local function running(text)
    local function linked(class, separator, name)
        local target = link(class, name)
        return target and ("[`%s%s%s`](%s)"):format(class:lower(), separator, name, target)
    end
    return (("`" .. text .. "`"):gsub("`([^`]*)`", function(part)
        part = part:gsub("<", "&lt;"):gsub('"[^"\n]*"', "`%0`")
        part = part:gsub("%f[%w](%u%w+)(:)(%l[%w_]*)", linked):gsub("%f[%w](zklock)(%.)(%l[%w_]*)%f[^%w_]", linked)
        return "`" .. part .. "`"
    end):sub(2, -2))
end

--- The text of a docstring as Markdown: lists are at the margin, and lines that are indented further are code.
local function markdown(source)
    local written, text, code, in_list = {}, {}, nil, false
    local function flush()
        if code then
            while code[#code] == "" do
                code[#code] = nil
            end
            written[#written + 1] = "\n```lua\n" .. table.concat(code, "\n") .. "\n```\n"
        elseif text[1] then
            written[#written + 1] = running(table.concat(text, "\n"))
        end
        text, code = {}, nil
    end
    for line in (source .. "\n"):gmatch("(.-)\n") do
        local item = line:find("^  %* ")
        if item and not in_list then
            text[#text + 1] = ""
        end
        in_list = item ~= nil or in_list and line:find("^   ") ~= nil
        if not in_list and (line:find("^    ") or code and line == "") then
            if not code then
                flush()
                code = {}
            end
            code[#code + 1] = line:sub(5)
        else
            if code then
                flush()
            end
            text[#text + 1] = in_list and line:sub(3) or line
        end
    end
    flush()
    return (table.concat(written, "\n"):gsub("\n\n\n+", "\n\n"))
end

--- A text in one line, for a table's cell.
local function cell(text)
    return (running((text:gsub("%s*\n%s*", " "))):gsub("|", "\\|"))
end

--- "zklock.Client|zklock.ReadOptions?" -> "`Client`, `table`, `nil`", with links to the tables that are described.
local function types(text, optional)
    local words = {}
    text = text:gsub("%?$", "|nil") .. (optional and "|nil" or "")
    for word in text:gsub("^fun%b().*", "function"):gsub("zklock%.%w+Options", "table"):gsub("zklock%.", ""):gmatch("[^|]+") do
        local target = link(word:match("^[%w.]+") or "")
        words[#words + 1] = target and ("[`%s`](%s)"):format(word, target) or "`" .. word .. "`"
    end
    return table.concat(words, ", ")
end

--- A table of arguments, options or fields; "" if there are none.
local function rows(title, fields)
    if not fields[1] then
        return ""
    end
    local written = { ("\n| %s | type | meaning |\n|---|---|---|"):format(title) }
    for _, field in ipairs(fields) do
        written[#written + 1] = ("| `%s` | %s | %s |"):format(field.name, types(field.type, field.optional),
            cell(field.text))
    end
    return table.concat(written, "\n") .. "\n"
end

-- Functions -------------------------------------------------------------------------------------------------------------

--- The class of a parameter's options; nil: it takes none.
local function options_class(param)
    return classes[param.type:match("zklock%.(%w+Options)")]
end

--- Whether a function may wait: it takes a timeout, or it is a try, which waits for the server's answer.
local function waits(name, params)
    for _, param in ipairs(params) do
        if param.name:find("timeout$") then
            return true
        end
        local class = options_class(param)
        if class and waits("", class.fields) then
            return true
        end
    end
    return name == "try_acquire"
end

--- The example of a function: the first statement in the page's Lua that calls it.
local function example(blocks, name)
    for _, block in ipairs(blocks) do
        local found, depth
        for line in (block .. "\n"):gmatch("(.-)\n") do
            if not found and line:find("[%w_%])][:.]" .. name .. "%f[^%w_]%s*[({]") and not line:find("^%s*%-%-") then
                found, depth = {}, 0
            end
            if found then
                local code = line:gsub("%s*%-%-.*$", "")
                depth = depth + select(2, code:gsub("[({]", "")) - select(2, code:gsub("[)}]", ""))
                found[#found + 1] = line
                if depth <= 0 then
                    break
                end
            end
        end
        if found then
            local indent = found[1]:match("^%s*")
            for index, line in ipairs(found) do
                found[index] = line:gsub("^" .. indent, ""):gsub("(%S)%s+%-%-", "%1  --", 1)
            end
            return table.concat(found, "\n")
        end
    end
end

local function returned(doc)
    local written = {}
    for _, result in ipairs(doc.returns) do
        local text = cell(result.text)
        if result.name == "code" then
            written[#written + 1] = ("- after a failure: `nil`, the message and the [code](%s)%s"):format(CODES,
                text == "" and "" or ": " .. text)
        elseif result.name ~= "message" then
            local name = result.name ~= "..." and result.name or ""
            local between = (name == "" or text == "") and "" or text:find("^o[rf] ") and " " or ": "
            written[#written + 1] = ("- %s %s%s%s"):format(types(result.type, false), name, between, text)
        end
    end
    return written
end

--- The text of one function. `blocks` is the Lua in which its example is looked for.
local function function_text(class, defined, blocks)
    local doc, name = defined.doc or docstrings.parse_comment({}), defined.name
    local written = {}
    local function add(text)
        written[#written + 1] = text
    end
    if METAMETHODS[name] then
        add(("### %s { #%s }\n"):format(METAMETHODS[name], anchor(class, name)))
        add(markdown(doc.text) .. "\n")
        return table.concat(written, "\n")
    end
    add(("### %s%s%s(%s) { #%s data-toc-label=\"%s\" }\n"):format(class:lower(), defined.separator, name,
        table.concat(defined.arguments, ", "), anchor(class, name), name))
    add(markdown(doc.text) .. "\n")
    add(rows("argument", doc.params))
    for _, param in ipairs(doc.params) do
        local options = options_class(param)
        add(options and rows("option", options.fields) or nil)
    end
    local results = returned(doc)
    if results[1] then
        add("Returns\n\n" .. table.concat(results, "\n") .. "\n")
    end
    if waits(name, doc.params) then
        add("Context: [waits](" .. PHASES .. ").\n")
    else
        add("Context: does not wait, and may be called in [every phase](" .. PHASES .. ") in which there is a client.\n")
    end
    local shown = example(blocks, name)
    if shown then
        add("```lua\n" .. shown .. "\n```\n")
    else
        complain("%s%s%s: no code shows it", class, defined.separator, name)
    end
    return table.concat(written, "\n")
end

-- Modules ---------------------------------------------------------------------------------------------------------------

--- Whether an entry has a text of its own: options are described with the functions that take them.
local function is_table(entry)
    return not entry.functions[1] and not entry.name:find("Options$")
end

--- The text of a table, or of the words that an alias stands for.
local function table_text(entry)
    local words = { "\n| value | meaning |\n|---|---|" }
    for _, value in ipairs(entry.values) do
        words[#words + 1] = ('| `"%s"` | %s |'):format(value.name, cell(value.text))
    end
    return ("### %s { #%s }\n\n%s\n%s%s"):format(entry.name, anchor(entry.name), markdown(entry.text),
        rows("field", entry.fields), words[2] and table.concat(words, "\n") .. "\n" or "")
end

--- Returns the reference of a module as Markdown. `blocks` is the Lua of the page, and of other pages.
local function module_text(source, blocks)
    local header = source.header:gsub("^[%w.]+: *", ""):gsub("^%l", string.upper)
    local written, last, classes_shown = { "", markdown(header) .. "\n" }, {}, {}
    for _, entry in ipairs(source.entries) do
        if is_table(entry) then
            last[#last + 1] = table_text(entry)
        elseif entry.functions[1] then
            classes_shown[#classes_shown + 1] = entry.name
            written[#written + 1] = markdown(entry.text) .. "\n" .. rows("field", entry.fields)
            for _, defined in ipairs(entry.functions) do
                written[#written + 1] = function_text(entry.name, defined, blocks)
            end
        end
    end
    -- A page may have several modules.
    written[1] = "\n## Reference" .. (classes_shown[1] and ": " .. table.concat(classes_shown, ", ") or "") .. "\n"
    return table.concat(written, "\n") .. table.concat(last, "\n")
end

--- Notes that a page describes a module's functions and tables.
local function place(source, page)
    for _, entry in ipairs(source.entries) do
        if is_table(entry) then
            places[entry.name] = ("/%s#%s"):format(page, anchor(entry.name))
        end
        for _, defined in ipairs(entry.functions) do
            places[entry.name .. ":" .. defined.name] = ("/%s#%s"):format(page, anchor(entry.name, defined.name))
        end
    end
end

-- Pages -----------------------------------------------------------------------------------------------------------------

local MARK = "\n<!%-%- reference: (.-) %-%->\n"

--- Appends the Lua of a page to a list.
local function add_blocks(blocks, text)
    for language, block in ("\n" .. text):gmatch("\n```(%l+)[^\n]*\n(.-)\n```") do
        blocks[#blocks + 1] = (language == "lua" or language == "nginx") and block or nil
    end
end

-- Examples are taken from the page itself, or else from another page of the reference.
local texts, placed, all_blocks = {}, {}, {}
for _, page in ipairs(arg) do
    texts[page] = docstrings.read_file(page)
    for names in texts[page]:gmatch(MARK) do
        for name in names:gmatch("%S+") do
            if not modules[name] or placed[name] then
                complain("%s: %s", page, modules[name] and "a second reference of " .. name or "there is no module " .. name)
            else
                placed[name] = true
                place(modules[name], page)
            end
        end
    end
    if page:find("^docs/reference/") then
        add_blocks(all_blocks, texts[page])
    end
end
for name in pairs(modules) do
    if not placed[name] then
        complain("no page has the reference of %s", name)
    end
end
for _, page in ipairs(arg) do
    local blocks = {}
    add_blocks(blocks, texts[page])
    table.move(all_blocks, 1, #all_blocks, #blocks + 1, blocks)
    io.write((texts[page]:gsub(MARK, function(names)
        local written = {}
        for name in names:gmatch("%S+") do
            written[#written + 1] = modules[name] and module_text(modules[name], blocks)
        end
        return "\n" .. table.concat(written, "\n") .. "\n"
    end)), "\0")
end
os.exit(not has_problems)
