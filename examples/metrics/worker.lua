-- Inside nginx: /metrics for Prometheus, and /locks, which lists the holders and waiters of locks. zklock.metrics makes the page of
-- metrics, for all workers; this file is what a program adds.

local cjson = require "cjson"
local metrics = require "zklock.metrics"
local who = require "metrics.who"
local zklock = require "zklock"

local worker = {}

--- The most paths in one request, and the seconds that ZooKeeper has to answer for each.
local MOST_PATHS, PATIENCE = 20, 10

local client, collector

--- For init_worker_by_lua: opens the worker's client and begins to publish its metrics.
---@param servers string as of zklock.connect
---@param options table likewise
function worker.open(servers, options)
    client = assert(zklock.shared(servers, options))
    collector = assert(metrics.collector { dict = "zklock_metrics" }):add(client)
end

--- For content_by_lua: the metrics of all workers.
function worker.metrics()
    collector:serve()
end

--- For content_by_lua: the holders and waiters as JSON; /locks?path=/locks/stock&path=/locks/other
function worker.locks()
    local paths = ngx.req.get_uri_args().path or {}
    paths = type(paths) == "table" and paths or { paths }
    local ok, answer = pcall(who, client, paths, PATIENCE)
    if #paths == 0 or #paths > MOST_PATHS or not ok then
        ngx.status = 400
        answer = { error = ok and ("give from 1 to %d times path="):format(MOST_PATHS) or answer }
    end
    ngx.header["Content-Type"] = "application/json"
    ngx.say(cjson.encode(answer))
end

return worker
