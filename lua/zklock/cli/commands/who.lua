--- zklock who: shows who holds a lock, and who waits for whom.

local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"

local format, huge, min = string.format, math.huge, math.min

--- How many contenders are shown, and their nodes read, without --all.
local SHOWN = 20

local who = { summary = "Show who holds a lock and who waits for whom." }

function who.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock."
    parser:flag "--all":description(format("Show the whole queue, not only the first %d.", SHOWN))
    parser:flag "--no-sessions":description "Do not ask the servers which sessions are connected."
    looking.define(parser)
end

--- What a contender does: "holds", "waits for 12", "waits for a permit"; "reserved": a permit that a waiter has created.
local function role(contender, by_node)
    if contender.holder then
        return "holds"
    end
    local before = contender.waits_for and by_node[contender.waits_for]
    if before then
        return format("waits for %d", before.sequence)
    end
    return contender.mode == "lease" and "reserved" or "waits for a permit"
end

--- Writes the first `count` of the queue for people.
local function show(output, state, now, count)
    local taken = locks.taken(state)
    local waiting = state.waiters > 0 and format(", %d waiting", state.waiters) or ""
    output:line(format("%s  %s  %s%s", output:styled("bold", output.clean(state.path)), state.kind, taken, waiting))
    if state.contenders[1] then
        local by_node, rows = {}, { { "NUMBER", "MODE", "STATE", "IDENTITY", "QUEUED", "SESSION", "NODE" } }
        for index = 1, min(count, #state.contenders) do
            local contender = state.contenders[index]
            by_node[contender.node] = contender
            rows[#rows + 1] = {
                format("%d", contender.sequence), contender.mode, role(contender, by_node), locks.identity(contender),
                locks.age(contender, now), locks.session(contender), contender.name
            }
        end
        output:rows(rows)
        if #state.contenders > count then
            output:line(format("and %d more; --all shows them", #state.contenders - count))
        end
    end
    for _, contender in ipairs(state.contenders) do
        local stray = inspect.stray(contender)
        if stray then
            output:line(format("%s %s: %s", output:styled("red", "stray"), output.clean(contender.node), stray == "persistent" and
                "it is persistent, so no session's end deletes it" or "its session is gone, and the servers have not deleted it"))
        end
    end
    for _, name in ipairs(state.others) do
        output:line(format("%s %s", output:styled("yellow", "not a contender:"), output.clean(name)))
    end
end

function who.run(arguments, context)
    return looking.with_session(arguments, context, function(session)
        local count = (arguments.all or arguments.json) and huge or SHOWN
        local state, message, code = inspect.lock(session.client, arguments.path, { identities = count == huge or count })
        if state == nil then
            return looking.fail(context, message, code)
        end
        state = state or locks.missing(arguments.path)
        local sessions = { problems = {} }
        if state.contenders[1] and not arguments.no_sessions then
            sessions, message, code = locks.add_sessions(session, { state })
            if not sessions then
                return looking.fail(context, message, code)
            end
        end
        local now = inspect.now { state }
        if arguments.json then
            context.output:line(context.output.json(locks.json(state, now)))
            return 0
        end
        show(context.output, state, now, count)
        if sessions.problems[1] then
            context:say("sessions are not known completely: %s", sessions.problems[1])
        end
        return 0
    end)
end

return who
