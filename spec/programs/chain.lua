--- chain: acquires mutexes one after the other, in the given order, and releases them all, as often as it is told.
--
-- Arguments: servers, how often, paths. Prints "ready", begins on a line of input, ends with "ok" or the first code.

local zklock = require "zklock"

io.stdout:setvbuf("line")

local client = assert(zklock.connect(arg[1], { session_timeout = 20, connect_timeout = 20 }))
local locks = {}
for index = 3, #arg do
    locks[#locks + 1] = client:mutex(arg[index])
end
print("ready")
io.read("*l")
for _ = 1, tonumber(arg[2]) do
    for _, lock in ipairs(locks) do
        local got, _, code = lock:acquire(40)
        if not got then
            print(code)
            os.exit(1)
        end
    end
    for index = #locks, 1, -1 do
        assert(locks[index]:release())
    end
end
client:close()
print("ok")
