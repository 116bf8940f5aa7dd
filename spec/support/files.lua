--- support.files: files and directories that specs read, write and create.

local cluster = require "spec.support.cluster"

local files = {}

--- The system's number of "no such process": the answer to a read of /proc if the process has ended since the file was opened.
local NO_PROCESS = 3

--- Returns the content of a file; "" if there is no such file, or no such process any more.
function files.read(path)
    local file = io.open(path, "rb")
    if not file then
        return ""
    end
    local text, problem, number = file:read("*a")
    file:close()
    if not text and number ~= NO_PROCESS then
        error(path .. ": " .. problem)
    end
    return text or ""
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
