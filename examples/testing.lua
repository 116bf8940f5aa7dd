-- Unit tests of a job that locks, without ZooKeeper: zklock.testing has servers in memory, and switches for what can happen.
-- The job writes a report, once at a time in the whole fleet. It must not publish what it wrote after the lock was lost.
--
--   lua examples/testing.lua

local testing = require "zklock.testing"

-- The job. It opens its client itself, as in production.
local function report(write)
    local zklock = require "zklock"
    local client, problem = zklock.shared("zk1:2181,zk2:2181")
    if not client then
        return nil, problem
    end
    local mutex = client:mutex("/jobs/report")
    local ok, message, code = mutex:with_lock(function(hold)
        local text = write()
        return hold:held() and "published: " .. text or nil
    end, 5)
    if not ok then
        return nil, code == "timeout" and "another machine writes it" or message
    end
    return message
end

local tests = {}

function tests.writes_the_report()
    assert(report(function() return "all is well" end) == "published: all is well")
end

function tests.leaves_it_to_another_machine(world)
    world:take("/jobs/report")
    local published, why = report(error)
    assert(not published and why == "another machine writes it")
    assert(world:now() == 5) -- it has waited, and the test has not
end

function tests.publishes_nothing_after_a_loss(world)
    local published = report(function()
        world:lose("/jobs/report")
        return "half"
    end)
    assert(not published)
end

function tests.is_not_stopped_by_a_short_interruption(world)
    local published = report(function()
        world:disconnect()
        world:advance(3)
        world:reconnect()
        return "all is well"
    end)
    assert(published == "published: all is well")
end

-- Runs a test in a world of its own, of which the job gets its client.
local function run(test)
    local world = testing.world()
    local undo = world:install()
    local ok, problem = pcall(test, world)
    undo()
    return ok, problem
end

local names, failed = {}, 0
for name in pairs(tests) do
    names[#names + 1] = name
end
table.sort(names)
for _, name in ipairs(names) do
    local ok, problem = run(tests[name])
    print(("%s %s%s"):format(ok and "ok" or "not ok", name, ok and "" or ": " .. tostring(problem)))
    failed = failed + (ok and 0 or 1)
end
os.exit(failed == 0 and 0 or 1)
