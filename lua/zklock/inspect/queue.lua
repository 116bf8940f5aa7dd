--- inspect.queue: what a directory's children say. Their names tell the queue, its holders, and their blockers; a node's data and
-- Stat tell its client. No I/O.

local core = require "zklock.core"
local options = require "zklock.options"

local ipairs, pairs, select, tonumber = ipairs, pairs, select, tonumber
local floor = math.floor
local sort = table.sort

local queue = {}

--- The owner that the Stat of a persistent node has.
local NO_SESSION = ("0"):rep(16)

--- Libraries by what their names look like.
local LIBRARIES = {
    { "^_c_%x+%-%x+%-%x+%-%x+%-%x+%-", "zklock or Curator" },
    { "^_c_%x+%-lock%-", "go-zookeeper" },
    { "^%x+__r?lock__", "kazoo" },
    { "^ex", "zk-ruby" },
    { "^sh", "zk-ruby" },
    { "^x%-", "ZooKeeper recipe" }
}

--- The library that has made a node, by its name.
local function library_of(name)
    for _, known in ipairs(LIBRARIES) do
        if name:find(known[1]) then
            return known[2]
        end
    end
    return "unknown"
end

local function by_sequence(a, b)
    if a.sequence ~= b.sequence then
        return a.sequence < b.sequence
    end
    return a.name < b.name
end

--- Whether no lock is below a path: ZooKeeper's own, and the directories of flags, in which releases make nodes that nobody sees.
function queue.is_system(path)
    return path == "/zookeeper" or path:match "[^/]*$":find(core.FLAGS, 1, true) == 1
end

--- Reads a semaphore's limit. Any client can have written it.
---@return integer? # nil: it is no limit that a semaphore can have
function queue.limit(data)
    local fits, limit = options.permits(data:find "^%d+$" and tonumber(data))
    return fits and limit or nil
end

--- Reads a latch's data. Any client can have written them.
---@return integer? # how much is left; nil: these are not the data of a latch
---@return integer? # the count
---@return string? # the name of its gate
function queue.latch(data)
    local left, count, gate = data:match "^(%d+)/(%d+) (gate%-[%da-f-]+)$"
    local fits, number = options.permits(tonumber(count))
    left = tonumber(left)
    if not fits or left > number then
        return nil
    end
    return left, number, gate
end

--- Sorts a directory's children.
---@param path string
---@param names table
---@param leases? boolean of the two directories of a semaphore: true: only its permits are contenders; false: all but these
---@return table # contenders in the order of their numbers: name, node, mode, sequence, library
---@return table # names of the other children, sorted
function queue.parse(path, names, leases)
    local contenders, others = {}, {}
    local prefix = path == "/" and "/" or path .. "/"
    for _, name in ipairs(names) do
        local mode, sequence = core.node_name(name)
        if mode and (leases == nil or leases == (mode == "lease")) then
            contenders[#contenders + 1] =
                { name = name, node = prefix .. name, mode = mode, sequence = sequence, library = library_of(name) }
        else
            others[#others + 1] = name
        end
    end
    sort(contenders, by_sequence)
    sort(others)
    return contenders, others
end

--- Returns the identity in a node's data, and whether its client was asked to release. The request replaces the identity. A holder
-- of zklock with on_revoke writes it behind the request (zklock.lock.hold).
---@return string?
---@return true?
function queue.read_data(data)
    local length = #core.REVOKE
    if data == core.REVOKE then
        return nil, true
    elseif data:sub(1, length + 1) == core.REVOKE .. "\n" then
        return data:sub(length + 2), true
    end
    return data, nil
end

--- Notes in a contender what its node's data and Stat say: identity, revoked, since, session, persistent.
function queue.note_node(contender, data, stat)
    contender.identity, contender.revoked = queue.read_data(data)
    contender.since = stat.ctime
    contender.session = stat.ephemeral_owner ~= NO_SESSION and stat.ephemeral_owner or nil
    contender.persistent = contender.session == nil or nil
end

--- Whether a list has readers or writers of a read/write lock.
function queue.has_readers_or_writers(contenders)
    for _, contender in ipairs(contenders) do
        if contender.mode == "shared" or contender.name:find "__WRIT__" then
            return true
        end
    end
    return false
end

--- Notes for each contender of a mutex or read/write lock, in the order of their numbers, whether it is a `holder`, how many
-- contenders are `ahead` that it waits for, and the nearest of them (`waits_for`). A downgraded reader has its writer's number, and
-- does not wait for it.
function queue.stand(contenders)
    local exclusive, shared = 0, 0  -- with smaller numbers
    local nearest, nearest_exclusive -- of these
    local tied, tied_shared, tied_last, last = 0, 0, nil, nil -- with the same number
    for index, contender in ipairs(contenders) do
        if index > 1 and contender.sequence ~= contenders[index - 1].sequence then
            exclusive, shared = exclusive + tied, shared + tied_shared
            nearest, nearest_exclusive = last, tied_last or nearest_exclusive
            tied, tied_shared, tied_last = 0, 0, nil
        end
        if contender.mode == "shared" then
            contender.ahead, contender.waits_for = exclusive, nearest_exclusive
            tied_shared, last = tied_shared + 1, contender.node
        elseif contender.mode == "exclusive" then
            contender.ahead, contender.waits_for = exclusive + shared + tied, tied_last or nearest
            tied, tied_last, last = tied + 1, contender.node, contender.node
        else
            contender.ahead = 0
        end
        contender.holder = contender.ahead == 0
    end
end

--- Returns what tells the nodes of one acquisition from those of others; nil: its client does not name them so.
local function acquisition_of(contender)
    return (select(3, core.node_name(contender.name)))
end

--- The same for a semaphore: its permits, and its queue. The head of the queue creates its permits before it may have them, and
-- then waits until others are released. Its permits are those of its acquisition, and those beyond the limit: Curator takes one at
-- a time. If there are no more permits than the limit, the head's count as held: no node tells how many it wants.
---@param permits table
---@param line table
---@param limit? number
function queue.stand_semaphore(permits, line, limit)
    local waits = not limit or #permits > limit
    local head = waits and line[1] and acquisition_of(line[1])
    for index, permit in ipairs(permits) do
        local pending = head and acquisition_of(permit) == head
        permit.holder = not pending and (not limit or index <= limit)
        permit.ahead = 0
    end
    for index, contender in ipairs(line) do
        contender.holder, contender.ahead = false, index - 1
        contender.waits_for = index > 1 and line[index - 1].node or nil -- the head waits for permits
    end
end

--- The number that the next sequential child of a directory gets. The Stat has it: cversion counts creates and deletes, and
-- num_children is their difference. It counts in 32 bits, so half of the numbers look alike: `contenders` decide.
---@return integer # from -2^31 to 2^31 - 1
function queue.next_sequence(stat, contenders)
    local twice = (stat.cversion + stat.num_children) % 4294967296
    local number = floor(twice / 2) -- or 2^31 less
    local last
    for _, contender in pairs(contenders) do
        if not last or contender.sequence > last then
            last = contender.sequence
        end
    end
    if last and last < 0 and number >= 0 then
        number = number - 2147483648
    end
    return number
end

return queue
