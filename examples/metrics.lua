--- metrics: what to watch of a program that takes locks. Prints a client's counters in the text form that Prometheus reads, and
-- who holds and who waits for some paths, as JSON: what a program would serve at /metrics and /locks.
--
--   lua examples/metrics.lua HOST:PORT               (needs lua-cjson)

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local cjson = require "cjson"
local zklock = require "zklock"

--- What `client:stats()` has, as Prometheus is to call it. Counters only grow; gauges are of now.
local METRICS = {
    { "claims", "counter", "acquisitions that were begun" },
    { "grants", "counter", "acquisitions that got their lock" },
    { "refusals", "counter", "acquisitions that were refused" },
    { "losses", "counter", "locks that were lost while they were held" },
    { "requests", "counter", "requests sent to ZooKeeper" },
    { "heartbeats", "counter", "requests that extended a lease" },
    { "reconnects", "counter", "connections after the first one" },
    { "sessions", "counter", "sessions, which end only by expiry" },
    { "seats", "gauge", "nodes of ours, and attempts at nodes" },
    { "watches", "gauge", "watches that are armed" },
    { "memory", "gauge", "bytes used by all clients of the process" }
}

local function number(value)
    return value == math.huge and "+Inf" or ("%.14g"):format(value)
end

--- Prometheus's text form: lines of `name{labels} value`, after two that say what it is.
local function prometheus(client)
    local stats, lines = assert(client:stats()), {}
    local function add(...)
        lines[#lines + 1] = string.format(...)
    end
    for _, metric in ipairs(METRICS) do
        local name, kind, help = metric[1], metric[2], metric[3]
        local full = "zklock_" .. name .. (kind == "counter" and "_total" or name == "memory" and "_bytes" or "")
        add("# HELP %s %s", full, help)
        add("# TYPE %s %s", full, kind)
        add("%s %s", full, number(stats[name]))
    end
    add("# HELP zklock_connected whether there is a connection")
    add("# TYPE zklock_connected gauge")
    add("zklock_connected %d", client:state() == "connected" and 1 or 0)
    add("# HELP zklock_wait_seconds how long acquisitions took that got their lock")
    add("# TYPE zklock_wait_seconds histogram")
    for _, bucket in ipairs(stats.wait_time) do
        add('zklock_wait_seconds_bucket{le="%s"} %d', number(bucket.le), bucket.count)
    end
    add("zklock_wait_seconds_sum %s", number(stats.wait_time.sum))
    add("zklock_wait_seconds_count %d", stats.wait_time.count)
    return table.concat(lines, "\n")
end

--- Who holds and who waits, for each path. Asks ZooKeeper: not to be served more often than somebody looks.
local function who(client, paths)
    local answer = {}
    for _, path in ipairs(paths) do
        local entry = { path = path }
        local contenders, message = client:mutex(path):contenders(5)
        for _, contender in ipairs(contenders or {}) do
            local role = contender.holder and "holders" or "waiters"
            entry[role] = entry[role] or {}
            table.insert(entry[role], { identity = contender.identity, mode = contender.mode, node = contender.node })
        end
        entry.error = not contenders and message or nil
        answer[#answer + 1] = entry
    end
    return cjson.encode(answer)
end

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
    print(prometheus(client))
    print(who(client, { path, path .. "/of-nobody" }))
    assert(lock:release())
    other:expect("worker-2 has it now")
    client:close()
end)
