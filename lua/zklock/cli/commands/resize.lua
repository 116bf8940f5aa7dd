--- zklock resize: changes how many permits a semaphore has.

local codes = require "zklock.cli.codes"
local inspect = require "zklock.inspect"
local looking = require "zklock.cli.looking"
local options = require "zklock.options"

local resize = { summary = "Change how many permits a semaphore has, while it is used." }

function resize.define(parser)
    parser:argument "path":argname "PATH":description "The path of the semaphore."
    parser:argument "permits":argname "N":description "How many permits it has from now on, whatever number programs name."
        :convert(tonumber)
    looking.define(parser)
end

function resize.run(arguments, context)
    local permits = context.check(options.read_permits(arguments.permits))
    local session = context:connect(arguments)
    local state = context.check(inspect.lock(session.client, arguments.path))
    local was_there = state and state.kind == "semaphore"
    if state and not was_there and state.kind ~= "free" then
        return context:fail(codes.FAILED, "%s is no semaphore: zklock ls shows what it is", arguments.path)
    end
    context.check(session.client:semaphore(arguments.path, permits):resize(permits))
    if arguments.json then
        context.output:line(context.output.json { path = arguments.path, permits = permits })
    elseif was_there then
        context:say("%s has %d permits", arguments.path, permits)
    else
        context:say("%s has %d permits. No semaphore was there", arguments.path, permits)
    end
    return 0
end

return resize
