-- Leader election: one of several processes leads at a time. Each process has a leader object, which campaigns in the background,
-- calls on_elected when the process is elected, and on_lost when its term is over. The leader checks is_leader() before each piece
-- of work. When the leader is killed, or is suspended for too long, the next process takes over after the leader's session
-- timeout (10 seconds here). A process that has lost the leadership becomes a candidate again, by itself.
--
-- A last piece of work may be under way when the leadership is lost. See fencing.lua for a solution where this matters.
--
--   lua examples/leader.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local core = require "zklock.core"
local zklock = require "zklock"

local function candidate(name, path)
    local client = assert(zklock.connect(common.servers, { session_timeout = 10 }))
    local leader = assert(client:leader(path, {
        identity = name,
        on_elected = function()
            print(name .. " leads")
        end,
        on_lost = function()
            print(name .. " steps down")
        end
    }))
    print(name .. " is a candidate")
    while true do -- a plain program; in an event loop, the loop pumps
        if leader:is_leader() then -- reads the clock, sends nothing
            common.work(0.02)
        else
            core.poll(client:pollfd(), 1)
        end
        client:pump() -- calls on_elected and on_lost
    end
end

if arg[2] then
    return candidate(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("leader")
    local names = { "anna", "bert", "carl" }
    local number = {}
    for index, name in ipairs(names) do
        number[name] = index
    end
    local candidates = common.start { { "anna", path }, { "bert", path }, { "carl", path } }

    -- The first candidate leads; the other two stand by. Lines about candidates may come in between.
    local function await_leader()
        local name
        repeat
            local line = assert(candidates:line())
            print(line)
            name = line:match("^(%a+) leads$")
        until name
        return name
    end

    local first = await_leader()
    candidates:signal(number[first], "KILL")
    print(first .. " is killed")

    local second = await_leader()
    assert(second ~= first)
    candidates:signal(number[second], "STOP")
    print(second .. " stands still, as in a pause of a virtual machine")

    local third = await_leader()
    assert(third ~= first and third ~= second)
    candidates:signal(number[second], "CONT")
    print(second .. " goes on")
    candidates:expect(second .. " steps down")

    candidates:signal(number[third], "KILL")
    print(third .. " is killed")
    assert(await_leader() == second)
    print("each time somebody died or stood still, another one took over; nobody led who had lost the lock")
end)
