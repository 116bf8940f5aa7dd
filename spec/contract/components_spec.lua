--- The table of components in docs/install.md names everything of others that zklock is linked with or loads. #once

local cluster = require "spec.support.cluster"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"

local variant = os.getenv("ZKLOCK_LUA") == "luajit" and "luajit" or (os.getenv("ZKLOCK_LUA") or "lua5.4"):gsub("lua", "")

--- Libraries and modules whose components have another name.
local NAMES = {
    ["libzookeeper_st.so.2"] = "ZooKeeper C client", ["libc.so.6"] = "glibc", ffi = "LuaJIT", socket = "LuaSocket",
    mime = "LuaSocket", copas = "Copas", ["cqueues.condition"] = "cqueues",
    ["ngx.semaphore"] = "lua-resty-core", ["resty.core.base"] = "lua-resty-core"
}

--- Returns the components of the page: their names and licences as one text.
local function components()
    local section = docstrings.read_file("docs/install.md"):match "\n## Components and licences\n(.-)\n%[upgrading"
    return assert(section:match "\n| component .*", "there is no table")
end

describe("the table of components #once", function()
    it("names the libraries that the modules are linked with", function()
        local table_of_page, count = components(), 0
        for _, module in ipairs { "core", "process" } do
            local output = cluster.run({ "readelf", "--wide", "--dynamic", ("build/%s/zklock/%s.so"):format(variant, module) })
            for library in output:gmatch "%(NEEDED%)[^%[\n]*%[([^%]\n]*)%]" do
                count = count + 1
                assert.is_truthy(table_of_page:find(assert(NAMES[library], library), 1, true), library)
            end
        end
        assert.equal(3, count) -- the C client and twice the C library
    end)

    it("names the modules that the Lua files load", function()
        local table_of_page, seen = components(), {}
        for _, path in ipairs(files.find("lua", ".lua")) do
            local text = docstrings.read_file(path):gsub("%-%-[^\n]*", "")
            -- A call with a name, and a protected one.
            for _, pattern in ipairs { "require *%(?\"([%w._]+)\"", "require, *\"([%w._]+)\"" } do
                for name in text:gmatch(pattern) do
                    if not name:find "^zklock" and name ~= "resty.zklock" then
                        seen[name] = true
                        assert.is_truthy(table_of_page:find(NAMES[name] or name, 1, true), path .. ": " .. name)
                    end
                end
            end
        end
        for _, name in ipairs { "argparse", "copas", "cqueues", "dkjson", "luv", "ngx.semaphore", "socket" } do
            assert.is_true(seen[name], name)
        end
    end)
end)
