--- support.interrupts: raises an error at each VM instruction of an operation in turn, as Ctrl-C may.
--
-- The interpreter turns a signal into an error that a debug hook raises. A hook that counts instructions does the same at each
-- place in turn, without a signal.

local compat = require "spec.support.compat"
local max = math.max

local interrupts = {}

--- Calls fn(...) and raises "interrupted!" in it after `count` instructions, or directly after it. Returns like pcall.
---@param count number
---@param spared? string part of a source file's name; its functions are not interrupted, the error comes after them
---@param fn function
function interrupts.call(count, spared, fn, ...)
    local arguments = { n = select("#", ...), ... }
    local function hook()
        if spared and debug.getinfo(2, "S").source:find(spared, 1, true) then
            return debug.sethook(hook, "", 1)
        end
        debug.sethook()
        error("interrupted!", 0)
    end
    return pcall(function()
        debug.sethook(hook, "", count)
        fn(compat.unpack(arguments, 1, arguments.n))
        debug.sethook()
    end)
end

--- A sweep is over after so many runs in a row that end before their error: the number of instructions in a wait varies.
local ENOUGH = 3

--- Whether every instruction is tried, whatever the stride: if ZKLOCK_SWEEP is set.
local EVERY = os.getenv "ZKLOCK_SWEEP" ~= nil

--- LuaJIT, Lua 5.4 and 5.5 try each instruction: interpreters differ in what an instruction is, and in how hooks are called. On the
-- other versions each tenth instruction is enough.
local STRIDE = (rawget(_G, "jit") or compat.CLOSES or EVERY) and 1 or 10
interrupts.STRIDE = STRIDE

--- Runs an operation again and again, with an error one instruction later each time, until the operation ends before the error.
---@param steps table `prepare()` returns the argument of the other functions. `run(case)` is the operation.
--   `check(case, interrupted)` raises if there is an error afterwards. `stride` is how many instructions later each error comes
--   (1), unless all are tried. `spared` is as of call.
---@return number # how many runs were interrupted
function interrupts.sweep(steps)
    local count, interrupted, ended = 0, 0, 0
    while ended < ENOUGH do
        count = count + (EVERY and 1 or max(STRIDE, steps.stride or 1))
        local case = steps.prepare()
        local ok, problem = interrupts.call(count, steps.spared, steps.run, case)
        if not ok and problem ~= "interrupted!" then
            error(("after %d instructions: %s"):format(count, tostring(problem)), 0)
        end
        interrupted = interrupted + (ok and 0 or 1)
        ended = ok and ended + 1 or 0
        ok, problem = pcall(steps.check, case, not ok)
        if not ok then
            local text = type(problem) == "table" and problem.message or problem
            error(("interrupted after %d instructions: %s"):format(count, tostring(text)), 0)
        end
    end
    return interrupted
end

return interrupts
