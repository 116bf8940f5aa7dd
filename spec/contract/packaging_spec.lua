-- packaging: the rockspec, CMakeLists.txt and the directories name the same files. If a source is missing in one of them, it builds
-- here, but not for users. And one version is named everywhere.

local compat = require "spec.support.compat"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"
local version = require "tools.version"

-- A rockspec is a Lua chunk that assigns globals.
local function load_rockspec(path)
    local globals = {}
    local chunk
    if _G.setfenv then
        chunk = _G.setfenv(assert(loadstring(docstrings.read_file(path), "@" .. path)), globals)
    else
        chunk = assert(load(docstrings.read_file(path), "@" .. path, "t", globals))
    end
    chunk()
    return globals
end

local function sorted(list)
    local copy = { compat.unpack(list) }
    table.sort(copy)
    return copy
end

describe("packaging", function()
    local rocks, sources = {}, {}
    for index, name in ipairs(version.ROCKS) do
        rocks[index] = load_rockspec(version.scm_path(name))
        for _, module in pairs(rocks[index].build.modules) do
            for _, source in ipairs(type(module) == "table" and module.sources or {}) do
                sources[#sources + 1] = source
            end
        end
    end
    local library, command = rocks[1], rocks[2]
    local cmake = docstrings.read_file("CMakeLists.txt")

    it("compiles every file of csrc/ with luarocks", function()
        assert.same(files.find("csrc", ".c"), sorted(sources))
    end)

    it("compiles every folder of csrc/ with CMake", function()
        local folders, layers = {}, {}
        for _, file in ipairs(files.find("csrc", ".c")) do
            folders[file:match("^csrc/([^/]+)/")] = true
        end
        for layer in cmake:match("set%(LAYERS ([^)]*)%)"):gmatch("%l+") do
            layers[layer] = true
        end
        assert.same(folders, layers)
    end)

    it("installs every file of lua/ under the name that require finds it by, except the command's script", function()
        local expected, listed, scripts = {}, {}, {}
        for _, file in pairs(command.build.install.bin) do
            scripts[file] = true
        end
        for _, file in ipairs(files.find("lua", ".lua")) do
            local name = file:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
            expected[name] = not scripts[file] and file or nil
        end
        for _, rock in ipairs(rocks) do
            for name, file in pairs(rock.build.modules) do
                assert.is_nil(listed[name])
                listed[name] = type(file) == "string" and file or nil
            end
        end
        assert.same(expected, listed)
    end)

    it("has a library that needs no rock, and no module of the command", function()
        assert.same({ "lua >= 5.1, < 5.6" }, library.dependencies)
        for name, file in pairs(library.build.modules) do
            for line in type(file) == "string" and io.lines(file) or function() end do
                local module = not line:find "^%s*%-%-" and line:match "require *%(?\"(zklock[%w_.]*%w)\""
                assert(not module or library.build.modules[module], ("%s requires %s"):format(name, tostring(module)))
            end
        end
    end)

    it("names its rockspecs after the package and its version", function()
        for _, rock in ipairs(version.ROCKS) do
            for _, file in ipairs({ version.scm_path(rock), version.rockspec_path(rock, version.current()) }) do
                local loaded = load_rockspec(file)
                assert.equal(file, ("rockspec/%s-%s.rockspec"):format(loaded.package, loaded.version))
            end
        end
    end)

    it("releases the same files as the newest commit has, from the tag of the version", function()
        for index, rock in ipairs(version.ROCKS) do
            local release = load_rockspec(version.rockspec_path(rock, version.current()))
            assert.same(rocks[index].build, release.build)
            assert.same(rocks[index].external_dependencies, release.external_dependencies)
            assert.equal("v" .. version.current(), release.source.tag)
        end
        local release = load_rockspec(version.rockspec_path("zklock-cli", version.current()))
        assert.equal(("zklock == %s-1"):format(version.current()), release.dependencies[2])
        assert.equal("zklock == scm-1", command.dependencies[2])
    end)

    it("names one version everywhere", function()
        assert.same({}, version.problems())
        assert.equal(version.current(), require("zklock").VERSION)
    end)

    describe("with a new version", function()
        local directory, found

        -- Runs the check in a copy, without git's list of files: the copy is a repository of its own.
        setup(function()
            local script = [[
                . tools/release.sh && copy=$(mktemp -d) &&
                    copy_files "$copy" VERSION CHANGELOG.md README.md debian docs lua rockspec tools &&
                    cd "$copy" && git init --quiet && echo 99.0.0 >VERSION && echo "$copy" && lua5.4 tools/version.lua write 2>&1]]
            local pipe = assert(io.popen("bash -c '" .. script .. "'"))
            directory, found = pipe:read("*l"), pipe:read("*a")
            pipe:close()
        end)

        teardown(function()
            assert(directory:find("^/tmp/"))
            os.execute("rm -r '" .. directory .. "'")
        end)

        it("writes the Lua file and the rockspec, and removes the rockspec of the old one", function()
            assert.equal("99.0.0", dofile(directory .. "/lua/zklock/version.lua"))
            assert.equal("99.0.0-1", load_rockspec(directory .. "/" .. version.rockspec_path("zklock", "99.0.0")).version)
            assert.equal("", files.read(directory .. "/" .. version.rockspec_path("zklock", version.current())))
        end)

        it("names what people have to write: both changelogs, and the names of files in pages", function()
            local number = version.current()
            assert.equal(table.concat({
                "CHANGELOG.md: its newest release is " .. number .. ", not 99.0.0",
                "debian/changelog: its newest version is " .. number .. ", not 99.0.0"
            }, "\n"), (found:gsub("[^\n]*: names [^\n]*\n", ""):gsub("\n$", "")))
            assert.truthy(found:find("docs/install.md: names zklock_" .. number, 1, true), found)
        end)
    end)

    it("installs nothing, and says why, if make install lacks the interpreter", function()
        local directory = files.make_directory()
        local install = ("make install LUA_VERSION=luajit LUA=/nonexistent/luajit DESTDIR=%s 2>&1"):format(directory)
        local pipe = assert(io.popen(install .. "; echo $?; ls -A " .. directory))
        local found = pipe:read "*a"
        pipe:close()
        assert(os.remove(directory))
        assert.truthy(found:find("make install needs /nonexistent/luajit, and its module argparse", 1, true), found)
        assert.truthy(found:find "\n2\n$", found)
    end)

    it("includes only files in csrc/ that exist", function()
        for _, file in ipairs(files.find("csrc", "")) do
            if file:match("%.[ch]$") then
                for header in docstrings.read_file(file):gmatch('#%s*include%s+"([^"]+)"') do
                    local there = io.open(file:match("^.*/") .. header) or io.open("csrc/" .. header)
                    assert(there, file .. " includes " .. header):close()
                end
            end
        end
    end)
end)
