--- support.holes: addresses at which nobody serves, for specs on real servers. fixture.clean closes them.

local fixture = require "spec.support.fixture"
local socket = require "socket"

local holes = {}

--- Listens on a port of its own with a queue of this length. Nobody accepts.
local function listen(host, backlog, port)
    local listener = assert((host:find(":") and socket.tcp6 or socket.tcp4)())
    if host:find(":") then
        listener:setoption("ipv6-v6only", true)
    end
    assert(listener:bind(host, port or 0))
    assert(listener:listen(backlog))
    local all = { listener }
    fixture.on_clean(function()
        for _, each in ipairs(all) do
            each:close()
        end
    end)
    return select(2, listener:getsockname()), all
end

--- Returns the port of an address that swallows what is sent to it, as a host does that is switched off: its queue is full.
function holes.swallowing(host, port)
    host = host or "127.0.0.1"
    local number, all = listen(host, 0, port)
    for _ = 1, 3 do
        local filler = assert((host:find(":") and socket.tcp6 or socket.tcp4)())
        filler:settimeout(0)
        filler:connect(host, number)
        all[#all + 1] = filler
    end
    return number
end

--- Returns the port of an address that accepts connections and says nothing.
function holes.silent()
    return (listen("127.0.0.1", 64))
end

--- Returns a connection string: `count` addresses at which nobody serves, and then those that do.
function holes.before(address, count, kind)
    local list = {}
    for i = 1, count do
        list[i] = "127.0.0.1:" .. kind()
    end
    list[count + 1] = address
    return table.concat(list, ",")
end

return holes
