--- cluster_mutex: once in the whole fleet, in one call, in the manner of Kong's function of that name.
--
-- For zklock.client. All programs call it with the same key, at a deploy or when a cache is empty. The first of them runs its
-- function. The others wait until it has ended, and run nothing. It is a mutex, and what decides is whether the acquisition has
-- waited (Lock:waited).

local key_path = require "zklock.key"
local options = require "zklock.options"
local short = require("zklock.text").short
local text_of = require("zklock.report").text_of

local debug, getmetatable, type, xpcall = debug, getmetatable, type, xpcall
local format = string.format

local cluster_mutex = {}

--- The directory of all keys.
local DIRECTORY = "/cluster_mutex"

local SCHEMA = {
    ttl = { options.duration, 60 },
    timeout = { options.timeout },
    no_wait = { options.boolean, false },
    no_cleanup = { options.boolean, false }
}

local function is_callable(value)
    local metatable = type(value) ~= "function" and getmetatable(value)
    return type(value) == "function" or type(metatable) == "table" and type(metatable.__call) == "function"
end

--- Checks the arguments of a cluster_mutex.
---@return table? # the settings
---@return string? wrong
function cluster_mutex.read(key, settings, fn)
    if type(key) ~= "string" then
        return nil, format("key must be a string (got %s)", options.describe(key))
    end
    local read, wrong = options.read(settings, SCHEMA)
    if not read then
        return nil, wrong
    elseif read.no_wait and read.timeout then
        return nil, "option 'timeout' must not be given together with no_wait"
    elseif not is_callable(fn) then
        return nil, format("the third argument must be a function (got %s)", options.describe(fn))
    end
    return read
end

--- Runs fn unless the lock was waited for. Notes in `run` what happened.
local function run_first(lock, run, fn)
    if lock:waited() ~= 0 then
        return
    end
    run.began = true
    local ok, raised = xpcall(function()
        fn(lock)
    end, debug.traceback)
    if not ok then
        run.raised = text_of(raised)
    end
end

--- Does with `no_cleanup` what with_lock does without: the hold is left to its max_hold, unless the function has not run. Until
-- then the client refers to it.
---@return true? message code
local function run_and_leave(lock, timeout, run, fn, left)
    local hold, message, code = lock:acquire { timeout = timeout, keep = true }
    if not hold then
        return nil, message, code
    end
    left[lock:path()] = hold
    run_first(hold, run, fn)
    message, code = hold:problem()
    if not run.began or hold:state() == "released" then
        left[lock:path()] = nil
        hold:release()
    end
    return not message or nil, message, code
end

--- Runs the public Client:cluster_mutex. The settings have been checked.
function cluster_mutex.run(client, key, settings, fn)
    local left = client:desk().left
    local lock = client:mutex(key_path(DIRECTORY, key), {
        max_hold = settings.ttl,
        on_lost = settings.no_cleanup and function(hold)
            if left[hold:path()] == hold then
                left[hold:path()] = nil
            end
        end or nil
    })
    local run = { began = false, raised = false }
    local timeout = settings.no_wait and 0 or settings.timeout or settings.ttl
    local ok, message, code
    if settings.no_cleanup then
        ok, message, code = run_and_leave(lock, timeout, run, fn, left)
    else
        ok, message, code = lock:with_lock(run_first, timeout, run, fn)
    end
    if run.raised then
        return nil, format("the function of the cluster mutex '%s' raised: %s", short(key), run.raised), "failed"
    elseif ok then
        return run.began
    elseif code == "timeout" and settings.no_wait then
        return false
    end
    return nil, message, code
end

return cluster_mutex
