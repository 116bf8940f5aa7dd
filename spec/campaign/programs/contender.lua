--- A client process of the campaign, in plain Lua or in an event loop. It takes turns until the file SETTINGS.order says "stop".
--
-- Usage: contender.lua SETTINGS.json RECORD

local uv = require "luv"
local socket = require "socket"
local core = require "zklock.core"
local zklock = require "zklock"
local turns = require "spec.campaign.programs.turns"
local register = require "spec.campaign.programs.register"

local settings = turns.settings(arg[1])
local record = turns.recorder(arg[2])
record("start %.6f %d", core.now(), uv.os_getpid())
math.randomseed(settings.seed)

--- How the loops differ: how to start a fiber, how to sleep, how to run all fibers to their end.
local loops = {}

function loops.blocking()
    local fibers = {}
    return {
        sleep = socket.sleep,
        start = function(fn)
            fibers[#fibers + 1] = fn
        end,
        run = function()
            assert(#fibers == 1)
            fibers[1]()
        end
    }
end

function loops.luv()
    return {
        sleep = turns.sleep,
        start = function(fn)
            assert(coroutine.resume(coroutine.create(fn)))
        end,
        run = uv.run
    }
end

function loops.cqueues()
    local cqueues = require "cqueues"
    local controller = cqueues.new()
    return {
        sleep = cqueues.sleep,
        start = function(fn)
            controller:wrap(fn)
        end,
        run = function()
            assert(controller:loop())
        end
    }
end

local loop = loops[settings.loop]()
local store = assert(socket.connect(settings.redis_address, ("%d"):format(settings.redis_port)))
store:setoption("tcp-nodelay", true)

-- Descriptors that a loop opens once for all are not a lock's, so they are opened before descriptors are counted.
loop.start(function()
    loop.sleep(0.01)
end)
loop.run()
if settings.loop == "blocking" then
    loop = loops.blocking()
end
collectgarbage()
turns.count("/proc/self/fd")
local fds, threads = turns.count("/proc/self/fd"), turns.count("/proc/self/task")
local descriptors = turns.descriptors()

local world = {
    client = assert(zklock.connect(settings.servers, {
        session_timeout = settings.timeout, connect_timeout = 0, wait = settings.loop, identity = settings.name,
        lease = settings.lease, tls = settings.tls
    })),
    register = register.new(store), record = record, now = core.now, sleep = loop.sleep, random = math.random,
    order = turns.order_reader(arg[1]), long = settings.long, long_per_mille = settings.long_per_mille
}

--- What a client that holds a lock does on an order.
world.orders = {
    exit = function()
        os.exit(settings.exit_status)
    end,
    pause = function()
        os.remove(arg[1] .. ".order")
        uv.kill(uv.os_getpid(), "sigstop")
    end,
    die = function()
        uv.kill(uv.os_getpid(), "sigkill")
    end
}

local failure
for number = 1, settings.fibers do
    loop.start(function()
        local ok, problem = xpcall(turns.run, debug.traceback, world, number, settings)
        if not ok then
            io.stderr:write(problem, "\n")
            failure = true
            os.exit(1)
        end
    end)
end
loop.run()

turns.record_stats(world)
world.client:close()
-- A closed client keeps its pipes until it is collected. Adapters keep what they had for a moment, which is longer on a busy
-- machine.
world.client = nil
local fds_after, threads_after
for _ = 1, 10 do
    loop = loops[settings.loop]()
    loop.start(function()
        loop.sleep(0.7)
    end)
    loop.run()
    loop = nil
    turns.collect()
    fds_after, threads_after = turns.count("/proc/self/fd"), turns.count("/proc/self/task")
    if fds_after <= fds and threads_after <= threads then
        break
    end
end
if fds_after > fds then
    turns.name_descriptors(descriptors)
end
record("c %d %d %d %d", fds, fds_after, threads, threads_after)
os.exit(failure and 1 or 0, true)
