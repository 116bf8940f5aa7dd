--- support.ports: free TCP ports of this machine.
--
-- The kernel chooses ports above this range for outgoing connections and for listeners that name no port. In the kernel's range
-- another process could get a port between the search and the call of listen. tools/zookeeper uses ports below this range.

local socket = require "socket"
local state = require "spec.support.state"

local ports = {}

local FIRST, LAST = 32000, 32767

--- Returns a port that was free a moment ago.
function ports.free()
    -- Another process begins its search at another port.
    state.next_port = state.next_port or FIRST + math.floor(socket.gettime() * 1e4) % (LAST - FIRST + 1)
    for _ = FIRST, LAST do
        local port = state.next_port
        state.next_port = port < LAST and port + 1 or FIRST
        local listener = socket.bind("127.0.0.1", port)
        if listener then
            listener:close()
            return port
        end
    end
    error("no port is free", 2)
end

return ports
