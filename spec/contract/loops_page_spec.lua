--- docs/loops.md: each of its programs is run as it is printed there, and must print the output that the page shows.

local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local program = require "spec.support.program"

--- Returns the programs of the page: `{ heading =, code =, output = }`.
local function read_programs()
    local text = files.read("docs/loops.md")
    local programs = {}
    for heading, section in ("\n" .. text .. "\n## "):gsub("\n## ", "\n\1\n## "):gmatch("\n## ([^\n]*)(.-)\1") do
        for code, output in section:gmatch("\n```lua\n(.-)\n```\n\n```text\n(.-)\n```\n") do
            programs[#programs + 1] = { heading = heading, code = code, output = output }
        end
    end
    return programs
end

describe("docs/loops.md", function()
    after_each(fixture.clean)

    local programs = read_programs()

    it("has a program for each loop, and shows its output", function()
        local headings = {}
        for index, page in ipairs(programs) do
            headings[index] = page.heading
        end
        assert.same({ "Callbacks, without coroutines", "cqueues", "luv", "copas" }, headings)
    end)

    for _, page in ipairs(programs) do
        local module = page.code:match('require "(%l+)"\nlocal zklock')
        local there = module == nil or pcall(require, module)
        local test = compat.it_with({ it = it, pending = pending }, there, module)
        test(("its program under '%s' prints the output shown"):format(page.heading), function()
            local path = os.tmpname()
            files.write(path, page.code)
            local environment = cluster.words(program.patient_environment(), { "ZKLOCK_SERVERS=" .. fixture.servers() })
            local output, status = program.output_of(environment, path)
            os.remove(path)
            assert(status == 0, output)
            assert.equal(page.output, output)
        end)
    end
end)
