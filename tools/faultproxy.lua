#!/usr/bin/env lua5.4
-- A TCP proxy between ZooKeeper clients and servers that breaks connections at chosen moments. It parses the framing, so "the
-- server has executed the create, but its reply is lost" is one command, on real packets. Lua 5.4 with luv.

local uv = require("luv")

local unpack, find, match = string.unpack, string.find, string.match

local USAGE = [[
usage: lua5.4 tools/faultproxy.lua --target HOST:PORT[,HOST:PORT...] [--listen PORT] [--control PORT] [--owner PID]
       [--address ADDRESS] [--raw]

Prints PROXY=127.0.0.1:port, where clients connect, and CONTROL=127.0.0.1:port, where it takes commands; --address names
another address of this machine for both. With several targets each connection goes to the next one that accepts. It ends
when process PID is gone; without --owner, when its standard input is a pipe that closes. --raw: any TCP, such as the link
between two servers; nothing is counted but bytes then, and no trap springs.

Commands, one a line over TCP; each is answered by one line, "ok ..." or "error ...":

  cut [rst|fin]              end all connections now (rst)
  refuse, accept             refuse new connections, accept them again
  stall up|down|both|ends    hold back what clients send, what servers send, or both; nothing is closed, and the end
                             of a connection is held back too. ends: hold back the ends of connections only
  resume                     let everything held back go on, also after arm ... stall-reply and stall-request
  delay MS [up|down|both]    let everything take MS milliseconds longer (both); 0 ends it
  half-close client|server   end our sending half of all connections: that side reads end-of-file, but can send
  target HOST:PORT[,...]     where new connections go from now on
  arm KIND WHEN [skip N] [rst|fin]
                             a trap for the next request of a KIND, or for the one after N others:
                             KIND   create delete exists get set children sync multi check close auth ping acl
                                    remove-watches set-watches any (any but ping)
                             WHEN   before       cut its connection instead of passing the request on
                                    after        pass it on; cut the connection when the reply comes, and drop that
                                    stall-reply  hold back the reply and everything behind it, until resume
                                    stall-request  hold back the request and everything behind it, until resume
                             One trap at a time: arm replaces the last one. If the connection ends before the reply,
                             the trap waits for the next such request.
  disarm                     take the trap away
  deny KIND CODE [TIMES]     from now on, a request of this KIND that succeeds is answered with the error CODE (-102) instead,
                             so many TIMES or always; 0 ends it
  lack-containers CODE       from now on, the creation of a container is not executed, and answered with the error CODE; -4: its
                             connection is closed; 0 ends it
  stamp ZXID                 from now on, watch events carry this zxid (a decimal number), as those of servers since 3.9 carry
                             one; -1 is what older servers send
  wait [MS]                  answers when the trap has sprung ("ok create path=/a/b"), or with an error after MS
  session                    the last session seen: "ok id=16 hex digits passwd=hex timeout=MS"
  counts, reset-counts       what was passed on since: requests by name, replies, notifications, bytes_up, bytes_down,
                             connections (accepted)
  status                     connections, listening, stalled, trap
  quit
]]

-- Names of the operations, as counted and as armed.
local OPERATIONS = {
    [1] = {"create", "create"}, [15] = {"create2", "create"}, [19] = {"createContainer", "create"},
    [21] = {"createTTL", "create"}, [2] = {"delete", "delete"}, [20] = {"deleteContainer", "delete"},
    [3] = {"exists", "exists"}, [4] = {"getData", "get"}, [5] = {"setData", "set"}, [6] = {"getACL", "acl"},
    [7] = {"setACL", "acl"}, [8] = {"getChildren", "children"}, [12] = {"getChildren2", "children"},
    [9] = {"sync", "sync"}, [11] = {"ping", "ping"}, [13] = {"check", "check"}, [14] = {"multi", "multi"},
    [22] = {"multiRead", "multi"}, [17] = {"checkWatches", "remove-watches"},
    [18] = {"removeWatches", "remove-watches"}, [100] = {"auth", "auth"},
    [101] = {"setWatches", "set-watches"}, [105] = {"setWatches2", "set-watches"},
    [-11] = {"closeSession", "close"},
}
local OTHER = {"other", "other"}

local NOTIFICATION = -1
local CONNECTION_LOSS = -4

-- Longer than any frame of a correct client; a peer that announces more does not use ZooKeeper's protocol.
local MAX_FRAME = 64 * 1024 * 1024

local targets = {}
local next_target = 1
local connections = {}
local stalled = {up = false, down = false, ends = false}
local delays = {up = 0, down = 0}
local counts
local trap
local trap_waiters = {}
local denied = {}
local lacks = 0
local stamp
local session
local proxy_address = "127.0.0.1"
local listener, proxy_port, listening
local all_raw = false

-- Traps ---------------------------------------------------------------------------------------------------------------

local function spring(path)
    trap.state = "sprung"
    trap.answer = trap.kind .. (path and " path=" .. path or "")
    local waiters = trap_waiters
    trap_waiters = {}
    for waiter in pairs(waiters) do
        waiter("ok " .. trap.answer)
    end
end

-- The path that a request is about, for messages; the first path of a multi.
local function path_of(kind, frame)
    local start = kind == "multi" and 22 or 13
    if kind == "close" or kind == "ping" or kind == "set-watches" or kind == "auth" or #frame < start + 4 then
        return nil
    end
    local length = unpack(">i4", frame, start)
    return length > 0 and #frame >= start + 3 + length and frame:sub(start + 4, start + 3 + length) or nil
end

local function trap_matches(kind)
    if not trap or trap.state ~= "armed" or not (trap.kind == kind or trap.kind == "any" and kind ~= "ping") then
        return false
    end
    if trap.skip > 0 then
        trap.skip = trap.skip - 1
        return false
    end
    return true
end

-- Connections ---------------------------------------------------------------------------------------------------------
-- A connection has two directions, each a queue of frames: {bytes =, due =} or {eof =, due =}.

local function close_handle(handle, how)
    if handle and not handle:is_closing() then
        if how ~= "rst" or not pcall(handle.close_reset, handle) then
            if not handle:is_closing() then
                handle:close()
            end
        end
    end
end

local function forget(connection)
    connections[connection] = nil
    connection.closed = true
    for _, direction in pairs({connection.up, connection.down}) do
        close_handle(direction.timer)
    end
    if trap and trap.state == "pending" and trap.connection == connection then
        trap.state = "armed"
    end
end

-- Ends a connection at once; queued frames are lost.
local function cut(connection, how)
    if not connection.closed then
        forget(connection)
        close_handle(connection.client, how)
        close_handle(connection.server, how)
    end
end

-- Ends a connection after the data written to `sink` has gone out.
local function finish(connection, sink)
    if not connection.closed then
        forget(connection)
        local function close_both()
            close_handle(connection.client)
            close_handle(connection.server)
        end
        if not pcall(sink.shutdown, sink, close_both) then
            close_both()
        end
    end
end

local function count(name, amount)
    counts[name] = (counts[name] or 0) + (amount or 1)
end

-- Checks a request before it is passed on; true if it must not be passed on, now or ever. Otherwise the second result is what to
-- pass on in its place, if anything.
local function check_request(connection, frame)
    if connection.raw then
        return false
    elseif not connection.greeted then
        connection.greeted = true
        count("connect")
        return false
    elseif #frame < 12 then
        return false
    end
    local xid, code = unpack(">i4i4", frame, 5)
    local operation = OPERATIONS[code] or OTHER
    if trap_matches(operation[2]) then
        local path = path_of(operation[2], frame)
        if trap.when == "before" then
            spring(path)
            cut(connection, trap.how)
            return true
        elseif trap.when == "stall-request" then
            spring(path)
            connection.up.held = true
            return true
        end
        trap.state, trap.connection, trap.xid, trap.path = "pending", connection, xid, path
    end
    local denial = denied[operation[2]]
    if denial and denial.times > 0 then
        denial.times = denial.times - 1
        connection.denied[xid] = denial.code
    end
    count(operation[1])
    if operation[1] == "createContainer" and lacks == CONNECTION_LOSS then
        cut(connection, "fin")
        return true
    elseif operation[1] == "createContainer" and lacks ~= 0 then
        connection.denied[xid] = lacks
        return false, string.pack(">i4i4i4s4B", 14, xid, 3, "/", 0) -- exists "/": the answer comes in its turn
    end
    return false
end

-- Turns the reply to a successful request into the reply to a failed one.
local function deny(frame, code)
    return string.pack(">i4", 16) .. frame:sub(5, 16) .. string.pack(">i4", code)
end

-- Checks a server's message before it is passed on; "cut" or "hold" if it must not be. Otherwise the second result is what to pass
-- on in its place, if anything.
local function check_reply(connection, frame)
    if connection.raw then
        return nil
    elseif not connection.welcomed then
        connection.welcomed = true
        if #frame >= 24 then
            local _, timeout, id, length = unpack(">i4i4I8i4", frame, 5)
            session = {id = ("%016x"):format(id), timeout = timeout,
                       passwd = frame:sub(25, 24 + length):gsub(".", function(c) return ("%02x"):format(c:byte()) end)}
        end
        return nil
    elseif #frame < 8 then
        return nil
    end
    local xid = unpack(">i4", frame, 5)
    if trap and trap.state == "pending" and trap.connection == connection and trap.xid == xid then
        spring(trap.path)
        if trap.when == "after" then
            cut(connection, trap.how)
            return "cut"
        end
        connection.down.held = true
        return "hold"
    end
    count(xid == NOTIFICATION and "notifications" or "replies")
    if stamp and xid == NOTIFICATION then
        return nil, frame:sub(1, 8) .. string.pack(">i8", stamp) .. frame:sub(17)
    end
    local code = connection.denied[xid]
    connection.denied[xid] = nil
    if code and #frame >= 20 and unpack(">i4", frame, 17) == 0 then
        return nil, deny(frame, code)
    end
    return nil
end

-- Passes on all frames of a direction that may go now.
local function pump(connection, direction)
    local queue = direction.queue
    while not connection.closed and connection.connected and direction.first <= direction.last do
        local item = queue[direction.first]
        if stalled[direction.name] or direction.held or item.eof and stalled.ends then
            return
        end
        local wait = item.due - uv.now()
        if wait > 0 then
            direction.timer:start(wait, 0, function() pump(connection, direction) end)
            return
        end
        if item.eof then
            if item.eof == "rst" then
                cut(connection, "rst")
            else
                finish(connection, direction.sink())
            end
            return
        end
        local verdict, replacement
        if direction.name == "up" then
            verdict, replacement = check_request(connection, item.bytes)
        else
            verdict, replacement = check_reply(connection, item.bytes)
        end
        if verdict then
            return
        end
        queue[direction.first] = nil
        direction.first = direction.first + 1
        local bytes = replacement or item.bytes
        count("bytes_" .. direction.name, #bytes)
        -- The reading side gets an error here as well.
        pcall(uv.write, direction.sink(), bytes)
    end
end

local function enqueue(direction, item)
    uv.update_time()
    item.due = uv.now() + delays[direction.name]
    direction.last = direction.last + 1
    direction.queue[direction.last] = item
end

-- Splits received data into frames. Data that does not begin like a frame, such as a four-letter word, is passed on unchanged.
local function receive(connection, direction, problem, data)
    if connection.closed then
        return
    end
    if not data then
        enqueue(direction, {eof = problem and "rst" or "fin"})
    elseif connection.raw then
        enqueue(direction, {bytes = data})
    else
        local buffer, position = direction.buffer .. data, 1
        while #buffer - position >= 3 do
            local length = unpack(">I4", buffer, position)
            if length > MAX_FRAME then
                connection.raw = true
                enqueue(direction, {bytes = buffer:sub(position)})
                position = #buffer + 1
            elseif #buffer - position >= 3 + length then
                enqueue(direction, {bytes = buffer:sub(position, position + 3 + length)})
                position = position + 4 + length
            else
                break
            end
        end
        direction.buffer = buffer:sub(position)
    end
    pump(connection, direction)
end

local function new_direction(name, sink)
    return {name = name, sink = sink, queue = {}, first = 1, last = 0, buffer = "", timer = uv.new_timer()}
end

-- Tries the targets in turn, `left` of them.
local function connect_server(connection, left)
    if connection.closed then
        return
    elseif left == 0 then
        cut(connection, "rst")
        return
    end
    local target = targets[(next_target - 1) % #targets + 1]
    next_target = next_target + 1
    local server = uv.new_tcp()
    connection.server = server
    server:connect(target.host, target.port, function(problem)
        if connection.closed then
            return
        elseif problem then
            close_handle(server)
            connect_server(connection, left - 1)
            return
        end
        server:nodelay(true)
        connection.connected = true
        server:read_start(function(...) receive(connection, connection.down, ...) end)
        pump(connection, connection.up)
    end)
end

local function accept_client()
    local client = uv.new_tcp()
    if not listener:accept(client) then
        client:close()
        return
    end
    client:nodelay(true)
    count("connections")
    local connection = {client = client, raw = all_raw, denied = {}}
    connection.up = new_direction("up", function() return connection.server end)
    connection.down = new_direction("down", function() return connection.client end)
    connections[connection] = true
    client:read_start(function(...) receive(connection, connection.up, ...) end)
    connect_server(connection, #targets)
end

local function pump_all()
    for connection in pairs(connections) do
        pump(connection, connection.up)
        if not connection.closed then
            pump(connection, connection.down)
        end
    end
end

-- Keeps the port while refusing connections: bound, but without a listener.
local function set_listening(wanted)
    if wanted == listening then
        return
    end
    listening = wanted
    if not wanted then
        if listener then
            listener:close()
        end
        listener = uv.new_tcp()
        assert(listener:bind(proxy_address, proxy_port))
    else
        assert(listener:listen(128, accept_client))
    end
end

-- Commands ------------------------------------------------------------------------------------------------------------

local KINDS = {any = true}
for _, operation in pairs(OPERATIONS) do
    KINDS[operation[2]] = true
end

local MOMENTS = {before = true, after = true, ["stall-reply"] = true, ["stall-request"] = true}

local DIRECTIONS = {up = {"up"}, down = {"down"}, both = {"up", "down"}}
local STALLS = {up = {"up"}, down = {"down"}, both = {"up", "down"}, ends = {"ends"}}

local function reset_counts()
    counts = {notifications = 0, replies = 0, bytes_up = 0, bytes_down = 0, connections = 0, connect = 0, other = 0}
    for _, operation in pairs(OPERATIONS) do
        counts[operation[1]] = 0
    end
end

local function in_order(values)
    local words = {}
    for name, value in pairs(values) do
        words[#words + 1] = name .. "=" .. value
    end
    table.sort(words)
    return table.concat(words, " ")
end

local function parse_targets(list)
    local found = {}
    for item in list:gmatch("[^,]+") do
        local host, port = match(item, "^(.+):(%d+)$")
        if not host then
            return nil
        end
        found[#found + 1] = {host = host == "localhost" and "127.0.0.1" or host, port = tonumber(port)}
    end
    return found[1] and found
end

local function is_how(word)
    return word == nil or word == "rst" or word == "fin"
end

-- Each command gets a function that sends its answer, and the words after the command.
local commands = {}

function commands.cut(answer, how)
    if not is_how(how) then
        return answer("error expected rst or fin")
    end
    for connection in pairs(connections) do
        cut(connection, how or "rst")
    end
    return answer("ok")
end

function commands.refuse(answer)
    set_listening(false)
    return answer("ok")
end

function commands.accept(answer)
    set_listening(true)
    return answer("ok")
end

function commands.stall(answer, which)
    if not STALLS[which] then
        return answer("error expected up, down, both or ends")
    end
    for _, name in ipairs(STALLS[which]) do
        stalled[name] = true
    end
    return answer("ok")
end

function commands.resume(answer)
    stalled.up, stalled.down, stalled.ends = false, false, false
    for connection in pairs(connections) do
        connection.up.held, connection.down.held = false, false
    end
    pump_all()
    return answer("ok")
end

function commands.delay(answer, ms, which)
    ms = math.tointeger(tonumber(ms))
    if not ms or ms < 0 or not DIRECTIONS[which or "both"] then
        return answer("error expected milliseconds, then up, down or both")
    end
    for _, name in ipairs(DIRECTIONS[which or "both"]) do
        delays[name] = ms
    end
    return answer("ok")
end

commands["half-close"] = function(answer, side)
    if side ~= "client" and side ~= "server" then
        return answer("error expected client or server")
    end
    for connection in pairs(connections) do
        pcall(uv.shutdown, connection[side])
    end
    return answer("ok")
end

function commands.target(answer, list)
    local found = list and parse_targets(list)
    if not found then
        return answer("error expected HOST:PORT")
    end
    targets = found
    return answer("ok")
end

function commands.arm(answer, kind, when, ...)
    if not KINDS[kind] then
        return answer("error no such kind of request")
    elseif not MOMENTS[when] then
        return answer("error expected before, after, stall-reply or stall-request")
    end
    local words, skip = {...}, 0
    if words[1] == "skip" then
        skip = math.tointeger(tonumber(words[2]))
        table.remove(words, 1)
        table.remove(words, 1)
    end
    local how = words[1]
    if not skip or skip < 0 or not is_how(how) then
        return answer("error expected skip N, then rst or fin")
    end
    trap = {kind = kind, when = when, skip = skip, how = how or "rst", state = "armed"}
    return answer("ok")
end

function commands.disarm(answer)
    trap = nil
    return answer("ok")
end

function commands.deny(answer, kind, code, times)
    code, times = math.tointeger(tonumber(code)), tonumber(times or math.huge)
    if not KINDS[kind] or kind == "any" then
        return answer("error no such kind of request")
    elseif not code or not times then
        return answer("error expected the number of an error, and how many times")
    end
    denied[kind] = code ~= 0 and {code = code, times = times} or nil
    return answer("ok")
end

commands["lack-containers"] = function(answer, code)
    lacks = math.tointeger(tonumber(code))
    return answer(lacks and "ok" or "error expected the number of an error")
end

function commands.stamp(answer, zxid)
    stamp = math.tointeger(tonumber(zxid))
    return answer(stamp and "ok" or "error expected a zxid")
end

function commands.wait(answer, ms)
    if not trap then
        return answer("error nothing is armed")
    elseif trap.state == "sprung" then
        return answer("ok " .. trap.answer)
    end
    local timer, waiter
    function waiter(line)
        close_handle(timer)
        trap_waiters[waiter] = nil
        return answer(line)
    end
    trap_waiters[waiter] = true
    if tonumber(ms) then
        timer = uv.new_timer()
        timer:start(math.ceil(tonumber(ms)), 0, function() waiter("error the trap has not sprung") end)
    end
end

function commands.session(answer)
    return answer(session and "ok " .. in_order(session) or "error no session was seen")
end

function commands.counts(answer)
    return answer("ok " .. in_order(counts))
end

commands["reset-counts"] = function(answer)
    reset_counts()
    return answer("ok")
end

function commands.status(answer)
    local number = 0
    for _ in pairs(connections) do
        number = number + 1
    end
    return answer(("ok connections=%d listening=%s stalled=%s trap=%s"):format(number, listening and "yes" or "no",
        stalled.up and stalled.down and "both" or stalled.up and "up" or stalled.down and "down"
        or stalled.ends and "ends" or "no",
        trap and trap.state or "none"))
end

function commands.quit(answer)
    answer("ok", function() os.exit(0) end)
end

local function words_of(line)
    local words = {}
    for word in line:gmatch("%S+") do
        words[#words + 1] = word
    end
    return table.unpack(words)
end

-- One control connection: lines in, answers out, in order, one command at a time.
local function serve_control(client)
    local buffer, busy = "", false

    local function next_command()
        while not busy do
            local line, rest = match(buffer, "^([^\n]*)\n(.*)$")
            if not line then
                return
            end
            buffer, busy = rest, true
            local function answer(text, callback)
                busy = false
                if not client:is_closing() then
                    client:write(text .. "\n", callback)
                end
                next_command()
            end
            local name = find(line, "%S") and words_of(line) or ""
            if commands[name] then
                commands[name](answer, select(2, words_of(line)))
            else
                answer("error no such command")
            end
        end
    end

    client:read_start(function(problem, data)
        if problem or not data then
            close_handle(client)
            return
        end
        buffer = buffer .. data
        next_command()
    end)
end

-- Beginning and end ---------------------------------------------------------------------------------------------------

local function fail(message)
    io.stderr:write("faultproxy: ", message, "\n")
    os.exit(1)
end

-- When a process was started, according to the kernel, so that a recycled process id is not taken for the owner; nil if it has
-- ended.
local function started(pid)
    if not uv.kill(pid, 0) then
        return nil
    end
    local file = io.open("/proc/" .. pid .. "/stat")
    if not file then
        return "unknown"
    end
    local rest = (file:read("a") or ""):match(".*%) (.*)") or ""
    file:close()
    local fields = {}
    for field in rest:gmatch("%S+") do
        fields[#fields + 1] = field
    end
    return not match(fields[1] or "Z", "[ZX]") and fields[20] or nil
end

local function follow_owner(owner)
    local since = started(owner)
    if not since then
        fail("no such process: " .. owner)
    end
    uv.new_timer():start(500, 500, function()
        if started(owner) ~= since then
            os.exit(0)
        end
    end)
end

local function follow_stdin()
    if uv.guess_handle(0) == "pipe" then
        local input = uv.new_pipe(false)
        input:open(0)
        input:read_start(function(_, data)
            if not data then
                os.exit(0)
            end
        end)
    end
end

local function listen(port, on_connection)
    local socket = uv.new_tcp()
    local ok, message = socket:bind(proxy_address, port)
    if ok then
        ok, message = socket:listen(128, on_connection)
    end
    if not ok then
        fail(("cannot listen on port %d: %s"):format(port, message))
    end
    return socket, socket:getsockname().port
end

local function parse_arguments(arguments)
    local options, i = {}, 1
    while arguments[i] do
        local name, value = arguments[i], arguments[i + 1]
        if name == "--help" then
            io.write(USAGE)
            os.exit(0)
        elseif name == "--raw" then
            all_raw = true
            i = i - 1
        elseif name == "--address" and value then
            proxy_address = value
        elseif name == "--target" and value then
            targets = parse_targets(value) or fail("--target must be HOST:PORT")
        elseif (name == "--listen" or name == "--control" or name == "--owner") and math.tointeger(tonumber(value)) then
            options[name:sub(3)] = math.tointeger(tonumber(value))
        else
            fail("cannot understand " .. name .. " (try --help)")
        end
        i = i + 2
    end
    if not targets[1] then
        fail("--target HOST:PORT is needed (try --help)")
    end
    return options
end

-- A peer that has closed its connection, while data from it is still unread here, answers the first write after that with a reset;
-- the second write raises SIGPIPE. libuv does not prevent that, and restores the default in processes that it starts.
local function survive_broken_pipes()
    uv.new_signal():start("sigpipe", function() end)
end

local function main()
    local options = parse_arguments(arg)
    survive_broken_pipes()
    reset_counts()
    if options.owner then
        follow_owner(options.owner)
    else
        follow_stdin()
    end
    local control, control_port
    listener, proxy_port = listen(options.listen or 0, accept_client)
    listening = true
    control, control_port = listen(options.control or 0, function()
        local client = uv.new_tcp()
        if control:accept(client) then
            client:nodelay(true)
            serve_control(client)
        else
            client:close()
        end
    end)
    io.write(("PROXY=%s:%d\nCONTROL=%s:%d\n"):format(proxy_address, proxy_port, proxy_address, control_port))
    io.flush()
    uv.run()
end

main()
