--- counter: counts the traffic between clients and the server by tools/faultproxy.lua, which also delays it.

local socket = require "socket"

local Counter = {}
Counter.__index = Counter

local counter = {}

--- Counters of the proxy that are not requests, or not requests of a lock.
local NO_REQUESTS = {
    connections = true, connect = true, ping = true, closeSession = true, replies = true, notifications = true,
    bytes_up = true, bytes_down = true
}

--- Requests that change something. Deleting a node that does not exist counts as well.
local WRITES = {
    create = true, create2 = true, createContainer = true, createTTL = true, delete = true, deleteContainer = true,
    setData = true, setACL = true, multi = true
}

--- Starts a proxy in front of the server. It ends with process `owner`.
---@return string # the address for clients
---@return string # the address for counter.connect
function counter.start(proxy, servers, owner)
    local background = proxy:gsub("faultproxy%.lua$", "background")
    local pipe = assert(io.popen(string.format("'%s' lua5.4 '%s' --target '%s' --owner %s 2>&1", background, proxy,
        servers, owner)))
    local first, second = pipe:read("l"), pipe:read("l")
    pipe:close()
    local address, control = (first or ""):match("^PROXY=(%S+)$"), (second or ""):match("^CONTROL=(%S+)$")
    if not address or not control then
        error(string.format("could not start %s: %s", proxy, first))
    end
    return address, control
end

---@param address string what counter.start returned
function counter.connect(address)
    local host, port = address:match("^(.*):(%d+)$")
    local connection = assert(socket.connect(host, tonumber(port)))
    connection:setoption("tcp-nodelay", true)
    return setmetatable({ connection = connection }, Counter)
end

--- Sends a command, and returns what follows its "ok".
function Counter:ask(command)
    assert(self.connection:send(command .. "\n"))
    local answer = assert(self.connection:receive("*l"))
    return answer:match("^ok ?(.*)$") or error(string.format("the proxy answers '%s' to '%s'", answer, command))
end

--- Delays everything by `ms` milliseconds each way.
function Counter:delay(ms)
    self:ask("delay " .. ms)
end

--- Ends the proxy.
function Counter:quit()
    self:ask("quit")
end

---@return table # requests (pings left out), writes (those of them that write), notifications, bytes_up, bytes_down; since
-- the proxy began
function Counter:counts()
    local counts = { requests = 0, writes = 0, notifications = 0, bytes_up = 0, bytes_down = 0 }
    for name, number in self:ask("counts"):gmatch("([%w_]+)=(%d+)") do
        number = math.tointeger(tonumber(number))
        if not NO_REQUESTS[name] then
            counts.requests = counts.requests + number
        elseif counts[name] then
            counts[name] = number
        end
        if WRITES[name] then
            counts.writes = counts.writes + number
        end
    end
    return counts
end

--- Requests and notifications that have passed, together.
function Counter:total()
    local counts = self:counts()
    return counts.requests + counts.notifications
end

--- Waits until nothing has passed for `seconds`. `sleep(seconds)` waits meanwhile.
---@param since? number the result of total() before something was begun that sends requests: as long as nothing has been sent
-- since then, the quiet does not count, however long a busy machine takes to begin
function Counter:settle(seconds, sleep, since)
    local step, quiet, last = 0.005, 0, nil
    while quiet < seconds do
        local now = self:total()
        quiet = now == last and now ~= since and quiet + step or 0
        last = now
        sleep(step)
    end
end

return counter
