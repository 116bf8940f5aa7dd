--- support.prometheus: a Prometheus for one spec, on a free port, which ends with the process that started it.
--
--     local server = prometheus.start { targets = { "127.0.0.1:32000" }, rules = "docs/alerts.yml" }
--     local result = server:query("sum(up)")      -- list of { metric = labels, value = number }
--     server:stop()
--
-- Needs LuaSocket, lua-cjson and Debian's prometheus.

local cjson = require "cjson"
local cluster = require "spec.support.cluster"
local daemon = require "spec.support.daemon"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local nginx = require "spec.support.nginx"
local ports = require "spec.support.ports"

local prometheus = {}
local Server = {}
Server.__index = Server

local CONFIG = [[
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
rule_files: [ rules.yml ]
scrape_configs:
  - job_name: web
    static_configs: [ { targets: [ "%s" ] } ]
]]

--- Runs promtool with a text as its input. Returns its output and status.
function prometheus.tool(words, input)
    local path = os.tmpname()
    files.write(path, input or "")
    local output, status = cluster.run({ "sh", "-c", cluster.command_line({ "promtool", (table.unpack or unpack)(words) }) ..
        " < " .. path })
    os.remove(path)
    return output, status
end

--- Starts a server that scrapes the targets once a second, and waits until it is ready.
function prometheus.start(options)
    local directory = files.make_directory()
    files.write(directory .. "/prometheus.yml", CONFIG:format(table.concat(options.targets, '", "')))
    files.write(directory .. "/rules.yml", files.read(options.rules))
    local self = setmetatable({ port = ports.free() }, Server)
    self.daemon = daemon.start({ "prometheus", "--config.file=" .. directory .. "/prometheus.yml",
        "--storage.tsdb.path=" .. directory .. "/data", "--web.listen-address=127.0.0.1:" .. self.port, "--log.level=warn" },
        { directory = directory })
    eventually(function()
        local ok, status = pcall(nginx.get, self, "/-/ready")
        return ok and status == 200, self.daemon:output()
    end, 60, "Prometheus")
    return self
end

--- Sends a request to its API. Returns the `data` of the answer; raises if it answers an error.
function Server:api(path)
    local status, body = nginx.get(self, "/api/v1/" .. path)
    assert(status == 200, body)
    return cjson.decode(body).data
end

--- Evaluates an expression that gives a vector. Values that are no numbers are left out.
function Server:query(expression)
    local escaped = expression:gsub("[^%w]", function(character)
        return ("%%%02X"):format(character:byte())
    end)
    local found = {}
    for _, sample in ipairs(self:api("query?query=" .. escaped).result) do
        local value = tonumber(sample.value[2])
        if value and value == value then
            found[#found + 1] = { metric = sample.metric, value = value }
        end
    end
    return found
end

function Server:stop()
    self.daemon:stop()
end

return prometheus
