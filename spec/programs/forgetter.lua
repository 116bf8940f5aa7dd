--- forgetter: acquires a lock in an event loop and drops it; or, in cqueues, waits for a lock in a controller that it drops. Then
-- it only waits for another lock, so that it makes no garbage.
--
-- Arguments: servers, loop ("cqueues", "luv", "copas"), "lock" or "controller", the path that is dropped, and a path whose lock is
-- taken. Prints "forgotten".

local zklock = require "zklock"

io.stdout:setvbuf("line")

local loop, what, path = arg[2], arg[3], arg[4]
local client = assert(zklock.connect(arg[1], { session_timeout = 40, connect_timeout = 20, wait = loop }))
local other = client:mutex(arg[5])

--- A separate function, so that nothing of its stack is left.
local function forget()
    if what == "lock" then
        assert(client:mutex(path):acquire(20))
        return
    end
    local controller = require("cqueues").new()
    controller:wrap(function()
        client:mutex(path):acquire(50)
    end)
    repeat
        assert(controller:step(0.05))
    until #assert(client:children(path)) == 2
end

local function work()
    if what == "lock" then
        forget()
    end
    print("forgotten")
    other:acquire(50)
end

if what ~= "lock" then
    forget()
end
if loop == "luv" then
    coroutine.wrap(work)()
    require("luv").run()
elseif loop == "cqueues" then
    local controller = require("cqueues").new()
    controller:wrap(work)
    assert(controller:loop())
else
    local copas = require "copas"
    copas.addthread(work)
    while true do
        copas.step(60)
    end
end
