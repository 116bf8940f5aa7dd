--- campaign.checker: what must hold of a history. Pure functions: they take lists and return a list of violations, each a sentence.

local checker = {}

local format = string.format

local function describe(grant)
    return format("%s (%s, %s%s) held %.6f to %.6f, %s", grant.who, grant.mode,
        grant.mode == "s" and format("%d of %d, ", grant.weight, grant.limit) or "", grant.token or "no token", grant.from,
        grant.to, grant.ended or "?")
end

--- path -> its grants, in the order of their beginnings.
local function by_path(grants)
    local paths, names = {}, {}
    for _, grant in ipairs(grants) do
        if not paths[grant.path] then
            paths[grant.path] = {}
            names[#names + 1] = grant.path
        end
        table.insert(paths[grant.path], grant)
    end
    table.sort(names)
    for _, name in ipairs(names) do
        table.sort(paths[name], function(one, other)
            return one.from < other.from
        end)
    end
    return paths, names
end

--- Whether two grants must not be held at the same time.
local function conflict(one, other)
    if one.mode == "s" then
        return one.weight + other.weight > math.min(one.limit, other.limit)
    end
    return one.mode == "x" or other.mode == "x"
end

--- Conflicting grants of one path that were held at the same time. A grant that ends at the instant at which another begins is no
-- overlap.
-- A grant whose node was deleted conflicts with none that begins afterwards: ZooKeeper tells the next contender in the same
-- instant. checker.deleted looks at these.
---@return table # sentences
---@return number # seconds of the longest overlap
function checker.overlaps(grants)
    local found, longest = {}, 0
    local paths, names = by_path(grants)
    for _, name in ipairs(names) do
        local inside = {}
        for _, grant in ipairs(paths[name]) do
            local left, permits = {}, grant.weight
            for _, other in ipairs(inside) do
                if other.to > grant.from and not (other.deleted and other.deleted <= grant.from) then
                    left[#left + 1] = other
                    permits = permits + other.weight
                end
            end
            inside = left
            local crowded = grant.mode == "s" and permits > grant.limit
            for _, other in ipairs(inside) do
                if grant.to > grant.from and (crowded or grant.mode ~= "s" and conflict(grant, other)) then
                    found[#found + 1] = format("%s: %s; and %s", name, describe(other), describe(grant))
                    longest = math.max(longest, math.min(grant.to, other.to) - grant.from)
                end
            end
            inside[#inside + 1] = grant
        end
    end
    return found, longest
end

--- Grants whose node an administrator deleted and whose holder went on until it had enough, although another was granted the path.
---@return table # sentences
---@return number # how many nodes were deleted
---@return number # seconds for which a holder went on after another was granted the path, at most
function checker.deleted(grants)
    local found, count, longest = {}, 0, 0
    local paths, names = by_path(grants)
    for _, name in ipairs(names) do
        for index, grant in ipairs(paths[name]) do
            count = count + (grant.deleted and 1 or 0)
            for later = index + 1, grant.deleted and #paths[name] or 0 do
                local other = paths[name][later]
                if other.from >= grant.to then
                    break
                elseif other.from >= grant.deleted and conflict(grant, other) then
                    longest = math.max(longest, grant.to - other.from)
                    found[#found + 1] = grant.ended == "released" and format("%s: %s, its node was deleted at %.6f; and %s", name,
                        describe(grant), grant.deleted, describe(other)) or nil
                end
            end
        end
    end
    return found, count, longest
end

--- Grants of one path whose token is not greater than the token of an earlier grant that conflicts with them.
function checker.tokens(grants)
    local found = {}
    local paths, names = by_path(grants)
    for _, name in ipairs(names) do
        -- The greatest so far of each sort: exclusive grants, readers, and semaphores' grants by their weights.
        local newest = {}
        for _, grant in ipairs(paths[name]) do
            if grant.token then
                local sort = grant.mode == "s" and grant.weight or grant.mode
                for _, earlier in pairs(newest) do
                    if conflict(earlier, grant) and earlier.token >= grant.token then
                        found[#found + 1] = format("%s: %s; but before: %s", name, describe(grant), describe(earlier))
                    end
                end
                if not newest[sort] or newest[sort].token < grant.token then
                    newest[sort] = grant
                end
            end
        end
    end
    return found
end

--- The epoch of a zxid: its upper half. The campaign's zxids are all far below 2^53, which every Lua represents exactly.
local function epoch_of(zxid)
    return math.floor(zxid / 2 ^ 32)
end

--- Grants whose node the servers have lost although they had acknowledged it. No client can prevent that, but it explains what
-- follows. `truncations`: zxids to which servers cut their logs back, as 16 hexadecimal digits.
---@return number # how many
---@return string? # the first one, in words
function checker.forgotten(grants, truncations)
    local count, first = 0, nil
    for _, grant in ipairs(grants) do
        local czxid = grant.token and tonumber(grant.token:match("^%d+"))
        for _, zxid in ipairs(truncations) do
            local last = tonumber(zxid, 16)
            -- In a later epoch the leader does not have what was cut off.
            if czxid and epoch_of(czxid) == epoch_of(last) and czxid > last then
                count = count + 1
                first = first or format("%s: %s; but a server was told to forget all after %s", grant.path, describe(grant),
                    zxid)
                break
            end
        end
    end
    return count, first
end

--- Nodes that are left at the end. `counts`: for each server how many ephemeral nodes it has; `leader`: the leader's number.
-- A server that has lost a part of its log may keep nodes that its leader does not have (ZOOKEEPER-4785). No client can delete
-- them, and no client of the other servers sees them.
---@return number # how many nodes the leader has
---@return number # how many more other servers have
function checker.nodes(counts, leader)
    local stray = 0
    for _, count in ipairs(counts) do
        stray = stray + math.max(0, count - counts[leader])
    end
    return counts[leader], stray
end

--- Watches that are left at the end: each server has its own.
---@return number # how many there are on all servers
---@return number # 0
function checker.watches(counts)
    local sum = 0
    for _, count in ipairs(counts) do
        sum = sum + count
    end
    return sum, 0
end

--- Writes that the fenced register accepted although it had accepted a write with a later token.
function checker.writes(writes)
    local found = {}
    local paths = {}
    for _, write in ipairs(writes) do
        paths[write.path] = paths[write.path] or {}
        table.insert(paths[write.path], write)
    end
    for path, list in pairs(paths) do
        table.sort(list, function(one, other)
            return one.sequence < other.sequence
        end)
        for index = 2, #list do
            if list[index].token < list[index - 1].token then
                found[#found + 1] = format("%s: write %d, with token %s, was taken after %s", path, list[index].sequence,
                    list[index].token, list[index - 1].token)
            end
        end
    end
    table.sort(found)
    return found
end

--- A clock that advances only while servers serve. `beats`: when the servers acknowledged a round of writes, in order; from one
-- beat to the next the clock advances by at most `most` seconds.
---@return function # time -> seconds in which the servers served, since the first beat
function checker.service(beats, most)
    local sums = { 0 }
    for index = 2, #beats do
        sums[index] = sums[index - 1] + math.min(beats[index] - beats[index - 1], most)
    end
    return function(time)
        local low, high = 1, #beats
        if high == 0 or time < beats[1] then
            return 0
        end
        while low < high do
            local middle = math.ceil((low + high) / 2)
            if beats[middle] <= time then
                low = middle
            else
                high = middle - 1
            end
        end
        return sums[low] + math.min(time - beats[low], most)
    end
end

--- Fibers that were granted nothing within limit(who) seconds of service after `from`. `expected`: a list of { who =, fiber = };
-- service: the clock for the limits (checker.service).
---@return table # sentences
---@return number # seconds until the last of them had been granted something, by the usual clock
function checker.progress(grants, expected, from, limit, service)
    local first = {}
    for _, grant in ipairs(grants) do
        local key = grant.who .. " " .. grant.fiber
        if grant.from >= from and (not first[key] or grant.from < first[key]) then
            first[key] = grant.from
        end
    end
    local found, longest = {}, 0
    for _, one in ipairs(expected) do
        local time = first[one.who .. " " .. one.fiber]
        if not time or service(time) - service(from) > limit(one.who) then
            found[#found + 1] = format("%s, fiber %s: nothing within %.1f s of service after the last fault (%s)", one.who,
                one.fiber, limit(one.who), time and format("the first grant after %.1f s, in which the servers served for %.1f s",
                    time - from, service(time) - service(from)) or "no grant at all")
        end
        longest = math.max(longest, time and time - from or math.huge)
    end
    return found, longest
end

--- The longest time for which a path was neither granted nor held, after a first grant and until `last`. `clock`: time -> seconds
-- on the clock that counts; by default the usual one.
---@return number # seconds
---@return string? # path
function checker.unavailability(grants, last, clock)
    local longest, where = 0, nil
    local paths, names = by_path(grants)
    for _, name in ipairs(names) do
        local ended
        local function look(time)
            if ended and time > ended then
                local gap = clock and clock(time) - clock(ended) or time - ended
                if gap > longest then
                    longest, where = gap, name
                end
            end
        end
        for _, grant in ipairs(paths[name]) do
            look(grant.from)
            ended = math.max(ended or 0, grant.to)
        end
        look(last)
    end
    return longest, where
end

return checker
