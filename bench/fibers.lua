--- fibers: many waits in one Lua process, by the smallest event loop there is.
--
-- An adapter for zklock.connect's option `wait`, and a loop that resumes every fiber in turn and sleeps for a moment
-- when all of them wait. Fair enough to count with; nothing is timed with it.

local core = require "zklock.core"

local fibers = {}

local running = {} -- coroutines in the order in which they were started
local doze_fd      -- what the loop polls between rounds

fibers.adapter = { name = "fibers" }

function fibers.adapter.wait(client)
    doze_fd = client:pollfd()
    coroutine.yield()
    return true
end

function fibers.adapter.wake()
end

--- Runs fn(…) in a new fiber, from the next round on.
function fibers.start(fn, ...)
    local arguments = table.pack(...)
    table.insert(running, coroutine.create(function()
        fn(table.unpack(arguments, 1, arguments.n))
    end))
end

--- Waits in a fiber until `decided()` is true; raises after `seconds` (20).
function fibers.await(what, decided, seconds)
    local deadline = core.now() + (seconds or 20)
    while not decided() do
        if core.now() > deadline then
            error("waited too long until " .. what)
        end
        coroutine.yield()
    end
end

--- Runs fn(…) and all fibers that it starts; returns when they have ended. An error in any of them is raised here.
function fibers.run(fn, ...)
    fibers.start(fn, ...)
    while #running > 0 do
        local round = running
        running = {}
        for _, fiber in ipairs(round) do
            local ok, problem = coroutine.resume(fiber)
            if not ok then
                error(debug.traceback(fiber, problem), 0)
            elseif coroutine.status(fiber) ~= "dead" then
                table.insert(running, fiber)
            end
        end
        if doze_fd then
            core.poll(doze_fd, 0.001)
        end
    end
end

return fibers
