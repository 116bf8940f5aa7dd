--- support.multis: multis of three mutexes, and the nodes on their paths.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

local multis = {}

--- Returns three new paths, in order.
function multis.three_paths()
    local base = fixture.path()
    return { base .. "/a", base .. "/b", base .. "/c" }
end

--- Returns a multi of mutexes on these paths, in the order given, and the list of the mutexes.
function multis.of(client, paths, options)
    local locks = {}
    for index, path in ipairs(paths) do
        locks[index] = client:mutex(path, options)
    end
    return client:multi(locks), locks
end

--- Returns how many nodes are on each of the paths, as text: "1 1 1".
function multis.counts(paths)
    local numbers = {}
    for index, path in ipairs(paths) do
        numbers[index] = #fixture.children(path)
    end
    return table.concat(numbers, " ")
end

--- Waits until so many nodes are on the paths.
function multis.await_counts(paths, expected)
    eventually(function()
        local counts = multis.counts(paths)
        return counts == expected, counts
    end, 15, expected .. " nodes")
end

return multis
