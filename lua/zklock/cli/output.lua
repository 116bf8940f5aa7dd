--- cli.output: what subcommands of `zklock` write to standard output: tables and times for people, or JSON.

local process = require "zklock.process"
local plain = require "zklock.text"

local concat, sort = table.concat, table.sort
local max = math.max
local format = string.format

local STDOUT = 1

--- errno if the reader of a pipe has closed it.
local EPIPE = 32

--- SGR parameters by name.
local STYLES = { bold = 1, red = 31, green = 32, yellow = 33, cyan = 36 }

local Output = {}
Output.__index = Output

--- `closed`: a write has failed because the reader wants no more. `colored`: standard output is a terminal, and NO_COLOR is not set
-- (https://no-color.org).
function Output.new()
    local terminal = process.is_terminal(STDOUT)
    local no_color = os.getenv "NO_COLOR"
    return setmetatable({
        closed = false,
        colored = terminal and (no_color == nil or no_color == "") and os.getenv "TERM" ~= "dumb"
    }, Output)
end

--- Remembers the first write that has failed: C's buffer forgets what it could not write.
local function note(self, written, problem, number)
    if not written then
        self.problem = self.problem or problem or "unknown error"
        self.closed = self.closed or number == EPIPE
    end
    return written
end

--- Writes a line. Returns true; or nil and a message.
function Output:line(text)
    return note(self, io.stdout:write(text, "\n")), self.problem
end

--- Writes everything out, so that a full disk is noticed. Returns true if all writes have succeeded; or nil and a message.
function Output:flush()
    note(self, io.stdout:flush())
    return not self.problem or nil, self.problem
end

--- Returns a text in a style ("bold", "red", "green", "yellow", "cyan"), or plain where there is no color.
function Output:styled(style, text)
    if not self.colored then
        return text
    end
    return format("\27[%dm%s\27[0m", STYLES[style], text)
end

--- The number of columns that a UTF-8 text takes, if each character takes one.
local function width(text)
    return select(2, text:gsub("[^\128-\191]", ""))
end

--- Returns rows of texts as lines with aligned columns, each text cleaned.
function Output.align(rows)
    local widths, lines = {}, {}
    for _, row in ipairs(rows) do
        for column = 1, #row do
            local text = Output.clean(row[column])
            row[column] = text
            widths[column] = max(widths[column] or 0, width(text))
        end
    end
    for index, row in ipairs(rows) do
        local cells = {}
        for column, text in ipairs(row) do
            cells[column] = column == #row and text or text .. (" "):rep(widths[column] - width(text))
        end
        lines[index] = concat(cells, "  ")
    end
    return lines
end

--- Writes rows as align returns them. The first row is the heading.
function Output:rows(rows)
    for index, line in ipairs(Output.align(rows)) do
        self:line(index == 1 and self:styled("bold", line) or line)
    end
end

--- Returns a duration for people: "0.3 s", "12 s", "3 min", "5 h", "2 d".
Output.duration = plain.duration

--- Collects the names of all fields of a value and of the values in it.
local function collect_names(value, names, seen)
    if type(value) ~= "table" then
        return
    end
    for key, field in pairs(value) do
        if type(key) == "string" and not seen[key] then
            seen[key] = true
            names[#names + 1] = key
        end
        collect_names(field, names, seen)
    end
end

--- Returns a value as JSON in one line, with the keys of its objects in alphabetical order. An empty table is an array. It is valid
-- UTF-8, also if a client's identity is not.
function Output.json(value)
    local names = {}
    collect_names(value, names, {})
    sort(names)
    return plain.clean(require("dkjson").encode(value, { keyorder = names }))
end

--- Returns text that may have come from another client, without what could control a terminal.
Output.clean = plain.clean

return Output
