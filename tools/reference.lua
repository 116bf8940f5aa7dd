-- Writes the input of LDoc for docs/config.ld: the public functions with their docstrings, a file for each class, and the Markdown
-- pages with their links adapted to LDoc's output. Things that LDoc does not support are handled here: classes whose methods are
-- in two files or share one, private names, and lists without a blank line before them.
--
-- Usage: lua tools/reference.lua DIRECTORY        (which has the folders api and pages)

local docstrings = dofile("tools/docstrings.lua")

local directory = assert(arg[1], "usage: lua tools/reference.lua DIRECTORY")

local ADAPTERS = { name = "zklock.adapters", kind = "module", files = { "lua/zklock/adapters.lua" } }

--- Markdown page -> its name in the reference.
local PAGES = {
    ["README.md"] = "README.md",
    ["examples/README.md"] = "examples.md",
    ["docs/install.md"] = "install.md",
    ["docs/upgrading.md"] = "upgrading.md",
    ["docs/loops.md"] = "loops.md",
    ["docs/design.md"] = "design.md",
    ["docs/glossary.md"] = "glossary.md",
    ["docs/openresty.md"] = "openresty.md",
    ["docs/neighbours.md"] = "neighbours.md",
    ["docs/security.md"] = "security.md",
    ["docs/fencing.md"] = "fencing.md",
    ["docs/performance.md"] = "performance.md",
    ["docs/metrics.md"] = "metrics.md",
    ["docs/live-view.md"] = "live-view.md",
    ["docs/command.md"] = "command.md",
    ["docs/guides.md"] = "guides.md",
    ["docs/reliability.md"] = "reliability.md",
    ["docs/contributing.md"] = "contributing.md"
}

local function write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    file:close()
end

--- Running text for LDoc: "Lock:acquire" becomes a reference, text in quotes becomes code (Markdown would make the quotes round),
-- and "<" begins no HTML. Text between backticks is left alone.
local function running(text)
    return (("`" .. text .. "`"):gsub("`([^`]*)`", function(part)
        part = part:gsub('"[^"\n]*"', "`%0`"):gsub("%f[%w](%u%w+:%l[%w_]*)", "`%1`")
        return "`" .. part:gsub("<", "&lt;") .. "`"
    end):sub(2, -2))
end

--- Lists begin after a blank line and at the margin. Lines that are indented further are code, and are left alone.
local function markdown(lines)
    local written, text, in_list = {}, {}, false
    local function flush()
        written[#written + 1] = text[1] and running(table.concat(text, "\n"))
        text = {}
    end
    for _, line in ipairs(lines) do
        local item = line:find("^  %* ")
        if item and not in_list then
            text[#text + 1] = ""
        end
        in_list = item ~= nil or in_list and line:find("^   ") ~= nil
        if in_list or not line:find("^    ") then
            text[#text + 1] = in_list and line:sub(3) or line
        else
            flush()
            written[#written + 1] = line
        end
    end
    flush()
    return table.concat(written, "\n")
end

local function comment(text)
    return "-- " .. text:gsub("\n", "\n-- "):gsub(" +\n", "\n")
end

--- "client: one session" -> "One session".
local function heading(lines)
    local copy = {}
    for index, line in ipairs(lines) do
        copy[index] = line
    end
    copy[1] = copy[1]:gsub("^[%w.]+: *", ""):gsub("^%l", string.upper)
    return markdown(copy)
end

--- A docstring and an empty function, in the form that suits LDoc best.
local function item(entry, defined)
    local doc = defined.doc or docstrings.parse_comment({})
    local written = { "-" .. comment(markdown(doc.text)) }
    for _, tag in ipairs(doc.tags) do
        local lines = {}
        for line in (tag.text .. "\n"):gmatch("(.-)\n") do
            lines[#lines + 1] = line
        end
        written[#written + 1] = "-- @" .. tag.tag .. " " .. markdown(lines):gsub("\n", "\n--   ")
    end
    local name = defined.name == "return" and "path" or defined.name
    if defined.kind == "field" then
        written[#written + 1] = ("%s.%s = nil"):format(entry.name, name)
        return table.concat(written, "\n") .. "\n"
    end
    local separator = entry.kind == "module" and "." or ":"
    written[#written + 1] = ("function %s%s%s(%s) end"):format(entry.name, separator, name,
        table.concat(defined.arguments, ", "))
    return table.concat(written, "\n") .. "\n"
end

--- The last section title above a line, if the section has a public definition.
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
            if defined.name:find("^__") and docstrings.is_public(entry, defined) then
                metamethods[#metamethods + 1] = { section = "Metamethods", defined = defined }
            elseif docstrings.is_public(entry, defined) then
                local section = entry.kind == "classmod" and not entry.field and title_at(source, defined.line) or nil
                if entry.sections and entry.sections[entry.files[index]] then
                    section = entry.sections[entry.files[index]]
                end
                found[#found + 1] = { section = section, defined = defined }
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

--- The description of a class: its file's header, or the comment above its table.
local function description(entry, source)
    if not entry.field then
        return heading(source.header.text)
    end
    for _, defined in ipairs(source.definitions) do
        if defined.kind == "local_table" and defined.name == entry.name then
            return markdown(defined.doc.text)
        end
    end
end

local function api(entry)
    local sources, described = {}, {}
    for index, path in ipairs(entry.files) do
        sources[index] = docstrings.read(docstrings.read_file(path))
        if entry.sections and entry.sections[path] then
            described[entry.sections[path]] = heading(sources[index].header.text)
        end
    end
    local written = { ("-%s\n-- @%s %s\n"):format(comment(description(entry, sources[1])), entry.kind, entry.name) }
    local last
    for _, one in ipairs(collect(entry, sources)) do
        if one.section and one.section ~= last then
            local text = described[one.section]
            written[#written + 1] = ("--- %s.\n%s-- @section %s\n"):format(one.section, text and comment(text) .. "\n" or "",
                one.section:gsub("%W", "_"))
            last = one.section
        end
        written[#written + 1] = item(entry, one.defined)
    end
    return table.concat(written, "\n")
end

local function folder_of(path)
    return path:match("^(.*)/[^/]*$") or ""
end

--- "docs/../x" -> "x"
local function normal(path)
    local parts = {}
    for part in path:gmatch("[^/]+") do
        if part == ".." then
            table.remove(parts)
        elseif part ~= "." then
            parts[#parts + 1] = part
        end
    end
    return table.concat(parts, "/")
end

--- Gives each heading but the first the anchor that Markdown viewers give it: "Good to know" is #good-to-know.
local function with_anchors(text)
    local written, in_code = {}, false
    for line in text:gmatch("(.-)\n") do
        local title = line:match("^##+ +(.*)$")
        in_code = in_code ~= (line:find("^```") ~= nil)
        if title and not in_code then
            local anchor = title:lower():gsub("[^%w _-]", ""):gsub(" ", "-")
            written[#written + 1] = ('<a name="%s"></a>\n'):format(anchor)
        end
        written[#written + 1] = line
    end
    return table.concat(written, "\n") .. "\n"
end

local function page(path)
    local text = with_anchors(docstrings.read_file(path))
    return (text:gsub("%]%(([^)#:]+)(#?[^):]*)%)", function(target, anchor)
        local full = normal(folder_of(path) .. "/" .. target)
        if PAGES[full] then
            return ("](%s.html%s)"):format(PAGES[full], anchor)
        elseif full:find("^examples/.*%.lua$") then
            return ("](../examples/%s.html)"):format(full:match("[^/]+$"))
        elseif full:find("^docs/types/") or full:find("^docs/pictures/") or full:find("^docs/plots/") or
            full:find("^docs/.*%.yml$") or full:find("^docs/.*%.json$") then
            return ("](../%s)"):format(full:match("^docs/(.*)$")) -- tools/docs.sh copies these
        end
    end))
end

local entries = { ADAPTERS }
for index, entry in ipairs(docstrings.PUBLIC) do
    entries[index + 1] = entry
end
for index, entry in ipairs(entries) do
    -- The classes are in the order of the files.
    write(("%s/api/%02d-%s.lua"):format(directory, index, entry.name), api(entry))
end
for path, name in pairs(PAGES) do
    write(("%s/pages/%s"):format(directory, name), page(path))
end
