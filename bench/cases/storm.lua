--- storm: a server ends while many clients want their locks; how soon all have them after it has started again.
--
-- On a separate server. All clients are connected, and have acquired their locks once. Then the server is killed, each client
-- acquires its lock, and the server is started again. The time is from when the server's port is open until the last client has
-- its lock, or until the time limit.

local compare = require "compare"
local contestants = require "contestants"
local lib = require "lib"
local report = require "report"
local socket = require "socket"
local start = require "start"

local CLIENTS, QUICK_CLIENTS = 200, 20
local OUTAGE = 1 -- seconds between the server's end and its new start
local PATIENCE, QUICK_PATIENCE = 30, 10 -- seconds since the outage began
local START = 60 -- seconds that a server may take to start

--- Seconds of the day's clock when the server's port is open, tried every few milliseconds.
local function await_open(server)
    local deadline = socket.gettime() + START
    while not lib.is_open(server) do
        assert(socket.gettime() < deadline, "the server does not come back")
        socket.sleep(0.005)
    end
    return socket.gettime()
end

return function(settings)
    local rounds, clients = settings.rounds or (settings.quick and 1 or 2), settings.quick and QUICK_CLIENTS or CLIENTS
    report.title("Storm: %d clients come back to a server that was gone for some seconds; median of %d rounds (min..max)", clients,
        rounds)
    local patience = settings.quick and QUICK_PATIENCE or PATIENCE
    local cluster = lib.cluster(settings)
    local all = contestants.list(settings, "storm")
    local dir, round = settings.scratch .. "/storm", 0
    local values = compare.collect(all, rounds, { clients }, function(contestant, count)
        if settings.quick and contestant.name == "Curator" then
            return nil -- its connecting alone takes longer than everything takes the others
        end
        round = round + 1
        start.prepare(dir)
        local words = contestants.words(contestant, "storm", cluster.servers, string.format("/bench-storm-%d", round), count,
            patience, dir)
        local gone, opened
        local result = lib.run_together({ words }, function()
            start.await_ready(dir, { 1 })
            cluster.run("kill", 1)
            start.give(dir, 0)
            gone = socket.gettime()
            socket.sleep(OUTAGE)
            cluster.start("restart", 1)
            opened = await_open(cluster.servers)
        end)[1]
        contestants.check(contestant, result)
        local last = result.without == 0 and result.last or gone + patience
        return { seconds = last - opened, without = result.without }
    end)
    cluster.run("stop")
    compare.report(all, {
        { key = "seconds", text = "seconds until all have their locks", shape = "%.2f" },
        { key = "without", text = "clients without one in the end", shape = "%g" }
    }, values, { "zklock" }, { "seconds" })
    report.say("The end is %d seconds after the server went. go-zookeeper's and Curator's clients repeat a request "
        .. "after each error.", patience)
end
