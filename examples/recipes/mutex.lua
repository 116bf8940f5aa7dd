--- recipes.mutex: the mutex of ZooKeeper's recipe book, written by hand. To learn from; to use, take client:mutex.
--
-- Who wants the lock draws a number: a node that ZooKeeper numbers (sequential) and that goes with its session
-- (ephemeral). The lowest number has the lock. Everybody else watches the one node just before their own, so that a
-- release wakes one and not all.
--
-- Traps that it does NOT handle, and client:mutex does:
--   * The reply to create is lost: was the node made? If so, nobody knows that it is theirs, and it blocks all for as
--     long as the session lives. (A unique name, searched for after a lost connection.)
--   * The session ends while we are inside, or we stand still: we go on as if we had the lock. (A lease; held();
--     token().)
--   * Waiting with a deadline, being interrupted, an error inside: the node must go, in the background if need be.
--   * The directory is removed while nobody uses it; the numbers end at 2147483647; an access control list forbids it.
--   * A program that wants the same lock in twenty places draws twenty numbers.

local Turn = {}
Turn.__index = Turn

local mutex = {}

--- The number of a node. To compare names as text would depend on the locale, and on what stands before the number.
function mutex.number(node)
    return tonumber(node:match("%d+$"))
end

--- Draws a number. The directory must be there.
function mutex.join(client, path)
    local node = assert(client:create(path .. "/turn-", "", { ephemeral = true, sequential = true }))
    return setmetatable({ client = client, path = path, node = node }, Turn)
end

--- Looks who is next before us: true if nobody is, else nil, the watch to wait for, and the node that it watches.
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
        -- get and not exists: a watch on a node that is gone already would wait for its return.
        local data, message, watch = self.client:get(before, { watch = true })
        if data then
            return nil, watch, before
        end
        assert(watch == "no_node", message) -- went in between (here stands the error's code): look again
    end
end

--- Waits for our turn. A node that goes says only that we should look again: it may have been a waiter that gave up.
function Turn:acquire()
    local mine, watch = self:look()
    while not mine do
        assert(watch:wait())
        mine, watch = self:look()
    end
end

--- Lets the next one in.
function Turn:leave()
    assert(self.client:delete(self.node))
end

return mutex
