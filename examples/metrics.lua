--- metrics: what to monitor in a program that takes locks. Prints a client's metrics in the text form that Prometheus reads, and
-- the holders and waiters of some paths, as JSON. A program would serve these at /metrics and /locks. For nginx, with metrics of
-- several workers, see metrics/nginx.conf; docs/metrics.md lists the metrics.
--
--   lua examples/metrics.lua HOST:PORT               (needs lua-cjson)

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local cjson = require "cjson"
local metrics = require "zklock.metrics"
local who = require "metrics.who"
local zklock = require "zklock"

--- Another process, which waits for the lock.
local function wait_for(path)
    local client = assert(zklock.connect(common.servers, { identity = "worker-2" }))
    assert(client:mutex(path):acquire(30))
    print("worker-2 has it now")
    client:close()
end

common.main(function()
    if arg[2] then
        return wait_for(arg[2])
    end
    local client = assert(zklock.connect(common.servers, { identity = "worker-1" }))
    local path = common.fresh_path("metrics")
    local lock = client:mutex(path, { metrics = "demo" }) -- the label `group` of its metrics
    for _ = 1, 20 do
        assert(lock:with_lock(function() end, 10))
    end

    assert(lock:acquire(10))
    local other = common.start { { path } }
    common.await_children(client, path, 2)
    io.write(assert(metrics.text(client)))
    print(cjson.encode(who(client, { path, path .. "/of-nobody" }, 5)))
    assert(lock:release())
    other:expect("worker-2 has it now")
    client:close()
end)
