--- lock.with_lock: the method with_lock, which acquires, runs a function, and releases.
--
-- For the program. zklock.with_lock runs the function. This file says what it acquires and what it releases: the acquisition
-- that is noted in the record.

local acquires = require "zklock.lock.acquire"
local class = require "zklock.lock.class"
local Hold = require "zklock.hold"
local Record = require "zklock.lock.record"
local releases = require "zklock.lock.release"
local with_lock = require "zklock.with_lock"

local error = error
local disclose, enclose, release_timeout = Hold.disclose, Hold.enclose, Hold.release_timeout
local enter, leave = acquires.enter, releases.leave
local new_record = Record.new
local read, run = with_lock.read, with_lock.run

local check_self, Lock = class.check_self, class.Lock

--- What with_lock does with one lock; see zklock.with_lock.
local steps = {}

function steps.acquire(self, record, seconds, count, keep)
    local lock, message, code = enter(self, seconds, count, keep, record)
    if lock then
        enclose(lock, record.hold)
    end
    return lock, message, code
end

function steps.lost(record)
    local lock, hold = record.lock, record.hold
    if hold.released or hold.acquisition:held() then
        return nil
    end
    local state, problem, code = lock._client._core:state()
    if state == nil then
        return problem, code -- fn has forked, and this is the child
    end
    return lock:_lost_message(hold), "lost"
end

function steps.release(record, seconds)
    local lock, hold = record.lock, record.hold
    if not hold then
        return nil
    end
    disclose(hold, record.level)
    local held = lock:_ends(hold, record.level)
    if held then
        local _, message, code = leave(held, held._settings.wait_release, release_timeout(seconds))
        return code == "lost" and message or nil
    end
    return nil
end

-- Releasing -----------------------------------------------------------------------------------------------------------

--- Runs `fn(lock, …)` while holding the lock, and always releases it afterwards. `lock` is the lock that acquire returns.
--
-- An error of fn goes on unchanged (the same object) after the release. fn may yield, but not on Lua 5.1, whose pcall does not
-- allow that. fn may release the lock early itself. If fn then acquires it anew, the new hold is released too. A hold of this
-- object that another coroutine has acquired meanwhile is not released.
--
-- The release waits for the server for as long as the acquisition was allowed to wait, but at least a second and at most the
-- session timeout. If the server has not acknowledged it by then, the release goes on in the background.
--
-- @tparam function fn
-- @tparam table|number|nil timeout as of acquire; nil: no limit
-- @param ... further arguments for fn
-- @treturn true|nil nil: fn did not run, or the lock was lost before fn ended
-- @return fn's results; or message, code: as of acquire; when the code is "lost" and fn ran, its results follow
-- @raise what fn raises; when the arguments are malformed
function Lock:with_lock(fn, timeout, ...)
    check_self(self, "with_lock")
    local seconds, count, keep = read(self, fn, timeout)
    if not seconds then
        error("lock:with_lock: " .. count, 2)
    end
    return run(steps, self, new_record(), fn, seconds, count, keep, ...)
end
