--- Reports the lines of lua/ that have run. Written for Lua 5.4.
--
--   lua5.4 tools/coverage.lua DIR        adds up what tools/linehook.c has written to DIR, and names the lines that did not run
local files = require "tools.files"

local ran = {}

--- The lines that have code according to the compiler; a line with only `end` does not count.
local function lines_with_code(path)
    local texts, lines = {}, {}
    for text in io.lines(path) do
        texts[#texts + 1] = text
    end
    for _, row in ipairs(files.lines_of(("luac5.4 -l -p '%s'"):format(path))) do
        local line, instruction = row:match "^\t%d+\t%[(%d+)%]\t(%u+)"
        -- VARARGPREP belongs to the function itself; a hook gets no line for it.
        line = instruction ~= "VARARGPREP" and tonumber(line)
        if line and not texts[line]:find "^%s*end[%s,;)}]*$" and not texts[line]:find "^%s*%-%-" then
            lines[line] = true
        end
    end
    return lines
end

--- { 3, 4, 5, 9 } -> "3-5 9"
local function ranges(numbers)
    local parts, first = {}, nil
    for index, number in ipairs(numbers) do
        first = first or number
        if numbers[index + 1] ~= number + 1 then
            parts[#parts + 1] = first == number and tostring(number) or first .. "-" .. number
            first = nil
        end
    end
    return table.concat(parts, " ")
end

local function report(directory)
    for _, path in ipairs(files.lines_of(("find '%s' -type f"):format(directory))) do
        for row in io.lines(path) do
            local name, line = row:match "^(%S+) (%d+)$"
            ran[name] = ran[name] or {}
            ran[name][tonumber(line)] = true
        end
    end
    local all_run, all = 0, 0
    for _, path in ipairs(files.lines_of "find lua -name '*.lua' | sort") do
        local lines, missing, count, run = ran[path:match "lua/(.*)"] or {}, {}, 0, 0
        for line in pairs(lines_with_code(path)) do
            count = count + 1
            if lines[line] then
                run = run + 1
            else
                missing[#missing + 1] = line
            end
        end
        table.sort(missing)
        all_run, all = all_run + run, all + count
        print(("%-36s %5.1f %%  %4d of %4d  %s"):format(path, 100 * run / count, run, count, ranges(missing)))
    end
    print(("lines of Lua: %.1f%% (%d out of %d)"):format(100 * all_run / all, all_run, all))
end

report((assert(arg[1], "which directory?")))
