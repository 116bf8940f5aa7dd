-- The herd effect: why a waiter should watch the node before its own and not the whole queue. In the simpler recipe every
-- waiter watches the directory. So each release wakes all waiters, all list the directory again, and one of them gets the lock:
-- with n waiters n notifications for a release, and n² / 2 until all have had their turn. Watching the predecessor takes one
-- notification for each waiter.
--
-- Counts both, with 10, 50 and 200 contenders, each with a separate session. Arrivals wake the herd as well; only releases are
-- counted here.
--
--   lua examples/herd.lua HOST:PORT [CONTENDERS…]
--
-- ZooKeeper allows 60 connections from one machine unless its maxClientCnxns is different.

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local count = require "recipes.count"
local mutex = require "recipes.mutex"
local zklock = require "zklock"

-- The simpler way to look: if any contender is before us, wait for any change of the directory.
local function look_at_parent(turn)
    local names, _, watch = assert(turn.client:children(turn.path, { watch = true }))
    local ours = mutex.number(turn.node)
    for _, name in ipairs(names) do
        if mutex.number(name) < ours then
            return nil, watch, turn.path
        end
    end
    watch:cancel()
    return true
end

local clients = {}

-- Returns the notifications until all contenders have had their turn. `look` replaces the recipe's function.
local function measure(contenders, look)
    count.connect(zklock, common.servers, clients, contenders)
    local path = common.fresh_path("herd")
    common.make_path(clients[1], path)
    local turns = {}
    for index = 1, contenders do
        turns[index] = mutex.join(clients[index], path)
        turns[index].look = look
    end
    return count.all(turns, function(inside)
        assert(#inside == 1)
    end)
end

common.main(function()
    local row = "%12s %16s %16s %16s %16s"
    print(row:format("", "all watch", "the directory", "each watches", "the one before"))
    print(row:format("contenders", "in total", "per release", "in total", "per release"))
    for _, contenders in ipairs(common.numbers { 10, 50, 200 }) do
        local herd, good = measure(contenders, look_at_parent), measure(contenders)
        print(row:format(contenders, herd, ("%.1f"):format(herd / contenders), good,
            ("%.1f"):format(good / contenders)))
        assert(good == contenders - 1) -- all but the first are woken, once each
        assert(herd >= contenders * (contenders - 1) / 2) -- each release wakes every waiter that is left
    end
end)
