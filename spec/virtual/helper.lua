--- virtual.helper: the busted helper that runs spec files in virtual time: `busted --helper=spec/virtual/helper.lua FILE`, with the
-- module of build/c/virtual/ in LUA_CPATH.
--
-- Each module through which specs reach the outside has a twin here with the same interface, and `require` finds the twin. Each
-- spec file gets its own world with one server, until the file asks for other servers. The world's random numbers depend on the
-- file's name and on ZKLOCK_SEED.

local busted = require "busted"

local twins = {
    ["socket"] = "socket",
    ["spec.support.cluster"] = "cluster",
    ["spec.support.program"] = "program",
    ["spec.support.proxy"] = "proxy",
    ["spec.support.zk"] = "zk",
}

for name, twin in pairs(twins) do
    package.preload[name] = assert(loadfile("spec/virtual/" .. twin .. ".lua"))
end

-- busted unloads the modules that a spec file has loaded. This module must be the same for all files.
local world = require "spec.virtual.world"
package.preload["spec.virtual.world"] = function()
    return world
end

package.preload["zklock.core"] = function()
    local core = world.open_core()
    local open = core.open
    function core.open(...)
        local client, message, code = open(...)
        if client then
            world.clients[client] = true
        end
        return client, message, code
    end
    return core
end

busted.subscribe({ "file", "start" }, function(file)
    local seed = tonumber(os.getenv "ZKLOCK_SEED") or 1
    for position = 1, #file.name do
        seed = (seed * 31 + file.name:byte(position)) % 2147483647
    end
    world.seed = seed
    local usual = world.usual
    world.begin { seed = seed, servers = usual.servers, tick = usual.tick, reap = usual.reap }
end)

busted.subscribe({ "file", "end" }, function(file)
    if not world.is_open() then
        return
    end
    collectgarbage() -- finalizers run while their world is there
    collectgarbage()
    world.close_clients() -- before their world ends
    world.close_observers()
    local ok, problem = pcall(world.finish)
    if not ok then
        busted.publish({ "error", "file" }, file, nil, problem, "")
    end
end)
