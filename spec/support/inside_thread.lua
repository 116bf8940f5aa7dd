--- support.inside_thread: a function that specs call in a thread of nginx's, by ngx.run_worker_thread.

local zklock = require "zklock"

local inside = {}

--- Acquires a path and releases it. Returns whether it was held, or the error.
function inside.cycle(servers, path, wait)
    local ok, result = pcall(function()
        local client = assert(zklock.connect(servers, { wait = wait, connect_timeout = 20 }))
        local lock = client:mutex(path)
        assert(lock:acquire(20))
        local held = lock:held()
        assert(lock:release())
        client:close()
        return held
    end)
    return ok and result or tostring(result)
end

return inside
