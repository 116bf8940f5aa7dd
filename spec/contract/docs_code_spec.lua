--- Runs the Lua of the pages against a server. A line `f()  --> 3; remarks` must have that result. A block with a title is a part
-- of that file, which has a spec of its own.

local docstrings = require "tools.docstrings"
local documentation = require "spec.support.documentation"
local fixture = require "spec.support.fixture"
local patience = require "spec.support.patience"

local none, read = documentation.none, docstrings.read_file

local ELSEWHERE, pages = documentation.RUN_ELSEWHERE, documentation.pages()

--- Returns the blocks of Lua of a page that are to be run here.
local function blocks_of(path)
    local found = {}
    for _, block in ipairs(documentation.code_blocks(read(path))) do
        if block.language == "lua" and not block.title then
            found[#found + 1] = block
        end
    end
    return found
end

describe("the Lua of", function()
    local client, environment

    teardown(fixture.clean)

    local function open()
        client = fixture.client()
        environment = setmetatable({
            client = client,
            expect = documentation.expect,
            lock = client:mutex(fixture.directory() .. "/lock"),
            os = setmetatable({
                getenv = function(name)
                    return name == "ZKLOCK_SERVERS" and fixture.servers() or os.getenv(name)
                end
            }, { __index = os }),
            print = function() end,
            require = patience.require,
            zklock = patience.zklock
        }, { __index = _G })
    end

    for _, path in ipairs(pages) do
        local blocks = ELSEWHERE[path] and {} or blocks_of(path)
        for index, block in ipairs(blocks) do
            it(("%s runs, and has the results that it shows: the block at line %d"):format(path, block.line), function()
                if index == 1 then
                    open()
                end
                local text = block.text:gsub("zk1:2181,zk2:2181,zk3:2181", fixture.servers())
                local run = assert(documentation.load_block(text, ("=%s:%d"):format(path, block.line), environment))
                run()
                if block.text:find("not data", 1, true) then
                    run() -- the branch for a node that exists
                end
                if index == #blocks then
                    client:close()
                end
            end)
        end
    end
end)

describe("the pages", function()
    it("have Lua that a spec runs", function()
        local problems, here = {}, 0
        for _, path in ipairs(pages) do
            local elsewhere = ELSEWHERE[path]
            if not elsewhere then
                here = here + #blocks_of(path)
            elseif not read(elsewhere):find(path, 1, true) then
                problems[#problems + 1] = ("%s does not mention %s"):format(elsewhere, path)
            end
        end
        none(problems)
        assert.is_true(here > 15, here)
    end)

    it("show parts of files as they are in the files", function()
        local problems = {}
        for _, path in ipairs(pages) do
            for _, block in ipairs(documentation.code_blocks(read(path))) do
                if block.title and not read(block.title):find(block.text, 1, true) then
                    problems[#problems + 1] = ("%s:%d differs from %s"):format(path, block.line, block.title)
                end
            end
        end
        none(problems)
    end)
end)
