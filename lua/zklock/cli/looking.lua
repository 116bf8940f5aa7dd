--- cli.looking: what the subcommands that look at locks have in common.

local inspect = require "zklock.inspect"
local node = require "zklock.node"
local settings = require "zklock.cli.settings"
local Waits = require "zklock.inspect.waits"

local looking = {}

--- Adds the options of all of them. Returns the first one.
function looking.define(parser)
    local json = parser:flag "--json":description "Print JSON."
    settings.define(parser)
    return json
end

--- Adds the option of those that look for deadlocks.
function looking.define_below(parser)
    parser:option "--below":argname "DIR":default "/":show_default(false):description(
        "Look for what the holders wait for at this path and below it (/).")
end

--- Adds the paths of those that keep showing locks.
function looking.define_paths(parser)
    parser:argument "paths":argname "PATH":args "*":convert(function(path)
        local wrong = node.read_problem(path)
        return not wrong and path or nil, wrong
    end):description "Show the locks at these paths and below them (/)."
end

--- Adds the option of those that read a log.
function looking.define_log(parser, description)
    parser:option "--log":argname "<file>":default(os.getenv "ZKLOCK_LOG"):show_default(false):description(description)
end

--- Adds the option of those that keep a log.
function looking.define_kept_log(parser)
    parser:option "--log":argname "<file>":description(
        "Keep who held when in this file, for zklock history and zklock why: 32 MB at most, with FILE.1.")
end

--- Opens the log that a command line names. Returns nil if it names none.
function looking.open_log(arguments, context)
    if not arguments.log then
        return nil
    end
    local log, message = require("zklock.ui.log").open(arguments.log, function(problem)
        context:warn("cannot write the log %s: %s", arguments.log, problem)
    end)
    return (context.check(log, "cannot open the log: " .. tostring(message)))
end

--- Reads who waits for whom below `--below`.
---@return table? # of zklock.inspect.waits
---@return string? message
---@return zklock.Code? code
function looking.waits(session, arguments)
    local states, message, code = inspect.locks(session.client, arguments.below, { identities = true })
    if not states then
        return nil, message, code
    end
    return Waits.new(states)
end

return looking
