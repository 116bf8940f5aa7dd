--- forker: holds a lock, forks, and says what the child and then the parent find.
--
-- Arguments: servers, path. Needs luaposix.

local unistd = require "posix.unistd"
local wait = require "posix.sys.wait"
local zklock = require "zklock"

local client = assert(zklock.connect(arg[1], { session_timeout = 20, connect_timeout = 20 }))
local lock = client:mutex(arg[2])
assert(lock:acquire(10))
io.stdout:flush()
local pid = unistd.fork()
if pid == 0 then
    print("child held", lock:held())
    print("child state", select(3, client:state()))
    print("child acquire", select(3, client:mutex(arg[2]):acquire(5)))
    print("child release", select(3, lock:release()))
    print("child close", select(3, client:close()))
    print("child", tostring(client):match("%(.*, (%a+)%)"))
    lock, client = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    io.stdout:flush()
    os.exit(0)
end
local _, reason, status = wait.wait(pid)
print("child ended", reason, status)
print("parent held", lock:held())
print("parent release", lock:release())
