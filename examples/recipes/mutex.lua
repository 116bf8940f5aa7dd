--- recipes.mutex: the mutex of ZooKeeper's recipe book, written by hand. This is for learning; programs should use client:mutex.
--
-- A contender takes a number: it creates a node that ZooKeeper numbers (sequential) and deletes with its session (ephemeral).
-- The lowest number has the lock. Every other contender watches only the node just before its own, so that a release wakes one
-- contender and not all.
--
-- The following traps are NOT handled here, but in client:mutex:
--   * The reply to create is lost: was the node made? If it was, no contender knows that it owns the node, and the node blocks
--     all contenders as long as the session exists. (Use a unique name, and search for it after a lost connection.)
--   * The session ends while this program is inside, or the program is suspended: it continues as if it had the lock. (Use a
--     lease; held(); token().)
--   * Waiting with a deadline, an interrupt, an error inside: the node must be deleted, in the background if necessary.
--   * The directory is removed while it is not in use; the numbers end at 2147483647; an access control list forbids access.
--   * A program that wants the same lock in twenty places takes twenty numbers.

local Turn = {}
Turn.__index = Turn

local mutex = {}

--- Returns the number of a node. A comparison of names as text would depend on the locale, and on the text before the number.
function mutex.number(node)
    return tonumber(node:match("%d+$"))
end

--- Takes a number. The directory must exist.
function mutex.join(client, path)
    local settings = { ephemeral = true, sequential = true }
    local node = assert(client:create(path .. "/turn-", "", settings))
    return setmetatable({ client = client, path = path, node = node }, Turn)
end

--- Looks for the contender before us. Returns true if there is none, else nil, the watch to wait for, and the node that it
-- watches.
function Turn:look()
    while true do
        local ours, nearest, before = mutex.number(self.node), -1, nil
        for _, name in ipairs(assert(self.client:children(self.path))) do
            local number = mutex.number(name)
            if number < ours and number > nearest then
                nearest, before = number, self.path .. "/" .. name
            end
        end
        if not before then
            return true
        end
        -- get and not exists: a watch on a deleted node would wait for a new node.
        local data, message, watch = self.client:get(before, { watch = true })
        if data then
            return nil, watch, before
        end
        assert(watch == "no_node", message) -- the code: deleted in between, look again
    end
end

--- Waits for the lock. A deleted node means only that we must look again: its contender may have given up.
function Turn:acquire()
    local mine, watch = self:look()
    while not mine do
        assert(watch:wait())
        mine, watch = self:look()
    end
end

--- Lets the next contender in.
function Turn:leave()
    assert(self.client:delete(self.node))
end

return mutex
