-- Inside nginx: /metrics for Prometheus, and /locks, which lists the holders and waiters of locks.
--
-- Each worker has a client and so separate counters, and a scrape reaches one worker of many. So each worker writes its sample
-- to a shared dictionary every second, and the worker that receives the request answers for all, with the label `worker`. When
-- a worker is replaced, after a reload or a crash, the new worker begins again at 0 under the same label. Prometheus expects
-- this of counters.

local cjson = require "cjson"
local report = require "metrics.report"
local zklock = require "zklock"

local worker = {}

--- Seconds between two samples, and seconds until a sample expires: its worker no longer exists, and there are fewer workers
-- now.
local PERIOD, LIFETIME = 1, 5

--- The most paths in one request, and the seconds that ZooKeeper has to answer for each.
local MOST_PATHS, PATIENCE = 20, 2

local servers, options

local function client()
    return assert(zklock.shared(servers, options))
end

local function publish()
    local sample = report.sample(client(), { worker = ngx.worker.id() })
    assert(ngx.shared.zklock_metrics:set(ngx.worker.id(), cjson.encode(sample), LIFETIME))
end

--- For init_worker_by_lua: opens the worker's client and begins to publish its counters.
-- @tparam string server_list as of zklock.connect
-- @tparam table settings likewise
function worker.open(server_list, settings)
    servers, options = server_list, settings
    publish()
    assert(ngx.timer.every(PERIOD, function(exiting)
        if not exiting then
            publish()
        end
    end))
end

--- The counters of all workers, as Prometheus reads them.
function worker.text()
    publish()
    local ids, samples = ngx.shared.zklock_metrics:get_keys(0), {}
    table.sort(ids)
    for _, id in ipairs(ids) do
        local sample = ngx.shared.zklock_metrics:get(id)
        samples[#samples + 1] = sample and cjson.decode(sample)
    end
    return report.render(samples)
end

--- For content_by_lua: answers with worker.text().
function worker.metrics()
    ngx.header["Content-Type"] = report.CONTENT_TYPE
    ngx.print(worker.text())
end

--- For content_by_lua: the holders and waiters as JSON; /locks?path=/locks/stock&path=/locks/other
function worker.locks()
    local paths = ngx.req.get_uri_args().path or {}
    paths = type(paths) == "table" and paths or { paths }
    local ok, answer = pcall(report.who, client(), paths, PATIENCE)
    if #paths == 0 or #paths > MOST_PATHS or not ok then
        ngx.status = 400
        answer = { error = ok and ("give from 1 to %d times path="):format(MOST_PATHS) or answer }
    end
    ngx.header["Content-Type"] = "application/json"
    ngx.say(cjson.encode(answer))
end

return worker
