--- inspect.reads: many reads at a time. A handler gets each answer, and may add more reads.
--
-- ZooKeeper answers the requests of a session in their order. So waiting for the oldest read keeps all of them going.

local node = require "zklock.node"

local setmetatable = setmetatable
local format = string.format

--- How many reads are in flight. More do not make it faster, and leave room for the program's own requests.
local WINDOW = 200

local WHAT = { get = "reading", children = "listing the children of", exists = "looking at", acl = "reading the acl of" }

--- Codes that are an answer: the handler gets them.
local ANSWERS = { no_node = true, no_auth = true }

local Reads = {}
Reads.__index = Reads

---@param client zklock.Client
---@param deadline number on core.now()'s clock
---@param seconds number for messages: the time that the caller gave
function Reads.new(client, deadline, seconds)
    return setmetatable({
        client = client, deadline = deadline, seconds = seconds,
        first = 1, sent = 0, last = 0, -- of `queue`: the oldest read, the last one that was sent, the last one
        queue = {}
    }, Reads)
end

--- Adds a read.
---@param kind string "get", "children", "exists" or "acl" (its result is a text)
---@param path string
---@param handler function function(result, stat, code, watch): as of the client's methods; result is nil with the codes "no_node"
--   and "no_auth"
---@param watched? boolean true: the read sets a watch
function Reads:add(kind, path, handler, watched)
    self.last = self.last + 1
    self.queue[self.last] = { kind = kind, path = path, handler = handler, watched = watched or false }
end

--- Sends as many reads as may be in flight. Returns true; or nil, message, code.
local function send(self)
    while self.sent < self.last and self.sent - self.first + 1 < WINDOW do
        local read = self.queue[self.sent + 1]
        local request = { kind = read.kind, path = read.path, watch = read.watched }
        local operation, message, code = self.client:desk().core:operate(request)
        if not operation then
            return nil, message, code
        end
        self.sent, read.operation = self.sent + 1, operation
    end
    return true
end

--- Takes the oldest read's answer. Returns true; or nil, message, code.
local function take(self)
    local read = self.queue[self.first]
    local what = format("%s %s", WHAT[read.kind], read.path)
    local operation, message, code = node.await(self.client, read.operation, self.seconds, what, false, self.deadline)
    if not operation then
        return nil, message, code
    end
    self.queue[self.first], self.first = nil, self.first + 1
    local result, stat
    result, stat, code = operation:take()
    if result == nil and not ANSWERS[code] then
        return nil, stat, code
    end
    read.handler(result, stat, code, read.watched and result ~= nil and node.new_watch(self.client, operation, read.path) or nil)
    return true
end

--- Performs all reads. The first failure ends the others.
---@return true?
---@return string? message
---@return zklock.Code? code
function Reads:run()
    local ok, message, code = true, nil, nil
    while ok and self.first <= self.last do
        ok, message, code = send(self)
        if ok then
            ok, message, code = take(self)
        end
    end
    for index = self.first, self.sent do
        local read = self.queue[index]
        if read then
            read.operation:cancel()
        end
    end
    return ok, message, code
end

return Reads
