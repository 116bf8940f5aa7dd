--- zklock dev: runs a command, or a shell, with a ZooKeeper server of its own, which ends with it.

local codes = require "zklock.cli.codes"
local settings = require "zklock.cli.settings"
local Server = require "zklock.cli.server"
local Supervisor = require "zklock.cli.supervisor"

local huge = math.huge

--- Seconds between TERM and KILL for what the command leaves behind.
local GRACE = 5

local dev = { summary = "Run a command or a shell with a throwaway ZooKeeper." }

function dev.define(parser)
    parser:usage "Usage: zklock dev [-h] [--port N] [-- COMMAND [ARG…]]"
    parser:option "--port":argname "N":convert(settings.number("a port", 1, 65535, true)):description
        "The server's port (a free one)."
end

--- What the supervisor watches: a lock that is never lost.
local no_lock = {}

function no_lock.remaining()
    return huge
end

local no_client = {}

function no_client.session_timeout()
    return huge
end

function no_client.pollfd()
    return -1
end

function no_client.pump()
end

--- Runs the command. Returns the exit code.
local function supervise(server, words, context)
    local arguments = { signal = "TERM", kill_after = GRACE, on_lost = "warn" }
    local supervisor = Supervisor.new({ client = no_client }, no_lock, arguments, context, {})
    local environment = settings.without_tls()
    table.insert(environment, "ZKLOCK_SERVERS=" .. server.address)
    table.insert(environment, "ZOOKEEPER=" .. server.address)
    context.check(supervisor:start(words, environment))
    supervisor:run()
    if supervisor.ended == "killed" then
        return codes.of_signal(supervisor.detail)
    end
    return supervisor.detail
end

function dev.run(arguments, context)
    local words = arguments.command_line
    if not words or not words[1] then
        words = { os.getenv "SHELL" or "/bin/sh" }
    end
    -- The server has a guardian of its own, because the command ends first. Both are made while this process has one thread.
    Supervisor.start_guard(context, "TERM")
    local server = Server.start(context, arguments.port)
    if not arguments.command_line then
        context:say("ZooKeeper serves until this shell ends. In other terminals:\nexport ZKLOCK_SERVERS=%s", server.address)
    end
    local ok, code = pcall(supervise, server, words, context)
    server:stop()
    return ok and code or error(code, 0)
end

return dev
