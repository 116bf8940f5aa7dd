--- support.soaked: the mix of requests that tools/soak-nginx.lua sends for hours, and a spec for a moment. Runs inside nginx.

local zklock = require "zklock"

local ngx = ngx

local soaked = {}

local LOCKS = 16
local PATIENCE = 60

local servers, base, taken

--- Must be called first. The locks are below the path. A foreign node must stay for ever in the lock named "taken".
function soaked.open(server_list, path)
    servers, base, taken = server_list, path .. "/", path .. "/taken"
end

local function client()
    return assert(zklock.shared(servers, { session_timeout = 60 }))
end

local ways = {}

--- The default for a request: with_lock or acquire in turn, with and without hand-overs.
local function take(number)
    local lock = client():mutex(base .. number % LOCKS, { handoff = number % 3 == 0 and 0 or nil })
    if number % 2 == 0 then
        return lock:with_lock(function(hold) return hold:held() end, PATIENCE)
    end
    local got, message = lock:acquire(PATIENCE)
    if not got then
        return nil, message
    end
    return lock:release { wait = number % 5 ~= 0 }
end

--- Returns whether a call did not get its lock in time, and its message. A worker that has just started may have no session yet.
local function is_too_late(got, message, code)
    return code == "timeout" or code == "disconnected", got and "got it" or message
end

--- A wait that times out.
ways[7] = function()
    return is_too_late(client():mutex(taken):acquire(0.02))
end

--- A try that is refused.
ways[13] = function()
    return is_too_late(client():mutex(taken):try_acquire())
end

--- Both once more in a hundred requests; and a light thread that is killed while it waits.
ways[57], ways[63] = ways[7], ways[13]
ways[29] = function()
    local lock = client():mutex(taken)
    local thread = ngx.thread.spawn(lock.acquire, lock)
    return ngx.thread.kill(thread)
end

local turn = 0

--- Runs one request.
function soaked.cycle()
    turn = turn + 1
    local way = ways[turn % 100] or take
    local right, message = way(turn)
    if not right then
        ngx.status = 500
        ngx.log(ngx.ERR, ("request %d: %s"):format(turn, tostring(message)))
    end
    ngx.say("done")
end

--- Runs a request that waits until its client closes the connection.
function soaked.wait()
    client():mutex(taken):acquire()
end

--- Answers with the worker's counters and memory, as JSON, after a full collection.
function soaked.state()
    collectgarbage()
    collectgarbage()
    local stats, waiters = client():stats(), 0
    for _ in pairs(client():desk().everybody) do
        waiters = waiters + 1
    end
    ngx.say(require("cjson").encode {
        grants = stats.grants, refusals = stats.refusals, entries = stats.entries, memory = stats.memory, waiters = waiters,
        lua = collectgarbage("count")
    })
end

return soaked
