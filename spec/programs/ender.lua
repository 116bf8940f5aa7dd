--- ender: ends its main chunk while one of its coroutines waits for a lock.
--
-- Arguments: servers, path. Prints "waiting" when the coroutine waits, and ends at the next line of input.

local loop = require "spec.support.loop"
local zklock = require "zklock"

local client = assert(zklock.connect(arg[1], { session_timeout = 30, connect_timeout = 20, wait = loop }))
local waiter = coroutine.create(function()
    client:mutex(arg[2]):acquire()
end)
assert(coroutine.resume(waiter))
print(coroutine.status(waiter) == "suspended" and "waiting" or coroutine.status(waiter))
io.stdout:flush()
io.read()
