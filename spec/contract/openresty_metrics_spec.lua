--- zklock.metrics inside nginx: one page for all workers, by examples/metrics, and what a real Prometheus makes of it. The Lua in
-- nginx is always LuaJIT, so these specs run only once.

if not rawget(_G, "jit") then
    return
end

local cjson = require "cjson"
local cluster = require "spec.support.cluster"
local docstrings = require "tools.docstrings"
local eventually = require "spec.support.eventually"
local exposition = require "spec.support.exposition"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local nginx = require "spec.support.nginx"
local prometheus = require "spec.support.prometheus"

local nobody_complained, remember = inside.nobody_complained, fixture.remember

local CONF = cluster.root .. "/examples/metrics/nginx.conf"

local function start_example()
    local path = fixture.path()
    local server = remember(nginx.start { template = CONF, values = { ZOOKEEPER = fixture.servers(), PATH = path } })
    server.path = path
    return server
end

local function page_of(server)
    local status, body = server:get("/metrics")
    assert.equal(200, status)
    return exposition(body .. "\n")
end

--- Returns the sum of the samples of a metric that have these labels.
local function total(families, sample_name, labels)
    local sum = 0
    for _, family in pairs(families) do
        for _, sample in ipairs(family.samples) do
            local fits = sample.name == sample_name
            for name, value in pairs(labels or {}) do
                fits = fits and sample.labels[name] == value
            end
            sum = sum + (fits and sample.value or 0)
        end
    end
    return sum
end

--- Waits until the page of all workers shows these values: name -> value.
local function await_values(server, wanted)
    return eventually(function()
        local families = page_of(server)
        for name, value in pairs(wanted) do
            local shown = total(families, name)
            if shown ~= value then
                return nil, ("%s is %g"):format(name, shown)
            end
        end
        return families
    end, 30, "the values")
end

describe("the metrics of all workers of nginx #nginx", function()
    after_each(fixture.clean)

    it("are exact Prometheus text, whichever worker answers", function()
        local server = start_example()
        for _ = 1, 10 do
            assert.equal(200, (server:get("/work")))
        end
        local families = await_values(server, {
            zklock_acquisitions_total = 10, zklock_clients = 2, zklock_connected_clients = 2, zklock_hold_seconds_count = 10,
            zklock_wait_seconds_count = 10, zklock_held_acquisitions = 0, zklock_losses_total = 0, zklock_refusals_total = 0
        })
        assert.equal(10, total(families, "zklock_hold_seconds_count", { group = "work" }))
        assert.equal(12, #families.zklock_refusals_total.samples) -- the codes of the only group, all 0
        local request = server:ask("/metrics")
        request:answer()
        assert.truthy(request.head:find("\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n", 1, true), request.head)
        nobody_complained(server)
    end)

    it("do not fall at a reload, and count what old workers did until their end", function()
        local server = start_example()
        assert.equal(200, (server:get("/work")))
        await_values(server, { zklock_sessions_total = 2 }) -- of both old workers
        local before = fixture.join(server.path)
        local late = server:ask("/work?seconds=1.5")
        fixture.await_children(server.path, 2)
        local await_end = server:begin_reload()
        assert(fixture.observer():delete(before))
        assert.equal(200, (late:answer()))
        await_end()
        assert.equal(200, (server:get("/work")))
        local families = await_values(server, {
            zklock_hold_seconds_count = 3, zklock_acquisitions_total = 3, zklock_sessions_total = 4, zklock_clients = 2,
            zklock_session_expiries_total = 0
        })
        -- The old worker's hold of 1.5 s is not in this bucket, on any machine. The other holds are no shorter than they are.
        assert.is_true(total(families, "zklock_hold_seconds_bucket", { le = "1" }) <= 2)
        assert.equal(3, total(families, "zklock_hold_seconds_bucket", { le = "+Inf" }))
        nobody_complained(server)
    end)

    it("keep the counters of a killed worker, and drop its gauges", function()
        local server = start_example()
        assert.equal(200, (server:get("/work")))
        await_values(server, { zklock_hold_seconds_count = 1, zklock_clients = 2, zklock_sessions_total = 2 })
        server:signal("KILL", server:workers()[1])
        await_values(server, { zklock_hold_seconds_count = 1, zklock_sessions_total = 3, zklock_clients = 2 })
    end)

    it("come after those of nginx-lua-prometheus on one page", function()
        -- A stand-in with the documented interface: metric_data returns an array of strings.
        local server = remember(nginx.start { http = [[
            lua_shared_dict zklock_metrics 1m;
            init_worker_by_lua_block {
                local zklock, metrics = require "zklock", require "zklock.metrics"
                collector = assert(metrics.collector { dict = "zklock_metrics" }):add(assert(zklock.shared("@ZOOKEEPER@")))
                prometheus = {
                    metric_data = function(self)
                        assert(self == prometheus)
                        return { "# HELP pages_total Pages.\n", "# TYPE pages_total counter\n", 'pages_total{host="a"} 7\n' }
                    end
                }
            }
            server {
                listen 127.0.0.1:@PORT@;
                location = /metrics { content_by_lua_block { collector:serve(prometheus) } }
            }
        ]], values = { ZOOKEEPER = fixture.servers() } })
        local families = await_values(server, { pages_total = 7, zklock_connected_clients = 1 })
        assert.same({ host = "a" }, families.pages_total.samples[1].labels)
        nobody_complained(server)
    end)

    it("are reported as missing, once, if the dictionary is full, and the rest is right", function()
        local server = remember(nginx.start { http = [[
            lua_shared_dict zklock_metrics 12k;
            init_worker_by_lua_block {
                local zklock, metrics = require "zklock", require "zklock.metrics"
                local client = assert(zklock.shared("@ZOOKEEPER@"))
                for index = 1, 20 do
                    client:mutex("/a", { metrics = "group " .. index })
                end
                collector = assert(metrics.collector { dict = "zklock_metrics" }):add(client)
            }
            server {
                listen 127.0.0.1:@PORT@;
                location = /metrics { content_by_lua_block { collector:serve() } }
            }
        ]], values = { ZOOKEEPER = fixture.servers() } })
        for _ = 1, 3 do
            assert.equal(200, (server:get("/metrics")))
        end
        local complaints = server:complaints()
        assert.equal(1, #complaints)
        assert.truthy(complaints[1]:find("zklock: metrics are missing: lua_shared_dict zklock_metrics: no memory", 1, true),
            complaints[1])
    end)

    it("need a dictionary that exists", function()
        local server = remember(nginx.start { http = [[
            server {
                listen 127.0.0.1:@PORT@;
                location = /wrong { content_by_lua_block {
                    local ok, problem = pcall(require("zklock.metrics").collector, { dict = "missing" })
                    ngx.say(tostring(ok), " ", problem)
                } }
            }
        ]] })
        local _, body = server:get("/wrong")
        assert.truthy(body:find("^false .*option 'dict' must be the name of a lua_shared_dict"), body)
    end)

    it("show holders and waiters of paths, as JSON, beside them", function()
        local server = start_example()
        fixture.join(server.path, nil, "somebody else")
        local waiting = server:ask("/work")
        fixture.await_children(server.path, 2)
        await_values(server, { zklock_waiting_acquisitions = 1, zklock_connected_clients = 2 })
        local status, body = server:get(("/locks?path=%s&path=%s-free"):format(server.path, server.path))
        assert.equal(200, status)
        local answer = cjson.decode(body)
        assert.equal(server.path, answer[1].path)
        assert.same({ "somebody else", "exclusive" }, { answer[1].holders[1].identity, answer[1].holders[1].mode })
        assert.is_nil(answer[1].holders[2])
        assert.truthy(answer[1].waiters[1].identity:find(":%d+$"), answer[1].waiters[1].identity)
        assert.same({ path = server.path .. "-free" }, answer[2])
        waiting:abort()
        for _, wrong in ipairs { "/locks", "/locks?path=malformed", "/locks?path" } do
            status, body = server:get(wrong)
            assert.equal(400, status)
            assert.is_string(cjson.decode(body).error)
        end
        nobody_complained(server)
    end)

    it("are set up as docs/metrics.md describes", function()
        local page, conf = docstrings.read_file("docs/metrics.md"), docstrings.read_file("examples/metrics/nginx.conf")
        local worker = docstrings.read_file("examples/metrics/worker.lua")
        local shown = assert(page:match("\n## In nginx\n.-\n```nginx\n(.-)```"), "no nginx.conf in the page")
        local function squeezed(text)
            return (text:gsub("%s+", " "))
        end
        -- The page has in one file what the example has in two.
        assert.truthy(squeezed(conf):find("lua_shared_dict zklock_metrics 1m;", 1, true))
        assert.truthy(shown:find("lua_shared_dict zklock_metrics 1m;", 1, true))
        for _, call in ipairs { 'metrics.collector { dict = "zklock_metrics" }', ":add(client)", "collector:serve()" } do
            assert.truthy(worker:find(call, 1, true), call)
            assert.truthy(shown:find(call, 1, true), call)
        end
    end)
end)

describe("a Prometheus that scrapes nginx #nginx", function()
    --- Every query of docs/grafana.json, with values for its variables: { panel =, expression = }.
    local function dashboard_queries()
        local queries = {}
        for _, panel in ipairs(cjson.decode(files.read(cluster.root .. "/docs/grafana.json")).panels) do
            for _, target in ipairs(panel.targets or {}) do
                local expression = target.expr:gsub("%$__rate_interval", "10s"):gsub('"%$%l+"', '".*"')
                assert(not expression:find("$", 1, true), expression)
                queries[#queries + 1] = { panel = panel.title, expression = expression }
            end
        end
        return queries
    end

    setup(function()
        assert(select(2, cluster.run({ "sh", "-c", "command -v prometheus" })) == 0, "prometheus is not installed: make setup")
    end)

    after_each(fixture.clean)

    it("gets data for each query of the dashboard, and loads the alert rules", function()
        local server = start_example()
        local scraper = remember(prometheus.start {
            targets = { "127.0.0.1:" .. server.port }, rules = cluster.root .. "/docs/alerts.yml"
        })
        local queries = dashboard_queries()
        assert.is_true(#queries >= 20, #queries)
        for _, query in ipairs(queries) do
            eventually(function()
                assert.equal(200, (server:get("/work"))) -- rates need something that grows
                return scraper:query(query.expression)[1]
            end, 60, query.panel .. ": data of " .. query.expression)
        end
        assert.same({ group = "work" }, eventually(function()
            local grants = scraper:query("sum by (group) (zklock_wait_seconds_count)")
            return grants[1] and grants[1].metric -- nothing for a moment, if a scrape takes too long
        end, 60, "the grants"))
        local rules = scraper:api("rules").groups[1].rules
        assert.equal(17, #rules)
        for _, rule in ipairs(rules) do
            assert.equal("alerting", rule.type)
            assert.truthy(rule.health ~= "err", rule.lastError)
        end
    end)
end)
