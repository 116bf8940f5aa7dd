--- cli.context: what all subcommands of `zklock` need: output, messages, settings, a connection. See zklock.cli.

local codes = require "zklock.cli.codes"
local Output = require "zklock.cli.output"
local text = require "zklock.text"

local format, min = string.format, math.min

--- Modules of others that the command cannot do without. Their rocks have their names, their Debian packages begin with "lua-".
-- (zklock.inspect.words says itself when LuaSocket is missing.)
local OTHERS = { argparse = true, dkjson = true }

--- Advice for two failures: rights are missing; there is no connection.
local ADVICE = {
    [codes.DENIED] = "; the credentials of --auth-file or ZKLOCK_AUTH, or the certificate, must fit the ACL",
    [codes.DISCONNECTED] = "; zklock doctor checks the servers"
}

local Context = {}
Context.__index = Context

---@param signals number descriptor of the signals that were caught
function Context.new(signals)
    return setmetatable({
        signals = signals, output = Output.new(), input = false, quiet = false, session = false, guard = false
    }, Context)
end

--- Returns the text of an error that was raised, without what only programmers need: the position in a source, the name of the
-- function, a traceback. For a module of others that is not installed, it says what to install.
function Context.describe(problem)
    local message, found = tostring(problem):gsub("\nstack traceback:.*$", ""):gsub("^.-%.lua:%d+: ", "")
    if found > 0 then
        message = message:gsub("^[%l.]+[.:][%l_]+: ", "")
    end
    local missing, name = message:match "^(module '(%w+)[%w._]*' not found)"
    if OTHERS[name or ""] then
        return format("the Lua module %s is missing: apt-get install lua-%s, or luarocks install %s", name, name, name)
    end
    return missing or message
end

--- Writes a message to stderr, without what could control a terminal: paths and errors may come from others. A full disk or a
-- closed stderr is no reason to stop.
function Context.warn(_, message, ...)
    io.stderr:write("zklock: ", text.clean_lines(format(message, ...)), "\n")
end

--- Writes a message to stderr unless -q was given.
function Context:say(message, ...)
    if not self.quiet then
        self:warn(message, ...)
    end
end

--- Writes a message to stderr, and what to do. Returns the exit code.
function Context:fail(code, message, ...)
    self:warn(message .. (ADVICE[code] or ""), ...)
    return code
end

--- Ends the subcommand: raises a failure.
---@param code string the outcome: of zklock's API, or another word
---@param message? string
---@param exit? integer exit code; default: that of `code`
function Context.stop(code, message, exit)
    error(setmetatable({ code = code, message = message, exit = exit or codes.of(code) }, { __metatable = "zklock failure" }), 0)
end

--- Returns its arguments, which a function of zklock's API has returned. If the first one is nil, ends the subcommand.
---@param result any
---@param message? string
---@param code? zklock.Code nil: "failed"
function Context.check(result, message, code)
    if result == nil then
        Context.stop(code or "failed", message)
    end
    return result, message, code
end

--- Concludes a subcommand that an error has ended: a failure (stop), an interruption (zklock.cli.session), or any other. Writes
-- the message.
---@return integer # exit code
---@return string # outcome: of a failure its code, "interrupted", or "failed"
function Context:conclude(problem)
    local kind, code, outcome = getmetatable(problem), codes.FAILED, "failed"
    if kind == "zklock interruption" then
        code, outcome = codes.of_signal(problem.signal), "interrupted"
    elseif kind == "zklock failure" then
        code, outcome = problem.exit, problem.code
        if problem.message then
            self:fail(code, "%s", problem.message)
        end
    else
        self:fail(code, "%s", Context.describe(problem))
    end
    return code, outcome
end

--- Closes the session, and ends the guardian, if there are any.
---@return true? # nil: the servers have not acknowledged the session's end in time
function Context:close()
    local session, guard = self.session, self.guard
    self.session, self.guard = false, false
    local closed = not session or session:close()
    if guard then
        guard:finish()
    end
    return closed
end

--- Reads the settings and opens the session, or raises their failure. All modules that this needs are loaded here, not before.
---@param arguments table of the command line, with those of zklock.cli.settings
---@param limit? number no more than so many seconds for the connection
---@return table
function Context:connect(arguments, limit)
    local settings = Context.check(require("zklock.cli.settings").read(arguments))
    settings.connect_timeout = min(settings.connect_timeout, limit or settings.connect_timeout)
    self.session = Context.check(require("zklock.cli.session").connect(settings, self))
    return self.session
end

return Context
