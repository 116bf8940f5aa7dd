--- program: what simulate_lua runs: random operations of a Lua program with some clients. There are faults of the machine, the
-- network and the servers (`world`, from simulate_lua.c, whose random numbers decide everything).
--
-- A third of the programs block. The others are coroutines in an event loop of their own. These must be true of all:
--   * At no instant two objects that exclude each other are both held, and never more permits are held than exist.
--   * The tokens of a mutex grow from grant to grant.
--   * No operation takes longer than it may. A failure has a code that the documentation lists for the operation.
--   * A holder whose node an administrator has deleted is told so, and holds nothing any more that another may have.
--   * Without memory a call fails with an error or a code that says so, and nothing else goes wrong.
--   * After the faults every client can acquire every lock, and in the end no node and no watch is left.

-- luacheck: globals world
local core = require "zklock.core"
local caller = require "zklock.lock.caller"
local held_acquisition = require("zklock.lock.hold").held_acquisition
local zklock = require "zklock"

local below, now = world.below, core.now
local T = world.session_timeout

--- Seconds that a busy machine may take beyond a deadline.
local GRACE = 0.1

local function chance(numerator, denominator)
    return below(denominator) < numerator
end

local function pick(list)
    return list[below(#list) + 1]
end

local function violated(what, ...)
    error(("violated: %s: "):format(what) .. table.concat({ ... }, " "), 0)
end

local grants, losses, operations, shortages, deletions = 0, 0, 0, 0, 0
local frozen = 0 -- seconds for which the whole process was paused

-- Some programs have an administrator who deletes nodes at random. In some, allocations fail now and then, in Lua or below it.
local ADMINISTRATED, SHORT = chance(1, 3), chance(1, 4)

if world.broken == "abandon" then -- an acquisition that failed for lack of memory is not abandoned
    local hold = require "zklock.lock.hold"
    local abandon = hold._abandon
    hold._abandon = function(...)
        return world.ran_short() or abandon(...)
    end
end

-- An event loop ----------------------------------------------------------------------------------------------------------

local BLOCKING = chance(1, 3)

local sleeping = {} -- list of { thread =, deadline = }
local clients = {}  -- list of { client =, objects = list }; client is false while there is no client

local adapter = {}

local function sleep_until(deadline)
    local thread = coroutine.running()
    -- The other coroutines have enough memory; and this one has it for the rest: it must not fail between here and the yield.
    local successes, failures = world.lua_memory()
    sleeping[#sleeping + 1] = { thread = thread, deadline = deadline }
    coroutine.yield()
    world.lua_memory(successes, failures)
end

function adapter.wait(_, waiter, seconds)
    waiter.thread = coroutine.running()
    sleep_until(now() + seconds)
    return true
end

function adapter.wake(waiter)
    for _, sleeper in ipairs(sleeping) do
        if sleeper.thread == waiter.thread then
            sleeper.deadline = 0
        end
    end
end

local function sleep(seconds)
    if BLOCKING then
        world.poll({}, seconds)
    else
        sleep_until(now() + seconds)
    end
end

--- Whether the error is allowed because memory is short.
local function is_shortage(problem)
    return SHORT and tostring(problem):find("not enough memory", 1, true) and not tostring(problem):find "^violated"
end

--- Lets each client pump whose descriptor may be readable.
local function pump_all()
    for _, entry in ipairs(clients) do
        if entry.client and SHORT and chance(1, 20) then
            local ok, problem = world.call(below(20), pick { 1, 2, 30 }, entry.client.pump, entry.client)
            if not ok and not is_shortage(problem) then
                violated("pump raises nothing", tostring(problem))
            end
            shortages = shortages + (ok and 0 or 1)
        elseif entry.client then
            entry.client:pump()
        end
    end
end

local function resume(thread)
    local ok, problem = coroutine.resume(thread)
    if not ok then
        local known = type(problem) == "string" and problem:find "^violated"
        error(known and problem or debug.traceback(thread, tostring(problem)), 0)
    end
end

--- Runs functions as coroutines until all have ended.
local function run(functions)
    for _, fn in ipairs(functions) do
        resume(coroutine.create(fn))
    end
    while #sleeping > 0 do
        local earliest, fds = math.huge, {}
        for _, sleeper in ipairs(sleeping) do
            earliest = math.min(earliest, sleeper.deadline)
        end
        for _, entry in ipairs(clients) do
            fds[#fds + 1] = entry.client and entry.client:pollfd() or nil
        end
        world.poll(fds, math.max(0, math.min(earliest - now(), 60)))
        pump_all()
        local due = {}
        for index = #sleeping, 1, -1 do
            if sleeping[index].deadline <= now() then
                due[#due + 1] = table.remove(sleeping, index).thread
            end
        end
        while #due > 0 do
            resume(table.remove(due, below(#due) + 1))
        end
    end
end

-- The checks ------------------------------------------------------------------------------------------------------------

local PERMITS = 3

--- How long it may take until a holder is told that an administrator has deleted its node. It is told by the next heartbeat, which
-- may have to wait for a connection as long as the session lives.
local HEARS_WITHIN = 2 * T + GRACE

--- Whether an administrator has deleted a node by which an acquisition holds, and the holder need not know yet. (Only one of a
-- semaphore's nodes is known by name. With other kinds the name is unknown if there was no memory for it.)
local function disowned(object, acquisition)
    if not ADMINISTRATED then
        return false
    end
    local node, ago = acquisition:node(), nil
    if node then
        ago = world.deleted(node)
        if ago and ago > HEARS_WITHIN and acquisition:held() then
            violated("hears that its node was deleted", node, tostring(ago))
        end
    end
    if object.kind == "semaphore" then
        ago = world.deleted(object.path .. "/leases")
    elseif not node then
        ago = world.deleted(object.path)
    end
    return ago and ago <= HEARS_WITHIN
end

--- Calls fn(hold) for each hold of a lock object, of any coroutine, that is held at this moment. Returns how many there are.
local function each_held(object, lock, fn)
    local count = 0
    for hold in caller.each(lock) do
        local acquisition = held_acquisition(hold)
        if acquisition and not disowned(object, acquisition) then
            count = count + 1
            if fn then
                fn(hold)
            end
        end
    end
    return count
end

--- The holds of all objects of a path at this moment.
local function held_on(path)
    local exclusive, shared, permits = 0, 0, 0
    for _, entry in ipairs(clients) do
        for _, object in ipairs(entry.objects) do
            local lock = object.lock
            if object.path ~= path then -- luacheck: ignore
            elseif object.kind == "mutex" then
                exclusive = exclusive + each_held(object, lock)
            elseif object.kind == "rwlock" then
                exclusive = exclusive + each_held(object, lock.write)
                each_held(object, lock.read, function(hold)
                    local me = hold._caller
                    if not (me and held_acquisition(caller.own(lock.write, me))) then -- otherwise its coroutine also writes
                        shared = shared + 1
                    end
                end)
            else
                each_held(object, lock, function(hold)
                    permits = permits + hold._count
                end)
            end
        end
    end
    return exclusive, shared, permits
end

local PATHS = { "/m/1", "/m/2", "/m/3", "/rw/1", "/sem/1" }

local function check_exclusion()
    for _, path in ipairs(PATHS) do
        local exclusive, shared, permits = held_on(path)
        if exclusive > 1 or exclusive == 1 and shared > 0 or permits > PERMITS then
            violated("held together", path, exclusive, shared, permits)
        end
    end
end

local latest = {} -- path -> the token of the latest grant, and its hold
local latest_hold = setmetatable({}, { __mode = "v" })
local latest_thread = setmetatable({}, { __mode = "v" }) -- path -> the coroutine of the latest grant

local function check_token(path, held)
    if ADMINISTRATED and world.deleted(held:node() or "") then
        return -- the token may be stale
    end
    local token, before = held:token(), latest[path]
    local again = token == before and held == latest_hold[path] -- reentrant
    if token and before and token <= before and not again then
        violated("tokens grow", path, before, token)
    end
    if token then
        latest[path], latest_hold[path] = token, held
    end
end

--- The codes that an operation may return.
local function codes(text)
    local set = {}
    for code in text:gmatch "%S+" do
        set[code] = true
    end
    return set
end
local ACQUIRE = codes "timeout disconnected cancelled deadlock lost closed failed"
local RELEASE = codes "not_held lost disconnected closed failed"
local QUESTION = codes "timeout disconnected closed failed no_node lost bad_version not_held node_exists"

--- Calls fn(…), which may take up to `limit` seconds. Checks its result, and then all invariants.
local function try(what, limit, known, fn, ...)
    operations = operations + 1
    local began, stood = now(), frozen
    local successes, failures = -1, 0
    if SHORT and chance(1, 3) then
        successes, failures = below(60), pick { 1, 2, 30 }
    end
    local results = table.pack(world.call(successes, failures, fn, ...))
    local took = now() - began - (frozen - stood)
    world.trace(("%s -> %s %s %s"):format(what, tostring(results[1]), tostring(results[2]), tostring(results[4])))
    if not results[1] and is_shortage(results[2]) then
        shortages = shortages + 1
    elseif not results[1] and results[2] ~= "mine" then
        violated("raises nothing", what, tostring(results[2]))
    elseif took > limit + GRACE and not BLOCKING then
        violated("takes too long", what, tostring(took), "instead of", tostring(limit))
    elseif results[1] and results[2] == nil and not known[results[4]] then
        violated("a code that is known", what, tostring(results[4]), tostring(results[3]))
    elseif results[1] and results[2] == nil and (type(results[3]) ~= "string" or results[3] == "") then
        violated("a message", what, tostring(results[4]))
    end
    losses = losses + (results[4] == "lost" and 1 or 0)
    check_exclusion()
    return table.unpack(results, 2, results.n)
end

-- The operations --------------------------------------------------------------------------------------------------------

local TIMEOUTS = { 0, 0, 0.01, 0.2, 1, 3 }

local function random_settings()
    return {
        reentrant = chance(1, 6), handoff = chance(1, 2) and below(4) or nil, linger = chance(1, 4) and T / 4 or nil,
        max_hold = chance(1, 6) and T / 2 or nil, wait_release = chance(1, 2) or false,
        on_lost = chance(1, 2) and function() end or nil,
        on_revoke = chance(1, 3) and function(held) held:release({ wait = false }) end or nil
    }
end

local MAKE = {
    mutex = function(client, path) return client:mutex(path, random_settings()) end,
    rwlock = function(client, path) return client:rwlock(path, random_settings()) end,
    semaphore = function(client, path)
        local settings = random_settings()
        settings.reentrant, settings.linger = nil, nil
        return client:semaphore(path, PERMITS, settings)
    end
}
local KINDS = { ["/m/1"] = "mutex", ["/m/2"] = "mutex", ["/m/3"] = "mutex", ["/rw/1"] = "rwlock", ["/sem/1"] = "semaphore" }

--- Returns an object of a random open client, nil if there is none.
local function random_object()
    local entry = pick(clients)
    if not entry.client then
        return nil
    end
    if #entry.objects < 6 and chance(1, 2) then
        local path = pick(PATHS)
        local ok, lock = pcall(MAKE[KINDS[path]], entry.client, path)
        if not ok and is_shortage(lock) then
            return nil
        elseif not ok then
            error(lock, 0)
        end
        local object = { entry = entry, path = path, kind = KINDS[path], lock = lock, count = 1, busy = 0 }
        entry.objects[#entry.objects + 1] = object
        return object
    end
    return #entry.objects > 0 and pick(entry.objects) or nil
end

--- Returns a hold of a lock, of any coroutine, that is held at this moment; nil if there is none.
local function any_hold(lock)
    for hold in caller.each(lock) do
        if hold:held() then
            return hold
        end
    end
    return nil
end

--- Returns the part of an object that is acquired, and the arguments of acquire. A semaphore's count is constant while it may be
-- held.
local function random_half(object, timeout)
    if object.kind == "rwlock" then
        return chance(2, 3) and object.lock.read or object.lock.write, timeout
    elseif object.kind == "semaphore" then
        if object.busy == 0 and not any_hold(object.lock) then
            object.count = 1 + below(PERMITS)
        end
        return object.lock, { timeout = timeout, count = object.count }
    end
    return object.lock, timeout
end

--- Whether any part of an object is held.
local function is_held(object)
    if object.kind == "rwlock" then
        return any_hold(object.lock.read) ~= nil or any_hold(object.lock.write) ~= nil
    end
    return any_hold(object.lock) ~= nil
end

--- Calls try(…) with an object that may be held during the call or afterwards.
local function busily(object, ...)
    local free = object.busy == 0 and not is_held(object)
    object.busy = object.busy + 1
    local results = table.pack(try(...))
    object.busy = object.busy - 1
    if free and results[1] == nil and results[3] == "deadlock" then
        violated("what nobody uses can be acquired", results[2])
    end
    return table.unpack(results, 1, results.n)
end

--- Seconds that an acquire may take. A try waits for the server as long as a session lasts.
local function limit_of(timeout)
    return timeout == 0 and T or timeout
end

local function release(held, settings)
    return try("release", T, RELEASE, held.release, held, settings)
end

--- Has a hold for a while. It is released by itself, or by its lock.
local function hold(object, lock, held)
    grants = grants + 1
    local alone, thread = object.kind == "mutex" or object.kind == "rwlock" and lock == object.lock.write, coroutine.running()
    if alone then
        check_token(object.path, held)
    end
    local token = held:token()
    if alone and token then
        latest_thread[object.path] = thread
    end
    if chance(3, 4) then
        sleep(below(1000) / 1000 * T * (chance(1, 10) and 2 or 0.1))
    end
    check_exclusion()
    if alone and not ADMINISTRATED and token and held:token() == token and latest_thread[object.path] ~= thread then
        violated("one coroutine is inside", object.path)
    end
    if chance(1, 30) then
        return -- keeps the lock
    end
    release(chance(1, 2) and held or lock, chance(1, 3) and { wait = chance(1, 2) } or nil)
end

local OPERATIONS = {}

local function operation(weight, fn)
    for _ = 1, weight do
        OPERATIONS[#OPERATIONS + 1] = fn
    end
end

operation(12, function(object)
    local timeout = pick(TIMEOUTS)
    local lock, given = random_half(object, timeout)
    local got = busily(object, "acquire", limit_of(timeout), ACQUIRE, lock.acquire, lock, given)
    if got and not is_shortage(got) then
        hold(object, lock, got)
    end
end)

operation(3, function(object)
    local timeout = pick(TIMEOUTS)
    local lock, given = random_half(object, timeout)
    local length = T * below(10) / 50
    busily(object, "with_lock", limit_of(timeout) + length + T, ACQUIRE, lock.with_lock, lock, function()
        check_exclusion()
        sleep(length)
        if chance(1, 4) then
            error("mine", 0)
        end
    end, given)
end)

operation(1, function(object)
    local lock = random_half(object)
    try("cancel", 0, {}, lock.cancel, lock)
end)

operation(2, function(object)
    local lock = object.kind == "rwlock" and object.lock.write or object.lock
    local timeout = pick(TIMEOUTS)
    try("contenders", timeout, QUESTION, lock.contenders, lock, timeout)
end)

operation(2, function(object)
    local lock = object.kind == "rwlock" and object.lock.write or object.lock
    local timeout = pick(TIMEOUTS)
    try("revoke", timeout, QUESTION, lock.revoke, lock, timeout)
end)

--- A write that the server executes only if the lock is held.
operation(2, function(object)
    local lock = object.kind == "rwlock" and object.lock.write or object.lock
    local held = any_hold(lock)
    if held then
        local timeout = 1 + below(3)
        local transaction = held:transaction():create("/log-", "x", { sequential = true })
        try("commit", timeout, QUESTION, transaction.commit, transaction, timeout)
    end
end)

operation(2, function(object)
    local client, settings = object.entry.client, { timeout = pick(TIMEOUTS) }
    try("set", settings.timeout, QUESTION, client.set, client, "/data", "x", settings)
end)

operation(2, function(object)
    local entry = object.entry
    local members = {}
    for index = 1, 2 + below(2) do
        members[index] = entry.client:mutex("/m/" .. index, random_settings())
        entry.objects[#entry.objects + 1] = { entry = entry, path = "/m/" .. index, kind = "mutex", lock = members[index],
            count = 1, busy = 1 }
    end
    local multi, timeout = entry.client:multi(members), pick(TIMEOUTS)
    local held = try("multi", limit_of(timeout) + T, ACQUIRE, multi.acquire, multi, timeout)
    if held and not is_shortage(held) then
        sleep(T / 20)
        check_exclusion()
        held = chance(1, 2) and held or multi
        try("multi release", 2 * T, RELEASE, held.release, held)
    end
end)

--- Drops an object, whatever it holds or waits for.
operation(1, function(object)
    local objects = object.entry.objects
    for index = #objects, 1, -1 do
        if objects[index] == object then
            table.remove(objects, index)
        end
    end
    if chance(1, 2) then
        collectgarbage()
    end
end)

operation(1, function()
    local seconds = T * below(20) / 10
    frozen = frozen + seconds
    world.freeze(seconds)
    check_exclusion()
end)

operation(1, function()
    world.reap()
end)

if ADMINISTRATED then
    operation(4, function(object)
        local held = object.kind == "rwlock" and (any_hold(object.lock.write) or any_hold(object.lock.read)) or
            object.kind ~= "rwlock" and any_hold(object.lock)
        local directory = object.path .. (object.kind == "semaphore" and pick { "/locks", "/leases" } or "")
        local choice = below(6)
        local doomed = choice == 0 and object.path or choice < 4 and held and held:node() or world.child(directory, below(20))
        if doomed then
            deletions = deletions + 1
            world.delete(doomed)
        end
    end)
end

if SHORT then
    operation(8, function()
        world.memory(below(200), pick { 1, 1, 3, 20, 100 })
    end)
end

local function open(entry, patience)
    if world.room() > 0 then
        local ok, client = pcall(zklock.connect, world.servers, {
            wait = BLOCKING and "blocking" or adapter, session_timeout = T,
            connect_timeout = patience or chance(1, 2) and 0 or 2 * T
        })
        if not ok and not is_shortage(client) then
            violated("connect raises nothing", tostring(client))
        end
        entry.client = ok and client or false
    end
end

operation(1, function(object)
    local entry, client = object.entry, object.entry.client
    entry.client, entry.objects = false, {}
    local timeout = pick(TIMEOUTS)
    try("close", timeout, codes "timeout", client.close, client, timeout)
    check_exclusion()
    open(entry)
end)

local turns = 20 + below(60)

local function work()
    for _ = 1, turns do
        local object = random_object()
        if object and object.entry.client then
            local ok, problem = pcall(pick(OPERATIONS), object)
            if not ok and not is_shortage(problem) then
                error(problem, 0)
            end
        else
            sleep(T / 50)
        end
        if chance(1, 3) then
            sleep(T * below(100) / 1000)
        end
    end
end

-- The end ---------------------------------------------------------------------------------------------------------------

--- All faults have ended: every lock must be acquired and released.
local function settle()
    world.heal()
    local patience = 60 + 10 * T
    for _, entry in ipairs(clients) do
        for _, object in ipairs(entry.objects) do
            for _, lock in ipairs(object.kind == "rwlock" and { object.lock.read, object.lock.write } or { object.lock }) do
                local held = any_hold(lock)
                while held do
                    held:release()
                    held = any_hold(lock)
                end
            end
        end
        entry.objects = {}
        while not entry.client and world.room() == 0 do
            collectgarbage() -- ends a client whose close failed for lack of memory
            sleep(0.1) -- other clients are still closing
        end
        if not entry.client then
            open(entry, patience)
        end
    end
    collectgarbage()
    for _, entry in ipairs(clients) do
        local client = entry.client or violated("a client can be opened")
        local ok, message, code = client:flush(patience)
        if not ok then
            violated("everything is cleaned up", code, message)
        end
        for _, path in ipairs(PATHS) do
            local lock = MAKE[KINDS[path]](client, path)
            lock = KINDS[path] == "rwlock" and lock.write or lock
            repeat -- a lock whose max_hold passed before this program woke up is lost at once
                ok, message, code = lock:acquire({ timeout = patience, count = KINDS[path] == "semaphore" and PERMITS or nil })
            until code ~= "lost"
            if not ok then
                violated("everybody gets everything", code, message)
            end
            lock:release()
        end
        ok, message, code = client:close(patience)
        if not ok then
            violated("a client can be closed", code, message)
        end
        entry.client = false
    end
    for _ = 1, 100 do
        if not world.left() then
            return
        end
        sleep(T / 5)
    end
    violated("nothing is left", world.left())
end

for index = 1, 2 + below(2) do
    clients[index] = { client = false, objects = {} }
end
local function set_up()
    for _, entry in ipairs(clients) do
        open(entry)
    end
end

if BLOCKING then
    set_up()
    work()
    settle()
else
    local functions = {}
    for index = 1, 2 + below(6) do
        functions[index] = work
    end
    run({ set_up })
    run(functions)
    run({ settle })
end
world.count(operations, grants, losses, deletions, shortages)
