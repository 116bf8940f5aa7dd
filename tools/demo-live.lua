--- The seckill story with the live view open: 800 buyers want 288 pieces, 36 of each of 8 items, from two services. Service 2 is
-- killed in the middle. At a speed that a person can follow: it takes about two minutes, and ends by itself.
--
--   tools/zookeeper run -- lua5.4 tools/demo-live.lua [SPEED]        (ZOOKEEPER in the environment; a SPEED of 2 is twice as fast)
--
-- Called by `make demo-live`. Fails unless each piece was sold exactly once and each buyer has an answer.
--
-- A service reads lines "BUYER ITEM" and answers "BUYER lucky" or "BUYER late". A buyer holds the lock of the item while the
-- service looks at the stock, thinks, and writes the sale. The write is a transaction of the lock, so a service that has lost the
-- lock sells nothing; and it records the buyer's number, so a buyer who asks again buys nothing twice.

local uv = require "luv"
local zklock = require "zklock"

local BUYERS, ITEMS, PIECES = 800, 8, 36

--- A service works for so many buyers at a time, and takes so many seconds for each.
local WORKERS, PURCHASE = 36, 1.5

--- Seconds of a session: so much later the locks of the killed service pass on.
local SESSION = 6

local ROOT = "/seckill"

local function go(fn)
    local ok, problem = coroutine.resume(coroutine.create(fn))
    assert(ok, problem)
end

local function sleep(seconds)
    local thread, timer = coroutine.running(), uv.new_timer()
    timer:start(math.ceil(seconds * 1000), 0, function()
        timer:close()
        assert(coroutine.resume(thread))
    end)
    coroutine.yield()
end

--- Calls `fn` with each line of a stream, and with nil at its end.
local function each_line(stream, fn)
    local text = ""
    stream:read_start(function(_, chunk)
        text = text .. (chunk or "")
        for line in text:gmatch "([^\n]*)\n" do
            fn(line)
        end
        text = text:match "([^\n]*)$"
        if not chunk then
            fn(nil)
        end
    end)
end

local function item_path(item)
    return ("%s/item-%s"):format(ROOT, item)
end

local function stock_path(item)
    return ("/stock/item-%s"):format(item)
end

-- A service -----------------------------------------------------------------------------------------------------------

--- Buys a piece. Returns "lucky" or "late"; nil: try again.
local function buy(client, buyer, item, pause)
    local lock = client:mutex(item_path(item), { identity = ("buyer %s by service %s"):format(buyer, arg[2]), handoff = 0 })
    if not lock:acquire(120) then
        return nil
    end
    local sold, stat = client:get(stock_path(item))
    local answer
    if sold and (" " .. sold):find(" " .. buyer .. " ", 1, true) then
        answer = "lucky" -- it was sold before the answer was lost
    elseif sold and select(2, sold:gsub(" ", "")) >= PIECES then
        answer = "late"
        sleep(pause / 4)
    elseif sold then
        sleep(pause)
        local written = lock:transaction():set(stock_path(item), sold .. buyer .. " ", stat.version):commit(20)
        answer = written and "lucky" or nil
    end
    lock:release()
    return answer
end

local function serve(servers, speed)
    local client = assert(zklock.connect(servers, { session_timeout = SESSION, wait = "luv" }))
    local stdin, wanted, idle = uv.new_pipe(false), {}, 0
    local function work()
        while wanted[1] do
            local buyer, item = table.remove(wanted, 1):match "^(%d+) (%d+)$"
            local answer
            repeat
                answer = buy(client, buyer, item, PURCHASE * (0.5 + math.random()) / speed)
            until answer
            io.stdout:write(buyer, " ", answer, "\n")
            io.stdout:flush()
        end
        idle = idle + 1
    end
    idle = WORKERS
    stdin:open(0)
    each_line(stdin, function(line)
        if not line then
            os.exit(0)
        end
        wanted[#wanted + 1] = line
        if idle > 0 then
            idle = idle - 1
            go(work)
        end
    end)
    uv.run()
end

-- The story -----------------------------------------------------------------------------------------------------------

local function environment(servers)
    return { "LUA_PATH=" .. package.path, "LUA_CPATH=" .. package.cpath, "ZKLOCK_SERVERS=" .. servers, "ZKLOCK_CONFIG=",
        "PATH=" .. os.getenv "PATH" }
end

--- Starts a program of Lua. `on_line` is called with each line of its output.
local function start(servers, words, on_line)
    local to, from = uv.new_pipe(false), uv.new_pipe(false)
    local process, problem = uv.spawn(arg[-1], {
        args = words, env = environment(servers), stdio = { to, from, 2 }
    }, function() end)
    assert(process, problem)
    each_line(from, function(line)
        if line then
            on_line(line)
        end
    end)
    return { process = process, to = to }
end

local function say(text, ...)
    print(text:format(...))
    io.stdout:flush()
end

local function tell(servers, speed)
    local client = assert(zklock.connect(servers, { wait = "luv" }))
    assert(client:create("/stock"))
    for item = 1, ITEMS do
        assert(client:create(stock_path(item), ""))
    end
    local address
    local listen = os.getenv "ZKLOCK_DEMO_LISTEN" or "127.0.0.1:0"
    local view = start(servers, { "lua/zklock/cli/main.lua", "ui", "--listen", listen, ROOT }, function(line)
        address = address or line
    end)
    while not address do
        uv.run "once"
    end
    say("The locks, live:  %s\n", address)
    say("%d buyers want %d pieces of each of %d items. Two services sell them.", BUYERS, PIECES, ITEMS)

    local open, answers, answered, lucky = {}, {}, 0, 0 -- open: service -> set of buyers
    local services, killed = {}, false
    local function ask(service, buyer)
        service = killed and 1 or service
        open[service][buyer] = true
        services[service].to:write(("%d %d\n"):format(buyer, buyer % ITEMS + 1))
    end
    for service = 1, 2 do
        open[service] = {}
        services[service] = start(servers, { arg[0], "service", tostring(service), servers, tostring(speed) }, function(line)
            local buyer, answer = line:match "^(%d+) (%a+)$"
            buyer = tonumber(buyer)
            open[service][buyer] = nil
            if not answers[buyer] then
                answers[buyer], answered = answer, answered + 1
                lucky = lucky + (answer == "lucky" and 1 or 0)
            end
        end)
    end
    go(function()
        for buyer = 1, BUYERS do -- as fast as a crowd that has waited for the hour
            ask(math.floor(buyer / ITEMS) % 2 + 1, buyer)
            sleep(0.02 / speed)
        end
    end)
    go(function()
        while answered < BUYERS do
            sleep(2 / speed)
            say("  %3d of %d buyers have an answer, %3d pieces are sold", answered, BUYERS, lucky)
            if not killed and lucky >= PIECES * ITEMS / 3 then
                killed = true
                say("Service 2 is killed. Its locks turn red when its session ends; its buyers ask service 1.")
                services[2].process:kill "sigkill"
                for buyer in pairs(open[2]) do
                    ask(1, buyer)
                end
            end
        end
        sleep(3 / speed)
        uv.stop()
    end)
    uv.run()

    local sold, owners, twice = 0, {}, 0
    for item = 1, ITEMS do
        for buyer in assert(client:get(stock_path(item))):gmatch "%d+" do
            sold = sold + 1
            twice = twice + (owners[buyer] and 1 or 0)
            owners[buyer] = true
        end
    end
    for _, child in ipairs { services[1], view } do
        child.process:kill "sigterm"
    end
    client:close()
    local right = sold == ITEMS * PIECES and twice == 0 and lucky == sold and answered == BUYERS
    say("\n%d pieces were sold to %d different buyers, %d of %d buyers have an answer: %s", sold, sold - twice, answered, BUYERS,
        right and "each piece exactly once." or "this is wrong.")
    return right
end

if arg[1] == "service" then
    serve(arg[3], tonumber(arg[4]))
else
    os.exit(tell(assert(os.getenv "ZOOKEEPER", "ZOOKEEPER is not set"), tonumber(arg[1]) or 1) and 0 or 1)
end
