-- Real ZooKeeper servers for specs, through tools/zookeeper, in any Lua with LuaSocket.
--
--     local servers = cluster.start {servers = 3, options = {syncLimit = 4}, seed = {["/locks"] = 2147483640}}
--     ... servers.servers is "127.0.0.1:port,127.0.0.1:port,127.0.0.1:port" ...
--     servers:stop()
--
-- They end with the process that started them, however it ends. This file also has what it shares with the proxy: the project's
-- directory, the id of this process, and a function that runs a command.

local socket = require("socket")
local state = require("spec.support.state")
local versions = require("spec.support.versions")

local cluster = {}

local Cluster = {}
Cluster.__index = Cluster

-- The project's root directory, derived from this file's name.
local source = debug.getinfo(1, "S").source:gsub("^@", "")
cluster.root = source:match("^(.*)/spec/support/[^/]*$") or "."

local TOOL = cluster.root .. "/tools/zookeeper"

-- Quotes a word for the shell.
function cluster.quote(word)
    return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

-- Returns a command line for a list of words.
function cluster.command_line(words)
    local quoted = {}
    for i, word in ipairs(words) do
        quoted[i] = cluster.quote(word)
    end
    return table.concat(quoted, " ")
end

--- Returns one list of the words of several lists.
function cluster.words(...)
    local all = {}
    for _, list in ipairs { ... } do
        for _, word in ipairs(list) do
            all[#all + 1] = word
        end
    end
    return all
end

-- Runs a command given as words. Returns its output with its errors, without the last newline, and its exit status.
function cluster.run(words)
    -- close() returns different results in different Lua versions, so the shell prints the status. The command must not use the
    -- sanitizer's library that this process may run with.
    local pipe = assert(io.popen("LD_PRELOAD= " .. cluster.command_line(words) .. " 2>&1; echo \"=$?\""))
    local output, status = pipe:read("*a"):match("^(.*)=(%d+)\n$")
    pipe:close()
    return output:gsub("\n$", ""), tonumber(status)
end

-- Returns the process id of this Lua, which is the parent of a shell that popen starts.
function cluster.process_id()
    if not state.process_id then
        local pipe = assert(io.popen("echo $PPID"))
        state.process_id = tonumber(pipe:read("*l"))
        pipe:close()
    end
    return state.process_id
end

-- Runs tools/zookeeper with a command for these servers. Returns its output; raises an error with its message if it fails.
local function tool(self, ...)
    local command, arguments = ..., {select(2, ...)}
    if not self.directory then
        error("these servers are somebody else's: only ZOOKEEPER was given, not ZOOKEEPER_DIR", 3)
    end
    local words = {TOOL, command, "--dir", self.directory}
    for _, argument in ipairs(arguments) do
        words[#words + 1] = tostring(argument)
    end
    local output, status = cluster.run(words)
    if status ~= 0 then
        error(output, 3)
    end
    return output
end

local function new(servers, directory)
    local self = setmetatable({servers = servers, directory = directory, addresses = {}}, Cluster)
    for address in servers:gmatch("[^,]+") do
        self.addresses[#self.addresses + 1] = address
    end
    return self
end

-- Starts servers and waits until they serve. All options are optional:
--     servers       how many, up to 5 (1)
--     tick          tickTime in milliseconds, also the shortest session timeout (500)
--     options       lines of zoo.cfg, {key = value}; @SERVER@ in a value stands for the number of the server
--     java_options  list of options for Java
--     reap          milliseconds between the servers' searches for empty containers (one hour: none is removed unless a spec
--                   requests it, so that a directory that is empty for a moment stays the same directory)
--     seed          {["/path"] = number of the next sequential child}
--     zookeeper     the version of the servers, as for tools/zookeeper (the installed one, or that of ZOOKEEPER_CLASSPATH)
--     zxid          hexadecimal digits of the transaction id that the servers take for their last one
--     directory     where to keep all files (a temporary directory)
--     owner         the process whose end ends the servers (this one)
--     reconfig      true: `configure` can change the members of the ensemble
function cluster.start(options)
    options = options or {}
    local words = {TOOL, "start", "--owner", options.owner or cluster.process_id(),
                   "--servers", options.servers or 1}
    local function add(name, value)
        words[#words + 1] = name
        words[#words + 1] = value
    end
    if options.tick then
        add("--tick", options.tick)
    end
    if options.zookeeper then
        add("--zookeeper", options.zookeeper)
    end
    if options.directory then
        add("--dir", options.directory)
    end
    if options.reconfig then
        add("--option", "reconfigEnabled=true")
        add("--option", "standaloneEnabled=false")
        add("--java-option", "-Dzookeeper.skipACL=yes")
    end
    add("--java-option", "-Dznode.container.checkIntervalMs=" .. (options.reap or 3600000))
    for key, value in pairs(options.options or {}) do
        add("--option", key .. "=" .. tostring(value))
    end
    for _, option in ipairs(options.java_options or {}) do
        add("--java-option", option)
    end
    for path, number in pairs(options.seed or {}) do
        add("--seed-sequence", ("%s=%d"):format(path, number))
    end
    if options.zxid then
        add("--seed-zxid", options.zxid)
    end
    local output, status = cluster.run(words)
    local servers, directory = output:match("ZOOKEEPER=(%S+)"), output:match("ZOOKEEPER_DIR=(%S+)")
    if status ~= 0 or not servers then
        error("could not start ZooKeeper: " .. output, 2)
    end
    return new(servers, directory)
end

-- Returns one server for all specs of a file, started at the first call. Under `tools/zookeeper run` it is the server of that run.
-- Use a separate path on it, and do not kill or pause it.
function cluster.shared()
    if not state.shared then
        if os.getenv("ZOOKEEPER") then
            state.shared = new(os.getenv("ZOOKEEPER"), os.getenv("ZOOKEEPER_DIR"))
        else
            state.shared = cluster.start()
        end
    end
    return state.shared
end

-- Stops the shared server, if this process started it. The next call of cluster.shared starts a new one.
function cluster.stop_shared()
    if state.shared and not os.getenv("ZOOKEEPER") then
        state.shared:stop()
    end
    state.shared = nil
end

-- Returns "host:port" of server n (1).
function Cluster:address(n)
    return self.addresses[n or 1]
end

-- Returns the answer of server n (1) to a four-letter word; nil and a message if there is no answer.
function Cluster:ask(word, n)
    local host, port = self:address(n):match("^(.*):(%d+)$")
    local connection, message = socket.connect(host, tonumber(port))
    if not connection then
        return nil, message
    end
    connection:settimeout(60)
    connection:send(word)
    local answer, problem, part = connection:receive("*a")
    connection:close()
    answer = answer or part
    if answer == "" then
        return nil, problem or "no answer"
    end
    return answer
end

-- Returns the results of `mntr` of server n (1) as a table: zk_watch_count, zk_ephemerals_count, zk_znode_count and more, as
-- numbers where possible. Returns nil and a message if the server does not serve.
function Cluster:mntr(n)
    local answer, message = self:ask("mntr", n)
    if not answer then
        return nil, message
    end
    local values = {}
    for name, value in answer:gmatch("([%w_]+)\t([^\n]*)") do
        values[name] = tonumber(value) or value
    end
    if not values.zk_server_state then
        return nil, answer
    end
    return values
end

-- Returns the number of watches on server n; without n, on all servers that serve together.
function Cluster:watch_count(n)
    local count = 0
    for i = n or 1, n or #self.addresses do
        local values, message = self:mntr(i)
        if values then
            count = count + values.zk_watch_count
        elseif n then
            return nil, message
        end
    end
    return count
end

-- Returns "leader", "follower" or "standalone"; nil if server n (1) does not serve.
function Cluster:mode(n)
    return (self:ask("srvr", n) or ""):match("Mode: (%w+)")
end

-- Returns the number of the leader, or of a standalone server; nil if there is none. A paused leader does not count.
function Cluster:leader()
    if self.directory then
        local leader, status = cluster.run({TOOL, "leader", "--dir", self.directory})
        return status == 0 and tonumber(leader) or nil
    end
    for n = 1, #self.addresses do
        local mode = self:mode(n)
        if mode == "leader" or mode == "standalone" then
            return n
        end
    end
    return nil
end

-- In the functions below, n is the number of a server, or "all" (1). Each function returns when it is done.

-- kill -9
function Cluster:kill(n)
    tool(self, "kill", n or 1)
end

-- SIGSTOP
function Cluster:pause(n)
    tool(self, "pause", n or 1)
end

-- SIGCONT
function Cluster:resume(n)
    tool(self, "resume", n or 1)
end

-- Starts the server with the same port and data. Returns when it answers, or when it serves if a majority runs. `version`: with
-- another version of the server from now on.
function Cluster:restart(n, version)
    tool(self, "restart", n or 1, version and "--zookeeper=" .. version)
end

-- Returns the version of server n (1) without what a distribution adds: "3.8.0".
function Cluster:version(n)
    return assert(assert(self:ask("srvr", n)):match("Zookeeper version: (%d[%d.]*)"))
end

-- Returns whether the first server behaves in a way that differs by version (support.versions).
function Cluster:has(feature)
    return versions.has(self:version(), feature)
end

-- Waits until a majority serves.
function Cluster:wait()
    tool(self, "wait")
end

-- Sets the members of the ensemble, by Debian's kazoo.
local RECONFIGURE = [[
import sys
from kazoo import exceptions
from kazoo.client import KazooClient
client = KazooClient(hosts=sys.argv[1])
client.start(timeout=60)
again = True
while again: # a leader that leaves closes connections
    try:
        client.reconfig(joining=None, leaving=None, new_members=sys.argv[2])
        again = False
    except (exceptions.ConnectionLoss, exceptions.SessionExpiredError,
            exceptions.ReconfigInProcessError, exceptions.NewConfigNoQuorumError):
        client.handler.sleep_func(0.1)
client.stop()
]]

-- Makes the ensemble consist of the servers of these numbers. The servers must have been started with `reconfig`, and a majority of
-- those before and of those now must serve. `more`: further lines of the configuration, of observers that need not be there.
function Cluster:configure(numbers, more)
    local lines, count = {}, #self.addresses
    for _, number in ipairs(numbers) do
        local host, port = self:address(number):match("^(.*):(%d+)$")
        -- the ports of tools/zookeeper
        lines[#lines + 1] = ("server.%d=%s:%d:%d:participant;%s"):format(number, host, port + count, port + 2 * count,
            self:address(number))
    end
    lines[#lines + 1] = more
    local output, status = cluster.run({"/usr/bin/python3", "-c", RECONFIGURE, self.servers, table.concat(lines, ",")})
    if status ~= 0 then
        error(output, 2)
    end
end

-- Ends all servers and removes their files. A second call does nothing.
function Cluster:stop()
    if not self.stopped then
        self.stopped = true
        tool(self, "stop")
    end
end

-- Returns the log of server n (1).
function Cluster:log(n)
    return tool(self, "log", n or 1)
end

return cluster
