--- share: some clients of many, each with its own session, take turns at a lock that several may hold at once.
--
--   rwlock      every tenth turn of a client writes, the others read
--   semaphore   of 10 permits
--
-- The clients are number FIRST and the COUNT - 1 after it, of TOTAL in all processes together. When they are connected the process
-- waits until it may begin, as bench/start.lua describes. Counts the grants between WARM_UP seconds after that and SECONDS later.
--
-- A holder renames files in DIR, which fails if another client has done so. A writer renames "free". Each reader renames its own
-- file, which a writer must find in its place; a reader must find "free". A holder of a permit renames one of ten files.
--
-- Usage: share.lua SERVERS PATH rwlock|semaphore FIRST COUNT TOTAL WARM_UP SECONDS DIR

local loop = require "loop"
local socket = require "socket"
local start = require "start"
local zklock = require "zklock"

local now, rename = socket.gettime, os.rename
local servers, path, kind = arg[1], arg[2], arg[3]
local first, count, total = math.tointeger(arg[4]), math.tointeger(arg[5]), math.tointeger(arg[6])
local warm_up, seconds, dir = tonumber(arg[7]), tonumber(arg[8]), arg[9]

local PERMITS = 10
local PATIENCE = 20 -- seconds for one turn: a waiter that is forgotten in the queue fails, instead of waiting for ever
local SCANS = 3 -- of the permits' files: a free one may be among those already checked

local turns, violations, from, to = 0, 0, nil, nil

local function exists(name)
    local file = io.open(name)
    return file and file:close() or false
end

local function name_of(what, number, state)
    return dir .. "/" .. what .. "-" .. number .. "-" .. state
end

local function read_inside(number)
    local out, within = name_of("reader", number, "out"), name_of("reader", number, "in")
    local alone = rename(out, within) and exists(dir .. "/free")
    rename(within, out)
    return alone
end

local function write_inside()
    local alone = rename(dir .. "/free", dir .. "/taken")
    for number = 1, total do
        alone = alone and exists(name_of("reader", number, "out"))
    end
    rename(dir .. "/taken", dir .. "/free")
    return alone
end

local function permit_inside(number)
    for index = 0, SCANS * PERMITS - 1 do
        local slot = (number + index) % PERMITS + 1
        if rename(name_of("permit", slot, "free"), name_of("permit", slot, "taken")) then
            rename(name_of("permit", slot, "taken"), name_of("permit", slot, "free"))
            return true
        end
    end
    return false
end

--- Takes a turn, and checks whether the other clients were excluded.
local function turn(lock, inside, number)
    assert(lock:acquire(PATIENCE))
    local at = now()
    if not inside(number) then
        violations = violations + 1
    end
    if at >= from and at < to then
        turns = turns + 1
    end
    assert(lock:release())
    return at < to
end

local function take_turns(client, number)
    if kind == "semaphore" then
        local semaphore = client:semaphore(path, PERMITS)
        while turn(semaphore, permit_inside, number) do end
        return
    end
    local rw, index = client:rwlock(path), number
    local goes_on = true
    while goes_on do
        index = index + 1
        if index % 10 == 0 then
            goes_on = turn(rw.write, write_inside, number)
        else
            goes_on = turn(rw.read, read_inside, number)
        end
    end
end

local function await_start()
    local moment = start.await(dir, first, loop.sleep)
    from = moment + warm_up
    to = from + seconds
end

loop.run(function()
    local clients = {}
    for index = 1, count do
        local client = assert(zklock.connect(servers, { connect_timeout = 20, wait = count > 1 and "luv" or nil }))
        local lock = kind == "semaphore" and client:semaphore(path, PERMITS) or client:rwlock(path).read
        assert(lock:acquire(PATIENCE))
        assert(lock:release()) -- the directories exist from here on
        clients[index] = client
    end
    await_start()
    for index, client in ipairs(clients) do
        loop.start(function()
            take_turns(client, first + index - 1)
            client:close()
        end)
    end
end)
print(string.format("name=zklock turns=%d violations=%d", turns, violations))
