--- zklock run: runs a command while a lock is held. zklock.cli.supervisor says how the command is ended in time.

local acquire = require "zklock.cli.acquire"
local codes = require "zklock.cli.codes"
local process = require "zklock.process"
local service = require "zklock.cli.service"
local settings = require "zklock.cli.settings"
local Supervisor = require "zklock.cli.supervisor"

local format = string.format
local huge, min = math.huge, math.min

--- The largest descriptor that may be given.
local LARGEST_FD = 99

local run = { summary = "Run a command while a lock is held." }

local descriptor = settings.number("a descriptor", 0, LARGEST_FD, true)

function run.define(parser)
    parser:usage "Usage: zklock run [OPTIONS] PATH -- COMMAND [ARG…]\n       zklock run [OPTIONS] PATH -c STRING"
    acquire.define(parser)
    parser:option "-c --command":argname "STRING":target "shell":description "Run this by /bin/sh."
    Supervisor.define(parser, "command")
    Supervisor.define_on_lost(parser, "command")
    parser:option "--at-least":argname "SEC":convert(acquire.seconds):description(
        "Keep the lock for so long after it was acquired (60, 60s, 5m), also if the command ends earlier.")
    parser:flag "--detach":description "With --at-least: exit when the command has ended, and keep the lock in the background."
    parser:flag "--pass-notify":description(
        "Under systemd: the command says itself when it is ready, and serves the watchdog (NotifyAccess=all).")
    parser:option "--status-fd":argname "N":convert(descriptor):description("Write the outcome to this descriptor, as JSON.")
    parser:option "--lost-fd":argname "N":convert(descriptor):description(
        "Give the command a pipe as this descriptor that ends when the lock is lost.")
    parser:option "--metrics-file":argname "<name.prom>":description(
        "Write metrics to this file, for the textfile collector of Prometheus's node exporter.")
    settings.define(parser)
end

--- Returns the command as words.
---@return table? # list of words
---@return string? wrong
local function command_of(arguments)
    local words = arguments.command_line
    if arguments.shell then
        if words then
            return nil, "give -c, or a command behind --, not both"
        end
        return { "/bin/sh", "-c", arguments.shell }
    elseif not words or not words[1] then
        return nil, "there is no command: zklock run PATH -- COMMAND [ARG…]"
    end
    return words
end

--- Checks what argparse cannot. Returns the command.
local function check(arguments, context)
    local words, status_fd = context.check(command_of(arguments)), arguments.status_fd
    acquire.check(arguments, context)
    if arguments.lost_fd and arguments.lost_fd < 3 then
        context.stop("failed", "--lost-fd must be 3 or more")
    elseif arguments.detach and not arguments.at_least then
        context.stop("failed", "--detach needs --at-least")
    elseif status_fd and status_fd > 2 and not process.keep(status_fd) then
        context.stop("failed", format("--status-fd %d: this descriptor is not open", status_fd))
    end
    return words
end

--- Writes the outcome to --status-fd, once.
local function report(arguments, context, status)
    local fd = arguments.status_fd
    arguments.status_fd = nil
    if fd then
        local written, problem = process.write(fd, context.output.json(status) .. "\n")
        if not written then
            context:warn("could not write the status: %s", problem)
        end
        if fd > 2 then
            process.close(fd) -- who reads it need not wait for what zklock does in the background
        end
    end
    return status.exit
end

--- Writes --metrics-file, when the lock is acquired and at the end: to another file, which is renamed.
local function write_metrics(arguments, context, status)
    local name = arguments.metrics_file
    if not name then
        return
    end
    local families, page = require "zklock.metrics.families", require "zklock.metrics.page"
    local shown = page.new()
    local function add(metric, value, outcome)
        families.add_with(shown, metric, { path = context.output.clean(status.path), outcome = outcome }, value)
    end
    add("zklock_run_running", status.exit and 0 or 1)
    add("zklock_run_waited_seconds", status.waited)
    if status.exit then
        add("zklock_run_held_seconds", status.held)
        add("zklock_run_exit_code", status.exit)
        add("zklock_run_end_timestamp_seconds", os.time(), status.outcome)
    end
    local temporary = name .. "." .. require("zklock.core").default_identity():match "%d+$"
    local file, problem = io.open(temporary, "wb")
    local ok
    if file then
        ok, problem = file:write(page.render(shown))
        if ok then
            ok, problem = file:close()
        end
        if ok then
            ok, problem = os.rename(temporary, name)
        end
    end
    if not ok then
        os.remove(temporary)
        context:warn("could not write the metrics: %s", problem)
    end
end

--- The exit code and the outcome of a command that has ended.
local function conclude(supervisor, context, status, members)
    local ended, detail = supervisor.ended, supervisor.detail
    status.outcome = ended
    status.code = ended == "exited" and detail or nil
    status.signal = ended == "killed" and detail or nil
    status.exit = ended == "exited" and detail or codes.of_signal(detail)
    if supervisor.lost then
        status.outcome, status.exit = "lost", codes.LOST
        context:warn("%s%s", acquire.describe_loss(members), supervisor.on_lost == "stop" and "; the command was stopped" or "")
    elseif supervisor.reason == "guardian" then
        status.outcome, status.exit = "failed", codes.FAILED
        context:warn "the guardian process has ended; the command was stopped"
    elseif supervisor.reason == "revoked" or supervisor.reason == "max_hold" then
        status.outcome = supervisor.reason
    end
    return status
end

--- Runs the command under the lock. The status gets what is known.
local function supervise(session, lock, members, arguments, context, status, words, job)
    local read_end, write_end
    if arguments.lost_fd then
        read_end, write_end = process.pipe()
        context.check(read_end, "no pipe for --lost-fd: " .. tostring(write_end))
    end
    local supervisor = Supervisor.new(session, lock, arguments, context, { lost_fd = write_end })
    local environment = acquire.environment(session, members, status.identity)
    for _, name in ipairs(context.service and service.VARIABLES or {}) do
        environment[#environment + 1] = name
    end
    local pass = read_end and { from = read_end, to = arguments.lost_fd } or job.pass and job.pass(environment) or nil
    local started, message, code = supervisor:start(words, environment, pass)
    if pass then
        process.close(pass.from)
    end
    context.check(started, message, code)
    if context.service then
        context.service.say("holds " .. acquire.paths(arguments), "READY=1")
    end
    supervisor:run()
    if context.service then
        context.service.say("the command has ended", "STOPPING=1")
    end
    conclude(supervisor, context, status, members)
    return supervisor
end

--- Whether a command has ended for reasons of its own: the lock is not lost, and the end was not asked for from outside.
local function has_ended_by_itself(supervisor)
    return supervisor.ended and not supervisor.lost and supervisor.reason ~= "revoked"
        and not supervisor.asked_to_end and supervisor.detail ~= "INT" and supervisor.detail ~= "HUP"
end

--- Keeps the lock until --at-least is over, after the command's end. Whatever happens meanwhile does not change the outcome. A
-- signal that asks zklock to end, and a request for the lock with --on-revoke stop, ends this earlier.
local function rest(session, lock, members, arguments, context, status, granted)
    local left = granted + arguments.at_least - process.now()
    if arguments.detach and left > 0 then
        status.held, status.revoked = process.now() - granted, session.revoked
        report(arguments, context, status)
        require("zklock.cli.background").leave(status.exit)
    end
    while left > 0 and not (session.revoked and arguments.on_revoke == "stop") do
        local lease = lock:remaining()
        if lease <= 0 then
            return context:say("%s after the command had ended, and before --at-least was over", acquire.describe_loss(members))
        end
        local due = context.service and context.service.beat() or huge
        local ready = process.poll({ session.signals, session.client:pollfd() }, min(left, lease, due))
        if ready[session.signals] and not pcall(session.take_signals, session) then
            return nil
        end
        session.client:pump()
        left = granted + arguments.at_least - process.now()
    end
    return nil
end

--- Waits for the lock and runs the command. Fills in the status. `job`: as of run.run_job. Returns the supervisor.
local function hold_and_run(arguments, context, status, words, job, began)
    local session, lock, members = acquire.open(arguments, context)
    status.waited = process.now() - began
    if job.begin then
        job.begin(session, lock, context, status)
    end
    status.token, status.identity = members[1]:token(), session.client:desk().identity
    local granted = process.now()
    write_metrics(arguments, context, status)
    local supervisor = supervise(session, lock, members, arguments, context, status, words, job)
    local is_over = has_ended_by_itself(supervisor)
    if job.after then
        job.after(session, lock)
    end
    if is_over and job.finish then
        job.finish(supervisor, context, status)
    end
    if is_over and arguments.at_least then
        rest(session, lock, members, arguments, context, status, granted)
    end
    status.held = process.now() - granted
    return supervisor
end

--- A shell that runs this command goes on after an exit code, but not if its child was ended by Ctrl-C. So the wrapper ends as the
-- command did. If the command had the terminal, the wrapper's group has not got the signal, and gets it now.
local function pass_on_interrupt(supervisor)
    if supervisor and supervisor.detail == "INT" and supervisor.reason == nil and not supervisor.lost then
        process.raise("INT", supervisor.in_foreground)
    end
end

--- Runs the subcommand.
---@param arguments table
---@param context table
---@param job table for `zklock once` and `zklock lead`, with some of these functions. `begin(session, hold, context, status)` is
--   called when the lock is held, and may end the subcommand. `pass(variables)` returns `{from =, to =}`, a descriptor for the
--   command. `after(session, hold)` is called when the command has ended, before the lock is released. `finish(supervisor, context,
--   status)` is called when it has ended by itself; it may change the status
function run.run_job(arguments, context, job)
    local words = check(arguments, context)
    local code = arguments.detach and require("zklock.cli.background").fork(context)
    if code then
        return code
    end
    if arguments.on_lost == "stop" then
        Supervisor.start_guard(context, arguments.signal)
    end
    context.service = not arguments.pass_notify and service.find(context.output.clean) or nil
    local status, began = { path = arguments.path, held = 0 }, process.now()
    local ok, result = pcall(hold_and_run, arguments, context, status, words, job, began)
    status.waited = status.waited or process.now() - began
    if not ok then
        status.exit, status.outcome = context:conclude(result)
        status.signal = status.outcome == "interrupted" and result.signal or nil
    end
    status.revoked = context.session and context.session.revoked
    if not context:close() then
        context:warn("the servers have not acknowledged the release of %s, which ends with the session timeout",
            acquire.paths(arguments))
    end
    write_metrics(arguments, context, status)
    report(arguments, context, status)
    pass_on_interrupt(ok and result)
    return status.exit
end

function run.run(arguments, context)
    return run.run_job(arguments, context, {})
end

return run
