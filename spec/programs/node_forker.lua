--- node_forker: reads and watches a node, forks, and prints what the child and then the parent find.
--
-- Arguments: servers, path of an existing node. Needs luaposix.

local unistd = require "posix.unistd"
local wait = require "posix.sys.wait"
local zklock = require "zklock"

local client = assert(zklock.connect(arg[1], { session_timeout = 20, connect_timeout = 20 }))
local _, _, watch = assert(client:get(arg[2], { watch = true }))
local transaction = client:transaction():set(arg[2], "child")
io.stdout:flush()
local pid = unistd.fork()
if pid == 0 then
    print("child get", select(3, client:get(arg[2])))
    print("child set", select(3, client:set(arg[2], "child")))
    print("child commit", select(3, transaction:commit()))
    print("child watch", select(3, watch:wait(5)))
    watch:cancel()
    watch, transaction, client = nil, nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    io.stdout:flush()
    os.exit(0)
end
local _, reason, status = wait.wait(pid)
print("child ended", reason, status)
print("parent get", (client:get(arg[2])))
print("parent set", client:set(arg[2], "parent").version)
print("parent watch", watch:wait(10))
