--- zklock hold: holds a lock until standard input ends or a signal comes. For programs that keep a pipe to it.
--
-- Prints the fencing token in a line when it has the lock. A script that reads the line has the lock; it releases by closing the
-- other end. Exits with 120 if the lock is lost before that, and refuses to acquire if standard input ends before that, too.

local acquire = require "zklock.cli.acquire"
local codes = require "zklock.cli.codes"
local process = require "zklock.process"
local settings = require "zklock.cli.settings"

local STDIN, STDOUT = 0, 1

--- Seconds between two looks at the lease. A shorter lease is noticed when it ends.
local LOOK = 1

local hold = { summary = "Hold a lock until standard input ends, and print its token." }

function hold.define(parser)
    acquire.define(parser)
    settings.define(parser)
end

--- How many reads empty the largest pipe of a user, and find its end: what a script that has died may leave there.
local READS = 1024 * 1024 / 4096 + 1

--- Says that nobody keeps standard input open: then the lock would be released as soon as it is acquired.
local AT_END = "standard input is a file or at its end, as of each command that a script starts with &, so the lock would be " ..
    "released at once: keep it open (coproc), or use zklock lock or zklock run"

--- Standard input, which waits poll, too (zklock.cli.context).
local input = {}

--- Standard input; -1 while it is a terminal that another job has: a read would stop this process.
function input.descriptor()
    local group = process.terminal_group(STDIN)
    return (group == -1 or group == process.own_group()) and STDIN or -1
end

--- Whether standard input is at its end. Reads what is there.
local function is_at_end()
    for _ = 1, READS do
        if not process.poll({ input.descriptor() }, 0)[STDIN] then
            return false
        elseif (process.read(STDIN) or "") == "" then
            return true
        end
    end
    return false
end

--- Raises an error at the end of standard input, before the lock is held.
function input.take()
    if is_at_end() then
        error(AT_END, 0)
    end
end

--- Waits for the end of standard input or for the loss of the lock. A signal raises an interruption.
---@return string # "end" or "lost"
local function wait(lock, session)
    local client = session.client
    while true do
        local left = lock:remaining()
        if left <= 0 then
            return "lost"
        end
        local ready = process.poll({ input.descriptor(), session.signals, client:pollfd() }, math.min(left, LOOK))
        if ready[session.signals] then
            session:take_signals()
        end
        if ready[STDIN] and is_at_end() then
            return "end"
        end
        client:pump()
    end
end

function hold.run(arguments, context)
    acquire.check(arguments, context)
    if io.stdin:seek() or is_at_end() then -- only files and devices such as /dev/null have a position
        context.stop("failed", AT_END)
    end
    context.input = input
    local session, lock, members = acquire.open(arguments, context)
    input.take()
    local written, problem = process.write(STDOUT, (members[1]:token() or "") .. "\n")
    local reason = written and wait(lock, session) or "output"
    if reason == "lost" then
        return context:fail(codes.LOST, "%s", acquire.describe_loss(members))
    elseif reason == "output" then
        return context:fail(codes.FAILED, "could not write the token: %s", problem)
    end
    return 0
end

return hold
