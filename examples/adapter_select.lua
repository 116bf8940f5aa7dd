--- adapter_select: a custom event loop, here a small scheduler over LuaSocket's select, and the adapter that makes zklock wait
-- in it. lua/zklock/adapters.lua describes the tasks of an adapter.
--
-- Five coroutines take turns with a lock, while a sixth counts how often it has been able to run meanwhile.
--
--   lua examples/adapter_select.lua HOST:PORT        (needs LuaSocket)

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local socket = require "socket"
local zklock = require "zklock"

-- The loop: coroutines that sleep until a time, and functions to be called when a descriptor is readable ------------------

local loop = { sleeping = {}, readers = {} } -- coroutine -> when it goes on; { getfd = } -> function

function loop.spawn(fn)
    loop.sleeping[coroutine.create(fn)] = 0
end

function loop.sleep(seconds)
    loop.sleeping[coroutine.running()] = socket.gettime() + seconds
    coroutine.yield()
end

function loop.run()
    while next(loop.sleeping) do
        local now, earliest, due, descriptors = socket.gettime(), math.huge, {}, {}
        for thread, time in pairs(loop.sleeping) do
            earliest = math.min(earliest, time)
            due[#due + 1] = time <= now and thread or nil
        end
        for _, thread in ipairs(due) do
            loop.sleeping[thread] = nil
            assert(coroutine.resume(thread))
        end
        for descriptor in pairs(loop.readers) do
            descriptors[#descriptors + 1] = descriptor
        end
        if not due[1] then
            for _, descriptor in ipairs((socket.select(descriptors, nil, math.min(earliest - now, 3600)))) do
                local read = loop.readers[descriptor] -- unless a previous reader has removed it
                if read then
                    read()
                end
            end
        end
    end
end

-- The adapter -------------------------------------------------------------------------------------------------------------

local adapter = { name = "select" }
local pumps = setmetatable({}, { __mode = "k" }) -- client -> its descriptor, as long as the loop watches it

--- Starts to pump the client, until that is not needed any more.
local function start_pump(client)
    if not pumps[client] then
        local descriptor = { getfd = function()
            return client:pollfd()
        end }
        pumps[client] = descriptor
        loop.readers[descriptor] = function()
            client:pump()
            if not client:needs_pump() then
                adapter.detach(client)
            end
        end
    end
end

function adapter.wait(client, waiter, seconds)
    local thread, main = coroutine.running()
    if main or not thread then
        return nil, "only coroutines of the loop can wait", "phase"
    end
    start_pump(client)
    waiter.thread = thread
    loop.sleep(seconds)
    waiter.thread = nil
    return true
end

function adapter.wake(waiter)
    if waiter.thread then
        loop.sleeping[waiter.thread] = 0 -- it goes on in the loop's next round, not here
    end
end

function adapter.detach(client)
    local descriptor = pumps[client]
    if descriptor then
        pumps[client], loop.readers[descriptor] = nil, nil
    end
end

adapter.attend = start_pump -- a lock is held, perhaps without any wait, and its on_lost must be called
adapter.spawn = loop.spawn

-- The program -------------------------------------------------------------------------------------------------------------

common.main(function()
    local working, ticks = 5, 0

    loop.spawn(function()
        local client = assert(zklock.connect(common.servers, { wait = adapter }))
        local path = common.fresh_path("select")
        for number = 1, 5 do
            loop.spawn(function()
                local lock = client:mutex(path)
                for turn = 1, 3 do
                    assert(lock:acquire(20))
                    print(("coroutine %d in, turn %d"):format(number, turn))
                    loop.sleep(0.02)
                    assert(lock:held())
                    assert(lock:release())
                end
                working = working - 1
                if working == 0 then
                    assert(client:close())
                end
            end)
        end
    end)

    loop.spawn(function()
        while working > 0 do
            ticks = ticks + 1
            loop.sleep(0.01)
        end
    end)

    loop.run()
    print(("15 turns, and the loop went on: %s"):format(ticks >= 15 and "yes" or "no, only " .. ticks))
    assert(ticks >= 15)
end)
