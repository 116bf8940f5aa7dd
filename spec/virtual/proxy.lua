--- virtual.proxy: the twin of support.proxy: a link between clients and simulated servers.

local world = require "spec.virtual.world"

local links = world.links

local proxy = {}

local Proxy = {}
Proxy.__index = Proxy

--- Returns the server numbers in a target such as "h1:2181,h2:2181".
local function numbers_of(target)
    local numbers = {}
    for address in target:gmatch "[^,]+" do
        local number = address:match "^h(%d+):2181$"
        assert(number, "the target of a virtual proxy is a simulated server: " .. address)
        numbers[#numbers + 1] = tonumber(number)
    end
    return numbers
end

function proxy.start(target, options)
    if options and options.raw then
        error("a proxy for another protocol needs the real world: tag the spec #real", 2)
    end
    local number = links.begin(numbers_of(target))
    return setmetatable({ number = number, address = ("link%d:2181"):format(number) }, Proxy)
end

function proxy.between()
    error("proxy.between needs the real world: tag the spec #real", 2)
end

function Proxy:cut(how)
    links.cut(self.number, how)
end

function Proxy:refuse()
    links.refuse(self.number, true)
end

function Proxy:accept()
    links.refuse(self.number, false)
end

function Proxy:stall(direction)
    links.stall(self.number, direction or "both")
end

function Proxy:resume()
    links.resume(self.number)
end

function Proxy:delay(ms, direction)
    links.delay(self.number, ms, direction or "both")
end

function Proxy:half_close(side)
    links.half_close(self.number, side)
end

function Proxy:target(target)
    links.target(self.number, numbers_of(target))
end

function Proxy:arm(kind, when, skip, how)
    links.arm(self.number, kind, when, skip or 0, how)
end

function Proxy:disarm()
    links.disarm(self.number)
end

function Proxy:deny(kind, code, times)
    links.deny(self.number, kind, code or 0, times or -1)
end

function Proxy:lack_containers(answer)
    links.lack_containers(self.number, answer)
end

function Proxy:stamp(zxid)
    links.stamp(self.number, tonumber(zxid))
end

--- Waits until the trap has caught a request. The clients take their turns only while a spec waits here.
function Proxy:wait_fired(timeout)
    timeout = timeout or 10
    local deadline = world.now() + timeout
    while true do
        local caught = links.caught(self.number)
        if caught then
            return caught
        end
        if world.now() >= deadline then
            error(("the trap has caught nothing within %d ms"):format(timeout * 1000), 2)
        end
        world.poll({}, 0.001)
    end
end

function Proxy:fired()
    return links.caught(self.number) ~= nil
end

function Proxy:counts()
    return links.counts(self.number)
end

function Proxy:reset_counts()
    links.reset_counts(self.number)
end

function Proxy:session()
    local id, password, timeout = links.session(self.number)
    if not id then
        return nil
    end
    return { id = id, passwd = password, timeout = timeout }
end

function Proxy:status()
    local connections, listening, stalled, trap = links.status(self.number)
    return { connections = connections, listening = listening and "yes" or "no", stalled = stalled, trap = trap }
end

function Proxy:stop()
    if self.number then
        links.end_link(self.number)
        self.number = nil
    end
end

return proxy
