-- A limit for the whole fleet: a weak service receives at most a fixed number of calls at once, however many processes make
-- calls. A semaphore is a lock with several permits. To limit the rate instead, keep each permit until a second has passed:
-- then at most that number of calls begin in a second.
--
--   lua examples/rate_limit.lua HOST:PORT

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local zklock = require "zklock"

local PERMITS, PROCESSES, CALLS = 3, 8, 3

local function caller(name, path)
    local service = assert(zklock.connect(common.servers)):semaphore(path, PERMITS)
    for call = 1, CALLS do
        assert(service:with_lock(function()
            print(("%s begins call %d"):format(name, call))
            common.work(0.05)
            print(("%s ends call %d"):format(name, call))
        end, 60))
    end
end

if arg[2] then
    return caller(arg[2], arg[3])
end

common.main(function()
    local path = common.fresh_path("rate-limit")
    local client = assert(zklock.connect(common.servers))
    local service = client:semaphore(path, PERMITS)
    assert(service:acquire { count = PERMITS, timeout = 10 }) -- no call before all callers have queued

    local arguments = {}
    for index = 1, PROCESSES do
        arguments[index] = { "caller-" .. index, path }
    end
    local callers = common.start(arguments)
    common.await_children(client, path .. "/locks", PROCESSES)
    assert(service:release())

    local calls, inside, most = 0, 0, 0
    for line in function() return callers:line() end do
        local begins = line:find("begins", 1, true)
        inside = inside + (begins and 1 or -1)
        calls = calls + (begins and 1 or 0)
        most = math.max(most, inside)
        print(("%-26s %s"):format(line, ("#"):rep(inside)))
    end
    assert(calls == PROCESSES * CALLS and inside == 0)
    assert(most == PERMITS)
    assert(service:available(10) == PERMITS)
    print(("%d calls of %d processes, never more than %d at once"):format(calls, PROCESSES, most))
end)
