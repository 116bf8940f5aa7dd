--- virtual.cluster: the twin of support.cluster: simulated servers. There is one world at a time, so servers of its own take the
-- place of those that a spec file shares, unless they are alike, and those begin anew afterwards.

local world = require "spec.virtual.world"

local real = assert(loadfile "spec/support/cluster.lua")()

local cluster = {
    root = real.root, quote = real.quote, command_line = real.command_line, run = real.run,
}

local Cluster = {}
Cluster.__index = Cluster

--- Seconds of simulated time in which servers are to have a leader.
local PATIENCE = 60

--- The same in every run: it is a part of paths.
function cluster.process_id()
    return 1
end

local present -- the servers of the world that is open

local function finish()
    collectgarbage()
    collectgarbage()
    world.close_observers()
    world.finish()
    if present then
        present.stopped = true
    end
    present = nil
end

local function same(one, other)
    return one.servers == other.servers and one.tick == other.tick and one.reap == other.reap and one.zxid == other.zxid
end

--- Servers like those that are there are those; else a new world begins.
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
    if not present then
        local addresses = {}
        for number = 1, wanted.servers do
            addresses[number] = ("h%d:2181"):format(number)
        end
        present = setmetatable({ servers = table.concat(addresses, ","), addresses = addresses }, Cluster)
    end
    for path, number in pairs(options.seed or {}) do
        world.preset(path, number)
    end
    return present
end

--- The same options as those of support.cluster, as far as simulated servers have them.
function cluster.start(options)
    return serve(options or {})
end

--- Those that a spec has begun, as long as it has not stopped them.
function cluster.shared()
    if not present then
        serve({}).is_shared = true
    end
    return present
end

--- The world ends with its file.
function cluster.stop_shared()
end

function Cluster:address(n)
    return self.addresses[n or 1]
end

--- The answers to words, as far as specs read them.
local answers = {}

--- The watches on data, as DataTree.java writes them: each path, and below it the sessions.
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
    return ("Zxid: 0x%s\nMode: %s\n"):format((world.last_zxid():gsub("^0+", "")), self:mode(n))
end

function Cluster:ask(word, n)
    if not answers[word] then
        error(("the word %s needs the real world: tag the spec #real"):format(word), 2)
    elseif not world.is_up(n or 1) then
        return nil, "connection refused"
    end
    return answers[word](self, n or 1)
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

function Cluster:stop()
    if self == present and not self.is_shared then
        finish()
        world.begin(world.options)
    end
end

return cluster
