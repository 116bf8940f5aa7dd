--- support.locale: compiles a locale of the C library for one spec, so that nothing outside changes.
--
--     local danish = locale.compile("da_DK")
--     danish.environment             -- the environment of a program that uses it: { LC_ALL =, LOCPATH = }
--     danish:remove()

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"

local Locale = {}
Locale.__index = Locale

local locale = {}

--- Compiles a locale, with UTF-8, from the sources in Debian's package "locales".
function locale.compile(name)
    local directory = files.make_directory()
    local full = name .. ".UTF-8"
    local output, status = cluster.run({ "localedef", "-i", name, "-f", "UTF-8", directory .. "/" .. full })
    assert(status == 0, output)
    return setmetatable({ directory = directory, environment = { LC_ALL = full, LOCPATH = directory } }, Locale)
end

function Locale:remove()
    cluster.run({ "rm", "-rf", self.directory })
end

return locale
