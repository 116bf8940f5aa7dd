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
-- A table has transitions if its last column is called "to" or "next". A row says that each state in its first column may be
-- followed by each state in its last one. The source has the transitions as an array with a line for each state, such as
-- `[ZKL_ENTRY_LOOKING] = TO(PARKED) | TO(GONE),`. Both must have the same ones.

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

local problems = 0
local function complain(...)
    problems = problems + 1
    print((...):format(select(2, ...)))
end

--- Adds the transitions of a C source: constant -> list of the states that may follow it, without their common words.
local function read_transitions(path, text, transitions)
    for array in text:gmatch "%[%]%s*=%s*(%b{})" do
        if array:find "TO%(" then
            for constant, states in array:gmatch "%[([%w_]+)%]%s*=%s*([^,}]*)" do
                local following = {}
                for state in states:gmatch "TO%(([%w_]+)%)" do
                    following[#following + 1] = state
                end
                if states:gsub("TO%([%w_]+%)", ""):find "[^%s|0]" then
                    complain("%s: the transitions of %s have more than TO(…): %s", path, constant, states)
                elseif transitions[constant] then
                    complain("%s: there are transitions of %s twice", path, constant)
                end
                transitions[constant] = following
            end
        end
    end
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

--- The cells of a table's row, without the blanks around them.
local function cells_of(row)
    local cells = {}
    for cell in row:gsub("^%s*|", ""):gsub("|%s*$", ""):gmatch "[^|]+" do
        cells[#cells + 1] = cell:match "^%s*(.-)%s*$"
    end
    return cells
end

--- Adds the transitions of a table to a set of "A to B".
local function add_transitions(page, enum, header, rows, set)
    for index = 3, #rows do
        local cells, from = cells_of(rows[index]), 0
        for state in (cells[1] or ""):gmatch "`(%u[%u%d_]*)`" do
            from = from + 1
            for following in (cells[#header] or ""):gmatch "`(%u[%u%d_]*)`" do
                set[state .. " to " .. following] = true
            end
        end
        if from == 0 or #cells ~= #header then
            complain("%s: a row of the table of %s has no state, or not %d columns: %s", page, enum, #header, rows[index])
        end
    end
end

--- Checks the marked tables of a page. Adds the transitions that they describe: enum -> page and set of "A to B".
local function check_page(page, enums, described)
    local enum, rows
    for line in (read(page) .. "\n\n"):gmatch "([^\n]*)\n" do
        local marked = line:match "^<!%-%- states: ([%w_]+) %-%->$"
        local is_row = line:find "^%s*|"
        if enum and (marked or not is_row and (#rows > 0 or line ~= "")) then
            check_table(page, enum, enums[enum], rows)
            local header = cells_of(rows[1] or "")
            local last = header[#header] or ""
            if last == "to" or last == "next" then
                described[enum] = described[enum] or { page = page, transitions = {} }
                add_transitions(page, enum, header, rows, described[enum].transitions)
            end
            enum = nil
        end
        if marked then
            enum, rows = marked, {}
            if not enums[enum] then
                complain("%s: there is no enum %s in csrc/", page, enum)
                enum = nil
            end
        elseif enum and is_row then
            rows[#rows + 1] = line
        end
    end
end

--- Compares the transitions of the source with those that the tables describe.
local function compare(enum, constants, transitions, found)
    local coded = {}
    for _, state in ipairs(constants) do
        for _, following in ipairs(transitions[constants.prefix .. state] or {}) do
            coded[state .. " to " .. following] = true
        end
    end
    for _, state in ipairs(constants) do
        for _, following in ipairs(constants) do
            local transition = state .. " to " .. following
            if coded[transition] and not found.transitions[transition] then
                complain("%s: the table of %s lacks the transition from %s", found.page, enum, transition)
            elseif found.transitions[transition] and not coded[transition] then
                complain("%s: %s has no transition from %s", found.page, enum, transition)
            end
        end
    end
end

local enums, transitions, described = {}, {}, {}
for _, path in ipairs(files("csrc", "*.[ch]")) do
    local text = read(path):gsub("/%*.-%*/", "")
    read_enums(text, enums)
    read_transitions(path, text, transitions)
end
for _, page in ipairs(files("docs", "*.md")) do
    check_page(page, enums, described)
end
local names = {}
for enum in pairs(enums) do
    names[#names + 1] = enum
end
table.sort(names)
for _, enum in ipairs(names) do
    if described[enum] then
        compare(enum, enums[enum], transitions, described[enum])
    end
end
os.exit(problems == 0)
