--- Which lines of lua/zklock/ run. Written for Lua 5.4.
--
--   LUA_INIT=@tools/coverage.lua ZKLOCK_COVERAGE=DIR lua5.4 …    counts in that program, and in all that it starts, into DIR
--   lua5.4 tools/coverage.lua DIR                               adds up what DIR has, and names the lines that did not run
--
-- A hook belongs to one coroutine, so each new one gets it too. A program that is killed leaves no counts.

local getinfo, sethook = debug.getinfo, debug.sethook

--- file -> line -> true
local ran = {}

--- source -> the table of its file, false if it is none of ours
local known = {}

local function lines_of(source)
    local file = source:match "lua/(zklock/.*%.lua)$"
    local lines = false
    if file and source:sub(1, 1) == "@" then
        ran[file] = ran[file] or {}
        lines = ran[file]
    end
    known[source] = lines
    return lines
end

local function note(_, line)
    local source = getinfo(2, "S").source
    local lines = known[source]
    if lines == nil then
        lines = lines_of(source)
    end
    if lines then
        lines[line] = true
    end
end

local function write_down(directory)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    for name, lines in pairs(ran) do
        for line in pairs(lines) do
            file:write(name, " ", line, "\n")
        end
    end
    file:close()
    -- under a name that no other process has; tmpname has made sure of that
    os.rename(path, directory .. "/" .. path:match "[^/]+$")
    ran, known = {}, {}
end

local function collect(directory)
    local create, wrap, exit = coroutine.create, coroutine.wrap, os.exit
    coroutine.create = function(fn) -- luacheck: ignore 122
        local thread = create(fn)
        sethook(thread, note, "l")
        return thread
    end
    coroutine.wrap = function(fn) -- luacheck: ignore 122
        return wrap(function(...)
            sethook(note, "l")
            return fn(...)
        end)
    end
    os.exit = function(...) -- luacheck: ignore 122
        write_down(directory)
        exit(...)
    end
    local atexit = setmetatable({}, { __gc = function() write_down(directory) end })
    debug.getregistry()[atexit] = atexit
    sethook(note, "l")
end

--- The lines that have code, as the compiler sees it; an `end` alone is none.
local function lines_with_code(path)
    local texts, lines = {}, {}
    for text in io.lines(path) do
        texts[#texts + 1] = text
    end
    local listing = assert(io.popen(("luac5.4 -l -p '%s'"):format(path)))
    for row in listing:lines() do
        local line = tonumber(row:match "^\t%d+\t%[(%d+)%]")
        if line and not texts[line]:find "^%s*end[%s,;)}]*$" and not texts[line]:find "^%s*%-%-" then
            lines[line] = true
        end
    end
    listing:close()
    return lines
end

local function files(command)
    local list, pipe = {}, assert(io.popen(command))
    for name in pipe:lines() do
        list[#list + 1] = name
    end
    pipe:close()
    return list
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
    for _, path in ipairs(files(("find '%s' -type f"):format(directory))) do
        for row in io.lines(path) do
            local name, line = row:match "^(%S+) (%d+)$"
            ran[name] = ran[name] or {}
            ran[name][tonumber(line)] = true
        end
    end
    local all_run, all = 0, 0
    for _, path in ipairs(files "find lua/zklock -name '*.lua' | sort") do
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

local directory = os.getenv "ZKLOCK_COVERAGE"
if arg and arg[0] and arg[0]:find "tools/coverage%.lua$" and arg[1] then
    report(arg[1])
elseif directory then
    collect(directory)
end
