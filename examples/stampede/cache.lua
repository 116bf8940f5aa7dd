-- A cache that survives a stampede: when a value is missing, one request in the whole fleet computes it, whatever the number of
-- nodes, workers and requests.
--
-- There are two caches. Each node has one in its shared memory. All nodes share one in Redis. There are two locks as well:
--
--   1. the node's lock, lua-resty-lock: one request of each node goes on, the others wait in their own node;
--   2. the fleet's lock, resty.zklock: one node goes on.
--
-- After each lock the request looks again into the cache that this lock guards. After the fleet's lock that is Redis. The node's
-- shared memory cannot show what another node has computed.
--
-- A lock that fails here does no harm. The request then computes the value without it, which costs work and breaks nothing.

local fleet_lock = require "resty.zklock"

--- OpenResty contains lua-resty-lock. Debian has no package of it. Without it all requests of a node queue at the fleet's lock.
local found, node_lock = pcall(require, "resty.lock")

--- OpenResty's name of the module; in Debian's lua-nginx-redis it is nginx.redis.
local has_redis, redis = pcall(require, "resty.redis")
if not has_redis then
    redis = require "nginx.redis"
end

local cache = {}

--- How many seconds a value stays in the two caches.
local NODE_TTL, FLEET_TTL = 5, 60

--- The options of both locks. After `exptime` seconds a lock ends by itself; computing takes less. `timeout` is set by open.
local lock_options = { exptime = 120 }

local redis_port

--- For init_worker_by_lua: begins to open the session, in the background. `patience`: how many seconds a request waits for another
-- one that computes.
function cache.open(settings)
    redis_port, lock_options.timeout = settings.redis_port, settings.patience
    assert(fleet_lock.connect { servers = settings.zookeeper, prefix = settings.prefix, session_timeout = 30 })
end

--- Returns a connection to Redis.
function cache.fleet()
    local fleet = redis:new()
    fleet:set_timeout(60000)
    assert(fleet:connect("127.0.0.1", redis_port))
    return fleet
end

--- Runs fn while a lock object, if there is one, holds the key. Returns the result of `look`, which finds what another request has
-- computed meanwhile, or else that of fn.
local function guarded(lock, key, look, fn)
    local elapsed, problem
    if lock then
        elapsed, problem = lock:lock(key)
        if not elapsed then
            ngx.log(ngx.WARN, "computing ", key, " without a lock: ", problem)
        end
    end
    local ok, value = pcall(function()
        return look() or fn()
    end)
    if elapsed then
        lock:unlock() -- also after an error. A lock that was lost cannot be given back, and need not be
    end
    return (assert(ok and value, value))
end

--- Returns the value of a key. `compute(fleet)` makes it if it is in no cache.
function cache.get(key, compute)
    local node = ngx.shared.values
    local function in_node()
        return (node:get(key))
    end
    local value = in_node()
    if value then
        return value
    end
    return guarded(found and assert(node_lock:new("node_locks", lock_options)), key, in_node, function()
        local fleet = cache.fleet()
        local function in_fleet()
            local shared = assert(fleet:get("value:" .. key))
            return shared ~= ngx.null and shared or nil
        end
        value = in_fleet() or guarded((fleet_lock:new("values", lock_options)), key, in_fleet, function()
            local computed = compute(fleet)
            assert(fleet:set("value:" .. key, computed, "ex", FLEET_TTL)) -- before the fleet's lock is given back
            return computed
        end)
        fleet:set_keepalive(10000, 20)
        assert(node:set(key, value, NODE_TTL)) -- before the node's lock is given back
        return value
    end)
end

return cache
