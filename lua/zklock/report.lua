--- report: tells of an error that no caller can be told of, for example one that a callback of the program has raised.
--
-- It goes to the option `log`. Without `log`, or if `log` raises, it goes where people look: inside nginx to the error log,
-- elsewhere to stderr. Lua 5.4's warn is not used, because it writes nothing unless the program turns it on.

local io, pcall, rawget, tostring, type = io, pcall, rawget, tostring, type
local _G = _G

local report = {}

--- Returns the text of an error, which may be any value, also one whose __tostring raises.
function report.text_of(problem)
    local ok, text = pcall(tostring, problem)
    return ok and type(text) == "string" and text or "an error that has no text"
end

local function write_to_nginx(ngx, message)
    ngx.log(ngx.ERR, "zklock: ", message)
end

local function write_to_stderr(message)
    io.stderr:write("zklock: ", message, "\n")
end

--- Reports where no `log` is given.
local function report_elsewhere(message)
    local ngx = rawget(_G, "ngx")
    if not ngx or not pcall(write_to_nginx, ngx, message) then
        pcall(write_to_stderr, message)
    end
end

--- Passes a line to `log`. If `log` raises, that is reported.
---@param log function
---@param level string
---@param message string
---@return boolean # whether `log` has returned
function report.line(log, level, message)
    local ok, problem = pcall(log, level, message)
    if not ok then
        report_elsewhere("the callback log raised: " .. report.text_of(problem))
    end
    return ok
end

--- Reports an error.
---@param log? function
---@param message string
function report.error(log, message)
    if not log or not report.line(log, "error", message) then
        report_elsewhere(message)
    end
end

return report
