--- campaign.schedule: which faults, when and for how long: a pure function of a seed. A number decides the target here; the role
-- (leader, follower, a running client) is looked up when the fault begins.

local schedule = {}

--- Kinds of faults: how often relative to the others, and how long, in seconds. Faults of servers come one or two at a time, so
-- that there is a majority most of the time. Faults of clients go on at the same time.
schedule.server = {
    { kind = "kill leader", chance = 3, least = 0.2, most = 3 },
    { kind = "kill follower", chance = 3, least = 0.2, most = 3 },
    { kind = "pause leader", chance = 3, least = 0.3, most = 6 },
    { kind = "pause follower", chance = 3, least = 0.3, most = 6 },
    { kind = "pause two servers", chance = 1, least = 0.5, most = 5 },
    { kind = "kill all servers", chance = 1, least = 0.1, most = 1 },
    { kind = "cut follower from leader", chance = 4, least = 1, most = 6 },
    { kind = "cut follower from leader, one way", chance = 3, least = 1, most = 6 },
    { kind = "cut leader from follower, one way", chance = 3, least = 1, most = 6 },
    { kind = "stall leader to follower", chance = 4, least = 1.5, most = 2.8 },
    { kind = "isolate leader from servers", chance = 2, least = 1, most = 6 },
    { kind = "lossy links of a server", chance = 2, least = 1, most = 5 },
    { kind = "slow server", chance = 2, least = 1, most = 4 },
    { kind = "disk full", chance = 2, least = 0.5, most = 2 }
}

schedule.client = {
    { kind = "kill client", chance = 2, least = 0.1, most = 1 },
    { kind = "kill holder", chance = 3, least = 0.1, most = 1 },
    { kind = "exit of a holder", chance = 3, least = 0.5, most = 1 },
    { kind = "pause client, shorter than T", chance = 5, least = 0.2, most = 0.9, of_timeout = true },
    { kind = "pause client, longer than T", chance = 2, least = 1.1, most = 2, of_timeout = true },
    { kind = "pause holder, longer than T", chance = 3, least = 1.1, most = 2, of_timeout = true },
    { kind = "pause zklock, not its command, longer than T", chance = 3, least = 1.1, most = 2, of_timeout = true },
    { kind = "delete the node of a command", chance = 3, least = 0.1, most = 0.5 },
    { kind = "cut client from one server", chance = 3, least = 0.5, most = 5 },
    { kind = "cut client from all servers", chance = 3, least = 0.5, most = 6 },
    { kind = "client not heard", chance = 3, least = 0.5, most = 6 },
    { kind = "client does not hear", chance = 3, least = 0.5, most = 6 },
    { kind = "lossy links of a client", chance = 2, least = 1, most = 4 },
    { kind = "delayed packets", chance = 3, least = 0.5, most = 4 },
    { kind = "stalled connections", chance = 3, least = 0.5, most = 4 },
    { kind = "reset before the reply", chance = 6, least = 0.5, most = 1.5 },
    { kind = "reset before the request", chance = 3, least = 0.5, most = 1.5 },
    { kind = "all reconnect", chance = 2, least = 0.1, most = 0.3 },
    { kind = "no names", chance = 2, least = 1, most = 6 },
    { kind = "wall clock jumps", chance = 3, least = 0.5, most = 2 }
}

--- Faults that make two holders if nothing prevents that.
schedule.control = {
    { kind = "cut follower from leader", chance = 3, least = 5, most = 7 },
    { kind = "pause holder, longer than T", chance = 2, least = 1.2, most = 1.8, of_timeout = true },
    { kind = "pause zklock, not its command, longer than T", chance = 2, least = 1.2, most = 1.8, of_timeout = true }
}

--- For idle clients whose sessions are nearly over when they acquire: sessions of 2 s end 1.75 to 2.5 s after such a stall began,
-- and after 3 s the follower gives up its leader.
schedule.stalled = {
    { kind = "stall leader to follower", chance = 1, least = 1.8, most = 2.4 }
}

--- Sizes in which nothing else happens.
local FEW = { control = schedule.control, leased = schedule.control, stalled = schedule.stalled }

--- A generator of numbers in (0, 1) that gives the same numbers in every Lua (Park and Miller).
local function generator(seed)
    local state = seed % 2147483646 + 1
    local function next_number()
        state = state * 16807 % 2147483647
        return state / 2147483647
    end
    -- The first numbers of neighbouring seeds are much alike.
    for _ = 1, 5 do
        next_number()
    end
    return next_number
end

local function pick(random, kinds)
    local sum = 0
    for _, entry in ipairs(kinds) do
        sum = sum + entry.chance
    end
    local chance = random() * sum
    for _, entry in ipairs(kinds) do
        chance = chance - entry.chance
        if chance < 0 then
            return entry
        end
    end
    return kinds[#kinds]
end

local function fault(random, kinds, at)
    local entry = pick(random, kinds)
    return {
        at = at, kind = entry.kind, seconds = entry.least + random() * (entry.most - entry.least), of_timeout = entry.of_timeout,
        who = random(), how = random()
    }
end

--- A list of faults, by their times: { at =, kind =, seconds =, of_timeout =, who = 0…1, how = 0…1 }; at: seconds after the
-- beginning; seconds: how long, in parts of the session timeout if `of_timeout`; who, how: the target, and details.
function schedule.make(seed, seconds, size)
    local random = generator(seed)
    local list, few = {}, FEW[size]
    local at = 0.5
    while at < seconds - 1 do
        local first = fault(random, few or schedule.server, at)
        list[#list + 1] = first
        -- In one of four cases a second fault begins before the first one ends.
        if not few and random() < 0.25 then
            list[#list + 1] = fault(random, schedule.server, at + random() * first.seconds)
        end
        at = at + first.seconds + 1.5 + random() * 3
    end
    at = 0.2
    while not few and at < seconds - 1 do
        list[#list + 1] = fault(random, schedule.client, at)
        at = at + 0.4 + random() * 2
    end
    for index, entry in ipairs(list) do
        entry.number = index
    end
    table.sort(list, function(one, other)
        if one.at ~= other.at then
            return one.at < other.at
        end
        return one.number < other.number
    end)
    return list
end

return schedule
