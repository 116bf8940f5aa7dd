--- zklock: a distributed lock over ZooKeeper.
--
-- This module opens clients. A client (`Client`) is one ZooKeeper session and makes locks (`Lock`). The adapter
-- (`zklock.adapters`) determines the event loop in which waits are suspended.
--
-- There are two kinds of failure. A caller's mistake (a wrong type, an unknown option, a bad path) raises at the caller's line.
-- Everything else is returned as `nil, message, code`. The message is for people. The code, from a fixed set, is for programs.

-- Lua 5.1 and LuaJIT mark a module that is being loaded, by a userdata, which LuaJIT takes for a number. If an error such as Ctrl-C
-- interrupts that, the mark would stay, and the module could not be loaded again.
local function unmark(name)
    local kind = type(package.loaded[name])
    if kind == "userdata" or kind == "number" then
        package.loaded[name] = nil
    end
end

unmark "zklock"
for name in pairs(package.loaded) do
    if name:find "^zklock%." then
        unmark(name)
    end
end

local core = require "zklock.core"
local adapters = require "zklock.adapters"
local Client = require "zklock.client"
local options = require "zklock.options"
local shared = require "zklock.shared"

local error, pairs, tostring, type = error, pairs, tostring, type
local concat, sort = table.concat, table.sort
local floor, max = math.floor, math.max

---@class zklock
---@field VERSION string "MAJOR.MINOR.PATCH"
local zklock = { VERSION = require "zklock.version" }

--- The code of a failure: the third result of every function that can fail at run time.
---@alias zklock.Code
---| "timeout" # the time is up, or it was a try: other contenders have the lock, or there was no answer
---| "disconnected" # no connection to ZooKeeper within the time; a write to a node may or may not have been executed
---| "lost" # the lock was held and no longer is; of a watch: its session is over
---| "max_hold" # to on_lost only: the lock was held for as long as max_hold allows
---| "not_held" # release of a lock that is not held, or is held by another coroutine only
---| "deadlock" # this coroutine holds, or is acquiring, by this object already, or would wait for itself
---| "cancelled" # the wait was ended by cancel
---| "closed" # the client was closed
---| "mismatch" # the semaphore was made for another number of permits, or the latch for another count
---| "no_auth" # the ACL forbids the operation
---| "auth_failed" # ZooKeeper refused the credentials
---| "tls_failed" # a TLS handshake failed, a certificate is not accepted, or a file of the option tls cannot be used
---| "no_node" # the node, or the chroot of the server list, does not exist
---| "node_exists" # the node exists already
---| "bad_version" # the node has another version
---| "not_empty" # the node has children
---| "exhausted" # the directory's sequence numbers are used up, or the servers have given a number twice
---| "forked" # the client belongs to the parent process
---| "unsupported" # TLS: there is no OpenSSL; a callback: nginx runs with lua_code_cache off
---| "phase" # the event loop's adapter cannot wait where the call was made
---| "failed" # anything else; the message says what

--- An entry of an ACL.
---@class zklock.AclEntry
---@field scheme string "world", "auth", "digest", "ip", …
---@field id string
---@field perms string|integer letters of "crwda", or their bits, 1 to 31

--- "open": every client may do anything. "creator": only clients with the same `auth`. "read": every client may read.
---@alias zklock.Acl "open"|"creator"|"read"|zklock.AclEntry[]

--- A credential.
---@class zklock.AuthEntry
---@field scheme string "digest"
---@field credential string "user:password"

--- The option `tls` of zklock.connect (docs/security.md). The files are read for each connection.
---@class zklock.TlsSettings
---@field ca_file? string file in PEM: the authorities whose certificates a server may have; default: those of the system
---@field ca_path? string directory of such files, as of `openssl rehash`
---@field cert_file? string file in PEM: this client's certificate, with the chain behind it
---@field key_file? string file in PEM: its key; default: cert_file
---@field key_password? string of the key
-- the name that the certificates of all servers must have; default: each server's name or address in the list of servers
---@field server_name? string
---@field verify? boolean false: every certificate of a server is accepted; default: true
---@field min_version? "1.2"|"1.3" default: "1.2"
---@field ciphers? string names of OpenSSL's, separated by colons; default: OpenSSL's

---@class zklock.ConnectOptions
-- seconds, 0.1 to 86400, default 10: the session timeout that is requested from the server. If this process crashes, its locks are
-- freed this long after the server last received anything from it. The server may grant another timeout
-- (`Client:session_timeout`).
---@field session_timeout? number
---@field connect_timeout? number seconds, 0 or more; default: 5
-- the event loop to wait in: "auto" (the default), the name of an adapter, or a table (see `zklock.adapters`)
---@field wait? "auto"|"blocking"|"openresty"|"cqueues"|"luv"|"copas"|zklock.Adapter
---@field auth? zklock.AuthEntry[]
---@field acl? zklock.Acl of the nodes that locks and client:create create; default: "open"
---@field identity? string the data of the client's nodes, which other clients see, 1 to 1024 bytes; default: "host:pid"
---@field lease? boolean false: only the server decides whether a lock is held (docs/good-to-know.md); default: true
-- Without it only errors of callbacks are reported: to nginx's error log, elsewhere to stderr.
---@field log? fun(level: "error"|"warn"|"info"|"debug", message: string)
---@field tls? zklock.TlsSettings connects by TLS only; {}: with the authorities of the system
-- true: connects also to the servers that the ensemble's dynamic configuration names, and learns of its changes. With `tls` these
-- are connected to at the port of the list of servers, which must be the same for all; default: false (docs/operate/runbook.md)
---@field follow? boolean

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
    tls = { options.tls },
    follow = { options.boolean, false }
}

--- Adds the machine's configuration to a program's settings, which come first.
---@param settings? table
---@return table? # the settings; nil: the configuration cannot be used
---@return string # the servers; or what is wrong
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
        or read.follow and read.tls and options.ports_problem((options.servers(servers)))
    if wrong then
        return nil, wrong
    end
    return read, servers
end

--- Returns a value that a check has returned. Raises at the caller of the function `called`, which calls open, if there is none.
local function checked(called, value, wrong)
    if not value then
        error(called .. wrong, 4)
    end
    return value
end

--- The part that connect and shared have in common. Wrong arguments raise in the name of the function `called`, at the caller of
-- that function, so open must not be called in a tail call (return).
local function open(called, servers, settings)
    if servers == nil then
        checked(called, options.read(settings, CONNECT_SCHEMA))
        settings, servers = configured(settings)
        if not settings then
            return nil, servers, "failed"
        end
    end
    local normal_servers = checked(called, options.servers(servers))
    settings = checked(called, options.read(settings, CONNECT_SCHEMA))
    local adapter = checked(called, adapters.find(settings.wait))
    local known = settings.auth or settings.tls and settings.tls.cert_file
    local wrong = settings.follow and settings.tls and options.ports_problem(normal_servers)
        or options.creator_problem(settings.acl, known, "without the option auth or tls.cert_file")
    checked(called, not wrong, wrong)
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
        follow = settings.follow,
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
-- Without servers, all settings that the program does not give are those of the machine, as for the command `zklock`: the
-- environment (ZKLOCK_SERVERS …), then ~/.config/zklock.lua, then /etc/zklock.lua (docs/command.md). With servers, nothing of that
-- is read.
--
---@param servers? string "host:2181,host:2181/chroot". The chroot stands once, at the end, and has no comma; an IPv6 address
--   stands in brackets. nil: those of the machine's configuration
---@param settings? zklock.ConnectOptions
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code "disconnected" (no server answered, or not as ZooKeeper does), "no_node" (the chroot does not
--   exist), "auth_failed", "tls_failed" (the handshake, a certificate or a file), "unsupported" (there is no OpenSSL), "phase",
--   "failed" (also: there is no configuration, or it cannot be used)
function zklock.connect(servers, settings)
    local client, message, code = open("zklock.connect: ", servers, settings)
    if not client then
        shared.connect_failures[code] = (shared.connect_failures[code] or 0) + 1
    end
    return client, message, code
end

--- Returns the path of a key below a prefix, for a separate lock: `client:mutex(zklock.path("/locks/file", name))`.
--
-- Any string is a key. Letters, digits and `_ - . ~` stay. Every other byte becomes `%` and two hexadecimal digits. "." and
-- ".." are written that way too, and the empty key is "%". If a key could be taken for a node of a lock at the prefix, such as
-- "import-lock-0000000002" or "leases", its last character is written that way. Different keys give different paths.
--
-- Keys that would take more than 200 bytes keep their beginning, followed by "%-" and the SHA-256 of the whole key. No two
-- strings with the same SHA-256 are known, and no way to find such strings. Even then the two keys would only make each other
-- wait.
--
-- The prefix may be the path of a lock. Neither blocks the other.
--
---@param prefix string a path like "/locks/file"
---@param key string
---@return string path "/locks/file/…"
function zklock.path(prefix, key)
    local path, wrong = require "zklock.key"(prefix, key)
    if not path then
        error("zklock.path: " .. wrong, 2)
    end
    return path
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
        text = secret and require "zklock.sha256"(text) or text
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
---@param servers? string as of connect
---@param settings? zklock.ConnectOptions as of connect, except that `connect_timeout` is ignored. Different options make a
--   different client, except functions and `wait`: `log` and `wait` are those of the first caller
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code as of connect
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
