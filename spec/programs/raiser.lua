--- raiser: waits for a lock in a coroutine under luv, and then raises an error that is no string.
--
-- Arguments: servers, path.

local uv = require "luv"
local zklock = require "zklock"

local servers, path = arg[1], arg[2]

local function mutex()
    return assert(zklock.connect(servers, { wait = "luv", connect_timeout = 20 })):mutex(path)
end

coroutine.wrap(function()
    local first = assert(mutex():acquire(20))
    uv.new_timer():start(1, 0, function()
        assert(first:release { wait = false })
    end)
    assert(mutex():acquire(20)) -- the timer fires in the loop only, so this has to wait
    error(setmetatable({}, { __tostring = function() return "an error that is no string" end }))
end)()
uv.run()
