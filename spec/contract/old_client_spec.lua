--- The C client that is found at run time may be older than the one that zklock was built with. That of these specs has only names.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local program = require "spec.support.program"

--- What 3.5 and 3.6 lack.
local MISSING = "zoo_set_servers_resolution_delay"

describe("a C client older than 3.7 #once", function()
    local directory, library

    local function run(words)
        local output, status = cluster.run(words)
        assert(status == 0, output)
        return output
    end

    setup(function()
        local module
        for template in package.cpath:gmatch "[^;]+" do
            module = module or io.open((template:gsub("%?", "zklock/core"))) and template:gsub("%?", "zklock/core")
        end
        local names, list = {}, run { "readelf", "--wide", "--dynamic", "--dyn-syms", module }
        for name in list:gmatch "UND (%a[%w_]*) *%f[\n]" do -- those of libc have versions
            if name ~= MISSING and not name:find "^lua" then
                names[#names + 1] = name
            end
        end
        assert.is_true(#names > 20)
        directory = files.make_directory()
        library = directory .. "/" .. assert(list:match "NEEDED[^\n]*%[(libzookeeper_st[^%]]*)%]")
        files.write(directory .. "/names.c", "char " .. table.concat(names, ", ") .. ";\n")
        run { "gcc", "-shared", "-fPIC", "-o", library, directory .. "/names.c" }
    end)

    teardown(function()
        os.execute("rm -rf " .. directory)
    end)

    --- Returns what Lua prints with this library.
    local function with_library(...)
        return (cluster.run { "env", "LD_LIBRARY_PATH=" .. directory, program.interpreter(), ... })
    end

    it("is named by the error of require, with what zklock needs", function()
        assert.equal("zklock needs the ZooKeeper C client 3.7 or later; " .. library .. " is older",
            with_library("-e", "print(select(2, pcall(require, 'zklock')))"))
    end)

    it("is named by the command, without a traceback", function()
        assert.equal("zklock: zklock needs the ZooKeeper C client 3.7 or later; " .. library .. " is older",
            with_library("lua/zklock/cli/main.lua", "who", "--servers", "127.0.0.1:1", "/lock"))
    end)
end)
