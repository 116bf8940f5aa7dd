--- waiters: what an acquisition of one client costs that waits among many others, and how that grows with their number; and how
-- long the client's event loop stands still meanwhile.
--
-- An acquisition from the call until it is released. Instructions: a run with many waiters minus the one with fewer before it, for
-- each waiter more; all threads, callgrind's counts.

local callgrind = require "callgrind"
local lib = require "lib"
local plots = require "plots"
local report = require "report"

local COUNTS, QUICK_COUNTS = { 100, 1000, 10000, 30000 }, { 100, 1000 }
local MOST, QUICK_MOST = 100000, 1000
local WAYS = { "coroutines", "callbacks" }
local MODES = { { "one", "all at one lock" }, { "each", "each at a lock of its own" } }

local function words(settings, mode, count, way)
    return { settings.bench .. "/programs/waiters.lua", settings.servers, mode, count, way }
end

local function measure(settings, mode, count)
    local own, _, its = callgrind.run(settings, words(settings, mode, count, "coroutines"))
    local all = 0
    for _, instructions in pairs(own) do
        all = all + instructions
    end
    return { count = count, requests = its.requests, core = own.zklock, all = all }
end

--- Measures by how much a timer of the client's loop is late. Lua's collector is incremental: by generations, which is the
-- interpreter's default, it stands still for longer.
local function report_lateness(settings)
    local most = settings.quick and QUICK_MOST or MOST
    report.title("Lateness: a timer in the event loop of a client with %d waiters is late by at most, ms", most)
    local rows = { { "", "waiters", "while they join", "while they are granted" } }
    for _, mode in ipairs(MODES) do
        for _, way in ipairs(WAYS) do
            local program = words(settings, mode[1], most, way)
            local its = lib.run({ "lua5.4", "-e", "collectgarbage 'incremental'", table.unpack(program) })
            table.insert(rows, { mode[2], way, string.format("%d", its.joining_ms), string.format("%d", its.granted_ms) })
        end
    end
    report.columns(rows)
end

return function(settings)
    report_lateness(settings)
    report.title("Waiters of one client: what one of them costs")
    if not callgrind.is_there() then
        return
    end
    local rows = { { "", "waiters", "requests", "instructions of zklock's C", "all instructions" } }
    local series = {}
    for index, mode in ipairs(MODES) do
        series[index] = { name = mode[2], points = {} }
        local before
        for _, count in ipairs(settings.quick and QUICK_COUNTS or COUNTS) do
            local its = measure(settings, mode[1], count)
            if before then
                local more = count - before.count
                local all = (its.all - before.all) / more
                table.insert(rows, {
                    mode[2], tostring(count), string.format("%.1f", (its.requests - before.requests) / more),
                    string.format("%.0f", (its.core - before.core) / more), string.format("%.0f", all)
                })
                table.insert(series[index].points, { count, all, all, all })
            end
            before = its
        end
    end
    report.columns(rows)
    plots.lines(settings, {
        name = "waiters", title = "Instructions of a waiting acquisition, among many of one client", x = "waiters",
        y = "instructions", log = "x", series = series
    })
end
