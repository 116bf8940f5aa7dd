--- resty.lock: a stand-in for lua-resty-lock, which OpenResty contains and Debian does not have. It has as much of the interface
-- as examples/stampede uses: a lock of all workers of one nginx, in its shared memory.

local ngx = ngx

local Lock = {}
Lock.__index = Lock

function Lock.new(_, dictionary, options)
    return setmetatable({ shared = assert(ngx.shared[dictionary]), options = options }, Lock)
end

function Lock:lock(key)
    local elapsed = 0
    while not self.shared:add(key, true, self.options.exptime) do
        if elapsed >= self.options.timeout then
            return nil, "timeout"
        end
        ngx.sleep(0.01)
        elapsed = elapsed + 0.01
    end
    self.key = key
    return elapsed
end

function Lock:unlock()
    self.shared:delete(self.key)
    return 1
end

return Lock
