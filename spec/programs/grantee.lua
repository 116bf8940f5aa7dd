-- Wants a lock that a command holds, and sees whether a process of the command is alive when it gets it.
--
--     lua grantee.lua SERVERS PATH 3<FIFO
--
-- All processes of the command have the FIFO open for writing. When the last one has ended, however it ended, the kernel closes
-- it. So this program, which polls the FIFO while it waits, knows the instant of that death. Prints "waits" before it asks for the
-- lock, and then "dead MILLISECONDS late SECONDS": for so long no process had been alive when the lock was granted; or
-- "alive late SECONDS". It has been woken up so much too late, once: more says that the machine was busy.

local process = require "zklock.process"
local zklock = require "zklock"

local FIFO = 3

--- Seconds for which it waits at a time.
local NAP = 0.05

local died_at
local late = 0

local function look(fds, seconds)
    if not died_at then
        fds[#fds + 1] = FIFO
    end
    local began = process.now()
    local ready = process.poll(fds, math.min(seconds, NAP))
    late = math.max(late, process.now() - began - NAP)
    if ready[FIFO] and not died_at and process.read(FIFO) == "" then
        died_at = process.now()
    end
end

local adapter = { name = "grantee", yields = false, alone = true }

function adapter.wait(client, _, seconds)
    look({ client:pollfd() }, seconds)
    return true
end

function adapter.wake()
end

local client = assert(zklock.connect(arg[1], { wait = adapter, session_timeout = 60, connect_timeout = 60 }))
local lock = client:mutex(arg[2])
print "waits"
io.stdout:flush()
assert(lock:acquire())
local granted_at = process.now()
look({}, 0)
print((died_at and ("dead %.3f"):format((granted_at - died_at) * 1000) or "alive") .. (" late %.3f"):format(late))
client:close()
