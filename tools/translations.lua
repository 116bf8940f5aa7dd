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

local files = require "tools.files"

local translations = {}

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
---@return table # list of `{ target =, path =, hash = }`
function translations.originals(page)
    local found = {}
    for target, hash in files.read(page):gmatch("<!%-%- original: (%S+) (%x+) %-%->") do
        found[#found + 1] = { target = target, path = resolve(page, target), hash = hash }
    end
    return found
end

--- Checks pages against their originals, or writes the present hashes of the originals into them.
---@param pages table paths
---@param writes boolean?
---@return table # problems, a line each
function translations.check(pages, writes)
    local problems = {}
    local function complain(...)
        problems[#problems + 1] = string.format(...)
    end
    for _, page in ipairs(pages) do
        local originals, text = translations.originals(page), files.read(page)
        if not originals[1] then
            complain("%s: names no original", page)
        end
        for _, original in ipairs(originals) do
            local path, noted = original.path, original.hash
            local hash = files.lines_of(("git hash-object -- '%s' 2>/dev/null || true"):format(path:gsub("'", "'\\''")))[1]
            if not hash then
                complain("%s: there is no %s", page, path)
            elseif writes then
                local target = original.target:gsub("%p", "%%%0")
                text = text:gsub("(<!%-%- original: " .. target .. " )%x+", "%1" .. hash)
            elseif hash ~= noted then
                complain("%s: look at it again, %s has changed: git diff %s %s", page, path, noted:sub(1, 12), path)
            end
        end
        if writes and text ~= files.read(page) then
            files.write(page, text)
        end
    end
    return problems
end

--- Returns the paths of all pages in Chinese.
function translations.pages()
    return files.in_git("*.zh-CN.md", "docs/zh/*.md")
end

if arg and arg[0] and arg[0]:find("translations%.lua$") then
    if arg[1] ~= "check" and arg[1] ~= "write" then
        error("usage: lua tools/translations.lua check | write [PAGE…]", 0)
    end
    local pages = { (table.unpack or unpack)(arg, 2) }
    local problems = translations.check(pages[1] and pages or translations.pages(), arg[1] == "write")
    for _, problem in ipairs(problems) do
        io.stderr:write(problem, "\n")
    end
    os.exit(#problems == 0 and 0 or 1)
end

return translations
