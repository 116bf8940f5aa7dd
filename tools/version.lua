--- The version of zklock: the file VERSION has it, and every other place agrees with it.
--
--   lua5.4 tools/version.lua           names each place that disagrees, and exits with 1 if there is one
--   lua5.4 tools/version.lua write     writes the files that are made from VERSION, and then checks
--
-- A release begins with an edit of VERSION and with `write`. The two changelogs are written by people: a check says what they lack.

local files = require "tools.files"

local version = {}

--- The rocks: the library, and the command with the live view.
version.ROCKS = { "zklock", "zklock-cli" }

--- Returns the path of a rock's rockspec for the newest commit, from which the rockspec of a release is made.
function version.scm_path(rock)
    return ("rockspec/%s-scm-1.rockspec"):format(rock)
end

--- Returns the version that the file VERSION has: "MAJOR.MINOR.PATCH".
function version.current()
    local number = files.read("VERSION"):match "^(%d+%.%d+%.%d+)\n$"
    return number or error("VERSION: a line such as 1.2.3 is expected", 0)
end

--- Returns the path of a release's rockspec.
function version.rockspec_path(rock, number)
    return ("rockspec/%s-%s-1.rockspec"):format(rock, number)
end

--- Returns the rockspec of a release: that of the newest commit, with a version, also in a dependency on the other rock, and the
-- tag that the sources are taken from.
local function release_rockspec(rock, number)
    local scm = version.scm_path(rock)
    local text, versions = files.read(scm):gsub('\nversion = "scm%-1"\n', ('\nversion = "%s-1"\n'):format(number))
    text = text:gsub('"zklock == scm%-1"', ('"zklock == %s-1"'):format(number))
    local whole, urls = text:gsub("(\n  url = [^\n]*\n)", ('%%1  tag = "v%s",\n'):format(number), 1)
    assert(versions == 1 and urls == 1, scm .. ": a line with the version and one with the URL are expected")
    return ("-- Made from %s by tools/version.lua.\n"):format(scm:match "[^/]+$") .. whole
end

--- Returns the files that are made from VERSION: path and content.
local function made(number)
    local texts = {
        ["lua/zklock/version.lua"] = table.concat({
            "--- version: the version of zklock. tools/version.lua writes this file from the file VERSION.",
            ("return %q\n"):format(number)
        }, "\n")
    }
    for _, rock in ipairs(version.ROCKS) do
        texts[version.rockspec_path(rock, number)] = release_rockspec(rock, number)
    end
    return texts
end

--- Whether a path is one of the rockspecs that there should be.
local function is_rockspec(path, number)
    for _, rock in ipairs(version.ROCKS) do
        if path == version.scm_path(rock) or path == version.rockspec_path(rock, number) then
            return true
        end
    end
    return false
end

--- Returns the content of a file, or "" if there is none.
local function content(path)
    local exists, text = pcall(files.read, path)
    return exists and text or ""
end

--- Returns a line for each place that disagrees with VERSION.
---@return table # list of strings; empty if all agree
function version.problems()
    local number = version.current()
    local problems = {}
    local function expect(condition, ...)
        if not condition then
            problems[#problems + 1] = table.concat { ... }
        end
    end
    for path, text in pairs(made(number)) do
        expect(content(path) == text, path, ": is not what VERSION and rockspec/*-scm-1 give; run lua5.4 tools/version.lua write")
    end
    for _, path in ipairs(files.in_git "rockspec/*") do
        expect(is_rockspec(path, number), path, ": is of another version")
    end
    -- The newest release that the changelog describes, whether or not there are changes since then.
    local newest = content "CHANGELOG.md":match "\n## %[(%d[^%]]*)%]"
    expect(newest == number, "CHANGELOG.md: its newest release is ", tostring(newest), ", not ", number)
    local packaged = content "debian/changelog":match "^zklock %((%d+%.%d+%.%d+)%-%d[^)]*%)"
    expect(packaged == number, "debian/changelog: its newest version is ", tostring(packaged), ", not ", number)
    -- Names of files in commands of the pages.
    for _, path in ipairs(files.in_git("README*.md", "docs/*.md")) do
        for name, other in content(path):gmatch "(zklock[-_=]v?)(%d+%.%d+%.%d+)" do
            expect(other == number, path, ": names ", name, other)
        end
    end
    table.sort(problems)
    return problems
end

--- Writes the files that are made from VERSION, and removes the rockspecs of other releases.
function version.write()
    local number = version.current()
    for _, path in ipairs(files.in_git "rockspec/*") do
        if not is_rockspec(path, number) then
            os.remove(path)
        end
    end
    for path, text in pairs(made(number)) do
        files.write(path, text)
    end
end

-- As a program; a spec requires it as a module.
if arg and arg[0] and arg[0]:find "tools/version%.lua$" then
    if arg[1] == "write" then
        version.write()
    end
    local problems = version.problems()
    for _, problem in ipairs(problems) do
        io.stderr:write(problem, "\n")
    end
    os.exit(#problems == 0 and 0 or 1)
end

return version
