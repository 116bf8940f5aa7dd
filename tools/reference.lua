--- reference: writes the reference of modules in Markdown, from the docstrings of the sources.
--
-- For tools/site.lua. A page of docs/ has a line `<!-- reference: MODULE… -->` where the text belongs. The text of a module is the
-- header of its file, its tables, and the functions of its classes: how each is called, whether it waits, its arguments, options,
-- results, codes, and an example: the first line of the page's code that calls it.

local docstrings = dofile("tools/docstrings.lua")

local reference = {}

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
reference.modules = modules

--- "Lock", "acquire" -> "lock-acquire"
local function anchor(class, name)
    return (class .. (name and "-" .. name or "")):gsub("%.", "-"):lower()
end

-- Text ------------------------------------------------------------------------------------------------------------------

--- Running text of a docstring as Markdown: the names of functions are links, words in quotes are code, and "<" begins no HTML.
-- Text between backticks is left alone. `link` returns the target for a class and a function, or nil.
local function running(text, link)
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
local function markdown(source, link)
    local written, text, code, in_list = {}, {}, nil, false
    local function flush()
        if code then
            while code[#code] == "" do
                code[#code] = nil
            end
            written[#written + 1] = "\n```lua\n" .. table.concat(code, "\n") .. "\n```\n"
        elseif text[1] then
            written[#written + 1] = running(table.concat(text, "\n"), link)
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
local function cell(text, link)
    return (running((text:gsub("%s*\n%s*", " ")), link):gsub("|", "\\|"))
end

--- "zklock.Client|zklock.ReadOptions?" -> "`Client`, `table`, `nil`", with links to the tables that are described.
local function types(text, optional, link)
    local words = {}
    text = text:gsub("%?$", "|nil") .. (optional and "|nil" or "")
    for word in text:gsub("^fun%b().*", "function"):gsub("zklock%.%w+Options", "table"):gsub("zklock%.", ""):gmatch("[^|]+") do
        local target = link(word:match("^[%w.]+"))
        words[#words + 1] = target and ("[`%s`](%s)"):format(word, target) or "`" .. word .. "`"
    end
    return table.concat(words, ", ")
end

--- A table of arguments, options or fields; "" if there are none.
local function rows(title, fields, link)
    if not fields[1] then
        return ""
    end
    local written = { ("\n| %s | type | meaning |\n|---|---|---|"):format(title) }
    for _, field in ipairs(fields) do
        written[#written + 1] = ("| `%s` | %s | %s |"):format(field.name, types(field.type, field.optional, link),
            cell(field.text, link))
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

local function returned(doc, context)
    local written = {}
    for _, result in ipairs(doc.returns) do
        local text = cell(result.text, context.link)
        if result.name == "code" then
            written[#written + 1] = ("- after a failure: `nil`, the message and the [code](%s)%s"):format(context.codes,
                text == "" and "" or ": " .. text)
        elseif result.name ~= "message" then
            local name = result.name ~= "..." and result.name or ""
            local between = (name == "" or text == "") and "" or text:find("^o[rf] ") and " " or ": "
            written[#written + 1] = ("- %s %s%s%s"):format(types(result.type, false, context.link), name, between, text)
        end
    end
    return written
end

--- The text of one function. `context` is that of reference.text.
local function function_text(class, defined, context)
    local doc, name = defined.doc or docstrings.parse_comment({}), defined.name
    local written = {}
    local function add(text)
        written[#written + 1] = text
    end
    if METAMETHODS[name] then
        add(("### %s { #%s }\n"):format(METAMETHODS[name], anchor(class, name)))
        add(markdown(doc.text, context.link) .. "\n")
        return table.concat(written, "\n")
    end
    add(("### %s%s%s(%s) { #%s data-toc-label=\"%s\" }\n"):format(class:lower(), defined.separator, name,
        table.concat(defined.arguments, ", "), anchor(class, name), name))
    add(markdown(doc.text, context.link) .. "\n")
    add(rows("argument", doc.params, context.link))
    for _, param in ipairs(doc.params) do
        local options = options_class(param)
        add(options and rows("option", options.fields, context.link) or nil)
    end
    local results = returned(doc, context)
    if results[1] then
        add("Returns\n\n" .. table.concat(results, "\n") .. "\n")
    end
    if waits(name, doc.params) then
        add("Context: [waits](" .. context.phases .. ").\n")
    else
        add("Context: does not wait, and may be called in [every phase](" .. context.phases .. ") in which there is a client.\n")
    end
    local shown = example(context.blocks, name)
    if shown then
        add("```lua\n" .. shown .. "\n```\n")
    else
        context.missing(class .. defined.separator .. name)
    end
    return table.concat(written, "\n")
end

-- Modules ---------------------------------------------------------------------------------------------------------------

--- Whether an entry has a text of its own: options are described with the functions that take them.
local function is_table(entry)
    return not entry.functions[1] and not entry.name:find("Options$")
end

--- The text of a table, or of the words that an alias stands for.
local function table_text(entry, context)
    local words = { "\n| value | meaning |\n|---|---|" }
    for _, value in ipairs(entry.values) do
        words[#words + 1] = ('| `"%s"` | %s |'):format(value.name, cell(value.text, context.link))
    end
    return ("### %s { #%s }\n\n%s\n%s%s"):format(entry.name, anchor(entry.name), markdown(entry.text, context.link),
        rows("field", entry.fields, context.link), words[2] and table.concat(words, "\n") .. "\n" or "")
end

--- Returns the reference of a module as Markdown.
---@param source table of reference.modules
---@param context table `link`: a function that returns the target of a class and a function, or nil; `blocks`: the page's Lua;
--   `codes`, `phases`: the targets of the table of codes and of the table of phases; `missing`: called with the name of a function
--   that no page shows
function reference.text(source, context)
    local header = source.header:gsub("^[%w.]+: *", ""):gsub("^%l", string.upper)
    local written, last, classes_shown = { "", markdown(header, context.link) .. "\n" }, {}, {}
    for _, entry in ipairs(source.entries) do
        if is_table(entry) then
            last[#last + 1] = table_text(entry, context)
        elseif entry.functions[1] then
            classes_shown[#classes_shown + 1] = entry.name
            written[#written + 1] = markdown(entry.text, context.link) .. "\n" .. rows("field", entry.fields, context.link)
            for _, defined in ipairs(entry.functions) do
                written[#written + 1] = function_text(entry.name, defined, context)
            end
        end
    end
    -- A page may have several modules.
    written[1] = "\n## Reference" .. (classes_shown[1] and ": " .. table.concat(classes_shown, ", ") or "") .. "\n"
    return table.concat(written, "\n") .. table.concat(last, "\n")
end

--- Returns the anchors of a module's functions and tables: "Lock:acquire" or "Stat" -> anchor.
function reference.anchors(source)
    local found = {}
    for _, entry in ipairs(source.entries) do
        if is_table(entry) then
            found[entry.name] = anchor(entry.name)
        end
        for _, defined in ipairs(entry.functions) do
            found[entry.name .. ":" .. defined.name] = anchor(entry.name, defined.name)
        end
    end
    return found
end

return reference
