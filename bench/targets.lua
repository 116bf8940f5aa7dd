--- targets: zklock's performance targets, and the measurements of the same run.

local lib = require "lib"
local report = require "report"

local targets = {}

--- The targets, in the order of the report. `above`: higher is better.
local WANTED = {
    { "acquire", "acquire, uncontended : bare create in C", 1.05 },
    { "cycle go-zookeeper", "cycle, uncontended, release awaited : go-zookeeper's", 0.70 },
    { "cycle Curator", "the same : Curator's", 0.55 },
    { "cycle kazoo", "the same : kazoo's", 0.30 },
    { "unawaited go-zookeeper", "cycle, release not awaited : go-zookeeper's", 0.55 },
    { "contention 2", "2 clients on one lock, a hand-over : go-zookeeper's", 0.75 },
    { "contention 8", "8 clients on one lock, a hand-over : go-zookeeper's", 0.65 },
    { "contention 64", "64 clients on one lock, a hand-over : go-zookeeper's", 0.75 },
    { "local", "8 coroutines of one client on one lock, a hand-over : Curator's 8 threads", 0.03 },
    { "linger time", "cycle with linger, µs", 3 },
    { "linger requests", "cycle with linger, requests", 0 },
    { "refused requests", "a refused try, requests", 1 },
    { "refused writes", "a refused try, writes", 0 },
    { "reads", "shared reads of one client, grants a second : Curator's", 100, above = true },
    { "many", "1000 locks of one client, cycles a second : bare create and delete in C", 0.9, above = true },
    { "memory", "C memory of a waiting local acquisition, bytes", 512 },
    { "instructions", "zklock's own instructions in a cycle : the C client's", 0.5 }
}

local measured = {} -- name -> array by round

--- Notes the measurements for a target.
---@param name string the first word of a line above
---@param values table one a round
function targets.note(name, values)
    measured[name] = values
end

local function verdict(target, values)
    if not values or #values == 0 then
        return "not measured"
    end
    local median = lib.median(values)
    local met = target.above and median >= target[3] or not target.above and median <= target[3]
    return met and "met" or "not met"
end

--- The format of numbers of this size.
local function shape_of(values)
    local most = math.max(0, table.unpack(values or {}))
    return most >= 20 and "%.0f" or most >= 0.1 and "%.2f" or "%.3f"
end

--- Whether there is a measurement for any target.
function targets.any()
    return next(measured) ~= nil
end

---@param whole boolean whether targets without a measurement are printed as well
function targets.report(whole)
    report.title("Targets: median (min..max) of this run")
    local rows = { { "", "target", "measured", "" } }
    for _, target in ipairs(WANTED) do
        local values = measured[target[1]]
        if values or whole then
            table.insert(rows, {
                target[2], string.format("%s %g", target.above and "≥" or "≤", target[3]),
                lib.spread(values or {}, shape_of(values)), verdict(target, values)
            })
        end
    end
    report.columns(rows)
end

return targets
