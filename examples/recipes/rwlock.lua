--- recipes.rwlock: the read/write lock by hand, in two forms. This is for learning; programs should use client:rwlock.
--
-- As in recipes.mutex every contender takes a number. A writer waits for all contenders before it; a reader for the writers
-- before it, so that readers are inside together. The two forms watch different nodes:
--   * "parent": the directory. This is simple, but every change wakes every waiter.
--   * "nearest": the nearest node that blocks us; for a reader the last writer before it, for a writer the node just before it.
--     When that node is deleted, other nodes may still block us: look again.
-- The traps that recipes.mutex lists are not handled here either.

local Turn = {}
Turn.__index = Turn

local rwlock = {}

local function number(node)
    return tonumber(node:sub(-10)) -- ten digits
end

--- Takes a number as a "read" or a "write". The directory must exist.
function rwlock.join(client, path, mode, form)
    local node = assert(client:create(path .. "/" .. mode .. "-", "", { ephemeral = true, sequential = true }))
    return setmetatable({ client = client, path = path, node = node, mode = mode, form = form }, Turn)
end

--- Returns the nearest of these names that blocks us; nil when none does.
function Turn:blocker(names)
    local ours, nearest = number(self.node), nil
    for _, name in ipairs(names) do
        if (self.mode == "write" or name:find("^write")) and number(name) < ours
            and (not nearest or number(name) > number(nearest)) then
            nearest = name
        end
    end
    return nearest and self.path .. "/" .. nearest
end

--- Whether we may enter: true, or nil, the watch to wait for, and the node that it watches.
function Turn:look()
    if self.form == "parent" then
        local names, _, watch = assert(self.client:children(self.path, { watch = true }))
        if self:blocker(names) then
            return nil, watch, self.path
        end
        watch:cancel()
        return true
    end
    while true do
        local blocker = self:blocker(assert(self.client:children(self.path)))
        if not blocker then
            return true
        end
        local data, message, watch = self.client:get(blocker, { watch = true })
        if data then
            return nil, watch, blocker
        end
        assert(watch == "no_node", message) -- deleted in between (the third result is the error's code): look again
    end
end

--- Waits until we may enter.
function Turn:acquire()
    local free, watch = self:look()
    while not free do
        assert(watch:wait())
        free, watch = self:look()
    end
end

--- Leaves the lock.
function Turn:leave()
    assert(self.client:delete(self.node))
end

return rwlock
