--- virtual.world: the functions of world.c, which is linked into the module that `require "zklock.core"` finds.
--
-- It has all that the twins keep from one call to the next: `seed`, `options`, `servers`, `clients` and `observers`. virtual.helper
-- makes this module the same for all spec files.

local function find(name)
    local tried = {}
    for template in package.cpath:gmatch "[^;]+" do
        local file = template:gsub("%?", (name:gsub("%.", "/")))
        local handle = io.open(file)
        if handle then
            handle:close()
            return file
        end
        tried[#tried + 1] = file
    end
    error("no module of zklock in " .. table.concat(tried, " "))
end

local file = find "zklock.core"
local open, problem = package.loadlib(file, "luaopen_zklock_world")
if not open then
    error("this module of zklock is not linked against the simulation: " .. tostring(problem))
end
local world = open()

--- The module that `require "zklock.core"` would find.
world.open_core = assert(package.loadlib(file, "luaopen_zklock_core"))

--- The version of the simulated servers of the present or the last world.
world.version = nil

--- The options of servers if a spec sets no others.
world.usual = { servers = 1, tick = 500, reap = 3600000 }

--- The seed of the present spec file's worlds.
world.seed = nil

--- The options of the present or the last world.
world.options = nil

--- The servers of the open world as virtual.cluster's object, once they were needed.
world.servers = nil

local begin, finish = world.begin, world.finish

--- Does what the function of world.c does.
function world.begin(options)
    world.version = begin(options)
    world.options = options
end

--- Does what the function of world.c does.
function world.finish()
    if world.servers then
        world.servers.stopped = true
    end
    world.servers = nil
    finish()
end

--- The set of all clients of the program under test that exist: client -> true. Some of them are closed.
world.clients = setmetatable({}, { __mode = "k" })

--- Closes the clients that a spec file has left open.
function world.close_clients()
    for client in pairs(world.clients) do
        pcall(client.close, client) -- some clients have been collected, but are still in the table
    end
end

--- The set of all open observers: observer -> true.
world.observers = {}

function world.close_observers()
    for observer in pairs(world.observers) do
        observer:close()
    end
    world.observers = {}
end

return world
