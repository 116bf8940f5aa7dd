--- idle: clients that hold no lock for some time, and what their next acquisition costs.
--
-- Usage: idle.lua hold SERVERS COUNT TIMEOUT DIR
--            Opens COUNT clients, evenly spread over SERVERS, and makes DIR/ready-1. Ends when DIR/go exists.
--        idle.lua first SERVERS PATH COUNT TIMEOUT PAUSE
--            Opens COUNT clients. Each acquires and releases a separate lock, is idle for PAUSE seconds, and then acquires the
--            lock twice, one client after the other. Prints a line each for a read (`exists`), the acquisition after the pause
--            (`pause`) and the one after that (`again`): `us` and `requests`, as medians.

local core = require "zklock.core"
local lib = require "lib"
local socket = require "socket"
local start = require "start"
local zklock = require "zklock"

local function hold(servers, count, timeout, dir)
    local addresses, clients = {}, {}
    for address in servers:gmatch("[^,]+") do
        table.insert(addresses, address)
    end
    for index = 1, tonumber(count) do
        clients[index] = assert(zklock.connect(addresses[index % #addresses + 1], {
            session_timeout = tonumber(timeout), connect_timeout = 20, wait = "blocking"
        }))
    end
    start.await(dir, 1, socket.sleep)
    local requests = 0
    for _, client in ipairs(clients) do
        requests = requests + client:stats().requests
        client:close()
    end
    print(string.format("name=zklock count=%s failures=0 requests=%d", count, requests))
end

--- Microseconds that fn() takes, and how many requests a client sends meanwhile. Heartbeats count: fn() may have to wait for one.
local function measure(client, fn)
    local before = client:stats().requests
    local began = core.now()
    fn()
    local ended = core.now()
    return (ended - began) * 1e6, client:stats().requests - before
end

local function first(servers, path, count, timeout, pause)
    local clients, locks = {}, {}
    for index = 1, tonumber(count) do
        clients[index] = assert(zklock.connect(servers, {
            session_timeout = tonumber(timeout), connect_timeout = 20, wait = "blocking"
        }))
        locks[index] = clients[index]:mutex(path .. "-" .. index)
        assert(locks[index]:acquire())
        assert(locks[index]:release())
    end
    socket.sleep(tonumber(pause))
    local times, requests = { exists = {}, pause = {}, again = {} }, { exists = {}, pause = {}, again = {} }
    local function note(what, client, fn)
        local time, sent = measure(client, fn)
        table.insert(times[what], time)
        table.insert(requests[what], sent)
    end
    for index, client in ipairs(clients) do
        local lock = locks[index]
        note("pause", client, function()
            assert(lock:acquire())
        end)
        assert(lock:release())
        note("again", client, function()
            assert(lock:acquire())
        end)
        assert(lock:release())
        note("exists", client, function()
            assert(client:exists("/"))
        end)
    end
    for _, what in ipairs({ "exists", "pause", "again" }) do
        print(string.format("name=zklock what=%s us=%.1f requests=%g", what, lib.median(times[what]), lib.median(requests[what])))
    end
    for _, client in ipairs(clients) do
        client:close()
    end
end

local modes = { hold = hold, first = first }
modes[arg[1]](table.unpack(arg, 2))
