--- support.redis_server: a Redis for one spec, on a free port, which ends with the process that started it.
--
--     local server = redis_server.start { LC_ALL = "da_DK.UTF-8" }    -- variables added to its environment
--     server.connection:set("key", "value")                           -- redis-lua's
--     server:stop()

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local ports = require "spec.support.ports"

--- redis-lua is plain Lua and runs on 5.4, but Debian installs it only for 5.1 to 5.3.
local function load_redis()
    local before = package.path
    package.path = before .. ";/usr/share/lua/5.3/?.lua"
    local ok, redis = pcall(require, "redis")
    package.path = before
    return assert(ok and redis, redis)
end

local redis = load_redis()

local Server = {}
Server.__index = Server

local redis_server = {}

--- Starts the process and returns its process id.
local function spawn(port, environment)
    local words = { "env" }
    for name, value in pairs(environment or {}) do
        words[#words + 1] = name .. "=" .. value
    end
    local pipe = assert(io.popen(([[ (
        %s redis-server --port %d --bind 127.0.0.1 --save '' --appendonly no --maxclients 4000 >/dev/null 2>&1 &
        child=$!
        echo $child
        exec >/dev/null 2>&1
        while kill -0 %d && kill -0 $child; do sleep 0.5; done
        kill -KILL $child
    ) & ]]):format(cluster.command_line(words), port, cluster.process_id())))
    local pid = tonumber(pipe:read("*l"))
    pipe:close()
    return pid
end

--- Starts a server and connects to it. Returns a table with port, pid and connection.
function redis_server.start(environment)
    local port = ports.free()
    local self = setmetatable({ port = port, pid = spawn(port, environment) }, Server)
    self.connection = eventually(function()
        local ok, connection = pcall(redis.connect, "127.0.0.1", port)
        return ok and pcall(connection.ping, connection) and connection
    end, 20, "Redis")
    return self
end

function Server:stop()
    cluster.run({ "kill", "-KILL", tostring(self.pid) })
end

return redis_server
