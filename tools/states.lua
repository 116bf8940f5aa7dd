--- The tables of states in docs/ against the enums and the tables of transitions in csrc/. Written for Lua 5.4.
--
--   lua5.4 tools/states.lua    fails, and says why, if a table and its enum differ
--
-- A table is checked if this comment is above it, with the name of an enum in csrc/:
--
--   <!-- states: zkl_entry_state -->
--
-- Each state of the enum must be in the table, and each name in the table must be a state. A name in the table is a word of capital
-- letters in backquotes. It stands for the constant without the words with which all constants of the enum begin: `PARKED` for
-- ZKL_ENTRY_PARKED.
--
-- A table of transitions has the columns "from", "event" and "to", and this comment above it:
--
--   <!-- transitions: zkl_entry_state -->
--
-- A row says that each state of its first column may be followed by each state of its last one. The source has the same as an array
-- with a line for each state, such as `[ZKL_ENTRY_LOOKING] = TO(PARKED) | TO(GONE),`. Both must have the same transitions.

--- Paths of the files in a folder whose names end like that, sorted.
local function files(folder, pattern)
    local list = {}
    local pipe = assert(io.popen(("find %s -name '%s' | LC_ALL=C sort"):format(folder, pattern)))
    for path in pipe:lines() do
        list[#list + 1] = path
    end
    pipe:close()
    return list
end

local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read "*a"
    file:close()
    return text
end

--- The words with which both texts begin, each with its underscore.
local function common_words(one, other)
    local length = 0
    while length < #one and one:byte(length + 1) == other:byte(length + 1) do
        length = length + 1
    end
    return one:sub(1, length):match "^.*_" or ""
end

--- Adds the enums of a C source: type -> array of its constants, without the words that they have in common.
local function read_enums(text, enums)
    for body, name in text:gmatch "typedef%s+enum%s*[%w_]*%s*{([^}]*)}%s*([%w_]+)%s*;" do
        local constants, prefix = {}, nil
        for constant in (body .. ","):gmatch "%s*([%a_][%w_]*)[^,]*," do
            constants[#constants + 1] = constant
            prefix = prefix and common_words(prefix, constant) or constant
        end
        for index, constant in ipairs(constants) do
            constants[index] = constant:sub(#prefix + 1)
        end
        constants.prefix = prefix
        enums[name] = constants
    end
end

--- Adds the transitions of a C source: constant -> states that may follow it, without the words that they have in common.
local function read_transitions(text, transitions)
    for constant, states in text:gmatch "%[([%u_%d]+)%] = ([^,]-)," do
        if states:find "^TO%(" or states == "0" then
            local following = transitions[constant] or {}
            for state in states:gmatch "TO%(([%u_%d]+)%)" do
                following[#following + 1] = state
            end
            transitions[constant] = following
        end
    end
end

local problems = 0
local function complain(...)
    problems = problems + 1
    print((...):format(select(2, ...)))
end

--- Compares the lines of a table with an enum.
local function check_table(page, enum, constants, rows)
    local states, named = {}, {}
    for _, state in ipairs(constants) do
        states[state] = true
    end
    for _, row in ipairs(rows) do
        for name in row:gmatch "`(%u[%u%d_]*)`" do
            if not states[name] and not named[name] then
                complain("%s: %s has no state %s", page, enum, name)
            end
            named[name] = true
        end
    end
    for _, state in ipairs(constants) do
        if not named[state] then
            complain("%s: the table of %s lacks %s", page, enum, state)
        end
    end
end

--- The names of states in a cell.
local function names_in(cell)
    local names = {}
    for name in cell:gmatch "`(%u[%u%d_]*)`" do
        names[#names + 1] = name
    end
    return names
end

--- Compares the lines of a table of transitions with those of the source.
local function check_transitions(page, enum, constants, rows, transitions)
    check_table(page, enum, constants, rows)
    local described, coded = {}, {}
    for _, row in ipairs(rows) do
        local from, to = row:match "^|([^|]*)|.*|([^|]*)|$"
        for _, state in ipairs(names_in(from or "")) do
            for _, following in ipairs(names_in(to)) do
                described[state .. " to " .. following] = true
            end
        end
    end
    for _, state in ipairs(constants) do
        for _, following in ipairs(transitions[constants.prefix .. state] or {}) do
            coded[state .. " to " .. following] = true
        end
    end
    for _, state in ipairs(constants) do
        for _, following in ipairs(constants) do
            local transition = state .. " to " .. following
            if coded[transition] and not described[transition] then
                complain("%s: the table of %s lacks the transition from %s", page, enum, transition)
            elseif described[transition] and not coded[transition] then
                complain("%s: %s has no transition from %s", page, enum, transition)
            end
        end
    end
end

--- Checks the marked tables of a page.
local function check_page(page, enums, transitions)
    local enum, rows, kind
    for line in (read(page) .. "\n\n"):gmatch "([^\n]*)\n" do
        local what, marked = line:match "^<!%-%- (%l+): ([%w_]+) %-%->$"
        marked = (what == "states" or what == "transitions") and marked
        if enum and (marked or not line:find "^|" and (#rows > 0 or line ~= "")) then
            if kind == "states" then
                check_table(page, enum, enums[enum], rows)
            else
                check_transitions(page, enum, enums[enum], rows, transitions)
            end
            enum = nil
        end
        if marked then
            enum, rows, kind = marked, {}, what
            if not enums[enum] then
                complain("%s: there is no enum %s in csrc/", page, enum)
                enum = nil
            end
        elseif enum and line:find "^|" then
            rows[#rows + 1] = line
        end
    end
end

local enums, transitions = {}, {}
for _, path in ipairs(files("csrc", "*.[ch]")) do
    local text = read(path):gsub("/%*.-%*/", "")
    read_enums(text, enums)
    read_transitions(text, transitions)
end
for _, page in ipairs(files("docs", "*.md")) do
    check_page(page, enums, transitions)
end
os.exit(problems == 0)
