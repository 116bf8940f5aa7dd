--- sorter: in the locale of its environment, prints whether "a" comes before "B", and in which order a multi takes its locks.
--
-- Arguments: paths. Prints "a < B true" or "a < B false", then the paths in one line.

local zklock = require "zklock"

assert(os.setlocale(""), "the locale of the environment cannot be set")
local client = assert(zklock.connect("127.0.0.1:1", { connect_timeout = 0 }))
local locks, paths = {}, {}
for index = 1, #arg do
    locks[index] = client:mutex(arg[index])
end
for index, lock in ipairs(client:multi(locks):members()) do
    paths[index] = lock:path()
end
print(("a < B %s"):format(tostring("a" < "B")))
print(table.concat(paths, " "))
client:close(0)
