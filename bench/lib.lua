--- lib: what the cases share: running programs, the server's counters, medians, tables.

local lib = {}

--- One word for the shell.
local function quoted(word)
    return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

--- Runs a program and reads the last line that looks like "name=… key=value …".
-- @tparam table words the command
-- @treturn table the line's values, numbers as such; raises if the program failed
function lib.run(words)
    local line = {}
    for index, word in ipairs(words) do
        line[index] = quoted(word)
    end
    local command = table.concat(line, " ")
    local pipe = assert(io.popen(command))
    local output = pipe:read("a")
    local ok, _, status = pipe:close()
    if not ok then
        error(string.format("%s ended with %s", command, status))
    end
    local values = {}
    for key, value in (output:match("name=[^\n]*") or ""):gmatch("([%w_]+)=(%S+)") do
        values[key] = tonumber(value) or value
    end
    if not values.name then
        error(string.format("%s printed no result", command))
    end
    return values
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
