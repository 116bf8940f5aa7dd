--- instructions: how many instructions the processor executes for one uncontended cycle, and in which part, under callgrind.
--
-- A run with many cycles minus a run with few: the cost of starting cancels out. User space only, all threads.

local lib = require "lib"
local report = require "report"
local targets = require "targets"

--- The part of the process that an object file belongs to.
local function part_of(object)
    if object:find("zklock/core.so", 1, true) then
        return "zklock"
    elseif object:find("libzookeeper", 1, true) then
        return "C client"
    elseif object:find("lua", 1, true) then
        return "Lua"
    end
    return "libc" -- and ld.so, libpthread, libm
end

local PARTS = { "zklock", "C client", "Lua", "libc" }

--- Reads callgrind's output: instructions by part, and those of libc by the part that called it.
local function read_profile(name)
    local own, libc_for, objects = {}, {}, {}
    local part, called_part, is_call = "libc", "libc", false
    local function object_of(text)
        local id, object = text:match("^%((%d+)%)%s*(.*)$")
        if object ~= "" then
            objects[id] = object
        end
        return part_of(objects[id] or "")
    end
    for line in io.lines(name) do
        local key, value = line:match("^(c?[a-z]+)=(.*)$")
        if key == "ob" then
            part = object_of(value)
        elseif key == "cob" then
            called_part = object_of(value)
        elseif key == "calls" then
            is_call = true
        elseif not key then
            local cost = line:match("^[%d+*-]%S* (%d+)$")
            if cost and is_call then
                if called_part == "libc" and part ~= "libc" then
                    libc_for[part] = (libc_for[part] or 0) + tonumber(cost)
                end
                is_call = false
            elseif cost then
                own[part] = (own[part] or 0) + tonumber(cost)
            end
            called_part = is_call and called_part or part
        elseif key == "fn" then
            called_part = part
        end
    end
    return own, libc_for
end

local function profile(settings, count)
    local name = settings.scratch .. "/callgrind-" .. count
    lib.run {
        -- Symbols are resolved at the start: a call through the resolver would count as libc's, with everything that it calls.
        "env", "LD_BIND_NOW=1", "valgrind", "--tool=callgrind", "--quiet", "--callgrind-out-file=" .. name, "lua5.4",
        settings.bench .. "/programs/cycle.lua", settings.servers, "/bench-instructions", count,
        "untimed"
    }
    return read_profile(name)
end

return function(settings)
    report.title("Instructions of one cycle (acquire and release, without contention), under callgrind")
    if not os.execute("command -v valgrind >/dev/null") then
        report.say("missing: valgrind")
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
    for _, part in ipairs(PARTS) do
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
    for _, part in ipairs(PARTS) do
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
