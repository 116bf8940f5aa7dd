--- support.redis_server: a Redis for one spec, on a free port, which ends with the process that started it.
--
--     local server = redis_server.start { LC_ALL = "da_DK.UTF-8" }    -- variables added to its environment
--     server.connection:set("key", "value")                           -- redis-lua's
--     server:stop()

local cluster = require "spec.support.cluster"
local daemon = require "spec.support.daemon"
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

--- Starts the process.
local function spawn(port, environment)
    local words = { "env" }
    for name, value in pairs(environment or {}) do
        words[#words + 1] = name .. "=" .. value
    end
    for _, word in ipairs { "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--maxclients", "4000" } do
        words[#words + 1] = word
    end
    return daemon.start(words)
end

--- Starts a server and connects to it. Returns a table with port and connection.
function redis_server.start(environment)
    local port = ports.free()
    local self = setmetatable({ port = port, daemon = spawn(port, environment) }, Server)
    self.connection = eventually(function()
        local ok, connection = pcall(redis.connect, "127.0.0.1", port)
        return ok and pcall(connection.ping, connection) and connection
    end, 20, "Redis")
    return self
end

--- Sends a command that redis-lua may not have, and returns its output.
local function tell(self, ...)
    return (cluster.run { "redis-cli", "-p", tostring(self.port), ... })
end

--- Holds all writes back, and scripts, until they are let go.
function Server:hold_writes()
    tell(self, "CLIENT", "PAUSE", "600000", "WRITE")
end

--- Waits until so many commands of a name ("eval") are held back. Redis also shows the last command of a connection that is idle
-- in a pool; only the flag b tells them apart.
function Server:await_held(count, command)
    eventually(function()
        local held = select(2, tell(self, "CLIENT", "LIST"):gsub(" flags=%w*b%w* [^\n]* cmd=" .. command .. " ", ""))
        return held >= count, held .. " are"
    end, 60, ("%d times %s to be held back"):format(count, command))
end

function Server:let_writes_go()
    tell(self, "CLIENT", "UNPAUSE")
end

function Server:stop()
    self.daemon:stop()
end

return redis_server
