-- The shop: each request buys one piece of a stock that is kept in Redis. It reads the stock, decides, and writes it back. If
-- another request comes in between, the same piece is sold twice.
--
-- There are three ways to exclude other requests: none (v1), a lock of this nginx worker (v2), zklock (v3).
--
-- v3 also shows how a purchase is repeated safely. If the lock is lost, or Redis does not answer, the buyer cannot know whether
-- the purchase has happened. The answer is then "unknown", with the status 504. The buyer repeats the request with the same
-- header Idempotency-Key, the order's number. Redis writes the order and the stock in one step, so a second try finds the order.

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
    assert(zklock.shared(zookeeper, { session_timeout = 30 }))
end

--- Runs fn(stock) with a connection to Redis, which goes back to the worker's pool unless an error occurred.
local function with_redis(fn)
    local stock = redis:new()
    stock:set_timeout(60000)
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
    local newest = redis.call("get", KEYS[3])
    if newest and newest > ARGV[1] then return false end
    redis.call("set", KEYS[3], ARGV[1])
    return { redis.call("get", KEYS[1]), redis.call("exists", KEYS[2]) } ]]
local SELL = [[
    if redis.call("get", KEYS[3]) ~= ARGV[1] then return 0 end
    redis.call("set", KEYS[1], ARGV[2])
    redis.call("set", KEYS[2], "sold", "ex", ARGV[3])
    redis.call("incr", KEYS[4])
    return 1 ]]

--- How many seconds an order is remembered: longer than any buyer repeats a request.
local ORDER_TTL = 86400

local function buy_fenced(lock, order)
    local token, order_key = lock:token() or "", "order:" .. order
    return with_redis(function(stock)
        local seen = assert(stock:eval(READ, 3, "stock", order_key, "stock:token", token))
        assert(type(seen) == "table", "the lock was lost before the stock was read")
        local left, bought = tonumber(seen[1]), seen[2] == 1
        if bought then
            return "sold" -- by an earlier try
        elseif left <= 0 then
            return "late"
        end
        assert(assert(stock:eval(SELL, 4, "stock", order_key, "stock:token", "lucky", token, left - 1, ORDER_TTL)) == 1,
            "the lock was lost before the stock was written")
        return "sold"
    end)
end

--- Returns the result; or nil, the problem, and whether the purchase may have happened.
function shop.with_zklock(order)
    local client = zklock.shared(zookeeper, { session_timeout = 30 })
    local lock = client:mutex("/seckill/stock")
    local began = false
    local ran, ok, sold = pcall(lock.with_lock, lock, function(held)
        began = true
        return buy_fenced(held, order)
    end, PATIENCE)
    if ran and ok then
        return sold
    end
    return nil, ran and sold or ok, began
end

--- Answers a request with the result of one of the functions above. Status 503: nothing was bought. Status 504: unknown, and the
-- buyer repeats the request with the same Idempotency-Key. A request without that header is an order of its own.
function shop.answer(buy_one)
    local ok, result, problem, unknown = pcall(buy_one, ngx.var.http_idempotency_key or ngx.var.request_id)
    local text = tostring(ok and result or problem or result)
    if not (ok and result) then
        ngx.status = unknown and 504 or 503
        ngx.header["Retry-After"] = 1
        text = unknown and "unknown: " .. text or text
    end
    ngx.header["Content-Length"] = #text + 1
    ngx.say(text)
end

return shop
