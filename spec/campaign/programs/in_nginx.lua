--- A client process of the campaign inside nginx: each worker takes turns in timers, from its start until the file
-- SETTINGS.order says "stop".

local core = require "zklock.core"
local cjson = require "cjson"
local zklock = require "zklock"
local turns = require "spec.campaign.programs.turns"
local register = require "spec.campaign.programs.register"

local ngx = ngx

local in_nginx = {}

--- How long nginx may keep descriptors for closed cosockets.
local SETTLE = 2

local function parent()
    local file = assert(io.open("/proc/self/stat"))
    local pid = file:read("*a"):match("%) %a (%d+)")
    file:close()
    return pid
end

local master = parent()

local function order_of(name)
    if parent() ~= master then
        -- The master was killed, and the campaign with it.
        os.exit(1)
    end
    local orders = io.open(name .. ".order")
    if orders then
        local word = orders:read("*l")
        orders:close()
        return word
    end
end

--- How many of this process's descriptors are unix sockets.
local function count_unix_sockets()
    local unix, count = {}, 0
    for line in io.lines("/proc/self/net/unix") do
        unix["socket:[" .. (line:match("^%S+: %S+ %S+ %S+ %S+ %S+ +(%d+)") or "") .. "]"] = true
    end
    for _, what in pairs(turns.descriptors()) do
        count = count + (unix[what] and 1 or 0)
    end
    return count
end

--- Waits until this worker has a channel to each other worker. The master sends them after the worker has begun, so a client has
-- not left these descriptors.
local function await_channels()
    while count_unix_sockets() < ngx.worker.count() do
        ngx.sleep(0.01)
    end
end

--- To be called in init_worker: `settings_file` and `record_file` as of contender.lua.
function in_nginx.start(settings_file, record_file)
    local file = assert(io.open(settings_file))
    local settings = cjson.decode(file:read("*a"))
    file:close()
    math.randomseed(settings.seed + ngx.worker.id())
    local record = turns.recorder(record_file .. "." .. ngx.worker.id())
    record("start %.6f %d", core.now(), ngx.worker.pid())
    local left = settings.fibers
    local client, fds, threads, descriptors

    local function stopped()
        client:close()
        client = nil
        local fds_after, threads_after
        for _ = 1, 5 do
            turns.collect()
            ngx.sleep(SETTLE)
            fds_after, threads_after = turns.count("/proc/self/fd"), turns.count("/proc/self/task")
            if fds_after <= fds and threads_after <= threads then
                break
            end
        end
        if fds_after > fds then
            turns.name_descriptors(descriptors)
        end
        record("c %d %d %d %d", fds, fds_after, threads, threads_after)
    end

    local function fiber(premature, number)
        if premature then
            return
        end
        local ok, problem = xpcall(function()
            local store = ngx.socket.tcp()
            store:settimeout(20000)
            assert(store:connect(settings.redis_address, settings.redis_port))
            local world = {
                client = client, register = register.new(store), record = record, now = core.now, random = math.random,
                sleep = ngx.sleep, orders = {},
                order = function()
                    return ngx.worker.exiting() and "stop" or order_of(settings_file)
                end
            }
            turns.run(world, number, settings)
            turns.record_stats(world)
            store:close()
        end, debug.traceback)
        if not ok then
            ngx.log(ngx.ALERT, "the campaign's client: ", problem)
            os.exit(1)
        end
        left = left - 1
        if left == 0 then
            stopped()
        end
    end

    assert(ngx.timer.at(0, function()
        await_channels()
        -- The first count itself opens what it needs.
        turns.count("/proc/self/fd")
        fds, threads = turns.count("/proc/self/fd"), turns.count("/proc/self/task")
        descriptors = turns.descriptors()
        client = assert(zklock.connect(settings.servers, {
            session_timeout = settings.timeout, connect_timeout = 0, identity = settings.name, lease = settings.lease
        }))
        for number = 1, settings.fibers do
            assert(ngx.timer.at(0, fiber, number))
        end
    end))
end

return in_nginx
