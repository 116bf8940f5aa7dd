-- A job that must run once a night in the whole fleet, although every machine's clock starts it. A lock alone is not enough: a
-- machine that comes a bit late finds it free. So the machine that has run the job leaves a marker for the date, and every
-- machine checks for the marker after it has acquired the lock. The marker is written by a transaction of the lock: only if the
-- lock is still held.
--
--   lua examples/nightly.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local zklock = require "zklock"

local MACHINES = 4

-- Started by cron on every machine. Prints that it runs the job, or which machine has run it.
local function machine(name, path, date)
    local client = assert(zklock.connect(common.servers, { identity = name }))
    local lock = client:mutex(path .. "/lock")
    local marker = path .. "/done-" .. date
    assert(lock:with_lock(function()
        local by = client:get(marker)
        if not by then
            common.work(0.05) -- the job itself
            assert(lock:transaction():create(marker, name):commit())
        end
        print(("%s on %s: %s"):format(date, name, by and "was done by " .. by or "runs it"))
    end, 60))
end

if arg[2] then
    return machine(arg[2], arg[3], arg[4])
end

common.main(function()
    local path = common.fresh_path("nightly")
    local client = assert(zklock.connect(common.servers))
    common.make_path(client, path)
    local gate = client:mutex(path .. "/lock")

    for _, date in ipairs { "2025-03-01", "2025-03-02" } do
        -- All machines wake up at the same time: they are in the queue when the gate opens.
        assert(gate:acquire(10))
        local arguments = {}
        for index = 1, MACHINES do
            arguments[index] = { "machine-" .. index, path, date }
        end
        local fleet = common.start(arguments)
        common.await_children(client, gate:path(), MACHINES + 1)
        assert(gate:release())

        local line = assert(fleet:line())
        print(line)
        local first = assert(line:match("on (%S+): runs it$"))
        for _ = 2, MACHINES do
            line = assert(fleet:line())
            print(line)
            assert(line:find(": was done by " .. first, 1, true))
        end
        fleet = common.start { { "late-machine", path, date } }
        fleet:expect(("%s on late-machine: was done by %s"):format(date, first))
        assert(client:get(path .. "/done-" .. date) == first)
    end

    -- Old markers are of no use. Here all of them are deleted.
    for _, name in ipairs(assert(client:children(path))) do
        if name:find("^done%-") then
            assert(client:delete(path .. "/" .. name))
        end
    end
    print("each night exactly one machine ran the job")
end)
