--- lib: functions that the cases share: running programs, the server's counters, medians and ranges.

local socket = require "socket"

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
---@param words table the command
---@return table # array of tables: each line's values, numbers as such; raises if the program failed
function lib.run_lines(words)
    local command = command_line(words)
    return results_of(assert(io.popen(command)), command)
end

--- The same, of a program that prints one such line.
---@return table # the line's values
function lib.run(words)
    return lib.run_lines(words)[1]
end

--- Runs a program without input and output.
---@param words table the command
---@param status? number the exit code that it must have (0); raises if it has another one
function lib.execute(words, status)
    local _, how, code = os.execute(command_line(words) .. " </dev/null >/dev/null 2>&1")
    if how ~= "exit" or code ~= (status or 0) then
        error(string.format("%s ended with %s %s", command_line(words), how, code))
    end
end

--- Runs programs at the same time. When all are started, calls fn().
---@param commands table array of arrays of words
---@return table # array of the first lines' values, by program
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

--- Sends a four-letter word to a server.
---@param server string "host:port"
---@param word string
---@return string? # its answer; nothing if no server is there
function lib.ask(server, word)
    local host, port = server:match("^(.*):(%d+)$")
    local connection = socket.connect(host, tonumber(port))
    if not connection then
        return nil
    end
    connection:settimeout(3)
    connection:send(word)
    local answer = connection:receive("*a")
    connection:close()
    return answer
end

--- A server's counters by name, at the time of the call. The request counts as one packet received, which is subtracted.
local asked = {}
function lib.mntr(server)
    local counters = {}
    for line in (lib.ask(server, "mntr") or ""):gmatch("[^\n]+") do
        local name, value = line:match("^zk_(%S+)%s+([%d.]+)$")
        if name then
            counters[name] = tonumber(value)
        end
    end
    assert(counters.packets_received, "the server does not answer mntr")
    asked[server] = (asked[server] or 0) + 1
    counters.packets_received = counters.packets_received - asked[server]
    return counters
end

--- How many transactions a server has executed: writes, and sessions that were opened and closed.
function lib.transactions(server)
    asked[server] = (asked[server] or 0) + 1
    return tonumber(lib.ask(server, "srvr"):match("Zxid: 0x(%x+)"), 16) & 0xffffffff
end

--- Whether a server accepts connections; it may need a moment more until it serves.
function lib.is_open(server)
    local host, port = server:match("^(.*):(%d+)$")
    local connection = socket.connect(host, tonumber(port))
    return connection ~= nil and connection:close() == 1
end

--- Starts separate servers, which end with the benchmark at the latest.
---@param settings table
---@param ... any options of tools/zookeeper start
---@return table # `servers`, as for clients; `run(…)`: a command of tools/zookeeper to them, `ask(…)`: the same, returns its
-- output, `start(…)`: the same, without waiting for its end
function lib.cluster(settings, ...)
    local zookeeper = os.getenv("BENCH_ZOOKEEPER")
    local pipe = assert(io.popen(command_line({ zookeeper, "start", "--owner", settings.owner, ... })))
    local output = pipe:read("a")
    assert(pipe:close(), "could not start servers")
    local cluster = { servers = assert(output:match("ZOOKEEPER=([^%s']+)")) }
    local dir = assert(output:match("ZOOKEEPER_DIR=([^%s']+)"))

    function cluster.run(...)
        assert(os.execute(command_line({ zookeeper, ... }) .. " --dir " .. quoted(dir) .. " >/dev/null"))
    end

    --- Runs a command and returns its output.
    function cluster.ask(...)
        local answers = assert(io.popen(command_line({ zookeeper, ... }) .. " --dir " .. quoted(dir)))
        local answer = answers:read("a")
        assert(answers:close())
        return answer
    end

    function cluster.start(...)
        assert(os.execute(command_line({ zookeeper, ... }) .. " --dir " .. quoted(dir) .. " >/dev/null &"))
    end

    return cluster
end

function lib.median(values)
    local sorted = table.move(values, 1, #values, 1, {})
    table.sort(sorted)
    local middle = #sorted // 2
    return #sorted % 2 == 1 and sorted[middle + 1] or (sorted[middle] + sorted[middle + 1]) / 2
end

--- The numbers of a text, "1.0,2.5".
function lib.numbers(text)
    local numbers = {}
    for number in text:gmatch("[^,]+") do
        table.insert(numbers, tonumber(number))
    end
    return numbers
end

--- The median, the least and the greatest.
function lib.summary(values)
    return lib.median(values), math.min(table.unpack(values)), math.max(table.unpack(values))
end

--- "1.07 (1.03..1.12)": the median and the range of the rounds; "-" if there are none.
---@param values table one a round
---@param shape string format of a number
function lib.spread(values, shape)
    if #values == 0 then
        return "-"
    elseif #values == 1 then
        return string.format(shape, values[1])
    end
    return string.format(shape .. " (" .. shape .. ".." .. shape .. ")", lib.summary(values))
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

return lib
