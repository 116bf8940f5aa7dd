--- callback_forker: asks by callbacks for a lock that another client has, for a node, for a watch and for leadership, forks, and
-- prints what the child and then the parent are called with.
--
-- Arguments: servers, path of a lock that is held, path of an existing node. Needs luaposix.

local core = require "zklock.core"
local unistd = require "posix.unistd"
local wait = require "posix.sys.wait"
local zklock = require "zklock"

local client = assert(zklock.connect(arg[1], { wait = "blocking", session_timeout = 20, connect_timeout = 20 }))
local _, _, watch = assert(client:get(arg[3], { watch = true }))
local process, answers = "parent", 0
local function note(name)
    return function(result, _, code)
        answers = answers + 1
        print(process, name, result and type(result) or code)
    end
end
assert(client:mutex(arg[2]):acquire { timeout = 60, callback = note("lock") })
assert(watch:wait { timeout = 60, callback = note("watch") })
local leader = assert(client:leader(arg[2] .. "-leader", { on_elected = note("elected"), on_lost = note("lost") }))
local function run_until(count)
    while answers < count do
        core.poll(client:pollfd(), 60)
        client:pump()
    end
end
run_until(1) -- elected
assert(client:flush(20))
io.stdout:flush()
local pid = unistd.fork()
if pid == 0 then
    process = "child"
    client:pump()
    client:pump()
    print("child", "acquire", select(3, client:mutex(arg[2]):acquire { callback = note("lock again") }))
    print("child", "get", select(3, client:get("/", { callback = note("get") })))
    print("child", "leader", select(3, client:leader(arg[2], {})))
    print("child", "leads", leader:is_leader())
    client:pump()
    io.stdout:flush()
    os.exit(0)
end
local _, reason, status = wait.wait(pid)
print("child ended", reason, status)
assert(client:set(arg[3], "new"))
assert(client:delete(arg[2] .. "/" .. arg[4])) -- the holder's node
run_until(3)
print("parent", "leads", leader:is_leader())
