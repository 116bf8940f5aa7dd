--- adapters: how a wait suspends its caller, which is all that differs between event loops.
--
-- An adapter is a table that `zklock.connect(servers, {wait = adapter})` takes:
--
--     adapter.wait(client, waiter, seconds)
--         Suspends the calling coroutine until one of: adapter.wake(waiter) is called; `seconds` have passed (math.huge:
--         never). May return early for any reason. Returns true; or nil, message, code if the caller cannot wait where it
--         is (code "phase"), which ends the wait with that answer. May raise: the acquisition is then given up and the
--         error goes on to the caller.
--     adapter.wake(waiter)
--         Makes that waiter's wait return soon; called from client:pump(), in whatever coroutine runs it, and by who
--         cancels a wait. It should schedule the waiter, not resume it on the spot. Harmless when the waiter does not
--         wait, or not any more.
--     adapter.name      optional: for messages.
--     adapter.yields    optional, matters on Lua 5.1 only, where a yield cannot cross pcall: waits are protected unless
--                       they may yield. false: wait never yields; or a function that says whether it may, here and now.
--     adapter.prepare(settings)
--                       optional: called before a client is opened, with connect's settings, which it may change. Returns true;
--                       or nil, message, code if no client can be opened where the caller is.
--     adapter.attach(client), adapter.detach(client)
--                       optional: the client was opened, is closed. detach stops the adapter's pump.
--     adapter.attend(client)
--                       optional: a lock is held, or a watch armed, of whose fate the program is to be told, and perhaps
--                       nobody waits: where there is a loop, the pump is to run. Must not yield.
--     adapter.spawn(fn) optional: runs fn() in a coroutine of its own; fn raises no errors. Used for the program's
--                       callbacks (on_lost, on_revoke, on("state")), which may then wait without delaying the pump;
--                       without it they run inside it.
--
--     adapter.forget(waiter)
--                       optional: the waiter will not go on: an error has ended its wait, or its coroutine was not resumed in
--                       time. Called before what it waited for is given up.
--     adapter.alone     optional: true if wait blocks the whole program, so that there is nobody else to wake; then no waiter is
--                       given to wait, and wake is never called.
--     adapter.patience()
--                       optional: for how many seconds other calls may block the whole program, here and now, because wait
--                       would too; nil: not at all.
--     adapter.here()    optional: the adapter that is to be used in place of this one, here and now; nil: this one.
--     adapter.owner()   optional: what the running coroutine works for, such as a request: a table, userdata or coroutine that is
--                       not used for anything else later. nil: the coroutine works for itself. Must not yield. A hold belongs to
--                       the coroutine that acquired it. Coroutines of one owner may also release, and look at, what another one
--                       of them holds; and when a coroutine ends while it holds, the hold is its owner's.
--     adapter.bind(hold)
--                       optional: the running coroutine has asked for a lock, by the claim `hold.claim`. The adapter may have the
--                       claim end together with whatever runs; `hold.owner` is for its own use. With it the client's pump is
--                       attended to while any lock is held.
--     adapter.keep(hold)
--                       optional: the lock was acquired with `keep = true`: its claim is not to end so.
--     adapter.enclose(hold)
--                       optional: with_lock, called by the running coroutine, holds the lock from now on. While it does,
--                       `hold.within` is not false.
--
-- An adapter that learns that a waiter's coroutine was killed calls zklock.wait's forsake(client, waiter), which gives up what
-- it waited for; otherwise that happens when it is collected. Of coroutine.close, in Lua 5.4, it need not tell. A pump that calls
-- zklock.wait's collect(client) twice a second, or so, sees to it that the collector goes on in a program that does nothing but
-- wait, and that waits are given up which will not go on.
--
-- `waiter` is a fresh table for each wait loop, empty, for the adapter to keep in it what it likes: a coroutine, a
-- condition, a metatable. The loop around wait looks whether it is done, calls wait, calls client:pump(), and looks
-- again, with no yield between looking and waiting: a wake-up that comes while nobody waits need not be remembered.
--
-- **The pump.** Somebody has to call client:pump() whenever client:pollfd() is readable: it takes the news, calls
-- adapter.wake for those whom they concern, and runs callbacks. There are two ways.
--
-- *Each waiter polls the fd itself*, besides whatever wake posts. Several coroutines may wait for the same fd; the first to
-- run drains it and wakes the right ones. This needs nothing but wait and wake, but runs all waiters at each event, and
-- callbacks come only while somebody waits.
--
-- *One pump for each client* is what the adapters here do: a handle, a reader or a coroutine of the loop that pumps when the
-- fd is readable. wait and attend start it if it is not running. Three rules keep it from doing harm:
--
--   * It may hold the client, and should: the fd is closed when the client is collected. Then it must end, or the client
--     never is collected: when `client:needs_pump()` is false (nobody waits, no lock is held, no watch armed), and at detach.
--     Look after each pump and, if the loop can tell the time, now and then.
--   * It ends, or stops watching the fd, before the fd is closed. Loops remember descriptors by their numbers, and the next
--     client, or somebody else's socket, gets the number of the last.
--   * It keeps the loop from ending only while somebody waits: a program whose work is done must end, also when it still
--     holds a lock.
--
-- A waiting coroutine must be held by something, or it is collected: by the loop, as most do with all their coroutines, or by
-- the adapter. What is collected all the same (with its whole loop, say) leaves its place in the queue.
--
-- The smallest one, for a loop that has coroutines, timers and readers of descriptors:
--
--     local adapter, pumps = {}, setmetatable({}, { __mode = "k" })
--
--     function adapter.attend(client)
--         pumps[client] = pumps[client] or loop.on_readable(client:pollfd(), function()
--             client:pump()
--             if not client:needs_pump() then
--                 adapter.detach(client)
--             end
--         end)
--     end
--
--     function adapter.wait(client, waiter, seconds)
--         adapter.attend(client)
--         waiter.thread = coroutine.running()
--         waiter.timer = loop.after(seconds, function() adapter.wake(waiter) end)
--         coroutine.yield()
--         waiter.timer:cancel()
--         return true
--     end
--
--     function adapter.wake(waiter)
--         local thread = waiter.thread
--         if thread then
--             waiter.thread = nil                    -- once is enough
--             loop.soon(function() coroutine.resume(thread) end)
--         end
--     end
--
--     function adapter.detach(client)
--         if pumps[client] then
--             pumps[client]:cancel()
--             pumps[client] = nil
--         end
--     end
--
-- examples/adapter_select.lua is a complete program with an adapter for a loop over LuaSocket's select;
-- zklock.adapters.cqueues, .luv and .copas are others to look at. For loops that have no timers there is
-- `require("zklock.core").alarm()`: `alarm:fd()` is a descriptor that is readable after `alarm:set(seconds)`.

local format = string.format
local pcall, rawget, require, tostring, type = pcall, rawget, require, tostring, type

local adapters = {}

--- The names that `wait` may have, whether or not this version has the adapter.
local NAMES = { auto = true, blocking = true, openresty = true, cqueues = true, luv = true, copas = true }

--- What "auto" means here: outside of nginx, zklock.adapters.auto finds out at each wait. Inside nginx the blocking adapter
-- would stop the worker: better an error that says so.
local function detect()
    return rawget(_G, "ngx") and "openresty" or "auto"
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
        return nil, format("option 'wait': the adapter \"%s\" cannot be loaded here (%s); " ..
            "give a table with wait and wake to use your own", name, tostring(adapter):match("^[^\n]*"))
    end
    return adapter
end

return adapters
