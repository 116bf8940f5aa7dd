--- inspect: the locks of a directory, as any client can see them: kind, holders, queue, sessions, strays.
--
-- For the command `zklock`, for dashboards and other programs. Reads only, and prints nothing. A function that sends requests
-- suspends its coroutine in an event loop and in nginx, and blocks a plain program. Only inspect.sessions blocks everywhere. A
-- result shows a moment that has passed: it is for people, not for decisions.
--
-- The clock: ages are computed by the reader. inspect.now corrects a local clock that is behind.

local core = require "zklock.core"
local node = require "zklock.node"
local options = require "zklock.options"
local Reading = require "zklock.inspect.reading"
local Reads = require "zklock.inspect.reads"
local Watcher = require "zklock.inspect.watcher"
local words = require "zklock.inspect.words"

local error, ipairs, max, os, pairs, sort, type = error, ipairs, math.max, os, pairs, table.sort, type
local format = string.format

--- A holder or waiter of a lock, as any client can see it.
---@class zklock.inspect.Contender
---@field name string of its node
---@field node string the path of its node
---@field mode "exclusive"|"shared"|"lease" "lease": a permit
---@field sequence integer
---@field holder boolean the head of a semaphore's queue creates its permits before it holds; until then they are no holders
---@field ahead integer how many contenders it waits for. Permits are not counted
---@field waits_for? string the path of the nearest contender that it waits for
---@field library string "zklock or Curator", "go-zookeeper", "kazoo", "zk-ruby", "ZooKeeper recipe", by its name
---@field identity? string the node's data, "" if its client writes none; nil: not read, or may not be read
-- true: another client has asked it to release. The request replaces the identity, which a holder of zklock with on_revoke writes
-- again. Of other holders the identity is nil then
---@field revoked? boolean
-- when its node was created, in seconds since 1970 by the servers' clock. A zklock node serves several acquisitions of a client,
-- one after the other, so a lock may be held for a shorter time.
---@field since? number
---@field session? string id, 16 hexadecimal digits; nil: not read, or the node is persistent
---@field persistent? boolean true: the node is persistent. No session will ever delete it: it is a stray
---@field session_state? "connected"|"disconnected"|"gone"|"unknown" only after inspect.join_sessions, as the next three
---@field address? string of its client
---@field session_timeout? number seconds
---@field released? boolean true: its session is gone, and its node too

--- The state of a lock.
---@class zklock.inspect.State
---@field path string
-- "none": not a lock. A free lock is an empty node that has had children, as a lock without contenders leaves it. A read/write lock
-- looks like a mutex while only mutexes use its path.
---@field kind "mutex"|"rwlock"|"semaphore"|"latch"|"free"|"none"
---@field contenders zklock.inspect.Contender[] in queue order. A semaphore's permits come before its queue
---@field holders integer of a semaphore: permits
---@field waiters integer of a semaphore: acquisitions
---@field others string[] the names of children that belong to no lock, sorted
---@field limit? integer of a semaphore, if it is written there
---@field resized? boolean of a semaphore: the limit was changed, and counts whatever number programs name
---@field count? integer of a latch
---@field left? integer of a latch
---@field next_sequence? integer the number that the next contender gets, of the directory with the queue
---@field created number seconds since 1970, by the servers' clock

--- The sessions of the servers, as far as they are known.
---@class zklock.inspect.Sessions
---@field known boolean the list of sessions is complete, because the leader has answered dump
---@field connections boolean the list of connections is complete, because all servers have answered cons
---@field by_id table<string, zklock.inspect.Session> by the id, 16 hexadecimal digits
---@field problems string[] why something is unknown

---@class zklock.inspect.Session
---@field connected? boolean
---@field address? string of the client
---@field timeout? number seconds
---@field server? string

---@class zklock.InspectOptions
---@field timeout? number seconds for all reads together, 0 or more; default: the session timeout
-- whose nodes are read: true: all contenders', a number: so many of the first, false: the holders'. Default: true of inspect.lock,
-- false of inspect.locks
---@field identities? boolean|integer

---@class zklock.inspect
local inspect = {}

local function identities_of(value)
    if type(value) == "number" and value >= 0 and value % 1 == 0 or type(value) == "boolean" then
        return true, value
    end
    return false, "true, false or a whole number, 0 or more"
end

local SCHEMA = { timeout = { options.timeout }, identities = { identities_of } }

--- Checks the arguments, reads, and returns the reading; or nil, message, code. Raises at the caller's caller.
local function read(method, client, path, settings, tree, identities)
    local wrong = node.read_problem(path)
    if not wrong then
        settings, wrong = options.read(settings, SCHEMA)
    end
    if wrong then
        error(format("inspect.%s: %s", method, wrong), 3)
    end
    if settings.identities ~= nil then
        identities = settings.identities
    end
    local seconds = settings.timeout or client:cleanup_timeout()
    local reading = Reading.new(client, core.now() + seconds, seconds, { tree = tree, identities = identities })
    reading:examine(path)
    local ok, message, code = reading:run()
    if not ok then
        return nil, message, code
    end
    return reading
end

-- Public --------------------------------------------------------------------------------------------------------------

--- Reads one lock. Sends a list, and a read for each contender, at most 200 at a time; of a semaphore three lists.
---@param client zklock.Client
---@param path string of the lock
---@param settings? zklock.InspectOptions
---@return zklock.inspect.State|false|nil state lock state; false: there is no such node
---@return string? message
---@return zklock.Code? code "no_auth" (the lock may not be read: it may be held), "timeout", "disconnected", "closed",
--   "auth_failed", "forked", "phase", "failed"
function inspect.lock(client, path, settings)
    local reading, message, code = read("lock", client, path, settings, false, true)
    if not reading then
        return nil, message, code
    end
    if reading.refusal then
        return nil, reading.refusal, "no_auth"
    end
    return reading.states[1] or false
end

--- Reads all locks at a path and below it. Sends a list for each node that is no contender, and reads the holders' nodes.
---@param client zklock.Client
---@param path string "/" for all nodes of the servers, or of the chroot
---@param settings? zklock.InspectOptions
---@return zklock.inspect.State[]? states list of lock states, sorted by path, also of the nodes that are no locks (kind "none")
---@return string[]|string|nil unreadable list of the paths that may not be read, or do not exist, sorted; or message
---@return zklock.Code? code as of inspect.lock, without "no_auth"
function inspect.locks(client, path, settings)
    local reading, message, code = read("locks", client, path, settings, true, false)
    if not reading then
        return nil, message, code
    end
    sort(reading.states, function(a, b)
        return a.path < b.path
    end)
    local unreadable = {}
    for unread in pairs(reading.unreadable) do
        unreadable[#unreadable + 1] = unread
    end
    sort(unreadable)
    return reading.states, unreadable
end

--- Asks all servers which sessions there are, by the four-letter words cons and dump. Blocks the whole program for as long as the
-- answers take, also in an event loop and in nginx. Needs LuaSocket, and servers that allow both words
-- (`4lw.commands.whitelist`). The words are not encrypted: do not call it for servers that are reached by TLS. If a server does not
-- answer, the function does not fail: `problems` says why something is unknown.
---@param servers string connection string, as of zklock.connect; a chroot has no effect
---@param timeout? number seconds for each answer, 0 or more; default: 2
---@return zklock.inspect.Sessions sessions
function inspect.sessions(servers, timeout)
    return words.sessions(servers, timeout)
end

--- Returns the state of a contender's session, as far as the servers have told it. Sends nothing.
---@param sessions zklock.inspect.Sessions of inspect.sessions
---@param id string the contender's `session`
---@return "connected"|"disconnected"|"gone"|"unknown" state "disconnected": the session lives, and its client has no connection
function inspect.session_state(sessions, id)
    local session = sessions.by_id[id]
    if session and session.connected then
        return "connected"
    elseif session and sessions.connections then
        return "disconnected"
    elseif session == nil and sessions.known and sessions.connections then
        return "gone"
    end
    return "unknown"
end

--- Notes in each contender what is known of its session: `session_state`, and if it is connected `address` and `session_timeout`.
-- A node whose session is gone is looked at again, because it may be gone too by now; then it is noted as `released`.
---@param client zklock.Client
---@param states zklock.inspect.State[] list of lock states
---@param sessions zklock.inspect.Sessions of inspect.sessions, called after the states were read
---@param timeout? number seconds, 0 or more; default: the session timeout
---@return true? ok
---@return string? message
---@return zklock.Code? code as of inspect.lock, without "no_auth"
function inspect.join_sessions(client, states, sessions, timeout)
    local seconds, wrong = options.read_timeout(timeout, client:cleanup_timeout())
    if not seconds then
        error("inspect.join_sessions: " .. wrong, 2)
    end
    local reads = Reads.new(client, core.now() + seconds, seconds)
    for _, state in ipairs(states) do
        for _, contender in ipairs(state.contenders) do
            local id = contender.session
            local session = id and sessions.by_id[id]
            contender.session_state = id and inspect.session_state(sessions, id) or nil
            if session then
                contender.address, contender.session_timeout = session.address, session.timeout
            end
            if contender.session_state == "gone" then
                reads:add("exists", contender.node, function(stat)
                    contender.released = not stat or nil
                end)
            end
        end
    end
    return reads:run()
end

--- Returns whether a contender is a stray: no session will delete its node, so it may block the lock for ever. Sends nothing.
---@param contender zklock.inspect.Contender of a lock state; "gone" is known only after inspect.join_sessions
---@return "persistent"|"gone"|nil stray nil: it is none, or that is unknown
function inspect.stray(contender)
    if contender.persistent then
        return "persistent"
    elseif contender.session_state == "gone" and not contender.released then
        return "gone"
    end
    return nil
end

--- Makes a watcher of a lock, which uses ZooKeeper's watches: nothing is sent while nothing changes. The call itself sends nothing;
-- the first call of Watcher:next reads the lock.
---@param client zklock.Client
---@param path string of the lock, which need not exist
---@return zklock.Watcher watcher its method next(timeout) returns the changes
function inspect.watch(client, path)
    local wrong = node.read_problem(path)
    if wrong then
        error("inspect.watch: " .. wrong, 2)
    end
    return Watcher.new(client, path)
end

--- Returns the next change of several watchers of one client. Otherwise as Watcher:next.
---@param watchers zklock.Watcher[] a list that is not empty
---@param timeout? number seconds, 0 or more; nil: no limit
---@return zklock.inspect.Change? change
---@return string? message
---@return zklock.Code? code as of Watcher:next
function inspect.next_change(watchers, timeout)
    return Watcher.next_of(watchers, timeout)
end

--- Returns the present time for computing ages: the local clock, or the time of the newest node if the local clock is behind it.
-- Sends nothing.
---@param states zklock.inspect.State[] list of lock states
---@return number seconds since 1970
function inspect.now(states)
    local now = os.time()
    for _, state in pairs(states) do
        now = max(now, state.created or 0)
        for _, contender in ipairs(state.contenders) do
            now = max(now, contender.since or 0)
        end
    end
    return now
end

return inspect
