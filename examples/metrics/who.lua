-- The holders and waiters of some paths. For examples/metrics.lua and, inside nginx, for worker.lua beside this file.

--- Lists the holders and waiters of each path. Sends requests to ZooKeeper, so it should be called only when the result is
-- needed.
---@param client zklock.Client
---@param paths table list of locks' paths
---@param timeout number seconds for each
---@return table # list of `{ path =, holders = { … }, waiters = { … }, error = }`; empty fields are left out
return function(client, paths, timeout)
    local answer = {}
    for index, path in ipairs(paths) do
        local entry = { path = path }
        local contenders, message = client:mutex(path):contenders(timeout)
        for _, contender in ipairs(contenders or {}) do
            local role = contender.holder and "holders" or "waiters"
            entry[role] = entry[role] or {}
            table.insert(entry[role], { identity = contender.identity, mode = contender.mode, node = contender.node })
        end
        entry.error = not contenders and message or nil
        answer[index] = entry
    end
    return answer
end
