--- support.seckill: the seckill service of examples/seckill, set up whole: Redis, two services, the proxy. For the spec and
-- for tools/demo-openresty.lua.
--
--     local stage = seckill.start("127.0.0.1:2181")
--     local result = stage:run("v3")          -- 800 requests from 200 connections
--     stage:stop()

local redis = require "redis"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local nginx = require "spec.support.nginx"
local ports = require "spec.support.ports"

local seckill = { STOCK = 288, REQUESTS = 800, CONNECTIONS = 200 }

local Stage = {}
Stage.__index = Stage

local EXAMPLE = cluster.root .. "/examples/seckill/"

--- Starts a Redis that ends with this process; its pid.
local function start_redis(port)
    local pipe = assert(io.popen(([[ (
        redis-server --port %d --bind 127.0.0.1 --save '' --appendonly no --maxclients 4000 >/dev/null 2>&1 &
        child=$!
        echo $child
        exec >/dev/null 2>&1
        while kill -0 %d && kill -0 $child; do sleep 0.5; done
        kill -KILL $child
    ) & ]]):format(port, cluster.process_id())))
    local pid = tonumber(pipe:read("*l"))
    pipe:close()
    return pid
end

--- Connects to it, once it answers.
local function connect_redis(port)
    return eventually(function()
        local ok, connection = pcall(redis.connect, "127.0.0.1", port)
        return ok and pcall(connection.ping, connection) and connection
    end, 20, "Redis")
end

function seckill.start(zookeeper)
    local self = setmetatable({ services = {} }, Stage)
    local redis_port = ports.free()
    self.redis_pid = start_redis(redis_port)
    self.redis = connect_redis(redis_port)
    local values = { ZOOKEEPER = zookeeper, REDIS_PORT = redis_port }
    for index = 1, 2 do
        self.services[index] = nginx.start { template = EXAMPLE .. "service.conf", values = values }
    end
    self.proxy = nginx.start {
        template = EXAMPLE .. "proxy.conf",
        values = { FIRST = self.services[1].port, SECOND = self.services[2].port }
    }
    return self
end

function Stage:stop()
    for _, server in ipairs { self.proxy, self.services[1], self.services[2] } do
        server:stop()
    end
    cluster.run({ "kill", "-KILL", tostring(self.redis_pid) })
end

--- How many were sold and how many are left, as Redis has it.
function Stage:count()
    return tonumber(self.redis:get("lucky")), tonumber(self.redis:get("stock"))
end

--- Fires all requests at a version; `meanwhile`, if given, runs while they are under way. Returns a table: lucky, stock,
-- answered (with status 200), failed, seconds, median and p99 in milliseconds, output (ab's).
function Stage:run(version, meanwhile)
    self.redis:set("stock", seckill.STOCK)
    self.redis:set("lucky", 0)
    local load = assert(io.popen(("ab -q -k -l -r -s 110 -n %d -c %d http://127.0.0.1:%d/%s/reduce 2>&1"):format(
        seckill.REQUESTS, seckill.CONNECTIONS, self.proxy.port, version)))
    local ok, problem = true, nil
    if meanwhile then
        ok, problem = pcall(meanwhile, self)
    end
    local output = load:read("*a")
    load:close()
    if not ok then
        error(problem, 0)
    end
    local function number(pattern)
        return tonumber(output:match(pattern))
    end
    local complete = assert(number("Complete requests: +(%d+)"), output)
    local failed = number("Failed requests: +(%d+)") + (number("Non%-2xx responses: +(%d+)") or 0)
    local lucky, stock = self:count()
    return {
        lucky = lucky, stock = stock, answered = complete - failed, failed = failed, output = output,
        seconds = number("Time taken for tests: +([%d.]+)"), median = number("\n +50%% +(%d+)"), p99 = number("\n +99%% +(%d+)")
    }
end

return seckill
