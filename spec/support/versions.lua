--- support.versions: what specs have to know of the differences between versions of ZooKeeper's servers. The cases of
-- spec/conformance have a table of their own (cases.c).

local versions = {}

--- For each feature: the first releases that have it, one for each series in which some releases lack it.
local FEATURES = {
    -- `exists` needs the permission READ.
    exists_needs_read = { "3.8.4", "3.9.2" },
    -- A snapshot has the ACL of each node (ZOOKEEPER-4846).
    keeps_acls = { "3.8.5", "3.9.4" },
    -- The option enforceQuota, and the answer "quota exceeded".
    quotas = { "3.7.0" },
    -- mntr tells zk_throttled_ops.
    throttled_ops = { "3.6.0" }
}

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
    for _, first in ipairs(assert(FEATURES[feature], feature)) do
        local first_number, first_series = number_of(first)
        if series == first_series then
            return number >= first_number
        end
        has = has or series > first_series
    end
    return has
end

return versions
