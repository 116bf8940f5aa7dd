--- The command of a campaign's client that is `zklock run`: writes to the register under the token that zklock gave it, for as long
-- as it lives. It knows no lease, so its record counts as a hold until its last sign of life.
--
-- Usage: commanded.lua SETTINGS.json RECORD ID MODE LIMIT GROUP      GROUP: the process group of zklock

local uv = require "luv"
local socket = require "socket"
local core = require "zklock.core"
local turns = require "spec.campaign.programs.turns"
local register = require "spec.campaign.programs.register"

local settings = turns.settings(arg[1])
local order = turns.order_reader(arg[1])
local record = turns.recorder(arg[2])
local id, mode, limit, group = arg[3], arg[4], arg[5], tonumber(arg[6])
local path, token, node = os.getenv "ZKLOCK_PATH", os.getenv "ZKLOCK_TOKEN", os.getenv "ZKLOCK_NODE"

record("g %s %s %s 1 %s %s %.6f -", id, path, mode, limit, token, core.now())
math.randomseed(settings.seed * 1000 + tonumber(id:match "%d+$"))

--- Seconds of most turns, and between two writes, at most.
local SHORT, BETWEEN = 0.02, 0.004
--- After an order the command goes on for so many session timeouts, if nothing ends it.
local AFTERWARDS = 4

--- order -> what the command does.
local orders = {}

function orders.die()
    uv.kill(-group, "sigkill")
end

function orders.pause()
    uv.kill(-group, "sigstop")
end

--- Like an administrator: zklock notices when it is done.
function orders.delete()
    record("d %s %.6f", id, core.now())
    assert(uv.spawn(arg[-1], {
        args = { settings.root .. "/lua/zklock/cli/main.lua", "break", path, "--node", node:match "[^/]+$", "--yes" },
        stdio = { nil, 2, 2 }
    }))
end

local store = assert(socket.connect(settings.redis_address, ("%d"):format(settings.redis_port)))
store:setoption("tcp-nodelay", true)
local value = register.new(store)

local function write()
    local counter = mode == "x" and value:counter(path)
    record("v %s %.6f -", id, core.now())
    if counter then
        turns.record_write(record, id, value:write(path, token, counter + 1))
    end
end

local long = math.random() * 1000 < settings.long_per_mille and order() ~= "brief"
local over = core.now() + math.random() * (long and settings.long or SHORT)
local obeyed
repeat
    write()
    socket.sleep(math.random() * BETWEEN)
    local word = order()
    if orders[word] and not obeyed then
        obeyed = true
        over = core.now() + AFTERWARDS * settings.timeout
        if word ~= "die" then
            os.remove(arg[1] .. ".order")
        end
        orders[word]()
    elseif not obeyed and (word == "brief" or word == "stop") then
        over = 0
    end
until core.now() > over
record("e %s %.6f released", id, core.now())
