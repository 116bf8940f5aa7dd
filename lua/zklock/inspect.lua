--- inspect: the locks of a directory, as any client can see them: kind, holders, queue, sessions, strays.
--
-- For the command `zklock`, for dashboards and other programs. Reads only, and prints nothing. Works in every event loop, except
-- inspect.sessions, which blocks. A result shows a moment that has passed: it is for people, not for decisions.
--
-- A *lock state* is a table:
--
--   * `path`
--   * `kind` "mutex", "rwlock", "semaphore", "latch", "free" or "none" (not a lock). A free lock is an empty node that has had
--     children, as a lock without contenders leaves it. A read/write lock looks like a mutex while only mutexes use its path.
--   * `contenders` list, in queue order. A semaphore's permits come before its queue
--   * `holders`, `waiters` their numbers. A semaphore's holders are permits, its waiters are acquisitions.
--   * `others` names of children that belong to no lock, sorted
--   * `limit` of a semaphore, if it is written there; `count` and `left` of a latch
--   * `next_sequence` the number that the next contender gets, of the directory with the queue
--   * `created` seconds since 1970, by the servers' clock
--
-- A contender is a table:
--
--   * `name`, `node` (its path), `mode` "exclusive", "shared" or "lease" (a permit), `sequence`
--   * `holder` boolean. The head of a semaphore's queue creates its permits before it holds; until then they are no holders.
--   * `ahead` how many contenders it waits for. Permits are not counted.
--   * `waits_for` the path of the nearest contender that it waits for
--   * `library` "zklock or Curator", "go-zookeeper", "kazoo", "zk-ruby", "ZooKeeper recipe", by its name
--   * `identity` the node's data; nil: not read, or may not be read
--   * `revoked` true: another client has asked it to release. The request replaces the identity.
--   * `since` when its node was created, in seconds since 1970 by the servers' clock. A zklock node serves several acquisitions
--     of a client, one after the other, so a lock may be held for a shorter time.
--   * `session` id, 16 hexadecimal digits; nil: the node is persistent. No session will ever delete it: it is a stray.
--
-- The clock: ages are computed by the reader. inspect.now corrects a local clock that is behind.

local core = require "zklock.core"
local node = require "zklock.node"
local options = require "zklock.options"
local queue = require "zklock.inspect.queue"
local Reads = require "zklock.inspect.reads"
local Watcher = require "zklock.inspect.watcher"
local words = require "zklock.inspect.words"

local error, ipairs, max, os, pairs, setmetatable, sort, tonumber =
    error, ipairs, math.max, os, pairs, setmetatable, table.sort, tonumber
local format = string.format

local inspect = {}

--- The most bytes that a latch's data have: two numbers, and its gate's name with 36 characters (csrc/lock/kind_latch.c).
local LATCH_DATA = 80

local SCHEMA = { timeout = { options.timeout }, identities = { options.boolean } }

-- One reading of a directory or a tree ---------------------------------------------------------------------------------

local Reading = {}
Reading.__index = Reading

--- Reads the nodes of contenders that `wanted` is true of, and then calls `done`. Contenders that are gone are removed, and the
-- others' places are computed again by `stand`.
local function read_contenders(self, contenders, wanted, stand, done)
    stand(contenders)
    local pending, gone = 0, false
    local function finish()
        if not gone then
            stand(contenders) -- by what was read now
            return done(contenders)
        end
        local kept = {}
        for _, contender in ipairs(contenders) do
            kept[#kept + 1] = not contender.gone and contender or nil
        end
        return read_contenders(self, kept, wanted, stand, done)
    end
    local function got(contender, data, stat, code)
        if data then
            queue.note_node(contender, data, stat)
        elseif code == "no_node" then
            contender.gone, gone = true, true
        end
        pending = pending - 1
        if pending == 0 then
            finish()
        end
    end
    for _, contender in ipairs(contenders) do
        if not contender.read and wanted(contender) then
            contender.read, pending = true, pending + 1
            self.reads:add("get", contender.node, function(data, stat, code)
                got(contender, data, stat, code)
            end)
        end
    end
    if pending == 0 then
        finish()
    end
end

--- Notes a lock state that is complete.
local function add(self, state)
    state.holders, state.waiters = 0, 0
    for _, contender in ipairs(state.contenders) do
        contender.read, contender.gone, contender.first = nil, nil, nil
        if contender.holder then
            state.holders = state.holders + 1
        elseif contender.mode ~= "lease" then
            state.waiters = state.waiters + 1
        end
    end
    self.states[#self.states + 1] = state
end

local function new_state(path, stat, kind, contenders, others)
    return {
        path = path, kind = kind, contenders = contenders, others = others,
        created = stat.ctime
    }
end

--- Whether a contender's node is to be read.
local function wanted_by(self)
    return function(contender)
        return self.identities or contender.holder or contender.first -- of a semaphore's queue
    end
end

local function examine_lock(self, path, stat, contenders, others)
    local kind = queue.has_readers_or_writers(contenders) and "rwlock" or "mutex"
    local state = new_state(path, stat, kind, contenders, others)
    state.next_sequence = queue.next_sequence(stat, contenders)
    read_contenders(self, contenders, wanted_by(self), queue.stand, function(kept)
        state.contenders = kept
        add(self, state)
    end)
end

--- Whether the children of "leases", and its data, are those of a semaphore.
local function is_semaphore(permits, strangers, data, has_line)
    return permits[1] ~= nil or (data or ""):find "^%d+$" ~= nil or has_line and not strangers[1]
end

local function examine_semaphore(self, path, stat, others, found)
    local rest, has_line = {}, false
    for _, name in ipairs(others) do
        has_line = has_line or name == "locks"
        if name ~= "locks" and name ~= "leases" then
            rest[#rest + 1] = name
        end
    end
    local permits, line, data, line_stat
    local function finish()
        local limit = tonumber((data or ""):match "^%d+$")
        local state = new_state(path, stat, "semaphore", {}, rest)
        state.limit = limit
        state.next_sequence = line_stat and queue.next_sequence(line_stat, line)
        local all = {}
        for _, list in ipairs { permits, line } do
            for _, contender in ipairs(list) do
                all[#all + 1] = contender
            end
        end
        local function stand(contenders)
            local leases, waiting = {}, {}
            for _, contender in ipairs(contenders) do
                local list = contender.mode == "lease" and leases or waiting
                list[#list + 1] = contender
            end
            queue.stand_semaphore(leases, waiting, limit)
        end
        read_contenders(self, all, wanted_by(self), stand, function(kept)
            state.contenders = kept
            add(self, state)
        end)
        found(rest)
    end
    local strangers
    self.reads:add("get", path .. "/leases", function(text)
        data = text
    end)
    self.reads:add("children", path .. "/leases", function(names)
        permits, strangers = queue.parse(path .. "/leases", names or {})
    end)
    -- A queue that nobody uses may have been deleted. Its list comes last, and decides.
    self.reads:add("children", path .. "/locks", function(names, its_stat)
        local more
        line, more = queue.parse(path .. "/locks", names or {})
        line_stat = names and its_stat
        if is_semaphore(permits, strangers, data, has_line and not more[1]) then
            finish()
        else
            found(nil)
        end
    end)
end

--- Notes a directory that is a latch, a free lock or no lock, and calls `done` with whether its children may be locks.
local function examine_other(self, path, stat, others, done)
    local state = new_state(path, stat, "none", {}, others)
    if not others[1] and stat.data_length == 0 and stat.cversion ~= 0 then
        state.kind = "free"
    end
    local function finish(is_latch)
        add(self, state)
        done(not is_latch)
    end
    if stat.data_length == 0 or stat.data_length > LATCH_DATA then
        return finish(false)
    end
    self.reads:add("get", path, function(data)
        local left, count, gate = (data or ""):match "^(%d+)/(%d+) (gate%-[%x-]+)$"
        local is_latch = left ~= nil
        for _, name in ipairs(others) do
            is_latch = is_latch and (name == gate or name:find "^c%-" ~= nil)
        end
        if is_latch then
            state.kind, state.left, state.count, state.others = "latch", tonumber(left), tonumber(count), {}
        end
        finish(is_latch)
    end)
end

--- Reads a directory, and if `self.tree` those below it.
function Reading:examine(path)
    local prefix = path == "/" and "/" or path .. "/"
    local function descend(names)
        for _, name in ipairs(self.tree and names or {}) do
            if prefix .. name ~= "/zookeeper" then
                self:examine(prefix .. name)
            end
        end
    end
    self.reads:add("children", path, function(names, stat)
        if not names then
            self.unreadable[#self.unreadable + 1] = path -- or it is gone
            return
        end
        local contenders, others = queue.parse(path, names)
        local function other()
            examine_other(self, path, stat, others, function(has_locks)
                descend(has_locks and others or {})
            end)
        end
        local has_leases = false
        for _, name in ipairs(others) do
            has_leases = has_leases or name == "leases"
        end
        if contenders[1] then
            examine_lock(self, path, stat, contenders, others)
            descend(others)
        elseif has_leases then
            examine_semaphore(self, path, stat, others, function(rest)
                if rest then
                    descend(rest)
                else
                    other()
                end
            end)
        else
            other()
        end
    end)
end

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
    local seconds = settings.timeout or client:_cleanup_timeout()
    local reading = setmetatable({
        reads = Reads.new(client, core.now() + seconds, seconds),
        states = {}, unreadable = {}, tree = tree, identities = identities
    }, Reading)
    reading:examine(path)
    local ok, message, code = reading.reads:run()
    if not ok then
        return nil, message, code
    end
    return reading
end

-- Public --------------------------------------------------------------------------------------------------------------

--- Reads one lock. Sends a list, and a read for each contender, many at a time; of a semaphore three lists.
-- @tparam Client client
-- @tparam string path of the lock
-- @tparam table|nil settings `timeout` seconds, 0 or more; default: the session timeout. `identities` false: only the nodes of
--   holders are read
-- @treturn table|boolean|nil lock state; false: there is no such node, or it may not be read
-- @treturn string|nil message
-- @treturn string|nil code "timeout", "disconnected", "closed", "auth_failed", "forked", "phase", "failed"
-- @raise when an argument is malformed
function inspect.lock(client, path, settings)
    local reading, message, code = read("lock", client, path, settings, false, true)
    if not reading then
        return nil, message, code
    end
    return reading.states[1] or false
end

--- Reads all locks at a path and below it. Sends a list for each node that is no contender, and reads the holders' nodes.
-- @tparam Client client
-- @tparam string path
-- @tparam table|nil settings `timeout` as of inspect.lock. `identities` true: the nodes of all contenders are read
-- @treturn table|nil list of lock states, sorted by path, also of the nodes that are no locks (kind "none")
-- @treturn table|string|nil list of paths that may not be read, or are gone meanwhile; or message
-- @treturn string|nil code as of inspect.lock
-- @raise when an argument is malformed
function inspect.locks(client, path, settings)
    local reading, message, code = read("locks", client, path, settings, true, false)
    if not reading then
        return nil, message, code
    end
    sort(reading.states, function(a, b)
        return a.path < b.path
    end)
    sort(reading.unreadable)
    return reading.states, reading.unreadable
end

--- Asks all servers which sessions there are, by four-letter words. Blocks. See zklock.inspect.words.
-- @tparam string servers connection string
-- @tparam number|nil timeout seconds for each answer; default 2
-- @treturn table `known`, `connections` booleans, `by_id`, `problems`
function inspect.sessions(servers, timeout)
    return words.sessions(servers, timeout)
end

--- Returns the state of a contender's session, as far as the servers have told it.
-- @tparam table sessions of inspect.sessions
-- @tparam string id
-- @treturn string "connected", "disconnected" (the session lives, and its client has no connection), "gone", "unknown"
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
-- @tparam Client client
-- @tparam table states list of lock states
-- @tparam table sessions of inspect.sessions, called after the states were read
-- @tparam number|nil timeout seconds, 0 or more; default: the session timeout
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code as of inspect.lock
function inspect.join_sessions(client, states, sessions, timeout)
    local seconds, wrong = options.read_timeout(timeout)
    if not seconds then
        error("inspect.join_sessions: " .. wrong, 2)
    end
    seconds = timeout and seconds or client:_cleanup_timeout()
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

--- Whether a contender is a stray: no session will delete its node, so it may block the lock for ever.
-- @treturn string|nil "persistent" or "gone"; nil: it is none, or that is unknown
function inspect.stray(contender)
    if contender.persistent then
        return "persistent"
    elseif contender.session_state == "gone" and not contender.released then
        return "gone"
    end
    return nil
end

--- Watches a lock, by ZooKeeper's watches: nothing is sent while nothing changes. See zklock.inspect.watcher.
-- @tparam Client client
-- @tparam string path of the lock, which need not exist
-- @treturn Watcher its method next(timeout) returns the changes
-- @raise when the path is malformed
function inspect.watch(client, path)
    local wrong = node.read_problem(path)
    if wrong then
        error("inspect.watch: " .. wrong, 2)
    end
    return Watcher.new(client, path)
end

--- Returns the next change of several watchers of one client. Arguments, results and errors as of watcher:next.
-- @tparam table watchers a list that is not empty
-- @tparam number|nil timeout seconds, 0 or more; nil: no limit
-- @treturn table|nil change
-- @treturn string|nil message
-- @treturn string|nil code
function inspect.next_change(watchers, timeout)
    return Watcher.next_of(watchers, timeout)
end

--- The present time for computing ages: the local clock, or if that is behind the servers' clock the time of the newest node.
-- @tparam table states list of lock states
-- @treturn number seconds since 1970
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
