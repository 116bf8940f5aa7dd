--- files: what the tools in Lua read, write, and list.

local files = {}

--- Returns the text of a file.
function files.read(path)
    local file = assert(io.open(path, "rb"))
    local text = assert(file:read("*a"))
    file:close()
    return text
end

function files.write(path, text)
    local file = assert(io.open(path, "wb"))
    assert(file:write(text))
    assert(file:close())
end

--- Returns the lines that a command prints, which must succeed.
function files.lines_of(command)
    local lines, pipe = {}, assert(io.popen(command))
    for line in pipe:lines() do
        lines[#lines + 1] = line
    end
    assert(pipe:close(), command)
    return lines
end

--- Returns the files of these patterns that are in git or could be added to it.
function files.in_git(...)
    return files.lines_of("git ls-files --cached --others --exclude-standard -- '" .. table.concat({ ... }, "' '") .. "'")
end

return files
