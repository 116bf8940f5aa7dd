--- Checks pages: docs/reliability.md names only existing specs, checks and tests, and the README's Lua runs.

local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local zklock = require "zklock"

local none, read = documentation.none, docstrings.read_file

describe("docs/reliability.md", function()
    local rows = documentation.rows(read("docs/reliability.md"), "Traps of the client and the server")
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

describe("the README's Lua", function()
    local readme = read("README.md")
    local printed, environment

    teardown(fixture.clean)

    setup(function()
        local client = fixture.client()
        printed = {}
        local root = fixture.directory()
        environment = setmetatable({
            client = client,
            zklock = zklock,
            expect = documentation.expect,
            io = setmetatable({ read = function() end }, { __index = io }), -- nobody presses Enter
            lock = client:mutex(root .. "/lock"),
            os = setmetatable({
                getenv = function(name)
                    return name == "ZKLOCK_SERVERS" and fixture.servers() or os.getenv(name)
                end
            }, { __index = os }),
            print = function(...)
                local words = {}
                for index = 1, select("#", ...) do
                    words[index] = tostring((select(index, ...)))
                end
                printed[#printed + 1] = table.concat(words, "\t")
            end
        }, { __index = _G })
    end)

    local first
    for _, block in ipairs(documentation.code_blocks(readme)) do
        first = first or block.language == "lua" and block
        if block.language == "lua" then
            it("runs, and has the results that it shows: the block at line " .. block.line, function()
                printed = {}
                local run = assert(documentation.load_block(block.text, "=README.md:" .. block.line, environment))
                run()
                if block.text:find('not data', 1, true) then
                    run() -- the branch for a node that exists
                end
                if block == first then
                    local expected = assert(readme:match(" printed, but for the number,\n\n```\n(.-)\n```"))
                    assert.equal((expected:gsub("%d+%-%d+", "N")), (table.concat(printed, "\n"):gsub("%d+%-%d+", "N")))
                end
            end)
        end
    end
end)
