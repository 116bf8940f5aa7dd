--- support.interrupts: an error at every VM instruction of an operation in turn, as Ctrl-C may raise it.
--
-- The interpreter turns a signal into an error that a debug hook raises. A hook that counts instructions does the same at every
-- place in turn, without a signal.

local compat = require "spec.support.compat"
local max = math.max

local interrupts = {}

--- Calls fn(...); raises "interrupted!" in it after so many instructions, or right after it. Answers like pcall.
-- @tparam number count
-- @tparam string|nil spared part of the name of a source file whose functions are not interrupted: the error comes after them
-- @tparam function fn
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

--- How many runs in a row end before their error is raised until a sweep is over: a wait has not always as many instructions.
local ENOUGH = 3

--- Whether every instruction is tried, whatever the stride: ZKLOCK_SWEEP says so.
local EVERY = os.getenv "ZKLOCK_SWEEP" ~= nil

--- Lua versions whose interpreters differ in what an instruction is, and how a hook is called. On the others each tenth must do.
local STRIDE = (rawget(_G, "jit") or _VERSION == "Lua 5.4" or EVERY) and 1 or 10
interrupts.STRIDE = STRIDE

--- Runs an operation again and again, raising an error in it one instruction later each time, until it ends before.
-- @tparam table steps `prepare()` returns what the others are called with; `run(case)` is the operation; `check(case, interrupted)`
--   raises if something is wrong afterwards; `stride`: how many instructions later each time, 1 unless given, or if all are tried;
--   `spared`: as of call
-- @treturn number how many runs were interrupted
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
