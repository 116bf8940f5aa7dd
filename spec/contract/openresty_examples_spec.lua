--- The nginx.conf of docs/openresty.md, and the examples that run inside nginx. The Lua there is always LuaJIT, so these specs run
-- only once.

if not rawget(_G, "jit") then
    return
end

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local inside = require "spec.support.nginx_fixture"
local nginx = require "spec.support.nginx"
local redis_server = require "spec.support.redis_server"
local seckill = require "spec.support.seckill"
local zk = require "spec.support.zk"

local nobody_complained, remember = inside.nobody_complained, fixture.remember

describe("the nginx.conf of docs/openresty.md #nginx", function()
    after_each(fixture.clean)

    it("is complete, and answers /buy", function()
        local conf = files.read(cluster.root .. "/docs/openresty.md"):match("\n```nginx\n(.-)```")
        -- Only paths, addresses and the limit of time are changed.
        conf = conf:gsub("error_log [^;]*", "error_log @DIRECTORY@/error.log notice"):gsub("worker_processes auto", "%0;\n" ..
            "daemon off; pid @DIRECTORY@/nginx.pid"):gsub("listen 8080", "listen 127.0.0.1:@PORT@"):gsub("http {",
            "%0\naccess_log off;\n" .. nginx.PLACES)
        conf = conf:gsub("zk1:2181,zk2:2181,zk3:2181", fixture.servers()):gsub("/locks/stock", fixture.path())
            :gsub("end, 5%)", "end, 60)")
        local template = os.tmpname()
        files.write(template, "@MODULES@" .. conf)
        local server = remember(nginx.start { template = template })
        local function buy(order)
            return server:ask("/buy", nil, order and ("Idempotency-Key: %s\r\n"):format(order)):answer()
        end
        local status, body = buy("7")
        assert.equal(200, status)
        assert.truthy(body:find("^order 7 with %d+%-%d+$"), body)
        assert.equal(400, (buy()))
        nobody_complained(server)
        -- The purchase stops in the middle until its lock is lost.
        local inside_fn = "began = true\n"
        assert.truthy(conf:find(inside_fn, 1, true))
        files.write(template, "@MODULES@" .. conf:gsub(inside_fn, "%0" .. [[
            assert(client:delete(held:node()))
            while held:held() do
                ngx.sleep(0.01)
            end
            held.token = function() return "a token" end
        ]]))
        server = remember(nginx.start { template = template })
        status, body = buy("8")
        assert.equal(504, status, body)
        assert.truthy(body:find("^unknown, repeat it with the same Idempotency%-Key: .* is lost"), body)
        fixture.join(conf:match('client:mutex%("([^"]+)"%)')) -- another contender holds
        -- A short limit of time, which begins when the new worker is connected.
        local impatient = conf:gsub("end, 60%)", "end, 1)"):gsub('local lock = client:mutex', 'assert(client:exists("/"))\n%0')
        files.write(template, "@MODULES@" .. impatient)
        server = remember(nginx.start { template = template })
        status, body = buy("9")
        assert.equal(429, status, body)
        assert.truthy(body:find("^nothing was bought: could not acquire"), body)
        os.remove(template)
    end)
end)

describe("the seckill service #nginx", function()
    local servers, stage

    setup(function()
        servers = cluster.start()
        stage = seckill.start(servers.servers)
    end)

    teardown(function()
        stage:stop()
        servers:stop()
    end)

    --- Waits until so many have been sold in the present round.
    local function await_sales(count)
        eventually(function()
            local lucky, stock = stage:count()
            return lucky >= count, ("%d sold, %d left"):format(lucky, stock)
        end, 60, count .. " sales")
    end

    local function never_oversold(result)
        assert.equal(seckill.STOCK, result.lucky + result.stock, result.output)
        assert.is_true(result.lucky <= seckill.STOCK)
    end

    local function all_sold(result)
        assert.same({ stock = 0, lucky = seckill.STOCK, answered = seckill.REQUESTS },
            { stock = result.stock, lucky = result.lucky, answered = result.answered })
    end

    it("oversells without a lock, and with one lock for each worker", function()
        for _, version in ipairs { "v1", "v2" } do
            -- Redis holds writes back until two requests have read the stock and want to write it; in v2 those are of different
            -- workers. ab sends one request before the others, so each service gets one more.
            local result = stage:run(version, function()
                local requests = {}
                for index, service in ipairs(stage.services) do
                    requests[index] = service:ask(("/%s/reduce"):format(version))
                end
                stage.redis_server:await_held(2, "set")
                stage.redis_server:let_writes_go()
                for _, request in ipairs(requests) do
                    assert.equal(200, (request:answer()))
                end
            end, function()
                stage.redis_server:hold_writes()
            end)
            assert.is_true(result.lucky + result.stock > seckill.STOCK, result.output)
        end
    end)

    it("sells every piece once with zklock, and answers every request", function()
        all_sold(stage:run("v3"))
        for _, service in ipairs(stage.services) do
            nobody_complained(service)
        end
    end)

    it("oversells nothing while a service is reloaded", function()
        local result = stage:run("v3", function()
            await_sales(40)
            stage.services[1]:signal("HUP")
            await_sales(120)
            stage.services[1]:signal("HUP")
        end)
        never_oversold(result)
        for _, service in ipairs(stage.services) do
            nobody_complained(service)
        end
    end)

    it("answers unknown if the lock is lost while it buys, and a retry with the same order does not buy twice", function()
        stage.redis:set("stock", 9)
        stage.redis:set("lucky", 0)
        local zookeeper = assert(zk.connect(servers.servers))
        local function buy(order)
            return stage.services[1]:ask("/v3/reduce", nil, order and ("Idempotency-Key: %s\r\n"):format(order))
        end
        -- Redis holds writes back, so the purchase stops in the middle. Meanwhile an administrator deletes the lock's node.
        stage.redis_server:hold_writes()
        local request = buy("order-1")
        stage.redis_server:await_held(1, "eval")
        local nodes = zookeeper:children("/seckill/stock")
        assert.equal(1, #nodes)
        assert(zookeeper:delete("/seckill/stock/" .. nodes[1]))
        stage.redis_server:let_writes_go()
        local status, body = request:answer()
        assert.equal(504, status, body)
        assert.truthy(body:find("^unknown: .* is lost"), body)
        assert.same({ 1, 8 }, { stage:count() }) -- it was bought all the same
        for _ = 1, 3 do
            assert.same({ 200, "sold" }, { buy("order-1"):answer() })
        end
        assert.same({ 1, 8 }, { stage:count() })
        assert.same({ 200, "sold" }, { buy("order-2"):answer() })
        assert.same({ 200, "sold" }, { buy():answer() })
        assert.same({ 200, "sold" }, { buy():answer() })
        assert.same({ 4, 5 }, { stage:count() })
        zookeeper:close()
    end)

    it("oversells nothing while a worker is killed", function()
        local result = stage:run("v3", function()
            await_sales(40)
            stage.services[1]:signal("KILL", stage.services[1]:workers()[1])
        end)
        never_oversold(result)
    end)

    it("oversells nothing while ZooKeeper is restarted", function()
        local result = stage:run("v3", function()
            await_sales(40)
            servers:restart()
        end)
        never_oversold(result)
        all_sold(stage:run("v3"))
    end)
end)

describe("the cache of examples/stampede #nginx", function()
    local NODES, REQUESTS = 2, 20
    local redis, nodes, path

    --- Starts a node. `with_node_lock`: with lua-resty-lock, or a stand-in where it is not installed.
    local function start_node(zookeeper, patience, with_node_lock)
        local conf = files.read(cluster.root .. "/examples/stampede/nginx.conf")
        local more = with_node_lock and ";;@ROOT@/spec/support/openresty/?.lua;" or ""
        local template = os.tmpname()
        files.write(template, (conf:gsub('lua/%?/init%.lua;;', "lua/?/init.lua;" .. more .. ";")))
        local node = remember(nginx.start {
            template = template, values = { ZOOKEEPER = zookeeper, REDIS_PORT = redis.port, PATH = path, PATIENCE = patience }
        })
        os.remove(template)
        return node
    end

    --- Starts all nodes, and Redis.
    local function start(with_node_lock)
        redis = remember(redis_server.start())
        path, nodes = fixture.path(), {}
        for index = 1, NODES do
            nodes[index] = start_node(fixture.servers(), 100, with_node_lock)
        end
    end

    --- Sends many requests to all nodes while nothing can be computed. Returns them when they all wait.
    local function send(key)
        redis:hold_writes() -- the first of them stops where it computes
        local requests = {}
        for index = 1, NODES * REQUESTS do
            requests[index] = nodes[index % NODES + 1]:ask("/value?key=" .. key)
        end
        redis:await_held(1, "incr")
        return requests
    end

    --- Lets them go on. Every request gets the same value, which was computed once.
    local function all_get_one_value(requests, key)
        redis:let_writes_go()
        for _, request in ipairs(requests) do
            assert.same({ 200, key .. " computed 1" }, { request:answer() })
        end
        assert.equal("1", redis.connection:get("computed:" .. key))
    end

    after_each(fixture.clean)

    it("computes a missing value once in the fleet, and one request of each node waits for the fleet's lock", function()
        start(true)
        local requests = send("a")
        fixture.await_children(path .. "/values/a", NODES)
        all_get_one_value(requests, "a")
        fixture.await_children(path .. "/values/a", 0)
        for _, node in ipairs(nodes) do
            assert.same({ 200, "a computed 1" }, { node:get("/value?key=a") })
            nobody_complained(node)
        end
    end)

    it("computes it once without a node's lock too; requests of a worker then share a node of the queue", function()
        start(false)
        local requests = send("b")
        all_get_one_value(requests, "b")
        for _, node in ipairs(nodes) do
            nobody_complained(node)
        end
    end)

    it("answers without ZooKeeper too: a lock that fails costs work and breaks nothing", function()
        redis, path = remember(redis_server.start()), fixture.path()
        local link = fixture.proxy()
        link:refuse()
        local lonely = start_node(link.address, 0.2, true)
        assert.same({ 200, "c computed 1" }, { lonely:get("/value?key=c") })
        assert.truthy(lonely:log():find("computing c without a lock: ", 1, true))
    end)
end)
