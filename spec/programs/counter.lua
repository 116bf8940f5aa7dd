--- counter: increments a number in a file under a lock; two processes at once would lose increments without it.
--
-- Arguments: servers, path, file, how often; or in its place the name of a file that ends the program when it exists. Ends with
-- "done" and its tokens, one a line: "count token".

local zklock = require "zklock"

local servers, path, file_name, turns = arg[1], arg[2], arg[3], tonumber(arg[4])

local function is_over(done)
    if turns then
        return done == turns
    end
    local file = io.open(arg[4])
    return file and file:close()
end

local function read_number()
    local file = assert(io.open(file_name, "r"))
    local number = file:read("*n")
    file:close()
    return number
end

--- In one step, for those who read without the lock.
local function write_number(number)
    local new = file_name .. ".new"
    local file = assert(io.open(new, "w"))
    file:write(number, "\n")
    file:close()
    assert(os.rename(new, file_name))
end

local client = assert(zklock.connect(servers, { session_timeout = 20, connect_timeout = 30 }))
local lock = client:mutex(path)
local lines = {}
while not is_over(#lines) do
    assert(lock:acquire(50))
    local number = read_number() + 1
    lines[#lines + 1] = ("%d %s"):format(number, lock:token())
    write_number(number)
    assert(lock:release())
end
client:close()
print("done")
print(table.concat(lines, "\n"))
