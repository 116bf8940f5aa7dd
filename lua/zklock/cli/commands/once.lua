--- zklock once: runs a command once in each period, on one machine of all (zklock.once says what is promised).
--
-- It is `zklock run` with a look at the record of the last command, when it has the lock, and a new record at the command's end.

local acquire = require "zklock.cli.acquire"
local codes = require "zklock.cli.codes"
local jobs = require "zklock.once"
local run = require "zklock.cli.commands.run"

local format = string.format

local once = { summary = "Run a command once in each period, on one machine of all." }

--- Reads a period, for argparse.
local function period(text)
    local seconds = acquire.seconds(text)
    return seconds and seconds > 0 and seconds or nil, format("'%s' must be a duration above 0, for example 24h", text)
end

function once.define(parser)
    run.define(parser)
    parser:usage("Usage: zklock once [OPTIONS] (--every TIME | --slot NAME) PATH -- COMMAND [ARG…]\n" ..
        "       zklock once [OPTIONS] (--every TIME | --slot NAME) PATH -c STRING")
    parser:mutex(
        parser:option "--every":argname "TIME":convert(period):description(
            "The length of the periods, by the servers' clock. 24h: the days in UTC; 1h: the hours."),
        parser:option "--slot":argname "NAME":description(
            "The name of the period: the command does not run again for the name for which it has run last."))
    parser:flag "--retry-failed":description "Run the command again in the period in which it has failed."
end

--- Says why there is nothing to do.
local function describe(path, record, output)
    local by = format("%s, %s ago", output.clean(record.by or "?"), output.duration(record.age))
    if record.outcome == "failed" then
        return format("%s has failed in this period, run by %s; --retry-failed runs it again", path, by)
    end
    return format("%s was done in this period by %s", path, by)
end

function once.run(arguments, context)
    local settings = { every = arguments.every, slot = arguments.slot, retry_failed = arguments.retry_failed }
    if not settings.every and not settings.slot then
        return context:fail(codes.FAILED, "give --every TIME or --slot NAME")
    elseif arguments.shared or arguments.permits then
        return context:fail(codes.FAILED, "-s and -p cannot be combined with once: several commands could run")
    end
    local begun
    return run.run_job(arguments, context, {
        begin = function(session, hold, _, status)
            local found
            begun, found = context.check(jobs.begin(session.client, hold, arguments.path, settings))
            if not begun then
                status.last = found
                context:say("%s", describe(arguments.path, found, context.output))
                context.stop("already", nil, acquire.refusal(arguments, codes.REFUSED))
            end
        end,
        finish = function(supervisor, _, status)
            local failed = supervisor.ended ~= "exited" or supervisor.detail ~= 0
            local recorded, message, code = jobs.finish(begun, failed and "failed" or "done")
            if not recorded then
                status.outcome, status.exit = code, context:fail(codes.of(code), "%s", message)
            end
        end
    })
end

return once
