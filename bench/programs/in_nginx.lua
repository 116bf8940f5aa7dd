--- in_nginx: the handlers of the locations of the cases "nginx" and "worker". LuaJIT, inside nginx.
--
-- `in_nginx.servers` is set before anything else.

local zklock = require "zklock"

local ngx = ngx

local in_nginx = {}

--- Long enough for leases not to end before a max_hold does.
local SESSION_TIMEOUT = 30

--- Seconds; the elapsed part shows when C granted the lock.
local MAX_HOLD = 5

local PATIENCE = 60
local LOCKS = 1000

--- So few that each is taken many times a second, whatever else the machine does. Otherwise some of the acquisitions need a list.
local FEW_LOCKS = 200

local function client(session_timeout)
    return assert(zklock.shared(in_nginx.servers, { session_timeout = session_timeout or SESSION_TIMEOUT }))
end

-- Requests per second --------------------------------------------------------------------------------------------------

local turn = 0

--- Acquires one of `count` locks below a path, the next one each time, and releases it.
local function take_turn(path, count, lock_settings, release_settings)
    turn = turn % count + 1
    local lock = client():mutex(path .. turn, lock_settings)
    assert(lock:acquire(PATIENCE))
    assert(lock:release(release_settings))
    ngx.say("plain")
end

---@param settings? table of the release
function in_nginx.locked(settings)
    take_turn("/bench-nginx/", LOCKS, nil, settings)
end

-- Costs of a worker ----------------------------------------------------------------------------------------------------

---@param settings? table of the release
function in_nginx.locked_few(settings)
    take_turn("/bench-worker/", FEW_LOCKS, nil, settings)
end

local LINGERING = { linger = 5 }

--- With locks that the client keeps for 5 seconds after a release.
function in_nginx.lingering()
    take_turn("/bench-worker-linger/", FEW_LOCKS, LINGERING)
end

--- Answers with the number of requests that the client has sent.
function in_nginx.requests()
    ngx.say(client():stats().requests)
end

-- A crowd --------------------------------------------------------------------------------------------------------------

--- Waits for a lock, with a separate node.
function in_nginx.wait()
    assert(client():mutex("/bench-crowd", { handoff = 0 }):acquire(600))
end

--- Answers with the number of waiters.
function in_nginx.waiting()
    local stats = client():stats()
    ngx.say(stats.acquisitions - stats.grants - stats.refusals)
end

-- Wake-up --------------------------------------------------------------------------------------------------------------

--- Microseconds since C granted a lock whose holder has MAX_HOLD. Compares the engine's clock, read when the thread that
-- grants woke up, with the same clock read now.
local function since_grant(left)
    return (MAX_HOLD - left) * 1e6
end

--- Without another contender: the grant is in the reply to its own request.
local function alone(count, path, samples)
    local lock = client():mutex(path, { max_hold = MAX_HOLD })
    for index = 1, count do
        assert(lock:acquire(PATIENCE))
        samples[index] = since_grant(lock:remaining())
        assert(lock:release())
    end
end

--- A light thread waits for a lock that another light thread holds; the release is its grant.
local function behind(first, count, samples)
    return function(second)
        for index = 1, count do
            assert(first:acquire(PATIENCE))
            local thread = ngx.thread.spawn(function()
                assert(second:acquire(PATIENCE))
                samples[index] = since_grant(second:remaining())
                assert(second:release())
            end)
            while #first:contenders() < (first._client == second._client and 1 or 2) do
                ngx.sleep(0.001)
            end
            assert(first:release())
            assert(ngx.thread.wait(thread))
        end
    end
end

--- The wake-ups that are measured, by name.
local WAKE_UPS = {
    alone = alone,
    -- Another client's release: a watch event.
    event = function(count, path, samples)
        local first, second = client(), client(SESSION_TIMEOUT + 1)
        behind(first:mutex(path), count, samples)(second:mutex(path, { max_hold = MAX_HOLD }))
    end,
    -- A release of the same client: no request.
    hand_over = function(count, path, samples)
        behind(client():mutex(path), count, samples)(client():mutex(path, { max_hold = MAX_HOLD }))
    end
}

--- Answers with microseconds, sorted, from the grant in C to the line after acquire: ?kind= ?count=
function in_nginx.wake_up()
    local args, samples = ngx.req.get_uri_args(), {}
    WAKE_UPS[args.kind](tonumber(args.count), "/bench-wake-up-" .. args.kind, samples)
    table.sort(samples)
    for _, sample in ipairs(samples) do
        ngx.say(("%.2f"):format(sample))
    end
end

return in_nginx
