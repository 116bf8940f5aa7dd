-- Ten clients, each in a separate process, take turns: they are granted the lock in the order of the queue, one at a time. One
-- is killed (kill -9) while it waits and one while it holds the lock. Neither blocks the other clients for longer than its
-- session timeout, 6 seconds here: a dead client's place in the queue is deleted with its session. The sessions of the others are
-- longer, so that they keep their places on a busy machine too.
--
--   lua examples/ten_clients.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local zklock = require "zklock"

local CLIENTS, DIES_WAITING, DIES_INSIDE = 10, "client-4", "client-7"

--- The work of each client: waits for the lock, holds it, releases it. Its identity is visible to other clients.
local function client(name, path)
    local dies = name == DIES_WAITING or name == DIES_INSIDE
    local lock = assert(zklock.connect(common.servers, { session_timeout = dies and 6 or 60, identity = name })):mutex(path)
    assert(lock:acquire(120))
    print(name .. " in")
    if name == DIES_INSIDE then
        os.execute("kill -KILL $PPID")
    end
    print(name .. " out")
    assert(lock:release())
end

--- Returns the names of the waiters, in the order of the queue. The first contender is the holder.
local function waiting(lock)
    local names = {}
    for place, contender in ipairs(assert(lock:contenders())) do
        names[place - 1] = contender.identity
    end
    return names
end

if arg[2] then
    return client(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("ten-clients")
    local observer = assert(zklock.connect(common.servers))
    local gate = observer:mutex(path)
    assert(gate:acquire(10)) -- no client gets in before all have queued

    local arguments = {}
    for index = 1, CLIENTS do
        arguments[index] = { "client-" .. index, path }
    end
    local clients = common.start(arguments)
    common.await_children(observer, path, CLIENTS + 1)
    local queue = waiting(gate)
    print("the queue: " .. table.concat(queue, " "))

    clients:signal(tonumber(DIES_WAITING:match("%d+")), "KILL")
    print(DIES_WAITING .. " is killed while it waits")
    assert(gate:release())

    for _, name in ipairs(queue) do
        if name ~= DIES_WAITING then
            clients:expect(name .. " in")
            if name ~= DIES_INSIDE then
                clients:expect(name .. " out")
            else
                print(name .. " is killed while it is inside")
            end
        end
    end
    assert(clients:line() == nil)
    print(("%d clients had their turn, in the order of the queue, one at a time"):format(CLIENTS - 2))
end)
