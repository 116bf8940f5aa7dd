--- support.memory: reads the memory of another process, as a debugger or a core dump would.

local memory = {}

local PIECE = 1024 * 1024

--- Calls a function with every readable piece of memory. Pieces of one mapping overlap by `overlap` bytes.
local function each_piece(pid, overlap, fn)
    local maps = assert(io.open(("/proc/%d/maps"):format(pid)))
    local contents = assert(io.open(("/proc/%d/mem"):format(pid), "rb"))
    contents:setvbuf("no")
    for line in maps:lines() do
        local first, last, rights, name = line:match("^(%x+)%-(%x+) (%S+) %S+ %S+ %S+%s*(.*)$")
        local from, to = tonumber(first, 16), tonumber(last, 16)
        if rights:sub(1, 1) == "r" and not name:find("^%[v") then
            while from < to do
                local size = math.min(PIECE, to - from)
                local piece = contents:seek("set", from) and contents:read(size)
                if piece then
                    fn(piece)
                end
                from = from + size
                if from < to then
                    from = from - overlap
                end
            end
        end
    end
    contents:close()
    maps:close()
end

--- Returns how often some bytes occur in a process's memory.
function memory.count(pid, bytes)
    local found = 0
    each_piece(pid, #bytes - 1, function(piece)
        local at = piece:find(bytes, 1, true)
        while at do
            found = found + 1
            at = piece:find(bytes, at + 1, true)
        end
    end)
    return found
end

return memory
