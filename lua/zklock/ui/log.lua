--- ui.log: who held which lock when, in a file that survives restarts: one line of JSON for each change.
--
-- A line has `event`, `time` in seconds since 1970, and:
--   * "holds", "left": `path` of the lock, and the fields FIELDS of a lane (zklock.ui.history)
--   * "begins", "stops": nothing else. Between a "stops" and the next "begins" nothing was recorded. A program that was killed has
--     written no "stops"
--
-- When the file has HALF bytes, it is renamed to FILE.1, in place of the one before. The new one begins with the present holders.
-- One program writes a file.

local json = require "dkjson"

local io, ipairs, os, pairs, setmetatable, type = io, ipairs, os, pairs, setmetatable, type
local floor = math.floor

local HALF = 16 * 1024 * 1024

local FIELDS = { "node", "mode", "identity", "session", "from", "held", "ended", "fate" }

local Log = {}
Log.__index = Log

--- Opens a file to append to it, without a buffer: a flush that fails in compiled code of LuaJIT is repeated, and succeeds then.
local function open(name)
    local file, problem = io.open(name, "a+b")
    if file then
        file:setvbuf "no"
    end
    return file, problem
end

--- Opens the file to append to it.
---@param name string
---@param report function function(message): the first write after a success, or at all, has failed
---@param half? integer in place of HALF
---@return table?
---@return string? message
function Log.open(name, report, half)
    local file, problem = open(name)
    if not file then
        return nil, problem
    end
    local size = file:seek "end"
    file:seek("set", size > 0 and size - 1 or 0)
    local last = file:read(1)
    file:seek "end"
    local self = setmetatable({
        name = name, file = file, size = size, half = half or HALF, report = report, has_failed = false, is_recording = false,
        open = {} -- node -> the line of a holder
    }, Log)
    if last and last ~= "\n" then
        self:_append "" -- ends a line that is torn
    end
    return self
end

--- Writes a line.
function Log:_append(line)
    local ok, problem = self.file:write(line .. "\n")
    if not ok and not self.has_failed then
        self.report(problem)
    end
    self.size, self.has_failed = self.size + #line + 1, not ok
end

--- Begins a new file if this one is full.
local function turn(self)
    if self.size < self.half then
        return
    end
    self.file:close()
    os.rename(self.name, self.name .. ".1")
    self.file, self.size = open(self.name) or open "/dev/full", 0 -- to which no write succeeds
    for _, line in pairs(self.open) do
        self:_append(line)
    end
end

local function encode(object)
    for key, value in pairs(object) do
        object[key] = type(value) == "number" and floor(value * 1000 + 0.5) / 1000 or value
    end
    return (json.encode(object))
end

--- Notes a change of a lane: "holds" or "left".
function Log:note(event, path, lane)
    local object = { event = event, path = path, time = lane.ended or lane.held }
    for _, field in ipairs(FIELDS) do
        object[field] = lane[field]
    end
    local line = encode(object)
    self.open[lane.node] = event == "holds" and line or nil
    self:_append(line)
    turn(self)
end

--- Notes whether changes are seen, if that has changed.
function Log:record(is_recording, time)
    if self.is_recording ~= is_recording then
        self.is_recording = is_recording
        self:_append(encode { event = is_recording and "begins" or "stops", time = time })
    end
end

--- Reads the lines of a file, in their order.
---@param name string
---@param path? string of a lock: nothing is told of others
---@param handler function function(record, line)
---@return integer? # the number of lines that are torn, and were skipped
---@return string? message
function Log.read(name, path, handler)
    local torn, problem, found = 0, nil, false
    local wanted = path and json.encode(path)
    for _, part in ipairs { name .. ".1", name } do
        local file, wrong = io.open(part, "rb")
        local unread = file and select(2, file:read(0))
        if unread then -- a directory
            file:close()
            file, wrong = nil, part .. ": " .. unread
        end
        problem = wrong
        for line in file and file:lines() or function() end do
            if line ~= "" and (not wanted or line:find(wanted, 1, true) or not line:find('"path"', 1, true)) then
                local record = json.decode(line)
                if type(record) ~= "table" or type(record.time) ~= "number" then
                    torn = torn + 1
                elseif record.path == nil or not path or record.path == path then
                    handler(record, line)
                end
            end
        end
        if file then
            found = true
            file:close()
        end
    end
    if not found then
        return nil, problem
    end
    return torn
end

--- Reads what earlier programs have written into the file: what has ended, and then what still held at the end.
---@param handler function function(record, the time of the last line)
---@return integer? # as Log.read
---@return string? message
function Log:restore(handler)
    local held, last = {}, nil
    local torn, message = Log.read(self.name, nil, function(record, line)
        last = record.time
        if record.event == "left" then
            handler(record, last)
        end
        if record.path then
            self.open[record.node], held[record.node] = nil, nil
        end
        if record.event == "holds" then
            self.open[record.node], held[record.node] = line, record
        end
    end)
    for _, record in pairs(held) do
        handler(record, last)
    end
    return torn, message
end

return Log
