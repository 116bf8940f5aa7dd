--- zklock who: shows who holds a lock, who waits for whom, and a deadlock.

local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"
local Waits = require "zklock.inspect.waits"

local format, huge = string.format, math.huge

--- How many contenders are shown, and their nodes read, without --all.
local SHOWN = 20

local who = { summary = "Show who holds a lock and who waits for whom." }

function who.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock."
    parser:flag "--all":description(format("Show the whole queue, not only the first %d.", SHOWN))
    parser:flag "--no-sessions":description "Do not ask the servers which sessions are connected."
    looking.define_below(parser)
    looking.define(parser)
end

--- Writes the first `count` of the queue for people.
local function show(output, state, deadlock, now, count)
    local taken = locks.taken(state)
    local waiting = state.waiters > 0 and format(", %d waiting", state.waiters) or ""
    output:line(format("%s  %s  %s%s", output:styled("bold", output.clean(state.path)), state.kind, taken, waiting))
    if state.contenders[1] then
        output:rows(locks.queue(state, now, count))
        if #state.contenders > count then
            output:line(format("and %d more; --all shows them", #state.contenders - count))
        end
    end
    if deadlock then
        output:line(format("%s %s", output:styled("red", "deadlock"), output.clean(Waits.describe(deadlock))))
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
    local session = context:connect(arguments)
    local count = (arguments.all or arguments.json) and huge or SHOWN
    local state = context.check(inspect.lock(session.client, arguments.path, { identities = count == huge or count })) or
        locks.missing(arguments.path)
    local sessions, waits = { problems = {} }, Waits.new {}
    if state.contenders[1] and not arguments.no_sessions then
        sessions = context.check(locks.add_sessions(session, { state }))
    end
    local now = inspect.now { state }
    if state.holders > 0 and state.waiters > 0 then
        waits = context.check(looking.waits(session, arguments))
    end
    local deadlock = waits:deadlock(state)
    if arguments.json then
        local object = locks.json(state, now)
        object.deadlock = deadlock or {}
        context.output:line(context.output.json(object))
        return 0
    end
    show(context.output, state, deadlock, now, count)
    if sessions.problems[1] then
        context:say("sessions are not known completely: %s", sessions.problems[1])
    end
    return 0
end

return who
