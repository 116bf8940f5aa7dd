--- supervised: the command of `zklock run` in the case command: prints what the processes around it do in SECONDS.
--
-- `wrapper`, `io`, `guardian`: how many times the wrapper's first thread, its I/O thread and the guardian gave up the processor in
-- order to wait. `cpu_ms`: processor time of all three.
--
-- Usage: zklock run PATH -- lua5.4 supervised.lua SECONDS

local socket = require "socket"

local SETTLE = 1 -- seconds until the wrapper has done what belongs to the start

local function read(...)
    local file = assert(io.open(string.format(...)))
    local text = file:read("a")
    file:close()
    return text
end

--- The lines that a program prints, as numbers.
local function numbers(...)
    local pipe, list = assert(io.popen(string.format(...))), {}
    for line in pipe:lines() do
        table.insert(list, math.tointeger(tonumber(line)))
    end
    assert(pipe:close())
    return list
end

--- The threads that are looked at: name -> directory.
local function find()
    local wrapper = math.tointeger(tonumber(read("/proc/self/stat"):match("%) %a (%d+)")))
    local threads = { wrapper = string.format("/proc/%d/task/%d", wrapper, wrapper) }
    for _, thread in ipairs(numbers("ls /proc/%d/task", wrapper)) do
        if thread ~= wrapper then
            threads.io = string.format("/proc/%d/task/%d", wrapper, thread)
        end
    end
    for _, pid in ipairs(numbers("pgrep -P %d", wrapper)) do
        if read("/proc/%d/comm", pid) == "zklock-guardian\n" then
            threads.guardian = string.format("/proc/%d/task/%d", pid, pid)
        end
    end
    assert(threads.io and threads.guardian, "the I/O thread or the guardian is not there")
    return threads
end

--- What they have done so far.
local function look(threads)
    local its = { cpu_ms = 0 }
    for name, directory in pairs(threads) do
        its[name] = tonumber(read("%s/status", directory):match("\nvoluntary_ctxt_switches:%s+(%d+)"))
        its.cpu_ms = its.cpu_ms + tonumber(read("%s/schedstat", directory):match("^%d+")) / 1e6
    end
    return its
end

local threads = find()
socket.sleep(SETTLE)
local before = look(threads)
socket.sleep(tonumber(arg[1]))
local after = look(threads)
print(string.format("name=supervised wrapper=%d io=%d guardian=%d cpu_ms=%.3f", after.wrapper - before.wrapper,
    after.io - before.io, after.guardian - before.guardian, after.cpu_ms - before.cpu_ms))
