--- adapters.openresty.waiters: waiters whose coroutines were killed, and the semaphores on which waiters wait.
--
-- For zklock.adapters.openresty and its parts pump and draining. A coroutine may be killed while it waits: its request is
-- aborted, or ngx.thread.kill ends it. nginx does not report this, but removes the coroutine from its semaphore. A waiter that
-- waits and is not on its semaphore is therefore dead. Whatever it waited for is given up: by the ticker, or at once when the
-- lock is granted to it.

local wait = require "zklock.wait"

local pairs = pairs

local waiters = {}

--- Whether a waiter's coroutine was killed. A living waiter counts -1 on its semaphore, and 0 from the post until it runs.
local function is_dead(waiter)
    return waiter.waiting and waiter.semaphore:count() >= (waiter.posted and 1 or 0)
end
waiters.is_dead = is_dead

--- Gives up the waits of killed coroutines.
function waiters.sweep(client)
    local dead = {}
    for waiter in pairs(client:desk().everybody) do
        if is_dead(waiter) then
            dead[#dead + 1] = waiter
        end
    end
    for index = 1, #dead do
        wait.abandon(client, dead[index])
    end
end

--- Wakes a waiter.
function waiters.post(waiter)
    waiter.posted = true
    waiter.semaphore:post(1)
end

return waiters
