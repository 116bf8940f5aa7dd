--- recipes.rwlock: the read/write lock by hand, in two forms. To learn from; to use, take client:rwlock.
--
-- As in recipes.mutex everybody draws a number. A writer waits for all before it; a reader for the writers before
-- it, so that readers are inside together. What to watch is the difference:
--   * "parent": the directory. Simple, and every change wakes everybody.
--   * "nearest": the nearest node that keeps us out; for a reader the last writer before it, for a writer the node just
--     before it. When that one goes, others may still be there: look again.
-- The traps that recipes.mutex names are not handled here either.

local Turn = {}
Turn.__index = Turn

local rwlock = {}

local function number(node)
    return tonumber(node:sub(-10)) -- ten digits
end

--- Draws a number as a "read" or a "write". The directory must be there.
function rwlock.join(client, path, mode, form)
    local node = assert(client:create(path .. "/" .. mode .. "-", "", { ephemeral = true, sequential = true }))
    return setmetatable({ client = client, path = path, node = node, mode = mode, form = form }, Turn)
end

--- The nearest of these names that keeps us out; nil when none does.
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

--- Whether we may go in: true, or nil, the watch to wait for, and the node that it watches.
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
        assert(watch == "no_node", message) -- went in between (here stands the error's code): look again
    end
end

--- Waits until we may go in.
function Turn:acquire()
    local free, watch = self:look()
    while not free do
        assert(watch:wait())
        free, watch = self:look()
    end
end

--- Goes out.
function Turn:leave()
    assert(self.client:delete(self.node))
end

return rwlock
