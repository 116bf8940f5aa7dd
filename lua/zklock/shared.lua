--- shared: what this Lua state has of clients: those of zklock.shared, and how often zklock.connect has failed.

local pairs = pairs

--- Fingerprint of the arguments of zklock.shared -> client.
local clients = {}

local shared = { clients = clients, connect_failures = {} } -- connect_failures: code -> count

--- Whether a client may be given to further callers.
function shared.is_open(client)
    local state = client and client:state()
    return state and state ~= "closed" and not client:desk().closing
end

--- Returns the only client that is open; nil: there is none, or there are several.
function shared.only()
    local only
    for _, client in pairs(clients) do
        if shared.is_open(client) then
            if only then
                return nil
            end
            only = client
        end
    end
    return only
end

return shared
