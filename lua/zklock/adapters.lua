--- adapters: how a wait suspends its caller, which is all that differs between event loops.
--
-- An adapter is a table that `zklock.connect(servers, {wait = adapter})` takes:
--
--     adapter.wait(client, waiter, seconds)
--         Suspends the calling coroutine until one of: adapter.wake(waiter) is called; client:pollfd() is readable
--         (only if the adapter has no pump of its own, see below); `seconds` have passed (math.huge: never). May return
--         early for any reason. Returns true; or nil, message, code if the caller cannot wait where it is (code
--         "phase"), which ends the wait with that answer. May raise: the acquisition is then given up and the error
--         goes on to the caller.
--     adapter.wake(waiter)
--         Makes that waiter's wait return soon; called from client:pump(), in whatever coroutine runs it. It should
--         schedule the waiter, not resume it on the spot. Harmless when the waiter does not wait any more.
--     adapter.name      optional: for messages.
--     adapter.yields    optional: false promises that wait never yields its coroutine. Matters on Lua 5.1 only, where a
--                       yield cannot cross pcall: waits are protected unless they may yield there.
--     adapter.prepare(settings)
--                       optional: called before a client is opened, with connect's settings, which it may change. Returns true;
--                       or nil, message, code if no client can be opened where the caller is.
--     adapter.attach(client), adapter.detach(client)
--                       optional: the client was opened, is closed; to start and stop a pump of the adapter's own.
--     adapter.spawn(fn) optional: runs fn() in a coroutine of its own. Used for the program's callbacks (on_lost and
--                       on("state")), which may then wait without delaying the pump; without it they run inside it.
--
--     adapter.caller()  optional: something about who is running, kept in each hold as `owner`, for the adapter's own use.
--
-- An adapter that learns that a waiter's coroutine was killed calls zklock.wait's forsake(client, waiter), which gives up what
-- it waited for; otherwise that happens when it is collected.
--
-- `waiter` is a fresh table for each wait loop, empty, for the adapter to keep in it what it likes: a coroutine, a
-- condition, a semaphore. The loop around wait looks whether it is done, calls wait, calls client:pump(), and looks
-- again, with no yield between looking and waiting: a wake-up that comes while nobody waits need not be remembered.
--
-- There are two ways to write one.
--
-- *Every waiter polls the fd* (cqueues). Several coroutines may wait for one client's fd; the first to run drains it
-- and wakes those whose tickets changed:
--
--     function adapter.wait(client, waiter, seconds)
--         waiter.changed = waiter.changed or condition.new()
--         cqueues.poll({ pollfd = client:pollfd(), events = "r" }, waiter.changed, seconds)
--         return true
--     end
--     function adapter.wake(waiter)
--         if waiter.changed then waiter.changed:signal() end
--     end
--
-- *One pump a client* (luv, copas, OpenResty). attach starts something that calls client:pump() whenever the fd becomes
-- readable, holding the client weakly, and detach stops it; wait suspends on something private to the waiter, wake
-- posts it:
--
--     function adapter.attach(client)
--         local weak = setmetatable({ client = client }, { __mode = "v" })
--         pumps[client] = uv.new_poll(client:pollfd())          -- pumps: a table with weak keys
--         pumps[client]:start("r", function() if weak.client then weak.client:pump() end end)
--     end
--     function adapter.wait(client, waiter, seconds)            -- with a timer besides, for `seconds`
--         waiter.coroutine = coroutine.running()
--         return coroutine.yield() or true
--     end
--     function adapter.wake(waiter)
--         uv.new_async(function() … resume … end):send()        -- soon, not on the spot
--     end

local format = string.format
local pcall, rawget, require, type = pcall, rawget, require, type

local adapters = {}

--- The names that `wait` may have, whether or not this version has the adapter.
local NAMES = { auto = true, blocking = true, openresty = true, cqueues = true, luv = true, copas = true }

--- What "auto" means here. Inside nginx the blocking adapter would stop the worker: better an error that says so.
local function detect()
    return rawget(_G, "ngx") and "openresty" or "blocking"
end

--- Finds the adapter for the option `wait`.
-- @tparam string|table choice a name, or an adapter of the program's own
-- @treturn table the adapter; or nil and what is wrong with the choice
function adapters.find(choice)
    if type(choice) == "table" then
        if type(choice.wait) ~= "function" or type(choice.wake) ~= "function" then
            return nil, "option 'wait' must be a table with the functions wait and wake, or the name of an adapter"
        end
        return choice
    elseif not NAMES[choice] then
        return nil, 'option \'wait\' must be "auto", "blocking", "openresty", "cqueues", "luv", "copas" or a table'
    end
    local name = choice == "auto" and detect() or choice
    local found, adapter = pcall(require, "zklock.adapters." .. name)
    if not found then
        return nil, format("option 'wait': the adapter \"%s\" does not exist yet, or cannot be loaded here; " ..
            "give a table with wait and wake to use your own", name)
    end
    return adapter
end

return adapters
