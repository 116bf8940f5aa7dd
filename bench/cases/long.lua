--- long: what a long queue costs: many waiters of a few clients at one lock, and how the cost grows with their number.
--
-- The sessions of the waiters go through tools/faultproxy.lua, which counts requests, notifications and bytes of all contestants
-- in the same way. First all waiters queue behind a holder. Then it releases the lock, and each waiter releases it as soon as it
-- is granted. The counts are divided by the number of waiters.

local contestants = require "contestants"
local counter = require "counter"
local gate = require "gate"
local lib = require "lib"
local plots = require "plots"
local report = require "report"
local socket = require "socket"
local start = require "start"

local CLIENTS = 50
local LENGTHS, QUICK_LENGTHS = { 100, 500, 1000, 2000 }, { 50, 100 }
local QUIET = 0.5 -- seconds in which nothing passes when all are in the queue

--- The contestants, and zklock without hand-over inside a client.
local function queuers(settings)
    local all = contestants.list(settings, "line")
    table.insert(all, 2, setmetatable({ name = "zklock, strict order", handoff = 0 }, { __index = all[1] }))
    return all
end

--- The counts between two times, for each of `length` waiters.
local function each(before, after, length)
    local its = {}
    for key, value in pairs(after) do
        its[key] = (value - before[key]) / length
    end
    return its
end

--- A queue of `length` waiters: the cost of joining it (`join`), and from the first release to the last (`drain`).
local function run(settings, counts, proxy, contestant, length)
    local dir, path = settings.scratch .. "/line", string.format("/bench-long-%s-%d", contestant.name:gsub("%W", ""), length)
    start.prepare(dir)
    gate.make(dir)
    local words = contestants.words(contestant, "line", settings.servers, proxy, path, CLIENTS, length // CLIENTS, dir,
        contestant.handoff)
    local came
    local began, joined = counts:counts(), nil
    local result = lib.run_together({ words }, function()
        start.await_ready(dir, { 1 })
        counts:settle(QUIET, socket.sleep)
        joined = counts:counts()
        start.give(dir, 0)
        came = socket.gettime()
    end)[1]
    counts:settle(QUIET / 5, socket.sleep)
    contestants.check(contestant, result)
    assert(result.turns == length, contestant.name .. " did not let everybody in")
    local drained = each(joined, counts:counts(), length)
    drained.seconds = socket.gettime() - came
    return { join = each(began, joined, length), drain = drained, all = each(began, counts:counts(), length) }
end

local function shape_bytes(value)
    return value >= 10000 and string.format("%.0f kB", value / 1000) or string.format("%.2f kB", value / 1000)
end

local function shape_tenths(value)
    return string.format("%.1f", value)
end

local COLUMNS = {
    { "requests", "all", "requests", shape_tenths }, { "when joining", "join", "requests", shape_tenths },
    { "bytes received", "all", "bytes_down", shape_bytes }, { "when joining", "join", "bytes_down", shape_bytes },
    { "bytes sent", "all", "bytes_up", shape_bytes }, { "notifications a release", "drain", "notifications", shape_tenths }
}

local function draw(settings, name, title, y, seen, lengths, key, log)
    local series = {}
    for _, its in ipairs(seen) do
        local points = {}
        for index, length in ipairs(lengths) do
            local value = its.by_length[index].all[key]
            points[index] = { length, value, value, value }
        end
        table.insert(series, { name = its.name, points = points })
    end
    plots.lines(settings, { name = name, title = title, x = "waiters", y = y, log = log, series = series })
end

return function(settings)
    local lengths = settings.quick and QUICK_LENGTHS or LENGTHS
    report.title("Long queues: for each acquisition, waiters of %d clients at one lock", CLIENTS)
    local seen = {}
    for _, contestant in ipairs(queuers(settings)) do
        if not contestant.missing then
            table.insert(seen, { name = contestant.name, contestant = contestant, by_length = {} })
        end
    end
    local proxy, control = counter.start(settings.proxy, settings.servers, settings.owner)
    local counts = counter.connect(control)
    for index, length in ipairs(lengths) do
        for _, its in ipairs(seen) do
            its.by_length[index] = run(settings, counts, proxy, its.contestant, length)
        end
    end
    counts:quit()
    local header, rows = { "" }, {}
    header[2] = "waiters"
    for _, column in ipairs(COLUMNS) do
        table.insert(header, column[1])
    end
    rows[1] = header
    for _, its in ipairs(seen) do
        for index, length in ipairs(lengths) do
            local row = { its.name, tostring(length) }
            for _, column in ipairs(COLUMNS) do
                table.insert(row, column[4](its.by_length[index][column[2]][column[3]]))
            end
            table.insert(rows, row)
        end
    end
    report.columns(rows)
    report.say("One run of each. Strict order: `handoff = 0`. No two held the lock at once: every turn was checked.")
    draw(settings, "long-bytes", "What a client receives for one acquisition, in a long queue", "bytes (logarithmic)", seen,
        lengths, "bytes_down", "y")
    draw(settings, "long-requests", "Requests of one acquisition, in a long queue", "requests", seen, lengths, "requests")
end
