--- luv_forker: forks in a loop of luv while it holds a lock; the child closes its Lua state, and with it all handles of the loop,
-- which the kernel's poll shares. Then the parent waits for a lock that a coroutine of another client releases.
--
-- Arguments: servers, path. Needs luaposix.

local unistd = require "posix.unistd"
local uv = require "luv"
local wait = require "posix.sys.wait"
local zklock = require "zklock"

local options = { wait = "luv", session_timeout = 20, connect_timeout = 20 }

coroutine.wrap(function()
    local client, other = assert(zklock.connect(arg[1], options)), assert(zklock.connect(arg[1], options))
    local lock, held = client:mutex(arg[2]), assert(other:mutex(arg[2] .. "-other"):acquire(20))
    assert(lock:acquire(20))
    local pid = unistd.fork()
    if pid == 0 then
        os.exit(0, true)
    end
    print("child ended", (select(2, wait.wait(pid))))
    local timer = uv.new_timer()
    timer:start(10, 0, function()
        timer:close()
        held:begin_release()
    end)
    print("parent got", client:mutex(arg[2] .. "-other"):acquire() ~= nil)
    print("parent held", lock:held())
    os.exit(0)
end)()
uv.run()
