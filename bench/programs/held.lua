--- held: one client that holds COUNT locks and does nothing else.
--
-- Usage: held.lua SERVERS COUNT TIMEOUT SECONDS
--            Acquires the locks, waits for SECONDS, measures for as long, and prints a line: `requests` and `processor` (ms) a
--            second, of the client, and how many locks it has `lost` by then.

local core = require "zklock.core"
local fibers = require "fibers"
local zklock = require "zklock"

local servers, count, timeout, seconds = arg[1], math.tointeger(tonumber(arg[2])), tonumber(arg[3]), tonumber(arg[4])
local AT_ONCE = 400

local holds, begun, held = {}, 0, 0

local function acquire_all(client)
    for _ = 1, AT_ONCE do
        fibers.start(function()
            while begun < count do
                begun = begun + 1
                local index = begun
                holds[index] = assert(client:mutex("/bench-held-" .. count .. "/" .. index):acquire())
                held = held + 1
            end
        end)
    end
    fibers.await("all locks", function()
        return held == count
    end, 120)
end

local function rest()
    local till = core.now() + seconds
    fibers.await("the end of the measurement", function()
        return core.now() >= till
    end, seconds + 60)
end

fibers.run(function()
    local client = assert(zklock.connect(servers, {
        session_timeout = timeout, connect_timeout = 20, wait = fibers.adapter
    }))
    acquire_all(client)
    rest()
    local before, clock = client:stats(), os.clock()
    rest()
    local after = client:stats()
    print(string.format("name=zklock requests=%.1f processor=%.2f lost=%d", (after.requests - before.requests) / seconds,
        (os.clock() - clock) * 1000 / seconds, after.losses))
    -- It goes without its locks. A transaction that ends its session and names so many nodes may be larger than a server can read.
    for _, hold in ipairs(holds) do
        hold:release { wait = false }
    end
    assert(client:flush(60))
    client:close()
end)
