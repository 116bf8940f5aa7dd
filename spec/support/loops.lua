--- support.loops: the event loops that have adapters, with the same functions for each.
--
-- A loop is `{ name =, run(…), run_through(…)|nil, sleep(seconds), spawn(fn), run_out(…)|nil, drop(fn, begun)|nil, step()|nil }`.
-- loops.each() returns the loops whose modules this Lua has.

local core = require "zklock.core"
local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"

local loops = {}

--- A run that has not ended after so many seconds is given up.
local LIMIT = 120

--- Makes a run of several functions, which counts those that have not ended, and keeps the first error.
local function new_run(...)
    local run = { left = select("#", ...), deadline = core.now() + LIMIT, bodies = {} }
    for index = 1, run.left do
        local fn = select(index, ...)
        run.bodies[index] = function()
            local ok, problem = true, nil
            if compat.PCALL_YIELDS then
                ok, problem = xpcall(fn, function(message)
                    return type(message) == "string" and debug.traceback(message, 2) or message
                end)
            else
                fn()
            end
            run.left = run.left - 1
            if not ok then
                run.problem = run.problem or problem or "an error without a message"
            end
        end
    end
    return run
end

--- Raises a run's error, if there is one.
local function conclude(run)
    if run.problem then
        error(run.problem, 0)
    end
    assert(run.left == 0, "the loop has ended, or the time is up, before all its coroutines have")
end

local function is_over(run)
    return run.problem or run.left == 0 or core.now() > run.deadline
end

-- cqueues -------------------------------------------------------------------------------------------------------------

local has_cqueues, cqueues = pcall(require, "cqueues")

local function new_cqueues()
    local loop = { name = "cqueues" }

    local function run_with(act_on, ...)
        local run, controller = new_run(...), cqueues.new()
        for _, body in ipairs(run.bodies) do
            controller:wrap(body)
        end
        while not is_over(run) do
            act_on(controller:step(1))
        end
        conclude(run)
    end

    --- Runs functions as coroutines until all have ended; raises the first error.
    function loop.run(...)
        run_with(function(ok, problem)
            if not ok then
                error(problem, 0)
            end
        end, ...)
    end

    --- The same, whatever errors other coroutines of the loop raise.
    function loop.run_through(...)
        run_with(function() end, ...)
    end

    loop.sleep = cqueues.sleep

    function loop.spawn(fn)
        cqueues.running():wrap(fn)
    end

    --- Runs functions until the loop ends by itself.
    function loop.run_out(...)
        local run, controller = new_run(...), cqueues.new()
        for _, body in ipairs(run.bodies) do
            controller:wrap(body)
        end
        assert(controller:loop(LIMIT))
        assert(controller:empty(), "the controller does not become empty")
        conclude(run)
    end

    --- Begins fn in a coroutine, runs the loop until `begun()`, and forgets the coroutine.
    function loop.drop(fn, begun)
        local controller = cqueues.new()
        controller:wrap(fn)
        repeat
            assert(controller:step(0.05))
        until begun()
    end

    return loop
end

-- luv -----------------------------------------------------------------------------------------------------------------

local has_luv, uv = pcall(require, "luv")

local function new_luv()
    -- The timer that ends a run is never closed: luv 1.44 crashes at the end of a process in which a handle is being closed and the
    -- loop has not run since.
    local loop, watchdog = { name = "luv" }, uv.new_timer()

    local present -- the latest run

    local function begin(run)
        present = run
        for _, body in ipairs(run.bodies) do
            coroutine.wrap(body)()
        end
    end

    function loop.run(...)
        local run = new_run(...)
        watchdog:start(20, 20, function()
            if is_over(run) then
                uv.stop()
            end
        end)
        watchdog:ref()
        begin(run)
        uv.run()
        watchdog:stop()
        conclude(run)
    end

    function loop.run_out(...)
        local run = new_run(...)
        uv.update_time() -- it is that of the loop's last turn
        watchdog:start(LIMIT * 1000, 0, uv.stop)
        watchdog:unref()
        begin(run)
        uv.run()
        assert(watchdog:is_active(), "the loop does not end")
        watchdog:stop()
        conclude(run)
    end

    function loop.sleep(seconds)
        local thread, timer = coroutine.running(), uv.new_timer()
        timer:start(math.ceil(seconds * 1000), 0, function()
            timer:close()
            local ok, problem = coroutine.resume(thread)
            if not ok then -- an error raised here would end the process; if pcall yields, the run has it already
                present.problem = present.problem or problem
            end
        end)
        coroutine.yield()
    end

    function loop.spawn(fn)
        coroutine.wrap(fn)()
    end

    if coroutine.close then
        function loop.drop(fn, begun)
            local thread = coroutine.create(fn)
            assert(coroutine.resume(thread))
            repeat
                uv.run("nowait")
            until begun()
            assert(coroutine.close(thread))
            assert(not uv.run("nowait"), "the killed coroutine's wait keeps the loop alive")
        end
    end

    return loop
end

-- copas ---------------------------------------------------------------------------------------------------------------

local has_copas, copas = pcall(require, "copas")

local function new_copas()
    local loop = { name = "copas" }

    local function begin(run)
        for _, body in ipairs(run.bodies) do
            copas.addthread(body)
        end
    end

    function loop.run(...)
        local run = new_run(...)
        begin(run)
        while not is_over(run) do
            copas.step(0.5)
        end
        conclude(run)
    end

    loop.run_through = loop.run

    if copas.finished then
        function loop.run_out(...)
            local run = new_run(...)
            begin(run)
            copas.loop()
            conclude(run)
        end
    end

    local alarms = {} -- unused alarms, used again: specs that stop the collector would run out of descriptors

    --- Debian's copas has no sleep.
    function loop.sleep(seconds)
        local alarm, due = table.remove(alarms) or core.alarm(), core.now() + seconds
        alarm:set(seconds)
        copas.receive({
            getfd = function()
                return alarm:fd()
            end,
            dirty = function()
                return core.now() >= due
            end,
            receive = function()
                if core.now() >= due then
                    return true
                end
                return nil, "timeout"
            end,
            close = function()
            end
        })
        alarms[#alarms + 1] = alarm
    end

    function loop.spawn(fn)
        copas.addthread(fn)
    end

    if copas.removethread then
        function loop.drop(fn, begun)
            local thread = copas.addthread(fn)
            repeat
                copas.step(0.05)
            until begun()
            copas.removethread(thread)
        end

        --- copas drops the coroutine when it would have resumed it.
        function loop.step()
            copas.step(0.05)
        end
    end

    return loop
end

--- Returns the loops whose modules this Lua has.
function loops.each()
    local list = {}
    list[#list + 1] = has_cqueues and new_cqueues() or nil
    list[#list + 1] = has_luv and new_luv() or nil
    list[#list + 1] = has_copas and new_copas() or nil
    return list
end

--- Returns a client that waits in a loop, which fixture.clean closes; `settings` and `servers` as of fixture.client.
function loops.client(loop, settings, servers)
    settings = settings or {}
    settings.wait = settings.wait or loop.name
    return fixture.client(settings, servers)
end

--- Returns whether the loop's adapter has a pump for a client; to be called in the loop.
function loops.has_pump(loop, client)
    for _, fn in pairs(require("zklock.adapters." .. loop.name)) do
        local index, name, pumps = 0, nil, nil
        repeat
            index = index + 1
            if type(fn) == "function" then
                name, pumps = debug.getupvalue(fn, index)
            end
        until name == nil or name == "pumps"
        if name then
            local pump = pumps[client]
            if loop.name == "cqueues" then
                return pump ~= nil and pump[cqueues.running()] ~= nil
            end
            return pump ~= nil
        end
    end
    error("no pumps in the adapter of " .. loop.name)
end

--- Within a loop: lets the other coroutines run until the condition holds.
function loops.until_true(loop, condition, what)
    local deadline = core.now() + 60
    while not condition() do
        assert(core.now() < deadline, "still waiting for " .. (what or "a condition"))
        loop.sleep(0.01)
    end
end

--- Returns a table and a coroutine's body, which counts its turns in the table until `stop` is set there. At each turn it calls the
-- table's `each`, if there is one.
function loops.new_ticker(loop)
    local ticks = { count = 0, stop = false, each = nil }
    return ticks, function()
        while not ticks.stop do
            loop.sleep(0.005)
            ticks.count = ticks.count + 1
            if ticks.each then
                ticks.each()
            end
        end
    end
end

--- Calls `fn`, which only the ticker ends, by `stop` at its turn number `turns` from now on. If the loop does not run meanwhile,
-- `fn` ends by its own timeout, if at all. Returns the results of `fn`.
function loops.while_going_on(ticks, turns, stop, fn)
    local due = ticks.count + turns
    function ticks.each()
        if ticks.count >= due then
            ticks.each = nil
            stop()
        end
    end
    local results = compat.pack(fn())
    assert(not ticks.each, "ended without the ticker: the loop stood still")
    return compat.unpack(results, 1, results.n)
end

return loops
