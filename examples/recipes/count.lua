--- recipes.count: lets contenders take their turns, and counts the notifications that ZooKeeper sends them meanwhile.
--
-- All contenders run in this one program, but each has a separate session, as if on a separate machine: ZooKeeper notifies each
-- session of a change once, however many watches the session has on the same node.

local count = {}

--- Opens clients until there are `wanted` of them.
function count.connect(zklock, servers, clients, wanted)
    for index = #clients + 1, wanted do
        clients[index] = assert(zklock.connect(servers, { session_timeout = 30 }))
    end
    return clients
end

local function notifications(turns)
    local sum = 0
    for _, turn in ipairs(turns) do
        sum = sum + turn.client:stats().notifications
    end
    return sum
end

--- Lets all contenders enter and leave the lock in order, until all have been inside. They have taken their numbers before.
---@param turns table the contenders in the order of their numbers: turn:look(), turn:leave(), turn.client, turn.node
---@param check? function is called with the list of the contenders inside, whenever it has changed
---@return number # notifications in total, from the first contender's leaving on
function count.all(turns, check)
    local inside, waiting = {}, {}
    local function look(turn)
        local free, watch, watched = turn:look()
        if free then
            inside[#inside + 1] = turn
        else
            waiting[#waiting + 1] = { turn = turn, watch = watch, watched = watched }
        end
    end
    for _, turn in ipairs(turns) do
        look(turn)
    end
    local before = notifications(turns)
    for _ = 1, #turns do
        if check then
            check(inside)
        end
        local gone = assert(table.remove(inside, 1), "nobody may go in")
        gone:leave()
        -- The contenders that watch the changed node or directory are notified now, and look again.
        local others = waiting
        waiting = {}
        for _, other in ipairs(others) do
            if other.watched == gone.node or other.watched == gone.path then
                assert(other.watch:wait(30))
                look(other.turn)
            else
                waiting[#waiting + 1] = other
            end
        end
    end
    return notifications(turns) - before
end

return count
