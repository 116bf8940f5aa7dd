--- with_lock: runs a function of the program while locks are held, and always gives the locks back afterwards.
--
-- For zklock.lock and zklock.multi. They differ in their *steps*, a table of functions. `taken` is what the
-- acquisition has been noted in: a lock's record, a multi's run.
--
--   * `acquire(self, taken, seconds, count, keep)` returns the hold for the function; or nil, message, code.
--   * `lost(taken)` returns message and code if a hold has ended while the function ran.
--   * `release(taken, seconds, may_wait)` gives back what is still held of the acquisition. If it may, it waits for the server as
--     long as the acquisition was allowed to. Returns a message if a hold turns out to be lost. Does nothing the second time.

local caller = require "zklock.lock.caller"
local wait = require "zklock.wait"

local coroutine, error, pcall, setmetatable, type = coroutine, error, pcall, setmetatable, type

local with_lock = {}

--- Reads the arguments of a with_lock.
---@return number? seconds
---@return number|string|nil count or what is wrong
---@return boolean? keep
function with_lock.read(self, fn, timeout)
    if type(fn) ~= "function" then
        return nil, "the first argument must be a function"
    end
    return self:_read_acquire(timeout, "with_lock")
end

--- Finds the hold that the end of a with_lock has to release. with_lock had this one, `level` levels deep. If the function released
-- its own level, or more, nothing is left to release. If it acquired anew in the same coroutine, that is released.
---@return zklock.Hold? # nil if there is nothing to release
function with_lock.ends(hold, level)
    if hold._state == "granted" then
        return hold._levels >= level and hold or nil
    elseif not hold._state or level > 1 then
        return nil
    end
    local me = caller.running(hold._lock._settings.owner)
    local anew = caller.own(hold._lock, me)
    return anew and anew._state and anew._caller.thread == me.thread and anew or nil
end

--- Ends a with_lock after its function: `ok, …` are pcall's results.
local function finish(steps, taken, seconds, ok, ...)
    local lost, code = steps.lost(taken)
    local found = steps.release(taken, seconds, true)
    if not ok then
        error((...), 0)
    elseif lost then
        return nil, lost, code, ...
    elseif found then
        return nil, found, "lost", ...
    end
    return true, ...
end

--- Notices, from Lua 5.4 on, that a coroutine is closed inside the function. pcall does not notice that.
local Guard = {}

function Guard:__close()
    if self.runs then
        self.steps.release(self.taken, self.seconds, wait.is_possible(self.client))
    end
end

local function end_guard(guard, ...)
    guard.runs = false
    return ...
end

--- Calls fn(...) protected, and gives back if the coroutine is closed meanwhile. It cannot be if it cannot yield.
local function call(client, steps, taken, seconds, fn, ...)
    if not coroutine.isyieldable() then
        return pcall(fn, ...)
    end
    local guard = setmetatable({ client = client, steps = steps, taken = taken, seconds = seconds, runs = true }, Guard)
    for _ in wait.once, nil, nil, guard do -- luacheck: ignore 512
        return end_guard(guard, pcall(fn, ...))
    end
end
if not coroutine.close then
    function call(_, _, _, _, fn, ...)
        return pcall(fn, ...)
    end
end

--- The part that runs protected.
local function acquire_and_run(steps, self, taken, fn, seconds, count, keep, ...)
    local hold, message, code = steps.acquire(self, taken, seconds, count, keep)
    if not hold then
        return nil, message, code
    end
    return finish(steps, taken, seconds, call(self._client, steps, taken, seconds, fn, hold, ...))
end

--- Ends a with_lock. An error may have been raised anywhere, also between the acquisition and fn, or in the release.
local function conclude(steps, taken, seconds, ok, ...)
    if ok then
        return ...
    end
    steps.release(taken, seconds, true)
    error((...), 0)
end

--- Acquires, runs fn(hold, …), and gives back.
---@return any # the results of the public with_lock
function with_lock.run(steps, self, taken, fn, seconds, count, keep, ...)
    return conclude(steps, taken, seconds,
        self._client:desk().protect(acquire_and_run, steps, self, taken, fn, seconds, count, keep, ...))
end

return with_lock
