--- support.files: files and directories that specs read, write and create.

local cluster = require "spec.support.cluster"

local files = {}

--- Returns the content of a file; "" if there is no such file.
function files.read(path)
    local file = io.open(path, "rb")
    if not file then
        return ""
    end
    local text = file:read("*a")
    file:close()
    return text
end

--- Creates a file, or replaces its content.
function files.write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
end

--- Returns whether a path exists.
function files.exists(path)
    return select(2, cluster.run({ "test", "-e", path })) == 0
end

--- Creates a temporary directory and returns its path.
function files.make_directory()
    local output, status = cluster.run({ "mktemp", "-d" })
    assert(status == 0, output)
    return output
end

--- Returns the paths of all files below a directory whose names have this end, sorted.
function files.find(directory, ending)
    local found = {}
    for path in cluster.run({ "find", directory, "-name", "*" .. ending }):gmatch("[^\n]+") do
        found[#found + 1] = path
    end
    table.sort(found)
    return found
end

return files
