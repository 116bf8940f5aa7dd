--- adapters.openresty: waiting inside nginx, where only the waiting request is suspended.
--
-- A waiter waits on a semaphore. The parts of this adapter are in lua/zklock/adapters/openresty/:
--
--   * pump: every client has a timer handler that passes on its notifications and posts the semaphores. What a killed coroutine
--     waited for is given up.
--   * ticker: periodic work, by one timer a second for all clients of the worker.
--   * requests: which request and coroutine is running; holds: a hold ends with the request that has acquired it.
--   * callbacks: each callback of the program runs in a timer.
--   * draining: when the worker exits, its clients are closed as soon as no request needs them.
--
-- docs/design.md, "Inside nginx", says why.

local callbacks = require "zklock.adapters.openresty.callbacks"
local draining = require "zklock.adapters.openresty.draining"
local ffi = require "ffi"
local holds = require "zklock.adapters.openresty.holds"
local pumping = require "zklock.adapters.openresty.pump"
local running = require "zklock.adapters.openresty.requests"
local semaphore = require "ngx.semaphore"
local ticker = require "zklock.adapters.openresty.ticker"

-- Loaded now, and not when a request needs it: the files may be those of another version by then.
for _, name in ipairs { "cluster_mutex", "group", "inspect.reading", "key", "latch", "leader", "multi", "node", "once", "rwlock",
    "semaphore", "sha256", "transaction" } do
    require("zklock." .. name)
end

local ngx = ngx
local format = string.format
local max, min = math.max, math.min
local pairs, pcall = pairs, pcall
local get_phase = ngx.get_phase
local new_semaphore = semaphore.new
local attend, report_late, WAIT_WITHOUT_PUMP = pumping.attend, pumping.report_late, pumping.WAIT_WITHOUT_PUMP

--- The longest and shortest semaphore wait, in seconds. The longest is how late a waiter notices, at worst, that its pump does
-- not run. A wait shorter than the shortest would be rounded to 0.
local LONGEST_WAIT, SHORTEST_WAIT = 5, 0.001

--- Phases whose semaphores do not know everything: nginx breaks the handshake off when the code waits, unless nginx and, for
-- ssl_session_fetch_by_lua*, OpenSSL have OpenResty's patches. Names that such an nginx and such an OpenSSL export.
local PATCHES = { ssl_client_hello = "ngx_is_privileged_agent", ssl_session_fetch = "SSL_magic_pending_session_ptr" }
ffi.cdef "extern unsigned ngx_is_privileged_agent; void *SSL_magic_pending_session_ptr(void);"

--- Phase -> whether a coroutine can be suspended in it.
local suspends = {}
for phase, name in pairs(PATCHES) do
    if not pcall(function() return ffi.C[name] end) then
        suspends[phase] = false
    end
end

--- Whether a coroutine can be suspended in the phase, which is the running one. Asks a semaphore, once for each phase.
local function can_suspend(phase)
    if suspends[phase] == nil then
        local one = new_semaphore(0)
        if not one then
            return false
        end
        local _, problem = one:wait(0)
        suspends[phase] = problem == "timeout" -- elsewhere it is "API disabled in the context of …"
    end
    return suspends[phase]
end

ticker.serve(function(now)
    local pumped, waiting = pumping.look_after_all(now), callbacks.look_after()
    return pumped or waiting
end, draining.drain)

local openresty = { name = "openresty" }

--- Holds belong to requests: a request can release in one phase what it has acquired in another.
openresty.request, openresty.owner = running.request, running.request

openresty.attach, openresty.detach, openresty.attend, openresty.wake = pumping.attach, pumping.detach, attend, pumping.wake

openresty.bind, openresty.keep, openresty.enclose = holds.bind, holds.keep, holds.enclose

--- Called before a client is opened. Refuses to do so in the master process, because the client would not work in the workers.
-- In phases in which a coroutine cannot wait, connect does not wait.
function openresty.prepare(settings)
    local phase = get_phase()
    if phase == "init" then
        return nil, "zklock.connect cannot be called in init_by_lua*, which runs before nginx forks its workers: call it in " ..
            "init_worker_by_lua*, or in requests and timers by way of zklock.shared", "phase"
    elseif phase == "exit_worker" then
        return nil, "zklock.connect cannot be called in exit_worker_by_lua*", "phase"
    elseif not can_suspend(phase) then
        settings.connect_timeout = 0
    end
    return true
end

--- Whether callbacks are going to be called: the pump calls them.
function openresty.can_call(client)
    if get_phase() == "exit_worker" then
        return nil, "no callback is called after exit_worker_by_lua*", "phase"
    elseif pumping.by_client[client] == nil then
        return nil, "callbacks need lua_code_cache on: without it each request has its own Lua state, which ends with it",
            "unsupported"
    end
    return true
end

--- Semaphores for waits to come, and how many are kept.
local spare, spare_count, MOST_SPARE = {}, 0, 64

--- Returns a semaphore that counts 0 and on which nothing waits; or nil and the problem.
local function take_semaphore()
    if spare_count == 0 then
        return new_semaphore(0)
    end
    local one = spare[spare_count]
    spare[spare_count], spare_count = nil, spare_count - 1
    return one
end

--- Keeps a semaphore after a wait. A post may have come after the wait's time was up: then the semaphore does not count 0.
local function put_semaphore(one)
    if spare_count < MOST_SPARE and one:count() == 0 then
        spare_count = spare_count + 1
        spare[spare_count] = one
    end
end

--- A table for a wait loop, with room for all its fields: a table that grows costs more than the wait's other tables together.
function openresty.new_waiter()
    return { client = false, phase = false, semaphore = false, waiting = false, posted = false, queued = false, pause = false }
end

--- See zklock.adapters for the contract of an adapter's functions.
function openresty.wait(client, waiter, seconds)
    local phase = get_phase()
    if not can_suspend(phase) then
        return nil, format("nothing can be waited for in nginx's phase '%s'", phase), "phase"
    end
    local longest = LONGEST_WAIT
    local woken, problem
    if not attend(client) then
        if waiter.pause then -- its own timer has run, and the pump's, which was due before, has not
            report_late(client)
        end
        longest = min(2 * (waiter.pause or SHORTEST_WAIT / 2), WAIT_WITHOUT_PUMP)
        waiter.pause = longest
    end
    local own
    own, problem = take_semaphore()
    if not own then
        return nil, "cannot make a semaphore: " .. problem, "failed"
    end
    waiter.client, waiter.phase, waiter.semaphore = client, phase, own
    waiter.waiting = true
    woken, problem = own:wait(max(min(seconds, longest), SHORTEST_WAIT))
    waiter.waiting, waiter.posted, waiter.semaphore = false, false, false
    put_semaphore(own)
    if not woken and problem ~= "timeout" then
        return nil, "cannot wait here: " .. problem, "phase"
    end
    return true
end

openresty.spawn, openresty.guard = callbacks.spawn, callbacks.guard

return openresty
