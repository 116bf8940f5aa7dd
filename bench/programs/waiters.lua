--- waiters: COUNT waiting acquisitions of one client, in coroutines under cqueues, which are all granted one after the other.
--
-- Usage: waiters.lua SERVERS one|each COUNT
--            one    all at one lock
--            each   each at a lock of its own
--            Another client holds the locks, and releases them when all wait. Prints a line: `requests` of the waiting client.

local cqueues = require "cqueues"
local zklock = require "zklock"

local servers, mode, count = arg[1], arg[2], math.tointeger(tonumber(arg[3]))

local AT_ONCE = 400 -- acquisitions of the holder
local OPTIONS = { session_timeout = 120, connect_timeout = 60, wait = "cqueues" }

local function path_of(index)
    return "/bench-waiters-" .. mode .. count .. "/" .. (mode == "one" and 1 or index)
end

--- Calls fn(1) … fn(last) in AT_ONCE coroutines, and returns when all have returned.
local function for_all(loop, last, fn)
    local begun, ended = 0, 0
    for _ = 1, AT_ONCE do
        loop:wrap(function()
            while begun < last do
                begun = begun + 1
                fn(begun)
                ended = ended + 1
            end
        end)
    end
    while ended < last do
        cqueues.sleep(0.01)
    end
end

local loop = cqueues.new()
loop:wrap(function()
    local holder, client = assert(zklock.connect(servers, OPTIONS)), assert(zklock.connect(servers, OPTIONS))
    local holds, granted = {}, 0
    for_all(loop, mode == "one" and 1 or count, function(index)
        holds[index] = assert(holder:mutex(path_of(index)):acquire())
    end)
    for index = 1, count do
        loop:wrap(function()
            assert(client:mutex(path_of(index)):acquire()):release { wait = false }
            granted = granted + 1
        end)
    end
    local before
    repeat -- until all wait, and nothing is in flight
        before = client:stats().requests
        cqueues.sleep(1)
        local stats = client:stats()
    until stats.acquisitions == count and stats.requests - before < 5 -- heartbeats
    for_all(loop, #holds, function(index)
        holds[index]:release { wait = false }
    end)
    while granted < count do
        cqueues.sleep(0.01)
    end
    print(string.format("name=zklock requests=%d", client:stats().requests))
    os.exit(true, false) -- without closing: a transaction that ends a session names all its nodes
end)
assert(loop:loop())
