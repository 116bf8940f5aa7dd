--- support.events: a viewer of server-sent events, for specs of the live view.

local json = require "dkjson"
local socket = require "socket"

local events = {}

local Viewer = {}
Viewer.__index = Viewer

local PATIENCE = 30

--- Sends the request for the events of a server on a port of this machine. `headers`: further lines of the head.
---@return table # its field `status` is that of the answer
function events.open(port, target, headers)
    local connection = assert(socket.connect("127.0.0.1", port))
    connection:settimeout(PATIENCE)
    assert(connection:send(("GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"):format(target, headers or "")))
    local self = setmetatable({ connection = connection, chunked = false, text = "", head = "" }, Viewer)
    self.status = tonumber(assert(connection:receive "*l"):match "^HTTP/1.1 (%d+)")
    repeat
        local line = assert(connection:receive "*l")
        self.head = self.head .. line .. "\n"
        self.chunked = self.chunked or line:lower():find "^transfer%-encoding: chunked" ~= nil
    until line == ""
    return self
end

--- Receives more text. Returns false at the end.
local function receive(self)
    if self.chunked then
        local size = self.connection:receive "*l"
        size = size and tonumber(size, 16)
        if not size or size == 0 then
            return false
        end
        self.text = self.text .. assert(self.connection:receive(size))
        self.connection:receive(2)
        return true
    end
    local line = self.connection:receive "*l"
    self.text = self.text .. (line and line .. "\n" or "")
    return line ~= nil
end

--- Returns the next event: its data as a table, with the fields `event` and `id`; nil at the end.
function Viewer:next()
    while true do
        local message, rest = self.text:match "^(.-)\n\n(.*)$"
        if message then
            self.text = rest
            local name, id, data = message:match "^event: (%w+)\nid: (%S+)\ndata: (.*)$"
            if name then
                local found = assert(json.decode(data))
                found.event, found.id = name, id
                return found
            end
        elseif not receive(self) then
            return nil
        end
    end
end

--- Returns the first result of a function for the next events that is true. Events without locks have an empty list.
function Viewer:await(fn)
    local deadline = socket.gettime() + PATIENCE
    while socket.gettime() < deadline do
        local event = assert(self:next(), "the events have ended")
        event.locks = event.locks or {}
        local result = fn(event)
        if result then
            return result
        end
    end
    error("the event did not come", 2)
end

--- Reads to the end. Returns "end", or "timeout".
function Viewer:finish(seconds)
    self.connection:settimeout(seconds)
    while true do
        local _, problem, part = self.connection:receive(65536)
        if problem == "closed" then
            return "end"
        elseif problem == "timeout" and part == "" then
            return "timeout"
        end
    end
end

function Viewer:close()
    self.connection:close()
end

return events
