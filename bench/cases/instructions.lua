--- instructions: how many instructions the processor executes for one uncontended cycle, and in which part, under callgrind.
--
-- A run with many cycles minus a run with few: the cost of starting cancels out. User space only, all threads.

local callgrind = require "callgrind"
local report = require "report"
local targets = require "targets"

local function profile(settings, count)
    return callgrind.run(settings, {
        settings.bench .. "/programs/cycle.lua", settings.servers, "/bench-instructions", count, "untimed"
    })
end

return function(settings)
    report.title("Instructions of one cycle (acquire and release, without contention), under callgrind")
    if not callgrind.is_there() then
        return
    end
    local few, many = 100, settings.quick and 300 or 1100
    local own_few, libc_few = profile(settings, few)
    local own_many, libc_many = profile(settings, many)
    local cycles = many - few
    local function per_cycle(before, after)
        return ((after or 0) - (before or 0)) / cycles
    end
    local total = 0
    for _, part in ipairs(callgrind.PARTS) do
        total = total + per_cycle(own_few[part], own_many[part])
    end
    local its = per_cycle(own_few["C client"], own_many["C client"])
    targets.note("instructions", { per_cycle(own_few.zklock, own_many.zklock) / its })
    local libc = {}
    libc.zklock = per_cycle(libc_few.zklock, libc_many.zklock)
    libc["C client"] = per_cycle(libc_few["C client"], libc_many["C client"])
    -- Lua's setjmp returns twice, so callgrind attributes what follows to libc; therefore by subtraction.
    libc.Lua = per_cycle(own_few.libc, own_many.libc) - libc.zklock - libc["C client"]
    local rows = { { "", "its own", "share", "C client's own = 1", "libc, called by it" } }
    for _, part in ipairs(callgrind.PARTS) do
        local own = per_cycle(own_few[part], own_many[part])
        table.insert(rows, {
            part, string.format("%.0f", own), string.format("%.0f %%", own / total * 100),
            string.format("%.2f", own / its),
            libc[part] and string.format("%.0f", libc[part]) or ""
        })
    end
    table.insert(rows, { "all", string.format("%.0f", total), "100 %", string.format("%.2f", total / its), "" })
    report.columns(rows)
end
