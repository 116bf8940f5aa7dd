--- Writes a software bill of materials as CycloneDX 1.5 JSON: zklock, and every component of others that it is linked with, loads
-- or starts, with its licence. Nothing of these components is contained in zklock.
--
-- What is linked is read from the built modules, and what is loaded from the Lua files. A component that COMPONENTS does not have
-- is an error. Versions are those of this machine's Debian packages; a component that is not installed here has none.
--
--   lua5.4 tools/sbom.lua FILE MODULE.so…       (for example build/sbom.json build/5.4/zklock/core.so build/5.4/zklock/process.so)

local json = require "dkjson"
local docstrings = require "tools.docstrings"
local version = require "tools.version"

local sbom = {}

--- What zklock uses of others. `use`: how, and for what. `scope`: CycloneDX's; optional components are for some programs only.
-- `soname`, `modules`: how the linker and `require` name it. `package`: its Debian package.
sbom.COMPONENTS = {
    { name = "zookeeper-c-client", license = "Apache-2.0", scope = "required", use = "linked: the protocol of ZooKeeper",
      soname = "libzookeeper_st.so.2", package = "libzookeeper-st2" },
    { name = "glibc", license = "LGPL-2.1-or-later", scope = "required", use = "linked: the C library",
      soname = "libc.so.6", package = "libc6" },
    { name = "openssl", license = "Apache-2.0", scope = "optional", use = "loaded for the option tls",
      package = "libssl3" },
    { name = "lua", license = "MIT", scope = "optional", use = "loads zklock: the interpreter, 5.1 to 5.5, unless it is LuaJIT",
      package = "lua5.4" },
    { name = "luajit", license = "MIT", scope = "optional", use = "loads zklock: the interpreter of nginx and OpenResty",
      modules = { "ffi" }, package = "libluajit2-5.1-2" },
    { name = "argparse", license = "MIT", scope = "optional", use = "loaded by the command zklock",
      modules = { "argparse" }, package = "lua-argparse" },
    { name = "dkjson", license = "MIT", scope = "optional", use = "loaded by the command zklock and the live view",
      modules = { "dkjson" }, package = "lua-dkjson" },
    { name = "luasocket", license = "MIT", scope = "optional", use = "loaded by zklock.inspect, for the state of sessions",
      modules = { "socket" }, package = "lua-socket" },
    { name = "luv", license = "Apache-2.0", scope = "optional", use = "loaded by zklock ui, and by the adapter of that name",
      modules = { "luv" }, package = "lua-luv" },
    { name = "copas", license = "MIT", scope = "optional", use = "loaded by the adapter of that name",
      modules = { "copas" }, package = "lua-copas" },
    { name = "cqueues", license = "MIT", scope = "optional", use = "loaded by the adapter of that name",
      modules = { "cqueues", "cqueues.condition" }, package = "lua-cqueues" },
    { name = "lua-resty-core", license = "BSD-2-Clause", scope = "optional", use = "loaded by the adapter for nginx",
      modules = { "ngx.semaphore", "resty.core.base" }, package = "lua-resty-core" },
    { name = "zookeeper", license = "Apache-2.0", scope = "optional", use = "started by zklock dev: the server",
      package = "libzookeeper-java" },
    { name = "openjdk", license = "GPL-2.0-only WITH Classpath-exception-2.0", scope = "optional",
      use = "started by zklock dev: Java", package = "default-jre-headless" }
}

--- The order in which the document has its keys.
local KEY_ORDER = {
    "bomFormat", "specVersion", "version", "metadata", "components", "dependencies", "component",
    "type", "bom-ref", "ref", "name", "description", "scope", "licenses", "purl", "dependsOn"
}

--- Returns the output of a command, or nil if it fails.
local function output_of(command)
    local pipe = assert(io.popen(command .. " 2>/dev/null"))
    local text = pipe:read "*a"
    return pipe:close() and text ~= "" and text or nil
end

--- Returns the names of the libraries that a module is linked with.
function sbom.linked(module)
    local names = {}
    for name in assert(output_of("readelf --wide --dynamic '" .. module .. "'"), module .. " cannot be read"):gmatch
        "%(NEEDED%)[^%[\n]*%[([^%]\n]*)%]" do
        names[#names + 1] = name
    end
    return names
end

--- Returns the names of the modules of others that the Lua files load, sorted.
function sbom.loaded()
    local names, seen = {}, {}
    for path in assert(output_of "git ls-files --cached --others --exclude-standard -- 'lua/*.lua'"):gmatch "[^\n]+" do
        local text = docstrings.read_file(path):gsub("%-%-[^\n]*", "")
        -- A call with a name, and a protected one.
        for _, pattern in ipairs { "require *%(?\"([%w._]+)\"", "require, *\"([%w._]+)\"" } do
            for name in text:gmatch(pattern) do
                if not name:find "^zklock" and name ~= "resty.zklock" and not seen[name] then
                    seen[name] = true
                    names[#names + 1] = name
                end
            end
        end
    end
    table.sort(names)
    return names
end

--- Returns the component with a name in a list of its field, or of that soname.
local function find(field, name)
    for _, component in ipairs(sbom.COMPONENTS) do
        local value = component[field]
        for _, other in ipairs(type(value) == "table" and value or { value }) do
            if other == name then
                return component
            end
        end
    end
    error(("tools/sbom.lua: %q is used, and COMPONENTS has no component with it"):format(name), 0)
end

--- Returns a licence in CycloneDX's form: a name of SPDX's list, or an expression.
local function licenses(license)
    return { license:find " " and { expression = license } or { license = { id = license } } }
end

--- Returns the document as a table.
---@param modules table paths of built modules
function sbom.document(modules)
    for _, module in ipairs(modules) do
        for _, name in ipairs(sbom.linked(module)) do
            find("soname", name)
        end
    end
    for _, name in ipairs(sbom.loaded()) do
        find("modules", name)
    end
    local number = version.current()
    local itself = "pkg:luarocks/zklock@" .. number .. "-1"
    local components, references = {}, {}
    for index, component in ipairs(sbom.COMPONENTS) do
        local installed = output_of("dpkg-query --show --showformat='${Version}' " .. component.package)
        local purl = "pkg:deb/debian/" .. component.package .. (installed and "@" .. installed:gsub("[+:~]", function(character)
            return ("%%%02X"):format(character:byte())
        end) or "")
        references[index] = "component:" .. component.name
        components[index] = {
            type = component.soname and "library" or component.modules and "library" or "application",
            ["bom-ref"] = references[index], name = component.name, version = installed, scope = component.scope,
            description = component.use, licenses = licenses(component.license), purl = purl
        }
    end
    return {
        bomFormat = "CycloneDX", specVersion = "1.5", version = 1,
        metadata = {
            component = {
                type = "library", ["bom-ref"] = itself, name = "zklock", version = number, licenses = licenses "MIT", purl = itself
            }
        },
        components = components,
        dependencies = { { ref = itself, dependsOn = references } }
    }
end

-- As a program; a spec requires it as a module.
if arg and arg[0] and arg[0]:find "tools/sbom%.lua$" then
    assert(#arg >= 2, "usage: lua5.4 tools/sbom.lua FILE MODULE.so...")
    local text = json.encode(sbom.document { table.unpack(arg, 2) }, { indent = true, keyorder = KEY_ORDER })
    local file = assert(io.open(arg[1], "w"))
    assert(file:write(text, "\n"))
    assert(file:close())
    io.write(arg[1], "\n")
end

return sbom
