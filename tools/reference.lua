--- reference: writes the reference of classes and modules in Markdown, from the docstrings of the sources and the annotations.
--
-- For tools/site.lua. A page of docs/ has a line `<!-- reference: NAME… -->` where the text belongs: names of docstrings.PUBLIC,
-- "Client/Nodes" for one section of a class, or "adapters". The text of a function says how it is called, whether it waits, its
-- arguments, options with defaults, results, codes, errors, and an example: the first line of the page's code that calls it.

local annotations = dofile("tools/annotations.lua")
local docstrings = dofile("tools/docstrings.lua")

local reference = {}

local META = annotations.read(docstrings.read_file("docs/types/library/zklock.lua"))
local ADAPTERS = { name = "adapters", kind = "text", files = { "lua/zklock/adapters.lua" } }
local METAMETHODS = {
    __close = "`local x <close> = …` from Lua 5.4 on",
    __tostring = "`tostring`"
}

--- Returns the entries by name: those of docstrings.PUBLIC, and the adapters, which are a text without functions.
function reference.entries()
    local entries = { adapters = ADAPTERS }
    for _, entry in ipairs(docstrings.PUBLIC) do
        entries[entry.name] = entry
        for _, section in pairs(entry.sections or {}) do
            entries[entry.name .. "/" .. section] = { name = entry.name, kind = entry.kind, files = entry.files,
                sections = entry.sections, only = section }
        end
    end
    return entries
end

--- "Lock", "acquire" -> "lock-acquire"
local function anchor(class, name)
    return (class .. "-" .. name):lower()
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

--- "zklock.Client|zklock.ReadOptions?" -> "`Client`, `table`, `nil`"
local function types(text, optional)
    local words = {}
    text = text:gsub("%?$", "|nil") .. (optional and "|nil" or "")
    for word in text:gsub("^fun.*", "function"):gsub("zklock%.%w+Options", "table"):gsub("zklock%.", ""):gmatch("[^|]+") do
        words[#words + 1] = "`" .. word .. "`"
    end
    return table.concat(words, ", ")
end

-- Functions -------------------------------------------------------------------------------------------------------------

--- The class of a parameter's options in the annotations; nil: it takes none.
local function options_class(param)
    local name = param.type:match("zklock%.%w+Options")
    return name and META.classes[name]
end

--- Whether a function may wait: it takes a timeout, or it is a try, which waits for the server's answer.
local function waits(name, annotated)
    for _, param in ipairs(annotated and annotated.params or {}) do
        local class = options_class(param)
        local fields = class and class.fields or {}
        if param.name == "timeout" or fields.timeout or fields.connect_timeout then
            return true
        end
    end
    return name == "try_acquire"
end

local function options_table(class, link)
    local written = { "\n| option | type | meaning |", "|---|---|---|" }
    for _, name in ipairs(class.order) do
        local kind, text = docstrings.split_type(class.fields[name].type)
        kind = kind:find("^fun") and "`function`" or types(kind)
        written[#written + 1] = ("| `%s` | %s | %s |"):format(name, kind, cell(text, link))
    end
    return table.concat(written, "\n") .. "\n"
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
            written[#written + 1] = ("- %s %s%s%s"):format(types(result.type), name, name ~= "" and text ~= "" and ": " or "", text)
        end
    end
    return written
end

--- The text of one function. `context` is that of reference.text.
local function function_text(entry, defined, context)
    local doc = defined.doc or docstrings.parse_comment({})
    local name = defined.name == "return" and "path" or defined.name
    local is_module = entry.kind == "module"
    local subject = is_module and entry.name or entry.name:lower()
    local written = {}
    local function add(text)
        written[#written + 1] = text
    end
    if defined.kind == "field" then
        add(("### %s.%s { #%s }\n"):format(subject, name, anchor(entry.name, name)))
        add(markdown(doc.text, context.link) .. "\n")
        return table.concat(written, "\n")
    elseif METAMETHODS[name] then
        add(("### %s { #%s }\n"):format(METAMETHODS[name], anchor(entry.name, name)))
        add(markdown(doc.text, context.link) .. "\n")
        return table.concat(written, "\n")
    end
    local arguments = table.concat(defined.arguments, ", ")
    add(("### %s%s%s(%s) { #%s data-toc-label=\"%s\" }\n"):format(subject, is_module and "." or ":", name, arguments,
        anchor(entry.name, name), name))
    add(markdown(doc.text, context.link) .. "\n")
    local annotated = META.functions[entry.name .. (is_module and "." or ":") .. name]
    if doc.params[1] then
        add("| argument | type | meaning |\n|---|---|---|")
        for _, param in ipairs(doc.params) do
            add(("| `%s` | %s | %s |"):format(param.name, types(param.type, param.optional), cell(param.text, context.link)))
        end
        add("")
    end
    for _, param in ipairs(annotated and annotated.params or {}) do
        local class = options_class(param)
        if class then
            add(options_table(class, context.link))
        end
    end
    local results = returned(doc, context)
    if results[1] then
        add("Returns\n\n" .. table.concat(results, "\n") .. "\n")
    end
    if waits(name, annotated) then
        add("Context: [waits](" .. context.phases .. ").\n")
    else
        add("Context: does not wait, and may be called in [every phase](" .. context.phases .. ") in which there is a client.\n")
    end
    local shown = example(context.blocks, name)
    if shown then
        add("```lua\n" .. shown .. "\n```\n")
    else
        context.missing(entry.name .. ":" .. name)
    end
    return table.concat(written, "\n")
end

-- Classes ---------------------------------------------------------------------------------------------------------------

--- The last section title above a line.
local function title_at(source, line)
    local title
    for _, one in ipairs(source.titles) do
        if one.line < line then
            title = one.title
        end
    end
    return title
end

--- All public definitions of an entry, in order: { section, defined }; metamethods last, functions before fields of that name.
local function collect(entry, sources)
    local found, metamethods, names = {}, {}, {}
    for index, source in ipairs(sources) do
        for _, defined in ipairs(source.definitions) do
            names[defined.name == "return" and "path" or defined.name] = defined.kind
        end
        for _, defined in ipairs(source.definitions) do
            local own = entry.sections and entry.sections[entry.files[index]]
            if docstrings.is_public(entry, defined) and (entry.only or own) == (own or entry.only) and own == entry.only then
                if defined.name:find("^__") then
                    metamethods[#metamethods + 1] = { section = "Metamethods", defined = defined }
                else
                    local section = entry.kind == "classmod" and not entry.field and title_at(source, defined.line) or nil
                    found[#found + 1] = { section = own or section, defined = defined }
                end
            end
        end
    end
    local kept = {}
    for _, one in ipairs(found) do
        if one.defined.kind ~= "field" or names[one.defined.name] == "field" then
            kept[#kept + 1] = one
        end
    end
    for _, one in ipairs(metamethods) do
        kept[#kept + 1] = one
    end
    return kept
end

--- "client: one session" -> "One session".
local function heading(text, link)
    return markdown(text:gsub("^[%w.]+: *", ""):gsub("^%l", string.upper), link)
end

--- The description of an entry: its file's header, or the comment above its table.
local function description(entry, source, link)
    if not entry.field then
        return heading(source.header.text, link)
    end
    for _, defined in ipairs(source.definitions) do
        if defined.kind == "local_table" and defined.name == entry.name then
            return markdown(defined.doc.text, link)
        end
    end
end

local function read_sources(entry)
    local sources = {}
    for index, path in ipairs(entry.files) do
        sources[index] = docstrings.read(docstrings.read_file(path))
    end
    return sources
end

--- Returns the reference of an entry as Markdown.
---@param entry table of reference.entries()
---@param context table `link`: a function that returns the target of a class and a function, or nil; `blocks`: the page's Lua;
--   `codes`, `phases`: the targets of the table of codes and of the table of phases; `missing`: called with the name of a function
--   that no page shows
function reference.text(entry, context)
    local sources = read_sources(entry)
    local described = sources[1]
    for index, path in ipairs(entry.files) do
        if entry.only and entry.sections[path] == entry.only then
            described = sources[index]
        end
    end
    local written = { "\n## Reference\n", description(entry, described, context.link) .. "\n" }
    for _, one in ipairs(entry.kind == "text" and {} or collect(entry, sources)) do
        written[#written + 1] = function_text(entry, one.defined, context)
    end
    if entry.base then
        written[#written + 1] = reference.inherited(entry, context)
    end
    return table.concat(written, "\n")
end

--- What a subclass takes in addition: the options of inherited functions that have annotations of its own.
function reference.inherited(entry, context)
    local names = {}
    for name in pairs(META.functions) do
        local method = name:match("^" .. entry.name .. ":(.*)$")
        if method and META.functions[entry.base .. ":" .. method] then
            names[#names + 1] = method
        end
    end
    table.sort(names)
    local written = {}
    for _, name in ipairs(names) do
        written[#written + 1] = ("### %s:%s { #%s data-toc-label=\"%s\" }\n"):format(entry.name:lower(), name,
            anchor(entry.name, name), name)
        written[#written + 1] = ("As [`%s:%s`](%s), with these options:\n"):format(entry.base:lower(), name,
            context.link(entry.base, name))
        for _, param in ipairs(META.functions[entry.name .. ":" .. name].params) do
            local class = options_class(param)
            written[#written + 1] = class and options_table(class, context.link) or nil
        end
    end
    return table.concat(written, "\n")
end

--- Returns the anchors of an entry's functions: name -> anchor.
function reference.anchors(entry)
    local found = {}
    for _, one in ipairs(entry.kind == "text" and {} or collect(entry, read_sources(entry))) do
        local name = one.defined.name == "return" and "path" or one.defined.name
        found[name] = anchor(entry.name, name)
    end
    return found
end

return reference
