--- decimals: in the locale of its environment, prints 1.5 as Lua does, and then the page of metrics, without its comments.

local metrics = require "zklock.metrics"
local zklock = require "zklock"

assert(os.setlocale(""), "the locale of the environment cannot be set")
local client = assert(zklock.connect("127.0.0.1:1", { connect_timeout = 0 }))
client:mutex("/a"):acquire(0)
print(("%.1f"):format(1.5))
for line in assert(metrics.text(client)):gmatch "[^\n]+" do
    if line:sub(1, 1) ~= "#" then
        print(line)
    end
end
print "end"
client:close(0)
