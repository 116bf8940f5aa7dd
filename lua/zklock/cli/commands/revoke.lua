--- zklock revoke: asks the holders of a lock to release it.

local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"

local revoke = { summary = "Ask the holders of a lock to release it." }

function revoke.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock."
    looking.define(parser)
end

function revoke.run(arguments, context)
    return looking.with_session(arguments, context, function(session)
        local state, message, code = inspect.lock(session.client, arguments.path, { identities = false })
        if state == nil then
            return looking.fail(context, message, code)
        end
        local asked = 0
        if state and state.holders > 0 then
            asked, message, code = locks.revoke(session.client, state)
            if not asked then
                return looking.fail(context, message, code)
            end
        end
        if arguments.json then
            context.output:line(context.output.json { path = arguments.path, asked = asked })
        elseif not state then
            context:say("there is no node %s: nobody holds this lock", arguments.path)
        elseif asked == 0 then
            context:say("nobody holds %s", arguments.path)
        else
            local names = locks.holders(state, inspect.now { state })
            context:say("asked %s to release %s; a holder may ignore that", names, arguments.path)
        end
        return 0
    end)
end

return revoke
