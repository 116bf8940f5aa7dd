--- virtual.world: the functions of world.c, which is linked into the module that `require "zklock.core"` finds.

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

--- The options of servers unless a spec sets others.
world.usual = { servers = 1, tick = 500, reap = 3600000 }

--- As the function of world.c; `world.options`, those of the world that is open, or was the last one.
local begin = world.begin

function world.begin(options)
    begin(options)
    world.options = options
end

--- All observers that are open: observer -> true.
world.observers = {}

function world.close_observers()
    for observer in pairs(world.observers) do
        observer:close()
    end
    world.observers = {}
end

return world
