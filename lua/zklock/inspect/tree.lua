--- inspect.tree: the locks below some paths, kept up to date by watches.
--
-- For programs that show many locks for a long time. All directories are listed once, with a watch each. A directory is listed
-- again when its watch has fired, but at most once each `interval`. The node of a contender is read once, and once more when it
-- holds, then with a watch: a request to release changes it. While nothing changes, nothing is sent.
--
-- The memory is bounded: of each lock the first CONTENDERS contenders are kept, of a lock that exceeds what is left of
-- ALL_CONTENDERS the first FEW. More than DIRECTORIES directories are not looked at. So are the watches, which the client's locks
-- need, too: by the bytes of their paths. Other clients may make as many nodes as they wish, with names as long as they wish.

local core = require "zklock.core"
local queue = require "zklock.inspect.queue"
local Reading = require "zklock.inspect.reading"
local wait = require "zklock.wait"

local huge, max, min = math.huge, math.max, math.min
local ipairs, next, pairs, setmetatable = ipairs, next, pairs, setmetatable

local CONTENDERS, FEW, ALL_CONTENDERS = 200, 10, 20000
local DIRECTORIES = 5000

--- Bytes of the path of a directory; of the watched paths of all directories; of all other watched paths. A client may watch some
-- 700 KB.
local LONGEST, DIRECTORY_BYTES, OTHER_BYTES = 1024, 250000, 150000

--- The bytes that a watched path takes in addition to its own.
local OVERHEAD = 4

--- Bytes of an identity that are kept.
local IDENTITY = 200

--- Seconds between two listings of one directory, unless given.
local INTERVAL = 1

--- Seconds until a directory is tried again that may not be read.
local FORBIDDEN = 60

local Tree = {}
Tree.__index = Tree

local function new_directory(path)
    -- place: the bytes that its watches besides the first may take of OTHER_BYTES; read_at, retry_at: on core.now()'s clock
    return { path = path, watches = {}, place = 0, children = {}, is_parent = false, read_at = -huge, retry_at = huge }
end

--- Makes a tree that has read nothing yet.
--
-- Fields: `states` path -> lock state (without the kind "none"; `total` is the number of contenders, of which `contenders` has the
-- first ones; `others` is empty), `unreadable` path -> true, `left_out` path -> true: of directories in which some were left out,
-- or which are left out themselves, because there are too many, or their paths are too long.
--
---@param client zklock.Client
---@param paths table list of absolute paths, which need not exist
---@param settings? table `interval` seconds above 0, default 1; `directories` how many are looked at, default DIRECTORIES
---@return table
function Tree.new(client, paths, settings)
    settings = settings or {}
    local self = setmetatable({
        client = client, interval = settings.interval or INTERVAL, most = settings.directories or DIRECTORIES,
        roots = {}, directories = {}, count = 0, dirty = {}, states = {},
        directory_bytes = 0, other_bytes = 0, -- of watched paths; other_bytes may be too many between two sweeps
        unreadable = {}, left_out = {}, contender_count = 0, news = false, sweep_at = 0
    }, Tree)
    for _, path in ipairs(paths) do
        if not self.directories[path] then
            self.roots[path] = true
            self:_add(path)
        end
    end
    return self
end

--- Adds a directory that has not been read. Returns false if there are too many.
function Tree:_add(path)
    local bytes = #path + OVERHEAD
    if self.count >= self.most or #path > LONGEST or self.directory_bytes + bytes > DIRECTORY_BYTES then
        return false
    end
    self.count, self.directory_bytes = self.count + 1, self.directory_bytes + bytes
    self.directories[path] = new_directory(path)
    self.dirty[path] = true
    return true
end

--- Sets or removes a lock state, and notes the change.
local function set_state(self, path, state, changes)
    local before = self.states[path]
    if before then
        self.contender_count = self.contender_count - #before.contenders
    end
    if state then
        local total, most = #state.contenders, CONTENDERS
        if self.contender_count + min(total, most) > ALL_CONTENDERS then
            most = FEW
        end
        for index = total, most + 1, -1 do
            if state.contenders[index].watch then
                state.contenders[index].watch:cancel()
            end
            state.contenders[index] = nil
        end
        state.total, state.others = total, {}
        self.contender_count = self.contender_count + #state.contenders
    end
    if state or before then
        self.states[path] = state
        changes[path] = state or false
    end
end

--- Forgets a directory and all below it.
local function remove(self, path, changes)
    local directory = self.directories[path]
    if not directory or self.roots[path] then
        return
    end
    for child in pairs(directory.children) do
        remove(self, child, changes)
    end
    for _, watch in ipairs(directory.watches) do
        watch:cancel()
    end
    self.directories[path], self.dirty[path], self.unreadable[path], self.left_out[path] = nil, nil, nil, nil
    self.count, self.directory_bytes = self.count - 1, self.directory_bytes - #path - OVERHEAD
    set_state(self, path, nil, changes)
end

--- Notes that a directory must be listed again.
local function mark(self, path)
    if self.directories[path] then
        self.dirty[path] = true
        self.news = true
    end
end

--- Looks at all watches: one that was lost with its session fires no more. Counts the bytes of their paths.
local function sweep(self, now)
    self.sweep_at = now + self.interval
    self.other_bytes = 0
    for path, directory in pairs(self.directories) do
        for _, watch in ipairs(directory.watches) do
            if not watch:armed() then
                self.dirty[path] = true
            end
        end
        self.other_bytes = self.other_bytes + directory.place
        for _, contender in ipairs(self.states[path] and self.states[path].contenders or {}) do
            self.other_bytes = self.other_bytes + (contender.watch and #contender.node + OVERHEAD or 0)
        end
        if directory.retry_at <= now then
            directory.retry_at = huge
            self.dirty[path] = true
        end
    end
end

--- Returns the directories that may be listed now, and when the next one may be.
local function pick(self, now)
    local due, next_at = {}, huge
    for path in pairs(self.dirty) do
        local at = self.directories[path].read_at + self.interval
        if at <= now then
            due[#due + 1] = path
        else
            next_at = min(next_at, at)
        end
    end
    return due, next_at
end

--- Sets a watch on the existence of a root that is missing.
local function await_root(self, path)
    local stat, watch = self.client:exists(path, { watch = true })
    if stat == false then
        self.directories[path].watches = { watch }
    else
        mark(self, path) -- it was created in between, or the answer is missing
    end
end

--- Forgets a directory that was deleted. It has no watch any more, so its parent is listed again: it may have been made anew.
local function vanish(self, path, changes)
    remove(self, path, changes)
    local parent = path:match "^(.+)/" or "/"
    if self.directories[parent] then
        self.directories[parent].children[path] = nil
        mark(self, parent)
    end
end

--- The nodes that are known, of the locks that are read again.
local function known_of(self, paths)
    local known = {}
    for _, path in ipairs(paths) do
        for _, contender in ipairs(self.states[path] and self.states[path].contenders or {}) do
            known[contender.node] = contender
        end
    end
    return known
end

--- Lists directories again, and new ones below them. Returns the changes; or nil, message, code.
local function refresh(self, paths)
    local seconds = self.client:cleanup_timeout()
    local changes, read, replaced, reading = {}, {}, {}, nil
    local granted = {} -- path -> the bytes of watches besides those on directories that this reading may set for it
    local begun = core.now()
    local function examine(path)
        local directory = self.directories[path]
        for _, watch in ipairs(directory.watches) do
            replaced[#replaced + 1] = watch
        end
        directory.watches, directory.read_at, directory.retry_at, self.left_out[path] = {}, begun, huge, nil
        read[#read + 1] = path
        reading:examine(path)
    end
    reading = Reading.new(self.client, begun + seconds, seconds, {
        identities = CONTENDERS, clip = IDENTITY, known = known_of(self, paths),
        watched = function(path, watch, contender)
            local directory = self.directories[path]
            if directory then
                if not contender then
                    directory.watches[#directory.watches + 1] = watch
                end
                watch:on_change(function()
                    mark(self, path)
                end)
            end
        end,
        may_watch = function(name, count, path)
            local bytes, more = (#name + OVERHEAD) * count, nil
            if path then -- it keeps the place that it has
                local directory, before = self.directories[path], granted[path] or 0
                more = max(0, before + bytes - max(before, directory and directory.place or 0))
            end
            local fits = more == 0 or self.other_bytes + (more or bytes) <= OTHER_BYTES
            self.other_bytes = self.other_bytes + (fits and (more or bytes) or 0)
            if path and fits then
                granted[path] = (granted[path] or 0) + bytes
            elseif path then
                self.left_out[path] = true
            end
            return fits
        end,
        children = function(path, names)
            local directory = self.directories[path]
            if not directory then
                return
            end
            local prefix, before = path == "/" and "/" or path .. "/", directory.children
            directory.children = {}
            local new = {}
            for _, name in ipairs(names) do
                local child = prefix .. name
                if before[child] then
                    directory.children[child], before[child] = true, nil
                elseif not queue.is_system(child) and not self.directories[child] then
                    new[#new + 1] = child
                end
            end
            for child in pairs(before) do -- first: it makes room
                remove(self, child, changes)
            end
            for _, child in ipairs(new) do
                if self:_add(child) then
                    directory.children[child], directory.is_parent = true, true
                    examine(child)
                else
                    self.left_out[path] = true
                end
            end
        end
    })
    for _, path in ipairs(paths) do
        examine(path)
    end
    local ok, message, code = reading:run()
    for _, watch in ipairs(replaced) do -- now: the server keeps a watch of which the client has two
        watch:cancel()
    end
    if not ok then
        for _, path in ipairs(read) do
            if self.directories[path] then
                self.dirty[path], self.directories[path].read_at = true, -huge
            end
        end
        return nil, message, code
    end
    local found = {}
    for _, state in ipairs(reading.states) do
        found[state.path] = state.kind ~= "none" and state or nil
    end
    for _, path in ipairs(read) do -- first: what follows marks parents, which may have been listed after their children
        self.dirty[path] = nil
    end
    for _, path in ipairs(read) do
        if self.directories[path] then
            local missing = reading.unreadable[path]
            self.directories[path].place = granted[path] or 0
            self.unreadable[path] = missing == "no_auth" or nil
            set_state(self, path, found[path], changes)
            if missing == "no_auth" then
                self.directories[path].retry_at = begun + FORBIDDEN
            elseif missing and self.roots[path] then
                await_root(self, path)
            elseif missing then
                vanish(self, path, changes)
            end
        end
    end
    sweep(self, core.now()) -- a watch may have fired before its function was set
    return changes
end

--- Returns how many seconds later update has something to do if no watch fires until then; 0: now.
function Tree:due_in()
    local now = core.now()
    local due, next_at = pick(self, now)
    return due[1] and 0 or max(0, min(next_at, self.sweep_at) - now)
end

local function has_news(self)
    return self.news
end

--- Reads what has changed.
---@param timeout number seconds, 0 or more: how long to wait for a change
---@return table? # the changes: path -> lock state, or false: it is no lock any more; empty: nothing has changed
---@return string? message
---@return zklock.Code? code as of inspect.lock, without "no_auth"
function Tree:update(timeout)
    local deadline = core.now() + timeout
    while true do
        local now = core.now()
        self.news = false
        if now >= self.sweep_at then
            sweep(self, now)
        end
        local due, next_at = pick(self, now)
        if due[1] then
            local changes, message, code = refresh(self, due)
            if not changes then
                return nil, message, code
            elseif next(changes) or core.now() >= deadline then
                return changes
            end
        elseif now >= deadline then
            return {}
        else
            local decided, message, code =
                wait.until_decided(self.client, nil, min(deadline, next_at, self.sweep_at), has_news, self)
            if decided == nil then
                return nil, message, code
            elseif self.client:state() == "closed" then
                return nil, "the client is closed", "closed"
            end
        end
    end
end

--- Whether a directory is one of the paths, or has been seen with directories in it: if it is empty, it hardly is a free lock.
function Tree:is_parent(path)
    local directory = self.directories[path]
    return self.roots[path] or directory ~= nil and directory.is_parent
end

--- Removes the watches.
function Tree:close()
    for _, directory in pairs(self.directories) do
        for _, watch in ipairs(directory.watches) do
            watch:cancel()
        end
        directory.watches = {}
    end
    for _, state in pairs(self.states) do
        for _, contender in ipairs(state.contenders) do
            if contender.watch then
                contender.watch:cancel()
            end
        end
    end
end

return Tree
