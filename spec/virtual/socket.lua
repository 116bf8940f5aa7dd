--- virtual.socket: the functions of LuaSocket that specs use, with the simulated clock.

local world = require "spec.virtual.world"

local socket = {}

function socket.gettime()
    return world.now()
end

function socket.sleep(seconds)
    world.poll({}, seconds)
end

--- Supports receivers only, which must have getfd.
function socket.select(receivers, senders, seconds)
    assert(not senders or not senders[1], "the virtual socket.select knows no senders")
    local fds, by_fd = {}, {}
    for index, receiver in ipairs(receivers or {}) do
        fds[index] = receiver:getfd()
        by_fd[fds[index]] = receiver
    end
    local ready = {}
    for index, fd in ipairs(world.poll(fds, seconds or math.huge)) do
        ready[index] = by_fd[fd]
    end
    return ready, {}, not ready[1] and "timeout" or nil
end

return setmetatable(socket, { __index = function(_, name)
    error(("socket.%s needs the real world: tag the spec #real"):format(name), 2)
end })
