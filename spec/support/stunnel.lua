--- support.stunnel: TLS for connections to ZooKeeper, by stunnel, with new certificates.

local certificates = require "spec.support.certificates"
local cluster = require "spec.support.cluster"
local daemon = require "spec.support.daemon"
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
    local self, directory = setmetatable({ port = port or ports.free() }, Tunnel), files.make_directory()
    self.address = "127.0.0.1:" .. self.port
    local configuration = { "foreground = yes", "pid =", "debug = info", "syslog = no", "output = " .. directory .. "/log",
        "[zookeeper]", "accept = " .. self.address, "connect = " .. address, "TIMEOUTclose = 0" }
    for _, line in ipairs(lines) do
        configuration[#configuration + 1] = line
    end
    files.write(directory .. "/conf", table.concat(configuration, "\n") .. "\n")
    self.daemon = daemon.start({ "stunnel4", directory .. "/conf" }, { directory = directory })
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
    return files.read(self.daemon.directory .. "/log")
end

--- Ends the tunnel and every connection through it.
function Tunnel:stop()
    self.daemon:stop()
end

return stunnel
