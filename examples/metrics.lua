--- metrics: what to watch of a program that takes locks. Prints a client's counters in the text form that Prometheus reads, and
-- who holds and who waits for some paths, as JSON: what a program would serve at /metrics and /locks. How it is done is in
-- metrics/report.lua; inside nginx, with counters of several workers, see metrics/nginx.conf.
--
--   lua examples/metrics.lua HOST:PORT               (needs lua-cjson)

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local cjson = require "cjson"
local report = require "metrics.report"
local zklock = require "zklock"

--- Another process, that waits for the lock.
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
