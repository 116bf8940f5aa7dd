--- zklock: a distributed lock over ZooKeeper.
--
-- This module opens clients. A client (`Client`) is one ZooKeeper session and makes locks (`Lock`). Which
-- event loop waits are suspended in is the adapter's business (`zklock.adapters`).
--
-- Two kinds of failure: a caller's mistake (a wrong type, an unknown option, a bad path) raises at the caller's line;
-- everything else is returned as `nil, message, code`, where the message is for people and the code, one of a fixed
-- set, for programs.

local core = require "zklock.core"
local adapters = require "zklock.adapters"
local Client = require "zklock.client"
local key_path = require "zklock.key"
local options = require "zklock.options"
local sha256 = require "zklock.sha256"

local error, pairs, tostring, type = error, pairs, tostring, type
local concat, sort = table.concat, table.sort
local floor, max = math.floor, math.max

local zklock = {
    --- The version of the Lua side and the C side alike.
    VERSION = "0.1.0",
    --- A safe path for any key: `zklock.path(prefix, key)`; see zklock/key.lua.
    path = key_path
}

--- What connect knows. `{ check, default }`.
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

--- What connect and shared do; what is wrong with the arguments it raises in the name of the one that was called, at that one's
-- caller, and so is not to be called in a return.
local function open(called, servers, settings)
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
    if settings.acl == "creator" and not settings.auth then
        error(called .. "option 'acl' must not be \"creator\" without the option auth", 3)
    end
    if settings.tls then
        return nil, core.features().tls and "zklock does not use the ZooKeeper C client's TLS yet" or
            "the ZooKeeper C client here was built without TLS", "unsupported"
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
        log = settings.log ~= nil
    })
    if not handle then
        return nil, message, code
    end
    settings.identity = settings.identity or core.default_identity()
    local client = Client.new(handle, normal_servers, adapter, settings)
    if settings.connect_timeout == 0 then
        return client
    end
    local connected
    connected, message, code = client:_await_connection(settings.connect_timeout)
    if not connected then
        return nil, message, code
    end
    return client
end

--- Opens a client: one session with ZooKeeper, kept up in the background, reopened when it expires.
--
-- Waits until there is a session, unless `connect_timeout` is 0: then the client comes back at once in state
-- "connecting", and whatever needs a connection waits for one within its own timeout. When connect fails, nothing stays
-- open.
--
-- Options:
--   * `session_timeout` seconds, 0.1 to 86400, 10 unless given: what to ask the server for. After a crash of this process
--     its locks are freed this long after its last sign of life; the server may decide otherwise
--     (`Client:session_timeout`).
--   * `connect_timeout` seconds, 0 or more, 5 unless given.
--   * `wait` the event loop to wait in: "auto", the name of an adapter, or a table (see `zklock.adapters`).
--   * `auth` list of `{scheme = "digest", credential = "user:password"}`.
--   * `acl` of what the client's locks create: "open" (unless given: anybody may do anything), "creator" (only who
--     shows the same `auth`), "read" (anybody may read), or a list of `{scheme =, id =, perms = "crwda"}`.
--   * `identity` what the client's nodes say to others: "host:pid" unless given.
--   * `lease` true unless given; false trusts the server's word alone that a lock is held (see the README).
--   * `log` function(level, message) with level "error", "warn", "info" or "debug": nothing is logged anywhere else.
--   * `tls` table: answered with the code "unsupported"; Debian's C client is built without TLS.
--
-- @tparam string servers "host:2181,host:2181/chroot"
-- @tparam table|nil settings
-- @treturn Client|nil
-- @treturn string|nil message
-- @treturn string|nil code: "disconnected" (nobody answered, or not as ZooKeeper does), "no_node" (the chroot does not
--   exist), "auth_failed", "unsupported", "phase", "failed"
-- @raise when servers or an option is malformed
function zklock.connect(servers, settings)
    local client, message, code = open("zklock.connect: ", servers, settings)
    return client, message, code
end

--- Clients that are shared: what they were asked for -> client.
local shared = {}

--- How deep tables lie in each other in options: { auth = { { scheme = } } }. What lies deeper, or in itself, open refuses.
local DEEPEST = 3

--- What tells two wishes for a client apart, as text that lives as long as the Lua state does. Functions do not count: one that
-- is written where zklock.shared is called is a new one each time. Of credentials it has the hash.
local function fingerprint(value, secret, depth)
    local kind = type(value)
    if kind == "function" or depth > DEEPEST then
        return kind
    elseif kind ~= "table" then
        local text = tostring(value)
        return kind .. ":" .. (secret and sha256(text) or text)
    end
    local parts = {}
    for name, field in pairs(value) do
        parts[#parts + 1] = ("%s=%s"):format(tostring(name), fingerprint(field, secret or name == "auth", depth + 1))
    end
    sort(parts, options.precedes)
    return "{" .. concat(parts, ",") .. "}"
end

--- Gives the one client that this Lua state (in nginx: this worker) has for a server list and options; opens it at the first
-- call, and again when it was closed or belongs to a parent process. Does not wait: the client may be in state "connecting",
-- and whatever needs a connection waits for one within its own timeout.
--
-- @tparam string servers as of connect
-- @tparam table|nil settings as of connect, but that `connect_timeout` does not count. Other options make another client, but
--   for functions: `log`, and a table for `wait`, are the first caller's
-- @treturn Client|nil
-- @treturn string|nil message
-- @treturn string|nil code as of connect
-- @raise when servers or an option is malformed
function zklock.shared(servers, settings)
    local wanted = {}
    for name, value in pairs(type(settings) == "table" and settings or {}) do
        wanted[name] = value
    end
    wanted.connect_timeout, wanted.wait = nil, nil
    local key = tostring(servers) .. " " .. fingerprint(wanted, false, 0)
    local client = shared[key]
    local state = client and client:state()
    if state and state ~= "closed" and not client._closing then
        return client
    end
    if type(settings) == "table" or settings == nil then
        wanted.connect_timeout, wanted.wait = 0, settings and settings.wait
        settings = wanted
    end
    local message, code
    client, message, code = open("zklock.shared: ", servers, settings)
    shared[key] = client
    return client, message, code
end

return zklock
