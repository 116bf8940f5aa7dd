--- callgrind: how many instructions the processor executes for a Lua program, and in which part. User space only, all threads.

local lib = require "lib"
local report = require "report"

local callgrind = {}

--- The part of the process that an object file belongs to.
local function part_of(object)
    if object:find("zklock/core.so", 1, true) then
        return "zklock"
    elseif object:find("libzookeeper", 1, true) then
        return "C client"
    elseif object:find("lua", 1, true) then
        return "Lua"
    end
    return "libc" -- and ld.so, libpthread, libm
end

callgrind.PARTS = { "zklock", "C client", "Lua", "libc" }

--- Reads callgrind's output: instructions by part, and those of libc by the part that called it.
local function read_profile(name)
    local own, libc_for, objects = {}, {}, {}
    local part, called_part, is_call = "libc", "libc", false
    local function object_of(text)
        local id, object = text:match("^%((%d+)%)%s*(.*)$")
        if object ~= "" then
            objects[id] = object
        end
        return part_of(objects[id] or "")
    end
    for line in io.lines(name) do
        local key, value = line:match("^(c?[a-z]+)=(.*)$")
        if key == "ob" then
            part = object_of(value)
        elseif key == "cob" then
            called_part = object_of(value)
        elseif key == "calls" then
            is_call = true
        elseif not key then
            local cost = line:match("^[%d+*-]%S* (%d+)$")
            if cost and is_call then
                if called_part == "libc" and part ~= "libc" then
                    libc_for[part] = (libc_for[part] or 0) + tonumber(cost)
                end
                is_call = false
            elseif cost then
                own[part] = (own[part] or 0) + tonumber(cost)
            end
            called_part = is_call and called_part or part
        elseif key == "fn" then
            called_part = part
        end
    end
    return own, libc_for
end

--- Whether valgrind is installed. If not, that is reported.
function callgrind.is_there()
    local there = os.execute("command -v valgrind >/dev/null")
    if not there then
        report.say("missing: valgrind")
    end
    return there
end

--- Runs a program that prints one line, as for lib.run.
---@param words table the program and its arguments
---@return table own instructions by part
---@return table libc_for those of libc by the part that called it
---@return table # the line's values
function callgrind.run(settings, words)
    local name = settings.scratch .. "/callgrind"
    -- Symbols are resolved at the start: a call through the resolver would count as libc's, with everything that it calls.
    local command = { "env", "LD_BIND_NOW=1", "valgrind", "--tool=callgrind", "--quiet", "--callgrind-out-file=" .. name, "lua5.4" }
    table.move(words, 1, #words, #command + 1, command)
    local its = lib.run(command)
    local own, libc_for = read_profile(name)
    return own, libc_for, its
end

return callgrind
