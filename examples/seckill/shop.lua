-- The shop: each request buys one piece of a stock that is kept in Redis. It reads the stock, decides, and writes it back. If
-- another request comes in between, the same piece is sold twice.
--
-- There are three ways to exclude other requests: none (v1), a lock of this nginx worker (v2), zklock (v3).

local semaphore = require "ngx.semaphore"
local zklock = require "zklock"

--- OpenResty's name of the module; in Debian's lua-nginx-redis it is nginx.redis.
local found, redis = pcall(require, "resty.redis")
if not found then
    redis = require "nginx.redis"
end

local shop = {}

--- How long a buyer waits for the lock, in seconds.
local PATIENCE = 60

local redis_port, zookeeper

--- For init_worker_by_lua: begins to open the session, in the background.
function shop.open(settings)
    redis_port, zookeeper = settings.redis_port, settings.zookeeper
    assert(zklock.shared(zookeeper, { session_timeout = 8 }))
end

--- Runs fn(stock) with a connection to Redis, which goes back to the worker's pool unless an error occurred.
local function with_redis(fn)
    local stock = redis:new()
    stock:set_timeout(10000)
    assert(stock:connect("127.0.0.1", redis_port))
    local sold = fn(stock)
    stock:set_keepalive(10000, 200)
    return sold
end

--- The purchase of v1 and v2. It assumes that no other request runs meanwhile.
local function buy(stock)
    local left = tonumber((assert(stock:get("stock"))))
    if left <= 0 then
        return "late"
    end
    assert(stock:set("stock", left - 1))
    assert(stock:incr("lucky"))
    return "sold"
end

function shop.without_lock()
    return with_redis(buy)
end

--- Admits one request at a time in this worker. It has no effect on other workers.
local worker_lock = semaphore.new(1)

function shop.with_worker_lock()
    assert(worker_lock:wait(PATIENCE))
    local ok, sold = pcall(with_redis, buy)
    worker_lock:post(1)
    return assert(ok and sold, sold)
end

-- v3 passes the fencing token, and Redis stores the greatest. If a holder was paused, or cut off from ZooKeeper, its write is
-- refused once its successor has read. Redis executes each script in one step, so a worker that is killed leaves nothing half
-- done.
local READ = [[
    local newest = redis.call("get", KEYS[1] .. ":token")
    if newest and newest > ARGV[1] then return false end
    redis.call("set", KEYS[1] .. ":token", ARGV[1])
    return redis.call("get", KEYS[1]) ]]
local SELL = [[
    if redis.call("get", KEYS[1] .. ":token") ~= ARGV[1] then return 0 end
    redis.call("set", KEYS[1], ARGV[2])
    redis.call("incr", "lucky")
    return 1 ]]

local function buy_fenced(lock)
    local token = lock:token()
    return with_redis(function(stock)
        local left = tonumber((assert(stock:eval(READ, 1, "stock", token or ""))))
        assert(left, "the lock was lost before the stock was read")
        if left <= 0 then
            return "late"
        end
        assert(assert(stock:eval(SELL, 1, "stock", token, left - 1)) == 1, "the lock was lost before the stock was written")
        return "sold"
    end)
end

function shop.with_zklock()
    local lock = zklock.shared(zookeeper, { session_timeout = 8 }):mutex("/seckill/stock")
    local ok, sold = lock:with_lock(buy_fenced, PATIENCE)
    return assert(ok and sold, sold)
end

--- Answers a request with the result of one of the functions above. An error gives a 503 with its message.
function shop.answer(buy_one)
    local ok, result = pcall(buy_one)
    ngx.status = ok and 200 or 503
    ngx.header["Content-Length"] = #tostring(result) + 1
    ngx.say(tostring(result))
end

return shop
