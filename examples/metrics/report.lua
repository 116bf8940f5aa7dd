-- Reports for monitoring: the clients' counters in the text form that Prometheus reads, and the holders and waiters of some
-- paths. For examples/metrics.lua and, inside nginx, for worker.lua beside this file.
--
-- A sample is one client's counters at one moment, with labels that distinguish it from other samples. It consists of plain
-- tables, numbers and strings, so that it can be encoded as JSON and rendered elsewhere.

local report = {}

--- The content type of the text, for Prometheus.
report.CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

--- The fields of `client:stats()` as metrics of Prometheus: { field, name, type, help }. Counters only grow; gauges are current
-- values.
local METRICS = {
    { "claims", "zklock_claims_total", "counter", "Acquisitions that were begun." },
    { "grants", "zklock_grants_total", "counter", "Acquisitions that got their lock." },
    { "refusals", "zklock_refusals_total", "counter", "Acquisitions that ended without it: timeouts, cancels, refused tries." },
    { "hand_overs", "zklock_hand_overs_total", "counter", "Of the grants, those that needed no request." },
    { "losses", "zklock_losses_total", "counter", "Locks that were lost while they were held." },
    { "requests", "zklock_requests_total", "counter", "Requests sent to ZooKeeper." },
    { "heartbeats", "zklock_heartbeats_total", "counter", "Of the requests, those that only extended a lease." },
    { "notifications", "zklock_notifications_total", "counter", "Watch events received." },
    { "unknown_outcomes", "zklock_unknown_outcomes_total", "counter", "Creates and deletes whose reply was lost." },
    { "reconnects", "zklock_reconnects_total", "counter", "Connections after the first one." },
    { "sessions", "zklock_sessions_total", "counter", "Sessions; each but the first came after one that expired." },
    { "seats", "zklock_seats", "gauge", "Nodes of ours that exist or may exist." },
    { "watches", "zklock_watches", "gauge", "Watches that are armed." },
    { "memory", "zklock_memory_bytes", "gauge", "Bytes that all clients of the process have allocated in C." },
    { "connected", "zklock_connected", "gauge", "Whether there is a connection." }
}

local HISTOGRAM, HISTOGRAM_HELP = "zklock_wait_seconds", "How long acquisitions took that got their lock."

local function number(value)
    return value == math.huge and "+Inf" or ("%.14g"):format(value)
end

--- The present counters of a client.
-- @tparam Client client
-- @tparam table|nil labels name -> value, to distinguish the client from other clients
-- @treturn table the sample
function report.sample(client, labels)
    local stats = assert(client:stats())
    stats.connected = client:state() == "connected" and 1 or 0
    local sample = { labels = labels or {}, values = {}, buckets = {} }
    for _, metric in ipairs(METRICS) do
        sample.values[metric[1]] = stats[metric[1]]
    end
    for index, bucket in ipairs(stats.wait_time) do
        sample.buckets[index] = { le = number(bucket.le), count = bucket.count }
    end
    sample.sum, sample.count = stats.wait_time.sum, stats.wait_time.count
    return sample
end

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

--- `{a="1",b="2"}`, or an empty string. `le` is the label of a histogram's bucket, which comes last.
local function braces(labels, le)
    local names, parts = {}, {}
    for name in pairs(labels) do
        names[#names + 1] = name
    end
    table.sort(names)
    for index, name in ipairs(names) do
        parts[index] = ('%s="%s"'):format(name, (tostring(labels[name]):gsub('[\\"\n]', ESCAPES)))
    end
    if le then
        parts[#parts + 1] = ('le="%s"'):format(le)
    end
    return parts[1] and "{" .. table.concat(parts, ",") .. "}" or ""
end

--- Prometheus's text form of samples: for each metric its description, then a line for each sample.
-- @tparam table samples list of samples made by report.sample, each with different labels
-- @treturn string ends with a newline
function report.render(samples)
    local lines = {}
    local function add(...)
        lines[#lines + 1] = table.concat({ ... })
    end
    local function begin(name, kind, help)
        add("# HELP ", name, " ", (help:gsub("[\\\n]", ESCAPES)))
        add("# TYPE ", name, " ", kind)
    end
    for _, metric in ipairs(METRICS) do
        local field, name, kind, help = metric[1], metric[2], metric[3], metric[4]
        begin(name, kind, help)
        for _, sample in ipairs(samples) do
            add(name, braces(sample.labels), " ", number(sample.values[field]))
        end
    end
    begin(HISTOGRAM, "histogram", HISTOGRAM_HELP)
    for _, sample in ipairs(samples) do
        for _, bucket in ipairs(sample.buckets) do
            add(HISTOGRAM, "_bucket", braces(sample.labels, bucket.le), " ", number(bucket.count))
        end
        add(HISTOGRAM, "_sum", braces(sample.labels), " ", number(sample.sum))
        add(HISTOGRAM, "_count", braces(sample.labels), " ", number(sample.count))
    end
    return table.concat(lines, "\n") .. "\n"
end

--- Lists the holders and waiters of each path. Sends requests to ZooKeeper, so it should be called only when the result is
-- needed.
-- @tparam Client client
-- @tparam table paths list of locks' paths
-- @tparam number timeout seconds for each
-- @treturn table list of `{ path =, holders = { … }, waiters = { … }, error = }`; empty fields are left out
function report.who(client, paths, timeout)
    local answer = {}
    for index, path in ipairs(paths) do
        local entry = { path = path }
        local contenders, message = client:mutex(path):contenders(timeout)
        for _, contender in ipairs(contenders or {}) do
            local role = contender.holder and "holders" or "waiters"
            entry[role] = entry[role] or {}
            table.insert(entry[role], { identity = contender.identity, mode = contender.mode, node = contender.node })
        end
        entry.error = not contenders and message or nil
        answer[index] = entry
    end
    return answer
end

return report
