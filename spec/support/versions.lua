--- support.versions: how ZooKeeper's servers differ by version. versions.c has the table, which the simulation uses, too.

local versions = {}

--- For each feature: the first releases that have it, one for each series in which some releases lack it.
local FEATURES = {}
local table_file = assert(io.open((debug.getinfo(1, "S").source:gsub("^@(.*)lua$", "%1c"))))
for name, releases in table_file:read "*a":gmatch '\n    {"([%w_]+)", "([%d. ]+)"}' do
    FEATURES[name] = releases
end
table_file:close()

--- Returns a version as a number, and the number of its series.
local function number_of(version)
    local major, minor, patch = version:match "^(%d+)%.(%d+)%.?(%d*)"
    local series = assert(tonumber(major), version) * 1000 + tonumber(minor)
    return series * 1000 + (tonumber(patch) or 0), series
end

--- Returns whether servers of a version have a feature.
function versions.has(version, feature)
    local number, series = number_of(version)
    local has = false
    for first in assert(FEATURES[feature], feature):gmatch "%S+" do
        local first_number, first_series = number_of(first)
        if series == first_series then
            return number >= first_number
        end
        has = has or series > first_series
    end
    return has
end

return versions
