--- support.ports: TCP ports of this machine that nobody listens on.
--
-- The kernel chooses ports above this range for outgoing connections and for listeners that name no port. From its range another
-- process could get a port between the search and the call of listen. tools/zookeeper uses ports below this range.

local socket = require "socket"

local ports = {}

local FIRST, LAST = 32000, 32767

local next_port

--- A port that was free a moment ago.
function ports.free()
    -- Another process begins elsewhere.
    next_port = next_port or FIRST + math.floor(socket.gettime() * 1e4) % (LAST - FIRST + 1)
    for _ = FIRST, LAST do
        local port = next_port
        next_port = port < LAST and port + 1 or FIRST
        local listener = socket.bind("127.0.0.1", port)
        if listener then
            listener:close()
            return port
        end
    end
    error("no port is free", 2)
end

return ports
