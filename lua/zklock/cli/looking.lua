--- cli.looking: what the subcommands that look at locks have in common.

local codes = require "zklock.cli.codes"
local settings = require "zklock.cli.settings"

local error, pcall, type = error, pcall, type

local looking = {}

--- Adds the options of all of them.
function looking.define(parser)
    parser:flag "--json":description "Print JSON."
    settings.define(parser)
end

--- Connects, calls `fn(session)`, which returns an exit code, and closes the session.
function looking.with_session(arguments, context, fn)
    local session, code = context:connect(arguments)
    if not session then
        return code
    end
    code = fn(session)
    session:close()
    return code
end

--- Calls a function of the API whose path comes from the command line.
-- @return what the function returns
-- @raise what the function raises; for a malformed path without the function's name
function looking.call(fn, ...)
    local ok, first, second, third = pcall(fn, ...)
    if not ok then
        error(type(first) == "string" and first:match "bad path: .*" or first, 0)
    end
    return first, second, third
end

--- Writes a message for a failed call, and returns the exit code.
function looking.fail(context, message, code)
    return context:fail(codes.of(code), "%s", message)
end

return looking
