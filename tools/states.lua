--- The table of an entry's states in docs/design.md against the enum and the transitions in csrc/lock/entry.[ch]. For Lua 5.4.
--
--   lua5.4 tools/states.lua [DIRECTORY]    fails, and says what the page or the code lacks
--
-- A row says that each state in its first column may be followed by each state in its last one. A state is a word of capital
-- letters in backquotes: `PARKED` stands for ZKL_ENTRY_PARKED. The code has a line for each state that others may follow, such as
-- `[ZKL_ENTRY_LOOKING] = TO(PARKED) | TO(GONE),`.

local files = require "tools.files"

local root = arg[1] or "."
local enum = files.read(root .. "/csrc/lock/entry.h"):match "typedef enum {([^}]*)} zkl_entry_state;"
local transitions = files.read(root .. "/csrc/lock/entry.c"):match "next_states%[%] = (%b{});"
local rows = files.read(root .. "/docs/design.md"):match "\n<!%-%- states %-%->\n\n|[^\n]*\n|[-|]*\n(.-\n)\n"

--- Facts that the code and the page state, as text.
local coded, described, problems = {}, {}, {}

local function state(name)
    return "the state " .. name
end

local function transition(from, to)
    return ("the transition from %s to %s"):format(from, to)
end

for name in enum:gsub("/%*.-%*/", ""):gmatch "ZKL_ENTRY_(%u+)" do
    coded[state(name)] = true
end
for from, following in transitions:gsub("/%*.-%*/", ""):gmatch "%[ZKL_ENTRY_(%u+)%] = ([^,}]*)" do
    if following:gsub("TO%(%u+%)", ""):find "[^%s|0]" then
        problems[#problems + 1] = ("csrc/lock/entry.c: what may follow %s is more than TO(…): %s"):format(from, following)
    end
    for to in following:gmatch "TO%((%u+)%)" do
        coded[transition(from, to)] = true
    end
end
for row in rows:gmatch "[^\n]+" do
    local first, last = row:match "^ *|([^|]*)|[^|]*|([^|]*)| *$"
    if not first or not first:find "`%u+`" then
        problems[#problems + 1] = "docs/design.md: a row has no state, or not 3 columns: " .. row
    else
        for from in first:gmatch "`(%u+)`" do
            described[state(from)] = true
            for to in last:gmatch "`(%u+)`" do
                described[state(to)], described[transition(from, to)] = true, true
            end
        end
    end
end

local function compare(place, facts, others)
    for fact in pairs(others) do
        problems[#problems + 1] = not facts[fact] and ("%s lacks %s"):format(place, fact) or nil
    end
end
compare("docs/design.md", described, coded)
compare("csrc/lock/entry.[ch]", coded, described)
table.sort(problems)
for _, problem in ipairs(problems) do
    print(problem)
end
os.exit(#problems == 0)
