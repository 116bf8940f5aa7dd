--- support.documentation: the checks of spec/contract/docs_api_spec.lua and docs_pages_spec.lua, which compare the code with its
-- documentation.
--
-- The functions read texts and functions and return lists of problems, so that docs_checks_spec.lua can test each check on small
-- sources that were made up for it.

local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"

local documentation = {}

--- Pages whose Lua other specs than docs_code_spec run: it needs more than a client.
documentation.RUN_ELSEWHERE = {
    ["docs/command.md"] = "spec/contract/command_settings_spec.lua",
    ["docs/fencing.md"] = "spec/behaviour/token_spec.lua",
    ["docs/loops.md"] = "spec/contract/loops_page_spec.lua",
    ["docs/metrics.md"] = "spec/contract/docs_metrics_spec.lua",
    ["docs/openresty.md"] = "spec/contract/openresty_examples_spec.lua",
    ["docs/security.md"] = "spec/contract/security_page_spec.lua",
    ["docs/tutorial.md"] = "spec/contract/command_tutorial_spec.lua",
    ["docs/zh/start.md"] = "spec/contract/docs_translations_spec.lua"
}

--- Returns the paths of the pages for users, in each language: the READMEs, and all of docs/.
function documentation.pages()
    local pages = files.find("docs", ".md")
    for path in cluster.run({ "sh", "-c", "ls README*.md" }):gmatch("[^\n]+") do
        table.insert(pages, 1, path)
    end
    return pages
end

--- Appends the elements of the second list to the first, and returns that.
function documentation.append(list, more)
    for _, one in ipairs(more) do
        list[#list + 1] = one
    end
    return list
end

--- Raises an error that has a line for each problem, if there are problems.
function documentation.none(problems)
    assert(#problems == 0, "\n" .. table.concat(problems, "\n"))
end

--- Returns a set as a sorted list.
function documentation.sorted(set)
    local names = {}
    for name in pairs(set) do
        names[#names + 1] = name
    end
    table.sort(names)
    return names
end

--- Returns the differences between two sets, both ways, as problems.
function documentation.differences(here, one, there, other)
    local problems = {}
    for _, name in ipairs(documentation.sorted(one)) do
        if not other[name] then
            problems[#problems + 1] = ("%s: in %s and not in %s"):format(name, here, there)
        end
    end
    for _, name in ipairs(documentation.sorted(other)) do
        if not one[name] then
            problems[#problems + 1] = ("%s: in %s and not in %s"):format(name, there, here)
        end
    end
    return problems
end

-- Functions and their docstrings --------------------------------------------------------------------------------------

--- Returns the definition of an existing function, found by its line as Lua reports it.
---@param fn function
---@param read function path -> text
function documentation.definition_of(fn, read)
    local info = debug.getinfo(fn, "S")
    local path = info.source:match("^@(.*)$")
    local source = docstrings.read(read(path))
    for _, defined in ipairs(source.functions) do
        if defined.line == info.linedefined then
            return defined
        end
    end
end

--- Returns the names of an argument list as one text, without `self`.
local function as_text(names)
    return "(" .. table.concat(names, ", ") .. ")"
end

local function names_of(params)
    local names = {}
    for index, param in ipairs(params) do
        names[index] = param.name
    end
    return names
end

--- Returns how many named parameters a function has, if Lua reports it (5.1 does not).
local function parameter_count(fn)
    return debug.getinfo(fn, "u").nparams
end

--- Returns the problems of a public function's docstring: it is missing or empty, its parameters are not the function's, or it
-- names a code that does not exist.
---@param name string for messages
---@param fn function
---@param read function path -> text
---@param codes table set of the existing codes
---@return table # problems
function documentation.function_problems(name, fn, read, codes)
    local defined = documentation.definition_of(fn, read)
    if not defined then
        return { name .. ": its definition cannot be found" }
    end
    local doc, problems = defined.doc, {}
    if not doc or not doc.text:find("%S") then
        return { name .. ": has no docstring directly above it" }
    end
    local documented, real = as_text(names_of(doc.params)), as_text(defined.arguments)
    if documented ~= real then
        problems[#problems + 1] = ("%s: documented as %s, but it is %s"):format(name, documented, real)
    end
    local count = parameter_count(fn)
    local listed = #defined.arguments + (defined.separator == ":" and 1 or 0)
    if count and defined.arguments[#defined.arguments] == "..." then
        count = count + 1
    end
    if count and count ~= listed then
        problems[#problems + 1] = ("%s: its source line says %d parameters, Lua says %d"):format(name, listed, count)
    end
    for _, result in ipairs(doc.returns) do
        if result.name == "code" then
            for code in result.text:gmatch('"([%l_]+)"') do
                if not codes[code] then
                    problems[#problems + 1] = ('%s: there is no code "%s"'):format(name, code)
                end
            end
        end
    end
    return problems
end

-- Options -------------------------------------------------------------------------------------------------------------

--- Returns the options that a function knows, as a set, from its error about an unknown option. `call` passes its argument to the
-- function as the table of options. Returns nil if there is no such error.
function documentation.known_options(call)
    local ok, message = pcall(call, { ["no such option"] = true })
    local known = not ok and tostring(message):match("unknown option 'no such option' %(known: (.-)%)")
    if not known then
        return nil
    end
    local names = {}
    for name in known:gmatch("[%w_]+") do
        names[name] = true
    end
    names.none = nil
    return names
end

--- Returns the parameter with a function's options, and the name of their class; nil if it takes no options.
function documentation.options_parameter(doc)
    for _, param in ipairs(doc.params) do
        local class = param.type:match("zklock%.(%w+Options)")
        if class then
            return param, class
        end
    end
end

--- Returns the names of fields, or of the values of an alias, as a set.
function documentation.names(list)
    local names = {}
    for _, one in ipairs(list) do
        names[one.name] = true
    end
    return names
end

--- Returns the problems of a docstring's tags: one does not exist, or names a type of zklock that does not exist.
---@param name string for messages
---@param doc table
---@param entries table the existing types, by name
---@return table problems
function documentation.tag_problems(name, doc, entries)
    local problems = {}
    for _, tag in ipairs(doc.unknown) do
        problems[#problems + 1] = ("%s: @%s is no tag"):format(name, tag.name)
    end
    for _, list in ipairs { doc.params, doc.returns, doc.fields } do
        for _, one in ipairs(list) do
            for word in one.type:gmatch("zklock%.([%w.]+)") do
                if not entries[word] then
                    problems[#problems + 1] = ("%s: there is no zklock.%s"):format(name, word)
                end
            end
        end
    end
    return problems
end

-- Codes ---------------------------------------------------------------------------------------------------------------

--- Returns the codes of the C side, from its table of names, and the codes among them that C never answers.
---@param engine string csrc/engine/engine.c
---@param others string all of csrc/*.c
---@return table # set of names
---@return table # set of names
function documentation.c_codes(engine, others)
    local names, unused = {}, {}
    local block = engine:match("zkl_code_name%(zkl_code code%)%s*(%b{})")
    for enumerator, name in block:gmatch('%[(ZKL_[%u_]+)%] = "([%l_]+)"') do
        if name ~= "ok" then
            names[name] = true
            local _, uses = others:gsub(enumerator .. "%f[^%w_]", "")
            if uses < 2 then
                unused[name] = true
            end
        end
    end
    return names, unused
end

--- Returns the codes that a Lua source answers: the literal at the end of each `return nil, …`.
function documentation.lua_codes(text)
    local codes, statement = {}, nil
    for whole in (text .. "\n"):gmatch("(.-)\n") do
        local line = whole:gsub("%s+%-%- .*$", "")
        if line:find("return nil,") then
            statement = ""
        end
        if statement then
            statement = statement .. " " .. line
            if not (line:find("[,(]$") or line:find("%.%.$") or line:find(" or$") or line:find(" and$")) then
                local code = statement:match('[%s,]"([%l_]+)"%s*$')
                if code then
                    codes[code] = true
                end
                statement = nil
            end
        end
    end
    return codes
end

--- Returns the field names that a C function puts into a table.
function documentation.c_fields(text, setter)
    local names = {}
    for name in text:gmatch(setter .. '%(L, "?%-?%d*,? ?"([%l_]+)"') do
        names[name] = true
    end
    for name in text:gmatch(setter .. '%(L, %-2, "([%l_]+)"') do
        names[name] = true
    end
    return names
end

-- Markdown ------------------------------------------------------------------------------------------------------------

--- Returns the blocks of code of a page: { language, text, line, title }. The title is the file of which the block is a part.
function documentation.code_blocks(page)
    local blocks, block, number = {}, nil, 0
    for line in (page .. "\n"):gmatch("(.-)\n") do
        number = number + 1
        local fence = line:match("^```(%w*)")
        if fence and not block then
            block = { language = fence, line = number + 1, title = line:match('title="([^"]*)"') }
            block[1] = ""
        elseif fence then
            block.text = table.concat(block, "\n"):gsub("^\n", "")
            blocks[#blocks + 1] = block
            block = nil
        elseif block then
            block[#block + 1] = line
        end
    end
    return blocks
end

--- Returns the text of the first block in a language of the page at a path, or of the block with a number.
function documentation.block_of(path, language, number)
    local left = number or 1
    for _, block in ipairs(documentation.code_blocks(docstrings.read_file(path))) do
        left = block.language == language and left - 1 or left
        if left == 0 then
            return block.text
        end
    end
    error("no such block in " .. path)
end

--- Returns all code of a page, in blocks or between backticks.
function documentation.code_of(page)
    local parts = {}
    for _, block in ipairs(documentation.code_blocks(page)) do
        parts[#parts + 1] = block.text
    end
    local prose = page:gsub("\n```.-\n```", "\n")
    for code in prose:gmatch("`([^`]+)`") do
        parts[#parts + 1] = code
    end
    return table.concat(parts, "\n")
end

--- Returns the words between backticks in the first column of the table with this heading.
function documentation.table_words(page, heading)
    local words, inside = {}, false
    for line in (page .. "\n"):gmatch("(.-)\n") do
        if line == heading then
            inside = true
        elseif inside and not line:find("^|") then
            inside = false
        elseif inside then
            for word in line:match("^|(.-)|"):gmatch("`([%w_]+)`") do
                words[word] = true
            end
        end
    end
    return words
end

--- Returns the rows of all tables in the section with this heading, without the tables' heads. Each row is a list of its cells.
function documentation.rows(page, heading)
    local rows, inside = {}, false
    for line in (page .. "\n"):gmatch("(.-)\n") do
        if line:find("^## ") then
            inside = line == "## " .. heading
        elseif inside and line:find("^|%-%-%-") then
            rows[#rows] = nil -- the row above the rule
        elseif inside and line:find("^|") then
            local cells = {}
            for cell in line:gmatch("|([^|]+)") do
                cells[#cells + 1] = cell:match("^%s*(.-)%s*$")
            end
            rows[#rows + 1] = cells
        end
    end
    return rows
end

--- Returns the references in a text as { file =, title = }: a "quoted" title belongs to the last `file.lua` or `file.c` before it.
function documentation.references(text)
    local found, file = {}, nil
    local position = 1
    while position <= #text do
        local first, last, mark, word = text:find('(["`])(.-)%1', position)
        if not first then
            break
        end
        if mark == '"' then
            found[#found + 1] = { file = file, title = word }
        elseif word:find("^[%w_]+%.lua$") or word:find("^[%w_]+%.c$") then
            file = word
        end
        position = last + 1
    end
    return found
end

local function quote_pattern(text)
    return (text:gsub("%p", "%%%0"))
end

--- Returns the titles of a spec file as patterns: parts that are computed when the file runs match any text.
local function title_patterns(text)
    local patterns = {}
    for line in text:gmatch("[^\n]+") do
        local expression = line:match("^%s*it%((.*), function%(%)$") or line:match("^%s*test%((.*), function%(%)$")
        if expression then
            local parts, literal, rest = {}, 0, expression:match("^%((.*)%):format%(.*$") or expression
            while rest ~= "" do
                local before, title, after = rest:match('^([^"]*)"([^"]*)"(.*)$')
                if (before or rest):find("%a") then
                    parts[#parts + 1] = ".-"
                end
                if title then
                    title = title:gsub(" #%a+", "")
                    literal = literal + #title
                    parts[#parts + 1] = quote_pattern(title):gsub("%%%%s", ".-"):gsub("%%%%d", "%%d+")
                end
                rest = after or ""
            end
            if literal > 0 then
                patterns[#patterns + 1] = "^" .. table.concat(parts) .. "$"
            end
        end
    end
    return patterns
end

--- Returns whether a file's text has the title: the title of a spec or, in a C file, the name of a test function or a quoted name.
function documentation.has_title(file, text, title)
    if file:find("%.c$") then
        return text:find("static void " .. title .. "(", 1, true) ~= nil or text:find('"' .. title .. '"', 1, true) ~= nil
    end
    for _, pattern in ipairs(title_patterns(text)) do
        if title:find(pattern) then
            return true
        end
    end
    return false
end

--- Returns results as a page shows them.
local function shown(...)
    local words = {}
    for index = 1, select("#", ...) do
        local value = select(index, ...)
        words[index] = type(value) == "string" and '"' .. value .. '"' or tostring(value)
    end
    return table.concat(words, ", ")
end

--- Turns `f(x)   --> true, "a"; remarks` into a call of `expect`, which raises if f(x) has other results, and returns them if
-- not. If the text after the arrow begins with a value, it counts up to "; " or ": ". Other words are for the reader, as are
-- alternatives ("a" | "b").
local function with_expectations(text)
    return (text:gsub("([^\n]*)%-%->([^\n]*)", function(code, result)
        result = (result:match("^%s*(.-)[;:] ") or result):match("^%s*(.-)%s*$")
        local is_value = result:find('^[%d"]') or result:find("^true") or result:find("^false") or result:find("^nil")
        if not is_value or result:find("[|{]") or result:find("…", 1, true) then
            return nil
        end
        local before, expression = code:match("^(%s*local [%w_]+ = )(.-)%s*$")
        if not before then
            before, expression = code:match("^(%s*)(.-)%s*$")
            expression = expression:match("^print%((.*)%)$") or expression
        end
        return ("%s expect(%q, %s)"):format(before, result, expression)
    end))
end

--- For the environment of a block: raises if the results are not those shown in the page.
function documentation.expect(expected, ...)
    local got = shown(...)
    if got ~= expected then
        error(("expected %s, got %s"):format(expected, got), 2)
    end
    return ...
end

--- Loads a block of Lua into an environment, with documentation.expect as `expect`. `<close>` needs Lua 5.4; in other versions the
-- variable becomes an ordinary one.
function documentation.load_block(text, name, environment)
    text = with_expectations(text)
    if not compat.CLOSES then
        text = text:gsub(" <close>", "")
    end
    if _G.setfenv then
        local chunk, problem = loadstring(text, name)
        return chunk and _G.setfenv(chunk, environment), problem
    end
    return load(text, name, "t", environment)
end

return documentation
