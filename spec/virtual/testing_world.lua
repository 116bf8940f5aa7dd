--- virtual.testing_world: a virtual.world whose servers, links and clients are those of zklock.testing. It raises an error for a
-- fault that it does not imitate: the spec then stands in spec/virtual/not_in_testing.lua.

local Clock = require "zklock.testing.clock"
local new_core = require "zklock.testing.core"
local Servers = require "zklock.testing.servers"

local world = {
    usual = { servers = 1, tick = 500, reap = 3600000 },
    clients = setmetatable({}, { __mode = "k" }),
    observers = {},
    links = {},
    servers = false, seed = 1, options = false, version = false, is_begun = false
}

--- The servers of the present world, and its clock. They last as long as a spec file: its modules refer to them.
local clock, servers
--- The core's clients, by their numbers, which stand for file descriptors.
local by_fd
--- The links: number -> `{ refuses =, hangs =, delay =, clients = }`.
local links

--- Seconds until a client has connected again.
local MOMENT = 0.05

--- The codes of the C client.
local CODES = {
    no_node = -101, bad_version = -103, ["no children for ephemerals"] = -108, node_exists = -110, not_empty = -111
}

function world.begin(options)
    if not clock then
        clock = Clock.new(function() return false end)
        servers = Servers.new(clock)
    end
    servers.nodes, servers.watches, servers.waiting, servers.owners = {}, {}, {}, {}
    servers:put("/", "")
    by_fd, links = {}, {}
    world.options, world.version, world.is_begun = options, "3.8.0", true
end

function world.finish()
    world.servers, world.is_begun = false, false
end

function world.is_open()
    return world.is_begun or false
end

--- Each file gets a clock and servers of its own.
function world.open_core()
    local options = world.options
    clock = nil
    world.begin(options)
    local core = new_core(servers)
    local open = core.open
    function core.open(name, settings)
        local link = links[tonumber(name:match "^link(%d+):2181")]
        core.defaults.down = not (link or name:find "^h%d:2181") or link and link.refuses or false
        core.defaults.hangs = link and link.hangs or false
        core.defaults.delay = link and link.delay or 0
        local client = open(name, settings)
        by_fd[client:pollfd()] = client
        if link then
            link.clients[#link.clients + 1] = client
        end
        return client
    end
    function core.poll(fd, seconds)
        return world.poll({ fd }, seconds)[1] ~= nil
    end
    return core
end

function world.now()
    return clock.time
end

function world.poll(fds, seconds)
    local deadline = clock.time + seconds
    while true do
        local ready = {}
        for _, fd in ipairs(fds) do
            ready[#ready + 1] = by_fd[fd]:has_news() and fd or nil
        end
        if ready[1] or not clock:step(deadline) then
            return ready
        end
    end
end

function world.is_up()
    return true
end

function world.leader()
    return 1
end

function world.last_zxid()
    return ("%016x"):format(servers.zxid)
end

function world.watches()
    local found = {}
    for _, client in pairs(by_fd) do
        for operation in pairs(client.watches) do
            found[#found + 1] = {
                path = operation.request.path, children = operation.request.kind == "children", session = client.session
            }
        end
        for acquisition in pairs(client.open) do
            local watched, waits = false, acquisition.status == "waiting"
            if waits then -- the node before its own, a latch's gate, or a semaphore's permits
                watched = acquisition.ahead or acquisition.gate or acquisition.entry and "leases"
            elseif acquisition:held() and acquisition.spec.revocable then
                watched = acquisition:node():sub(#acquisition.spec.path + 2)
            end
            if watched and client.session then
                found[#found + 1] = {
                    path = acquisition.spec.path .. "/" .. watched, children = false, session = client.session
                }
            end
        end
    end
    return found
end

function world.end_session(id)
    for _, client in pairs(by_fd) do
        if client.session == id then
            client:cut()
            client:end_session()
            clock:after(MOMENT, function() client:connect() end)
            return true
        end
    end
    for observer in pairs(world.observers) do
        if observer.id == id then
            observer.ended = true
            servers:end_session(id)
            return true
        end
    end
    return false
end

function world.close_clients()
    for client in pairs(world.clients) do
        client:close()
    end
    world.clients = setmetatable({}, { __mode = "k" })
end

function world.close_observers()
    for observer in pairs(world.observers) do
        observer:close()
    end
    world.observers = {}
end

-- Observers -----------------------------------------------------------------------------------------------------------

local Observer = {}
Observer.__index = Observer

function world.observe(_, timeout)
    return setmetatable({ id = servers:new_session(), timeout = timeout }, Observer)
end

function Observer:session()
    return self.id, self.timeout
end

function Observer:is_open()
    return not self.is_closed and not self.ended
end

function Observer:close()
    if not self.is_closed then
        self.is_closed = true
        servers:end_session(self.id)
    end
    return true
end

function Observer.disconnect()
end

--- The stat as world.c names its fields.
local function stat_of(stat)
    return stat and {
        czxid = stat.czxid, mzxid = stat.mzxid, pzxid = stat.pzxid, ephemeralOwner = stat.ephemeral_owner,
        ctime = stat.ctime * 1000, mtime = stat.mtime * 1000, version = stat.version, cversion = stat.cversion,
        aversion = stat.aversion, dataLength = stat.data_length, numChildren = stat.num_children
    }
end

function Observer:call(kind, path, data, mode)
    if self.ended then
        return nil, -112
    end
    mode = mode or 0
    local result, second = servers:execute({
        kind = kind, path = path, data = data, ephemeral = mode % 2 == 1, sequential = mode == 2 or mode == 3
    }, self.id)
    if result == nil then
        return nil, CODES[second]
    elseif kind == "exists" then
        if not result then
            return nil, -101
        end
        return true, stat_of(result)
    elseif kind == "set" then
        return true, stat_of(result)
    end
    return result, stat_of(second)
end

-- Links ---------------------------------------------------------------------------------------------------------------

function world.links.begin()
    links[#links + 1] = { delay = 0, refuses = false, hangs = false, clients = {} }
    return #links
end

--- Calls a method of all clients of a link.
local function each(number, method, ...)
    for _, client in ipairs(links[number].clients) do
        if client:state() ~= "closed" then
            client[method](client, ...)
        end
    end
end

--- They connect again, unless the link refuses that.
function world.links.cut(number)
    each(number, "cut")
    clock:after(MOMENT, function()
        if not links[number].refuses and not links[number].hangs then
            each(number, "reconnect")
        end
    end)
end

function world.links.refuse(number, whether)
    links[number].refuses = whether
    for _, client in ipairs(links[number].clients) do
        client.down = whether
    end
    if not whether and not links[number].hangs then
        each(number, "reconnect")
    end
end

function world.links.stall(number)
    links[number].hangs = true
    each(number, "hang")
end

function world.links.resume(number)
    links[number].hangs = false
    if not links[number].refuses then
        each(number, "reconnect")
    end
end

function world.links.delay(number, milliseconds)
    links[number].delay = milliseconds / 1000
    each(number, "set_delay", milliseconds / 1000)
end

function world.links.session(number)
    for _, client in ipairs(links[number].clients) do
        if client.session then
            return client.session, "", client.timeout * 1000
        end
    end
end

function world.links.status(number)
    return #links[number].clients, not links[number].refuses, "", ""
end

function world.links.end_link(number)
    world.links.refuse(number, true)
    each(number, "cut")
end

local function missing(_, name)
    error(("%s is not imitated by zklock.testing"):format(name), 2)
end

setmetatable(world.links, { __index = missing })
return setmetatable(world, { __index = missing })
