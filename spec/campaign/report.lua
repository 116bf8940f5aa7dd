--- campaign.report: the result of a campaign for readers: the figures, the violations, and the section of spec/campaign/RESULTS.md.

local report = {}

local format, concat = string.format, table.concat

local BEGIN, END = "<!-- %s: begin -->", "<!-- %s: end -->"

--- The names of a table with counts, the most frequent first.
local function ranked(counts)
    local names = {}
    for name in pairs(counts) do
        names[#names + 1] = name
    end
    table.sort(names, function(one, other)
        if counts[one] ~= counts[other] then
            return counts[one] > counts[other]
        end
        return one < other
    end)
    return names
end

--- 1234567 -> "1 234 567"
local function grouped(number)
    local text = format("%d", number)
    local head = #text % 3
    local groups = { head > 0 and text:sub(1, head) or nil }
    for index = head + 1, #text, 3 do
        groups[#groups + 1] = text:sub(index, index + 2)
    end
    return concat(groups, " ")
end

--- The lines of a table with two columns: the name and the figure. `result`: see main.lua.
local function rows(result)
    local list = {}
    local function add(name, ...)
        list[#list + 1] = { name, format(...) }
    end
    add("seconds under faults", "%d", result.seconds)
    add("seed", "%d", result.seed)
    add("client processes, fibers in them", "%d, %d", result.processes, result.fibers)
    add("client processes started", "%d", result.history.starts)
    add("acquisitions", "%s", grouped(#result.history.grants))
    add("faults", "%s", grouped(result.faults))
    add("requests to the servers, about", "%s", grouped(result.history.counters.requests or 0))
    add("of them with an unknown outcome", "%s", grouped(result.history.counters.unknown_outcomes or 0))
    add("connections", "%s", grouped(result.history.counters.connections or 0))
    add("hand-overs inside a process", "%s", grouped(result.history.counters.hand_overs or 0))
    for _, code in ipairs(ranked(result.history.refusals)) do
        add(format("acquires that ended with `%s`", code), "%s", grouped(result.history.refusals[code]))
    end
    local ends = {}
    for _, grant in ipairs(result.history.grants) do
        ends[grant.ended] = (ends[grant.ended] or 0) + 1
    end
    for _, reason in ipairs(ranked(ends)) do
        add(format("holds that ended: %s", reason), "%s", grouped(ends[reason]))
    end
    add("writes that the fenced register took", "%s", grouped(#result.history.writes))
    add("stale writes that it refused", "%s", grouped(result.history.stale))
    add("stale writes that it took", "%d", #result.found.writes)
    add("stale writes that a register without a fence took", "%s", grouped(result.history.late))
    add("increments that a counter without a fence lost", "%s", grouped(result.lost_increments))
    add("longest time in which a shared path was granted to no client", "%.1f s (%s)", result.unavailable,
        result.unavailable_path or "-")
    add("longest such time, not counting time in which no path was granted", "%.1f s (%s)", result.kept_away,
        result.kept_away_path or "-")
    add("longest wait for the first grant after the last fault", "%.1f s", result.progress)
    add("seconds without faults at the end, of which the servers stood still", "%.1f, %.1f", result.rested, result.stood_still)
    add("servers started again because they did not serve after the faults", "%d", result.restarts)
    add("grants whose nodes the servers acknowledged and forgot", "%s", grouped(result.forgotten))
    add("nodes that one server had kept although they were deleted", "%s", grouped(result.ghosts))
    add("nodes at the end that a server has and its leader has not", "%d", result.stray)
    add("requests that were executed, but not by the server that had to answer", "%s", grouped(result.unanswered))
    add("overlaps of conflicting holds", "%d", #result.found.overlaps)
    if result.longest_overlap > 0 then
        add("the longest overlap", "%.3f s", result.longest_overlap)
    end
    add("nodes of commands that were deleted", "%d", result.deleted)
    if result.deleted > 0 then
        add("longest time that such a command went on while another held", "%.3f s", result.longest_deleted)
    end
    add("tokens that did not grow", "%d", #result.found.tokens)
    add("clients without progress after the faults", "%d", #result.found.progress)
    add("nodes, watches, fds, threads left at the end", "%d", #result.found.leftovers)
    add("clients that ended by themselves", "%d", #result.found.crashes)
    return list
end

--- The figures as lines for a terminal.
function report.text(result)
    local lines = {}
    for _, row in ipairs(rows(result)) do
        lines[#lines + 1] = format("%-62s %s", row[1]:gsub("`", "\""), row[2])
    end
    lines[#lines + 1] = ""
    for _, kind in ipairs(ranked(result.kinds)) do
        lines[#lines + 1] = format("%6d  %s", result.kinds[kind], kind)
    end
    return concat(lines, "\n")
end

--- The same for spec/campaign/RESULTS.md.
function report.markdown(result)
    local lines = { format("`%s`, %s:", result.command, result.machine), "", "| | |", "|---|---|" }
    for _, row in ipairs(rows(result)) do
        lines[#lines + 1] = format("| %s | %s |", row[1], row[2])
    end
    lines[#lines + 1] = ""
    lines[#lines + 1] = "| fault | times |"
    lines[#lines + 1] = "|---|---|"
    for _, kind in ipairs(ranked(result.kinds)) do
        lines[#lines + 1] = format("| %s | %d |", kind, result.kinds[kind])
    end
    return concat(lines, "\n")
end

--- All violations, as sentences.
function report.violations(result)
    local list = {}
    for _, sort in ipairs({ "overlaps", "deleted", "tokens", "writes", "progress", "leftovers", "crashes", "refusals" }) do
        for _, sentence in ipairs(result.found[sort]) do
            list[#list + 1] = sort .. ": " .. sentence
        end
    end
    return list
end

--- Replaces the section between the named markers of a page; raises if the page has no such markers.
function report.replace(page, name, section)
    local _, first = page:find(BEGIN:format(name), 1, true)
    local last = page:find(END:format(name), 1, true)
    assert(first and last and first < last, "the page has no place for the report")
    return page:sub(1, first) .. "\n" .. section .. "\n" .. page:sub(last)
end

return report
