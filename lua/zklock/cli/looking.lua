--- cli.looking: what the subcommands that look at locks have in common.

local codes = require "zklock.cli.codes"
local settings = require "zklock.cli.settings"

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

--- Writes a message for a failed call, and returns the exit code.
function looking.fail(context, message, code)
    return context:fail(codes.of(code), "%s", message)
end

return looking
