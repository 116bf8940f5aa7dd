--- loop: many fibers that wait in one Lua process, under libuv's loop: for clients with `wait = "luv"`.
--
-- For timed programs. fibers.lua sleeps between its rounds, which is good enough to count with and needs no libuv.

local uv = require "luv"

local loop = {}

local fibers = {} -- fibers that have not ended
local problem     -- error of the first failed fiber

function loop.sleep(seconds)
    local fiber, timer = coroutine.running(), uv.new_timer()
    timer:start(math.ceil(math.max(seconds, 0) * 1000), 0, function()
        timer:close()
        assert(coroutine.resume(fiber))
    end)
    coroutine.yield()
end

--- Runs fn(…) in a new fiber, soon.
function loop.start(fn, ...)
    local arguments = table.pack(...)
    local fiber
    fiber = coroutine.create(function()
        local ok, raised = xpcall(fn, debug.traceback, table.unpack(arguments, 1, arguments.n))
        if not ok then
            problem = problem or raised
        end
        fibers[fiber] = nil
        if problem or next(fibers) == nil then
            uv.stop()
        end
    end)
    fibers[fiber] = true
    local timer = uv.new_timer()
    timer:start(0, 0, function()
        timer:close()
        assert(coroutine.resume(fiber))
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
