--- memory: opens COUNT clients, makes COUNT lock objects, or COUNT acquisitions of one client, and prints what each costs.
--
-- `c` is the memory that zklock has allocated in C, `lua` is Lua's memory, coroutines of the waits included, `resident` is the
-- growth of the process, in bytes; `threads` and `fds` are counts.
--
-- Usage: memory.lua SERVERS clients|locks|one-lock|many-paths|granted COUNT

local core = require "zklock.core"
local fibers = require "fibers"
local zklock = require "zklock"

local servers, mode, count = arg[1], arg[2], math.tointeger(tonumber(arg[3]))

local QUIET = 0.3 -- seconds

local function connect()
    return assert(zklock.connect(servers, { session_timeout = 60, connect_timeout = 20, wait = fibers.adapter }))
end

local function fds()
    local n = 0
    for fd = 0, 4096 do
        local file = io.open("/proc/self/fdinfo/" .. fd)
        if file then
            file:close()
            n = n + 1
        end
    end
    return n
end

local function now()
    collectgarbage()
    collectgarbage()
    local file = assert(io.open("/proc/self/status"))
    local status = file:read("a")
    file:close()
    return {
        c = core.memory(),
        lua = collectgarbage("count") * 1024,
        resident = tonumber(status:match("VmRSS:%s*(%d+)")) * 1024,
        threads = tonumber(status:match("Threads:%s*(%d+)")),
        fds = fds()
    }
end

local function print_growth(before)
    local after = now()
    local words = {}
    for _, key in ipairs({ "c", "lua", "resident", "threads", "fds" }) do
        table.insert(words, string.format("%s=%.2f", key, (after[key] - before[key]) / count))
    end
    print("name=" .. mode .. " " .. table.concat(words, " "))
end

local function path_of(index)
    return mode == "one-lock" and "/bench-memory" or "/bench-memory-" .. index
end

--- Acquires `count` locks, or begins to wait for them, and keeps them until the process ends.
local function acquire_all(client, kept, settled)
    for index = 1, count do
        kept[index] = mode == "one-lock" and kept[index - 1] or client:mutex(path_of(index))
        fibers.start(function()
            local _, _, code = kept[index]:acquire()
            assert(code == nil or code == "closed", code)
        end)
    end
    fibers.await("all acquisitions stand", settled, 60)
end

--- Whether `count` acquisitions of a client wait, and nothing is in flight any more. How many nodes and watches they need together
-- is not known here.
local function all_wait(client)
    local requests, since = 0, core.now()
    return function()
        local stats = client:stats()
        if stats.requests - stats.heartbeats ~= requests then
            requests, since = stats.requests - stats.heartbeats, core.now()
        end
        return stats.acquisitions == count and core.now() - since > QUIET
    end
end

local function measure()
    local kept = { first = connect() } -- its cost includes what all share
    local made = { clients = connect, locks = function(index)
        return kept.first:mutex(path_of(index))
    end }
    if made[mode] then
        local before = now()
        for index = 1, count do
            kept[index] = made[mode](index)
        end
        print_growth(before)
        os.exit(true, false)
    end
    local holder, client = connect(), connect()
    if mode == "one-lock" then
        kept.held = holder:mutex(path_of(1))
        assert(kept.held:acquire())
    elseif mode == "many-paths" then
        kept.held = {}
        acquire_all(holder, kept.held, function()
            return holder:stats().grants == count
        end)
    end
    local before = now()
    acquire_all(client, kept, mode == "granted" and function()
        return client:stats().grants == count
    end or all_wait(client))
    print_growth(before)
    os.exit(true, false)
end

fibers.run(measure)
