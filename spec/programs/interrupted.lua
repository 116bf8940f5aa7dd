--- interrupted: waits for a lock until Ctrl-C, then shows that its client still works.
--
-- Arguments: servers, path. Prints "waiting"; after SIGINT the raised error, whether the lock object can be used again, how many
-- contenders its path has, and "ok" if it can acquire another lock.

local zklock = require "zklock"

io.stdout:setvbuf("line")

local client = assert(zklock.connect(arg[1], { session_timeout = 20, connect_timeout = 20 }))
local lock = client:mutex(arg[2])
print("waiting")
local ok, problem = pcall(lock.acquire, lock)
print(ok, problem)
assert(client:flush(10))
print(select(3, lock:try_acquire()))
print(#assert(client:mutex(arg[2]):contenders(10)))
print(client:mutex(arg[2] .. "-other"):with_lock(function()
    return "ok"
end, 10))
