--- in_luv: acquires a lock in a coroutine under luv, and ends without releasing it or closing its client.
--
-- Arguments: servers, path.

local uv = require "luv"
local zklock = require "zklock"

local servers, path = arg[1], arg[2]

io.stdout:setvbuf("line")

coroutine.wrap(function()
    local client = assert(zklock.connect(servers, { wait = "luv", connect_timeout = 20 }))
    assert(client:mutex(path):acquire(20))
    print("held")
end)()
uv.run()
print("ended")
