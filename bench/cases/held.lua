--- held: what a client costs that holds many locks and does nothing.

local lib = require "lib"
local report = require "report"

local TIMEOUT = 10 -- seconds, zklock's default
local SECONDS, QUICK_SECONDS = 20, 5

return function(settings)
    local seconds = settings.quick and QUICK_SECONDS or SECONDS
    report.title("Held: one client with locks that it holds, sessions of %d s, over %d s", TIMEOUT, seconds)
    local rows = { { "locks", "requests a second", "of its processor, ms a second", "lost" } }
    for _, count in ipairs(settings.quick and { 1, 100, 1000 } or { 1, 100, 1000, 10000, 30000 }) do
        local its = lib.run { "lua5.4", settings.bench .. "/programs/held.lua", settings.servers, count, TIMEOUT, seconds }
        table.insert(rows, {
            tostring(count), string.format("%.0f", its.requests), string.format("%.1f", its.processor),
            string.format("%d", its.lost)
        })
    end
    report.columns(rows)
end
