-- The mutex of mutex_by_hand.lua without waiting: create, list and watch by callbacks, for event loops without coroutines. It is
-- in recipes/mutex_by_callbacks.lua. Here one process has five contenders at once, which take turns three times each, and a
-- plain loop that runs the callbacks: it polls the client's descriptor and calls client:pump(). Any event loop can do that.
--
-- The last part does the same in three lines, by the lock of zklock: lock:acquire { callback = … }.
--
--   lua examples/mutex_by_callbacks.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local core = require "zklock.core"
local mutex = require "recipes.mutex_by_callbacks"
local zklock = require "zklock"

local CONTENDERS, TURNS = 5, 3

--- The event loop: runs callbacks until the condition holds.
local function run(client, condition)
    while not condition() do
        core.poll(client:pollfd(), 60)
        client:pump()
    end
end

common.main(function()
    local path = common.fresh_path("mutex-by-callbacks")
    local problem
    -- An error in a callback is only logged: here it ends the program.
    local client = assert(zklock.connect(common.servers, { wait = "blocking", log = function(level, message)
        problem = level == "error" and message or problem
    end }))
    common.make_path(client, path)

    local inside, done, last = 0, 0, -1
    local function take_turns(name, left)
        if left == 0 then
            done = done + 1
            return
        end
        mutex.acquire(client, path, function(turn, message)
            assert(turn, message)
            inside = inside + 1
            assert(inside == 1) -- one at a time …
            local number = turn.node:match("%d+$")
            print(("%s in with turn-%s"):format(name, number))
            assert(tonumber(number) > last) -- … in the order of the numbers
            last = tonumber(number)
            client:sync(path, { callback = function() -- some work without waiting
                inside = inside - 1
                print(name .. " out")
                mutex.leave(turn, function(left_it, what)
                    assert(left_it, what)
                    take_turns(name, left - 1)
                end)
            end })
        end)
    end
    for index = 1, CONTENDERS do
        take_turns("contender-" .. index, TURNS)
    end
    run(client, function()
        return done == CONTENDERS or assert(not problem, problem) and false
    end)
    print(("%d turns by callbacks, in the order of the numbers, one at a time"):format(CONTENDERS * TURNS))

    local lock, turns = client:mutex(path), 0
    for _ = 1, CONTENDERS do
        lock:acquire { timeout = 60, callback = function(held, message)
            assert(held, message)
            turns = turns + 1
            held:release { wait = false }
        end }
    end
    run(client, function()
        return turns == CONTENDERS or assert(not problem, problem) and false
    end)
    print(("%d turns by the callback of acquire"):format(turns))
    client:close()
end)
