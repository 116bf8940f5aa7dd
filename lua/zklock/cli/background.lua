--- cli.background: lets the shell go on while zklock does, too: for `zklock run --detach` and `zklock lock`.
--
-- The process that the shell has started, the *front*, forks before anything else. Its child does all the work. The front passes on
-- the signals that it gets, and ends with the exit code that the child reports by a pipe, or as the child does. If the front is
-- killed before that, the child gets TERM.

local codes = require "zklock.cli.codes"
local process = require "zklock.process"

local tonumber = tonumber
local huge = math.huge

local background = {}

--- Signals that are not passed on: the first stops a whole job, and each of its processes gets it.
local OWN = { TSTP = true, CHLD = true }

--- The child's end of the pipe, in the child.
local report = nil

--- Acts on a signal to the front.
local function take(child, signal)
    if signal == "TSTP" then
        process.raise("TSTP", false)
    elseif not OWN[signal] then
        process.signal(child, signal)
    end
end

--- Waits until the child reports an exit code, or ends. Returns the code, and a text from the child; or ends by the same signal.
local function serve(child, reports, signals)
    local reported = ""
    while true do
        for signal in process.next_signal, signals do
            take(child, signal)
        end
        local state, detail = process.look(child)
        if state == "exited" and not (reports >= 0 and process.poll({ reports }, 0)[reports]) then
            return detail
        elseif state == "killed" then
            if detail == "INT" then
                process.raise("INT", false) -- as of a command that Ctrl-C has ended
            end
            return codes.of_signal(detail)
        end
        if process.poll({ reports, signals }, huge)[reports] then
            local read = process.read(reports) or ""
            reported = reported .. read
            if read == "" then
                local code, text = reported:match "^(%d+)\n(.*)$"
                if code then
                    return tonumber(code), text
                end
                reports = -1 -- the child is about to end
            end
        end
    end
end

--- Forks. Returns nothing in the child, which goes on.
---@param context table
---@return integer? # the exit code, in the front
---@return string? # what the child has given to leave
---@return integer? # the child, which goes on
function background.fork(context)
    local reports, own = process.pipe()
    local child, problem
    if reports then
        child, problem = process.fork "TERM"
    else
        problem = own
    end
    if not child then
        return context:fail(codes.FAILED, "cannot start a process in the background: %s", problem)
    elseif child ~= 0 then
        process.close(own)
        local code, text = serve(child, reports, context.signals)
        return code, text, child
    end
    process.close(reports)
    report, context.in_background = own, true
    return nil
end

--- In the child: reports the exit code, and a text for the front. From now on the shell has its answer, and nothing that is written
-- is seen; with `keep_errors` messages are.
function background.leave(code, text, keep_errors)
    process.leave(keep_errors)
    process.write(report, ("%d\n%s"):format(code, text or ""))
    process.close(report)
end

return background
