--- loop: many sessions in one Lua process, by libuv: an adapter for zklock.connect's option `wait`, and fibers.
--
-- For what is timed. fibers.lua sleeps between its rounds, which is good enough to count with and needs no libuv.

local uv = require "luv"

local loop = {}

local polls = {}   -- client -> its uv_poll_t
local ready = {}   -- waiters that are to be resumed
local fibers = {}  -- those that have not ended; nobody else may know one that waits
local problem      -- what the first failed fiber raised

local function resume(fiber)
    local ok, raised = coroutine.resume(fiber)
    if not ok then
        problem = problem or debug.traceback(fiber, raised)
    end
    if coroutine.status(fiber) == "dead" then
        fibers[fiber] = nil
    end
    if problem or next(fibers) == nil then
        uv.stop()
    end
end

--- Resumes whom a pump or a timer has woken, and whom those wake.
local function resume_ready()
    local index = 1
    while ready[index] do
        local fiber = ready[index].fiber
        ready[index].fiber = nil
        if fiber then
            resume(fiber)
        end
        index = index + 1
    end
    ready = {}
end

local function wake(waiter)
    table.insert(ready, waiter)
end

--- Suspends the running fiber until the waiter is woken or `seconds` have passed.
local function suspend(waiter, seconds)
    local timer
    if seconds < math.huge then
        timer = uv.new_timer()
        timer:start(math.ceil(math.max(seconds, 0) * 1000), 0, function()
            wake(waiter)
            resume_ready()
        end)
    end
    waiter.fiber = coroutine.running()
    coroutine.yield()
    if timer then
        timer:close()
    end
    return true
end

loop.adapter = { name = "bench" }

function loop.adapter.attach(client)
    polls[client] = uv.new_poll(client:pollfd())
    polls[client]:start("r", function()
        client:pump()
        resume_ready()
    end)
end

function loop.adapter.detach(client)
    polls[client]:close()
    polls[client] = nil
end

function loop.adapter.wait(_, waiter, seconds)
    return suspend(waiter, seconds)
end

loop.adapter.wake = wake

function loop.sleep(seconds)
    suspend({}, seconds)
end

--- Runs fn(…) in a fiber of its own, soon.
function loop.start(fn, ...)
    local arguments = table.pack(...)
    local fiber = coroutine.create(function()
        fn(table.unpack(arguments, 1, arguments.n))
    end)
    fibers[fiber] = true
    local timer = uv.new_timer()
    timer:start(0, 0, function()
        timer:close()
        resume(fiber)
        resume_ready()
    end)
end

--- Waits in a fiber until `decided()` is true; raises after 30 s.
function loop.await(what, decided)
    local patience = 30
    while not decided() do
        if patience < 0 then
            error("waited too long until " .. what)
        end
        loop.sleep(0.002)
        patience = patience - 0.002
    end
end

--- Runs fn(…) and all fibers that it starts; returns when they have ended. An error in any of them is raised here.
function loop.run(fn, ...)
    loop.start(fn, ...)
    uv.run()
    if problem then
        error(problem, 0)
    end
end

return loop
