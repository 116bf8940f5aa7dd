--- support.stunnel: TLS for connections to ZooKeeper, by stunnel, with new certificates.

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

local function openssl(directory, arguments)
    local output, status = cluster.run({ "sh", "-c", ("cd %s && openssl %s"):format(directory, arguments) })
    assert(status == 0, output)
end

--- Makes a directory with two authorities, "ours" and "foreign", and a certificate of each for "server" and "client":
-- <authority>-ca.pem, <authority>-<name>.pem, <authority>-<name>.key. The server's is for zookeeper.example.
function stunnel.make_certificates()
    local directory = files.make_directory()
    for _, authority in ipairs({ "ours", "foreign" }) do
        openssl(directory, ("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=%s " ..
            "-keyout %s-ca.key -out %s-ca.pem"):format(authority, authority, authority))
        for _, name in ipairs({ "server", "client" }) do
            local stem = authority .. "-" .. name
            openssl(directory, ("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=%s -keyout %s.key " ..
                "-out %s.csr"):format(name, stem, stem))
            files.write(directory .. "/" .. stem .. ".ext", "subjectAltName=DNS:zookeeper.example\n")
            openssl(directory, ("x509 -req -in %s.csr -CA %s-ca.pem -CAkey %s-ca.key -CAcreateserial -days 2 -extfile %s.ext " ..
                "-out %s.pem"):format(stem, authority, authority, stem, stem))
        end
    end
    return directory
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
