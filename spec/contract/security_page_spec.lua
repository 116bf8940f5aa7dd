--- docs/security.md has Lua code that runs, examples/tls/trial shows what the page says of TLS, and a build has the hardening that
-- the page describes.

local certificates = require "spec.support.certificates"
local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local credentials = require "spec.support.credentials"
local documentation = require "spec.support.documentation"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local patience = require "spec.support.patience"
local ports = require "spec.support.ports"

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
        local password = fixture.temporary_directory() .. "/password"
        files.write(password, SECRET .. "\n")
        local environment = { os = setmetatable({ getenv = function(name)
            return ({ ZKLOCK_SERVERS = fixture.servers(), LOCK_PASSWORD_FILE = password })[name]
        end }, { __index = os }) }
        environment.expect = documentation.expect
        environment.require = patience.require
        setmetatable(environment, { __index = _G })
        local blocks = 0
        for _, block in ipairs(documentation.code_blocks(files.read("docs/security.md"))) do
            if block.language == "lua" then
                assert(documentation.load_block(block.text, "docs/security.md:" .. block.line, environment))()
                blocks = blocks + 1
            end
        end
        assert.equal(1, blocks)
    end)
end)

describe("examples/tls/trial", function()
    after_each(fixture.clean)

    it("shows the exit codes that it names #once", function()
        if not certificates.is_there() then
            return pending("needs openssl")
        end
        local text, changed = files.read("examples/tls/trial"):gsub("2281", ports.free())
        assert.equal(2, changed)
        text, changed = text:gsub("%-%-connect%-timeout 5 ", "--connect-timeout 1 ")
        assert.equal(2, changed)
        local bin, directory = commands.install(), commands.directory()
        files.write(directory .. "/trial", text)
        local output, status = cluster.run { "sh", "-c",
            ('cd "%s" && ZKLOCK_CONNECT_TIMEOUT=60 PATH="%s:$PATH" bash trial 2>errors'):format(directory, bin) }
        assert.same({ "inside\n122\n121\n121", 0 }, { output, status }, files.read(directory .. "/errors"))
    end)
end)
