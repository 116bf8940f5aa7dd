--- forker: holds a lock, forks, and prints what the child and then the parent find.
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

-- Coroutines that wait while the process forks: this client never connects.
local other = assert(zklock.connect("127.0.0.1:1", { session_timeout = 20, connect_timeout = 0, wait = {
    wait = function()
        coroutine.yield()
        return true
    end,
    wake = function() end
} }))
local waiting = {
    coroutine.create(function()
        return other:mutex(arg[2]):acquire(30)
    end),
    coroutine.create(function()
        return other:mutex(arg[2]):contenders(30)
    end),
    coroutine.create(function()
        return other:get("/", { timeout = 30 })
    end)
}
for _, thread in ipairs(waiting) do
    assert(coroutine.resume(thread))
end

io.stdout:flush()
local pid = unistd.fork()
if pid == 0 then
    for _, thread in ipairs(waiting) do
        print("child waited", select(4, coroutine.resume(thread)))
    end
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
other:close(0)
print("child ended", reason, status)
print("parent held", lock:held())
print("parent release", lock:release())
io.stdout:flush()
for _, one in ipairs({ client:mutex(arg[2]), client:multi({ client:mutex(arg[2]) }) }) do
    local done, _, code = one:with_lock(function()
        pid = unistd.fork()
    end)
    if pid == 0 then
        print("child with_lock", done, code)
        io.stdout:flush()
        os.exit(0)
    end
    wait.wait(pid)
    print("parent with_lock", done)
    io.stdout:flush()
end
