--- inspect.reading: one reading of a directory, or of a tree of directories, into lock states.
--
-- For zklock.inspect, which describes lock states, and zklock.inspect.tree.

local core = require "zklock.core"
local queue = require "zklock.inspect.queue"
local Reads = require "zklock.inspect.reads"

local ipairs, setmetatable, type = ipairs, setmetatable, type

--- The most bytes that a latch's data have: two numbers, and its gate's name with 36 characters (csrc/lock/kind_latch.c).
local LATCH_DATA = 80

--- The fields of a contender that its node tells, and the watch of the node.
local FIELDS = { "revoked", "identity", "since", "session", "persistent", "watch" }

local Reading = {}
Reading.__index = Reading

--- Begins a reading. Its results:
--   * `states` the lock states in no order
--   * `unreadable` path -> code, of directories that may not be read ("no_auth") or are gone ("no_node")
--   * `refusal` the message for the first directory that may not be read: a lock there may be held
--
-- Settings:
--   * `tree` true: what is below a directory is read, too
--   * `identities` true: the nodes of all contenders are read; a number: of so many of the first ones; otherwise of holders only
--   * `clip` the number of bytes that are kept of an identity; nil: all
--   * `known` node -> contender of an earlier reading: the node is not read again
--   * `watched(path, watch, contender)` a function: lists set watches, and reads of holders' nodes; these give the contender, which
--     has its watch as field `watch`. `path` is that of the lock, also for a part of a semaphore
--   * `may_watch(node, count, path)` a function: whether so many watches on a node may be set besides those on directories; needed
--     with `watched`. If not, a holder's node is read without a watch; a semaphore or latch, of which `path` is given, is left out
--   * `children(path, names)` a function that is called in place of reading what is below a directory
--   * `permits` for one lock whose kind is known: the number of permits of a semaphore, unless another one is written there;
--     false: it is a mutex or a read/write lock. nil: the nodes tell the kind
--
---@param client zklock.Client
---@param deadline number on core.now()'s clock
---@param seconds number for messages: the time that the caller gave
---@param settings table
function Reading.new(client, deadline, seconds, settings)
    return setmetatable({
        reads = Reads.new(client, deadline, seconds), states = {}, unreadable = {}, settings = settings
    }, Reading)
end

--- Reads what was asked for by examine.
---@return true?
---@return string? message
---@return zklock.Code? code
function Reading:run()
    return self.reads:run()
end

--- Reads a part of the lock at `path`, with a watch if the reading sets watches. Notes that it may not be read.
---@param kind string "children" of a directory, or "get" for data: a semaphore's limit, a latch's numbers
local function add_watched(self, kind, path, node, handler)
    local watched = self.settings.watched
    self.reads:add(kind, node, function(value, stat, code, watch)
        if watch then
            watched(path, watch)
        end
        if code == "no_auth" then
            self.unreadable[node], self.refusal = code, self.refusal or stat -- the message
        end
        handler(value, stat, code)
    end, watched ~= nil)
end

--- Notes what a contender's node has. A request to release has replaced the identity: that of an earlier reading is kept.
local function note(self, contender, data, stat)
    queue.note_node(contender, data, stat)
    local known = contender.revoked and self.settings.known and self.settings.known[contender.node]
    contender.identity = known and known.identity or contender.identity
    contender.identity = contender.identity and contender.identity:sub(1, self.settings.clip or -1)
end

--- Whether the node of a contender is to be watched: a request to release changes it.
local function is_to_watch(self, contender)
    return self.settings.watched ~= nil and contender.holder == true
end

--- Takes over what an earlier reading has found in a contender's node. Returns whether it was read then and has not changed.
local function take_known(self, contender)
    local known = self.settings.known and self.settings.known[contender.node]
    if not (known and known.since) then
        return false
    elseif known.watch then
        if not known.watch:armed() then
            return false
        end
    elseif is_to_watch(self, contender) then
        return false
    end
    for _, field in ipairs(FIELDS) do
        contender[field] = known[field]
    end
    return true
end

--- Reads the nodes of contenders that `wanted` is true of, and then calls `done`. Contenders that are gone are removed, and the
-- others' places are computed again by `stand`.
local function read_contenders(self, path, contenders, wanted, stand, done)
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
        return read_contenders(self, path, kept, wanted, stand, done)
    end
    local function got(contender, data, stat, code)
        if data then
            note(self, contender, data, stat)
        elseif code == "no_node" then
            contender.gone, gone = true, true
        end
        pending = pending - 1
        if pending == 0 then
            finish()
        end
    end
    for index, contender in ipairs(contenders) do
        if not contender.read and wanted(contender, index) and not take_known(self, contender) then
            contender.read, pending = true, pending + 1
            self.reads:add("get", contender.node, function(data, stat, code, watch)
                if watch then
                    contender.watch = watch
                    self.settings.watched(path, watch, contender)
                end
                got(contender, data, stat, code)
            end, is_to_watch(self, contender) and self.settings.may_watch(contender.node, 1))
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
        contender.read, contender.gone = nil, nil
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
    local identities = self.settings.identities
    return function(contender, index)
        if type(identities) == "number" then
            return index <= identities
        end
        return identities or contender.holder
    end
end

local function examine_lock(self, path, stat, contenders, others)
    local kind = queue.has_readers_or_writers(contenders) and "rwlock" or "mutex"
    local state = new_state(path, stat, kind, contenders, others)
    state.next_sequence = queue.next_sequence(stat, contenders)
    read_contenders(self, path, contenders, wanted_by(self), queue.stand, function(kept)
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
    local permits, strangers, line, data, line_stat
    local function finish()
        local state = new_state(path, stat, "semaphore", {}, rest)
        state.limit = data and queue.limit(data)
        for _, name in ipairs(strangers) do
            state.resized = state.resized or name == core.RESIZED
        end
        local limit = state.limit or self.settings.permits
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
        read_contenders(self, path, all, wanted_by(self), stand, function(kept)
            state.contenders = kept
            add(self, state)
        end)
        found(rest)
    end
    if self.settings.may_watch and not self.settings.may_watch(path .. "/leases", 3, path) then
        return
    end
    add_watched(self, "get", path, path .. "/leases", function(text)
        data = text
    end)
    add_watched(self, "children", path, path .. "/leases", function(names)
        permits, strangers = queue.parse(path .. "/leases", names or {}, true)
    end)
    -- A queue that nobody uses may have been deleted. Its list comes last, and decides.
    add_watched(self, "children", path, path .. "/locks", function(names, its_stat)
        local more
        line, more = queue.parse(path .. "/locks", names or {}, false)
        line_stat = names and its_stat
        if self.settings.permits or is_semaphore(permits, strangers, data, has_line and not more[1]) then
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
    if stat.data_length == 0 or stat.data_length > LATCH_DATA
        or self.settings.may_watch and not self.settings.may_watch(path, 1, path) then
        return finish(false)
    end
    add_watched(self, "get", path, path, function(data)
        local left, count, gate = queue.latch(data or "")
        local is_latch = left ~= nil
        for _, name in ipairs(others) do
            is_latch = is_latch and (name == gate or name:find "^c%-" ~= nil)
        end
        if is_latch then
            state.kind, state.left, state.count, state.others = "latch", left, count, {}
        end
        finish(is_latch)
    end)
end

--- Adds a directory to the reading, and those below it.
function Reading:examine(path)
    local prefix = path == "/" and "/" or path .. "/"
    local settings = self.settings
    local function descend(names)
        if settings.children then
            return settings.children(path, names)
        end
        for _, name in ipairs(settings.tree and names or {}) do
            if not queue.is_system(prefix .. name) then
                self:examine(prefix .. name)
            end
        end
    end
    if settings.permits then
        return examine_semaphore(self, path, {}, { "locks" }, descend)
    end
    add_watched(self, "children", path, path, function(names, stat, code)
        if not names then
            self.unreadable[path] = code
            return
        end
        local contenders, others = queue.parse(path, names, settings.permits)
        local function other()
            examine_other(self, path, stat, others, function(has_locks)
                descend(has_locks and others or {})
            end)
        end
        local has_leases = false
        for _, name in ipairs(others) do
            has_leases = has_leases or settings.permits == nil and name == "leases"
        end
        if contenders[1] or settings.permits == false then
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

return Reading
