--- docs/security.md has Lua code that runs, and a build has the hardening that the page describes.

local cluster = require "spec.support.cluster"
local credentials = require "spec.support.credentials"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"

local SECRET = credentials.SECRET

describe("a build", function()
    it("by CMake has all hardening that tools/hardening.sh checks #once #released", function()
        local module = assert(package.searchpath("zklock.core", package.cpath))
        local report, status = cluster.run({ "tools/hardening.sh", module })
        assert(status == 0, report)
        local count = select(2, report:gsub(" yes\n", "")) + 1
        assert.equal(7, count)
    end)
end)

describe("docs/security.md", function()
    after_each(fixture.clean)

    it("has Lua code that runs", function()
        local password = files.make_directory() .. "/password"
        files.write(password, SECRET .. "\n")
        local environment = { os = setmetatable({ getenv = function(name)
            return ({ ZOOKEEPER = fixture.servers(), LOCK_PASSWORD_FILE = password })[name]
        end }, { __index = os }) }
        environment.expect = documentation.expect
        setmetatable(environment, { __index = _G })
        local blocks = 0
        for _, block in ipairs(documentation.code_blocks(files.read("docs/security.md"))) do
            if block.language == "lua" then
                assert(documentation.load_block(block.text, "docs/security.md:" .. block.line, environment))()
                blocks = blocks + 1
            end
        end
        assert.is_true(blocks >= 2)
        os.remove(password)
    end)
end)
