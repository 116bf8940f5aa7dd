--- support.locale: a locale of the C library that the system may not have, so that nothing outside changes.
--
--     local danish = assert(locale.environment("da_DK"))   -- { LC_ALL =, LOCPATH = }

local cluster = require "spec.support.cluster"

local locale = {}

--- Returns the environment of a program that uses a locale, with UTF-8. If the locale cannot be compiled: nil, why.
function locale.environment(name)
    local output, status = cluster.run({ cluster.root .. "/tools/locale.sh", name })
    if status ~= 0 then
        return nil, output
    end
    -- If the program's own locale is not installed, bash says so first.
    return { LC_ALL = name .. ".UTF-8", LOCPATH = output:match("[^\n]*$") }
end

return locale
