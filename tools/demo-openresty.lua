-- The seckill service: 800 requests from 200 connections want 288 pieces, through a proxy, from two nginx services. Three rounds:
-- without a lock, with a lock per worker, with zklock. Prints a table. Fails unless zklock's round ends with a stock of 0, exactly
-- 288 buyers, and an answer to every request.
--
--   tools/zookeeper run -- luajit tools/demo-openresty.lua        (ZOOKEEPER in the environment)
--
-- Called by `make demo-openresty`, which has installed and built the requirements.

package.path = "./?.lua;" .. package.path

local seckill = require "spec.support.seckill"

local ROUNDS = {
    { version = "v1", title = "v1 no lock" },
    { version = "v2", title = "v2 a lock per worker" },
    { version = "v3", title = "v3 zklock" }
}

local function show(results)
    local format = "%-22s %10s %12s %9s %9s %8s %8s %10s %10s"
    print(format:format("", "stock left", "lucky buyers", "oversold", "answered", "seconds", "req/s", "median ms", "99% ms"))
    for index, result in ipairs(results) do
        print(format:format(ROUNDS[index].title, result.stock, result.lucky, result.lucky - seckill.STOCK,
            result.answered, ("%.2f"):format(result.seconds), ("%.0f"):format(seckill.REQUESTS / result.seconds),
            result.median, result.p99))
    end
end

--- Runs the rounds. Returns whether the last one is right.
local function main(stage)
    print(("%d pieces; %d requests from %d connections, through a proxy to 2 services with 2 workers each"):format(
        seckill.STOCK, seckill.REQUESTS, seckill.CONNECTIONS))
    local results = {}
    for index, round in ipairs(ROUNDS) do
        results[index] = stage:run(round.version)
    end
    show(results)
    for index, service in ipairs(stage.services) do
        local complaints = service:complaints()
        if complaints[1] then
            print(("the error log of service %d:\n%s"):format(index, table.concat(complaints, "\n")))
        end
    end
    local ours = results[#results]
    if ours.stock == 0 and ours.lucky == seckill.STOCK and ours.answered == seckill.REQUESTS then
        print(("zklock sold each of the %d pieces exactly once, and answered every request."):format(seckill.STOCK))
        return true
    end
    print(("zklock's round is wrong: expected stock 0, %d lucky buyers, %d answers\n%s"):format(seckill.STOCK,
        seckill.REQUESTS, ours.output))
    return false
end

local stage = seckill.start(assert(os.getenv("ZOOKEEPER"), "ZOOKEEPER is not set"))
local ok, right = pcall(main, stage)
stage:stop()
if not ok then
    io.stderr:write(tostring(right), "\n")
end
os.exit(ok and right and 0 or 1)
