--- worker: a process with one client and one mutex, driven by commands on standard input. Each command is answered by a line.
--
-- Arguments: servers, path, session timeout in seconds.

local zklock = require "zklock"
local core = require "zklock.core"

local servers, path, session_timeout = arg[1], arg[2], tonumber(arg[3])

io.stdout:setvbuf("line")

local client = assert(zklock.connect(servers, { session_timeout = session_timeout, connect_timeout = 20 }))
local lock = client:mutex(path)

local commands = {}

local function say(...)
    local words = {}
    for index = 1, select("#", ...) do
        words[index] = tostring((select(index, ...)))
    end
    print(table.concat(words, " "))
end

local function outcome(value, _, code)
    return value and "ok" or code
end

--- Prints "ok" or the code.
function commands.acquire(timeout)
    say(outcome(lock:acquire(tonumber(timeout))))
end

--- Prints "waiting", then waits until the wait is ended from outside.
function commands.wait()
    say("waiting")
    say(outcome(lock:acquire()))
end

function commands.release()
    say(outcome(lock:release()))
end

function commands.held()
    say(lock:held())
end

function commands.token()
    say(lock:token())
end

function commands.node()
    say(lock:node())
end

--- Checks its own hold in a busy loop until it is gone. The clock is read before each check: of two checks that both found it held,
-- the later one did not come after a standstill of nearly a session, wherever that began.
function commands.spin()
    say("spinning")
    local before = core.now()
    local longest = 0
    while true do
        local now = core.now()
        if not lock:held() then
            break
        end
        longest = math.max(longest, now - before)
        before = now
    end
    say("lost", longest < session_timeout / 2 and "in no pause" or "too late")
end

function commands.forget()
    lock = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    say("ok")
end

function commands.close()
    say(outcome(client:close()))
end

function commands.raise()
    error("raised while holding")
end

--- Ends without running any clean-up of Lua's.
function commands.exit()
    os.exit(0)
end

--- Ends by the end of the main chunk, i.e. lua_close.
function commands.fall()
    return true
end

say("ready")
for line in io.lines() do
    local name, argument = line:match("^(%S+)%s*(.*)$")
    if commands[name](argument) then
        break
    end
end
