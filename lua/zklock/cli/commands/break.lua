--- zklock break: deletes the node of a holder or waiter.

local codes = require "zklock.cli.codes"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"

local format = string.format

local breaking = { summary = "Delete a contender's node: its client loses the lock or its place, and may not know it yet." }

function breaking.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock."
    parser:option "--node":argname "N":count(1):description "The contender: its number or its node, as zklock who shows them."
    parser:flag "--yes":description "Delete it. Without this option, only say what that would do."
    looking.define(parser)
end

--- What the deletion does, for people.
local function consequences(state, contender)
    if not contender.holder then
        return "It waits: its client queues again at the end, or its call fails."
    elseif inspect.stray(contender) then
        return "No session owns it: nothing else removes it, and the next contender gets the lock."
    elseif state.waiters == 0 then
        return "It holds the lock, and its client may go on working until it notices. The next contender can hold at the same time."
    end
    return format("It holds the lock, and its client may go on working until it notices. One of %d waiters gets the lock " ..
        "at once, so two may work at the same time. Only a fencing token prevents that.", state.waiters)
end

function breaking.run(arguments, context)
    local session = context:connect(arguments)
    local state = context.check(inspect.lock(session.client, arguments.path))
    local found = state and locks.find(state, arguments.node) or {}
    if not found[1] then
        return context:fail(codes.FAILED, "no contender %s at %s", arguments.node, arguments.path)
    elseif found[2] then
        return context:fail(codes.FAILED, "two contenders have the number %s: give --node a name, such as %s",
            arguments.node, found[1].name)
    end
    local contender = found[1]
    context.check(locks.add_sessions(session, { state })) -- whether the node has an owner counts
    local age = locks.age(contender, inspect.now { state })
    local what = format("%s (%s, %s old)", contender.node, locks.identity(contender), age)
    if not arguments.yes then
        context:say("would delete %s. %s Nothing is deleted without --yes.", what, consequences(state, contender))
        return codes.FAILED
    end
    local deleted, message, code = session.client:delete(contender.node)
    context.check(deleted or code == "no_node" or nil, message, code)
    if arguments.json then
        context.output:line(context.output.json { path = arguments.path, node = contender.node, deleted = deleted == true })
    elseif deleted then
        context:say("deleted %s. %s", what, consequences(state, contender))
    else
        context:say("%s was gone already", contender.node)
    end
    return 0
end

return breaking
