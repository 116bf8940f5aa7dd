--- support.terminal: a terminal for specs, by tmux: what is typed goes to a program in it, and its screen can be read.
--
--     local terminal = terminals.open({ "bash", "--norc", "-i" })
--     terminal:type("sleep 10")           -- and Enter
--     terminal:key("C-z")
--     terminal:await("Stopped")           -- a Lua pattern on the screen

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"

local terminals = {}

local Terminal = {}
Terminal.__index = Terminal

local function tmux(self, ...)
    return cluster.run({ "tmux", "-S", self.socket, "-f", "/dev/null", ... })
end

--- Opens a terminal of 100 columns and 40 rows in which the program, given as words, runs. fixture.clean closes it.
function terminals.open(words)
    local self = setmetatable({ socket = commands.directory() .. "/tmux" }, Terminal)
    -- tmux takes its environment from its first client, and a program in it the one of tmux.
    local variables = { "env", "LUA_PATH=" .. package.path, "LUA_CPATH=" .. package.cpath, "TERM=xterm-256color", "PS1=$ " }
    for _, word in ipairs(words) do
        variables[#variables + 1] = word
    end
    local output, status = tmux(self, "new-session", "-d", "-x", "100", "-y", "40", cluster.command_line(variables))
    assert(status == 0, output)
    fixture.on_clean(function()
        self:close()
    end)
    return self
end

--- Types a line.
function Terminal:type(line)
    tmux(self, "send-keys", "-l", line)
    tmux(self, "send-keys", "Enter")
end

--- Presses a key, by tmux's name for it: "C-c", "C-z", "q".
function Terminal:key(name)
    tmux(self, "send-keys", name)
end

--- Changes the size.
function Terminal:resize(columns, rows)
    tmux(self, "resize-window", "-x", tostring(columns), "-y", tostring(rows))
end

--- Closes the terminal.
function Terminal:close()
    tmux(self, "kill-server")
end

--- Returns the text on the screen.
function Terminal:screen()
    return (tmux(self, "capture-pane", "-p"))
end

--- Waits until the screen contains a Lua pattern. Returns the first capture, or the match.
function Terminal:await(pattern, timeout)
    return eventually(function()
        local screen = self:screen()
        return screen:match(pattern), screen
    end, timeout, pattern)
end

return terminals
