--- inspect.words: four-letter words, the questions about itself that a ZooKeeper server answers on its client port.
--
-- For the command and for zklock.inspect. They need LuaSocket, and servers that allow them (`4lw.commands.whitelist`; only srvr is
-- allowed by default). They block.

local options = require "zklock.options"

local ipairs, pcall, require, tonumber = ipairs, pcall, require, tonumber
local concat = table.concat
local format = string.format

local words = {}

--- Seconds for one server, unless given.
local TIMEOUT = 2

--- Why there is no answer: words.ask explains them. They are no codes of zklock.
local UNREACHABLE, SILENT, FORBIDDEN, FULL = "unreachable", "silent", "forbidden", "full"
words.UNREACHABLE = UNREACHABLE

--- Splits a connection string into its addresses; the chroot is left out.
---@return table # of { host =, port =, address = "host:port" }
function words.addresses(servers)
    local list = {}
    for host, port in (options.servers(servers) or ""):match("^[^/]*"):gmatch "([^,]+):(%d+)" do
        list[#list + 1] = { host = host:match "^%[(.*)%]$" or host, port = tonumber(port), address = host .. ":" .. port }
    end
    return list
end

--- Judges what a server has answered.
---@param address table of words.addresses
---@param word string
---@param answer string what came
---@param closed boolean whether the server has closed the connection
---@return string? # the answer
---@return string? message
---@return string? code "silent", "full", "forbidden": as of words.ask
function words.judge(address, word, answer, closed)
    if answer:find "is not executed because it is not in the whitelist" then
        local message = format("%s does not allow the word %s (4lw.commands.whitelist in its zoo.cfg)", address.address, word)
        return nil, message, FORBIDDEN
    elseif answer == "" and closed then
        return nil, format("%s closes connections at once: it may have as many of this host as maxClientCnxns allows",
            address.address), FULL
    elseif answer == "" then
        return nil, format("%s does not answer the word %s", address.address, word), SILENT
    end
    return answer
end

--- Sends a word to one server.
---@param address table of words.addresses
---@param word string
---@param timeout? number seconds, 0 or more; default 2
---@return string? # the answer
---@return string? message
---@return string? code "unreachable", "silent" (it accepts connections and does not answer), "full" (it closes them and does
--   not answer), "forbidden" (the server does not allow the word), "unsupported" (LuaSocket is missing)
function words.ask(address, word, timeout)
    local found, socket = pcall(require, "socket")
    if not found then
        return nil, "four-letter words need LuaSocket (Debian: lua-socket; rock: luasocket)", "unsupported"
    end
    timeout = timeout or TIMEOUT
    local link, problem = socket.tcp()
    if not link then
        return nil, problem, UNREACHABLE
    end
    local deadline = socket.gettime() + timeout
    link:settimeout(timeout)
    link:settimeout(timeout, "t")
    local connected
    connected, problem = link:connect(address.host, address.port)
    if not connected then
        link:close()
        return nil, format("%s: %s", address.address, problem), UNREACHABLE
    end
    link:send(word)
    local parts = {}
    repeat
        local part, reason, rest = link:receive(65536)
        parts[#parts + 1] = part or rest
        problem = reason
    until problem or socket.gettime() > deadline
    link:close()
    return words.judge(address, word, concat(parts), problem and problem ~= "timeout")
end

--- Returns a session id as a Stat has it: 16 hexadecimal digits.
local function session_id(digits)
    digits = digits:lower()
    return ("0"):rep(16 - #digits) .. digits
end

--- Notes the sessions of an answer to cons.
local function read_connections(answer, address, sessions)
    for line in answer:gmatch "[^\n]+" do
        local client, digits = line:match "^%s*(%S-)%[%d+%]", line:match "sid=0x(%x+)"
        if client and digits then
            local id, timeout = session_id(digits), tonumber(line:match "[(,]to=(%d+)")
            sessions[id] = sessions[id] or {}
            sessions[id].connected, sessions[id].server = true, address
            client = client:gsub("^/", ""):gsub("^([%x:]*:[%x:.]*):(%d+)$", "[%1]:%2") -- Java 13 writes no brackets
            sessions[id].address, sessions[id].timeout = client, timeout and timeout / 1000
        end
    end
end

--- Takes the place of words.ask for a server that is reached by TLS. Sends nothing: words would go unencrypted.
---@return nil
---@return string message
---@return string code "unsupported"
function words.refuse(address)
    return nil, format("%s is reached by TLS, and four-letter words have none", address.address), "unsupported"
end

--- Reads which sessions there are, and which of them are connected, from all servers.
---@param servers string connection string
---@param timeout? number seconds for each answer; default 2
---@param ask? function takes the place of words.ask, where blocking is no choice, or nothing may be asked (words.refuse)
---@return table #
--
--   * `known` true: the list of sessions is complete. Only the leader's answer to dump has all sessions.
--   * `connections` true: the list of connections is complete. All servers have answered cons.
--   * `by_id` id (16 hexadecimal digits) -> { connected, address (of the client), timeout (seconds), server }
--   * `problems` messages, why something is unknown
function words.sessions(servers, timeout, ask)
    ask = ask or words.ask
    local result = { known = false, connections = true, by_id = {}, problems = {} }
    local function ask_one(address, word)
        local answer, problem = ask(address, word, timeout)
        if not answer then
            result.problems[#result.problems + 1] = problem
        end
        return answer
    end
    for _, address in ipairs(words.addresses(servers)) do
        local connections, dump = ask_one(address, "cons"), ask_one(address, "dump")
        if connections then
            read_connections(connections, address.address, result.by_id)
        end
        result.connections = result.connections and connections ~= nil
        if dump then
            result.known = result.known or dump:find("Session Sets (", 1, true) ~= nil
            for digits in dump:gsub("ephemeral nodes dump:.*$", ""):gmatch "0x(%x+)" do
                local id = session_id(digits)
                result.by_id[id] = result.by_id[id] or {}
            end
        end
    end
    return result
end

return words
