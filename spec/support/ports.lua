--- support.ports: TCP ports of this machine that nobody listens on.

local socket = require "socket"

local ports = {}

--- A port that was free a moment ago.
function ports.free()
    local listener = assert(socket.bind("127.0.0.1", 0))
    local _, port = listener:getsockname()
    listener:close()
    return tonumber(port)
end

return ports
