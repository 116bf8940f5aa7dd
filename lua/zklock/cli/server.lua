--- cli.server: a ZooKeeper server of our own, with an empty directory, for as long as it is wanted. For `zklock dev`.
--
-- The guardian (csrc/process/guardian.c) ends the server if this process is killed. Its directory is then left behind.

local process = require "zklock.process"
local shell = require "zklock.cli.shell"

local concat = table.concat
local format = string.format
local output_of, quote = shell.output_of, shell.quote

local MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

--- Where Debian has the server. netty-codec is for TLS; slf4j-simple writes the log.
local DEBIAN = "/usr/share/java/zookeeper.jar"
local BESIDES = { "/usr/share/java/slf4j-simple.jar", "/usr/share/java/netty-codec.jar" }

--- Seconds until the server has to serve, and to end.
local START_TIMEOUT, STOP_TIMEOUT = 60, 10

--- For few nodes and sessions, without a promise to survive a power failure.
local SETTINGS = [[
dataDir=%s/data
clientPort=%d
clientPortAddress=127.0.0.1
tickTime=500
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
forceSync=no
preAllocSize=64
autopurge.purgeInterval=0
]]

local JAVA_OPTIONS = {
    "-Xms32m", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto",
    "-Dzookeeper.jmx.log4j.disable=true"
}

local Server = {}
Server.__index = Server

local function is_readable(name)
    local file = io.open(name, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end

--- Finds Java and the server's classes, by the variables that tools/zookeeper has, too.
---@return string? # java; nil and what is missing
---@return string # class path
local function find_server()
    local java = os.getenv "ZOOKEEPER_JAVA" or "java"
    if not output_of("command -v " .. quote(java)) then
        return nil, format("no Java (%s): install it (Debian: default-jre-headless), or name it by ZOOKEEPER_JAVA", java)
    end
    local classes = os.getenv "ZOOKEEPER_CLASSPATH"
    if classes and classes ~= "" then
        return java, classes
    elseif not is_readable(DEBIAN) then
        return nil, format("no ZooKeeper server (%s): install it (Debian: libzookeeper-java), or name the classes of a release, " ..
            "for example ZOOKEEPER_CLASSPATH='/opt/apache-zookeeper-3.8.5-bin/lib/*'", DEBIAN)
    end
    local jars = { DEBIAN }
    for _, jar in ipairs(BESIDES) do
        if is_readable(jar) then
            jars[#jars + 1] = jar
        end
    end
    return java, concat(jars, ":")
end

--- Returns the port, or any, if it is free now: where another server listens, the command would use that one.
local function free_port(port)
    local found, socket = pcall(require, "socket")
    if not found then
        return nil, "zklock dev needs LuaSocket (Debian: lua-socket; rock: luasocket)"
    end
    local listener, problem = socket.bind("127.0.0.1", port or 0)
    if not listener then
        return nil, format("cannot listen on 127.0.0.1:%d: %s", port or 0, problem)
    end
    local _, chosen = listener:getsockname()
    listener:close()
    return chosen
end

--- Returns the end of the server's log.
local function last_words(self)
    local file = io.open(self.directory .. "/log", "rb")
    local text = file and file:read "*a" or ""
    if file then
        file:close()
    end
    local lines = {}
    for line in text:gmatch "[^\n]+" do
        lines[#lines + 1] = line
    end
    return concat(lines, "\n", #lines > 5 and #lines - 4 or 1)
end

--- Makes the directory with the configuration. Returns true; or nil and a message.
local function make_directory(self)
    local place = os.getenv "TMPDIR" or "/tmp"
    self.directory = output_of("mktemp -d " .. quote(place .. "/zklock-dev.XXXXXX"))
    local file = self.directory and io.open(self.directory .. "/zoo.cfg", "w")
    if not file then
        return nil, format("cannot make a directory in %s: name another place in TMPDIR", place)
    end
    local written, problem = file:write(format(SETTINGS, self.directory, self.port))
    file:close()
    return written, problem
end

--- Waits until the server serves. Raises an interruption (zklock.cli.session) when a signal comes, or a message if the server ends.
local function wait_until_ready(self, context)
    local session, message = require("zklock.cli.session").connect({
        servers = self.address,
        connect_timeout = START_TIMEOUT,
        session_timeout = 10,
        on_child = function()
            local state = process.look(self.pid)
            if state ~= "runs" and state ~= "stopped" then
                error("the server has ended: " .. last_words(self), 0)
            end
        end
    }, context)
    context.check(session, message)
    session.client:close() -- not session:close(): a signal still interrupts
end

--- Runs a server, and waits until it serves.
local function run(self, context, java, classes)
    self.guard = context.check(process.guard "TERM")
    context.check(make_directory(self))
    local words = { "/bin/sh", "-c", 'exec "$@" </dev/null >"$0" 2>&1', self.directory .. "/log", java }
    for _, option in ipairs(JAVA_OPTIONS) do
        words[#words + 1] = option
    end
    for _, word in ipairs { "-cp", classes, MAIN_CLASS, self.directory .. "/zoo.cfg" } do
        words[#words + 1] = word
    end
    self.pid = context.check(process.spawn(words, {}, self.guard, {}))
    wait_until_ready(self, context)
end

--- Starts a server, and waits until it serves; or ends the subcommand. To be called before this process has a second thread.
---@param context table
---@param port? number
---@return table
function Server.start(context, port)
    local java, classes = context.check(find_server())
    local free = context.check(free_port(port))
    local self = setmetatable({ port = free, address = format("127.0.0.1:%d", free), directory = false, pid = false }, Server)
    local ok, problem = pcall(run, self, context, java, classes)
    if not ok then
        self:stop()
        error(problem, 0)
    end
    return self
end

--- Ends the server and removes its directory.
function Server:stop()
    if self.pid then
        process.signal_group(self.pid, "KILL")
        local deadline = process.now() + STOP_TIMEOUT
        while process.look(self.pid) == "runs" and process.now() < deadline do
            process.poll({}, 0.01)
        end
        process.reap(self.pid)
        self.pid = false
    end
    if self.guard then
        self.guard:finish()
        self.guard = false
    end
    if self.directory then
        os.execute("rm -rf " .. quote(self.directory))
        self.directory = false
    end
end

return Server
