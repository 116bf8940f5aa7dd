--- campaign.servers: three real ZooKeeper servers, each in a network namespace, on a small disk, and behind a proxy
-- (tools/faultproxy.lua) that delays, holds back and resets connections. Some of them serve clients with TLS, too.

local tasks = require "spec.campaign.tasks"
local certificates = require "spec.support.certificates"
local files = require "spec.support.files"

local Servers = {}
Servers.__index = Servers

local COUNT = 3
local PORT = 2181
--- The proxies listen at the hub: their ports, and the ports for commands to them, counted from these.
local PROXY_PORT, CONTROL_PORT = 21810, 21910
local DISK = 512 * 1024 * 1024
--- From this server on they have a port for TLS, and so Netty. The others have ZooKeeper's own network code.
local FIRST_SECURE, SECURE_PORT = 2, 2281

local TICK = 500

local CONFIGURATION = [[
dataDir=%s
clientPort=%d
clientPortAddress=%s
tickTime=%d
initLimit=20
syncLimit=6
maxSessionTimeout=60000
maxClientCnxns=0
4lw.commands.whitelist=*
admin.enableServer=false
forceSync=no
preAllocSize=64
snapCount=50000
autopurge.purgeInterval=0
]]

local SECURE = [[
secureClientPort=%d
secureClientPortAddress=%s
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=%s
ssl.keyStore.type=PEM
ssl.trustStore.location=%s
ssl.trustStore.type=PEM
]]

local function java_command(configuration)
    local classes = os.getenv("ZOOKEEPER_CLASSPATH") or
        "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar"
    return {
        os.getenv("ZOOKEEPER_JAVA") or "java", "-Xms32m", "-Xmx256m", "-Xss512k", "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto", "-Dznode.container.checkIntervalMs=1000",
        "-Dzookeeper.jmx.log4j.disable=true", "-Dorg.slf4j.simpleLogger.showDateTime=true",
        "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS", "-cp", classes,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain", configuration
    }
end

--- A serving server answers within this many seconds on a busy machine.
local SLOW = 3
--- A server that does not begin to serve within this many seconds is started again, as an operator would do: ZooKeeper's elections
-- may come to a standstill.
local STANDSTILL = 40

--- Prepares the servers in a directory and starts them. They may not serve yet when this returns.
local function start(topology, directory, root)
    local self = setmetatable({
        topology = topology, directory = directory, names = {}, processes = {}, proxies = {}, failures = {}, restarts = 0,
        soon = false -- whether links between servers deliver soon after they work again
    }, Servers)
    local peers, names = {}, {}
    for number = 1, COUNT do
        self.names[number] = "s" .. number
        local address = topology:add(self.names[number], number)
        self.soon = topology.isolated and topology:repeat_soon(self.names[number])
        peers[number] = ("server.%d=%s:2888:3888\n"):format(number, address)
        names[number] = ("IP:%s,DNS:zookeeper%d"):format(address, number)
    end
    tasks.run({ "mkdir", directory .. "/tls" })
    local made = certificates.new(directory .. "/tls")
    made:add_authority "campaign"
    made:add("server", { authority = "campaign", names = table.concat(names, ",") })
    made:add("client", { authority = "campaign" })
    self.tls = { ca_file = made:file "campaign-ca.pem", cert_file = made:file "client.pem", key_file = made:file "client.key" }
    for number = 1, COUNT do
        local disk = self:disk(number)
        tasks.run({ "mkdir", "-p", disk })
        if topology.isolated then
            tasks.run({ "mount", "-t", "tmpfs", "-o", "size=" .. DISK, "disk", disk })
        end
        files.write(disk .. "/myid", number .. "\n")
        local address = topology.addresses[self.names[number]]
        files.write(self:file(number), CONFIGURATION:format(disk, PORT, address, TICK) .. table.concat(peers)
            .. (number >= FIRST_SECURE and SECURE:format(SECURE_PORT, address, made:file "server-both.pem",
                made:file "campaign-ca.pem") or ""))
        self:launch(number)
        self.proxies[number] = tasks.spawn(topology:at_hub {
            "lua5.4", root .. "/tools/faultproxy.lua", "--address", topology.hub, "--listen", tostring(PROXY_PORT + number),
            "--control", tostring(CONTROL_PORT + number), "--target", topology.addresses[self.names[number]] .. ":" .. PORT,
            "--owner", tostring(require("luv").os_getpid())
        }, {
            log = directory .. "/proxies.log", ended = function(status, signal)
                self.failures[#self.failures + 1] = ("%.3f: the proxy before server %d has ended: status %d, signal %d"):format(
                    tasks.now(), number, status, signal)
            end
        })
    end
    return self
end

function Servers:disk(number)
    return ("%s/disk%d"):format(self.directory, number)
end

function Servers:file(number)
    return ("%s/server%d.cfg"):format(self.directory, number)
end

--- Starts a server; starts it again, as an operator would do, if it ends by itself.
function Servers:launch(number)
    local process
    process = tasks.spawn(self.topology:inside(self.names[number], java_command(self:file(number))), {
        log = ("%s/server%d.log"):format(self.directory, number),
        ended = function()
            tasks.start(function()
                tasks.sleep(1)
                if self.processes[number] == process and not process.killed then
                    self:launch(number)
                end
            end)
        end
    })
    self.processes[number] = process
end

--- The addresses for clients: "direct", "proxied", "named" (names of a hosts file), or of one server only; `secure`: for TLS, which
-- is not proxied.
function Servers:address(route, only, secure)
    local list = {}
    for number, name in ipairs(self.names) do
        if (not only or only == number) and (not secure or number >= FIRST_SECURE) then
            list[#list + 1] = route == "proxied" and ("%s:%d"):format(self.topology.hub, PROXY_PORT + number)
                or ("%s:%d"):format(route == "named" and "zookeeper" .. number or self.topology.addresses[name],
                    secure and SECURE_PORT or PORT)
        end
    end
    assert(list[1] and not (secure and route == "proxied"), "no server is like that")
    return table.concat(list, ",")
end

--- The lines of a hosts file for "named".
function Servers:hosts()
    local lines = {}
    for number, name in ipairs(self.names) do
        lines[number] = ("%s zookeeper%d\n"):format(self.topology.addresses[name], number)
    end
    return table.concat(lines)
end

--- The answer to a four-letter word; nil if there is none.
function Servers:ask(number, word, patience)
    return tasks.ask(self.topology.addresses[self.names[number]], PORT, word, patience or 1)
end

--- "leader", "follower"; nil while it does not serve, or does not answer within `patience` seconds.
function Servers:mode(number, patience)
    return (self:ask(number, "srvr", patience) or ""):match("Mode: (%w+)")
end

--- The number of the leader; nil while there is none.
function Servers:leader()
    for number = 1, COUNT do
        if self.processes[number].running and self:mode(number) == "leader" then
            return number
        end
    end
end

--- Whether all serve, and in which epoch: a string that changes when another leader is elected; nil while a server does not serve.
function Servers:epoch()
    local epochs = {}
    for number = 1, COUNT do
        local answer = self:ask(number, "srvr", SLOW) or ""
        local zxid = answer:match("Zxid: 0x(%x+)")
        if not zxid or not answer:find("Mode: ", 1, true) then
            return nil
        end
        epochs[number] = ("0"):rep(16 - #zxid) .. zxid
        epochs[number] = epochs[number]:sub(1, 8)
    end
    return table.concat(epochs, " ")
end

--- Describes the state of each server in words.
function Servers:describe()
    local words = {}
    for number = 1, COUNT do
        local answer = self:ask(number, "srvr", SLOW)
        local mode = answer and (answer:match("Mode: (%w+)") or answer:match("[^\n]+")) or "does not answer"
        words[number] = ("server %d: %s, %s"):format(number, self.processes[number].running and "runs" or "does not run", mode)
    end
    return table.concat(words, "; ")
end

--- Waits until all serve. If they do not within `seconds`, raises an error that contains `when`.
function Servers:await_all(seconds, when)
    local deadline, since = tasks.now() + seconds, tasks.now()
    while not self:epoch() do
        if tasks.now() > deadline then
            error(("%d s %s the servers do not serve: %s"):format(seconds, when, self:describe()), 0)
        elseif tasks.now() > since + STANDSTILL then
            since = tasks.now()
            for number = 1, COUNT do
                if not self:mode(number, SLOW) then
                    self.restarts = self.restarts + 1
                    self:kill(number)
                    self:ensure(number)
                end
            end
        end
        tasks.sleep(0.05)
    end
end

--- A figure of `mntr` of each server; nil if a server does not report it.
function Servers:counts(name)
    local counts = {}
    for number = 1, COUNT do
        counts[number] = tonumber((self:ask(number, "mntr", 5) or ""):match(name .. "\t(%d+)"))
        if not counts[number] then
            return nil
        end
    end
    return counts
end

--- Calls fn(captured) for each line of the servers' logs that matches the pattern.
function Servers:each_logged(pattern, fn)
    for number = 1, COUNT do
        for line in io.lines(("%s/server%d.log"):format(self.directory, number)) do
            local captured = line:match(pattern)
            if captured then
                fn(captured)
            end
        end
    end
end

--- The zxids to which servers have cut back their logs, because a leader did not have what came after: 16 hexadecimal digits.
function Servers:truncations()
    local list = {}
    self:each_logged("Truncating log to get in sync with the leader 0x(%x+)", function(zxid)
        list[#list + 1] = ("0"):rep(16 - #zxid) .. zxid
    end)
    return list
end

--- How many nodes a server still had when their session ended, and its leader had not: their deletion was in what the server has
-- lost.
function Servers:ghosts()
    local seen, count = {}, 0
    self:each_logged("Unexpected extra paths under session %[(.-)%]", function(nodes)
        for node in nodes:gmatch("[^, ]+") do
            count = count + (seen[node] and 0 or 1)
            seen[node] = true
        end
    end)
    return count
end

--- How many replies a server could not make because it has lost what the request was about. Their clients get no reply.
function Servers:unanswered()
    local count = 0
    self:each_logged("Unexpected exception. Destruction averted", function()
        count = count + 1
    end)
    return count
end

--- kill -9; waits until the process is gone.
function Servers:kill(number)
    self.processes[number].killed = true
    tasks.signal(self.processes[number], "sigkill")
    tasks.await(function()
        return not self.processes[number].running
    end, 10, 0.01)
end

--- Starts a server that does not run.
function Servers:ensure(number)
    if not self.processes[number].running then
        self:launch(number)
    end
end

function Servers:signal(number, name)
    tasks.signal(self.processes[number], name)
end

--- Leaves the disk of a server no room, or gives the room back. The usage grows while it is measured, so it may take a few tries;
-- false if it took too many.
function Servers:fill(number)
    for _ = 1, 10 do
        -- The server may delete a file while it is measured.
        local measured, said = pcall(tasks.run, { "du", "-sk", self:disk(number) })
        local used = measured and tonumber(said:match("^%d+"))
        if used and pcall(tasks.run, { "mount", "-o", ("remount,size=%dk"):format(used + 16), self:disk(number) }) then
            return true
        end
    end
    return false
end

function Servers:empty(number)
    tasks.run({ "mount", "-o", "remount,size=" .. DISK, self:disk(number) })
end

--- Sends a command to a proxy. A proxy that does not answer, or has ended, is a fault of the campaign itself; it is kept in
-- `failures`.
function Servers:tell(number, command)
    local function told()
        return tasks.ask(self.topology.hub, CONTROL_PORT + number, command .. "\n", 20, function(chunk)
            return chunk:find("\n", 1, true)
        end)
    end
    local answer = self.proxies[number].running and (told() or told())
    if not answer and self.proxies[number].running then
        self.failures[#self.failures + 1] = ("%.3f: the proxy before server %d does not answer to %s"):format(tasks.now(), number,
            command)
    end
    return answer
end

return { start = start, count = COUNT }
