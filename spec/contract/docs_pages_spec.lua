--- Checks pages: spec/TRAPS.md names only existing specs, checks and tests; figures of campaigns; figures and codes for operators.

local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"

local none, read = documentation.none, docstrings.read_file

describe("spec/TRAPS.md", function()
    local rows = documentation.rows(read("spec/TRAPS.md"), "Traps of the client and the server")
    local paths = {}
    for _, ending in ipairs { ".lua", ".c" } do
        for _, path in ipairs(files.find("spec", ending)) do
            paths[path:match("[^/]+$")] = path
        end
    end

    it("names, for each trap, a check that would notice it, or the reason why zklock is not affected", function()
        local problems = {}
        assert.is_true(#rows > 50, #rows)
        for _, cells in ipairs(rows) do
            if #cells ~= 3 then
                problems[#problems + 1] = ("%d cells: %s"):format(#cells, cells[1])
            elseif not documentation.references(cells[3])[1] and not cells[3]:find("^Not tested: %l") then
                problems[#problems + 1] = "nothing is named: " .. cells[1]
            end
        end
        none(problems)
    end)

    it("names only existing specs, checks and tests", function()
        local problems, names = {}, 0
        for _, cells in ipairs(rows) do
            for _, reference in ipairs(documentation.references(cells[3] or "")) do
                local path = paths[reference.file]
                names = names + 1
                if not path or not documentation.has_title(path, read(path), reference.title) then
                    problems[#problems + 1] = ("%s: %s"):format(reference.file or "no file", reference.title)
                end
            end
        end
        assert.is_true(names > 80, names)
        none(problems)
    end)
end)

describe("the READMEs and docs/reliability.md", function()
    it("have the figures of the latest fault campaigns", function()
        local results, problems = read("spec/campaign/RESULTS.md"), {}
        local function figure(campaign, name)
            local part = results:match("<!%-%- " .. campaign .. ": begin %-%->(.-)<!%-%- " .. campaign .. ": end %-%->")
            return (assert(part:match("\n| " .. name .. " | ([%d ]+) |\n"), name))
        end
        for _, page in ipairs { "README.md", "README.zh-CN.md", "docs/reliability.md" } do
            for _, number in ipairs { figure("campaign", "acquisitions"), figure("campaign", "faults"),
                figure("campaign", "overlaps of conflicting holds"), figure("control", "overlaps of conflicting holds"),
                figure("control", "seconds under faults") } do
                if not read(page):find("%f[%d]" .. number .. "%f[%D]") then
                    problems[#problems + 1] = ("%s: has no %s"):format(page, number)
                end
            end
        end
        none(problems)
    end)
end)

describe("docs/operate/session-timeout.md", function()
    it("has figures that follow from the session timeout", function()
        local rows, problems = documentation.rows(read("docs/operate/session-timeout.md"), "Its price"), {}
        assert.is_true(#rows >= 5, #rows)
        for _, cells in ipairs(rows) do
            local seconds = tonumber(cells[1])
            for column, factor in pairs { [2] = 1, [3] = 3 / 10, [4] = 1 / 2, [5] = 1 / 13 } do
                local expected = ("%.2f"):format(seconds * factor):gsub("%.?0+$", "") .. " s"
                if seconds * factor % 1 == 0 then
                    expected = ("%d s"):format(seconds * factor)
                end
                if cells[column] ~= expected then
                    problems[#problems + 1] = ("T = %d: %s, not %s"):format(seconds, expected, cells[column])
                end
            end
        end
        documentation.none(problems)
    end)
end)

describe("docs/operate/runbook.md", function()
    it("says for each code what to do", function()
        local runbook, codes = {}, documentation.table_words(read("docs/reference/codes.md"), "| code | means |")
        for _, cells in ipairs(documentation.rows(read("docs/operate/runbook.md"), "By code")) do
            for code in cells[1]:gmatch("`([%l_]+)`") do
                runbook[code] = true
            end
        end
        documentation.none(documentation.differences("the runbook", runbook, "docs/reference/codes.md", codes))
    end)
end)
