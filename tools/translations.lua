--- translations: finds pages in Chinese whose originals have changed.
--
--     lua tools/translations.lua check             names the pages to look at again
--     lua tools/translations.lua write [PAGE…]     notes that these pages, or all of them, fit their originals as they are now
--
-- A page in Chinese has a line for each page or program that it follows:
--
--     <!-- original: ../how-to/oversell.md 51ad… -->
--
-- The path is relative to the page. The number is git's hash of the original's text, by which `git diff` shows what has changed.
-- Problems go to standard error, and the exit status is 1 if there are any.

local translations = {}

local LINE = "<!%-%- original: (%S+) (%x+) %-%->"

local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = assert(file:read("*a"))
    file:close()
    return text
end

--- Returns the first line that a command prints, or nil if the command fails.
local function output_of(command)
    local pipe = assert(io.popen(command))
    local line = pipe:read("*l")
    pipe:close()
    return line
end

--- Returns git's hash of a file's text, or nil if there is no such file.
function translations.hash(path)
    return output_of(("git hash-object -- '%s' 2>/dev/null"):format(path:gsub("'", "'\\''")))
end

--- "docs/zh/start.md", "../tutorial.md" -> "docs/tutorial.md"
local function resolve(page, target)
    local path = (page:match("^(.*/)[^/]*$") or "") .. target
    while path:find("[^/]+/%.%./") do
        path = path:gsub("[^/]+/%.%./", "", 1)
    end
    return path
end

--- Returns the originals that a page names, in order.
---@param page string path
---@return table # list of `{ path =, hash = }`
function translations.originals(page)
    local found = {}
    for target, hash in read(page):gmatch(LINE) do
        found[#found + 1] = { path = resolve(page, target), hash = hash }
    end
    return found
end

--- Checks pages against their originals.
---@param pages table paths
---@return table # problems, a line each
function translations.check(pages)
    local problems = {}
    for _, page in ipairs(pages) do
        local originals = translations.originals(page)
        if not originals[1] then
            problems[#problems + 1] = page .. ": names no original"
        end
        for _, original in ipairs(originals) do
            local hash = translations.hash(original.path)
            if not hash then
                problems[#problems + 1] = ("%s: there is no %s"):format(page, original.path)
            elseif hash ~= original.hash then
                problems[#problems + 1] = ("%s: look at it again, %s has changed: git diff %s %s"):format(page, original.path,
                    original.hash:sub(1, 12), original.path)
            end
        end
    end
    return problems
end

--- Writes the present hashes of the originals into pages.
---@param pages table paths
---@return table # problems, a line each
function translations.write(pages)
    local problems = {}
    for _, page in ipairs(pages) do
        local text = read(page)
        local changed = text:gsub(LINE, function(target)
            local hash = translations.hash(resolve(page, target))
            if not hash then
                problems[#problems + 1] = ("%s: there is no %s"):format(page, resolve(page, target))
            end
            return hash and ("<!-- original: %s %s -->"):format(target, hash)
        end)
        if changed ~= text then
            local file = assert(io.open(page, "wb"))
            assert(file:write(changed))
            file:close()
        end
    end
    return problems
end

--- Returns the paths of all pages in Chinese.
function translations.pages()
    local found = {}
    local pipe = assert(io.popen("git ls-files --cached --others --exclude-standard '*.zh-CN.md' 'docs/zh/*.md'"))
    for path in pipe:lines() do
        found[#found + 1] = path
    end
    pipe:close()
    return found
end

if arg and arg[0] and arg[0]:find("translations%.lua$") then
    local run = ({ check = translations.check, write = translations.write })[arg[1]]
    if not run then
        error("usage: lua tools/translations.lua check | write [PAGE…]", 0)
    end
    local pages = { (table.unpack or unpack)(arg, 2) }
    local problems = run(pages[1] and pages or translations.pages())
    for _, problem in ipairs(problems) do
        io.stderr:write(problem, "\n")
    end
    os.exit(#problems == 0 and 0 or 1)
end

return translations
