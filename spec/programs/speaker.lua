--- speaker: a TCP server that is not ZooKeeper. Prints its port; then answers each connection in the given manner.
--
-- Arguments: "ssh" (sends first), "http" (answers a request), "rude" (closes at once), "silent".

local socket = require "socket"

local manner = arg[1]
local GREETINGS = {
    ssh = "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
    http = "HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
        .. "<html>400</html>\r\n"
}

io.stdout:setvbuf("line")
local server = assert(socket.bind("127.0.0.1", 0))
print((select(2, server:getsockname())))
local kept = {} -- luacheck: ignore
while true do
    local connection = assert(server:accept())
    if manner == "http" then
        connection:settimeout(5)
        connection:receive(8)
    end
    if GREETINGS[manner] then
        connection:send(GREETINGS[manner])
    end
    if manner == "rude" or manner == "http" then
        connection:close()
    else
        kept[#kept + 1] = connection
    end
end
