--- ui.server: a small HTTP server over libuv, for `zklock ui`: GET, POST and server-sent events, one request for each connection.
--
-- It is meant for a few people, not for the internet. It serves CONNECTIONS at a time. If there are more, a new one takes the place
-- of one whose request or answer has been unfinished longest, never that of a viewer. A request has a head of at most HEAD bytes
-- and a body of at most BODY bytes, and must be complete within READ seconds. An answer that is not taken within WRITE seconds ends
-- its connection. A viewer that reads slowly is sent its next message when it has taken the last one.
--
-- Everything runs in callbacks of the loop, on one thread. Luv comes from Debian's lua-luv or the rock luv.

local core = require "zklock.core"
local options = require "zklock.options"
local uv = require "luv"

local concat = table.concat
local format = string.format
local max = math.max

local CONNECTIONS = 200
local HEAD, BODY = 8192, 8192

--- Seconds.
local READ, WRITE = 10, 30

--- The longest path of a socket: sun_path, with a zero at its end.
local LONGEST_PATH = 107

local BACKLOG = 64

--- Milliseconds between two looks at all connections.
local SWEEP = 1000

--- Bits of a file's mode: for its owner only.
local OWNER_ONLY = 384

local REASONS = {
    [200] = "OK", [204] = "No Content", [304] = "Not Modified", [400] = "Bad Request", [401] = "Unauthorized", [403] = "Forbidden",
    [404] = "Not Found", [405] = "Method Not Allowed", [408] = "Request Timeout", [413] = "Content Too Large",
    [421] = "Misdirected Request", [431] = "Request Header Fields Too Large", [500] = "Internal Server Error",
    [502] = "Bad Gateway", [503] = "Service Unavailable", [505] = "HTTP Version Not Supported"
}

local Server = {}
Server.__index = Server

--- A connection: `handle`, `received` (list of texts), `size`, `due` (when it is ended), `viewer`, `closing`.
local Connection = {}
Connection.__index = Connection

function Connection:close()
    if not self.closed then
        self.closed = true
        self.server.connections[self] = nil
        self.server.count = self.server.count - 1
        if self.viewer then
            self.server.model:remove_viewer(self.viewer)
        end
        if not self.handle:is_closing() then
            self.handle:close()
        end
    end
end

--- Writes a text, and calls `done` when the other side has taken it.
function Connection:write(text, done)
    self.due = core.now() + self.server.limits.write
    self.handle:write(text, function(problem)
        if problem then
            self:close()
        elseif not self.closed and done then
            done()
        end
    end)
end

--- Writes the answer, and ends the connection after it.
function Connection:answer(response, without_body)
    local body = response.body or ""
    local lines = { format("HTTP/1.1 %d %s", response.status, REASONS[response.status] or "Answer") }
    for _, header in ipairs(response.headers) do
        lines[#lines + 1] = format("%s: %s", header[1], header[2])
    end
    if not response.events and response.status ~= 204 and response.status ~= 304 then
        lines[#lines + 1] = format("Content-Length: %d", #body)
    end
    lines[#lines + 1] = "Connection: close\r\n\r\n"
    local head = concat(lines, "\r\n")
    if response.events and not without_body then
        return self:stream(head, response.events)
    end
    self:write(without_body and head or head .. body, function()
        self.handle:shutdown(function()
            self:close()
        end)
    end)
end

function Connection:refuse(status, message)
    self.answered = true
    self:answer { status = status, headers = { { "Content-Type", "text/plain; charset=utf-8" } }, body = message .. "\n" }
end

--- Sends a viewer a text, and then what is new.
function Connection:send(text)
    self.writing = true
    self:write(text, function()
        self.writing, self.due = false, nil
        self:flush()
    end)
end

--- Sends a viewer what is new, if it has taken what was sent before.
function Connection:flush()
    if self.closed or self.writing then
        return
    end
    local model = self.server.model
    if model.viewers[self.viewer] == nil then
        return self:close() -- the model has removed it
    end
    local message = model:message(self.viewer)
    if message then
        self:send(message)
    elseif model.stopped then
        self:close()
    end
end

--- Begins the events of a viewer.
function Connection:stream(head, path)
    self.viewer = self.server.model:add_viewer(path ~= true and path or nil, function()
        self:flush()
    end)
    if not self.viewer then
        return self:refuse(503, "there are too many viewers")
    end
    self:send(head .. "retry: 2000\n\n")
end

--- Reads the head of a request.
---@return table? # request for zklock.ui.app, with `length` of the body
---@return integer? # status of the refusal
---@return string? message
local function read_head(head)
    local method, target, version = head:match "^(%u+) (%S+) HTTP/(%d%.%d)\r\n"
    if not method then
        return nil, 400, "this is no request of HTTP/1"
    elseif version ~= "1.1" and version ~= "1.0" then
        return nil, 505, "only HTTP/1.1"
    end
    local fields, lines = {}, head:match "\r\n(.*)$"
    if lines:gsub("\r\n", ""):find "[^\t\32-\126\128-\255]" then
        return nil, 400, "the head has control characters"
    end
    for line in lines:gmatch "([^\r\n]+)\r\n" do
        local name, first = line:match "^([%w!#$%%&'*+.^_`|~-]+):()"
        if not name then
            return nil, 400, "a field of the head is malformed"
        end
        local value = options.trimmed(line:sub(first))
        name = name:lower()
        if fields[name] and (name == "host" or name == "content-length") then
            return nil, 400, "there is more than one " .. name
        end
        fields[name] = value
    end
    local length = 0
    if fields["transfer-encoding"] then
        return nil, 400, "a body must have a Content-Length"
    elseif fields["content-length"] then
        length = fields["content-length"]:find "^%d+$" and tonumber(fields["content-length"])
        if not length then
            return nil, 400, "Content-Length is malformed"
        elseif length > BODY then
            return nil, 413, "the body is too long"
        end
    end
    local path, query = target:match "^([^?]*)%??(.*)$"
    if path == "/metrics" then
        query = "metrics"
    elseif path ~= "/" then
        return nil, 404, "there is nothing here"
    end
    return { method = method, query = query, length = length, header = function(name)
        return fields[name]
    end }
end

--- Answers a request that has come whole. Runs in a coroutine: the answer to a revoke waits for ZooKeeper.
local function serve(connection, request)
    local response = connection.server.app:respond(request)
    if not connection.closed then
        connection:answer(response, request.method == "HEAD")
    end
end

--- Looks whether a request has come whole.
local function look(connection)
    local text = concat(connection.received)
    connection.received = { text }
    local _, last = text:find("\r\n\r\n", 1, true)
    if (last or #text) > HEAD then
        return connection:refuse(431, "the head is too long")
    elseif not last then
        return
    end
    local request, status, message = read_head(text:sub(1, last - 2))
    if not request then
        return connection:refuse(status, message)
    elseif #text - last < request.length then
        return
    end
    request.body = text:sub(last + 1, last + request.length)
    connection.answered, connection.received = true, {}
    local thread = coroutine.create(serve)
    local ok, problem = coroutine.resume(thread, connection, request)
    if not ok then
        connection.server.report(debug.traceback(thread, tostring(problem)))
        connection:refuse(500, "this is a defect of zklock")
    end
end

--- Whether a connection is ended before another one. Neither is a viewer: those have no `due` while they are idle.
local function is_before(one, other)
    if one.answered ~= other.answered then
        return other.answered
    end
    return one.due < other.due
end

--- Ends a connection to make room: the one whose request has been unfinished for longest; if there is none, the oldest answer.
-- Returns false if there are only viewers.
local function make_room(self)
    local oldest
    for connection in pairs(self.connections) do
        if not connection.viewer and (not oldest or is_before(connection, oldest)) then
            oldest = connection
        end
    end
    if oldest then
        oldest:close()
    end
    return oldest ~= nil
end

local function accept(self)
    local handle = self.is_pipe and uv.new_pipe(false) or uv.new_tcp()
    if not self.handle:accept(handle) then
        return handle:close()
    end
    if self.count >= self.limits.connections and not make_room(self) then
        return handle:close()
    end
    local connection = setmetatable({
        server = self, handle = handle, received = {}, due = core.now() + self.limits.read, viewer = nil, writing = false,
        answered = false, closed = false
    }, Connection)
    self.connections[connection], self.count = true, self.count + 1
    handle:read_start(function(problem, chunk)
        if problem or not chunk then
            connection:close() -- a viewer that has gone
        elseif not connection.answered then
            connection.received[#connection.received + 1] = chunk
            local ok, wrong = pcall(look, connection)
            if not ok then
                self.report(tostring(wrong))
                connection:close()
            end
        end
    end)
end

--- Ends connections that take too long, and lets viewers have their beats. Time in which the whole program stood still does not
-- count: what the clients have sent meanwhile is not read yet.
local function sweep(self)
    local now, all = core.now(), {}
    local stood_still = max(0, now - self.swept - SWEEP / 1000)
    self.swept = now
    for connection in pairs(self.connections) do
        all[#all + 1] = connection
        connection.due = connection.due and connection.due + stood_still
    end
    for _, connection in ipairs(all) do
        if connection.due and now > connection.due then
            if not connection.answered then
                connection:refuse(408, "the request was not complete in time")
            else
                connection:close()
            end
        elseif connection.viewer then
            connection:flush()
        end
    end
end

--- Whether a program listens on a unix socket.
local function is_served(path)
    local probe, refused = uv.new_pipe(false), nil
    probe:connect(path, function(problem)
        refused = problem or false
    end)
    while refused == nil do
        uv.run "once"
    end
    probe:close()
    return not tostring(refused):find "^ECONNREFUSED"
end

--- Moves a socket away that a program has left behind, which was killed. Another program may do the same at the same time: what it
-- has put there meanwhile is put back. Returns true; or nil and a message.
local function clear(path, aside)
    local stat = uv.fs_lstat(path)
    if stat and stat.type ~= "socket" then
        return nil, format("%s is no socket", path)
    elseif stat and is_served(path) then
        return nil, format("a program listens on %s already", path)
    elseif stat and uv.fs_rename(path, aside) then
        local moved = uv.fs_lstat(aside)
        if moved and moved.ino ~= stat.ino and not uv.fs_link(aside, path) then
            return nil, format("the socket %s of another program is now %s, and could not be put back", path, aside)
        end
        uv.fs_unlink(aside)
    end
    return true
end

--- Gives a socket on which this process listens its path. Returns true; or nil and a message.
local function publish(self)
    local temporary, path = self.directory .. "/new", self.path
    local ok, problem = uv.fs_link(temporary, path)
    if not ok and problem:find "^EEXIST" then
        ok, problem = clear(path, self.directory .. "/old")
        if ok then
            ok, problem = uv.fs_link(temporary, path)
        end
    end
    return ok and true or nil, problem
end

--- Makes a socket that nobody finds yet: a socket at its path has a listener, or its program has ended. Only its owner may open it.
local function bind_path(self)
    local directory, problem = uv.fs_mkdtemp(self.path:match "^(.*/)" .. ".zklock-XXXXXX")
    if not directory then
        return nil, problem
    end
    self.directory = directory
    local temporary = directory .. "/new"
    if #temporary > LONGEST_PATH or #self.path > LONGEST_PATH then
        return nil, format("the path is too long: %s", self.path)
    end
    local ok
    ok, problem = self.handle:bind(temporary)
    if ok then
        ok, problem = uv.fs_chmod(temporary, OWNER_ONLY)
    end
    return ok, problem
end

--- Begins to listen.
---@param app table
---@param address table { host =, port = } or { path = } of a unix socket. A socket is taken over if no program listens on it
---@param report function function(text) for defects
---@param limits? table `connections`, `read` and `write`: in place of CONNECTIONS, READ and WRITE
---@return table? # its field `port` is the port
---@return string? message
function Server.start(app, address, report, limits)
    limits = limits or {}
    local self = setmetatable({
        app = app, model = app.model, report = report, connections = {}, count = 0, is_pipe = address.path ~= nil,
        path = address.path, directory = false,
        limits = { connections = limits.connections or CONNECTIONS, read = limits.read or READ, write = limits.write or WRITE }
    }, Server)
    local ok, problem
    if address.path then
        self.handle = uv.new_pipe(false)
        ok, problem = bind_path(self)
    else
        self.handle = uv.new_tcp()
        ok, problem = self.handle:bind(address.host, address.port)
    end
    if ok then
        ok, problem = self.handle:listen(BACKLOG, function(wrong)
            if not wrong then
                accept(self)
            end
        end)
    end
    if ok and self.path then
        ok, problem = publish(self)
    end
    if self.directory then
        uv.fs_unlink(self.directory .. "/new")
        uv.fs_rmdir(self.directory)
    end
    if not ok then
        self.handle:close()
        return nil, tostring(problem)
    end
    self.port = not address.path and self.handle:getsockname().port or nil
    self.swept = core.now()
    self.timer = uv.new_timer()
    self.timer:start(SWEEP, SWEEP, function()
        sweep(self)
    end)
    return self
end

--- Ends all connections, and removes the socket.
function Server:stop()
    if not self.handle:is_closing() then
        if self.path then
            uv.fs_unlink(self.path)
        end
        self.handle:close()
        self.timer:close()
    end
    while next(self.connections) do
        next(self.connections):close()
    end
end

-- Questions to ZooKeeper ----------------------------------------------------------------------------------------------

local words = require "zklock.inspect.words"

--- The longest answer to a four-letter word that is read.
local LONGEST = 8388608

--- Does what zklock.inspect.words.ask does, in a coroutine under the loop.
function Server.ask(address, word, timeout)
    local thread, link, timer = coroutine.running(), nil, uv.new_timer()
    local parts, size, outcome = {}, 0, nil
    local function finish(result)
        if outcome == nil then
            outcome = result
            timer:close()
            if link and not link:is_closing() then
                link:close()
            end
            local ok, problem = coroutine.resume(thread)
            if not ok then
                error(debug.traceback(thread, tostring(problem)), 0)
            end
        end
    end
    timer:start(timeout * 1000, 0, function()
        finish(size > 0 and "answer" or "unreachable")
    end)
    uv.getaddrinfo(address.host, nil, { socktype = "stream" }, function(problem, found)
        if problem or outcome ~= nil then
            return finish "unreachable"
        end
        link = uv.new_tcp()
        link:connect(found[1].addr, address.port, function(refused)
            if refused then
                return finish "unreachable"
            end
            link:write(word)
            link:read_start(function(wrong, chunk)
                if wrong or not chunk or size > LONGEST then
                    return finish "closed"
                end
                parts[#parts + 1], size = chunk, size + #chunk
            end)
        end)
    end)
    coroutine.yield() -- no callback comes before
    if outcome ~= "unreachable" then
        return words.judge(address, word, concat(parts), outcome == "closed")
    end
    return nil, format("%s does not answer", address.address), words.UNREACHABLE
end

return Server
