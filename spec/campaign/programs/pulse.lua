--- The pulse of the campaign's servers: writes through each of them, round after round, with the specs' ZooKeeper client, and
-- records when all of them have acknowledged a round. Without beats the servers, or the machine, stood still.
--
-- Usage: pulse.lua FILE ADDRESS…      FILE gets a line a round: its end, on the clock of all records

local socket = require "socket"
local core = require "zklock.core"
local zk = require "spec.support.zk"

local PATH = "/campaign-pulse"
local SESSION_TIMEOUT_MS = 20000
local PAUSE = 0.05

local file = assert(io.open(arg[1], "a"))
file:setvbuf("line")
local clients = {}

--- Whether the server has acknowledged a write.
local function beat(address)
    local client = clients[address] or zk.connect(address, SESSION_TIMEOUT_MS)
    local done, problem
    if client then
        done, problem = client:set(PATH, "")
        if problem == "no_node" then
            done = client:create(PATH)
        end
    end
    -- A client that has failed is replaced.
    clients[address] = done and client or nil
    return done
end

while true do
    local all = true
    for index = 2, #arg do
        all = beat(arg[index]) and all
    end
    if all then
        file:write(("%.6f\n"):format(core.now()))
    end
    socket.sleep(PAUSE)
end
