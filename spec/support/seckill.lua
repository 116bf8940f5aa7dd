--- support.seckill: the whole seckill service of examples/seckill: Redis, two services, the proxy. For its spec and for
-- tools/demo-openresty.lua.
--
--     local stage = seckill.start("127.0.0.1:2181")
--     local result = stage:run("v3")          -- 800 requests from 200 connections
--     stage:stop()

local cluster = require "spec.support.cluster"
local nginx = require "spec.support.nginx"
local redis_server = require "spec.support.redis_server"

local seckill = { STOCK = 288, REQUESTS = 800, CONNECTIONS = 200 }

local Stage = {}
Stage.__index = Stage

local EXAMPLE = cluster.root .. "/examples/seckill/"

function seckill.start(zookeeper)
    local self = setmetatable({ services = {} }, Stage)
    self.redis_server = redis_server.start()
    self.redis = self.redis_server.connection
    local values = { ZOOKEEPER = zookeeper, REDIS_PORT = self.redis_server.port }
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
    self.redis_server:stop()
end

--- Returns how many were sold and how many are left, according to Redis.
function Stage:count()
    return tonumber(self.redis:get("lucky")), tonumber(self.redis:get("stock"))
end

--- Sends all requests to a version; `before`, if given, runs before them, and `meanwhile` runs while they are in flight. Returns a
-- table: lucky, stock, answered (with status 200), failed, seconds, median and p99 in milliseconds, output (ab's).
function Stage:run(version, meanwhile, before)
    self.redis:set("stock", seckill.STOCK)
    self.redis:set("lucky", 0)
    if before then
        before(self)
    end
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
