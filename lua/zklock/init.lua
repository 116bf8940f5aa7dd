--- zklock: a distributed lock over ZooKeeper.
--
-- This module opens clients. A client (`Client`) is one ZooKeeper session and makes locks (`Lock`). The adapter
-- (`zklock.adapters`) determines the event loop in which waits are suspended.
--
-- There are two kinds of failure. A caller's mistake (a wrong type, an unknown option, a bad path) raises at the caller's line.
-- Everything else is returned as `nil, message, code`. The message is for people. The code, from a fixed set, is for programs.

local core = require "zklock.core"
local adapters = require "zklock.adapters"
local Client = require "zklock.client"
local key_path = require "zklock.key"
local options = require "zklock.options"
local sha256 = require "zklock.sha256"
local shared = require "zklock.shared"

local error, pairs, tostring, type = error, pairs, tostring, type
local concat, sort = table.concat, table.sort
local floor, max = math.floor, math.max

local zklock = {
    --- The version, "MAJOR.MINOR.PATCH".
    VERSION = require "zklock.version",
    --- A safe path for any key: `zklock.path(prefix, key)`; see zklock/key.lua.
    path = key_path
}

--- The settings of connect: `{ check, default }`.
local CONNECT_SCHEMA = {
    session_timeout = { options.session_timeout, 10 },
    connect_timeout = { options.timeout, 5 },
    wait = { options.adapter, "auto" },
    auth = { options.auth },
    acl = { options.acl, "open" },
    identity = { options.identity },
    lease = { options.boolean, true },
    log = { options.callback },
    tls = { options.tls }
}

--- Adds the machine's configuration to a program's settings, which come first.
-- @tparam table|nil settings
-- @treturn table|nil the settings; nil: the configuration cannot be used
-- @treturn string the servers; or what is wrong
local function configured(settings)
    local read, wrong = require("zklock.configuration").read({}, "name them in the program")
    if not read then
        return nil, wrong
    end
    local servers = read.servers
    read.servers = nil
    for name, value in pairs(settings or {}) do
        read[name] = value
    end
    local known = read.auth or type(read.tls) == "table" and read.tls.cert_file
    wrong = (settings or {}).acl == nil and options.creator_problem(read.acl, known, "without credentials")
    if wrong then
        return nil, wrong
    end
    return read, servers
end

--- The part that connect and shared have in common. Wrong arguments raise in the name of the function `called`, at the caller of
-- that function, so open must not be called in a tail call (return).
local function open(called, servers, settings)
    if servers == nil then
        local fits, wrong = options.read(settings, CONNECT_SCHEMA)
        if not fits then
            error(called .. wrong, 3)
        end
        settings, servers = configured(settings)
        if not settings then
            return nil, servers, "failed"
        end
    end
    local normal_servers, wrong = options.servers(servers)
    if not normal_servers then
        error(called .. wrong, 3)
    end
    settings, wrong = options.read(settings, CONNECT_SCHEMA)
    if not settings then
        error(called .. wrong, 3)
    end
    local adapter
    adapter, wrong = adapters.find(settings.wait)
    if not adapter then
        error(called .. wrong, 3)
    end
    local known = settings.auth or settings.tls and settings.tls.cert_file
    wrong = options.creator_problem(settings.acl, known, "without the option auth or tls.cert_file")
    if wrong then
        error(called .. wrong, 3)
    end
    local able, message, code = true
    if adapter.prepare then
        able, message, code = adapter.prepare(settings)
    end
    if not able then
        return nil, message, code
    end
    local handle
    handle, message, code = core.open(normal_servers, {
        session_timeout = max(1, floor(settings.session_timeout * 1000)),
        lease = settings.lease,
        auth = settings.auth or {},
        log = settings.log ~= nil,
        tls = settings.tls
    })
    if not handle then
        return nil, message, code
    end
    settings.identity = settings.identity or core.default_identity()
    local client = Client.new(handle, normal_servers, adapter, settings)
    local host = settings.auth and settings.auth[1] and not settings.tls and options.remote_host(normal_servers)
    if host then
        client:say("warn", ("the credentials go to '%s' unencrypted: everyone on the way can read them; use the option tls")
            :format(host))
    end
    if settings.connect_timeout == 0 then
        return client
    end
    local connected
    connected, message, code = client:await_connection(settings.connect_timeout)
    if not connected then
        return nil, message, code
    end
    return client
end

--- Opens a client: one session with ZooKeeper, which is maintained in the background and reopened when it expires.
--
-- Waits until there is a session, unless `connect_timeout` is 0. With 0 the client is returned at once in state "connecting",
-- and each operation that needs a connection waits for it within its timeout. When connect fails, nothing stays open.
--
-- Options:
--   * `session_timeout` seconds, 0.1 to 86400, default 10: the session timeout that is requested from the server. If this
--     process crashes, its locks are freed this long after the server last received anything from it. The server may grant
--     another timeout (`Client:session_timeout`).
--   * `connect_timeout` seconds, 0 or more, default 5.
--   * `wait` the event loop to wait in: "auto", the name of an adapter, or a table (see `zklock.adapters`).
--   * `auth` list of `{scheme = "digest", credential = "user:password"}`.
--   * `acl` of the nodes that the client's locks create: "open" (default: every client may do everything), "creator" (only
--     clients with the same `auth`), "read" (every client may read), or a list of `{scheme =, id =, perms = "crwda"}`.
--   * `identity` the data of the client's nodes, which other clients see: default "host:pid".
--   * `lease` default true; false: only the server decides whether a lock is held (docs/good-to-know.md).
--   * `log` function(level, message) with level "error", "warn", "info" or "debug". Without `log` only errors of
--     callbacks are reported: to nginx's error log, elsewhere to stderr.
--   * `tls` table: connects by TLS only (docs/security.md). `ca_file` and `ca_path`: the authorities whose certificates a server
--     may have, a file in PEM or a directory as of `openssl rehash`; without both, those of the system. `cert_file`, `key_file`
--     (default: `cert_file`) and `key_password`: this client's certificate. `server_name`: the name that the certificates of
--     all servers must have; default: each server's name or address in `servers`. `verify` default true; false accepts every
--     certificate. `min_version` "1.2" (default) or "1.3". `ciphers` names of OpenSSL's, separated by colons. The files are
--     read for each connection.
--
-- Without servers, all settings that the program does not give are those of the machine, as for the command `zklock`: the
-- environment (ZKLOCK_SERVERS …), then ~/.config/zklock.lua, then /etc/zklock.lua (docs/command.md). With servers, nothing of that
-- is read.
--
-- @tparam string|nil servers "host:2181,host:2181/chroot". The chroot stands once, at the end, and has no comma; an IPv6 address
--   stands in brackets. nil: those of the machine's configuration
-- @tparam table|nil settings
-- @treturn Client|nil
-- @treturn string|nil message
-- @treturn string|nil code: "disconnected" (no server answered, or not as ZooKeeper does), "no_node" (the chroot does not
--   exist), "auth_failed", "tls_failed" (the handshake, a certificate or a file), "unsupported" (there is no OpenSSL), "phase",
--   "failed" (also: there is no configuration, or it cannot be used)
-- @raise when servers or an option is malformed
function zklock.connect(servers, settings)
    local client, message, code = open("zklock.connect: ", servers, settings)
    return client, message, code
end

--- The options whose strings are kept only as hashes.
local SECRET = { auth = true, key_password = true }

--- How deep tables are nested in options: { auth = { { scheme = } } }. `open` refuses tables that are nested more deeply or
-- contain themselves.
local DEEPEST = 3

--- Returns the text of a number: two numbers that differ have different texts, and 1 and 1.0, which are equal, the same.
local function exact(value)
    return ("%.17g"):format(value)
end

--- Returns a text by which options for a client are compared. The text may be kept as long as the Lua state. Functions do not
-- count, because a function expression in the call of zklock.shared makes a new function each time. Credentials are only
-- hashed.
local function fingerprint(value, secret, depth)
    local kind = type(value)
    if kind == "function" or depth > DEEPEST then
        return kind .. ";"
    elseif kind ~= "table" then
        local text = kind == "number" and exact(value) or tostring(value)
        text = secret and sha256(text) or text
        return ("%s:%d:%s;"):format(kind, #text, text) -- with its length, so that no other value has the same text
    end
    local parts = {}
    for name, field in pairs(value) do
        parts[#parts + 1] = fingerprint(name, false, depth) .. fingerprint(field, secret or SECRET[name], depth + 1)
    end
    sort(parts, options.precedes)
    return "{" .. concat(parts) .. "}"
end

--- Server list -> the latest client of zklock.shared, as a memo of its options (options.remember).
local latest = {}

--- Stands for the servers of the machine's configuration, which is read when a client is opened, and not before.
local CONFIGURED = {}

--- Options that do not make a different client.
local UNCOUNTED = { connect_timeout = true, wait = true }

--- Returns the only client that this Lua state (in nginx: this worker) has for a server list and options. Opens it at the first
-- call, and again when it was closed or belongs to a parent process. Does not wait: the client may be in state "connecting",
-- and each operation that needs a connection waits for it within its timeout.
--
-- @tparam string|nil servers as of connect
-- @tparam table|nil settings as of connect, except that `connect_timeout` is ignored. Different options make a different
--   client, except functions and `wait`: `log` and `wait` are those of the first caller
-- @treturn Client|nil
-- @treturn string|nil message
-- @treturn string|nil code as of connect
-- @raise when servers or an option is malformed
function zklock.shared(servers, settings)
    local which = servers == nil and CONFIGURED or servers
    local client = type(settings) == "table" and options.recall(latest[which], settings, UNCOUNTED)
    if client and shared.is_open(client) then
        return client
    end
    local wanted = {}
    for name, value in pairs(type(settings) == "table" and settings or {}) do
        wanted[name] = value
    end
    wanted.connect_timeout, wanted.wait = nil, nil
    local key = fingerprint(servers, false, 0) .. fingerprint(wanted, false, 0)
    client = shared.clients[key]
    if shared.is_open(client) then
        latest[which] = options.remember(wanted, client, UNCOUNTED)
        return client
    end
    if type(settings) == "table" or settings == nil then
        wanted.connect_timeout, wanted.wait = 0, settings and settings.wait
        settings = wanted
    end
    local message, code
    client, message, code = open("zklock.shared: ", servers, settings)
    shared.clients[key] = client
    return client, message, code
end

return zklock
