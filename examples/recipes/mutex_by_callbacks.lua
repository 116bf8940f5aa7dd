--- recipes.mutex_by_callbacks: the mutex of recipes.mutex for programs that must not wait. This is for learning; programs should
-- use client:mutex, whose acquire takes a callback too.
--
-- The same three steps, each in the callback of the step before: create an ephemeral sequential node, list the directory, watch
-- the node just before our own. A deleted node means only that we must list again. All callbacks are called from client:pump().
--
-- The traps that recipes.mutex does not handle are not handled here either. A callback has one more: an error in it is only
-- logged, so every step has to pass its failure on.

local mutex = require "recipes.mutex"

local by_callbacks = {}

--- Looks for the contender before ours, and waits for its end. `turn` is `{ client =, path =, node =, callback = }`.
local function look(turn)
    local client, callback = turn.client, turn.callback
    client:children(turn.path, { callback = function(names, message, code)
        if not names then
            return callback(nil, message, code)
        end
        local ours, nearest, before = mutex.number(turn.node), -1, nil
        for _, name in ipairs(names) do
            local number = mutex.number(name)
            if number < ours and number > nearest then
                nearest, before = number, turn.path .. "/" .. name
            end
        end
        if not before then
            return callback(turn)
        end
        -- exists, as in the recipe of ZooKeeper's book. If the node is gone already, look again, and do not wait for its creation.
        client:exists(before, { watch = true, callback = function(stat, watch, problem)
            if stat == nil then
                return callback(nil, watch, problem)
            elseif not stat then
                watch:cancel()
                return look(turn)
            end
            watch:wait { callback = function(event, what, why)
                if not event then
                    return callback(nil, what, why)
                end
                look(turn)
            end }
        end })
    end })
end

--- Takes a number and waits for the lock. Returns at once. Later `callback` gets the turn, or nil, message, code.
function by_callbacks.acquire(client, path, callback)
    client:create(path .. "/turn-", "", { ephemeral = true, sequential = true, callback = function(node, message, code)
        if not node then
            return callback(nil, message, code)
        end
        look({ client = client, path = path, node = node, callback = callback })
    end })
end

--- Lets the next contender in. `callback` gets true, or nil, message, code.
function by_callbacks.leave(turn, callback)
    turn.client:delete(turn.node, { callback = callback })
end

return by_callbacks
