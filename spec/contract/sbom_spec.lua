--- The software bill of materials names every component of others that zklock uses. #once

local docstrings = require "tools.docstrings"
local json = require "dkjson"
local sbom = require "tools.sbom"
local version = require "tools.version"

local variant = os.getenv("ZKLOCK_LUA") == "luajit" and "luajit" or (os.getenv("ZKLOCK_LUA") or "lua5.4"):gsub("lua", "")
local MODULES = { "build/" .. variant .. "/zklock/core.so", "build/" .. variant .. "/zklock/process.so" }

--- Returns the components of a list by name.
local function by_name(components)
    local names = {}
    for _, component in ipairs(components) do
        assert.is_nil(names[component.name], component.name)
        names[component.name] = component
    end
    return names
end

describe("the bill of materials #once", function()
    local document = assert(json.decode(json.encode(sbom.document(MODULES))))

    it("is CycloneDX, and is about this version", function()
        assert.same({ "CycloneDX", "1.5", 1 }, { document.bomFormat, document.specVersion, document.version })
        assert.same({ "zklock", version.current() }, { document.metadata.component.name, document.metadata.component.version })
        local declared = { [document.metadata.component["bom-ref"]] = true }
        for _, component in ipairs(document.components) do
            assert.is_nil(declared[component["bom-ref"]])
            declared[component["bom-ref"]] = true
            assert.truthy(component.type == "library" or component.type == "application")
            assert.truthy(component.scope == "required" or component.scope == "optional")
        end
        for _, dependency in ipairs(document.dependencies) do
            assert.is_true(declared[dependency.ref])
            assert.equal(#document.components, #dependency.dependsOn)
            for _, reference in ipairs(dependency.dependsOn) do
                assert.is_true(declared[reference], reference)
            end
        end
    end)

    it("requires exactly the libraries that the modules are linked with, in their installed versions", function()
        local required = {}
        for name, component in pairs(by_name(document.components)) do
            if component.scope == "required" then
                required[#required + 1] = name
                assert.truthy(component.version, name)
                assert.equal(1, #component.licenses)
            end
        end
        table.sort(required)
        assert.same({ "glibc", "zookeeper-c-client" }, required)
        assert.same({ "libc.so.6", "libzookeeper_st.so.2" }, (function()
            local linked = sbom.linked(MODULES[1])
            table.sort(linked)
            return linked
        end)())
    end)

    it("has the modules that the rocks depend on, and those that adapters load", function()
        local names = by_name(document.components)
        local rockspec = docstrings.read_file(version.scm_path "zklock-cli")
        for name in rockspec:match("\ndependencies = (%b{})"):gmatch '"(%l+) >=' do
            assert.truthy(names[name], name)
        end
        local loaded = table.concat(sbom.loaded(), " ")
        for _, name in ipairs { "argparse", "copas", "cqueues", "dkjson", "luv", "ngx.semaphore" } do
            assert.truthy((" " .. loaded .. " "):find(" " .. name .. " ", 1, true), loaded)
        end
    end)

    it("is refused if a library or a module has no entry", function()
        local components = sbom.COMPONENTS
        finally(function()
            sbom.COMPONENTS = components
        end)
        for _, missing in ipairs { "glibc", "dkjson" } do
            sbom.COMPONENTS = {}
            for _, component in ipairs(components) do
                sbom.COMPONENTS[#sbom.COMPONENTS + 1] = component.name ~= missing and component or nil
            end
            local ok, problem = pcall(sbom.document, MODULES)
            assert.is_false(ok)
            assert.truthy(problem:find(missing == "glibc" and "libc.so.6" or "dkjson", 1, true), problem)
        end
    end)
end)
