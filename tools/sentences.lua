--- sentences: finds sentences in comments and pages that are hard to read, by the turns of phrase that make them so.
--
--     lua5.4 tools/sentences.lua check             fails if too many sentences are hit, over all or in a file, and prints them
--     lua5.4 tools/sentences.lua list [FILE…]      prints each sentence of these files, or of all files, that is hit
--
-- A hit is a line `FILE:LINE: TURN: SENTENCE`, the last line is `N of M sentences, P %`. A hit is a sign and not a verdict: it is a
-- sentence to read again. Therefore a share of hits is accepted, 4 %, over all and in each file that has more than 50 sentences.
--
-- The tool reads the files in git, and files that could be added to it, whose names end in .c, .h, .lua, .md or .sh. It leaves out
-- changelogs and pages in Chinese. In a file it passes over code blocks, tables and text in backquotes.

local sentences = {}

--- The largest accepted share of hits, in percent.
sentences.LIMIT = 4

--- A file with at most that many sentences has no share of its own: a single hit would be too many.
sentences.SMALL = 50

--- The turns of phrase, in small letters.
--
-- In a phrase, `{a|b}` stands for `a` or `b`. A `*` at the end stands for the rest of the word. A turn with `start` is found at the
-- beginning of a sentence only. A turn without phrases has a function of the sentence, `matches`. A turn that is `weak` makes a
-- hit only together with another turn, because plain sentences have it, too.
sentences.TURNS = {
    { name = "pronoun as subject", start = true, phrases = { "who", "{whoever|whom|whose}", "{nobody|somebody|everybody}" } },
    { name = "no noun as subject", start = true, phrases = {
        "{what|that|which|those who}", "of {these|those|them|this|it|its|the}"
    } },
    { name = "who as object", phrases = { "{for|to|of|by|with|from|as|tells|asks} who{|ever|m|mever}" } },
    { name = "and who", weak = true, phrases = { "and who{|ever}" } },
    { name = "inverted", phrases = { "nor {is|does|do|can|will|has}", "lest", "be it", "so {does|is|are}", "as {does|do}" } },
    { name = "is to be", weak = true, phrases = { "{is|are|was|were} {|yet |still }to {be|come|go}" } },
    { name = "of its own", weak = true, phrases = { "one's own", "of {its|their|his} own" } },
    { name = "thing as person", weak = true, phrases = {
        "{hear|hears|know|knows} of", "{is|are} told", "{speak|speaks}", "hungry", "starv*", "fed", "{feed|feeds|feeding} the",
        "robbed", "sees to it", "{look|looks} afterwards", "{says|said} so", "goodbye", "dies", "lies",
        "{believe|believes|believed}", "patience", "stranger", "impostor"
    } },
    { name = "all that", weak = true, phrases = {
        "all {that|who}", "what {it|they|we|is|was|has|comes|came|others|nobody}"
    } },
    { name = "nobody", weak = true, phrases = { "{nobody|somebody|everybody}" } },
    { name = "two semicolons", matches = function(sentence)
        return sentence:find(";[^;]*;") ~= nil
    end },
    { name = "long", matches = function(sentence)
        return select(2, sentence:gsub("%S+", "")) > 38
    end }
}

--- "{a|b} c" -> "a c", "b c"
local function expand(phrase, into)
    local before, choices, after = phrase:match("^(.-){(.-)}(.*)$")
    if not before then
        into[#into + 1] = phrase
        return into
    end
    for choice in (choices .. "|"):gmatch("([^|]*)|") do
        expand(before .. choice .. after, into)
    end
    return into
end

for _, turn in ipairs(sentences.TURNS) do
    turn.expanded = {}
    for _, phrase in ipairs(turn.phrases or {}) do
        expand(phrase, turn.expanded)
    end
end

--- Returns whether a text has a phrase, as whole words. The text is in small letters, with a blank before and after it.
local function has_phrase(text, phrase, start)
    local words = phrase:gsub("%*$", "")
    local first, last = text:find(words, 1, true)
    while first and not (start and first > 2) do
        local ends = phrase == words and text:find("^[^%w_]", last + 1) or phrase ~= words and text:find("^[%w_]", last + 1)
        local question = start and text:find("^%?", last + 1)
        if ends and not question and text:find("^[^%w_]", first - 1) then
            return true
        end
        first, last = text:find(words, first + 1, true)
    end
    return false
end

local function has_turn(turn, sentence, text)
    if turn.matches then
        return turn.matches(sentence)
    end
    for _, phrase in ipairs(turn.expanded) do
        if has_phrase(text, phrase, turn.start) then
            return true
        end
    end
    return false
end

--- Returns the names of the turns that make a sentence a hit, in an array; nil if it is none.
function sentences.turns_of(sentence)
    local names, strong = {}, false
    local text = " " .. sentence:lower() .. " "
    for _, turn in ipairs(sentences.TURNS) do
        if has_turn(turn, sentence, text) then
            names[#names + 1] = turn.name
            strong = strong or not turn.weak
        end
    end
    return (strong or #names > 1) and names or nil
end

local function trim(text)
    return text:match("^%s*(.-)%s*$")
end

--- Returns the text, or nil instead of an empty one.
local function filled(text)
    return text ~= "" and text or nil
end

--- Returns a function of a line of Markdown that gives its prose, or nil if it has none.
local function page_reader()
    local in_code = false
    return function(line)
        local trimmed = trim(line)
        if trimmed:find("^```") then
            in_code = not in_code
            return nil
        elseif in_code or trimmed == "" or trimmed:find("^|") then
            return nil
        end
        return (line:gsub("^[#>%-*%d. ]+", ""))
    end
end

--- The same for C. A line has at most one comment that is read.
local function c_reader()
    local inside = false
    return function(line)
        local text = inside and line or line:match("/%*(.*)")
        if not text then
            return nil
        end
        local before = text:match("^(.-)%*/")
        inside = not before
        return filled(trim((trim(before or text):gsub("^%*+", ""))))
    end
end

--- The same for languages whose comments begin with a mark and end with the line.
local function script_reader(mark)
    return function(line)
        local trimmed = trim(line)
        if trimmed:sub(1, #mark) == mark then
            return filled(trim((trimmed:gsub("^[-#]+", ""))))
        end
        local _, last = line:find(" " .. mark .. " ", 1, true)
        return last and line:sub(last + 1)
    end
end

local function reader_of(path)
    local ending = path:match("%.(%w+)$")
    return ending == "md" and page_reader() or (ending == "c" or ending == "h") and c_reader() or
        script_reader(ending == "lua" and "--" or "#")
end

--- Appends the sentences of some lines that belong together. The first of them has this number.
local function add_sentences(lines, number, found)
    -- A line end within backquotes becomes a byte that separates no words, so that lines can still be counted.
    local text = table.concat(lines, "\n"):gsub("`([^`]*)`", function(code)
        return "X" .. ("\1"):rep(select(2, code:gsub("\n", "")))
    end)
    local function add(part)
        local _, words = part:gsub("%S+", "")
        if words >= 4 then
            local above = select(2, part:match("^%s*"):gsub("\n", ""))
            found[#found + 1] = { line = number + above, text = trim((part:gsub("\1", ""):gsub("\n", " "))) }
        end
        number = number + select(2, part:gsub("[\n\1]", ""))
    end
    -- A sentence ends before a capital letter, or before a tag of the documentation, which is not part of the next one.
    local first, from = 1, 1
    while true do
        local blank, last = text:find("%s+", from)
        if not blank then
            break
        end
        local tag = last > blank and text:match("^@[%w_]+", last + 1)
        if tag or text:find("^[.!?]", blank - 1) and text:find("^[%u(\"']", last + 1) then
            add(text:sub(first, blank - 1))
            number = number + select(2, text:sub(blank, last):gsub("\n", ""))
            first = last + 1 + #(tag or "")
        end
        from = last + 1
    end
    add(text:sub(first))
end

--- Returns the sentences of a file: an array of `{ line =, text = }`. Fewer than four words are no sentence.
-- @tparam string path tells the language
-- @tparam string text content of the file
function sentences.of(path, text)
    local found, lines, start, number = {}, {}, 0, 0
    local prose_of = reader_of(path)
    for line in (text .. "\n\n"):gmatch("([^\n]*)\n") do
        number = number + 1
        local prose = prose_of(line)
        if prose and not prose:find("^@") then
            start = lines[1] and start or number
            lines[#lines + 1] = prose
        elseif lines[1] then
            add_sentences(lines, start, found)
            lines = {}
        end
    end
    if lines[1] then
        add_sentences(lines, start, found)
    end
    return found
end

local function share(hits, count)
    return 100 * hits / math.max(1, count)
end

--- Reads a file. Returns `{ path =, count =, hits = }` with the number of its sentences, and its hits as lines; nil without a file.
function sentences.read(path)
    local file = io.open(path, "rb")
    if not file then
        return nil
    end
    local result = { path = path, count = 0, hits = {} }
    for _, sentence in ipairs(sentences.of(path, assert(file:read("*a")))) do
        local turns = sentences.turns_of(sentence.text)
        result.count = result.count + 1
        if turns then
            result.hits[#result.hits + 1] = ("%s:%d: %s: %s"):format(path, sentence.line, table.concat(turns, ", "), sentence.text)
        end
    end
    file:close()
    return result
end

--- Returns the paths of all files to read.
function sentences.files()
    local found = {}
    local pipe = assert(io.popen("git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.lua' '*.md' '*.sh'"))
    for path in pipe:lines() do
        if not path:find("CHANGELOG", 1, true) and not path:find("^docs/zh/") and not path:find("%.zh%-CN%.md$") then
            found[#found + 1] = path
        end
    end
    pipe:close()
    return found
end

--- Returns a line with the sums of some results, and whether the share of hits is accepted.
local function sum(results)
    local hits, count = 0, 0
    for _, result in ipairs(results) do
        hits, count = hits + #result.hits, count + result.count
    end
    return ("%d of %d sentences, %.1f %%"):format(hits, count, share(hits, count)), share(hits, count) <= sentences.LIMIT
end

local function add_hits(result, lines)
    for _, hit in ipairs(result.hits) do
        lines[#lines + 1] = hit
    end
end

--- Reads files. Returns the lines to print, and whether the files pass.
-- @tparam table paths
function sentences.list(paths)
    local results, lines = {}, {}
    for _, path in ipairs(paths) do
        local result = sentences.read(path)
        results[#results + 1] = result
        add_hits(result or { hits = {} }, lines)
    end
    lines[#lines + 1] = (sum(results))
    return lines, true
end

--- The same, but only the hits of files with too many of them, or of all files if there are too many over all.
-- @tparam table paths
function sentences.check(paths)
    local results = {}
    for _, path in ipairs(paths) do
        results[#results + 1] = sentences.read(path)
    end
    local lines, passed = {}, true
    local total, accepted = sum(results)
    for _, result in ipairs(results) do
        local too_many = result.count > sentences.SMALL and share(#result.hits, result.count) > sentences.LIMIT
        if too_many then
            passed = false
            lines[#lines + 1] = ("%s: %s, at most %d %% may be hit"):format(result.path, sum({ result }), sentences.LIMIT)
        end
        if too_many or not accepted then
            add_hits(result, lines)
        end
    end
    if not results[1] then
        return { "there are no files: is this a git repository?" }, false
    end
    lines[#lines + 1] = total .. (accepted and "" or (", at most %d %% may be hit"):format(sentences.LIMIT))
    return lines, passed and accepted
end

if arg and arg[0] and arg[0]:find("sentences%.lua$") then
    local run = ({ check = sentences.check, list = sentences.list })[arg[1]]
    local paths = { (table.unpack or unpack)(arg, 2) }
    if not run or arg[1] == "check" and paths[1] then
        error("usage: lua5.4 tools/sentences.lua check | list [FILE…]", 0)
    end
    local lines, passed = run(paths[1] and paths or sentences.files())
    print(table.concat(lines, "\n"))
    os.exit(passed and 0 or 1)
end

return sentences
