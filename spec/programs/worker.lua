--- worker: one client and one mutex in a process of their own, driven by commands on standard input, a line of answer
-- each.
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

--- "ok" or the code.
function commands.acquire(timeout)
    say(outcome(lock:acquire(tonumber(timeout))))
end

--- Says "waiting", then waits until somebody ends that.
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

--- Watches its own hold without a rest until it is gone. The clock is read before each look: of two looks that both found
-- it held, the later one did not come after a standstill of nearly a session, wherever that began.
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

--- Ends without running anything of Lua's own.
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
