--- metrics: what clients measure, in the text form that Prometheus reads.
--
-- docs/metrics.md lists the metrics. The clients measure always; this module only reads. A *collector* has some clients and makes
-- one page of them. Without `dict` the page shows the clients of this process. Inside nginx, with the name of a lua_shared_dict,
-- it shows those of all workers, whichever worker answers (zklock.metrics.workers).

local families = require "zklock.metrics.families"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local page = require "zklock.metrics.page"

local error, pairs, rawget, require, setmetatable, type = error, pairs, rawget, require, setmetatable, type
local format = string.format

---@class zklock.metrics
---@field CONTENT_TYPE string of the page
local metrics = {
    CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
}

--- Has some clients, and makes one page of their metrics. `metrics.collector` makes it.
---@class zklock.Collector
local Collector = {}
Collector.__index = Collector
metrics.Collector = Collector

local COLLECTOR_SCHEMA = { dict = { options.name } }

local check_self, checked = new_check("collector", "a collector", { [Collector] = true })

--- Stands for missing labels: always the same table, since families.read remembers texts by it.
local NO_LABELS = {}

--- Checks labels that a program gives.
---@return table?
---@return string? wrong
local function read_labels(labels)
    if labels == nil then
        return NO_LABELS
    elseif type(labels) ~= "table" then
        return nil, "labels must be a table of strings"
    end
    local read = {}
    for name, value in pairs(labels) do
        if type(name) ~= "string" or not name:find("^[%a_][%w_]*$") or name:find("^__") or families.LABELS[name] then
            return nil, "labels must have names of letters, digits and _, which are not code, group, le, reason or whose"
        end
        local fits, expected = options.label(value)
        if not fits then
            return nil, format("the label '%s' must be %s", name, expected)
        end
        read[name] = value
    end
    return read
end

--- Checks the arguments client and labels.
---@return table? # the labels
---@return string? wrong
local function read_client(client, labels)
    if type(client) ~= "table" or type(client.group_stats) ~= "function" then
        return nil, format("the first argument must be a client (got %s)", options.describe(client))
    end
    return read_labels(labels)
end

--- The metrics of one client.
---@param client zklock.Client
---@param labels? table<string, string> name -> value, which all its metrics get; a value is as the option `metrics` of
--   Client:mutex. Default: none
---@return string? text ends with a newline
---@return string? message
---@return zklock.Code? code "forked"
function metrics.text(client, labels)
    local read, wrong = read_client(client, labels)
    if not read then
        error("zklock.metrics.text: " .. wrong, 2)
    end
    local shown = page.new()
    local able, message, code = families.read(client, read, shown)
    if not able then
        return nil, message, code
    end
    families.read_process(shown)
    return page.render(shown)
end

---@class zklock.CollectorOptions
---@field dict? string the name of a lua_shared_dict that nothing else uses; default: none, the page shows this process only

--- Makes a collector. Inside nginx, with `dict`, call it in init_worker_by_lua: the worker then adds its counters to the dictionary
-- each second, and when it ends. A dictionary of 1 MB is enough for the most lock groups of one client.
--
-- Raises an error when there is no such dictionary.
--
---@param settings? zklock.CollectorOptions
---@return zklock.Collector? collector
---@return string? message
---@return zklock.Code? code "failed" (nginx starts no timer)
function metrics.collector(settings)
    local read, wrong = options.read(settings, COLLECTOR_SCHEMA)
    local ngx = rawget(_G, "ngx")
    local dict = read and read.dict and ngx and ngx.shared[read.dict]
    if read and read.dict and not dict then
        wrong = "option 'dict' must be the name of a lua_shared_dict of nginx.conf"
    end
    if wrong then
        error("zklock.metrics.collector: " .. wrong, 2)
    end
    local collector = setmetatable({ _clients = {}, _workers = false }, Collector)
    if dict then
        local workers, message = require("zklock.metrics.workers").start(dict, read.dict, collector._clients)
        if not workers then
            return nil, message, "failed"
        end
        collector._workers = workers
    end
    return collector
end

--- Adds a client. The collector keeps the client: it is not collected as garbage. Metrics of clients with the same labels are added
-- up.
---@param client zklock.Client
---@param labels? table<string, string> as of text
---@return zklock.Collector collector itself
function Collector:add(client, labels)
    check_self(self, "add")
    local read = checked("add", read_client(client, labels))
    local clients = self._clients
    clients[#clients + 1] = { client = client, labels = read }
    return self
end

--- The metrics of all clients: of this process, or of all workers. Does not wait.
---@return string text ends with a newline
function Collector:text()
    check_self(self, "text")
    if self._workers then
        return self._workers:text()
    end
    local shown = page.new()
    for index = 1, #self._clients do
        families.read(self._clients[index].client, self._clients[index].labels, shown) -- false for a client of the parent process
    end
    families.read_process(shown)
    return page.render(shown)
end

--- Answers an nginx request with the page: for content_by_lua. Raises an error when called outside a request of nginx.
---@param prometheus? table the object of nginx-lua-prometheus, whose metrics then come first on the same page
function Collector:serve(prometheus)
    check_self(self, "serve")
    local ngx = checked("serve", rawget(_G, "ngx"), "there is no nginx here")
    local text = self:text()
    ngx.header["Content-Type"] = metrics.CONTENT_TYPE
    if prometheus then
        ngx.print(prometheus:metric_data())
    end
    ngx.print(text)
end

return metrics
