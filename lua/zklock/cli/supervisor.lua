--- cli.supervisor: runs a command under a lock, and ends it before another contender can hold.
--
-- The wrapper is this process. The command is a process group of its own. The guardian (csrc/process/guardian.c) is a third
-- process, which ends the group in time if the wrapper cannot.
--
-- States of the wrapper, with what ends each:
--
--   running    the command's first process ends, no other is left in its group   -> gone
--              the first process ends, others are left                           -> stopping: "others"
--              the lease has only the grace left                                 -> stopping: "lost"
--              an administrator deleted the node, or the lease has ended         -> killing:  "lost"
--              another contender asks for the lock, with --on-revoke stop        -> stopping: "revoked"
--              --max-hold is over                                                -> stopping: "max_hold"
--              the guardian has ended                                            -> killing:  "guardian"
--   stopping   TERM was sent to the group. After the grace, or as soon as the lock is lost -> killing
--              no process of the group is left                                   -> gone
--   killing    KILL is sent until no process of the group is left                -> gone
--   gone       the guardian ends; then the anchor is reaped. Only now may the lock be released
--
-- The state only moves down this list. The group has an anchor until the end (csrc/process/spawn.c), so that its number cannot
-- come to belong to other processes while wrapper and guardian send signals to it. The wrapper is a subreaper: what is orphaned
-- becomes its child. So the kernel tells it when the group is gone, also where there is no /proc, or that of other processes.
--
-- **Deadlines.** The lease ends at an instant L, and the session cannot have expired before L (docs/reliability.md). KILL is sent
-- at L at the latest. TERM is sent earlier, by the grace, but by an eighth of the session timeout at most: a session whose
-- heartbeats are answered has at least three tenths left. Each turn of the loop publishes both instants to the guardian. If the
-- wrapper is stopped or gets no processor, it publishes nothing, and the guardian acts by the last two.
--
-- **The terminal.** The group is not the wrapper's, so that only the command is killed, and so that a command that was stopped does
-- not go on before the lock was checked. If standard input and output are the terminal, the group becomes the foreground group, as
-- with a shell. Otherwise it becomes that when it wants to read (SIGTTIN): other members of a pipeline may need the terminal until
-- then. When the command stops, the wrapper takes the terminal back and stops its own group, so that the shell sees a stopped job.

local acquire = require "zklock.cli.acquire"
local codes = require "zklock.cli.codes"
local process = require "zklock.process"

local huge, max, min = math.huge, math.max, math.min
local format = string.format

--- Signals that are passed on to the command.
local FORWARDED = { INT = true, TERM = true, HUP = true, QUIT = true, USR1 = true, USR2 = true, WINCH = true, TSTP = true }

--- Signals by which a terminal stops a process that it does not belong to.
local WANTS_TERMINAL = { TTIN = true, TTOU = true }

--- Seconds between TERM and KILL, unless set.
local GRACE = 5

--- The order of the states.
local RUNNING, STOPPING, KILLING, GONE = 1, 2, 3, 4

--- The largest grace before the end of the lease, as a part of the session timeout.
local LARGEST_GRACE = 1 / 8

--- How many deadlines are published in one session timeout.
local PUBLISHED = 20

--- Seconds between two looks at a group whose first process has ended; the later ones.
local FIRST_LOOK, LAST_LOOK = 0.001, 0.05

local STDIN, STDOUT = 0, 1

local Supervisor = {}
Supervisor.__index = Supervisor

local function signal_name(text)
    if process.signal_number(text) == 0 then
        return nil, format("there is no signal '%s'", text)
    end
    return text
end

--- Adds the options about the end of a command. `who`: what is stopped. Not --on-lost.
function Supervisor.define(parser, who)
    parser:option "-k --kill-after":argname "GRACE":convert(acquire.seconds):default(GRACE):show_default(false):description(
        "Seconds between the first signal and KILL (5); when the lock is lost at most an eighth of the session timeout.")
    parser:option "--signal":argname "SIGNAL":convert(signal_name):default "TERM":show_default(false):description(
        "The first signal (TERM).")
    parser:option "--on-revoke":argname "ACTION":choices { "ignore", "stop" }:default "ignore":show_default(false):description(
        format("What to do when another contender asks for the lock: ignore (the default), or stop the %s.", who))
    parser:option "--max-hold":argname "SEC":convert(acquire.seconds):description(
        format("Stop the %s after so long (90, 90s, 5m).", who))
end

--- Adds --on-lost.
function Supervisor.define_on_lost(parser, who)
    parser:option "--on-lost":argname "ACTION":choices { "stop", "warn" }:default "stop":show_default(false):description(
        format("What to do when the lock is lost: stop the %s (the default), or warn.", who))
end

--- Makes the supervisor of what a subcommand runs under a lock.
---@param session table its `client`; `revoked`: whether another client has asked for the lock; reload(), which is called at HUP, or
--   nil: without a terminal HUP then asks for no end
---@param lock table
---@param arguments table `signal`, with which the command is ended; `kill_after` seconds until KILL; `on_lost`, `on_revoke`,
--   `max_hold`
---@param context table its guardian, signals and service
---@param more table what only this subcommand has, such as `lost_fd`, a descriptor to close when the lock is lost
function Supervisor.new(session, lock, arguments, context, more)
    local self = setmetatable({
        session = session, client = session.client, reload = session.reload, lock = lock,
        context = context, signals = context.signals, guard = context.guard,
        beat = context.service and context.service.beat, -- is called in each turn, and returns in how many seconds it is due again
        term = arguments.signal, grace = arguments.kill_after, max_hold = arguments.max_hold,
        on_lost = arguments.on_lost, on_revoke = arguments.on_revoke,
        state = RUNNING,
        reason = nil,         -- why the command is being stopped: see above
        lost = false,
        kill_at = huge,
        pid = false,
        ended = false,        -- how the first process ended: "exited" or "killed"
        detail = nil,         -- its exit code or its signal
        look_in = FIRST_LOOK,
        terminal = more.terminal or process.terminal() or -1,
        watched = -1,         -- a descriptor by which something is about to be noticed
        in_foreground = false, -- the group was made the foreground group
        asked_to_end = false  -- a signal that asks for the end was passed on
    }, Supervisor)
    for name, value in pairs(more) do
        self[name] = value
    end
    return self
end

--- Starts the guardian of the context, before the client has a thread. Arguments as of process.guard.
function Supervisor.start_guard(context, ...)
    local guard, problem = process.guard(...)
    context.guard = context.check(guard, "could not start the guardian: " .. tostring(problem))
end

-- The command, which zklock.cli.commands.lock replaces by the shell -------------------------------------------------------

--- What has become of the first process: as of process.look.
function Supervisor:look()
    return process.look(self.pid)
end

--- Whether processes of the group are left.
function Supervisor:has_members()
    return process.group_lives(self.pid)
end

--- The lock was lost, and --on-lost is warn.
function Supervisor:warn()
    self.context:warn "the lock was lost; the command goes on"
end

-- Signals to the group --------------------------------------------------------------------------------------------------

--- Sends a signal. A command with other rights (sudo) cannot be reached: the user is told once, and the lock is not released
-- before the command has ended.
function Supervisor:send(signal)
    local sent, problem = process.signal_group(self.pid, signal)
    if not sent and not self.unreachable and self:has_members() then
        self.unreachable = true
        self.context:warn("cannot send %s to the command: %s", signal, problem)
    end
end

--- Asks the command to end, or moves on an end that was asked for. `within`: seconds until KILL.
local function stop(self, reason, within)
    self.kill_at = min(self.kill_at, process.now() + within)
    if self.state ~= RUNNING then
        return
    end
    self.state, self.reason = STOPPING, reason
    self:send(self.term)
    self:send "CONT" -- a stopped command has to run to be able to end
end

local function kill(self, reason)
    if self.state < KILLING then
        self.state, self.reason = KILLING, self.reason or reason
    end
    self:send "KILL"
end

-- The lock --------------------------------------------------------------------------------------------------------------

--- The lock is lost, or is about to be.
local function lose(self)
    self.lost = true
    if self.lost_fd then
        process.close(self.lost_fd)
        self.lost_fd = nil
    end
end

--- Reads the session timeout, which another server may have made shorter. TERM is sent `early` seconds before the lease ends.
local function read_timeout(self)
    local timeout = self.client:session_timeout()
    self.session_timeout = timeout > 0 and timeout or self.session_timeout
    self.early = min(self.grace, self.session_timeout * LARGEST_GRACE)
end

--- Publishes the deadlines, and acts if the lock is lost or the lease is about to end.
---@return number # seconds until the next look
local function check_lock(self)
    read_timeout(self)
    local now = process.now() -- before the lock is asked: so the deadlines can only be too early
    local left = self.lock:remaining()
    if self.on_lost == "warn" then
        if left <= 0 and not self.lost then
            lose(self)
            self:warn()
        end
        return self.lost and huge or min(left, self.session_timeout / PUBLISHED)
    elseif left <= 0 then
        lose(self)
        kill(self, "lost")
        return huge
    end
    if self.guard then
        self.guard:set(now + left - self.early, now + left)
    end
    if self.guard and self.guard:sent() ~= "nothing" then -- it acted while this process could not
        lose(self)
        stop(self, "lost", left)
    elseif left <= self.early then
        lose(self)
        stop(self, "lost", left)
    end
    return min(self.state == RUNNING and left - self.early or left, self.session_timeout / PUBLISHED)
end

-- The command -----------------------------------------------------------------------------------------------------------

--- Whether the terminal's foreground group is this process's.
local function has_terminal(self)
    return self.terminal >= 0 and process.terminal_group(self.terminal) == process.own_group()
end

--- Lets a stopped command go on, if the lock is held. The terminal becomes the command's if it is ours.
local function resume(self)
    self.client:pump()
    check_lock(self)
    if self.state == KILLING then
        return
    end
    if (self.in_foreground or self.wants_terminal) and has_terminal(self) then
        process.give_terminal(self.terminal, self.pid)
        self.in_foreground = true
    end
    self:send "CONT"
end

--- Takes the terminal back if the command has it.
local function take_terminal_back(self)
    if self.terminal >= 0 and process.terminal_group(self.terminal) == self.pid then
        process.give_terminal(self.terminal, process.own_group())
    end
end

--- The command was stopped. In a job, the whole job stops, and goes on with it.
local function stopped(self, signal)
    self.wants_terminal = self.wants_terminal or WANTS_TERMINAL[signal]
    if WANTS_TERMINAL[signal] and has_terminal(self) then
        return resume(self)
    elseif self.terminal < 0 or self.state ~= RUNNING then
        return nil
    end
    take_terminal_back(self)
    process.raise("TSTP", true) -- returns after CONT, or at once if no shell could send that
    local continued = process.next_signal(self.signals)
    while continued and continued ~= "CONT" do
        self:take(continued)
        continued = process.next_signal(self.signals)
    end
    if continued or signal ~= "STOP" then
        resume(self)
    end
    return nil
end

--- Looks at the command's first process, and at its group when that has ended.
---@return number # seconds until the next look
local function check_command(self)
    process.reap_others(self.pid)
    if not self.ended then
        local state, detail = self:look()
        if state == "runs" then
            return huge
        elseif state == "stopped" then
            stopped(self, detail)
            return 0
        end
        self.ended, self.detail = state, detail
    end
    if not self:has_members() then
        self.state = GONE
        return 0
    end
    stop(self, "others", self.grace)
    self.look_in = min(self.look_in * 2, LAST_LOOK)
    return self.look_in
end

-- The loop --------------------------------------------------------------------------------------------------------------

--- Passes a signal on.
function Supervisor:take(signal)
    local reloads = signal == "HUP" and self.reload
    if reloads then
        self.reload()
    end
    if FORWARDED[signal] then
        local ends = codes.ENDING[signal] and not (reloads and self.terminal < 0)
        self.asked_to_end = self.asked_to_end or ends or false
        self:send(signal)
    elseif signal == "CONT" then
        resume(self)
    end
end

--- Does what is due by the clock.
---@return number # seconds until something is due again
local function check_clock(self)
    local now = process.now()
    if self.max_hold and now >= self.started + self.max_hold then
        self.max_hold = nil
        stop(self, "max_hold", self.grace)
    end
    if now >= self.kill_at then
        kill(self)
    end
    local due = min(self.max_hold and self.started + self.max_hold - now or huge, self.kill_at - now)
    return self.state == KILLING and LAST_LOOK or max(0, due)
end

--- One turn: looks at everything, and waits for the next thing to happen.
local function turn(self)
    local wait_for = check_lock(self)
    if self.state == RUNNING and self.session.revoked and self.on_revoke == "stop" then
        stop(self, "revoked", self.grace)
    end
    wait_for = min(wait_for, check_command(self))
    if self.state == GONE then
        return -- no signal from here on: the group's number may belong to others
    end
    wait_for = min(wait_for, check_clock(self), self.beat and self.beat() or huge)
    local guard = self.guard and self.reason ~= "guardian" and self.guard:fd() or -1
    local ready = process.poll({ self.signals, self.client:pollfd(), guard, self.watched }, wait_for)
    if ready[guard] and not ready[self.watched] then
        kill(self, "guardian")
        self.reason = "guardian"
    end
    if ready[self.signals] then
        for signal in process.next_signal, self.signals do
            self:take(signal)
        end
    end
    self.client:pump()
end

--- Waits until the lease is long enough for a command that is not to be stopped at once. After a slow answer that takes until the
-- next heartbeat.
---@return number # now
---@return number # seconds that are left; 0 or less: the lock is lost
local function await_lease(self)
    while true do
        read_timeout(self)
        local now = process.now()
        local left = self.lock:remaining()
        if left <= 0 or left > 2 * self.early then
            return now, left
        end
        process.poll({ self.client:pollfd() }, min(left, self.session_timeout / PUBLISHED))
        self.client:pump()
    end
end

--- Tells the guardian when the command has to end, before it can begin.
---@return true? # nil: the lock was lost before
function Supervisor:prepare()
    local now, left = await_lease(self)
    if left > 0 and self.guard then
        self.guard:set(now + left - self.early, now + left)
    end
    self.started = left > 0 and now or nil
    return left > 0 or nil
end

--- Starts the command.
---@param arguments table list of words
---@param environment table list of "NAME=value", and of "NAME" for a variable that the command does not get
---@param pass? table `{from =, to =}`: a descriptor for the command
---@return true?
---@return string? message
---@return string? # "not_found", "not_executable"; "lost" if the lock was lost before
function Supervisor:start(arguments, environment, pass)
    if not self:prepare() then
        return nil, "the lock was lost before the command began", "lost"
    end
    self.in_foreground = has_terminal(self) and process.is_terminal(STDIN) and process.is_terminal(STDOUT)
    local pid, message, code = process.spawn(arguments, environment, self.guard or nil, {
        terminal = self.in_foreground and self.terminal or nil,
        pass_from = pass and pass.from,
        pass_to = pass and pass.to
    })
    if not pid then
        take_terminal_back(self)
        return nil, format("%s: %s", arguments[1], message), code
    end
    self.pid = pid
    return true
end

--- After an error in this program: ends the command at once, and waits until no process of it is left.
local function abort(self)
    repeat
        process.signal_group(self.pid, "KILL")
        process.poll({}, FIRST_LOOK)
        local state, detail = self:look()
        if state == "exited" or state == "killed" then
            self.ended, self.detail = state, detail
        end
    until self.ended and not self:has_members()
end

--- Ends the guardian: the command has ended.
function Supervisor:dismiss_guard()
    if self.guard then
        self.lost = self.lost or self.guard:sent() ~= "nothing"
        self.guard:finish()
        self.guard = false
    end
end

local function take_turns(self)
    repeat
        turn(self)
    until self.state == GONE
end

--- Waits until no process of the command is left. Then the lock may be released. `ended` and `detail` say how the command ended.
-- Raises an error of this program, after the command was killed.
function Supervisor:run()
    local ok, problem = pcall(take_turns, self)
    if not ok then
        abort(self)
    end
    take_terminal_back(self)
    self:dismiss_guard()
    self.lost = self.lost or self.on_lost == "stop" and self.lock:remaining() <= 0
    process.reap(self.pid)
    if not ok then
        error(problem, 0)
    end
end

return Supervisor
