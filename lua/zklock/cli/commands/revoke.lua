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
    local session = context:connect(arguments)
    local state = context.check(inspect.lock(session.client, arguments.path, { identities = false }))
    local asked, names = 0, state and locks.holders(state, inspect.now { state })
    if state and state.holders > 0 then
        context:say("asking %s to release %s; a zklock run ignores that, unless it has --on-revoke stop", names, arguments.path)
        asked = context.check(locks.revoke(session.client, state))
    end
    if arguments.json then
        context.output:line(context.output.json { path = arguments.path, asked = asked })
    elseif not state then
        context:say("there is no node %s: nobody holds this lock", arguments.path)
    elseif asked == 0 then
        context:say("nobody holds %s", arguments.path)
    end
    return 0
end

return revoke
