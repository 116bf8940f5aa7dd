-- Shows what a lock cannot do, and the purpose of the fencing token. A holder checks that it still holds the lock. Then, before
-- it writes, it is suspended for longer than its session timeout (SIGSTOP here; elsewhere a garbage collection or a migration
-- of a virtual machine). Another client gets the lock and writes. The first holder continues and writes, too late, without
-- noticing.
--
-- Only the store can refuse that write. Redis does so in one script, by comparing tokens: each grant's token is greater than
-- all earlier ones. The same late write is also made without a token. It is accepted and destroys the newer value.
--
--   lua examples/fencing.lua HOST:PORT [REDIS_PORT]     starts its own Redis unless a port is given

package.path = (arg[0]:match("^(.*/)") or "./") .. "?.lua;" .. package.path
local common = require "common"
local redis = require "redis"
local socket = require "socket"
local zklock = require "zklock"

-- Writes KEYS[1] unless a client with a later grant has written before. KEYS[2] is the greatest token. Returns 1, or 0 if refused.
local GUARDED_SET = [[
    local newest = redis.call("get", KEYS[2])
    if newest and newest > ARGV[2] then return 0 end
    redis.call("set", KEYS[2], ARGV[2])
    redis.call("set", KEYS[1], ARGV[1])
    return 1 ]]

-- Writes in both ways. The value belongs to a grant, so its token was read under that grant.
local function write(store, value, token)
    store:set("unguarded", value)
    return store:eval(GUARDED_SET, 2, "guarded", "guarded:token", value, token) == 1
end

local function slow_writer(path, redis_port)
    local store = redis.connect("127.0.0.1", tonumber(redis_port))
    local lock = assert(zklock.connect(common.servers, { session_timeout = 10 })):mutex(path)
    assert(lock:acquire(10))
    local token = lock:token()
    assert(lock:held())
    print("slow: holds the lock, token " .. token .. ", and is about to write")
    os.execute("kill -STOP $PPID") -- the worst moment: between check and write
    local done = write(store, "slow", token)
    print("slow: wakes up, writes, and is " .. (done and "obeyed" or "refused"))
    print("slow: held() says " .. tostring(lock:held()))
end

-- Starts a Redis on a free port and waits until it is ready. A free port cannot be reserved: if another process takes it, tries
-- again.
local function start_redis()
    for _ = 1, 5 do
        local probe = assert(socket.bind("127.0.0.1", 0))
        local _, port = probe:getsockname()
        probe:close()
        local command = "redis-server --port %d --bind 127.0.0.1 --save '' --appendonly no"
        local server = common.spawn { command:format(port) }
        for line in function() return server:line() end do
            if line:find("Ready to accept connections", 1, true) then
                return port
            end
        end
    end
    error("Redis does not start")
end

if arg[2] == "slow" then
    return slow_writer(arg[3], arg[4])
end

common.main(function()
    local path = common.fresh_path("fencing")
    local redis_port = tonumber(arg[2]) or start_redis()
    local store = redis.connect("127.0.0.1", redis_port)
    store:del("guarded", "guarded:token", "unguarded")

    local slow = common.start { { "slow", path, redis_port } }
    local first_token = assert(slow:line():match("^slow: holds the lock, token (%S+), and is about to write$"))
    print("slow: holds the lock, token " .. first_token .. ", and is about to write … but stands still")

    local lock = assert(zklock.connect(common.servers)):mutex(path)
    assert(lock:acquire(60)) -- granted when the slow client's session has ended
    local token = lock:token()
    print("fast: holds the lock, token " .. token)
    assert(token > first_token)
    assert(write(store, "fast", token))
    print("fast: writes")

    slow:signal(1, "CONT")
    slow:expect("slow: wakes up, writes, and is refused")
    slow:expect("slow: held() says false")

    print("with tokens compared:    " .. store:get("guarded"))
    print("without the comparison:  " .. store:get("unguarded") .. "   (the late write has gone through)")
    assert(store:get("guarded") == "fast")
    assert(store:get("unguarded") == "slow")
end)
