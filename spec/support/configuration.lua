--- support.configuration: the environment of a program, as zklock reads its configuration from it.
--
--     configuration.set { ZKLOCK_SERVERS = fixture.servers() }     -- until fixture.clean; all other variables of zklock are unset
--     local path = configuration.file 'return { identity = "x" }'  -- a file that only its owner may read, until then

local files = require "spec.support.files"
local fixture = require "spec.support.fixture"

local configuration = {}

local getenv = os.getenv

--- Makes the variables of zklock, and HOME, have these values. `HOME` is "/nonexistent" and `ZKLOCK_CONFIG` is "" unless given.
function configuration.set(variables)
    local values = { HOME = "/nonexistent", ZKLOCK_CONFIG = "" }
    for name, value in pairs(variables) do
        values[name] = value
    end
    os.getenv = function(name) -- luacheck: ignore 122
        if name == "HOME" or name:find "^ZKLOCK_" then
            return values[name]
        end
        return getenv(name)
    end
    fixture.on_clean(function()
        os.getenv = getenv -- luacheck: ignore 122
    end)
end

--- Writes a file. `mode`: of chmod, "600" unless given. Returns its path.
function configuration.file(text, mode)
    local path = fixture.temporary_directory() .. "/zklock.lua"
    files.write(path, text)
    assert(os.execute(("chmod %s %s"):format(mode or "600", path)))
    return path
end

return configuration
