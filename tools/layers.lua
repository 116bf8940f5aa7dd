--- Checks the includes and calls of csrc/. A folder is a layer. It may use the public headers of the layers below it. For Lua 5.4.
--
--   lua5.4 tools/layers.lua    fails, and says which, if a rule is broken
--
-- The rules:
--
--   include FILE HEADER    An include names a header of the own folder, or the public header `<layer>/<layer>.h` of a layer that
--                          `<LAYER>_USES` in CMakeLists.txt names. Headers of which a public header is made come with it only.
--   call FILE FILE         No file calls a function of a layer that it may not use.
--   circle FILE            No file calls, directly or by way of other files, a file that calls it.
--   above FILE             No file includes, in the same way, a header of its folder that needs its own header. This does not
--                          hold in csrc/lock: an acquisition, its entries and their queue refer to each other.
--   long FILE              A header has at most 300 lines.

local files = require "tools.files"

local MOST_LINES = 300

--- layer -> set of the layers that it may use, as CMakeLists.txt has it
local function layers()
    local text, uses = files.read "CMakeLists.txt", {}
    for layer in text:match "set%(LAYERS ([^)]*)%)":gmatch "%S+" do
        uses[layer] = {}
        local list = assert(text:match("set%(" .. layer:upper() .. "_USES([^)]*)%)"), layer)
        for other in list:gmatch "%S+" do
            uses[layer][other] = true
        end
    end
    return uses
end

--- The source without comments and strings.
local function code_of(text)
    text = text:gsub("\\.", ""):gsub("/%*.-%*/", ""):gsub('"[^"\n]*"', '""')
    return text
end

local broken = {}

local function complain(...)
    broken[#broken + 1] = table.concat({ ... }, " ")
end

local function layer_of(path)
    return path:match "^csrc/([^/]+)/"
end

local function check_includes(path, text, uses)
    local folder = layer_of(path)
    for header in text:gmatch '#%s*include%s+"([^"]+)"' do
        local other, name = header:match "^([^/]+)/(.+)$"
        if other and not (uses[folder][other] and name == other .. ".h") then
            complain("include", path, header)
        end
    end
end

--- name -> the file that defines the function of that name, if other files can call it
local function definitions(codes)
    local defined = {}
    for path, code in pairs(codes) do
        if path:find "%.c$" then
            for line in code:gmatch "\n([%a_][^\n]*%b()[^\n;]*)\n{" do
                local name = not line:find "^static%s" and line:match "([%a_][%w_]*)%("
                if name then
                    defined[name] = path
                end
            end
        end
    end
    return defined
end

--- file -> set of the files whose functions it names
local function calls(codes, defined)
    local graph = {}
    for path, code in pairs(codes) do
        graph[path] = {}
        for word in code:gmatch "%f[%w_][%a_][%w_]*" do
            if path:find "%.c$" and defined[word] and defined[word] ~= path then
                graph[path][defined[word]] = true
            end
        end
    end
    return graph
end

--- All files that can be reached from one.
local function reachable(graph, from)
    local seen, todo = {}, { from }
    while #todo > 0 do
        for to in pairs(graph[table.remove(todo)]) do
            if not seen[to] then
                seen[to] = true
                todo[#todo + 1] = to
            end
        end
    end
    return seen
end

--- module (a source and its header) -> set of the modules of its folder that it includes. A layer's public header stands alone.
local function inclusions(texts)
    local graph = {}
    local function module_of(path)
        return path:match "^csrc/([^/]+)/%1%.h$" and path or path:match "^(.*)%."
    end
    for path, text in pairs(texts) do
        local from = module_of(path)
        graph[from] = graph[from] or {}
        for header in text:gmatch '#%s*include%s+"([^"/]+)"' do
            local to = module_of(path:match "^.*/" .. header)
            graph[from][to] = to ~= from or nil
        end
    end
    return graph
end

local uses, codes, texts, paths = layers(), {}, {}, files.lines_of "find csrc -name '*.[ch]' | LC_ALL=C sort"
for _, path in ipairs(paths) do
    local text = files.read(path)
    codes[path], texts[path] = code_of(text), text
    check_includes(path, text, uses)
    local _, lines = text:gsub("\n", "")
    if path:find "%.h$" and lines > MOST_LINES then
        complain("long", path)
    end
end
local graph = calls(codes, definitions(codes))
for _, path in ipairs(paths) do
    for other in pairs(graph[path]) do
        local from, to = layer_of(path), layer_of(other)
        if from ~= to and not uses[from][to] then
            complain("call", path, other)
        end
    end
    if reachable(graph, path)[path] then
        complain("circle", path)
    end
end
local included = inclusions(texts)
for module in pairs(included) do
    if layer_of(module) ~= "lock" and reachable(included, module)[module] then
        complain("above", module)
    end
end
table.sort(broken)

for _, line in ipairs(broken) do
    print("broken: " .. line)
end
os.exit(#broken == 0)
