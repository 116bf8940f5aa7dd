--- testing: servers in memory, for unit tests of programs that lock.
--
-- A *world* has servers, clients and a clock of its own. Its clients are zklock: the same Lua code, on a pure Lua imitation of the
-- C module (`zklock.testing.core`). Time is virtual: it passes only while the program waits, and in `world:advance`. So a test
-- takes moments, and gives the same result each time. A world has switches for what can happen to a lock.

local Clock = require "zklock.testing.clock"
local new_check = require "zklock.check_self"
local new_core = require "zklock.testing.core"
local Servers = require "zklock.testing.servers"

local assert, debug, error, ipairs, next, pairs, setmetatable, tostring, type =
    assert, debug, error, ipairs, next, pairs, setmetatable, tostring, type
local format = string.format
local huge = math.huge
local insert, remove = table.insert, table.remove
local loaded, searchers = package.loaded, rawget(package, "searchers") or package.loaders
local require, setfenv = require, rawget(_G, "setfenv")

---@class zklock.testing
local testing = {}

---@class zklock.World
---@field zklock zklock the module zklock of this world: `world.zklock.connect(…)`
local World = {}
World.__index = World
testing.World = World

local check_self = new_check("world", "a world", { [World] = true })

--- What all clients of a world have as their servers, unless a program names others.
local SERVERS = "testing:2181"

-- Modules of its own --------------------------------------------------------------------------------------------------

--- Whether a module is a part of zklock, but not of zklock.testing.
local function is_ours(name)
    return type(name) == "string" and (name == "zklock" or name == "resty.zklock" or name:find "^zklock%." ~= nil)
        and not name:find "^zklock%.testing"
end

--- The searchers of worlds that are installed.
local installed = {}

--- Finds the source of a module. Returns a function that runs it.
local function find(name)
    local tried = ""
    for _, searcher in ipairs(searchers) do
        local chunk, extra
        if not installed[searcher] then
            chunk, extra = searcher(name)
        end
        if type(chunk) == "function" then
            return chunk, extra
        end
        tried = tried .. (type(chunk) == "string" and chunk or "")
    end
    error(format("module '%s' not found:%s", name, tried), 0)
end

--- Returns a `require` that runs zklock's modules anew. `modules` are those that exist already.
local function new_require(modules)
    local environment
    local function private_require(name)
        if not is_ours(name) then
            return require(name)
        elseif modules[name] == nil then
            local chunk, extra = find(name)
            if setfenv then
                setfenv(chunk, environment)
            else
                debug.setupvalue(chunk, 1, environment) -- _ENV
            end
            modules[name] = chunk(name, extra) or true
        end
        return modules[name]
    end
    environment = setmetatable({ require = private_require }, { __index = _G })
    return private_require
end

--- Removes a value from a list.
local function take_out(list, value)
    for index = #list, 1, -1 do
        if list[index] == value then
            remove(list, index)
        end
    end
end

--- Returns the adapter for the waits of a world.
local function new_adapter(world)
    local clock, adapter = world._clock, { name = "testing" }
    local function step(client, _, seconds)
        client:desk().core:wait(seconds)
        return true
    end
    local alone = { alone = true, wait = step }
    function adapter.here()
        return (clock:running() or next(clock.tasks)) and adapter or alone
    end
    function adapter.wait(client, waiter, seconds)
        waiter.task = clock:running()
        if not waiter.task then
            return step(client, waiter, seconds)
        end
        world._require("zklock.protect").check_yieldable()
        clock:suspend(seconds)
        return true
    end
    function adapter.wake(waiter)
        if waiter.task then
            clock:wake(waiter.task)
        end
    end
    function adapter.yields()
        return clock:running() ~= nil
    end
    function adapter.attach(client)
        insert(world._programs, client)
    end
    function adapter.detach(client)
        take_out(world._programs, client)
    end
    function adapter.spawn(fn)
        clock:start(fn)
    end
    return adapter
end

-- Worlds --------------------------------------------------------------------------------------------------------------

--- Makes a world: servers without nodes, and no clients. Worlds have nothing in common.
---@return zklock.World world
function testing.world()
    local world = setmetatable({ _programs = {}, _taken = {}, _other = false }, World)
    world._clock = Clock.new(function()
        for _, client in ipairs(world._programs) do
            if client:desk().core:has_news() then
                client:pump()
                return true
            end
        end
        return false
    end)
    world._servers = Servers.new(world._clock)
    local adapter = new_adapter(world)
    world._core = new_core(world._servers)
    world._require = new_require {
        ["zklock.core"] = world._core,
        ["zklock.adapters"] = { find = function() return adapter end },
        ["zklock.configuration"] = { read = function(settings)
            settings.servers = SERVERS
            return settings
        end }
    }
    world.zklock = world._require "zklock"
    return world
end

--- Opens a client: `zklock.connect` of this world.
---@param settings? zklock.ConnectOptions
---@return zklock.Client? client
---@return string? message
---@return zklock.Code? code as of zklock.connect
function World:connect(settings)
    check_self(self, "connect")
    return self.zklock.connect(SERVERS, settings)
end

--- Makes `require` return this world's modules of zklock until undo() is called: for programs that open their clients themselves.
-- If zklock is loaded already, its `connect` and `shared` are those of this world, too.
---@return fun() undo
function World:install()
    check_self(self, "install")
    local kept, given = {}, {}
    for name, module in pairs(loaded) do
        kept[name] = is_ours(name) and module or nil
    end
    for name in pairs(kept) do
        loaded[name] = nil
    end
    local real = kept.zklock or {}
    given.connect, given.shared = real.connect, real.shared
    real.connect, real.shared = self.zklock.connect, self.zklock.shared
    local function searcher(name)
        return is_ours(name) and function()
            return self._require(name)
        end or nil
    end
    installed[searcher] = true
    insert(searchers, 1, searcher)
    return function()
        take_out(searchers, searcher)
        for name in pairs(loaded) do
            loaded[name] = not is_ours(name) and loaded[name] or nil
        end
        for name, module in pairs(kept) do
            loaded[name] = module
        end
        real.connect, real.shared = given.connect, given.shared
    end
end

-- Time ----------------------------------------------------------------------------------------------------------------

--- Raises at the caller of a method, which must not call this in a tail call, unless seconds are given.
local function check_seconds(method, seconds)
    if type(seconds) ~= "number" or not (seconds >= 0 and seconds < huge) then
        error(format("world:%s: seconds must be a number, 0 or more (got %s)", method, tostring(seconds)), 3)
    end
end

--- How much time has passed in this world.
---@return number seconds
function World:now()
    check_self(self, "now")
    return self._clock.time
end

--- Lets time pass: timeouts, max_hold, sessions end, and callbacks are called. In a function of world:run the other functions run
-- meanwhile. Stands for `sleep` in tests.
---@param seconds? number 0 or more; default: 0, only what is due is done
function World:advance(seconds)
    check_self(self, "advance")
    check_seconds("advance", seconds or 0)
    self._clock:advance(seconds or 0)
end

--- Runs functions as coroutines that wait for each other, until all have ended. Raises the first error, and an error if all of them
-- wait and nothing is going to happen.
---@param ... fun() functions
function World:run(...)
    check_self(self, "run")
    local tasks = {}
    for index, fn in ipairs { ... } do
        tasks[index] = self._clock:spawn(fn)
    end
    self._clock:finish(tasks)
end

-- What can happen -----------------------------------------------------------------------------------------------------

--- Has the effects of a switch noticed: callbacks are called. Outside of world:run all that is due now is done.
local function settle(self)
    while self._clock.pump() do -- luacheck: ignore 542
    end
    if not self._clock:running() then
        self._clock:advance(0)
    end
end

--- Calls a method of a client, or of all clients of the program, below zklock: for the method of worlds of this name.
local function switch(self, name, client, method, ...)
    local cores, known = {}, client == nil
    for _, one in ipairs(self._programs) do
        known = known or one == client
        if client == nil and one ~= self._other or one == client then
            cores[#cores + 1] = one:desk().core
        end
    end
    if not known then
        error(format("world:%s: the client must be an open one of this world (got %s)", name, tostring(client)), 3)
    end
    for _, core in ipairs(cores) do
        core[method](core, ...)
    end
    settle(self)
end

--- Another client acquires the mutex at a path, and so keeps a read/write lock there from all others, too. `path .. "/locks"`
-- keeps a semaphore. Raises if the lock is not free. For other kinds, and for more clients: world:connect.
---@param path string
---@param identity? string of the client; default: "another"
function World:take(path, identity)
    check_self(self, "take")
    local other = self._other or assert(self.zklock.connect(SERVERS, { connect_timeout = 0 }))
    self._other = other
    other:desk().core:reconnect()
    other:desk().core:set_delay(0) -- whatever happens to the program
    local lock = other:mutex(path, { identity = identity or "another" })
    local hold, message = lock:try_acquire()
    if not hold then
        error("world:take: " .. message, 2)
    end
    self._taken[path] = hold
    settle(self)
end

--- The client that has taken a lock releases it. Raises if there is none.
---@param path string as of take
function World:give(path)
    check_self(self, "give")
    local hold = self._taken[path]
    if not hold then
        error(format("world:give: '%s' was not taken", tostring(path)), 2)
    end
    self._taken[path] = nil
    assert(hold:release())
    settle(self)
end

--- The program's clients lose what they hold at a path: its nodes are deleted, as by an administrator. Raises if they hold nothing
-- there.
---@param path string of the lock
function World:lose(path)
    check_self(self, "lose")
    local lost = 0
    for _, client in ipairs(self._programs) do
        lost = lost + (client ~= self._other and client:desk().core:lose_holds(path) or 0)
    end
    if lost == 0 then
        error(format("world:lose: no client of the program holds '%s'", tostring(path)), 2)
    end
    settle(self)
end

--- The connection is lost until world:reconnect. The locks are lost after half of the session timeout, and the servers end the
-- session after the whole of it.
---@param client? zklock.Client default: all, and those that are opened later
function World:disconnect(client)
    check_self(self, "disconnect")
    switch(self, "disconnect", client, "disconnect")
    self._core.defaults.down = not client or self._core.defaults.down
end

--- The servers do not answer until world:reconnect. A client notices it after two thirds of the session timeout.
---@param client? zklock.Client default: all, and those that are opened later
function World:hang(client)
    check_self(self, "hang")
    switch(self, "hang", client, "hang")
    self._core.defaults.hangs = not client or self._core.defaults.hangs
end

--- Ends `disconnect` and `hang`. If the session has expired meanwhile, the client opens another one.
---@param client? zklock.Client default: all
function World:reconnect(client)
    check_self(self, "reconnect")
    switch(self, "reconnect", client, "reconnect")
    if not client then
        self._core.defaults.down, self._core.defaults.hangs = false, false
    end
end

--- The servers end the session: its locks are lost. If it is connected, the client opens another one at once.
---@param client? zklock.Client default: all
function World:expire(client)
    check_self(self, "expire")
    switch(self, "expire", client, "expire_now")
end

--- The servers' answers take so many seconds from now on. At first they take no time.
---@param seconds number 0 or more
---@param client? zklock.Client default: all, and those that are opened later
function World:delay(seconds, client)
    check_self(self, "delay")
    check_seconds("delay", seconds)
    switch(self, "delay", client, "set_delay", seconds)
    self._core.defaults.delay = not client and seconds or self._core.defaults.delay
end

return testing
