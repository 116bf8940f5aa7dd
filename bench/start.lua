--- start: makes programs begin together, by files in a directory that they share.
--
-- A program that is ready makes DIR/ready-NUMBER and waits for DIR/go, which contains the time at which it may begin, in seconds
-- of the day's clock.

local socket = require "socket"

local start = {}

local PATIENCE = 60 -- seconds until all are ready

local function exists(name)
    local file = io.open(name)
    return file and file:close() or false
end

--- For the measuring program: makes an empty directory.
function start.prepare(dir)
    assert(os.execute(string.format("rm -rf '%s' && mkdir '%s'", dir, dir)))
end

--- For the measuring program: waits until programs are ready.
---@param dir string
---@param numbers table
function start.await_ready(dir, numbers)
    local deadline = socket.gettime() + PATIENCE
    for _, number in ipairs(numbers) do
        while not exists(dir .. "/ready-" .. number) do
            if socket.gettime() > deadline then
                error("not all clients are connected")
            end
            socket.sleep(0.01)
        end
    end
end

--- For the measuring program: all begin in `delay` seconds.
function start.give(dir, delay)
    local file = assert(io.open(dir .. "/go.new", "w"))
    file:write(string.format("%.3f\n", socket.gettime() + delay))
    file:close()
    os.rename(dir .. "/go.new", dir .. "/go")
end

--- For a measured program: reports that it is ready, and waits until it may begin.
---@param dir string
---@param number number
---@param sleep function of seconds
---@return number # the time at which it may begin
function start.await(dir, number, sleep)
    assert(io.open(dir .. "/ready-" .. number, "w")):close()
    local file
    repeat
        sleep(0.01)
        file = io.open(dir .. "/go")
    until file
    local moment = file:read("n")
    file:close()
    sleep(math.max(0, moment - socket.gettime()))
    return moment
end

return start
