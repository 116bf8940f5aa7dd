--- cli.looking: what the subcommands that look at locks have in common.

local codes = require "zklock.cli.codes"
local settings = require "zklock.cli.settings"

local pcall, tostring = pcall, tostring

local looking = {}

--- Adds --json.
function looking.define_json(parser)
    parser:flag "--json":description "Print JSON."
end

--- Adds the options of all of them.
function looking.define(parser)
    looking.define_json(parser)
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

--- Calls a function of the API whose path comes from the command line. A path that it refuses is a mistake in the usage.
-- @return what the function returns
function looking.call(fn, ...)
    local ok, first, second, third = pcall(fn, ...)
    if not ok then
        if tostring(first):find "bad path" then
            first = "usage: " .. tostring(first):match "bad path: .*"
        end
        error(first, 0)
    end
    return first, second, third
end

--- Writes a message for a failed call, and returns the exit code.
function looking.fail(context, message, code)
    return context:fail(codes.of(code), "%s", message)
end

return looking
