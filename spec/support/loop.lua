--- support.loop: a small event loop and its zklock adapter, for specs of several coroutines in one program.
--
-- It has one pump for each client: the loop polls the file descriptors of clients with waits, pumps those that are readable, and
-- resumes coroutines that were woken or are due. Outside of the loop's coroutines its adapter blocks.

local socket = require "socket"
local core = require "zklock.core"

local loop = { name = "the specs' loop" }

--- All suspended waits: waiter -> true.
local waiting = {}
--- Coroutines that can run now, in order.
local ready = {}

--- Returns the running coroutine; nil outside of coroutines. There Lua 5.1 returns nil itself; later versions return the main
-- coroutine, and true.
local function running()
    local thread, main = coroutine.running()
    return not main and thread or nil
end

--- Whether this runs in a coroutine.
function loop.is_inside()
    return running() ~= nil
end

local function suspend(waiter)
    waiting[waiter] = true
    coroutine.yield()
end

function loop.wait(client, waiter, seconds)
    waiter.thread = running()
    if not waiter.thread then
        core.poll(client:pollfd(), math.min(seconds, 0.1))
        return true
    end
    waiter.client, waiter.due = client, core.now() + seconds
    suspend(waiter)
    return true
end

local function make_ready(waiter)
    if waiting[waiter] then
        waiting[waiter] = nil
        ready[#ready + 1] = waiter.thread
    end
end

function loop.wake(waiter)
    make_ready(waiter)
end

--- Lets the other coroutines run until a condition holds; raises if it does not within `timeout` seconds (60).
function loop.until_true(condition, timeout)
    local deadline = core.now() + (timeout or 60)
    while not condition() do
        if core.now() > deadline then
            error("still waiting for a condition", 2)
        end
        suspend({ thread = coroutine.running(), due = core.now() + 0.01 })
    end
end

--- Resumes all coroutines that can run, until none can. Raises an error in a coroutine here.
local function run_ready()
    while ready[1] do
        local thread = table.remove(ready, 1)
        local ok, problem = coroutine.resume(thread)
        if not ok then
            error(problem, 0)
        end
    end
end

--- Waits for at most a moment until a client may have changed, and makes the coroutines concerned ready.
local function poll_clients()
    local now, moment, clients, fds = core.now(), 0.02, {}, {}
    for waiter in pairs(waiting) do
        local client = waiter.client
        if client and not clients[client] then
            clients[client] = true
            fds[#fds + 1] = { getfd = function() return client:pollfd() end }
        end
        moment = math.max(0, math.min(moment, waiter.due - now))
    end
    if fds[1] then
        socket.select(fds, nil, moment)
    else
        socket.sleep(moment)
    end
    for client in pairs(clients) do
        client:pump()
    end
    now = core.now()
    local due = {}
    for waiter in pairs(waiting) do
        if waiter.due <= now then
            due[#due + 1] = waiter
        end
    end
    for index = 1, #due do
        make_ready(due[index])
    end
end

--- Runs a list of functions as coroutines until all have ended. Raises the first error, or an error if they take longer than
-- `limit` seconds (120).
function loop.run_all(functions, limit)
    local threads = {}
    for index = 1, #functions do
        threads[index] = coroutine.create(functions[index])
        ready[#ready + 1] = threads[index]
    end
    local deadline = core.now() + (limit or 120)
    local ok, problem = pcall(function()
        while true do
            run_ready()
            local alive = false
            for index = 1, #threads do
                alive = alive or coroutine.status(threads[index]) ~= "dead"
            end
            if not alive then
                return
            end
            assert(core.now() < deadline, "the coroutines did not end")
            poll_clients()
        end
    end)
    waiting, ready = {}, {}
    if not ok then
        error(problem, 0)
    end
end

--- Does the same for functions that are given as arguments.
function loop.run(...)
    loop.run_all({ ... })
end

return loop
