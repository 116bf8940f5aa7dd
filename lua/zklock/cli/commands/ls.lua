--- zklock ls: lists the locks at a path and below it.

local codes = require "zklock.cli.codes"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"

local ls = { summary = "List locks: kind, holders, since when, how many wait." }

function ls.define(parser)
    parser:argument "path":argname "PATH":args "?":description "List the locks at this path and below it (/)."
    parser:flag "-a --all":description "Show nodes that are no locks, too."
    looking.define(parser)
end

--- Writes the table for people.
local function show(output, states, now)
    local rows = { { "PATH", "KIND", "STATE", "SINCE", "WAITING", "HELD BY" } }
    for _, state in ipairs(states) do
        local names, age = locks.holders(state, now)
        local waiting = state.waiters > 0 and ("%d"):format(state.waiters) or "-"
        rows[#rows + 1] = { output.clean(state.path), state.kind, locks.taken(state), age, waiting, names }
    end
    output:rows(rows)
end

function ls.run(arguments, context)
    local top = arguments.path or "/"
    local session = context:connect(arguments)
    local all, unreadable = context.check(inspect.locks(session.client, top))
    local states, now = {}, inspect.now(all)
    for _, state in ipairs(all) do
        if arguments.all or state.kind ~= "none" then
            states[#states + 1] = state
        end
    end
    if all[1] == nil and session.client:exists(top) ~= false then
        return context:fail(codes.DENIED, "%s may not be read", top)
    elseif all[1] == nil then
        unreadable = {} -- there is no such node
    end
    if arguments.json then
        local objects = {}
        for index, state in ipairs(states) do
            objects[index] = locks.json(state, now)
        end
        context.output:line(context.output.json { path = top, locks = objects, unreadable = unreadable })
        return 0
    end
    if states[1] then
        show(context.output, states, now)
    else
        context:say("no locks at %s or below it", top)
    end
    for _, path in ipairs(unreadable) do
        context:say("%s may not be read", path)
    end
    return 0
end

return ls
