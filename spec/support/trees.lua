--- support.trees: methods of an independent client, real or simulated, for more than one node, one request after the other.

local trees = {}

local Client = {}

--- Creates a node and its missing parents. It is no error if the node exists. Returns the path.
function Client:create_all(path, data)
    local parent = path:match "^(.+)/[^/]*$"
    local created, problem = self:create(path, data)
    if problem == "no_node" and parent then
        local ok
        ok, problem = self:create_all(parent)
        if ok then
            created, problem = self:create(path, data)
        end
    end
    if created or problem == "node_exists" then
        return path
    end
    return nil, problem
end

--- Deletes a node and all nodes below it. Returns true also if there was none, or if other clients deleted some of them meanwhile.
function Client:delete_recursive(path)
    local ok, problem
    repeat
        local names
        names, problem = self:children(path)
        if not names then
            break
        end
        for _, name in ipairs(names) do
            ok, problem = self:delete_recursive((path == "/" and "" or path) .. "/" .. name)
            if not ok then
                return nil, problem
            end
        end
        ok, problem = self:delete(path)
        -- Another client may have created a child in between.
    until ok or problem ~= "not_empty"
    if ok or problem == "no_node" then
        return true
    end
    return nil, problem
end

--- Adds these methods to a class of clients.
function trees.extend(class)
    for name, method in pairs(Client) do
        class[name] = method
    end
end

return trees
