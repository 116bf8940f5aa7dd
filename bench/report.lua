--- report: writes the results: tables on the terminal, and with --write the same in docs/performance.md or bench/RESULTS.md.
--
-- The output of a case is one section, which stands in one of these pages between `<!-- bench:NAME -->` and
-- `<!-- /bench:NAME -->`. The text around it is written by hand, and stays.

local report = {}

local pages    -- files that sections are written to; empty: none
local origin   -- the machine, the date
local section  -- lines of the section that is being written, as Markdown
local below_table = false -- whether the last output was a table
local problems = {} -- sections for which no page has a place

---@param paths table of the pages that are written
---@param where string the line that tells by which machine, and when
function report.open(paths, where)
    pages, origin = paths, where
    print(where)
end

local function add(line)
    if section then
        table.insert(section, line)
    end
end

--- Pads text to a width in characters.
local function padded(text, width, flush_left)
    local blanks = string.rep(" ", width - utf8.len(text))
    return flush_left and text .. blanks or blanks .. text
end

function report.title(text, ...)
    text = string.format(text, ...)
    below_table = false
    print("\n" .. text)
    print(string.rep("-", utf8.len(text)))
    add("")
    add("**" .. text .. "**")
end

--- A remark below a table.
function report.say(text, ...)
    text = string.format(text, ...)
    print("  " .. text)
    add("")
    add(text)
end

local function widths_of(rows)
    local widths = {}
    for _, row in ipairs(rows) do
        for column, text in ipairs(row) do
            widths[column] = math.max(widths[column] or 3, utf8.len(text))
        end
    end
    return widths
end

local function cells_of(row, widths)
    local cells = {}
    for column, width in ipairs(widths) do
        cells[column] = padded(row[column] or "", width, column == 1)
    end
    return cells
end

--- A table: rows of text, the first of which names the columns. The first column is set flush left, the others right.
function report.columns(rows)
    local widths = widths_of(rows)
    if below_table then
        print()
    end
    below_table = true
    add("")
    for index, row in ipairs(rows) do
        local cells = cells_of(row, widths)
        print((("  " .. table.concat(cells, "   ")):gsub("%s+$", "")))
        add("| " .. table.concat(cells, " | ") .. " |")
        if index == 1 then
            local rule = {}
            for column, width in ipairs(widths) do
                rule[column] = column == 1 and string.rep("-", width) or string.rep("-", width - 1) .. ":"
            end
            add("| " .. table.concat(rule, " | ") .. " |")
        end
    end
end

--- A plot next to the page.
---@param name string of the file below plots/
---@param text string what it shows
function report.plot(name, text)
    add("")
    add(string.format("![%s](plots/%s)", text, name))
end

--- Puts the section's lines into the page that has a place for them.
local function write(name, lines)
    local opening, closing = "<!-- bench:" .. name .. " -->\n", "<!-- /bench:" .. name .. " -->"
    for _, page in ipairs(pages) do
        local file = assert(io.open(page))
        local text = file:read("a")
        file:close()
        local _, from = text:find(opening, 1, true)
        local to = from and text:find(closing, from, true)
        if to then
            file = assert(io.open(page, "w"))
            local new = table.concat(lines, "\n")
            if page ~= pages[1] then -- beside the first page is the folder of the plots
                new = new:gsub("%]%(plots/", "](../docs/plots/")
            end
            file:write(text:sub(1, from), new, "\n\n", text:sub(to))
            assert(file:close())
            return
        end
    end
    table.insert(problems, name)
end

--- Runs fn(); all its output is the section `name`.
---@return boolean # whether it succeeded; nothing is written otherwise
---@return string? # the error
function report.section(name, fn)
    section = {}
    local ok, problem = xpcall(fn, debug.traceback)
    if ok and pages[1] then
        add("")
        add("*" .. origin .. "*")
        write(name, section)
    end
    section = nil
    return ok, problem
end

--- Prints the sections that have no place in a page.
function report.close()
    for _, name in ipairs(problems) do
        print(string.format("no page has a place <!-- bench:%s -->", name))
    end
end

return report
