--- zklock resize: changes how many permits a semaphore has.

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
    context.check(session.client:semaphore(arguments.path, permits):resize(permits))
    if arguments.json then
        context.output:line(context.output.json { path = arguments.path, permits = permits })
    else
        context:say("%s has %d permits", arguments.path, permits)
    end
    return 0
end

return resize
