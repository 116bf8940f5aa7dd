--- cli.waits: who waits for whom, over all locks that were read.
--
-- A *program* is what holds and waits: all contenders with one identity, or, if that is not known, with one session. A
-- `zklock run` inside another one has the same identity, and a session of its own.

local ipairs, pairs = ipairs, pairs
local concat, format = table.concat, string.format

local waits = {}

--- Returns what stands for a contender's program; nil: its node was not read.
local function program_of(contender)
    local identity = contender.identity
    return identity and identity ~= "" and identity or contender.session
end
waits.program_of = program_of

--- Whether a contender waits. A permit that is not held was created in advance by a waiter that is in the queue, too.
local function is_waiting(contender)
    return not contender.holder and contender.mode ~= "lease"
end

--- Returns for each program what it waits for: program -> list of lock states.
---@param states table list of lock states, of which all nodes were read
function waits.by_program(states)
    local found = {}
    for _, state in ipairs(states) do
        local seen = {}
        for _, contender in ipairs(state.contenders) do
            local program = is_waiting(contender) and program_of(contender)
            if program and not seen[program] then
                seen[program] = true
                found[program] = found[program] or {}
                found[program][#found[program] + 1] = state
            end
        end
    end
    return found
end

--- Goes on from a program to those who hold what it waits for. `steps` are those on the way here, `at` their indices by program;
-- false: of a program that leads nowhere. Returns the index of the first step of a deadlock.
local function search(waiting, steps, at, program)
    at[program] = #steps + 1
    for _, state in ipairs(waiting[program] or {}) do
        steps[#steps + 1] = { program = program, waits_for = state.path }
        for _, contender in ipairs(state.contenders) do
            local other = contender.holder and program_of(contender)
            local first = other and (at[other] or at[other] == nil and search(waiting, steps, at, other))
            if first then
                return first
            end
        end
        steps[#steps] = nil
    end
    at[program] = false
    return nil
end

--- Finds a deadlock: programs of which each waits for a lock that the next one holds, and the last one for a lock of the first.
---@param waiting table as of by_program
---@param state table of a lock: the deadlock keeps its holder from going on
---@return table? # list of `{ program =, waits_for = path }`
function waits.deadlock(waiting, state)
    local steps, at = {}, {}
    for _, contender in ipairs(state.contenders) do
        local program = contender.holder and program_of(contender)
        local first = program and at[program] == nil and search(waiting, steps, at, program)
        if first then
            local found = {}
            for index = first, #steps do
                found[#found + 1] = steps[index]
            end
            return found
        end
    end
    return nil
end

--- Returns a deadlock as a text: "a holds /x and waits for /y; b holds /y and waits for /x".
function waits.describe(deadlock)
    local parts = {}
    for index, step in ipairs(deadlock) do
        local before = deadlock[index == 1 and #deadlock or index - 1]
        parts[index] = format("%s holds %s and waits for %s", step.program, before.waits_for, step.waits_for)
    end
    return concat(parts, "; ")
end

--- Returns the paths of what a program waits for, without one of them.
function waits.paths(waiting, program, without)
    local paths = {}
    for _, state in pairs(waiting[program] or {}) do
        if state.path ~= without then
            paths[#paths + 1] = state.path
        end
    end
    return paths
end

return waits
