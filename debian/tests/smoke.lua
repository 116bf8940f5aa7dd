-- Loads zklock, makes a client and a lock, and is told that there is no server.

local zklock = require "zklock"

local client = zklock.connect("127.0.0.1:1", { connect_timeout = 0, wait = "blocking" })
local lock, message, code = client:mutex("/smoke"):acquire(0.05)
assert(lock == nil and code == "disconnected", message)
client:close()
assert(client:state() == "closed")
io.write(_VERSION, " has loaded zklock ", zklock.VERSION, "\n")
