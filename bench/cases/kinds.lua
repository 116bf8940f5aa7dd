--- kinds: what each kind of lock sends and how often it waits for an answer, compared with the contestants that have such locks.
--
-- tools/faultproxy.lua counts, between one session of each contestant and the server, in the same way for all: requests (without
-- pings), those that write, and notifications. It also delays everything by DELAY ms each way, so that a time divided by the time
-- of a bare request is the number of requests that were waited for one after the other.

local contestants = require "contestants"
local counter = require "counter"
local kinds = require "kinds"
local lib = require "lib"
local report = require "report"

local DELAY_MS = 8
local QUEUES = { 10, 50 }

--- Notes a line's values: seen[what][kind][name][key] is an array.
local function note(seen, line, row)
    local its = seen
    for _, key in ipairs({ line.what, row, line.name }) do
        its[key] = its[key] or {}
        its = its[key]
    end
    for key, value in pairs(line) do
        its[key] = its[key] or {}
        table.insert(its[key], value)
    end
end

--- How often zklock's own count of requests equals the proxy's.
local agreement = { same = 0, all = 0 }

local function note_agreement(line)
    if line.own then
        agreement.all = agreement.all + 1
        agreement.same = agreement.same + (line.own == line.requests and 1 or 0)
    end
end

--- A table: the columns are `{header, key, how to write its values}`, for each contestant; the rows `{text =, seen =}`.
local function tabulate(title, all, columns, rows)
    local names, headers = { "" }, { title }
    for _, contestant in ipairs(all) do
        for _, column in ipairs(columns) do
            table.insert(names, column == columns[1] and contestant.name or "")
            table.insert(headers, column[1])
        end
    end
    local lines = { names, headers }
    for _, row in ipairs(rows) do
        local line = { row.text }
        for _, contestant in ipairs(all) do
            local its = row.seen[contestant.name]
            for _, column in ipairs(columns) do
                table.insert(line, its and column[3](its[column[2]]) or "-")
            end
        end
        table.insert(lines, line)
    end
    report.columns(lines)
end

local function tenths(values)
    return lib.spread(values, "%.1f")
end

local function rows_of(seen, names)
    local rows = {}
    for _, name in ipairs(names) do
        table.insert(rows, { text = kinds.text[name] or name, seen = seen[name] or {} })
    end
    return rows
end

local REQUESTS, WRITES = { "requests", "requests", lib.counts }, { "writes", "writes", lib.counts }
local WOKEN = { "woken", "notifications", lib.counts }

local function report_single(seen, all)
    tabulate("without contention", all, {
        REQUESTS, WRITES, { "acquire", "acquire", tenths }, { "release", "release", tenths }
    }, rows_of(seen.alone, kinds.all))
    tabulate("behind one holder", all, {
        REQUESTS, WRITES, WOKEN, { "hand-over", "acquire", tenths }, { "release", "release", tenths }
    }, rows_of(seen.contended, kinds.all))
    local tries = rows_of(seen.refused, { "mutex", "read", "write", "permit", "permits" })
    for _, which in ipairs({ "first", "last" }) do
        table.insert(tries, {
            text = string.format("%s, the %s one taken", kinds.text.multi, which), seen = seen.refused["multi-" .. which]
        })
    end
    tabulate("a refused try", all, { REQUESTS, WRITES }, tries)
end

local function report_queues(seen, all, sizes)
    local function each(shape)
        return function(values)
            return string.format(shape, lib.median(values))
        end
    end
    local readers, permits = {}, {}
    for _, count in ipairs(sizes) do
        table.insert(readers, { text = string.format("%d readers behind a writer", count), seen = seen.readers[count] })
        table.insert(permits, { text = string.format("%d in the queue for 5 permits", count), seen = seen.semaphore[count] })
        table.insert(permits, { text = "the same once more", seen = seen.again[count] })
    end
    local columns = {
        { "requests", "requests", each("%.1f") }, { "writes", "writes", each("%.1f") },
        { "woken", "notifications", each("%.1f") }
    }
    tabulate("each", all, { columns[1], columns[2], columns[3], { "by the release", "woken", each("%g") } }, readers)
    tabulate("each", all, columns, permits)
end

return function(settings)
    local rounds, count = settings.rounds or (settings.quick and 1 or 2), settings.quick and 1 or 3
    local sizes = settings.quick and { 10 } or QUEUES
    report.title("Requests and round trips of each kind: median (min..max) of %d each", rounds * count)
    local all, seen = contestants.present(settings, "kinds"), {}
    local proxy, control = counter.start(settings.proxy, settings.servers, settings.owner)
    for round = 1, rounds do
        for _, contestant in ipairs(all) do
            local path = string.format("/bench-kinds-%s-%d", contestant.name, round)
            for _, line in ipairs(contestants.run_lines(contestant, "kinds", settings.servers, proxy, control, path, count,
                DELAY_MS)) do
                note(seen, line, line.kind)
                note_agreement(line)
            end
        end
    end
    for _, size in ipairs(sizes) do
        for _, contestant in ipairs(all) do
            local path = string.format("/bench-queues-%s-%d", contestant.name, size)
            for _, line in ipairs(contestants.run_lines(contestant, "queues", settings.servers, proxy, control, path, size)) do
                note_agreement(line)
                for _, key in ipairs({ "requests", "writes", "notifications", "woken" }) do
                    line[key] = line[key] / size
                end
                note(seen, line, size)
            end
        end
    end
    counter.connect(control):quit()
    report_single(seen, all)
    report_queues(seen, all, sizes)
    report.say("Counted by a proxy, for all alike. zklock's own count is the same in %d of %d measurements.",
        agreement.same, agreement.all)
end
