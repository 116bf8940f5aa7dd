--- memory: what a client and an acquisition cost, in a fresh process each.

local lib = require "lib"
local report = require "report"
local targets = require "targets"

return function(settings)
    local clients, acquisitions = settings.quick and 20 or 100, settings.quick and 200 or 1000
    report.title("Memory: bytes each, of %d clients, of %d locks or acquisitions of one client", clients, acquisitions)
    local rows = { { "", "zklock's C", "Lua", "resident, C client included", "threads", "fds" } }
    local function add(text, mode, count)
        local its = lib.run { "lua5.4", settings.bench .. "/programs/memory.lua", settings.servers, mode, count }
        table.insert(rows, {
            text, string.format("%.0f", its.c), string.format("%.0f", its.lua), string.format("%.0f", its.resident),
            string.format("%g", its.threads), string.format("%g", its.fds)
        })
        return its
    end
    add("a client, connected", "clients", clients)
    add("a lock object, before its first acquisition", "locks", acquisitions)
    targets.note("memory", { add("a waiting acquisition, all of one lock", "one-lock", acquisitions).c })
    add("a waiting acquisition, each on its own path", "many-paths", acquisitions)
    add("a granted acquisition, each on its own path", "granted", acquisitions)
    report.columns(rows)
end
