--- support.files: files and directories that specs read, write and make.

local cluster = require "spec.support.cluster"

local files = {}

--- All that is in a file; "" if there is none.
function files.read(path)
    local file = io.open(path, "rb")
    if not file then
        return ""
    end
    local text = file:read("*a")
    file:close()
    return text
end

--- Makes a file, or replaces what is in it.
function files.write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
end

--- Whether there is something at a path.
function files.exists(path)
    return select(2, cluster.run({ "test", "-e", path })) == 0
end

--- A new temporary directory.
function files.make_directory()
    local output, status = cluster.run({ "mktemp", "-d" })
    assert(status == 0, output)
    return output
end

--- Returns the paths of all files below a directory whose names end so, sorted.
function files.find(directory, ending)
    local found = {}
    for path in cluster.run({ "find", directory, "-name", "*" .. ending }):gmatch("[^\n]+") do
        found[#found + 1] = path
    end
    table.sort(found)
    return found
end

return files
