--- zklock history: shows who held a lock when, as a log tells it (zklock.ui.log). Asks no server.

local codes = require "zklock.cli.codes"
local locks = require "zklock.cli.locks"
local Log = require "zklock.ui.log"
local looking = require "zklock.cli.looking"
local settings = require "zklock.cli.settings"

--- Seconds that are shown, unless given.
local DAY = 86400

--- What has become of a contender, for people.
local FATES = {
    released = "released", lost = "lost", left = "gave up waiting", brief = "held briefly, or gave up", served = "got its permits",
    ended = "released or lost", unseen = "ended unseen"
}

local history = { summary = "Show who held a lock when, from a log." }

function history.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock."
    looking.define_log(parser, "The file that zklock ui --log or zklock watch --log keeps ($ZKLOCK_LOG).")
    parser:option "--since":argname "AGE":convert(settings.seconds):default(DAY):show_default(false):description(
        "Show what ended no longer ago than this, or holds (24h).")
    parser:flag "--json":description "Print JSON, a line for each."
end

--- Reads what the log tells of a lock. Returns a list of records in the order of their ends, those that hold last, with gaps of the
-- recording; and the number of torn lines. Or nil and a message.
local function read(name, path, since)
    local list, open, stopped = {}, {}, nil
    local torn, message = Log.read(name, path, function(record)
        if record.event == "holds" then
            open[record.node] = record
        elseif record.event == "left" then
            open[record.node] = nil
            list[#list + 1] = record.ended >= since and record or nil
        elseif record.event == "stops" then
            stopped = record.time
        else
            list[#list + 1] = record.time >= since and { event = "gap", from = stopped, ended = record.time } or nil
            stopped = nil
        end
    end)
    if not torn then
        return nil, message
    end
    local held = {}
    for _, record in pairs(open) do
        held[#held + 1] = record
    end
    table.sort(held, function(a, b)
        return a.held < b.held or a.held == b.held and a.node < b.node
    end)
    for _, record in ipairs(held) do
        list[#list + 1] = record
    end
    if stopped then
        list[#list + 1] = { event = "gap", from = stopped }
    end
    return list, torn
end

local function moment(seconds)
    return seconds and os.date("%Y-%m-%d %H:%M:%S", math.floor(seconds)) or "-"
end

--- Returns a record as a row of texts.
local function row(record, duration)
    if record.event == "gap" then
        return { moment(record.from), moment(record.ended), "-", "-", "-", "(not recorded)" }
    end
    local held, ended = record.held, record.ended
    return {
        moment(held), moment(ended), held and ended and duration(ended - held) or "-", duration((held or ended) - record.from),
        FATES[record.fate] or "holds", locks.identity { identity = record.identity, library = "unknown" }
    }
end

function history.run(arguments, context)
    if not arguments.log then
        return context:fail(codes.FAILED, "name a log by --log or ZKLOCK_LOG; zklock ui --log and zklock watch --log keep one")
    end
    local list, torn = read(arguments.log, arguments.path, os.time() - arguments.since)
    context.check(list, "cannot read the log: " .. torn)
    local output = context.output
    local rows = { { "HELD SINCE", "UNTIL", "FOR", "WAITED", "END", "IDENTITY" } }
    for _, record in ipairs(list) do
        if arguments.json then
            output:line(output.json(record))
        else
            rows[#rows + 1] = row(record, output.duration)
        end
    end
    if rows[2] then
        output:rows(rows)
    elseif not list[1] then
        context:say("nothing is recorded of %s in this time", arguments.path)
    end
    if torn > 0 then
        context:warn("%d lines of %s are torn, and were skipped", torn, arguments.log)
    end
    return 0
end

return history
