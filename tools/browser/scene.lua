--- browser/scene: locks with holders, waiters and a crash, for pictures of the live view and its tests.
--
--   scene.lua SERVERS ROOT [many]        until its standard input ends; prints "ready" first
--
-- Below ROOT: a mutex with a queue that moves, a read/write lock, a semaphore, a lock whose holder is killed after some seconds, a
-- lock that is held for much longer than usual. With "many": a thousand more locks. Needs luv, and zklock's modules in its paths.

local uv = require "luv"
local zklock = require "zklock"

local servers, root, many = arg[1], arg[2], arg[3] == "many"

--- Seconds of a session: so much later a killed holder's lock passes on.
local SESSION = 8

local function sleep(seconds)
    local thread, timer = coroutine.running(), uv.new_timer()
    timer:start(math.floor(seconds * 1000), 0, function()
        timer:close()
        assert(coroutine.resume(thread))
    end)
    coroutine.yield()
end

local function go(fn)
    local ok, problem = coroutine.resume(coroutine.create(fn))
    assert(ok, problem)
end

local function connect(identity)
    return assert(zklock.connect(servers, { session_timeout = SESSION, identity = identity, wait = "luv" }))
end

--- Takes a lock again and again, for so many seconds each time, with pauses between.
local function take_turns(lock, hold, pause, first)
    go(function()
        sleep(first or 0)
        while true do
            assert(lock:acquire(600))
            sleep(hold * (0.6 + math.random() * 0.8))
            lock:release()
            sleep(pause * (0.5 + math.random()))
        end
    end)
end

math.randomseed(4711)

for index, name in ipairs { "web1:4711", "web2:4803", "web3:511", "web4:9020", "batch7:77" } do
    take_turns(connect(name):mutex(root .. "/orders/checkout"), 3, 2, index * 0.3)
end
for index = 1, 3 do
    take_turns(connect("reader-" .. index .. ":80"):rwlock(root .. "/catalog").read, 4, 3, index)
end
take_turns(connect("importer:31"):rwlock(root .. "/catalog").write, 2.5, 6, 2)
for index = 1, 5 do
    take_turns(connect("mail" .. index .. ":25"):semaphore(root .. "/mail/connections", 3), 5, 2, index * 0.4)
end
take_turns(connect("指挥官:8"):mutex(root .. "/倉庫/东京"), 4, 5)
local quick = connect "cron3:1":mutex(root .. "/reports/nightly")
go(function() -- many short holds, and then a long one
    for _ = 1, 26 do
        assert(quick:acquire(60))
        sleep(1.3)
        quick:release()
        sleep(1.1)
    end
    assert(quick:acquire(60))
    sleep(3600)
end)

-- A holder that is killed, and its successor.
local directory = arg[0]:match "^(.*)/tools/" or "."
local child
go(function()
    local output = uv.new_pipe(false)
    sleep(2)
    child = uv.spawn(arg[-1], {
        args = { directory .. "/lua/zklock/cli/main.lua", "hold", "--session-timeout", tostring(SESSION), root .. "/deploy" },
        env = { "LUA_PATH=" .. package.path, "LUA_CPATH=" .. package.cpath, "ZKLOCK_SERVERS=" .. servers,
            "ZKLOCK_IDENTITY=deployer:9", "ZKLOCK_CONFIG=" },
        stdio = { uv.new_pipe(false), output, nil }
    }, function() end)
    output:read_start(function(_, line) -- it holds
        if line then
            output:read_stop()
            go(function()
                sleep(3)
                take_turns(connect("deployer:10"):mutex(root .. "/deploy"), 8, 4)
                sleep(6)
                child:kill "sigkill"
            end)
        end
    end)
end)

if many then
    local client = connect "filler:1"
    for index = 1, 1000 do
        local lock = client:mutex(("%s/stock/%04d"):format(root, index), { identity = ("shop%d:%d"):format(index % 17, index) })
        go(function()
            assert(lock:acquire(60))
            sleep(86400)
        end)
    end
end

local stdin = uv.new_pipe(false)
stdin:open(0)
stdin:read_start(function(_, chunk)
    if not chunk then
        os.exit(0) -- the sessions end by themselves
    end
end)
io.stdout:write "ready\n"
io.stdout:flush()
uv.run()
