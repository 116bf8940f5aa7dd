--- fuzz_api: random programs over the public Lua API, each byte a choice; run by fuzz_api.c, which sets `servers` and `bytes`.
--
-- Must be true of any program:
-- - An error that blames the caller has a message of the module's own, never one of Lua's ("attempt to index a nil value").
-- - A failure has a code that the documentation lists.
-- - Nothing takes much longer than its timeout.
-- - Two objects that could not hold a lock together never both hold it.

-- luacheck: globals servers run finish
local zklock = require "zklock"
local core = require "zklock.core"

local CODES = {}
for code in ([[timeout disconnected lost not_held deadlock cancelled closed revoked no_auth auth_failed exhausted forked phase
        unsupported no_node failed mismatch max_hold node_exists bad_version not_empty]]):gmatch "%S+" do
    CODES[code] = true
end

--- Allowed time beyond a timeout, for a loaded machine and for a release that waits for its acknowledgement.
local GRACE = 8

local at, program = 0, ""

local function take()
    at = at + 1
    return program:byte(at) or 0
end

local function pick(list)
    return list[take() % #list + 1]
end

local function complain(what, ...)
    error(("violated: %s: "):format(what) .. table.concat({ ... }, " "), 0)
end

local PATHS = { "/a", "/a/b", "/c", "/d/e/f", "/sem" }
local STRANGE = {
    function() return nil end, function() return true end, function() return false end, function() return -1 end,
    function() return 0 end, function() return 0 / 0 end, function() return math.huge end, function() return 1e300 end,
    function() return "" end, function() return "/" end, function() return "/x/" end, function() return "a\0b" end,
    function() return "/zookeeper/x" end, function() return {} end, function() return { timeout = "x" } end,
    function() return { nonsense = 1 } end, function() return print end, function() return io.stdout end,
    function() return ("/long"):rep(100) end, function() return "\255\254" end, function() return 3 end,
    function() return { [0 / 1] = 1, 2, 3 } end, function() return coroutine.create(print) end,
    function() return { timeout = 0.01 } end, function() return 2 ^ 53 end, function() return math.mininteger end,
}

local function strange()
    return pick(STRANGE)()
end

--- Calls `fn` and checks how it ended. The program's own error, "mine", may come back.
local function try(what, limit, fn, ...)
    local began = core.now()
    local results = table.pack(pcall(fn, ...))
    local took = core.now() - began
    if took > limit + GRACE then
        complain("takes too long", what, tostring(took))
    end
    if not results[1] then
        local problem = results[2]
        if type(problem) ~= "string" then
            complain("raises what is no string", what, tostring(problem))
        elseif problem ~= "mine" and (problem:find("attempt to", 1, true) or problem:find("zklock/", 1, true)) then
            complain("trips over itself", what, problem)
        end
        return nil
    end
    if results[2] == nil and results.n >= 4 and results[4] ~= nil and type(results[3]) == "string" then
        if not CODES[results[4]] then
            complain("an unknown code", what, tostring(results[4]))
        elseif results[3] == "" then
            complain("an empty message", what)
        end
    end
    return table.unpack(results, 2, results.n)
end

local TIMEOUTS = { 0, 0.001, 0.002, 0.005 }

local function timeout()
    return pick(TIMEOUTS)
end

local client, objects

local function remember(object)
    if object ~= nil then
        objects[#objects + 1] = object
        if #objects > 12 then
            table.remove(objects, take() % 12 + 1)
        end
    end
    return object
end

local OPTIONS = {
    function(settings) settings.reentrant = true end, function(settings) settings.handoff = take() % 3 end,
    function(settings) settings.linger = 0.02 end, function(settings) settings.max_hold = 0.05 end,
    function(settings) settings.on_lost = function() end end, function(settings) settings.on_revoke = function() end end,
    function(settings) settings.identity = "somebody" end, function(settings) settings.wait_release = false end,
}

local function settings()
    local made = {}
    for _ = 1, take() % 3 do
        pick(OPTIONS)(made)
    end
    return made
end

local MAKE = {
    function() return client:mutex(pick(PATHS), settings()) end,
    function() return client:mutex(pick(PATHS), settings()) end,
    function() return client:rwlock(pick(PATHS), settings()) end,
    function() return client:semaphore("/sem", 1 + take() % 3, settings()) end,
    function()
        local members = {}
        for index = 1, 1 + take() % 3 do
            members[index] = client:mutex(PATHS[index])
        end
        return client:multi(members)
    end,
    function() return client:transaction() end,
}

local lines_of = setmetatable({}, { __index = function(lines_of, path)
    local lines = {}
    for line in io.lines(path) do
        lines[#lines + 1] = line
    end
    lines_of[path] = lines
    return lines
end })

--- Whether the module's files call a function of each other: it is no method of an object, and defined with a dot.
local function is_internal(fn)
    local its = debug.getinfo(fn, "S")
    return its.what == "Lua" and lines_of[its.source:sub(2)][its.linedefined]:find "^function [%w_]+%." ~= nil
end

--- The methods of an object that a program can have, in the order of their names, so that a byte always chooses the same method.
local function methods_of(object)
    local names = {}
    local meta = getmetatable(object)
    local class = type(meta) == "table" and meta.__index
    while type(class) == "table" do
        for name, value in pairs(class) do
            if type(value) == "function" and type(name) == "string" and not name:find "^_" and not is_internal(value) then
                names[#names + 1] = name
            end
        end
        meta = getmetatable(class)
        class = type(meta) == "table" and meta.__index
    end
    table.sort(names)
    return names
end

local function body(lock)
    if lock and type(lock.held) == "function" then
        lock:held()
    end
    local choice = take() % 4
    if choice == 0 then
        error("mine", 0)
    elseif choice == 1 and lock and lock.release then
        lock:release()
    end
    return "result"
end

--- Valid arguments for a method, as far as there are any.
local ARGUMENTS = {
    acquire = function() return timeout() end,
    with_lock = function() return body, timeout() end,
    with_read = function() return body, timeout() end,
    with_write = function() return body, timeout() end,
    contenders = function() return timeout() end, revoke = function() return timeout() end,
    available = function() return timeout() end, flush = function() return timeout() end,
    commit = function() return timeout() end, wait = function() return timeout() end,
    close = function() return timeout() end,
    mutex = function() return pick(PATHS), settings() end, rwlock = function() return pick(PATHS), settings() end,
    semaphore = function() return "/sem", 1 + take() % 3 end,
    multi = function() return { client:mutex(pick(PATHS)) } end,
    on = function() return "state", function() end end,
    get = function() return pick(PATHS), { timeout = timeout(), watch = take() % 2 == 0 } end,
    exists = function() return pick(PATHS), { timeout = timeout(), watch = take() % 2 == 0 } end,
    children = function() return pick(PATHS), { timeout = timeout(), watch = take() % 2 == 0 } end,
    set = function() return pick(PATHS), "data", { timeout = timeout() } end,
    create = function() return pick(PATHS), "data", { timeout = timeout() } end,
    delete = function() return pick(PATHS), { timeout = timeout() } end,
    check = function() return pick(PATHS) end,
}

--- Shortens long waits: only programs that know that a wait ends may wait without a timeout.
local function ends(arguments)
    for index = 1, arguments.n do
        local value = arguments[index]
        if type(value) == "number" and value > 1 then
            arguments[index] = 0.002
        end
    end
    return arguments
end

local BLOCKING = {
    acquire = 1, with_lock = 2, with_read = 2, with_write = 2, contenders = 1, revoke = 1, available = 1, flush = 1, commit = 1,
    wait = 1, close = 1
}

--- The position of the settings of methods that wait for ever without settings.
local SETTINGS = { get = 2, exists = 2, children = 2, sync = 2, delete = 2, set = 3, create = 3 }

local function call_something()
    local object = #objects > 0 and take() % 4 > 0 and pick(objects) or client
    local names = methods_of(object)
    local name = pick(names)
    if object == client and name == "close" and take() % 8 ~= 0 then
        name = "stats"
    end
    local arguments
    if take() % 4 > 0 and ARGUMENTS[name] then
        arguments = table.pack(ARGUMENTS[name]())
    else
        arguments = { n = take() % 4 }
        for index = 1, arguments.n do
            arguments[index] = strange()
        end
        arguments = ends(arguments)
    end
    local place = BLOCKING[name]
    if place and (arguments[place] == nil or arguments[place] ~= arguments[place] or type(arguments[place]) == "table") then
        arguments[place], arguments.n = 0.002, math.max(arguments.n, place)
    end
    place = SETTINGS[name]
    if place and (arguments[place] == nil or type(arguments[place]) == "table" and next(arguments[place]) == nil) then
        arguments[place], arguments.n = { timeout = 0.002 }, math.max(arguments.n, place)
    end
    local result = try(name, 0.1, object[name], object, table.unpack(arguments, 1, arguments.n))
    if type(result) == "table" and getmetatable(result) and result ~= object then
        remember(result)
    end
end

--- Complains if two holds are held that cannot be held together.
local function check_exclusion()
    local holders = {}
    for _, object in ipairs(objects) do
        if type(object) == "table" and tostring(object):find "^zklock hold %(mutex" and object:held() then
            local path = object:path()
            if holders[path] and holders[path] ~= object then
                complain("two hold", path)
            end
            holders[path] = object
        end
    end
end

local function connect()
    return assert(zklock.connect(servers, { wait = "blocking", connect_timeout = 30, session_timeout = 4 }))
end

--- One program.
function run(bytes)
    at, program, objects = 0, bytes, {}
    if not client or client:state() == "closed" or client:desk().closing then
        client = connect()
    end
    for _ = 1, 24 do
        if at >= #program then
            break
        end
        local choice = take() % 8
        if choice < 2 then
            remember(try("make", 0, pick(MAKE)))
        elseif choice == 2 and #objects > 0 then
            local object = pick(objects)
            if type(object) == "table" and type(object.read) == "table" and take() % 2 == 0 then -- not a function of its class
                remember(object.read)
                remember(object.write)
            end
        elseif choice == 3 then
            collectgarbage()
        else
            call_something()
        end
        if client:state() == "closed" or client:desk().closing then
            client = connect()
            objects = {}
        end
        check_exclusion()
    end
    for _, object in ipairs(objects) do
        if type(object) == "table" and object.release then
            try("release", 1, object.release, object)
        end
    end
    objects = {}
    collectgarbage()
end

function finish()
    client:close()
    client = nil
end
