--- virtual.cluster: the twin of support.cluster: simulated servers. There is one world at a time. So a spec's own servers take the
-- place of the servers that its file shares, unless both have the same options. The shared ones begin anew afterwards.

local versions = require "spec.support.versions"
local world = require "spec.virtual.world"

local real = assert(loadfile "spec/support/cluster.lua")()

local cluster = {
    root = real.root, quote = real.quote, command_line = real.command_line, run = real.run,
}

local Cluster = {}
Cluster.__index = Cluster

--- Seconds of simulated time within which servers must have a leader.
local PATIENCE = 60

--- The same in every run, because it is a part of paths.
function cluster.process_id()
    return 1
end

local function finish()
    collectgarbage()
    collectgarbage()
    world.close_observers()
    world.finish()
end

local function same(one, other)
    return one.servers == other.servers and one.tick == other.tick and one.reap == other.reap and one.zxid == other.zxid
end

--- Returns the present servers if they have these options; otherwise begins a new world.
local function serve(options)
    local usual = world.usual
    local wanted = {
        servers = options.servers or usual.servers, tick = options.tick or usual.tick, reap = options.reap or usual.reap,
        zxid = options.zxid, seed = world.seed,
    }
    for name in pairs(options.options or {}) do
        error(("the option %s of servers needs the real world: tag the spec #real"):format(name), 3)
    end
    if options.java_options then
        error("these options of servers need the real world: tag the spec #real", 3)
    end
    if world.is_open() and not same(wanted, world.options) then
        finish()
    end
    if not world.is_open() then
        world.begin(wanted)
    end
    if not world.servers then
        local addresses = {}
        for number = 1, wanted.servers do
            addresses[number] = ("h%d:2181"):format(number)
        end
        world.servers = setmetatable({ servers = table.concat(addresses, ","), addresses = addresses }, Cluster)
    end
    for path, number in pairs(options.seed or {}) do
        world.preset(path, number)
    end
    return world.servers
end

--- Takes those options of support.cluster that simulated servers have.
function cluster.start(options)
    return serve(options or {})
end

--- Returns the servers that a spec has started and not stopped, or else the file's shared servers.
function cluster.shared()
    if not world.servers then
        serve({}).is_shared = true
    end
    return world.servers
end

--- Does nothing: the world ends with its file.
function cluster.stop_shared()
end

function Cluster:address(n)
    return self.addresses[n or 1]
end

--- The answers to four-letter words, as far as specs read them.
local answers = {}

--- The watches on data in the format of DataTree.java: each path, followed by its sessions.
function answers.wchp(_, n)
    local paths, sessions = {}, {}
    for _, watch in ipairs(world.watches(n)) do
        if not watch.children then
            if not sessions[watch.path] then
                paths[#paths + 1] = watch.path
                sessions[watch.path] = ""
            end
            sessions[watch.path] = ("%s\t0x%s\n"):format(sessions[watch.path], (watch.session:gsub("^0+", "")))
        end
    end
    for index, path in ipairs(paths) do
        paths[index] = path .. "\n" .. sessions[path]
    end
    return table.concat(paths)
end

function answers.mntr(_, n)
    return ("zk_watch_count\t%d\n"):format(#world.watches(n))
end

function answers.srvr(self, n)
    local zxid = world.last_zxid():gsub("^0+", "")
    return ("Zookeeper version: %s\nZxid: 0x%s\nMode: %s\n"):format(world.version, zxid, self:mode(n))
end

function Cluster:ask(word, n)
    if not answers[word] then
        error(("the word %s needs the real world: tag the spec #real"):format(word), 2)
    elseif not world.is_up(n or 1) then
        return nil, "connection refused"
    end
    return answers[word](self, n or 1)
end

function Cluster.version()
    return world.version
end

function Cluster.has(_, feature)
    return versions.has(world.version, feature)
end

function Cluster:watch_count(n)
    local count = 0
    for number = n or 1, n or #self.addresses do
        count = count + #world.watches(number)
    end
    return count
end

function Cluster:mode(n)
    if not world.is_up(n or 1) then
        return nil
    end
    return #self.addresses == 1 and "standalone" or world.leader() == (n or 1) and "leader" or "follower"
end

function Cluster.leader()
    return world.leader()
end

local function each_server(self, n, fn)
    for number = n == "all" and 1 or n or 1, n == "all" and #self.addresses or n or 1 do
        fn(number)
    end
end

function Cluster:kill(n)
    each_server(self, n, world.crash)
end

function Cluster:pause(n)
    each_server(self, n, function(number)
        world.reach(number, false, false)
    end)
end

function Cluster:resume(n)
    each_server(self, n, function(number)
        world.reach(number, true, true)
    end)
end

function Cluster:restart(n)
    each_server(self, n, function(number)
        if world.is_up(number) then
            world.crash(number)
        end
        world.restart(number)
    end)
    local up = 0
    for number = 1, #self.addresses do
        up = up + (world.is_up(number) and 1 or 0)
    end
    if 2 * up > #self.addresses then
        self:wait()
    end
end

function Cluster.wait()
    local deadline = world.now() + PATIENCE
    while not world.leader() do
        assert(world.now() < deadline, "the simulated servers have no leader")
        world.poll({}, 0.01)
    end
end

--- Only what the servers say of the ensemble changes.
function Cluster:configure(numbers, more)
    local lines = {}
    for _, number in ipairs(numbers) do
        lines[#lines + 1] = ("server.%d=%s:2888:3888:participant;0.0.0.0:2181"):format(number,
            self:address(number):match "^[^:]*")
    end
    lines[#lines + 1] = more
    world.configure(table.concat(lines, "\n") .. "\nversion=100000000")
end

function Cluster:stop()
    if self == world.servers and not self.is_shared then
        finish()
        world.begin(world.options)
    end
end

return cluster
