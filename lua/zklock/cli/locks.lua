--- cli.locks: lock states (zklock.inspect) as the command shows them: JSON with stable keys, and texts for people.

local inspect = require "zklock.inspect"
local words = require "zklock.inspect.words"
local Output = require "zklock.cli.output"
local null = require("dkjson").null

local concat = table.concat
local floor, max, min = math.floor, math.max, math.min
local format = string.format

local locks = {}

--- How many bytes of an identity people see.
local IDENTITY_WIDTH = 60

--- How many holders are named in one line.
local NAMED_HOLDERS = 3

local function or_null(value)
    if value == nil then
        return null
    end
    return value
end

--- The keys of a contender in JSON. All of them are always there; null: unknown, or not applicable.
local CONTENDER_KEYS = {
    "node", "mode", "sequence", "holder", "ahead", "waits_for", "identity", "revoked", "library", "since", "session",
    "session_state", "session_timeout", "address"
}

--- The keys of a lock in JSON, besides `contenders` and `strays`.
local LOCK_KEYS = { "path", "kind", "holders", "waiters", "limit", "count", "left", "next_sequence", "created", "others" }

--- Returns a contender for JSON.
function locks.contender_json(contender, now)
    local object = {}
    for _, key in ipairs(CONTENDER_KEYS) do
        object[key] = or_null(contender[key])
    end
    object.revoked = contender.revoked == true
    object.age = or_null(contender.since and floor(max(0, now - contender.since) * 1000 + 0.5) / 1000)
    object.stray = or_null(inspect.stray(contender))
    return object
end

--- Returns a lock state for JSON.
function locks.json(state, now)
    local object = { contenders = {}, strays = 0 }
    for _, key in ipairs(LOCK_KEYS) do
        object[key] = or_null(state[key])
    end
    for index, contender in ipairs(state.contenders) do
        object.contenders[index] = locks.contender_json(contender, now)
        object.strays = object.strays + (inspect.stray(contender) and 1 or 0)
    end
    return object
end

--- The state of a path that does not exist: nobody has used it as a lock, or an empty lock was cleaned up.
function locks.missing(path)
    return { path = path, kind = "missing", contenders = {}, others = {}, holders = 0, waiters = 0 }
end

--- Who a contender is. A request to release has replaced its identity, unless it was read before (zklock.inspect.tree).
function locks.identity(contender)
    if contender.revoked and not contender.identity then
        return "(asked to release)"
    elseif not contender.identity then
        return "(unknown)"
    elseif contender.identity == "" then
        return format("(%s)", contender.library)
    end
    local text = Output.clean(contender.identity, IDENTITY_WIDTH)
    return contender.revoked and text .. " (asked to release)" or text
end

--- How long ago a contender's node was created.
function locks.age(contender, now)
    return contender.since and Output.duration(now - contender.since) or "-"
end

--- What is known of a contender's session.
function locks.session(contender)
    local stray, state = inspect.stray(contender), contender.session_state
    if stray == "persistent" then
        return "none: persistent node"
    elseif stray then
        return "gone"
    elseif state == "connected" then
        return Output.clean(contender.address)
    elseif state == "disconnected" then
        return "not connected"
    end
    return "-"
end

--- What a contender does: "holds", "waits for 12", "waits for a permit"; "reserved": a permit that a waiter has created.
local function role(contender, by_node)
    if contender.holder then
        return "holds"
    end
    local before = contender.waits_for and by_node[contender.waits_for]
    if before then
        return format("waits for %d", before.sequence)
    end
    return contender.mode == "lease" and "reserved" or "waits for a permit"
end

--- Returns the first `count` of the queue as rows of texts, with a heading.
function locks.queue(state, now, count)
    local by_node, rows = {}, { { "NUMBER", "MODE", "STATE", "IDENTITY", "QUEUED", "SESSION", "NODE" } }
    for index = 1, min(count, #state.contenders) do
        local contender = state.contenders[index]
        by_node[contender.node] = contender
        rows[#rows + 1] = {
            format("%d", contender.sequence), contender.mode, role(contender, by_node), locks.identity(contender),
            locks.age(contender, now), locks.session(contender), contender.name
        }
    end
    return rows
end

--- Names the holders in a line. Returns the names, and the age of the oldest holder's node.
---@param own? string the path of a node that is left out
function locks.holders(state, now, own)
    local names, counts, order, oldest = {}, {}, {}, nil
    for _, contender in ipairs(state.contenders) do
        if contender.holder and contender.node ~= own then
            local name = locks.identity(contender)
            if not counts[name] then
                order[#order + 1] = name
            end
            counts[name] = (counts[name] or 0) + 1
            oldest = oldest or contender
        end
    end
    for index, name in ipairs(order) do
        if index <= NAMED_HOLDERS then
            names[index] = counts[name] > 1 and format("%s (%d)", name, counts[name]) or name
        end
    end
    if #order > NAMED_HOLDERS then
        names[#names + 1] = format("%d more", #order - NAMED_HOLDERS)
    end
    return concat(names, ", "), oldest and locks.age(oldest, now) or "-"
end

--- How much of a lock is taken: "held", "2 of 3", "free", "1 of 5 left"; "-" where there is no lock.
function locks.taken(state)
    if state.kind == "latch" then
        return state.left == 0 and "open" or format("%d of %d left", state.left, state.count)
    elseif state.kind == "semaphore" and state.limit then
        return format("%d of %d", state.holders, state.limit)
    elseif state.kind == "none" or state.kind == "missing" then
        return "-"
    elseif state.holders == 0 then
        return "free"
    elseif state.holders == 1 then
        return "held"
    end
    return format("%d hold", state.holders)
end

--- Finds contenders by a node's name, its path or its number.
function locks.find(state, wanted)
    local found = {}
    for _, contender in pairs(state.contenders) do
        if contender.node == wanted or contender.name == wanted or tostring(contender.sequence) == wanted:gsub("^0+(%d)", "%1") then
            found[#found + 1] = contender
        end
    end
    return found
end

--- Notes in lock states what the servers say about the sessions.
---@return table? # the sessions
---@return string? message
---@return zklock.Code? code
function locks.add_sessions(session, states)
    local sessions = words.sessions(session.servers, nil, session.tls and words.refuse)
    local ok, message, code = inspect.join_sessions(session.client, states, sessions)
    if not ok then
        return nil, message, code
    end
    return sessions
end

--- Asks the holders of a lock to release it. Returns how many; or nil, message, code.
function locks.revoke(client, state)
    if state.kind == "semaphore" then
        return client:semaphore(state.path, state.limit or #state.contenders):revoke()
    end
    return client:mutex(state.path):revoke()
end

return locks
