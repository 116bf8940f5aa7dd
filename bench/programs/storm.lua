--- storm: CLIENTS clients each want a separate lock while there is no server, and get it when there is a server again.
--
-- All connect, and acquire their locks once. At the beginning of the measurement the server has ended; each client then acquires
-- its lock. Prints when the last one had it, in seconds of the day's clock, and how many had none after PATIENCE seconds.
--
-- Usage: storm.lua SERVERS PATH CLIENTS PATIENCE DIR

local loop = require "loop"
local socket = require "socket"
local start = require "start"
local zklock = require "zklock"

local servers, path, count = arg[1], arg[2], math.tointeger(tonumber(arg[3]))
local patience, dir = tonumber(arg[4]), arg[5]

local SESSION = 30

local last, without = 0, count

local function take(lock)
    if lock:acquire(patience) then
        last, without = math.max(last, socket.gettime()), without - 1
    end
end

loop.run(function()
    local locks = {}
    for index = 1, count do
        local client = assert(zklock.connect(servers, { session_timeout = SESSION, connect_timeout = 20, wait = "luv" }))
        locks[index] = client:mutex(path .. "-" .. index)
        assert(locks[index]:acquire())
        assert(locks[index]:release())
    end
    start.await(dir, 1, loop.sleep)
    for _, lock in ipairs(locks) do
        loop.start(take, lock)
    end
end)
print(string.format("name=zklock clients=%d failures=0 last=%.6f without=%d", count, last, without))
