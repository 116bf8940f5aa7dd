-- A small independent ZooKeeper client for specs, in plain Lua over LuaSocket. Specs look at the tree and disturb it from outside
-- without trusting the code under test or the C client. It runs in any Lua from 5.1 on.
--
--     local observer = zk.connect("127.0.0.1:2181")
--     local path = observer:create("/locks/x-", "data", {ephemeral = true, sequential = true})
--     local stat = observer:exists(path)
--     zk.kill_session("127.0.0.1:2181", stat.ephemeralOwner)       -- ends the session that owns the node
--
-- The client blocks and has no watches. Methods return nil and the name of an error ("no_node", "node_exists", "not_empty",
-- "connection_loss", "session_expired" …) when they fail. The next call after a lost connection reconnects, with the same session
-- while that lives. A write whose reply was lost is not repeated and gives "connection_loss". The session lives while calls or
-- :ping() come often enough; the default timeout is long.
--
-- Session ids and zxids are strings of 16 lower-case hexadecimal digits: they compare correctly as text, and no Lua number before
-- 5.3 can hold them.

local socket = require("socket")
local trees = require("spec.support.trees")

local byte, char, floor = string.byte, string.char, math.floor

local zk = {}

local Client = {}
Client.__index = Client
trees.extend(Client)

local DEFAULT_TIMEOUT_MS = 60000

-- The time for connecting, and for each reply, in seconds. A server on a busy machine may stand still for long.
local CONNECTING, PATIENCE = 10, 60

local OPERATION = {create = 1, delete = 2, exists = 3, get = 4, set = 5, children = 8, sync = 9, ping = 11,
                   create2 = 15, create_container = 19, close = -11}

local PING_XID = -2

local FLAGS = {ephemeral = 1, sequential = 2, container = 4}

local ERRORS = {
    [-1] = "system_error", [-4] = "connection_loss", [-5] = "marshalling_error", [-6] = "unimplemented",
    [-7] = "operation_timeout", [-8] = "bad_arguments", [-101] = "no_node", [-102] = "no_auth", [-103] = "bad_version",
    [-108] = "no_children_for_ephemerals", [-110] = "node_exists", [-111] = "not_empty", [-112] = "session_expired",
    [-113] = "invalid_callback", [-114] = "invalid_acl", [-115] = "auth_failed", [-118] = "session_moved",
    [-119] = "not_read_only", [-125] = "quota_exceeded", [-127] = "throttled",
}

-- Numbers and strings on the wire ---------------------------------------------------------------------------------

local function int(n)
    n = n % 4294967296
    return char(floor(n / 16777216), floor(n / 65536) % 256, floor(n / 256) % 256, n % 256)
end

local function text(s)
    return int(#s) .. s
end

local function to_hex(bytes)
    return (bytes:gsub(".", function(c) return ("%02x"):format(byte(c)) end))
end

local function from_hex(digits)
    return (digits:gsub("%x%x", function(pair) return char(tonumber(pair, 16)) end))
end

-- Returns the eight bytes of an id given as hexadecimal digits, with or without 0x and leading zeros.
local function id_bytes(id)
    local digits = id:gsub("^0[xX]", "")
    assert(digits:match("^%x+$") and #digits <= 16, "a session id is up to 16 hexadecimal digits")
    return from_hex(("0"):rep(16 - #digits) .. digits)
end

-- Reads from a string, starting at its beginning.
local Reader = {}
Reader.__index = Reader

local function reader(bytes)
    return setmetatable({bytes = bytes, position = 1}, Reader)
end

function Reader:take(length)
    local from = self.position
    assert(from + length - 1 <= #self.bytes, "a reply is shorter than it says")
    self.position = from + length
    return self.bytes:sub(from, from + length - 1)
end

function Reader:int()
    local a, b, c, d = byte(self:take(4), 1, 4)
    local n = ((a * 256 + b) * 256 + c) * 256 + d
    return n < 2147483648 and n or n - 4294967296
end

function Reader:long_hex()
    return to_hex(self:take(8))
end

-- Reads milliseconds since 1970, which fit into a double.
function Reader:long_number()
    local high = self:int()
    local low = self:int()
    return high * 4294967296 + (low < 0 and low + 4294967296 or low)
end

-- nil is sent as the length -1.
function Reader:text()
    local length = self:int()
    return length >= 0 and self:take(length) or nil
end

function Reader:stat()
    local stat = {}
    stat.czxid = self:long_hex()
    stat.mzxid = self:long_hex()
    stat.ctime = self:long_number()
    stat.mtime = self:long_number()
    stat.version = self:int()
    stat.cversion = self:int()
    stat.aversion = self:int()
    stat.ephemeralOwner = self:long_hex()
    stat.dataLength = self:int()
    stat.numChildren = self:int()
    stat.pzxid = self:long_hex()
    return stat
end

-- Connection ------------------------------------------------------------------------------------------------------

local NO_SESSION = ("0"):rep(16)
local NO_PASSWORD = ("\0"):rep(16)

local function close_socket(self)
    if self.socket then
        self.socket:close()
        self.socket = nil
    end
end

local function receive_frame(self, deadline)
    self.socket:settimeout(math.max(0, deadline - socket.gettime()))
    local header = self.socket:receive(4)
    local frame = header and self.socket:receive(reader(header):int())
    if not frame then
        close_socket(self)
        return nil, "connection_loss"
    end
    return reader(frame)
end

local function send_frame(self, body)
    if not self.socket:send(text(body)) then
        close_socket(self)
        return nil, "connection_loss"
    end
    return true
end

-- Tries once to connect to one server, with the present session or for a new one.
local function greet(self, address, deadline)
    local host, port = address:match("^(.*):(%d+)$")
    self.socket = socket.tcp()
    self.socket:settimeout(math.max(0, deadline - socket.gettime()))
    if not self.socket:connect(host, tonumber(port)) then
        close_socket(self)
        return nil, "connection_loss"
    end
    self.socket:setoption("tcp-nodelay", true)
    local ok, problem = send_frame(self, int(0) .. int(0) .. int(0) .. int(self.timeout_ms) .. id_bytes(self.session_id)
        .. text(self.password))
    local reply
    if ok then
        reply, problem = receive_frame(self, deadline)
    end
    if not reply then
        return nil, problem
    end
    reply:int()
    local timeout = reply:int()
    local id = reply:long_hex()
    local password = reply:text()
    if id == NO_SESSION or timeout <= 0 then
        close_socket(self)
        self.session_id, self.password = NO_SESSION, NO_PASSWORD
        return nil, "session_expired"
    end
    self.negotiated_ms, self.session_id, self.password = timeout, id, password
    return true
end

-- Tries the servers in turn until one accepts the session.
local function ensure_connected(self)
    local deadline = socket.gettime() + CONNECTING
    while not self.socket do
        for _, address in ipairs(self.addresses) do
            local ok, problem = greet(self, address, math.min(deadline, socket.gettime() + CONNECTING / 4))
            if ok or problem == "session_expired" and (not self.renews or self.owns) then
                return ok, problem
            end
        end
        if socket.gettime() >= deadline then
            return nil, "connection_loss"
        end
        socket.sleep(0.02)
    end
    return true
end

-- Returns true if the server has closed the connection. A packet that the server sent unasked is thrown away.
local function is_stale(self)
    local ready = socket.select({self.socket}, nil, 0)
    if not ready[1] then
        return false
    end
    local frame = receive_frame(self, socket.gettime() + PATIENCE)
    return not frame
end

-- Sends a request and returns a reader for the data after the reply's header.
local function call_once(self, code, body, xid)
    local ok, problem = ensure_connected(self)
    if not ok then
        return nil, problem
    end
    ok, problem = send_frame(self, int(xid) .. int(code) .. body)
    if not ok then
        return nil, problem
    end
    local deadline = socket.gettime() + PATIENCE
    while true do
        local reply
        reply, problem = receive_frame(self, deadline)
        if not reply then
            return nil, problem
        end
        local reply_xid = reply:int()
        reply:take(8)
        local code_of_error = reply:int()
        if reply_xid == xid then
            if code_of_error ~= 0 then
                return nil, ERRORS[code_of_error] or ("error_" .. code_of_error)
            end
            return reply
        end
    end
end

local function call(self, name, body, may_repeat)
    if self.closed then
        error("this client is closed", 3)
    end
    if self.socket and is_stale(self) then
        close_socket(self)
    end
    self.xid = self.xid + 1
    local xid = name == "ping" and PING_XID or self.xid
    local reply, problem = call_once(self, OPERATION[name], body, xid)
    if not reply and problem == "connection_loss" and may_repeat then
        reply, problem = call_once(self, OPERATION[name], body, xid)
    end
    return reply, problem
end

local function new(servers, timeout_ms, id, password)
    local self = setmetatable({addresses = {}, timeout_ms = timeout_ms or DEFAULT_TIMEOUT_MS, xid = 0,
                               session_id = id or NO_SESSION, password = password or NO_PASSWORD}, Client)
    for address in servers:gmatch("[^,]+") do
        self.addresses[#self.addresses + 1] = address
    end
    local ok, problem = ensure_connected(self)
    if not ok then
        return nil, problem
    end
    return self
end

-- Connects to "host:port,host:port" with a new session. The client has the fields session_id (hex) and negotiated_ms. `renews`:
-- when the session has expired, the next call gets another one and goes on, instead of failing. It fails if the client has created
-- ephemeral nodes since the field `owns` was cleared.
function zk.connect(servers, timeout_ms, renews)
    local self, problem = new(servers, timeout_ms)
    if self then
        self.renews = renews
    end
    return self, problem
end

-- Operations ------------------------------------------------------------------------------------------------------

local OPEN_ACL = int(1) .. int(31) .. text("world") .. text("anyone")

-- Creates a node that is open to every client. Returns its path, with the number if it is sequential, and its stat.
-- options: ephemeral, sequential, container; all false if left out.
function Client:create(path, data, options)
    options = options or {}
    local flags = (options.ephemeral and FLAGS.ephemeral or 0) + (options.sequential and FLAGS.sequential or 0)
    local name = "create2"
    if options.container then
        assert(flags == 0, "a container is neither ephemeral nor sequential")
        name, flags = "create_container", FLAGS.container
    end
    local reply, problem = call(self, name, text(path) .. text(data or "") .. OPEN_ACL .. int(flags))
    if not reply then
        return nil, problem
    end
    self.owns = self.owns or options.ephemeral
    local created = reply:text()
    return created, reply:stat()
end

-- Deletes a node, whatever its version.
function Client:delete(path)
    local reply, problem = call(self, "delete", text(path) .. int(-1))
    if not reply then
        return nil, problem
    end
    return true
end

-- Returns the stat of a node; nil and "no_node" if there is none.
function Client:exists(path)
    local reply, problem = call(self, "exists", text(path) .. "\0", true)
    if not reply then
        return nil, problem
    end
    return reply:stat()
end

-- Returns the data of a node and its stat.
function Client:get(path)
    local reply, problem = call(self, "get", text(path) .. "\0", true)
    if not reply then
        return nil, problem
    end
    local data = reply:text() or ""
    return data, reply:stat()
end

-- Writes the data, whatever the version, and returns the new stat.
function Client:set(path, data)
    local reply, problem = call(self, "set", text(path) .. text(data) .. int(-1))
    if not reply then
        return nil, problem
    end
    return reply:stat()
end

-- Returns the names of the children, sorted as text.
function Client:children(path)
    local reply, problem = call(self, "children", text(path) .. "\0", true)
    if not reply then
        return nil, problem
    end
    local names = {}
    for i = 1, reply:int() do
        names[i] = reply:text()
    end
    table.sort(names)
    return names
end

-- Makes this client's server see every write made before this call.
function Client:sync(path)
    local reply, problem = call(self, "sync", text(path or "/"), true)
    if not reply then
        return nil, problem
    end
    return true
end

-- Keeps the session alive.
function Client:ping()
    local reply, problem = call(self, "ping", "", true)
    if not reply then
        return nil, problem
    end
    return true
end

-- Ends the session with its ephemeral nodes, and the connection. Returns true if the server confirmed it.
function Client:close()
    if self.closed then
        return true
    end
    local reply = call(self, "close", "")
    self.closed = true
    close_socket(self)
    return reply ~= nil
end

-- Closes the connection without ending the session, which stays until it expires or the next call reconnects.
function Client:disconnect()
    close_socket(self)
end

-- Ending other clients' sessions ----------------------------------------------------------------------------------
-- A session can be used by any client that knows its id and its password. So this client connects to the session of its victim and
-- closes it. The servers end the session as if it had expired, and delete its ephemeral nodes at once. The victim is notified when
-- it reconnects.

-- Ends the session with this id (hexadecimal) and password (32 hexadecimal digits). The victim's client knows both, and a proxy
-- between sees both. Returns nil and "session_expired" if there is no such session or the password is wrong.
function zk.close_session(servers, id_hex, password_hex)
    local victim, problem = new(servers, nil, to_hex(id_bytes(id_hex)), from_hex(password_hex))
    if not victim then
        return nil, problem
    end
    return victim:close() or nil, "connection_loss"
end

-- Returns the low 48 bits of a * b + c. Each number is given as two halves of 24 bits, since doubles hold no more.
local function multiply_add(a_high, a_low, b_high, b_low, c)
    local low = a_low * b_low + c
    local high = a_high * b_low % 16777216 + a_low * b_high % 16777216 + floor(low / 16777216)
    return high % 16777216, low % 16777216
end

local function xor(a, b)
    local result, bit = 0, 1
    while a > 0 or b > 0 do
        if a % 2 ~= b % 2 then
            result = result + bit
        end
        a, b, bit = floor(a / 2), floor(b / 2), bit * 2
    end
    return result
end

-- Returns the password that a server of Apache ZooKeeper gives to a session: 16 bytes of java.util.Random, a 48-bit linear
-- congruential generator, seeded with the id and a constant that is the same everywhere.
function zk.password_of(id_hex)
    local bytes = {byte(id_bytes(id_hex), 3, 8)}
    local high = (bytes[1] * 256 + bytes[2]) * 256 + bytes[3]
    local low = (bytes[4] * 256 + bytes[5]) * 256 + bytes[6]
    -- The servers' constant, then the scrambling of java.util.Random with its own multiplier.
    high, low = xor(high, 0x0000B3), xor(low, 0x415C00)
    high, low = xor(high, 0x0005DE), xor(low, 0xECE66D)
    local digits = {}
    for _ = 1, 4 do
        high, low = multiply_add(high, low, 0x0005DE, 0xECE66D, 0xB)
        -- The upper 32 of the 48 bits, lowest byte first.
        digits[#digits + 1] = ("%02x%02x%02x%02x"):format(floor(low / 65536), high % 256, floor(high / 256) % 256,
            floor(high / 65536))
    end
    return table.concat(digits)
end

-- Ends the session with this id, e.g. the ephemeralOwner of a node, without knowing its password.
function zk.kill_session(servers, id_hex)
    return zk.close_session(servers, id_hex, zk.password_of(id_hex))
end

-- Does the same through the servers that this client knows.
function Client:kill_session(id_hex)
    return zk.kill_session(table.concat(self.addresses, ","), id_hex)
end

return zk
