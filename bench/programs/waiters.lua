--- waiters: COUNT waiting acquisitions of one client under cqueues, which are all granted one after the other.
--
-- Usage: waiters.lua SERVERS one|each COUNT coroutines|callbacks
--            one    all at one lock
--            each   each at a lock of its own
--            Another process holds the locks, and releases them when all wait. Prints a line: `requests` of the waiting client;
--            `joining_ms` and `granted_ms`: by how much a timer of the event loop was late at most while they were asked for, and
--            while they were granted.

local cqueues = require "cqueues"
local zklock = require "zklock"

local servers, mode, count, way = arg[1], arg[2], math.tointeger(tonumber(arg[3])), arg[4]
local locks = mode == "one" and 1 or count

local AT_ONCE = 400 -- acquisitions of the holder
local TURN = 10     -- how many the waiting client asks for before it lets its loop go on
local PERIOD = 0.002 -- of the timer, seconds
local OPTIONS = { session_timeout = 120, connect_timeout = 60, wait = "cqueues" }
local HELD = "/bench-waiters-held-" .. mode .. count -- exists from when the locks are held until they are to be released

local function path_of(index)
    return "/bench-waiters-" .. mode .. count .. "/" .. math.min(index, locks)
end

local loop = cqueues.new()

--- Holds all locks until HELD is deleted.
local function hold()
    local client, holds, begun = assert(zklock.connect(servers, OPTIONS)), {}, 0
    for _ = 1, AT_ONCE do
        loop:wrap(function()
            while begun < locks do
                begun = begun + 1
                table.insert(holds, (assert(client:mutex(path_of(begun)):acquire())))
            end
        end)
    end
    while #holds < locks do
        cqueues.sleep(0.01)
    end
    assert(client:create(HELD, ""))
    local _, released = assert(client:exists(HELD, { watch = true }))
    assert(released:wait())
    for index, held in ipairs(holds) do
        held:release { wait = false }
        if index % TURN == 0 then
            cqueues.sleep(0)
        end
    end
    client:flush(60)
    os.exit(true, false) -- without closing: a transaction that ends a session names all its nodes
end

local late = 0 -- seconds

--- By how much the timer was late at most since the last call, in milliseconds.
local function lateness()
    local was = late * 1000
    late = 0
    return was
end

local function time()
    while true do
        local due = cqueues.monotime() + PERIOD
        cqueues.sleep(PERIOD)
        late = math.max(late, cqueues.monotime() - due)
    end
end

local function acquire(lock, granted)
    if way == "callbacks" then
        lock:acquire {
            callback = function(held)
                assert(held):release { wait = false }
                granted()
            end
        }
    else
        loop:wrap(function()
            assert(lock:acquire()):release { wait = false }
            granted()
        end)
    end
end

local function run()
    local words = { arg[0], servers, mode, count, "hold" }
    local holder = io.popen("exec lua5.4 '" .. table.concat(words, "' '") .. "'")
    local client, granted = assert(zklock.connect(servers, OPTIONS)), 0
    while not client:exists(HELD) do
        cqueues.sleep(0.1)
    end
    lateness()
    for index = 1, count do
        acquire(client:mutex(path_of(index)), function()
            granted = granted + 1
        end)
        if index % TURN == 0 then
            cqueues.sleep(0)
        end
    end
    local before
    repeat -- until all wait, and nothing is in flight
        before = client:stats().requests
        cqueues.sleep(1)
        local stats = client:stats()
    until stats.acquisitions == count and stats.requests - before < 5 -- heartbeats
    local joining = lateness()
    assert(client:delete(HELD))
    while granted < count do
        cqueues.sleep(0.01)
    end
    local requests = client:stats().requests
    print(string.format("name=zklock requests=%d joining_ms=%.0f granted_ms=%.0f", requests, joining, lateness()))
    io.stdout:flush()
    holder:close()
    os.exit(true, false)
end

if way ~= "hold" then
    loop:wrap(time)
end
loop:wrap(way == "hold" and hold or run)
assert(loop:loop())
