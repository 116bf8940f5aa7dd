--- acquirer: a process with one client and one semaphore, driven by commands on standard input. Each command is answered by a line.
--
-- Arguments: servers, path, permits, session timeout in seconds.

local zklock = require "zklock"

io.stdout:setvbuf("line")

local client = assert(zklock.connect(arg[1], { session_timeout = tonumber(arg[4]), connect_timeout = 20 }))
local semaphore = client:semaphore(arg[2], tonumber(arg[3]))

local commands = {}

--- Prints "ok" or the code.
function commands.take(count)
    local taken, _, code = semaphore:acquire({ count = tonumber(count), timeout = 30 })
    print(taken and "ok" or code)
end

--- Acquires `count` permits and releases them, `rounds` times. Prints "ok" or the first code.
function commands.rounds(rounds, count)
    for _ = 1, tonumber(rounds) do
        local taken, _, code = semaphore:acquire({ count = tonumber(count), timeout = 40 })
        if not taken then
            print(code)
            return
        end
        assert(semaphore:release())
    end
    print("ok")
end

function commands.exit()
    os.exit(0)
end

print("ready")
for line in io.lines() do
    local name, rest = line:match("^(%S+)%s*(.*)$")
    commands[name](rest:match("^(%S*)%s*(%S*)$"))
end
