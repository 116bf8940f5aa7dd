--- forker: holds a lock, forks, and says what the child and then the parent find.
--
-- Arguments: servers, path. Needs luaposix.

local unistd = require "posix.unistd"
local wait = require "posix.sys.wait"
local core = require "zklock.core"
local zklock = require "zklock"

local client = assert(zklock.connect(arg[1], { session_timeout = 20, connect_timeout = 20 }))
local lock = client:mutex(arg[2])
assert(lock:acquire(10))
local transaction, multi = lock:transaction():delete(arg[2]), client:multi { client:mutex(arg[2] .. "-other") }
local alarm = core.alarm()
io.stdout:flush()
local pid = unistd.fork()
if pid == 0 then
    print("child held", lock:held())
    print("child token", lock:token())
    print("child stats", select(3, client:stats()))
    print("child flush", select(3, client:flush(5)))
    print("child contenders", select(3, lock:contenders(5)))
    print("child commit", select(3, transaction:commit(5)))
    print("child multi", select(3, multi:acquire(5)))
    print("child try", select(3, client:mutex(arg[2]):try_acquire()))
    print("child session timeout", client:session_timeout())
    print("child pump", pcall(client.pump, client), client:needs_pump())
    print("child state", select(3, client:state()))
    print("child acquire", select(3, client:mutex(arg[2]):acquire(5)))
    print("child release", select(3, lock:release()))
    print("child close", select(3, client:close()))
    print("child", tostring(client):match("%(.*, (%a+)%)"))
    alarm:set(0)
    print("child alarm", core.poll(alarm:fd(), 10))
    lock, client, transaction, multi = nil, nil, nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    io.stdout:flush()
    os.exit(0)
end
local _, reason, status = wait.wait(pid)
print("child ended", reason, status)
print("parent held", lock:held())
print("parent release", lock:release())
