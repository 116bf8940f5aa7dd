--- support.stunnel: TLS for connections to ZooKeeper, by stunnel, with new certificates.

local certificates = require "spec.support.certificates"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local ports = require "spec.support.ports"
local socket = require "socket"

local stunnel = {}
local Tunnel = {}
Tunnel.__index = Tunnel

--- Returns whether stunnel, and openssl to make certificates, are installed.
function stunnel.is_there()
    return select(2, cluster.run({ "sh", "-c", "command -v stunnel4 && command -v openssl" })) == 0
end

--- Makes a directory with two authorities, "ours" and "foreign", and a certificate of each for "server" and "client":
-- <authority>-ca.pem, <authority>-<name>.pem, <authority>-<name>.key. The server's is for zookeeper.example.
function stunnel.make_certificates()
    local made = certificates.new()
    for _, authority in ipairs({ "ours", "foreign" }) do
        made:add_authority(authority)
        for _, name in ipairs({ "server", "client" }) do
            made:add(authority .. "-" .. name, { authority = authority, subject = name })
        end
    end
    return made.directory
end

--- Runs one tunnel from a free port of this machine to an address, until :stop() or the end of this process. `lines` are the lines
-- of its service. `port` is given if a client must find the tunnel again.
function stunnel.start(address, lines, port)
    local self = setmetatable({ directory = files.make_directory(), port = port or ports.free() }, Tunnel)
    self.address = "127.0.0.1:" .. self.port
    local configuration = { "foreground = yes", "pid =", "debug = info", "syslog = no", "output = " .. self.directory .. "/log",
        "[zookeeper]", "accept = " .. self.address, "connect = " .. address, "TIMEOUTclose = 0" }
    for _, line in ipairs(lines) do
        configuration[#configuration + 1] = line
    end
    files.write(self.directory .. "/conf", table.concat(configuration, "\n") .. "\n")
    local command = ([[ (
        stunnel4 %s/conf >/dev/null 2>&1 &
        child=$!
        echo $child
        exec >/dev/null 2>&1
        while kill -0 %d && kill -0 $child; do sleep 0.5; done
        kill -TERM $child
    ) & ]]):format(self.directory, cluster.process_id())
    local pipe = assert(io.popen(command, "r"))
    self.pid = tonumber(pipe:read("*l"))
    pipe:close()
    eventually(function()
        local connection = socket.connect("127.0.0.1", self.port)
        if connection then
            connection:close()
        end
        return connection, self:log()
    end, 20, "stunnel")
    return self
end

function Tunnel:log()
    return files.read(self.directory .. "/log")
end

--- Ends the tunnel and every connection through it.
function Tunnel:stop()
    if not self.stopped then
        self.stopped = true
        cluster.run({ "kill", "-KILL", tostring(self.pid) })
        eventually(function()
            return not socket.connect("127.0.0.1", self.port)
        end)
        cluster.run({ "rm", "-r", self.directory })
    end
end

return stunnel
