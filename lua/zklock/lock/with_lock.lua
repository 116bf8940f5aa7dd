--- with_lock: runs a function of the program while locks are held, and always gives the locks back afterwards.
--
-- For zklock.lock and zklock.multi. They differ in their *steps*, a table of functions. `taken` is what the
-- acquisition has been noted in: a lock's record, a multi's run.
--
--   * `acquire(self, taken, seconds, count, keep)` returns the hold for the function; or nil, message, code.
--   * `lost(taken)` returns message and code if a hold has ended while the function ran.
--   * `holds(taken)` returns the list of what the release is going to end.
--   * `release(taken, seconds, may_wait)` gives back what is still held of the acquisition. If it may, it waits for the server as
--     long as the acquisition was allowed to. Returns a message if a hold turns out to be lost. Does nothing the second time.
--
-- `taken.extra` is a table if there is more to do than that:
--
--   * `min_hold`, seconds: after the function's end, the locks are kept until they are over. The function has its outcome by then,
--     so a loss in this *rest* does not change what with_lock returns. `rest_until` is its end.
--   * `begin(hold)`, called when the locks are held: true, or false, message, code, with which with_lock ends without the function.
--   * `finish(ok, ...)`, called with pcall's results of the function, if no lock is lost, before the rest.

local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local options = require "zklock.options"
local wait = require "zklock.wait"

local coroutine, error, pcall, setmetatable, type = coroutine, error, pcall, setmetatable, type
local format = string.format
local now = core.now

local with_lock = {}

--- Reads the arguments of a with_lock.
---@return number? seconds
---@return number|string|nil count or what is wrong
---@return boolean? keep
---@return nil
---@return number? min_hold
function with_lock.read(self, fn, timeout)
    if type(fn) ~= "function" then
        return nil, format("the first argument must be a function (got %s)", options.describe(fn))
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

--- A rest: what a wait knows of it (zklock.wait).
local Rest = {}
Rest.__index = Rest

--- The coroutine that rests was closed, or does not go on.
function Rest:abandon()
    self.steps.release(self.taken, self.seconds, false)
end

--- Whether a hold has ended meanwhile.
local function has_ended(rest)
    for index = 1, #rest.holds do
        if not rest.holds[index]:held() then
            return true
        end
    end
    return false
end

--- Keeps the locks until min_hold is over, or until one of them is lost.
---@return boolean # whether there was a rest
local function await_rest(client, steps, taken, seconds)
    local until_then = taken.extra.rest_until
    if not until_then or now() >= until_then then
        return false
    end
    local holds, handles = steps.holds(taken), {}
    for index = 1, #holds do
        handles[index] = holds[index]:acquisition():id()
    end
    if holds[1] then
        local rest = setmetatable({ steps = steps, taken = taken, seconds = seconds, holds = holds }, Rest)
        wait.until_decided(client, handles, until_then, has_ended, rest)
    end
    return true
end

--- Ends a with_lock after its function: `ok, …` are pcall's results.
local function finish(client, steps, taken, seconds, ok, ...)
    local lost, code = steps.lost(taken)
    local extra, rested = not lost and taken.extra, false
    if extra then
        if extra.finish then
            extra.finish(ok, ...)
        end
        rested = await_rest(client, steps, taken, seconds)
    end
    local found = steps.release(taken, seconds, true)
    if not ok then
        error((...), 0)
    elseif lost then
        return nil, lost, code, ...
    elseif found and not rested then
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
    local extra = taken.extra
    if extra then
        extra.rest_until = extra.min_hold and now() + extra.min_hold
        local begun, problem, why = true, nil, nil
        if extra.begin then
            begun, problem, why = extra.begin(hold)
        end
        if not begun then
            steps.release(taken, seconds, true)
            return nil, problem, why
        end
    end
    return finish(self._client, steps, taken, seconds, call(self._client, steps, taken, seconds, fn, hold, ...))
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
