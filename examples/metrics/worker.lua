-- Inside nginx: /metrics for Prometheus, and /locks for whoever asks who holds a lock.
--
-- Each worker has a client and so counters of its own, and a scrape reaches one worker of many. So each worker leaves its sample in
-- a shared dictionary every second, and whichever is asked answers for all, with the label `worker`. A worker that takes another's
-- place, after a reload or a crash, begins again at 0 under the same label, which is what Prometheus expects of counters.

local cjson = require "cjson"
local report = require "metrics.report"
local zklock = require "zklock"

local worker = {}

--- Seconds between two samples, and until one counts no more: its worker is gone, and there are fewer now.
local PERIOD, LIFETIME = 1, 5

--- The most paths in one question, and seconds that ZooKeeper has to answer for each.
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

--- All workers' counters, as Prometheus reads them.
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

--- For content_by_lua: who holds and who waits, as JSON; /locks?path=/locks/stock&path=/locks/other
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
