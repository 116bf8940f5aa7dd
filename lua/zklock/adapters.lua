--- adapters: how a wait suspends its caller. Only this differs between event loops.
--
-- An adapter is a table (`Adapter`, below) that `zklock.connect(servers, {wait = adapter})` takes.
--
-- If an adapter learns that a waiter's coroutine was killed, it calls zklock.wait's abandon(client, waiter), which gives up
-- what the waiter waited for. Without this call that happens when the waiter is collected. The adapter need not report Lua
-- 5.4's coroutine.close. A pump should call zklock.wait's collect(client) about twice a second: it runs the garbage collector
-- in a program that only waits, and gives up waits that will not go on.
--
-- `waiter` is a new, empty table for each wait loop, or what adapter.new_waiter() returns, if there is one. The adapter may
-- keep anything in it: a coroutine, a condition, a metatable. The loop around wait checks whether it is done, calls wait,
-- calls client:pump(), and checks again, with no yield between the check and wait. So a wake-up that comes while the waiter
-- does not wait need not be remembered.
--
-- **The pump.** client:pump() must be called whenever client:pollfd() is readable. It takes a few notifications at a time (the
-- fd stays readable while there are more), calls adapter.wake for the waiters that they concern, and runs callbacks. There are two
-- ways to call it.
--
-- *Each waiter polls the fd itself*, besides the events that wake posts. Several coroutines may wait for the same fd. The first
-- to run drains it and wakes the right ones. This needs only wait and wake, but runs all waiters at each event, and callbacks
-- are called only while there is a waiter.
--
-- *One pump for each client* is the way of the adapters here. The pump is a handle, a reader or a coroutine of the loop. It runs
-- when the fd is readable. wait and attend start it if it is not running. It must follow three rules:
--
--   * It should hold a reference to the client, because the fd is closed when the client is collected. Then it must end when
--     `client:needs_pump()` is false (no waiter, no callback to come, no lock held, no watch armed), and at detach; otherwise
--     the client is never collected. Check after each pump and, if the loop has timers, from time to time.
--   * It ends, or stops watching the fd, before the fd is closed. Loops identify descriptors by their numbers, and the next
--     client, or a foreign socket, may get the same number.
--   * It keeps the loop from ending only while there is a waiter. A program whose work is done must end, also when it still
--     holds a lock.
--
-- A waiting coroutine must be referenced by the loop (most loops reference all their coroutines) or by the adapter, otherwise
-- it is collected. A coroutine that is collected nevertheless (for example with its whole loop) gives up its place in the
-- queue.
--
-- The smallest adapter, for a loop that has coroutines, timers and readers of descriptors:
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
-- examples/adapter_select.lua is a complete program with an adapter for a loop over LuaSocket's select.
-- zklock.adapters.cqueues, .luv and .copas are further examples. For loops without timers there is
-- `require("zklock.core").alarm()`: `alarm:fd()` is a descriptor that is readable after `alarm:set(seconds)`.

local format = string.format
local pcall, rawget, require, tostring, type = pcall, rawget, require, tostring, type

--- How to wait in an event loop. All fields but `wait` and `wake` are optional.
---@class zklock.Adapter
-- Suspends the calling coroutine until adapter.wake(waiter) is called or `seconds` have passed (math.huge: no limit). May return
-- early for any reason. Returns true; or nil, message, code if the caller cannot wait where it is (code "phase"), which ends the
-- wait with that answer. May raise: the acquisition is then given up and the error goes on to the caller.
---@field wait fun(client: zklock.Client, waiter: table, seconds: number): true?, string?, zklock.Code?
-- Makes that waiter's wait return soon. Called from client:pump(), in any coroutine that runs it, also when the waiter's time is
-- long up, and by code that cancels a wait. It should schedule the waiter, not resume it immediately. Must have no effect when the
-- waiter does not wait, or no longer waits.
---@field wake fun(waiter: table)
---@field name? string for messages
-- It matters on Lua 5.1 only, where a yield cannot cross pcall: waits are protected unless they may yield. false: wait never
-- yields. Or a function that returns whether it may, here and now.
---@field yields? boolean|fun(): boolean
-- Called before a client is opened, with connect's settings, which it may change. Returns true; or nil, message, code if no client
-- can be opened where the caller is.
---@field prepare? fun(settings: table): true?, string?, zklock.Code?
---@field attach? fun(client: zklock.Client) the client was opened
---@field detach? fun(client: zklock.Client) the client is closed: stops the adapter's pump
-- Called when a lock is held or a watch is armed, of whose changes the program must be notified although there may be no waiter.
-- Starts the pump if there is a loop. Must not yield.
---@field attend? fun(client: zklock.Client)
-- Runs fn() in a new coroutine; fn raises no errors. Used for the program's callbacks (on_lost, on_revoke, on("state")), which may
-- then wait without delaying the pump. Without spawn they run inside the pump.
---@field spawn? fun(fn: fun())
-- For code of the program that the loop may break off, as nginx does by ngx.exit. Called in the coroutine that is going to run the
-- code. Returns a function to be called after the code. If that can never be called any more, fn(argument) is called.
---@field guard? fun(fn: fun(argument: any), argument: any): fun()
-- Called with true when the program has asked for an answer by a callback (zklock.call), and with false when there is no such
-- answer to come any more. Meanwhile the loop must run the pump, and should not end. Without it, attend is called instead of the
-- former. Must not yield.
---@field calls? fun(client: zklock.Client, has_calls: boolean)
-- Whether callbacks asked for here are going to be called. Returns true; or nil, message, code, which the function that was asked
-- returns.
---@field can_call? fun(client: zklock.Client): true?, string?, zklock.Code?
---@field new_waiter? fun(): table returns a new table for a wait loop; see `waiter` above
-- The waiter will not go on: an error has ended its wait. Called before the thing that it waited for is given up.
---@field forget? fun(waiter: table)
-- true if wait blocks the whole program, so that there is no other coroutine to wake. Then no waiter is passed to wait, and wake is
-- never called.
---@field alone? boolean
-- Returns for how many seconds other calls may block the whole program, here and now, because wait would do so too. nil: not at
-- all.
---@field may_block_for? fun(): number?
---@field here? fun(): table? the adapter to use in place of this one, here and now; nil: this one
-- The object for which the running coroutine works, such as a request: a table, userdata or coroutine that is not reused for
-- anything else later. nil: the coroutine works for itself. Must not yield. A hold belongs to the coroutine that acquired it.
-- Coroutines of one owner may also release and query each other's holds. When a coroutine ends while it holds, the hold belongs to
-- its owner. A hold without `keep` lasts as long as its owner, also if nothing else refers to the lock. On Lua 5.1 and LuaJIT,
-- whose weak tables cannot tell, that is for ever if a callback of its lock refers to the owner: there, end the acquisition with
-- the owner (bind).
---@field owner? fun(): table?
-- The running coroutine has asked for a lock, by `hold:acquisition()`. The adapter may end this acquisition together with whatever
-- runs. `hold:caller()` has weak references to the coroutine, `thread`, and to what adapter.owner() has returned, `owner`. With
-- bind the client's pump is attended to while any lock is held.
---@field bind? fun(hold: zklock.Hold)
---@field keep? fun(hold: zklock.Hold) the lock was acquired with `keep = true`: the adapter must not end its acquisition
-- with_lock, called by the running coroutine, holds the lock from now on. While it does, `hold:is_enclosed()` is true.
---@field enclose? fun(hold: zklock.Hold)

local adapters = {}

--- The names that the option `wait` accepts, whether or not this version has the adapter.
--
-- The name of a new adapter of zklock goes also into the message of adapters.find and into zklock.ConnectOptions. Its file goes
-- into rockspec/zklock-scm-1.rockspec (then run `lua5.4 tools/version.lua write`), and what it loads into docs/install.md, in the
-- table of components. If Lua code can see that the loop is running, adapters/auto.lua chooses the adapter: the loop goes into
-- `look_around`, and into each place of that file that names the loops.
local NAMES = { auto = true, blocking = true, openresty = true, cqueues = true, luv = true, copas = true }

--- Finds the adapter for the option `wait`.
---@param choice string|table a name, or an adapter of the program
---@return table? # the adapter
---@return string? wrong
function adapters.find(choice)
    if type(choice) == "table" then
        if type(choice.wait) ~= "function" or type(choice.wake) ~= "function" then
            return nil, "option 'wait' must be a table with the functions wait and wake, or the name of an adapter"
        end
        return choice
    elseif not NAMES[choice] then
        return nil, 'option \'wait\' must be "auto", "blocking", "openresty", "cqueues", "luv", "copas" or a table'
    end
    local ngx, name = rawget(_G, "ngx"), choice
    if ngx and choice == "auto" then -- elsewhere zklock.adapters.auto determines the loop at each wait
        name = "openresty"
    end
    if ngx and name == "openresty" and not ngx.timer then
        return nil, "option 'wait': in ngx.run_worker_thread it must be \"blocking\", which blocks that thread only"
    end
    local found, adapter = pcall(require, "zklock.adapters." .. name)
    if not found then
        return nil, format("option 'wait': the adapter \"%s\" cannot be loaded here (%s); " ..
            "give a table with wait and wake to use your own", name, tostring(adapter):match("^[^\n]*"))
    end
    return adapter
end

return adapters
