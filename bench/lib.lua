--- lib: what the cases share: running programs, the server's counters, medians, tables.

local lib = {}

--- One word for the shell.
local function quoted(word)
    return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

local function command_line(words)
    local line = {}
    for index, word in ipairs(words) do
        line[index] = quoted(word)
    end
    return table.concat(line, " ")
end

--- The values of each line of a pipe that looks like "name=… key=value …", numbers as such. Raises if the program failed.
local function results_of(pipe, command)
    local output = pipe:read("a")
    local ok, _, status = pipe:close()
    if not ok then
        error(string.format("%s ended with %s", command, status))
    end
    local results = {}
    for line in output:gmatch("[^\n]+") do
        if line:match("^name=") then
            local values = {}
            for key, value in line:gmatch("([%w_]+)=(%S+)") do
                values[key] = tonumber(value) or value
            end
            table.insert(results, values)
        end
    end
    if #results == 0 then
        error(string.format("%s printed no result", command))
    end
    return results
end

--- Runs a program and reads its lines that look like "name=… key=value …".
-- @tparam table words the command
-- @treturn table array of tables: each line's values, numbers as such; raises if the program failed
function lib.run_lines(words)
    local command = command_line(words)
    return results_of(assert(io.popen(command)), command)
end

--- The same, of a program that prints one such line.
-- @treturn table the line's values
function lib.run(words)
    return lib.run_lines(words)[1]
end

--- Runs programs at the same time. When all are started, calls fn().
-- @tparam table commands array of arrays of words
-- @treturn table array of the first lines' values, by program
function lib.run_together(commands, fn)
    local pipes, results = {}, {}
    for index, words in ipairs(commands) do
        pipes[index] = assert(io.popen(command_line(words)))
    end
    fn()
    for index, pipe in ipairs(pipes) do
        results[index] = results_of(pipe, command_line(commands[index]))[1]
    end
    return results
end

--- The server's counters by name, as of now. Asking counts as one packet received, which is taken off again.
local asked = 0
function lib.mntr()
    local pipe = assert(io.popen(os.getenv("BENCH_ASK") .. " mntr"))
    local counters = {}
    for line in pipe:lines() do
        local name, value = line:match("^zk_(%S+)%s+([%d.]+)$")
        if name then
            counters[name] = tonumber(value)
        end
    end
    assert(pipe:close() and counters.packets_received, "the server does not answer mntr")
    asked = asked + 1
    counters.packets_received = counters.packets_received - asked
    return counters
end

function lib.median(values)
    local sorted = table.move(values, 1, #values, 1, {})
    table.sort(sorted)
    local middle = #sorted // 2
    return #sorted % 2 == 1 and sorted[middle + 1] or (sorted[middle] + sorted[middle + 1]) / 2
end

--- "1.07 (1.03..1.12)": the median and the range of the rounds; "-" if there are none.
-- @tparam table values one a round
-- @tparam string shape format of a number
function lib.spread(values, shape)
    if #values == 0 then
        return "-"
    elseif #values == 1 then
        return string.format(shape, values[1])
    end
    local least, most = math.min(table.unpack(values)), math.max(table.unpack(values))
    return string.format(shape .. " (" .. shape .. ".." .. shape .. ")", lib.median(values), least, most)
end

--- "5", or "5 (5..6)" if not all are the same: the median and the range of counts.
function lib.counts(values)
    if #values > 0 and math.min(table.unpack(values)) == math.max(table.unpack(values)) then
        return string.format("%g", values[1])
    end
    return lib.spread(values, "%g")
end

--- Quotients of the rounds' values, pairwise.
function lib.ratios(ours, theirs)
    local quotients = {}
    for round = 1, math.min(#ours, #theirs) do
        quotients[round] = ours[round] / theirs[round]
    end
    return quotients
end

function lib.title(text, ...)
    print()
    print(string.format(text, ...))
    print(string.rep("-", utf8.len(string.format(text, ...))))
end

--- Prints rows of text in columns; the first is set flush left, the others right.
function lib.columns(rows)
    local widths = {}
    for _, row in ipairs(rows) do
        for column, text in ipairs(row) do
            widths[column] = math.max(widths[column] or 0, utf8.len(text))
        end
    end
    for _, row in ipairs(rows) do
        local cells = {}
        for column, text in ipairs(row) do
            local blanks = string.rep(" ", widths[column] - utf8.len(text))
            cells[column] = column == 1 and text .. blanks or blanks .. text
        end
        print((("  " .. table.concat(cells, "   ")):gsub("%s+$", "")))
    end
end

return lib
