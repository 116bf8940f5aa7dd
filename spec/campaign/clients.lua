--- campaign.clients: starts the client processes of a roster, each in a network namespace, starts them again after a fault ended
-- them, and keeps their records.

local uv = require "luv"
local cjson = require "cjson"
local tasks = require "spec.campaign.tasks"
local files = require "spec.support.files"
local program = require "spec.support.nginx_program"

local Clients = {}
Clients.__index = Clients

--- The exit status of a client that was ordered to call os.exit while it holds a lock.
local EXIT_STATUS = 17
local FIRST_ADDRESS = 11
--- The campaign ends after this many clients that ended by themselves.
local MANY_CRASHES = 20

--- Makes wall clocks jump, and no other clock.
local FAKETIME = {
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"
}

--- runtime -> the program of a client, if it is not contender.lua.
local PROGRAMS = { curator = "curator", command = "command" }

local function exists(name)
    return uv.fs_stat(name) ~= nil
end

--- `settings`: root (of the project), directory, topology, servers, redis_port, seed.
local function new(list, settings)
    local self = setmetatable({ list = list, settings = settings, crashes = {}, deaths = 0 }, Clients)
    for index, client in ipairs(list) do
        settings.topology:add(client.name, FIRST_ADDRESS + index)
        client.incarnation = 0
        if client.route == "named" and not settings.topology.isolated then
            client.route = "direct"
        end
        client.file = ("%s/%s.json"):format(settings.directory, client.name)
        files.write(client.file, cjson.encode({
            name = client.name, loop = client.loop, fibers = client.fibers, timeout = client.timeout, locks = client.locks,
            options = next(client.options) and client.options or nil, lease = client.lease, pause = client.pause,
            idle = client.idle, long = client.long, long_per_mille = client.long_per_mille,
            servers = settings.servers:address(client.route, client.only, client.tls),
            tls = client.tls and settings.servers.tls or nil, root = settings.root,
            redis_address = settings.topology.hub, redis_port = settings.redis_port, exit_status = EXIT_STATUS,
            seed = settings.seed * 100 + index
        }))
    end
    return self
end

--- The commands of the runtimes.
local commands = {}

local function lua(self, client, record, build)
    local root = self.settings.root
    return {
        "env", "LUA_PATH=" .. ("%s/lua/?.lua;%s/lua/?/init.lua;%s/?.lua;;"):format(root, root, root),
        ("LUA_CPATH=%s/build/%s/?.so;;"):format(root, build), client.runtime == "luajit" and "luajit" or "lua5.4",
        ("%s/spec/campaign/programs/%s.lua"):format(root, PROGRAMS[client.runtime] or "contender"),
        client.file, record
    }
end

commands["lua5.4"] = function(self, client, record)
    return lua(self, client, record, "5.4")
end

function commands.luajit(self, client, record)
    return lua(self, client, record, "luajit")
end

commands.curator = commands["lua5.4"]
commands.command = commands["lua5.4"]

function commands.nginx(self, client, record)
    local directory = self.settings.directory .. "/" .. client.name
    uv.fs_mkdir(directory, 493)
    local template = assert(io.open(self.settings.root .. "/spec/campaign/programs/nginx.conf"))
    local values = {
        MODULES = program.load_modules(), DIRECTORY = directory, ROOT = self.settings.root, SETTINGS = client.file,
        RECORD = record
    }
    files.write(directory .. "/nginx.conf", (template:read("*a"):gsub("@(%u+)@", values)))
    template:close()
    return program.command(directory)
end

--- Puts an order where a client looks for it; nil: none.
function Clients.tell(_, client, what)
    if what then
        files.write(client.file .. ".order", what)
    else
        os.remove(client.file .. ".order")
    end
end

--- Orders all clients to take no long turns from now on, so that the checks may expect each to get its turn.
function Clients:be_brief()
    self.brief = true
    for _, client in ipairs(self.list) do
        self:tell(client, "brief")
    end
end

--- Starts a client that does not run.
function Clients:start(client)
    if client.process and client.process.running or self.stopping then
        return
    end
    client.incarnation = client.incarnation + 1
    local record = ("%s/%s.%d.record"):format(self.settings.directory, client.name, client.incarnation)
    self:tell(client, self.brief and "brief" or nil)
    local environment
    if client.clock then
        self:set_clock(client, 0)
        for _, library in ipairs(FAKETIME) do
            if exists(library) then
                environment = {
                    "LD_PRELOAD=" .. library, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
                    "FAKETIME_TIMESTAMP_FILE=" .. client.file .. ".clock"
                }
            end
        end
    end
    client.expected = false
    local process
    process = tasks.spawn(self.settings.topology:inside(client.name, commands[client.runtime](self, client, record)), {
        log = ("%s/%s.output"):format(self.settings.directory, client.name), environment = environment,
        ended = function(status, signal)
            if not client.expected and not (self.stopping and status == 0) and status ~= EXIT_STATUS then
                self.crashes[#self.crashes + 1] = ("%s ended by itself: status %d, signal %d"):format(client.name, status, signal)
                assert(#self.crashes < MANY_CRASHES, self.crashes[#self.crashes])
                tasks.start(function()
                    tasks.sleep(0.5)
                    if client.process == process then
                        self:start(client)
                    end
                end)
            end
        end
    })
    client.process = process
end

function Clients:start_all()
    for _, client in ipairs(self.list) do
        self:start(client)
    end
end

function Clients.signal(_, client, name)
    tasks.signal(client.process, name)
end

--- Sets how far the wall clock of a client that has `clock` is from the right time, in seconds.
function Clients.set_clock(_, client, seconds)
    files.write(client.file .. ".clock", ("%+d\n"):format(seconds))
end

local function await_end(client, seconds)
    return tasks.await(function()
        return not client.process.running
    end, seconds, 0.02)
end

--- kill -9 of all its processes.
function Clients.kill(_, client)
    client.expected = true
    tasks.signal(client.process, "sigkill")
    await_end(client, 10)
end

--- Orders a client to do something when it next holds a lock: "exit" (os.exit), "die" (kill -9), "pause" (it stops itself); a
-- command "delete" (its node). Returns false if it has not done so within `seconds`.
function Clients.order(_, client, what, seconds)
    client.expected = what == "exit" or what == "die"
    Clients:tell(client, what)
    local done
    if what == "pause" then
        done = tasks.await(function()
            return files.read(("/proc/%d/stat"):format(client.process.pid)):match("%) (%a)") == "T"
        end, seconds, 0.01)
    elseif what == "delete" then
        done = tasks.await(function()
            return not exists(client.file .. ".order")
        end, seconds, 0.01)
    else
        done = await_end(client, seconds)
    end
    Clients:tell(client, nil)
    return done
end

--- The processes that belong to clients, for example a command that has outlived its client: a list of lines.
function Clients:processes()
    local list = {}
    for name in uv.fs_scandir_next, assert(uv.fs_scandir("/proc")) do
        local file = name:find("^%d+$") and io.open(("/proc/%s/cmdline"):format(name))
        if file then
            local words = (file:read("*a") or ""):gsub("%z", " ")
            file:close()
            for _, client in ipairs(self.list) do
                list[#list + 1] = words:find(client.file .. " ", 1, true) and name .. " " .. words or nil
            end
        end
    end
    return list
end

--- Orders all clients to stop, and waits for their end. Clients that do not stop are recorded as crashes.
function Clients:stop_all(seconds)
    self.stopping = true
    for _, client in ipairs(self.list) do
        self:tell(client, "stop")
    end
    local deadline = tasks.now() + seconds
    for _, client in ipairs(self.list) do
        if client.runtime == "nginx" then
            -- The workers record their end; the master is stopped when all have done so.
            tasks.await(function()
                local closed = 0
                for worker = 0, client.workers - 1 do
                    local file = io.open(("%s/%s.%d.record.%d"):format(self.settings.directory, client.name, client.incarnation,
                        worker))
                    closed = closed + (file and file:read("*a"):find("\nc ") and 1 or 0)
                    if file then
                        file:close()
                    end
                end
                return closed == client.workers
            end, deadline - tasks.now(), 0.2)
            if client.process.running then
                uv.kill(client.process.pid, "sigquit")
            end
        end
    end
    for _, client in ipairs(self.list) do
        if not await_end(client, math.max(5, deadline - tasks.now())) then
            self.crashes[#self.crashes + 1] = client.name .. " did not stop"
            self:kill(client)
        end
    end
end

--- The records of all clients: a list of { client =, incarnation =, name = file, last = whether it is the last incarnation }.
function Clients:records()
    local list = {}
    for _, client in ipairs(self.list) do
        for incarnation = 1, client.incarnation do
            for worker = 0, client.runtime == "nginx" and client.workers - 1 or 0 do
                local name = ("%s/%s.%d.record"):format(self.settings.directory, client.name, incarnation)
                if client.runtime == "nginx" then
                    name = name .. "." .. worker
                end
                list[#list + 1] = {
                    client = client, incarnation = incarnation, worker = worker, name = name,
                    last = incarnation == client.incarnation
                }
            end
        end
    end
    return list
end

return { new = new }
