--- adapters.auto: determines at each wait which loop is running, and waits by that loop's adapter.
--
--   * In a coroutine that a cqueues controller runs: cqueues.
--   * Under libuv's loop while that is running (according to `luv.loop_mode()`): luv. Under a copas that can report that it is
--     running (`copas.running`, from copas 2 on): copas.
--   * If none of them is running: blocking.
--   * If that is ambiguous, because two of them are running, or in a coroutine within a coroutine of cqueues: the answer is
--     "phase". Name the adapter there.
--
-- This adapter cannot detect Debian's copas (use `wait = "copas"`), nor a coroutine under luv or copas that other code resumes,
-- such as a generator. Such a coroutine must not wait.

local blocking = require "zklock.adapters.blocking"

local ipairs, require, type = ipairs, require, type
local loaded = package.loaded

--- The limit of the adapter for plain programs.
local PATIENCE = blocking.may_block_for()

local auto = { name = "auto" }

--- The adapters that have been used, by name.
local used = {}

local function adapter_of(name)
    used[name] = used[name] or require("zklock.adapters." .. name)
    return used[name]
end

--- Determines what is running around the caller, innermost first as far as Lua can tell.
---@return string? # name of an adapter
---@return string? # why it is ambiguous
local function look_around()
    local cqueues, luv, copas = loaded.cqueues, loaded.luv, loaded.copas
    local controller, within
    if cqueues then
        controller, within = cqueues.running()
        if controller and within then
            return "cqueues"
        end
    end
    local name, count = "blocking", 0
    if controller then
        name, count = "cqueues", count + 1
    end
    if type(luv) == "table" and luv.loop_mode and luv.loop_mode() then
        name, count = "luv", count + 1
    end
    if type(copas) == "table" and copas.running == true then
        name, count = "copas", count + 1
    end
    if count > 1 then
        return nil, 'more than one event loop is running here: name one with the option wait of zklock.connect'
    elseif controller then
        return nil, "this coroutine is not one that the cqueues controller runs itself: connect with wait = \"cqueues\" if " ..
            "all between them are resumed by cqueues.auxlib, or wait elsewhere"
    end
    return name
end

--- For zklock.wait: the adapter for this place; nil where that is ambiguous.
function auto.here()
    if not (loaded.cqueues or loaded.luv or loaded.copas) then
        return blocking -- no loop can be running
    end
    local name = look_around()
    return name and adapter_of(name)
end

--- See zklock.adapters for the contract of an adapter's functions. This one is called in every acquire and release.
function auto.may_block_for()
    if loaded.cqueues or loaded.luv or loaded.copas then
        local here = auto.here()
        return here and here.may_block_for and here.may_block_for()
    end
    return PATIENCE
end

function auto.wait(client, waiter, seconds)
    local name, problem = look_around()
    if not name then
        return nil, problem, "phase"
    end
    waiter.adapter = adapter_of(name)
    return waiter.adapter.wait(client, waiter, seconds)
end

function auto.wake(waiter)
    if waiter.adapter then
        waiter.adapter.wake(waiter)
    end
end

function auto.forget(waiter)
    local forget = waiter.adapter and waiter.adapter.forget
    if forget then
        forget(waiter)
    end
end

--- Whether a wait may yield here.
function auto.yields()
    return auto.here() ~= blocking
end

--- A lock that is acquired before a loop runs is attended to from the first wait in that loop on.
function auto.attend(client)
    local here = auto.here()
    if here and here.attend then
        here.attend(client)
    end
end

--- As attend. The loop that was running at the first call keeps the client's calls until the last of them has its answer.
function auto.calls(client, has_calls)
    local desk = client:desk()
    if has_calls then
        desk.calls_adapter = auto.here()
    end
    local adapter = desk.calls_adapter
    if adapter and adapter.calls then
        adapter.calls(client, has_calls)
    elseif adapter and adapter.attend and has_calls then
        adapter.attend(client)
    end
end

function auto.detach(client)
    for _, name in ipairs { "cqueues", "luv", "copas" } do
        if used[name] then
            used[name].detach(client)
        end
    end
end

function auto.spawn(fn)
    local here = auto.here()
    if here and here.spawn then
        here.spawn(fn)
    else
        fn()
    end
end

return auto
