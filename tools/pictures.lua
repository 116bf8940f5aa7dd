--- Draws the pictures of the documentation: docs/pictures/NAME.svg in English, NAME.zh.svg in Chinese. For every Lua.
--
--   lua5.4 tools/pictures.lua                   writes all of them, or those that are named
--   lua5.4 tools/pictures.lua --check           fails, and says which, if a picture is not what its program draws today,
--                                               or breaks a rule
--
-- The program of NAME is tools/pictures/NAME.lua: a function of the language that returns the SVG. The other pictures are written
-- by hand. tools/pictures/rules.lua has the rules for all of them.

package.path = "./?.lua;" .. package.path

local broken_rules = require "tools.pictures.rules"

local DIRECTORY = "docs/pictures/"
local SHARED = { canvas = true, nodes = true, rules = true } -- used by programs, and no program
local LANGUAGES = { { "en", ".svg" }, { "zh", ".zh.svg" } }

local function read(path)
    local file = io.open(path, "rb")
    local text = file and file:read "*a"
    if file then
        file:close()
    end
    return text
end

--- Paths of the files in a directory whose names have this end, sorted.
local function find(directory, ending)
    local list = {}
    local pipe = assert(io.popen(("find %s -name '*%s' | LC_ALL=C sort"):format(directory, ending)))
    for path in pipe:lines() do
        list[#list + 1] = path
    end
    pipe:close()
    return list
end

--- Names of the pictures that have a program.
local function drawn()
    local names = {}
    for _, path in ipairs(find("tools/pictures", ".lua")) do
        local name = path:match "([^/]+)%.lua$"
        if not SHARED[name] then
            names[#names + 1] = name
        end
    end
    return names
end

local function draw(name, language)
    return (require("tools.pictures." .. name))(language)
end

local function check()
    local problems = 0
    local function complain(path, what)
        problems = problems + 1
        print(("%s %s"):format(path, what))
    end
    for _, name in ipairs(drawn()) do
        for _, language in ipairs(LANGUAGES) do
            local path = DIRECTORY .. name .. language[2]
            if read(path) ~= draw(name, language[1]) then
                complain(path, "is older than its program: make pictures")
            end
        end
    end
    for _, path in ipairs(find(DIRECTORY, ".svg")) do
        for _, problem in ipairs(broken_rules(read(path))) do
            complain(path, problem)
        end
    end
    return problems == 0
end

local function write(names)
    for _, name in ipairs(names) do
        for _, language in ipairs(LANGUAGES) do
            local text = draw(name, language[1])
            local file = assert(io.open(DIRECTORY .. name .. language[2], "wb"))
            assert(file:write(text))
            assert(file:close())
        end
    end
    return true
end

local done
if arg[1] == "--check" then
    done = check()
else
    done = write(arg[1] and arg or drawn())
end
os.exit(done and 0 or 1)
