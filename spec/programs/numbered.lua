--- numbered: several clients make requests of many kinds in turn. The server refuses some of them.
--
-- Arguments: servers, a path that exists, the number of clients, how often each of them goes through all kinds.
-- Prints how many requests they made, and how many connections they had. Raises if an answer is wrong.

local zklock = require "zklock"

local clients = {}
for i = 1, tonumber(arg[3]) do
    clients[i] = assert(zklock.connect(arg[1], { session_timeout = 40, connect_timeout = 20 }))
end

local function expect(code, ...)
    local result, message, got = ...
    assert(code == nil and result or not result and got == code, message)
end

for turn = 1, tonumber(arg[4]) do
    for i, client in ipairs(clients) do
        local path = ("%s/%d"):format(arg[2], i)
        expect(nil, client:mutex(path .. "-mutex"):with_lock(function() end))
        expect(nil, client:semaphore(path .. "-semaphore", 2):with_lock(function() end))
        local node = assert(client:create(path, tostring(turn), { ephemeral = true }))
        assert(client:get(node) == tostring(turn))
        expect("no_node", client:get(path .. "-nowhere"))
        expect("bad_version", client:set(path, "else", { version = 77 }))
        expect("node_exists", client:create(path, "else"))
        expect(nil, client:delete(path))
    end
end

local requests, connections = 0, 0
for _, client in ipairs(clients) do
    local stats = client:stats()
    requests = requests + stats.requests
    connections = connections + stats.connections
    client:close()
end
print(("%d requests, %d connections"):format(requests, connections))
