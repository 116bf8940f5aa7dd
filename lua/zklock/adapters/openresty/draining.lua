--- adapters.openresty.draining: the end of the worker: its clients are closed as soon as no request needs them.
--
-- For zklock.adapters.openresty, which has the ticker call it. When the worker exits, requests that hold or wait for locks may
-- finish, as nginx lets requests finish. A hold that belongs to no request is released at once. Locks that timers hold or wait
-- for are given up after a moment.

local callbacks = require "zklock.adapters.openresty.callbacks"
local holds = require "zklock.adapters.openresty.holds"
local pumping = require "zklock.adapters.openresty.pump"

local ngx = ngx
local pairs = pairs
local min = math.min
local is_closed, pumps = pumping.is_closed, pumping.by_client
local release_abandoned, sweep = holds.release_abandoned, pumping.sweep

--- How many seconds timers may keep their locks, and how many pass between two checks whether requests still need a client.
local TIMER_GRACE, DRAIN_STEP = 1, 0.02

local draining = {}

--- Whether there is a waiter that may go on waiting.
local function has_waiters(client, grace_is_over)
    sweep(client)
    for waiter in pairs(client:desk().everybody) do
        if waiter.waiting and not (grace_is_over and waiter.phase == "timer") then
            return true
        end
    end
    return false
end

--- Closes every client that is not in use any more. Returns whether some are left.
local function close_unused(grace_is_over)
    local left = false
    for client in pairs(pumps) do
        if not is_closed(client) and client:end_leaders() then -- before their locks are released
            left = true
        elseif not is_closed(client) then
            local holding = release_abandoned(client, true, grace_is_over)
            if has_waiters(client, grace_is_over) or holding then
                left = true
            else
                client:desk().closing = true -- from now on zklock.shared does not return it
                client:desk().core:close()
            end
        end
    end
    return left
end

--- For the ticker: closes the clients of an exiting worker as soon as possible.
function draining.drain()
    local grace_ends = ngx.now() + TIMER_GRACE
    local pause = DRAIN_STEP
    while true do
        local grace_is_over = ngx.now() >= grace_ends
        local left, kept = close_unused(grace_is_over), callbacks.look_after()
        if not left and (grace_is_over or not kept) then
            return
        end
        ngx.sleep(pause)
        pause = min(pause * 2, 0.5)
    end
end

return draining
