--- protect: calls that may wait, protected wherever Lua allows that.
--
-- A call that is interrupted by an error must give up what it has asked for. For this, a pcall must surround the call. On all
-- versions of Lua except PUC Lua 5.1 a coroutine may yield across pcall. On PUC Lua 5.1 a call that may yield runs unprotected.
-- If the coroutine cannot yield at that point, for example inside a pcall of the program, the call is protected. Its wait is
-- going to raise, and the call then gives up what it has asked for. zklock.wait's sweep finds the remaining cases.

local core = require "zklock.core"

local coroutine, error, pcall, rawget, type = coroutine, error, pcall, rawget, type

local protect = {}

--- Whether a coroutine may yield across pcall. LuaJIT is not probed: inside nginx coroutines belong to nginx, which cannot run a
-- coroutine while a module is loaded.
local PCALL_YIELDS = rawget(_G, "jit") ~= nil or (function()
    local probe = coroutine.create(function()
        pcall(coroutine.yield)
    end)
    coroutine.resume(probe)
    return coroutine.status(probe) == "suspended"
end)()
protect.PCALL_YIELDS = PCALL_YIELDS

local yieldable = core.yieldable

--- Calls fn(...), protected unless that would forbid it to yield. Returns what pcall would return.
local function call(fn, ...)
    if yieldable() then
        return true, fn(...)
    end
    return pcall(fn, ...)
end
protect.call = PCALL_YIELDS and pcall or call

--- For adapters, before they suspend the running coroutine: raises where the coroutine cannot be suspended.
function protect.check_yieldable()
    if not PCALL_YIELDS and not yieldable() then
        error("nothing can wait inside pcall, a metamethod or an iterator on Lua 5.1: " ..
            "attempt to yield across metamethod/C-call boundary", 0)
    end
end

--- Returns the function that protects calls that may wait by an adapter.
function protect.by(adapter)
    local yields = adapter.yields
    if PCALL_YIELDS or yields == false then
        return pcall
    elseif type(yields) ~= "function" then
        return call
    end
    return function(...)
        return (yields() and call or pcall)(...)
    end
end

return protect
