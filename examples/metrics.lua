--- metrics: what to monitor in a program that takes locks. Prints a client's counters in the text form that Prometheus reads,
-- and the holders and waiters of some paths, as JSON. A program would serve these at /metrics and /locks. The code is in
-- metrics/report.lua. For nginx, with counters of several workers, see metrics/nginx.conf.
--
--   lua examples/metrics.lua HOST:PORT               (needs lua-cjson)

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local cjson = require "cjson"
local report = require "metrics.report"
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
    local lock = client:mutex(path)
    for _ = 1, 20 do
        assert(lock:with_lock(function() end, 10))
    end

    assert(lock:acquire(10))
    local other = common.start { { path } }
    common.await_children(client, path, 2)
    io.write(report.render { report.sample(client) })
    print(cjson.encode(report.who(client, { path, path .. "/of-nobody" }, 5)))
    assert(lock:release())
    other:expect("worker-2 has it now")
    client:close()
end)
