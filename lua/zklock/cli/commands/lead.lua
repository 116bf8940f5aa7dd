--- zklock lead: runs one command when this machine is elected, and another one when it leads no longer. For pairs of machines of
-- which one has an address, or another resource that is no process.
--
-- It is `zklock run` of a *keeper*: a shell that runs --on-elected and then sleeps. Another process, the *agent*, has one end of a
-- pipe of which nothing but the keeper has the other one. So at the end of the keeper, whoever ends it, the agent runs --on-lost:
-- what ends a command of `zklock run` in time, also if zklock is killed or stopped, makes the agent act in time. The lock is
-- released when --on-lost has ended, or ends with the lease before that.

local acquire = require "zklock.cli.acquire"
local codes = require "zklock.cli.codes"
local process = require "zklock.process"
local run = require "zklock.cli.commands.run"
local settings = require "zklock.cli.settings"
local Supervisor = require "zklock.cli.supervisor"

local huge, min = math.huge, math.min
local concat = table.concat

local lead = { summary = "Run a command when this machine is elected, and another one when it leads no longer." }

function lead.define(parser)
    parser:usage "Usage: zklock lead [OPTIONS] --on-elected COMMAND --on-lost COMMAND PATH"
    acquire.define(parser)
    parser:option "--on-elected":argname "COMMAND":count "1":description(
        "Run this by /bin/sh when elected. If it fails, --on-lost is run, and another one is elected.")
    parser:option "--on-lost":argname "COMMAND":count "1":target "on_end":description(
        "Run this by /bin/sh after --on-elected, before another one can be elected.")
    Supervisor.define(parser, "leadership")
    settings.define(parser)
end

--- The descriptor of the keeper's end of the pipe.
local KEEPER_FD = 9

--- The keeper. It tells the agent by a newline that --on-elected begins. HUP is for zklock. Processes that --on-elected leaves
-- behind have no end of the pipe.
local KEEPER = ('trap "" HUP; echo >&%d; /bin/sh -c "$1" %d>&- || exit; exec sleep infinity'):format(KEEPER_FD, KEEPER_FD)

--- The agent: waits for the end of the pipe, by which variables come, and a newline behind them when --on-elected begins. If it has
-- begun, runs a command with these variables.
local function serve(read_end, command, context)
    process.part()
    local parts = {}
    repeat
        parts[#parts + 1] = process.read(read_end) or ""
    until parts[#parts] == ""
    local sent = concat(parts)
    if not sent:find "%z\n$" then
        return 0
    end
    local variables = {}
    for variable in sent:gmatch "([^%z]+)%z" do
        variables[#variables + 1] = variable
    end
    local pid, message = process.spawn({ "/bin/sh", "-c", command }, variables, nil, {})
    if not pid then
        return context:fail(codes.FAILED, "--on-lost: %s", message)
    end
    local state, detail
    repeat
        process.poll({ context.signals }, huge) -- CHLD
        while process.next_signal(context.signals) do
        end
        state, detail = process.look(pid)
    until state == "exited" or state == "killed"
    if detail ~= 0 then
        return context:fail(codes.FAILED, "--on-lost: %s with %s", state, detail)
    end
    return 0
end

--- Starts the agent.
---@return integer? # its process id, 0 in the agent
---@return integer|string # the end of the pipe: to write, in the agent to read; message
local function start_agent()
    local read_end, write_end = process.pipe()
    if not read_end then
        return nil, write_end
    end
    local pid, problem = process.fork "TERM"
    process.close(pid == 0 and write_end or read_end)
    return pid, pid == 0 and read_end or problem or write_end
end

--- Waits for the end of the agent, and for no longer than a lock is held, if one is given.
local function await(agent, context, session, lock)
    repeat
        local lease = lock and lock:remaining() or huge
        local beat = context.service and context.service.beat() or huge
        local ready = process.poll({ agent, lock and session.client:pollfd() or -1 }, min(lease, beat))
        if lock then
            session.client:pump()
        end
    until ready[agent] or lease <= 0
end

function lead.run(arguments, context)
    if arguments.command_line then
        return context:fail(codes.FAILED, "no command goes behind --: give --on-elected and --on-lost")
    end
    local pid, pipe = start_agent()
    local agent, problem
    if pid == 0 then
        return serve(pipe, arguments.on_end, context)
    elseif pid then
        agent, problem = process.open(pid)
    end
    if not agent then
        return context:fail(codes.FAILED, "cannot start the process for --on-lost: %s", problem or pipe)
    end
    arguments.command_line = { "/bin/sh", "-c", KEEPER, "zklock lead", arguments.on_elected }
    arguments.on_lost = "stop"
    local code = run.run_job(arguments, context, {
        pass = function(variables)
            local from = pipe
            process.write(from, concat(variables, "\0") .. "\0")
            pipe = nil -- the caller closes it
            return { from = from, to = KEEPER_FD }
        end,
        after = function(session, lock)
            await(agent, context, session, lock)
        end
    })
    if pipe then
        process.close(pipe) -- nobody was elected here
    end
    await(agent, context)
    return code
end

return lead
