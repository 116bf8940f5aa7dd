-- One process of the stock demo. It serves a number of buyers, one after the other. Each reads the stock, decides, and writes
-- it back. Reading and writing are two commands, so if another buyer comes in between, the same piece is sold twice.
--
--   buyer.lua ROUND REDIS_PORT ZOOKEEPER BUYERS
--
-- ROUND is the lock that excludes other buyers: "none" no lock, "process" a lock in this process only, "zklock" zklock. Prints
-- "ready", waits for a line on its standard input, then prints "wait MICROSECONDS" and "sold" or "late" per buyer, and "done".

local redis = require "redis"
local socket = require "socket"

local round, redis_port, zookeeper, buyers = arg[1], tonumber(arg[2]), arg[3], tonumber(arg[4])
local stock = redis.connect("127.0.0.1", redis_port)

--- Serves one buyer. No other buyer may come between the read and the write.
local function buy()
    local left = tonumber(stock:get("stock"))
    if left > 0 then
        stock:set("stock", left - 1)
        stock:incr("lucky")
        return true
    end
    return false
end

--- A lock that has no effect on other processes, like a mutex of the language, or a lock of one nginx worker.
local function process_lock()
    local taken = false
    return function(fn)
        assert(not taken)
        taken = true
        local result = fn()
        taken = false
        return result
    end
end

local function zookeeper_lock()
    local client = assert(require("zklock").connect(zookeeper, { connect_timeout = 60 }))
    local lock = client:mutex("/demo/stock")
    return function(fn)
        local ok, sold = assert(lock:with_lock(fn, 60))
        return ok and sold
    end, function() client:close() end
end

local with_lock, close
if round == "zklock" then
    with_lock, close = zookeeper_lock()
elseif round == "process" then
    with_lock = process_lock()
else
    with_lock = function(fn) return fn() end
end

io.stdout:setvbuf("line")
print("ready")
io.read("l")
for _ = 1, buyers do
    local asked = socket.gettime()
    local alone
    local sold = with_lock(function()
        alone = socket.gettime()
        return buy()
    end)
    print(("wait %.0f"):format((alone - asked) * 1e6))
    print(sold and "sold" or "late")
end
if close then
    close()
end
print("done")
