--- zklock lock: acquires a lock for the shell that calls it, and prints variables for its `eval`. `zklock unlock` releases it.
--
-- The process that the shell waits for forks (zklock.cli.background). The child acquires, and holds the lock until the shell ends,
-- or until it gets TERM from `zklock unlock`. For it the shell is what a command is for `zklock run` (zklock.cli.supervisor): if
-- the lock is lost, the shell gets TERM, and KILL when the lease ends. All of that is about its process group if the shell leads
-- it, as each script does that a terminal, cron, ssh or systemd has started. Otherwise the group belongs to another program.

local acquire = require "zklock.cli.acquire"
local background = require "zklock.cli.background"
local codes = require "zklock.cli.codes"
local process = require "zklock.process"
local settings = require "zklock.cli.settings"
local shell = require "zklock.cli.shell"
local Supervisor = require "zklock.cli.supervisor"

local STDOUT = 1

local lock = { summary = "Acquire a lock for this shell: eval \"$(zklock lock PATH)\"." }

function lock.define(parser)
    parser:usage 'Usage: eval "$(zklock lock [OPTIONS] PATH)" || exit'
    acquire.define(parser)
    Supervisor.define(parser, "shell")
    Supervisor.define_on_lost(parser, "shell")
    settings.define(parser)
end

--- The supervisor of a shell.
local Keeper = setmetatable({}, { __index = Supervisor })
Keeper.__index = Keeper

--- Signals by which another process, above all `zklock unlock`, ends the hold.
local ENDING = { INT = true, TERM = true, QUIT = true }

function Keeper:take(signal)
    self.released = self.released or ENDING[signal]
    if signal == "HUP" then
        self.reload()
    end
end

--- Whether nothing is left to do for the shell, though it goes on.
local function is_over(self)
    return self.released or self.lost and self.on_lost == "warn"
end

function Keeper:look()
    local has_ended = process.poll({ self.watched }, 0)[self.watched]
    if has_ended then
        self.watched = -1
        self:dismiss_guard() -- it has ended with the shell
    end
    if has_ended or is_over(self) then
        return "exited", 0
    end
    return "runs"
end

function Keeper:has_members()
    return not is_over(self) and self.pid > 0 and process.group_runs(self.pid)
end

--- The end, which follows at once, says it.
function Keeper.warn()
end

--- Acquires, tells the shell, and holds. Returns the exit code, which the shell sees if the lock was not acquired.
local function hold(arguments, context, caller)
    local session, got, members = acquire.open(arguments, context)
    local keeper = setmetatable(Supervisor.new(session, got, arguments, context, {
        terminal = -1,
        pid = caller.group == caller.id and caller.id or -caller.id, -- negative: only that process
        watched = caller.fd
    }), Keeper)
    if keeper:prepare() then
        local variables = acquire.environment(session, members, session.client:desk().identity)
        variables[#variables + 1] = "ZKLOCK_HOLDER=" .. shell.name_self()
        if context.guard then
            context.guard:adopt(keeper.pid)
        end
        session:take_signals() -- one that came until now ends this, and the shell is told so
        background.leave(0, shell.assign(caller, variables), true)
        keeper:run()
    else
        keeper.lost = true
    end
    if keeper.lost then
        return context:fail(codes.LOST, "%s%s", acquire.describe_loss(members),
            keeper.on_lost == "stop" and keeper.started and "; the shell was stopped" or "")
    end
    return 0
end

--- In the child: waits for the lock end with the shell, too.
local function serve(arguments, context, caller)
    context.input = {
        descriptor = function()
            return caller.fd
        end,
        take = function()
            error("the shell has ended", 0)
        end
    }
    if arguments.on_lost == "stop" then
        Supervisor.start_guard(context, arguments.signal, caller.id)
    end
    return hold(arguments, context, caller)
end

--- Checks what argparse cannot. Returns the shell.
local function check(arguments, context)
    acquire.check(arguments, context)
    if process.is_terminal(STDOUT) then
        context.stop("failed", 'the shell must run what this prints: eval "$(zklock lock PATH)"')
    end
    local caller = context.check(shell.find())
    if caller.id == 1 and arguments.on_lost == "stop" then
        context.stop("failed", "the shell is process 1, which no signal of a loss ends: use zklock run, or --on-lost warn")
    end
    return caller
end

function lock.run(arguments, context)
    local caller = check(arguments, context)
    local code, text, child = background.fork(context)
    if not code then
        return serve(arguments, context, caller)
    end
    if text and not (context.output:line(text) and context.output:flush()) then
        process.signal(child, "TERM") -- the shell does not know of the lock
    end
    return code
end

return lock
