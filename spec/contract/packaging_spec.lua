-- packaging: the rockspec, CMakeLists.txt and the directories name the same files. If a source is missing in one of them, it builds
-- here, but not for users.

local compat = require "spec.support.compat"
local docstrings = require "tools.docstrings"
local files = require "spec.support.files"

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
  local path = "rockspec/zklock-scm-1.rockspec"
  local rockspec = load_rockspec(path)
  local sources = {}
  for _, module in ipairs({ "zklock.core", "zklock.process" }) do
    for _, source in ipairs(rockspec.build.modules[module].sources) do
      sources[#sources + 1] = source
    end
  end
  local cmake = docstrings.read_file("CMakeLists.txt")

  it("compiles every file of csrc/ with luarocks", function()
    assert.same(files.find("csrc", ".c"), sorted(sources))
  end)

  it("compiles every file of csrc/ with CMake", function()
    local listed = {}
    for name in ("BASE ZK LOCK OPS ENGINE CLIENT LUA PROCESS"):gmatch("%u+") do
      local block = assert(cmake:match("set%(" .. name .. "_SOURCES%s(.-)%)"), name)
      for source in block:gmatch("%S+") do
        listed[#listed + 1] = source
      end
    end
    assert.same(sorted(sources), sorted(listed))
  end)

  it("installs every file of lua/ under the name that require finds it by, except the command's script", function()
    local expected, listed, scripts = {}, {}, {}
    for _, file in pairs(rockspec.build.install.bin) do
      scripts[file] = true
    end
    for _, file in ipairs(files.find("lua", ".lua")) do
      local name = file:gsub("^lua/", ""):gsub("%.lua$", ""):gsub("/init$", ""):gsub("/", ".")
      expected[name] = not scripts[file] and file or nil
    end
    for name, file in pairs(rockspec.build.modules) do
      if type(file) == "string" then
        listed[name] = file
      end
    end
    assert.same(expected, listed)
  end)

  it("names its rockspec after the package and its version", function()
    assert.equal(path, ("rockspec/%s-%s.rockspec"):format(rockspec.package, rockspec.version))
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
