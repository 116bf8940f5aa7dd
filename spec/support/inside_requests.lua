--- support.inside_requests: functions inside nginx for specs of requests that end while they hold.
--
-- A request *holds* under a name until the spec requests "/go", and then ends in one of several ways. If nginx keeps the request
-- alive, it lasts until the spec requests "/stop". Both words, and the number of held names, are in the shared dictionary, since
-- there are several workers.

local inside = require "spec.support.inside_nginx"

local ngx = ngx

local requests = {}

--- Seconds between two checks of the dictionary.
local LOOK = 0.01

local function await(word)
    while not ngx.shared.results:get(word) do
        ngx.sleep(LOOK)
    end
end

--- Gives a word to all workers.
function requests.say(word)
    ngx.shared.results:set(word, true)
    ngx.say(word)
end

--- Notes that a name is held, and by which worker, and waits for "go".
function requests.held(name)
    ngx.shared.results:set("worker-" .. name, ngx.worker.id())
    ngx.shared.results:incr("holders", 1, 0)
    await("go")
end

--- Keeps the request alive.
function requests.linger()
    await("stop")
    ngx.say("stopped")
end

--- The ways to end a request from within with_lock.
local ways = {
    exit = function()
        ngx.exit(403)
    end,
    redirect = function()
        ngx.redirect("/plain")
    end,
    exec = function()
        ngx.exec("/linger")
    end,
    set_uri = function()
        ngx.req.set_uri("/linger", true)
    end,
    hang_up = function()
        await("stop")
    end,
    hang_up_unseen = function()
        ngx.say("is anybody there?")
    end,
    body_timeout = function()
        ngx.req.read_body()
    end,
    slow_reader = function()
        ngx.print(("x"):rep(8000000))
        ngx.exit(200)
    end
}

--- Holds by with_lock, and ends in the way ?way=.
function requests.hold()
    local args = ngx.req.get_uri_args()
    local name, way = args.name, args.way
    local lock = inside.mutex(inside.path .. "-" .. name)
    if way:find("^multi_") then
        way = way:sub(#"multi_" + 1)
        lock = inside.client():multi { lock, inside.mutex(inside.path .. "-" .. name .. "-other") }
    end
    if way == "error" then
        assert(lock:acquire(20))
        requests.held(name)
        error("as the spec wants it")
    elseif way == "forget" then
        assert(lock:acquire(20))
        return requests.held(name)
    elseif way == "kill" then
        local thread = ngx.thread.spawn(lock.with_lock, lock, function()
            requests.held(name)
            await("stop")
        end)
        await("go")
        ngx.thread.kill(thread)
        return requests.linger()
    elseif way == "capture" then
        ngx.location.capture("/hold", { args = { name = name, way = "exit" } })
        return requests.linger()
    end
    lock:with_lock(function()
        requests.held(name)
        ways[way]()
    end, 20)
end

--- Holds ?name= in a light thread, and kills the thread.
function requests.kill()
    local name = ngx.var.arg_name
    local lock = inside.mutex(inside.path .. "-" .. name)
    local semaphore = require("ngx.semaphore").new(0)
    local thread = ngx.thread.spawn(lock.with_lock, lock, function()
        ngx.shared.results:set("worker-" .. name, ngx.worker.id())
        semaphore:post(1)
        await("stop")
    end)
    assert(semaphore:wait(20))
    ngx.thread.kill(thread)
    requests.linger()
end

--- Waits for ?name= if this is the worker ?worker=. Answers at once whether it is.
function requests.wait()
    local args = ngx.req.get_uri_args()
    if tonumber(args.worker) ~= ngx.worker.id() then
        return ngx.say("other worker")
    end
    ngx.say("this worker")
    ngx.flush(true)
    local lock = inside.mutex(inside.path .. "-" .. args.name)
    local _, _, code = lock:acquire(60)
    ngx.say(code or "held")
    lock:release { wait = false }
end

--- Makes so many megabytes of small tables that stay in use.
function requests.fill_heap(megabytes)
    local heap = {}
    collectgarbage()
    local before = collectgarbage("count")
    while collectgarbage("count") - before < megabytes * 1024 do
        for _ = 1, 1000 do
            heap[#heap + 1] = { {}, {} }
        end
    end
    package.loaded.heap = heap
end

return requests
