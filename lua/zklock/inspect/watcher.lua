--- inspect.watcher: the changes of a lock's queue, one after the other.
--
-- A watcher watches the directory of a lock, and its children "locks" and "leases", which a semaphore has. When a watch fires, the
-- list is read again with a new watch, and compared. New nodes are read once.
--
-- ZooKeeper's watches fire once. Changes between the firing and the next read are not told one by one: a node may come and go in
-- between. The directory's Stat counts all creates and deletes, so the watcher knows how many it has missed, and reports a *gap*.

local core = require "zklock.core"
local options = require "zklock.options"
local queue = require "zklock.inspect.queue"
local wait = require "zklock.wait"

local error, ipairs, pairs, setmetatable = error, ipairs, pairs, setmetatable
local floor = math.floor
local remove, sort = table.remove, table.sort

--- The children of a semaphore that are watched, too.
local PARTS = { "leases", "locks" }

--- A change of a lock's queue.
---@class zklock.inspect.Change
-- "holds": a waiter has become a holder. "created", "deleted": of the directory. "gap": changes may have been missed.
---@field event "joined"|"left"|"holds"|"gap"|"created"|"deleted"
---@field path string of the lock
---@field contender? zklock.inspect.Contender of "joined", "left" and "holds". A contender that left is shown as it was
---@field missed? integer of a gap: how many creates and deletes were not seen; nil: unknown
-- of a gap: "fast" (several changes between two reads), "session" (the session ended, and its watches with it), "directory" (the
-- directory was deleted and created again)
---@field reason? "fast"|"session"|"directory"

---@class zklock.Watcher
local Watcher = {}
Watcher.__index = Watcher

function Watcher.new(client, path)
    return setmetatable({
        client = client, path = path,
        directories = {},  -- path -> { names = set, stat, watch }; stat false: it does not exist
        contenders = {},   -- node -> contender
        changes = {},      -- that next() has not returned
        limit = false,     -- of a semaphore
        closed = false,
        began = false      -- the first reading is over: what is there later has joined
    }, Watcher)
end

local function add(self, event, fields)
    fields.event, fields.path = event, self.path
    self.changes[#self.changes + 1] = fields
end

--- Lists a directory with a watch.
---@return table? # names (a set), stat (false: it does not exist), watch
---@return string? message
---@return zklock.Code? code
local function list(self, path)
    local names, stat, watch, code
    repeat
        names, stat, watch = self.client:children(path, { watch = true })
        if not names and watch == "no_node" then
            stat, watch, code = self.client:exists(path, { watch = true })
            if stat == nil then
                return nil, watch, code
            elseif stat then
                watch:cancel() -- it was created in between
            else
                names = {}
            end
        elseif not names then
            return nil, stat, watch
        end
    until names
    local set = {}
    for _, name in ipairs(names) do
        set[name] = true
    end
    return { names = set, stat = stat, watch = watch, count = #names }
end

--- The answer of a watcher that was closed.
local function closed()
    return nil, "the watcher is closed", "closed"
end

--- Compares two readings of a directory, and notes how many changes were missed.
local function check_gap(self, before, after, seen, reason)
    if reason then
        add(self, "gap", { reason = reason })
    elseif before.stat and after.stat and before.stat.czxid ~= after.stat.czxid then
        add(self, "gap", { reason = "directory" })
    elseif before.stat and after.stat then
        local missed = (after.stat.cversion - before.stat.cversion) % 4294967296 - seen
        if missed > 0 then
            add(self, "gap", { reason = "fast", missed = floor(missed) })
        end
    end
end

--- Reads the node of a new contender. Returns false if it is gone.
local function read_contender(self, contender)
    local data, stat, code = self.client:get(contender.node)
    if data then
        queue.note_node(contender, data, stat)
        return true
    end
    return code ~= "no_node"
end

--- Computes who holds, over all directories. Returns the contenders in queue order.
local function stand(self)
    local by_part = {}
    for _, part in ipairs { "", "/leases", "/locks" } do
        local directory, names = self.directories[self.path .. part], {}
        for name in pairs(directory and directory.names or {}) do
            names[#names + 1] = name
        end
        by_part[part] = queue.parse(self.path .. part, names)
        for index, contender in ipairs(by_part[part]) do
            by_part[part][index] = self.contenders[contender.node] or contender
        end
    end
    local permits, line, all = by_part["/leases"], by_part["/locks"], by_part[""]
    queue.stand(all)
    queue.stand_semaphore(permits, line, self.limit or nil)
    for _, part in ipairs { permits, line } do
        for _, contender in ipairs(part) do
            all[#all + 1] = contender
        end
    end
    return all
end

--- Brings what is known of the contenders up to date, and notes the changes.
local function compare(self)
    local held, present = {}, {}
    for node, contender in pairs(self.contenders) do
        held[node] = contender.holder
    end
    local joined = {}
    for _, contender in ipairs(stand(self)) do
        present[contender.node] = true
        if not self.contenders[contender.node] and read_contender(self, contender) then
            self.contenders[contender.node] = contender
            joined[contender.node] = true
        end
    end
    local left = {}
    for node, contender in pairs(self.contenders) do
        if not present[node] then
            contender.holder, left[#left + 1] = held[node], contender
        end
    end
    sort(left, function(a, b)
        return a.sequence < b.sequence
    end)
    for _, contender in ipairs(left) do
        self.contenders[contender.node] = nil
        add(self, "left", { contender = contender })
    end
    for _, contender in ipairs(stand(self)) do
        if joined[contender.node] then
            add(self, "joined", { contender = contender })
        elseif contender.holder and held[contender.node] == false then
            add(self, "holds", { contender = contender })
        end
    end
end

--- Reads one directory again. Returns true; or nil, message, code.
local function refresh(self, path, reason)
    local before = self.directories[path]
    local after, message, code = list(self, path)
    if not after then
        return nil, message, code
    elseif self.closed then -- while the list was read
        after.watch:cancel()
        return closed()
    end
    self.directories[path] = after
    if before then
        local seen = 0
        for name in pairs(before.names) do
            seen = seen + (after.names[name] and 0 or 1)
        end
        for name in pairs(after.names) do
            seen = seen + (before.names[name] and 0 or 1)
        end
        check_gap(self, before, after, seen, reason)
    end
    if path == self.path then
        if before and not before.stat and after.stat then
            add(self, "created", {})
        elseif before and before.stat and not after.stat then
            add(self, "deleted", {})
        end
        for _, part in ipairs(PARTS) do
            if after.names[part] and not self.directories[path .. "/" .. part] then
                local ok
                ok, message, code = refresh(self, path .. "/" .. part)
                if not ok then
                    return nil, message, code
                end
            end
        end
    elseif path == self.path .. "/leases" and after.stat then
        local data = after.stat.data_length > 0 and self.client:get(path)
        self.limit = data and queue.limit(data) or false
    end
    return true
end

--- Returns the path of a directory whose watch is not armed any more, and whether the session has ended.
local function to_refresh(self)
    for path, directory in pairs(self.directories) do
        local armed, code = directory.watch:armed()
        if not armed then
            return path, code == "lost" and "session" or nil
        end
    end
    return nil
end

local function is_due(self)
    return to_refresh(self) ~= nil
end

--- Reads what is due of a watcher. Returns true; or nil, message, code.
local function update(self)
    if self.closed then
        return closed()
    end
    local path, reason = self.path, nil
    if self.began then
        path, reason = to_refresh(self)
    end
    if not path then
        return true
    end
    local ok, message, code = refresh(self, path, reason)
    if ok then
        self.began = true
        compare(self)
        if self.closed then -- while a node was read
            return closed()
        end
    end
    return ok, message, code
end

local function any_due(watchers)
    for _, watcher in ipairs(watchers) do
        if watcher.closed or not watcher.began or is_due(watcher) then
            return true
        end
    end
    return false
end

--- Returns the next change of several watchers of one client: inspect.next_change describes it.
function Watcher.next_of(watchers, timeout)
    local seconds, wrong = options.read_timeout(timeout)
    if not seconds then
        error("watcher:next: " .. wrong, 2)
    end
    local deadline = core.now() + seconds
    while true do
        for _, watcher in ipairs(watchers) do
            local ok, message, code = update(watcher)
            if not ok then
                return nil, message, code
            elseif watcher.changes[1] then
                return remove(watcher.changes, 1)
            end
        end
        local decided, message, code = wait.until_decided(watchers[1].client, nil, deadline, any_due, watchers)
        if not decided then
            return nil, message or "nothing has changed", code or "timeout"
        end
    end
end

--- Returns the next change. The first changes are the contenders that are there already, as "joined". After a failure it may be
-- called again. Only one coroutine at a time may call it.
---@param timeout? number seconds to wait for a change, 0 or more; nil: no limit. The reads that a watch has made necessary have
--   no limit: while no server answers, the call may take longer
---@return zklock.inspect.Change? change
---@return string? message
---@return zklock.Code? code "timeout", "closed", "auth_failed", "forked", "phase", "no_auth", "failed"
function Watcher:next(timeout)
    return Watcher.next_of({ self }, timeout)
end

--- Removes the watches. Sends nothing that is waited for. From now on `next` answers "closed", also where it waits already. It may
-- be called again.
function Watcher:close()
    self.closed = true
    for _, directory in pairs(self.directories) do
        directory.watch:cancel()
    end
    self.directories = {}
end

return Watcher
