--- cli.shell: the shell that runs `zklock lock` and `zklock unlock`: which process it is, and how it is told variables. And
-- commands that zklock has a shell run.

local process = require "zklock.process"

local concat = table.concat
local floor = math.floor
local format = string.format

local shell = {}

--- In the flags of a process: it was forked, and has not called exec: so it is a subshell, or the shell of `$( )`.
local FORKED_ONLY = 0x40

--- Reads what the kernel says of a process: its id, its `parent`, `group`, whether it was only forked, and when it `began`, which
-- tells it from a later process with its id. `of`: an id, or "self".
---@return table? # nil: there is no such process, or no /proc
local function read(of)
    local file = io.open(format("/proc/%s/stat", of))
    local line = file and file:read "*l"
    if file then
        file:close()
    end
    local id, name, rest = (line or ""):match "^(%d+) %((.*)%) (.*)$"
    if not id then
        return nil
    end
    local fields = {}
    for field in rest:gmatch "%S+" do
        fields[#fields + 1] = field
    end
    return {
        id = tonumber(id),
        name = name,
        parent = tonumber(fields[2]),
        group = tonumber(fields[3]),
        forked_only = floor(tonumber(fields[7]) / FORKED_ONLY) % 2 == 1,
        began = fields[20]
    }
end

--- Finds the shell that has started this process, of which `$( )` may have made another one in between.
---@return table? # as of read, with `fd`, which is readable when the shell has ended
---@return string? problem
function shell.find()
    local found = read "self"
    repeat
        found = found and read(found.parent)
    until not found or not found.forked_only
    if not found then
        return nil, "/proc does not show the shell"
    end
    local problem
    found.fd, problem = process.open(found.id)
    if not found.fd then
        return nil, problem
    end
    return found
end

--- Returns a name of this process for ZKLOCK_HOLDER.
function shell.name_self()
    local self = assert(read "self", "there is no /proc")
    return format("%d:%s", self.id, self.began)
end

--- Returns the process of such a name.
---@return integer? # nil: it has ended
---@return integer? # a descriptor that is readable when it ends
function shell.by_name(name)
    local id, began = name:match "^(%d+):(%d+)$"
    local fd = id and process.open(tonumber(id))
    local found = fd and read(id)
    if not found or found.began ~= began or process.poll({ fd }, 0)[fd] then
        return nil
    end
    return found.id, fd
end

--- Returns a word for any shell but fish.
function shell.quote(word)
    return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- Returns the first line of what a shell command prints; nil if there is none.
function shell.output_of(command)
    local pipe = io.popen(command .. " 2>/dev/null")
    local line = pipe and pipe:read "*l"
    if pipe then
        pipe:close()
    end
    return line
end

--- How to say it: to fish, and to all other shells. Values stand between single quotes.
local FISH = {
    quote = function(text)
        return "'" .. text:gsub("[\\']", "\\%0") .. "'"
    end,
    check = "test $fish_pid = %d; or begin; echo %s >&2; sh -c 'exit 125'; end",
    set = "and set -gx %s %s",
    unset = "and set -e %s",
    fail = "sh -c 'exit %d'"
}
local OTHERS = {
    quote = shell.quote,
    check = "{ [ $$ = %d ] || { echo %s >&2; (exit 125); }; }",
    set = "&& export %s=%s",
    unset = "&& unset %s",
    fail = "(exit %d)"
}

local function words_for(found)
    return found.name == "fish" and FISH or OTHERS
end

--- Returns what the shell is to run to set variables. Another shell fails with 125.
---@param found table as of find
---@param variables table list of "NAME=value", and of "NAME" for one that is removed
function shell.assign(found, variables)
    local words = words_for(found)
    local parts = { format(words.check, found.id,
        words.quote(format("zklock: the lock ends with process %d, which is not this shell", found.id))) }
    for _, variable in ipairs(variables) do
        local name, value = variable:match "^([^=]*)=(.*)$"
        parts[#parts + 1] = name and format(words.set, name, words.quote(value)) or format(words.unset, variable)
    end
    return concat(parts, words == FISH and "; " or " ")
end

--- Returns what the shell is to run to have this exit code.
function shell.fail(code)
    return format(words_for(shell.find() or {}).fail, code)
end

return shell
