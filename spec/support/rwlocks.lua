--- support.rwlocks: the halves of a read/write lock, and the nodes on its path.

local fixture = require "spec.support.fixture"

local rwlocks = {}

--- Returns the half of a read/write lock for a letter, R or W.
function rwlocks.half(rw, letter)
    return letter == "R" and rw.read or rw.write
end

--- Returns how many nodes a path has of each kind; the kind is the text between the uuid and the number in a name.
function rwlocks.kinds(path)
    local found = {}
    for _, name in ipairs(fixture.children(path)) do
        local kind = name:match("^_c_%x+%-%x+%-%x+%-%x+%-%x+%-(__%u+__)%d%d%d%d%d%d%d%d%d%d$") or name
        found[kind] = (found[kind] or 0) + 1
    end
    return found
end

return rwlocks
