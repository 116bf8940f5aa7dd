--- testing.clock: virtual time, and the coroutines that wait in it. For zklock.testing.
--
-- Time passes only in step(), from one *timer* to the next. A *task* is a coroutine that step() resumes.

local coroutine, error, pairs, setmetatable, tostring = coroutine, error, pairs, setmetatable, tostring
local debug, insert, remove = debug, table.insert, table.remove
local huge = math.huge

local Clock = {}
Clock.__index = Clock

--- `pump()` passes on what is to be told to programs, and returns whether there was anything.
function Clock.new(pump)
    return setmetatable({ time = 0, timers = {}, ready = {}, tasks = {}, pump = pump }, Clock)
end

--- Calls fn() in so many seconds. math.huge: never. Returns the timer.
function Clock:after(seconds, fn)
    local timer = { due = self.time + seconds, fn = fn }
    if seconds < huge then
        local place = #self.timers + 1
        while place > 1 and self.timers[place - 1].due > timer.due do
            place = place - 1
        end
        insert(self.timers, place, timer)
    end
    return timer
end

--- Forgets a timer, if it is not nil. A timer that has run may be cancelled, too.
function Clock:cancel(timer)
    for place = #self.timers, 1, -1 do
        if self.timers[place] == timer then
            remove(self.timers, place)
        end
    end
end

--- Begins a task, which step() runs. Returns its coroutine.
function Clock:spawn(fn)
    local task = coroutine.create(fn)
    self.tasks[task] = true
    self.ready[#self.ready + 1] = task
    return task
end

--- Returns the running task; nil if this is not the code of a task, or is in a coroutine of its own.
function Clock:running()
    local task = coroutine.running()
    return task and self.tasks[task] and task
end

--- Suspends the running task until it is woken or so many seconds have passed.
function Clock:suspend(seconds)
    local task = self:running()
    local timer = self:after(seconds, function()
        self:wake(task)
    end)
    self.tasks[task] = "suspended"
    coroutine.yield()
    self:cancel(timer)
end

--- Makes a suspended task run soon. Does nothing to any other.
function Clock:wake(task)
    if self.tasks[task] == "suspended" then
        self.tasks[task] = true
        self.ready[#self.ready + 1] = task
    end
end

--- Runs a task until it waits or ends. Its error is raised here.
local function resume(self, task)
    local ok, problem = coroutine.resume(task)
    if coroutine.status(task) == "dead" then
        self.tasks[task] = nil
    end
    if not ok then
        error(debug.traceback(task, tostring(problem)), 0)
    end
end

--- Begins a task, and runs it until it waits.
function Clock:start(fn)
    local task = self:spawn(fn)
    remove(self.ready)
    resume(self, task)
end

--- Does the next thing that is due by `deadline`; if there is none, the time passes until then. Raises if that would be for ever.
---@return boolean # whether there was one
function Clock:step(deadline)
    local timer = self.timers[1]
    if self.pump() then
        return true
    elseif self.ready[1] then
        resume(self, remove(self.ready, 1))
        return true
    elseif timer and timer.due <= deadline then
        remove(self.timers, 1)
        self.time = timer.due
        timer.fn()
        return true
    elseif deadline == huge then
        error("this would wait for ever: nothing else is going to happen in this world of zklock.testing, and no other task can " ..
            "run; give a timeout, or run the other contender in world:run", 0)
    end
    self.time = deadline
    return false
end

--- Lets so many seconds pass. In a task, the others run meanwhile.
function Clock:advance(seconds)
    if self:running() then
        return self:suspend(seconds)
    end
    local deadline = self.time + seconds
    repeat
        local done = self:step(deadline)
    until not done
end

--- Runs until all these tasks have ended.
function Clock:finish(tasks)
    for _, task in pairs(tasks) do
        while self.tasks[task] do
            self:step(huge)
        end
    end
end

return Clock
