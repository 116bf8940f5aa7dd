--- inspect.waits: who waits for whom, over all locks that were read, and the deadlocks. No I/O.
--
-- A *program* is what holds and waits: all contenders with one identity, or, if that is not known, with one session. A
-- `zklock run` inside another one has the same identity, and a session of its own.

local ipairs, pairs, setmetatable = ipairs, pairs, setmetatable
local concat, sort = table.concat, table.sort
local format = string.format

local Waits = {}
Waits.__index = Waits

--- Returns what stands for a contender's program; nil: its node was not read.
local function program_of(contender)
    local identity = contender.identity
    return identity and identity ~= "" and identity or contender.session
end
Waits.program_of = program_of

--- Whether a contender waits. A permit that is not held was created in advance by a waiter that is in the queue, too.
local function is_waiting(contender)
    return not contender.holder and contender.mode ~= "lease"
end
Waits.is_waiting = is_waiting

--- Returns the programs of a lock's contenders that `wanted` is true of, each once, in queue order.
local function programs(state, wanted)
    local list, seen = {}, {}
    for _, contender in ipairs(state.contenders) do
        local program = wanted(contender) and program_of(contender)
        if program and not seen[program] then
            seen[program] = true
            list[#list + 1] = program
        end
    end
    return list
end

local function is_holder(contender)
    return contender.holder
end

local function any()
    return true
end

--- Adds a value to the list that a table has for a key.
local function append(lists, key, value)
    lists[key] = lists[key] or {}
    lists[key][#lists[key] + 1] = value
end

--- Returns what can never go on: programs and locks, which wait for each other or for a deadlock: program or state -> true. A lock
-- goes on when all its holders do, a semaphore when one of them does.
local function find_stuck(waiting, holders)
    local left, behind, ready, stuck = {}, {}, {}, {} -- left: how much it waits for; behind: what waits for it; ready: what goes on
    for program, states in pairs(waiting) do
        left[program], stuck[program] = #states, true
        for _, state in ipairs(states) do
            append(behind, state, program)
        end
    end
    for state, list in pairs(holders) do
        left[state], stuck[state] = state.kind == "semaphore" and 1 or #list, true
        for _, program in ipairs(list) do
            append(behind, program, state)
            if not waiting[program] then
                left[program] = 0
                ready[#ready + 1] = program
            end
        end
        if not list[1] then
            ready[#ready + 1] = state
        end
    end
    while ready[1] do
        local one = ready[#ready]
        ready[#ready] = nil
        if stuck[one] ~= false then
            stuck[one] = false
            for _, other in ipairs(behind[one] or {}) do
                left[other] = left[other] - 1
                if left[other] <= 0 then
                    ready[#ready + 1] = other
                end
            end
        end
    end
    return stuck
end

--- Goes from a program that is stuck to one that holds what it waits for, and so on, until one comes again or its deadlock is
-- known. Notes the deadlock for all programs on the way.
local function follow(self, stuck, program)
    local steps, at = {}, {}
    while not self._of[program] and not at[program] do
        local step = { program = program }
        steps[#steps + 1], at[program] = step, #steps + 1
        for _, state in ipairs(self._waiting[program]) do
            for _, other in ipairs(not step.waits_for and stuck[state] and self._holders[state] or {}) do
                if stuck[other] and not step.waits_for then
                    step.waits_for, program = state.path, other
                end
            end
        end
    end
    local deadlock = self._of[program]
    if not deadlock then
        deadlock = {}
        for index = at[program], #steps do
            deadlock[#deadlock + 1] = steps[index]
        end
        self.deadlocks[#self.deadlocks + 1] = deadlock
    end
    for _, step in ipairs(steps) do
        self._of[step.program] = deadlock
    end
end

--- Finds who waits for whom.
--
-- Field: `deadlocks`, a list. A *deadlock* is a list of `{ program =, waits_for = path }`: each program waits for a lock that the
-- next one holds, and the last one for a lock of the first.
--
---@param states table of lock states, of which all nodes were read
---@return table
function Waits.new(states)
    local self = setmetatable({ deadlocks = {}, _waiting = {}, _holders = {}, _of = {} }, Waits)
    local contended = {}
    for _, state in pairs(states) do
        contended[#contended + 1] = programs(state, is_waiting)[1] and state
    end
    sort(contended, function(a, b)
        return a.path < b.path
    end)
    for _, state in ipairs(contended) do
        local holders = programs(state, is_holder)
        self._holders[state] = holders
        for _, program in ipairs(programs(state, is_waiting)) do
            if holders[2] or holders[1] ~= program then -- otherwise another thread of the holder waits
                append(self._waiting, program, state)
            end
        end
    end
    local stuck = find_stuck(self._waiting, self._holders)
    for _, state in ipairs(contended) do
        for _, program in ipairs(programs(state, any)) do
            if stuck[program] and not self._of[program] then
                follow(self, stuck, program)
            end
        end
    end
    return self
end

--- Returns the deadlock that keeps a holder of a lock from going on, which comes first in it if it is a part of it; or nil.
function Waits:deadlock(state)
    for _, program in ipairs(programs(state, is_holder)) do
        local deadlock, first = self._of[program], 1
        for index, step in ipairs(deadlock or {}) do
            first = step.program == program and index or first
        end
        if deadlock then
            local turned = {}
            for index = 0, #deadlock - 1 do
                turned[index + 1] = deadlock[(first - 1 + index) % #deadlock + 1]
            end
            return turned
        end
    end
    return nil
end

--- Returns the paths of what a program waits for, without one of them.
function Waits:paths(program, without)
    local paths = {}
    for _, state in ipairs(self._waiting[program] or {}) do
        if state.path ~= without then
            paths[#paths + 1] = state.path
        end
    end
    return paths
end

--- Returns a deadlock as a text: "a holds /x and waits for /y; b holds /y and waits for /x".
function Waits.describe(deadlock)
    local parts = {}
    for index, step in ipairs(deadlock) do
        local before = deadlock[index == 1 and #deadlock or index - 1]
        parts[index] = format("%s holds %s and waits for %s", step.program, before.waits_for, step.waits_for)
    end
    return concat(parts, "; ")
end

return Waits
