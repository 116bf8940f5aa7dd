--- site: the two steps around MkDocs in `tools/docs.sh site`.
--
--     lua tools/site.lua pages DIRECTORY       writes the input of MkDocs
--     lua tools/site.lua check DIRECTORY       checks what MkDocs has made
--     lua tools/site.lua versions DIRECTORY    writes versions.json and index.html for the versions in a directory
--     lua tools/site.lua columns DIRECTORY     checks that the code of a project's pages fits the site
--
-- The pages are those of docs/, the README, the changelog, and the examples. Their links lead to pages of the site, their lists are
-- written as Python-Markdown needs them, and the reference is filled in (tools/reference.lua). Problems go to standard error, and
-- the exit status is 1 if there are any.

local docstrings = dofile("tools/docstrings.lua")
local reference = dofile("tools/reference.lua")

local site = {}

--- Sources outside of docs/ -> pages. Other Markdown files of the project's directory are in project/, and in no navigation.
local PAGES = {
    ["README.md"] = "index.md",
    ["README.zh-CN.md"] = "zh/index.md",
    ["CHANGELOG.md"] = "changelog.md",
    ["examples/README.md"] = "examples/index.md",
    ["bench/RESULTS.md"] = "measurements.md",
    ["spec/campaign/RESULTS.md"] = "campaign.md",
    ["spec/TRAPS.md"] = "traps.md"
}

local CODES, PHASES = "reference/codes.md", "openresty.md#calls-by-phase"

-- Paths -----------------------------------------------------------------------------------------------------------------

local function folder_of(path)
    return path:match("^(.*)/[^/]*$") or ""
end

--- "docs/../x" -> "x"
function site.normal(path)
    local parts = {}
    for part in path:gmatch("[^/]+") do
        if part == ".." and parts[1] and parts[#parts] ~= ".." then
            table.remove(parts)
        elseif part ~= "." then
            parts[#parts + 1] = part
        end
    end
    return table.concat(parts, "/")
end

--- "reference/codes.md", "guides.md" -> "../guides.md"
function site.relative(from, to)
    local here, there = {}, {}
    for part in folder_of(from):gmatch("[^/]+") do
        here[#here + 1] = part
    end
    for part in to:gmatch("[^/]+") do
        there[#there + 1] = part
    end
    local common = 0
    while here[common + 1] and here[common + 1] == there[common + 1] and there[common + 2] do
        common = common + 1
    end
    return ("../"):rep(#here - common) .. table.concat(there, "/", common + 1)
end

--- Whether there is a file, and not a directory, of that name.
local function exists(path)
    local file = io.open(path)
    local is_file = file ~= nil and file:read(0) ~= nil
    if file then
        file:close()
    end
    return is_file
end

local function lines_of(text)
    return (text:gsub("\n$", "") .. "\n"):gmatch("(.-)\n")
end

local function output_of(command)
    local pipe = assert(io.popen(command))
    local lines = {}
    for line in pipe:lines() do
        lines[#lines + 1] = line
    end
    pipe:close()
    return lines
end

-- Markdown --------------------------------------------------------------------------------------------------------------

--- Returns whether a line begins or ends a block of code, given the fence of the block that it may end, and the new fence.
local function next_fence(line, fence)
    local mark = line:match("^%s*(```+)")
    if not mark then
        return fence
    elseif not fence then
        return mark
    elseif not line:find("^%s*" .. fence .. "%s*$") then
        return fence
    end
end

--- Calls `change` with each stretch of text that is no block of code, and puts the page together again.
local function outside_code(text, change)
    local written, part, fence = {}, {}, nil
    local function flush(is_code)
        if part[1] then
            local whole = table.concat(part, "\n") .. "\n"
            written[#written + 1] = is_code and whole or change(whole)
        end
        part = {}
    end
    for line in lines_of(text) do
        local after = next_fence(line, fence)
        if after and not fence then
            flush(false)
        end
        part[#part + 1] = line
        if fence and not after then
            flush(true)
        end
        fence = after
    end
    flush(fence ~= nil)
    return table.concat(written)
end

--- Lists as Python-Markdown needs them: after a blank line, and indented by four columns for each level.
function site.lists(text)
    local written, stack, before, fence, shift = {}, {}, "", nil, 0
    for line in lines_of(text) do
        local indent, rest = line:match("^( *)(.*)$")
        local depth = #indent
        local marker = not fence and (rest:match("^[-*] +") or rest:match("^%d+%. +"))
        local after, placed = next_fence(line, fence), line
        if not fence and rest ~= "" and depth == 0 and not marker and (before == "" or before:find("^ *```")) then
            stack = {}
        end
        if fence then
            placed = (" "):rep(math.max(0, depth + shift)) .. rest
        elseif rest == "" then
            placed = ""
        elseif marker or before == "" or depth > 0 then
            local levels = 0
            while stack[levels + 1] and depth >= stack[levels + 1] do
                levels = levels + 1
            end
            for level = #stack, levels + 1, -1 do
                stack[level] = nil
            end
            if marker and levels == 0 and before ~= "" and not before:find("^ *[-*] ") and not before:find("^ *%d+%. ") and
                not before:find("^ ") then
                written[#written + 1] = ""
            end
            local extra = depth - (stack[levels] or 0)
            shift = 4 * levels + extra - depth
            placed = (" "):rep(4 * levels + extra) .. rest
            if marker then
                stack[levels + 1] = depth + #marker
            end
        end
        fence = after
        written[#written + 1] = placed
        before = placed
    end
    return table.concat(written, "\n") .. "\n"
end

--- How many columns of code fit a page at 1280 pixels.
local COLUMNS = 88

--- Returns how many columns a text takes. Characters of Chinese, and full-width signs, take two.
local function columns_of(text)
    local columns = 0
    for character in text:gmatch("[%z\1-\127\194-\244][\128-\191]*") do
        columns = columns + (character >= "\226\186\128" and character < "\240" and 2 or 1)
    end
    return columns
end

--- Returns the lines of code of a page that are too long: `{ line =, columns = }`. What programs print ("text") is as it is.
function site.wide(text)
    local found, fence, number, printed = {}, nil, 0, false
    for line in lines_of(text) do
        number = number + 1
        local after = next_fence(line, fence)
        if not fence then
            printed = line:find("^%s*```+text") ~= nil
        end
        local columns = fence and after and not printed and columns_of(line) or 0
        if columns > COLUMNS then
            found[#found + 1] = { line = number, columns = columns }
        end
        fence = after
    end
    return found
end

-- The pages -------------------------------------------------------------------------------------------------------------

local function write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    file:close()
end

local function lua_blocks(text)
    local blocks = {}
    for language, block in text:gmatch("\n```(%l+)[^\n]*\n(.-)\n```") do
        blocks[#blocks + 1] = (language == "lua" or language == "nginx") and block or nil
    end
    return blocks
end

--- Writes the pages into a directory. Returns a list of problems.
function site.pages(directory)
    local problems, pages, code, static = {}, {}, {}, {}
    local function complain(...)
        problems[#problems + 1] = string.format(...)
    end
    for source, page in pairs(PAGES) do
        pages[source] = page
    end
    for _, path in ipairs(output_of("git ls-files --cached --others --exclude-standard ':(glob)*.md'")) do
        pages[path] = pages[path] or "project/" .. path
    end
    for _, path in ipairs(output_of("git ls-files --cached --others --exclude-standard docs")) do
        if path:find("%.md$") then
            pages[path] = path:match("^docs/(.*)$")
        elseif not path:find("^docs/theme/") and path ~= "docs/mkdocs.yml" then
            static[path] = path:match("^docs/(.*)$")
        end
    end

    local sources = {}
    for source in pairs(pages) do
        sources[#sources + 1] = source
    end
    table.sort(sources)

    --- Returns the file of the site for a file of the project; a program, or another text, becomes a page.
    local function target_of(path)
        if not pages[path] and not static[path] and exists(path) then
            code[path] = path .. ".md"
        end
        return pages[path] or static[path] or code[path]
    end

    -- Where the functions are.
    local modules, places, placed = reference.modules, {}, {}
    for source, page in pairs(pages) do
        for names in docstrings.read_file(source):gmatch("\n<!%-%- reference: (.-) %-%->\n") do
            for name in names:gmatch("%S+") do
                if not modules[name] or placed[name] then
                    complain("%s: %s", source, modules[name] and "a second reference of " .. name or "there is no module " .. name)
                else
                    placed[name] = page
                    for described, anchor in pairs(reference.anchors(modules[name])) do
                        places[described] = page .. "#" .. anchor
                    end
                end
            end
        end
    end
    for name in pairs(modules) do
        if not placed[name] then
            complain("no page has the reference of %s", name)
        end
    end

    -- Examples are taken from the page itself, or else from another page of the reference.
    local all_blocks = {}
    for _, source in ipairs(sources) do
        for _, block in ipairs(source:find("^docs/reference/") and lua_blocks(docstrings.read_file(source)) or {}) do
            all_blocks[#all_blocks + 1] = block
        end
    end

    local function fill(source, page, text)
        local blocks = lua_blocks("\n" .. text)
        for _, block in ipairs(all_blocks) do
            blocks[#blocks + 1] = block
        end
        return (text:gsub("\n<!%-%- reference: (.-) %-%->\n", function(names)
            local written = {}
            for name in names:gmatch("%S+") do
                local here = page
                written[#written + 1] = modules[name] and reference.text(modules[name], {
                    blocks = blocks,
                    codes = site.relative(here, CODES),
                    phases = site.relative(here, PHASES),
                    link = function(class, method)
                        local place = class and places[method and class .. ":" .. method or class]
                        return place and site.relative(here, place)
                    end,
                    missing = function(method)
                        complain("%s: no code shows %s", source, method)
                    end
                })
            end
            return "\n" .. table.concat(written, "\n") .. "\n"
        end))
    end

    --- Readers of the site do not know files: a link that shows a file's name shows the page's title.
    local function title_of(source)
        return exists(source) and docstrings.read_file(source):match("^# ([^\n]*)") or nil
    end

    local function linked(source, page, text)
        local function change(target)
            if target:find("^%a+:") or target:find("^#") then
                return target
            end
            local path, rest = target:match("^([^#]*)(.*)$")
            local full = site.normal(folder_of(source) .. "/" .. path)
            local to = target_of(full)
            if not to then
                complain("%s: the link to %s leads to no page", source, target)
                return target
            end
            return site.relative(page, to) .. rest
        end
        return outside_code(text, function(part)
            part = part:gsub("%[([^%]%[]*)%]%(([^)%s]+)%)", function(shown, target)
                local named = shown:find("^[%w/_.-]+%.md$") and site.normal(folder_of(source) .. "/" .. target:match("^[^#]*"))
                return ("[%s](%s)"):format(named and title_of(named) or shown, change(target))
            end)
            return (part:gsub('( src=")([^"]*)"', function(before, target)
                return before .. change(target) .. '"'
            end))
        end)
    end

    local made = {}
    local function folder_for(path)
        local folder = directory .. "/" .. folder_of(path)
        if not made[folder] then
            made[folder] = os.execute(("mkdir -p '%s'"):format(folder))
        end
    end
    for _, source in ipairs(sources) do
        local page = pages[source]
        folder_for(page)
        -- The links of the reference are those of the site already.
        write(directory .. "/" .. page, site.lists(fill(source, page, linked(source, page, docstrings.read_file(source)))))
    end
    for source, page in pairs(code) do
        folder_for(page)
        local language = source:match("%.(%w+)$") or source:find("^examples/") and "bash" or "text"
        write(directory .. "/" .. page, ("---\ntitle: %s\n---\n\n# `%s`\n\n````%s\n%s\n````\n"):format(source, source,
            ({ conf = "nginx", service = "ini", timer = "ini", cron = "bash" })[language] or language,
            docstrings.read_file(source)))
    end
    for source, page in pairs(static) do
        folder_for(page)
        os.execute(("cp '%s' '%s/%s'"):format(source, directory, page))
    end

    local navigation = docstrings.read_file("docs/mkdocs.yml")
    for source, page in pairs(pages) do
        if not page:find("^project/") and not navigation:find("[ \"]" .. page:gsub("%p", "%%%0") .. "\"?\n") then
            complain("%s: not in the navigation of docs/mkdocs.yml", source)
        end
    end
    table.sort(problems)
    return problems
end

--- Checks the code of the pages of a project.
function site.columns(directory)
    local problems = {}
    local command = "cd '%s' && git ls-files --cached --others --exclude-standard 'README*.md' 'docs/*.md' 'examples/*.md'"
    for _, path in ipairs(output_of(command:format(directory))) do
        for _, wide in ipairs(site.wide(docstrings.read_file(directory .. "/" .. path))) do
            problems[#problems + 1] = ("%s:%d: code of %d columns, more than %d"):format(path, wide.line, wide.columns, COLUMNS)
        end
    end
    return problems
end

-- What MkDocs has made --------------------------------------------------------------------------------------------------

--- Elements and attributes that make a browser fetch something.
local FETCHING = { "<[^a>][^>]- src=\"([^\"]*)\"", "<link[^>]- href=\"([^\"]*)\"", "<[^>]- srcset=\"([^\"]*)\"",
    "<object[^>]- data=\"([^\"]*)\"", "<form[^>]- action=\"([^\"]*)\"" }

--- Returns the addresses of other hosts that a page or a style sheet makes a browser fetch.
function site.foreign(text)
    local found = {}
    local function look(address)
        -- Not the address of the page itself, and no namespace of SVG.
        if address:find("^%a[%w+.-]*://") or address:find("^//") then
            found[#found + 1] = address
        end
    end
    for _, pattern in ipairs(FETCHING) do
        for address in text:gmatch(pattern) do
            look(address)
        end
    end
    for address in text:gmatch("url%(%s*[\"']?([^\"')]*)") do
        look(address)
    end
    for address in text:gmatch("@import%s*[\"']([^\"']*)") do
        look(address)
    end
    return found
end

local function unescape(text)
    return (text:gsub("%%(%x%x)", function(digits)
        return string.char(tonumber(digits, 16))
    end):gsub("&amp;", "&"))
end

--- Checks pages: path -> text. `exists` tells whether another file exists. Returns a list of problems: links to files or places
-- that do not exist, sections of one name, and what would be fetched from other hosts.
function site.problems(pages, exists_file)
    local problems, anchors = {}, {}
    for path, text in pairs(pages) do
        anchors[path] = {}
        for id in text:gmatch("<[^>]-%sid=\"?([^\"%s>]+)") do
            anchors[path][unescape(id)] = true
        end
        for id in text:gmatch("<a[^>]-%sname=\"?([^\"%s>]+)") do
            anchors[path][unescape(id)] = true
        end
    end
    for path, text in pairs(pages) do
        local titles = {}
        for heading in text:gmatch "<h2[^>]*>(.-)</h2>" do
            local title = heading:gsub("<[^>]*>", "")
            problems[#problems + 1] = titles[title] and ("%s: two headings '%s'"):format(path, title) or nil
            titles[title] = true
        end
        for _, address in ipairs(site.foreign(text)) do
            problems[#problems + 1] = ("%s: fetches %s"):format(path, address)
        end
        for target in text:gmatch("<[^>]-%s[hs]re?[fc]=\"([^\"]*)\"") do
            if not target:find("^%a[%w+.-]*:") and not target:find("^//") then
                local file, place = unescape(target):match("^([^#?]*)[^#]*#?(.*)$")
                local full = file == "" and path or site.normal(folder_of(path) .. "/" .. file)
                if not pages[full] and pages[site.normal(full .. "/index.html")] then
                    full = site.normal(full .. "/index.html") -- a link to a directory
                end
                if not pages[full] and not exists_file(full) then
                    problems[#problems + 1] = ("%s: there is no %s"):format(path, target)
                elseif place ~= "" and place ~= "__" and anchors[full] and not anchors[full][place] and
                    not place:find("^__") then
                    problems[#problems + 1] = ("%s: there is no place %s"):format(path, target)
                end
            end
        end
    end
    table.sort(problems)
    return problems
end

--- Checks a directory that MkDocs has made.
function site.check(directory)
    local pages = {}
    for _, path in ipairs(output_of(("cd '%s' && find . -name '*.html' -printf '%%P\\n'"):format(directory))) do
        if path ~= "404.html" then -- its links are absolute, for every address
            pages[path] = docstrings.read_file(directory .. "/" .. path)
        end
    end
    local problems = site.problems(pages, function(path)
        return exists(directory .. "/" .. path)
    end)
    for _, path in ipairs(output_of(("find '%s' -name '*.css'"):format(directory))) do
        for _, address in ipairs(site.foreign(docstrings.read_file(path))) do
            problems[#problems + 1] = ("%s: fetches %s"):format(path, address)
        end
    end
    if not next(pages) then
        problems[1] = directory .. " has no pages"
    end
    return problems
end

-- Versions --------------------------------------------------------------------------------------------------------------

--- Writes versions.json, from which the pages take the list of versions, and an index.html that leads to the newest version.
function site.versions(directory)
    local names = output_of(([[cd '%s' && find . -mindepth 2 -maxdepth 2 -name index.html -printf '%%P\n' |
        sed 's,/.*,,' | sort -rV]]):format(directory))
    local items = {}
    for index, name in ipairs(names) do
        items[index] = ('{"version": "%s", "title": "%s", "aliases": []}'):format(name, name)
    end
    write(directory .. "/versions.json", "[" .. table.concat(items, ",\n ") .. "]\n")
    write(directory .. "/index.html", ([[<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>zklock</title>
<meta http-equiv="refresh" content="0; url=%s/index.html">
<a href="%s/index.html">zklock %s</a>
]]):format(names[1], names[1], names[1]))
    return names[1] and {} or { "no version in " .. directory }
end

if arg and arg[0] and arg[0]:find("site%.lua$") then
    local run = assert(site[arg[1]], "usage: lua tools/site.lua pages|check|versions|columns DIRECTORY")
    local problems = run(assert(arg[2], "usage: lua tools/site.lua pages|check|versions|columns DIRECTORY"))
    for _, problem in ipairs(problems) do
        io.stderr:write(problem, "\n")
    end
    os.exit(#problems == 0 and 0 or 1)
end

return site
