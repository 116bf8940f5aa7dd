--- cli.screen: the terminal as a screen: alternate buffer, keys one by one, its size. For `zklock top`.
--
-- The terminal's settings are changed by stty, which knows how to put them back. Screen:close puts everything back. It may be
-- called at any time, and more than once.

local process = require "zklock.process"
local shell = require "zklock.cli.shell"

local concat = table.concat

local STDIN, STDOUT = 0, 1

--- Where the size cannot be read.
local COLUMNS, ROWS = 80, 24

local ENTER, LEAVE = "\27[?1049h\27[?25l", "\27[?25h\27[?1049l"
local HOME, CLEAR_LINE, CLEAR_BELOW = "\27[H", "\27[K", "\27[J"

local Screen = {}
Screen.__index = Screen

--- Returns whether standard input and output are a terminal whose cursor can be moved.
function Screen.is_possible()
    return process.is_terminal(STDIN) and process.is_terminal(STDOUT) and (os.getenv "TERM" or "dumb") ~= "dumb"
end

--- Opens the screen. Returns nil if the terminal's settings cannot be read.
function Screen.open()
    local settings = shell.output_of "stty -g"
    if not settings or not settings:find "^[%x:]+$" then
        return nil
    end
    os.execute "stty -icanon -echo min 1 time 0"
    process.write(STDOUT, ENTER)
    return setmetatable({ settings = settings, fd = STDIN }, Screen)
end

--- Puts the terminal back as it was.
function Screen:close()
    if self.settings then
        process.write(STDOUT, LEAVE)
        os.execute("stty " .. self.settings)
        self.settings = nil
    end
end

--- Returns columns and rows.
function Screen.size()
    local columns, rows = process.window(STDOUT)
    if not rows or columns < 1 or rows < 1 then
        return COLUMNS, ROWS
    end
    return columns, rows
end

--- Shows lines; those that do not fit are left out. A line may contain styles, so the caller makes it short enough.
function Screen:draw(lines)
    local _, rows = self.size()
    local parts = { HOME }
    for index = 1, #lines < rows and #lines or rows do
        parts[#parts + 1] = (index > 1 and "\r\n" or "") .. lines[index] .. CLEAR_LINE
    end
    parts[#parts + 1] = CLEAR_BELOW
    return process.write(STDOUT, concat(parts))
end

return Screen
