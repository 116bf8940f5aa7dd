-- A mutex written by hand, from ZooKeeper's basic operations only: create an ephemeral sequential node, list, watch the
-- previous node, look again after waking. It is in recipes/mutex.lua, 30 lines, together with the traps that it does not
-- handle. Here five processes take turns with it, three times each.
--
--   lua examples/mutex_by_hand.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local mutex = require "recipes.mutex"
local zklock = require "zklock"

local PROCESSES, TURNS = 5, 3

local function contender(name, path)
    local client = assert(zklock.connect(common.servers))
    for _ = 1, TURNS do
        local turn = mutex.join(client, path)
        turn:acquire()
        print(name .. " in with " .. turn.node:match("[^/]+$"))
        print(name .. " out")
        turn:leave()
    end
end

if arg[2] then
    return contender(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("mutex-by-hand")
    local client = assert(zklock.connect(common.servers))
    common.make_path(client, path)
    local gate = mutex.join(client, path)
    gate:acquire() -- no process gets in before all have taken a number

    local arguments = {}
    for index = 1, PROCESSES do
        arguments[index] = { "process-" .. index, path }
    end
    local contenders = common.start(arguments)
    common.await_children(client, path, PROCESSES + 1)
    gate:leave()

    local last = -1
    for _ = 1, PROCESSES * TURNS do
        local line = assert(contenders:line())
        print(line)
        local name, number = line:match("^(%S+) in with turn%-(%d+)$")
        assert(tonumber(number) > last) -- in the order of the numbers …
        last = tonumber(number)
        contenders:expect(name .. " out") -- … and one at a time
    end
    assert(contenders:line() == nil)
    print(("%d turns, in the order of the numbers, one at a time"):format(PROCESSES * TURNS))
end)
