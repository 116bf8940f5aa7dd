--- campaign.turns: what a client of the campaign does in any loop: it takes turns at its locks, writes to the register while it
-- holds a lock, and records each grant before it enters. spec/campaign/history.lua reads the records:
--
--     start TIME PID                               the first one
--     g ID PATH MODE WEIGHT LIMIT TOKEN TIME UNTIL granted, and at TIME valid until UNTIL (- without a lease). MODE is x
--                                                  (alone), r (with readers), s (WEIGHT of LIMIT permits)
--     v ID TIME UNTIL                              still held at TIME
--     e ID TIME released|lost                      at TIME held for the last time, or not held any more
--     w ID SEQUENCE BEFORE                         its write was the register's SEQUENCE-th; BEFORE: the token that was in the
--                                                  register without a fence
--     x ID BEFORE                                  its write was refused
--     d ID TIME                                    from TIME on its node may be deleted by an administrator
--     r FIBER TIME CODE PATH                       an acquire that failed
--     q TIME                                       os.exit follows
--     n STAT=COUNT…                                the client's counters, each time the latest
--     c FDS FDS THREADS THREADS                    before connect, after close
--
-- Each line is one write(2), so a killed client leaves whole lines.

local turns = {}

local format = string.format

local STATS = { "requests", "grants", "hand_overs", "losses", "unknown_outcomes", "connections", "refusals", "heartbeats" }
local STATS_INTERVAL = 2
--- How long turns are, in seconds, and in how many turns of a thousand.
local LONG, LONG_PER_MILLE = 1.5, 3
local MIDDLE, MIDDLE_PER_MILLE = 0.03, 60
local SHORT = 0.002
local LOOK_INTERVAL = 0.15

--- Timeouts of acquire, one at random; 0 is a try.
local TIMEOUTS = { 0, 0.3, 2, 5, 5, 5 }

--- Counts the entries of a directory of /proc.
function turns.count(directory)
    local uv = require "luv"
    local count = 0
    local entries = assert(uv.fs_scandir(directory))
    for _ in uv.fs_scandir_next, entries do
        count = count + 1
    end
    return count
end

--- Collects all garbage. Code that LuaJIT has compiled refers to functions and their upvalues for as long as it is kept: if it was
-- compiled early, to the function that made the locks, and by it to the client.
function turns.collect()
    local jit = rawget(_G, "jit")
    if jit then
        jit.flush()
    end
    collectgarbage()
    collectgarbage()
end

--- The descriptors of this process: number -> words.
function turns.descriptors()
    local uv = require "luv"
    local list = {}
    for name in uv.fs_scandir_next, assert(uv.fs_scandir("/proc/self/fd")) do
        list[name] = uv.fs_readlink("/proc/self/fd/" .. name)
    end
    return list
end

--- Returns the kernel's line about a socket, which has its addresses; "" if there is none.
local function line_about(what)
    local inode = what:match("^socket:%[(%d+)%]$")
    for _, kind in ipairs(inode and { "tcp", "tcp6", "udp", "unix" } or {}) do
        for line in io.lines("/proc/self/net/" .. kind) do
            if line:find(" " .. inode .. "%f[%D]") then
                return (" (%s: %s)"):format(kind, line)
            end
        end
    end
    return ""
end

--- Prints on stderr the descriptors that were not open before.
function turns.name_descriptors(before)
    for name, what in pairs(turns.descriptors()) do
        if before[name] ~= what then
            io.stderr:write(format("fd %s is %s%s and was %s\n", name, what, line_about(what), before[name] or "closed"))
        end
    end
end

--- Reads a client's settings.
function turns.settings(name)
    local cjson = require "cjson"
    local file = assert(io.open(name))
    local settings = cjson.decode(file:read("*a"))
    file:close()
    return settings
end

--- Returns a function that returns the present order of the client with these settings: a word, or nil.
function turns.order_reader(name)
    return function()
        local orders = io.open(name .. ".order")
        if orders then
            local word = orders:read("*l")
            orders:close()
            return word
        end
    end
end

--- Suspends the running coroutine in libuv's loop.
function turns.sleep(seconds)
    local uv = require "luv"
    local thread, timer = coroutine.running(), uv.new_timer()
    timer:start(math.ceil(seconds * 1000), 0, function()
        timer:close()
        assert(coroutine.resume(thread))
    end)
    coroutine.yield()
end

--- Opens a client's record. Returns a function(format, …) that writes to it.
function turns.recorder(name)
    local file = assert(io.open(name, "a"))
    file:setvbuf("no")
    return function(...)
        assert(file:write(format(...) .. "\n"))
    end
end

--- Makes a fiber's locks by the settings: a list of { lock =, parts = the locks that are granted with it, chance = }.
local function make_locks(client, settings)
    local list = {}
    local function options()
        local copy = {}
        for key, value in pairs(settings.options or {}) do
            copy[key] = value
        end
        return copy
    end
    local function part(lock, path, mode, limit)
        return { lock = lock, path = path, mode = mode, limit = limit or 1, weight = 1 }
    end
    local function add(kind, path, limit)
        local entry = { chance = 1, parts = {} }
        if kind == "mutex" then
            entry.lock = client:mutex(path, options())
            entry.parts[1] = part(entry.lock, path, "x")
        elseif kind == "read" or kind == "write" then
            entry.lock = client:rwlock(path, options())[kind]
            entry.parts[1] = part(entry.lock, path, kind == "read" and "r" or "x")
        else
            entry.lock = client:semaphore(path, limit, options())
            entry.parts[1] = part(entry.lock, path, "s", limit)
            entry.permits = limit
        end
        return entry
    end
    for _, wanted in ipairs(settings.locks) do
        local entry
        if wanted.kind == "multi" then
            entry = { parts = {} }
            local members = {}
            for index, member in ipairs(wanted.members) do
                local one = add(member.kind, member.path, member.limit)
                members[index], entry.parts[index] = one.lock, one.parts[1]
            end
            entry.lock = client:multi(members)
        else
            entry = add(wanted.kind, wanted.path, wanted.limit)
        end
        entry.chance = wanted.chance or 1
        list[#list + 1] = entry
    end
    return list
end

--- One of a list, at random; an entry with `chance` 2 twice as often as one without.
function turns.choose(random, list)
    local sum = 0
    for _, entry in ipairs(list) do
        sum = sum + (entry.chance or 1)
    end
    local pick = random() * sum
    for _, entry in ipairs(list) do
        pick = pick - (entry.chance or 1)
        if pick <= 0 then
            return entry
        end
    end
    return list[#list]
end

--- "-" for a time that never ends.
local function until_of(time, remaining)
    return remaining < math.huge and format("%.6f", time + remaining) or "-"
end

--- Records the grant; false if it is over already.
local function enter(world, fiber, entry)
    for _, part in ipairs(entry.parts) do
        local time = world.now()
        local remaining, token = part.lock:remaining(), part.lock:token()
        if remaining <= 0 or not token then
            part.id = nil
        else
            fiber.grants = fiber.grants + 1
            part.id, part.token = format("%d-%d", fiber.number, fiber.grants), token
            world.record("g %s %s %s %d %d %s %.6f %s", part.id, part.path, part.mode, part.weight, part.limit, token, time,
                until_of(time, remaining))
        end
    end
end

--- Records which parts are still held. Returns whether all are.
local function look(world, entry)
    local all = true
    for _, part in ipairs(entry.parts) do
        local time = world.now()
        local remaining = part.lock:remaining()
        if part.id and remaining > 0 then
            world.record("v %s %.6f %s", part.id, time, until_of(time, remaining))
        end
        all = all and remaining > 0
    end
    return all
end

local function leave(world, entry)
    for _, part in ipairs(entry.parts) do
        if part.id then
            local time = world.now()
            local held = part.lock:held()
            world.record("e %s %.6f %s", part.id, held and time or world.now(), held and "released" or "lost")
        end
    end
end

--- Records what register:write has returned.
function turns.record_write(record, id, sequence, before)
    before = before ~= "" and before or "-"
    if sequence then
        record("w %s %d %s", id, sequence, before)
    else
        record("x %s %s", id, before)
    end
end

--- Like programs that trust their lock: reads at the beginning, writes at the end, and does not check between the two.
local function hold(world, entry)
    local counters = {}
    for _, part in ipairs(entry.parts) do
        counters[part] = part.mode == "x" and part.id and world.register:counter(part.path) or nil
    end
    local pick = world.random() * 1000
    if pick < (world.long_per_mille or LONG_PER_MILLE) and world.order() ~= "brief" then
        local deadline = world.now() + world.random() * (world.long or LONG)
        repeat
            world.sleep(LOOK_INTERVAL)
        until not look(world, entry) or world.now() > deadline or world.order() == "brief"
    else
        -- Long enough that nginx treats it as a sleep.
        world.sleep(0.001 + world.random() * (pick < LONG_PER_MILLE + MIDDLE_PER_MILLE and MIDDLE or SHORT))
    end
    local order = world.order()
    if order and world.orders[order] then
        if order == "exit" then
            world.record("q %.6f", world.now())
        end
        world.orders[order]()
        -- A program that wakes up checks first: a lock that was not renewed meanwhile must not be held.
        look(world, entry)
    end
    for _, part in ipairs(entry.parts) do
        if counters[part] then
            turns.record_write(world.record, part.id, world.register:write(part.path, part.token, counters[part] + 1))
        end
    end
end

local function turn(world, fiber, entry)
    -- A client that is idle most of the time waits for the lock when it acquires.
    local options = { timeout = TIMEOUTS[fiber.idle and #TIMEOUTS or math.floor(world.random() * #TIMEOUTS) + 1] }
    if entry.permits then
        options.count = world.random() < 0.3 and math.min(2, entry.permits) or 1
        entry.parts[1].weight = options.count
    end
    local got, message, code = entry.lock:acquire(options)
    if not got then
        world.record("r %d %.6f %s %s", fiber.number, world.now(), code, entry.parts[1].path)
        -- The checks decide whether the servers caused "exhausted".
        if code ~= "timeout" and code ~= "disconnected" and code ~= "lost" and code ~= "exhausted" then
            error(("acquire: %s (%s)"):format(message, code))
        end
        -- After a refused try the client asks again soon, but not at once.
        world.sleep(0.02 + world.random() * 0.05)
        return
    end
    enter(world, fiber, entry)
    hold(world, entry)
    leave(world, entry)
    local released, problem, why = entry.lock:release()
    if not released and why ~= "lost" and why ~= "not_held" and why ~= "disconnected" then
        error(("release: %s (%s)"):format(problem, why))
    end
end

function turns.record_stats(world)
    local stats = assert(world.client:stats())
    local words = {}
    for index, name in ipairs(STATS) do
        words[index] = format("%s=%d", name, stats[name] or 0)
    end
    world.record("n %s", table.concat(words, " "))
end

--- Takes turns until the order to stop comes. `world`: client, register, record(format, …), now(), sleep(seconds), random(),
-- order() -> "stop", "brief" (no long turns any more), a name in orders, or nil, orders: name -> function() for a holder; long,
-- long_per_mille or nil.
function turns.run(world, number, settings)
    local fiber = { number = number, grants = 0, idle = settings.idle }
    local locks = make_locks(world.client, settings)
    local due = 0
    while world.order() ~= "stop" do
        turn(world, fiber, turns.choose(world.random, locks))
        if number == 1 and world.now() > due then
            due = world.now() + STATS_INTERVAL
            turns.record_stats(world)
        end
        if settings.pause then
            world.sleep((settings.idle or 0) + world.random() * settings.pause)
        end
    end
end

return turns
