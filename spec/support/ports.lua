--- support.ports: free TCP ports of this machine.
--
-- The kernel chooses ports above this range for outgoing connections and for listeners that name no port. In the kernel's range
-- another process could get a port between the search and the call of listen. tools/zookeeper uses ports below this range.

local socket = require "socket"
local state = require "spec.support.state"

local ports = {}

local FIRST, LAST = 32000, 32767

--- Returns a port that was free a moment ago. No other process gets it from this function as long as this process lives: nobody may
-- take it between the search and the call of listen, while its server is down, or where a spec needs a port without a server.
-- A UDP socket of the same number stands for that. It ends with this process, however that ends.
function ports.free()
    -- Another process begins its search at another port.
    state.next_port = state.next_port or FIRST + math.floor(socket.gettime() * 1e4) % (LAST - FIRST + 1)
    for _ = FIRST, LAST do
        local port = state.next_port
        state.next_port = port < LAST and port + 1 or FIRST
        local reservation = socket.udp()
        local listener = reservation:setsockname("127.0.0.1", port) and socket.bind("127.0.0.1", port)
        if listener then
            listener:close()
            state.reservations[#state.reservations + 1] = reservation
            return port
        end
        reservation:close()
    end
    error("no port is free", 2)
end

return ports
