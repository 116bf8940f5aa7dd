--- keeper: a client with a credential that is neither among its arguments nor in its environment. The credential comes on standard
-- input, backwards, so that the program itself makes the only copy that reads forwards. Driven by commands; each is answered by a
-- line.
--
-- Arguments: servers, path.

local zklock = require "zklock"

local servers, path = arg[1], arg[2]

io.stdout:setvbuf("line")

local credential, client, lock

local lines = {}

local function log(level, message)
    lines[#lines + 1] = level .. " " .. message
end

local commands = {}

function commands.learn(backwards)
    credential = backwards:reverse()
    print("ok")
end

local function options()
    return { auth = { { scheme = "digest", credential = credential } }, acl = "creator", log = log, connect_timeout = 20 }
end

function commands.open()
    client = assert(zklock.connect(servers, options()))
    lock = client:mutex(path)
    print("ok")
end

--- A client without a ZooKeeper handle: the C client does not connect to a name that cannot be resolved.
function commands.open_nowhere()
    local settings = options()
    settings.connect_timeout = 0
    client = assert(zklock.connect("no-such-host.invalid:2181", settings))
    print("ok")
end

function commands.share()
    client = assert(zklock.shared(servers, options()))
    lock = client:mutex(path)
    print("ok")
end

function commands.cycle()
    assert(lock:acquire(20))
    assert(lock:release())
    print("ok")
end

--- Drops the credential and collects it.
function commands.forget()
    credential = nil
    collectgarbage()
    collectgarbage()
    print("ok")
end

function commands.close()
    client:close()
    client, lock = nil, nil
    collectgarbage()
    collectgarbage()
    print("ok")
end

--- Counts the strings that match a pattern among everything that Lua can still reach from the registry. (Strings that only a local
-- variable of a running function has are not found; those of this program are upvalues.)
function commands.reachable(pattern)
    local seen, found, todo = {}, 0, { debug.getregistry(), commands }
    local function note(value)
        local kind = type(value)
        if kind == "string" then
            found = found + (value ~= pattern and value:find(pattern) and 1 or 0)
        elseif kind ~= "nil" and kind ~= "number" and kind ~= "boolean" and not seen[value] then
            seen[value] = true
            todo[#todo + 1] = value
        end
    end
    seen[todo] = true
    while todo[1] do
        local value = table.remove(todo)
        note(debug.getmetatable(value))
        if type(value) == "table" and value ~= todo then
            for name, field in next, value do
                note(name)
                note(field)
            end
        elseif type(value) == "function" then
            local index = 1
            while debug.getupvalue(value, index) do
                note((select(2, debug.getupvalue(value, index))))
                index = index + 1
            end
        elseif type(value) == "userdata" then
            note((debug.getuservalue or debug.getfenv)(value))
        end
    end
    print(found)
end

--- The log so far as one line.
function commands.log()
    print((table.concat(lines, "; "):gsub("\n", " ")))
end

print("ready")
for line in io.lines() do
    local name, argument = line:match("^(%S+)%s*(.*)$")
    commands[name](argument)
end
