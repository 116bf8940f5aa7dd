--- lock.ask: the methods that ask: about the hold of the running coroutine, and about the contenders.
--
-- For the program. zklock.semaphore counts by `_read`, zklock.transaction checks the nodes of a hold (`_nodes`).

local class = require "zklock.lock.class"
local core = require "zklock.core"
local Hold = require "zklock.hold"
local node = require "zklock.node"
local options = require "zklock.options"
local Owner = require "zklock.owner"
local Reading = require "zklock.inspect.reading"
local Transaction = require "zklock.transaction"

local error, ipairs, tostring, type = error, ipairs, tostring, type
local format = string.format
local huge = math.huge
local now, REVOKE = core.now, core.REVOKE
local held_acquisition, present = Hold.held_acquisition, Hold.present
local meant_here = Owner.meant_here

local check_self, Lock = class.check_self, class.Lock

-- Looking -------------------------------------------------------------------------------------------------------------

--- Returns the C acquisition by which the running coroutine holds at this instant, or nil.
local function held_here(self)
    return held_acquisition(meant_here(self))
end

--- Whether the lock is held at this instant, by the local clock. True only while no other zklock client can hold it. Sends nothing.
-- @treturn boolean
function Lock:held()
    check_self(self, "held")
    return held_here(self) ~= nil
end

--- How much longer the lock is certainly held if nothing more arrives from ZooKeeper.
-- @treturn number seconds; 0 when not held; math.huge without a lease
function Lock:remaining()
    check_self(self, "remaining")
    local acquisition = held_here(self)
    return acquisition and acquisition:remaining() or 0
end

--- How long the present hold was waited for. 0 exactly if no contender was before it that excluded it, however long the servers
-- took. So a program that fills a cache looks into the cache again only if this is above 0.
-- @treturn number|nil seconds from the request to the grant; nil when not held
function Lock:waited()
    check_self(self, "waited")
    local acquisition = held_here(self)
    return acquisition and acquisition:waited() or nil
end

--- Makes the present hold end by itself so many seconds from now, whatever it had left: earlier or later than before. Sends
-- nothing. The option `max_hold` stays as it is for later holds.
-- @tparam number|nil seconds above 0; math.huge: no limit; default: the option `max_hold`, without it no limit
-- @treturn true|nil
-- @treturn string|nil message
-- @treturn string|nil code: "not_held"; "lost" (the hold has ended before, for example by max_hold); "forked"
-- @raise when seconds are malformed
function Lock:extend(seconds)
    check_self(self, "extend")
    if seconds == nil then
        seconds = self._settings.max_hold or huge
    elseif seconds ~= huge then
        local fits, expected = options.duration(seconds)
        if not fits then
            error(format("lock:extend: seconds must be %s, or math.huge (got %s)", expected,
                type(seconds) == "number" and tostring(seconds) or "a " .. type(seconds)), 2)
        end
    end
    local lock = meant_here(self)
    if not lock then
        return self:_not_yours()
    end
    local hold = present(lock)
    if hold and hold.acquisition:extend(seconds) then
        return true
    end
    local state, problem, code = self._client._core:state()
    if state == nil then
        return nil, problem, code
    elseif hold then
        return nil, lock:_lost_message(hold), "lost"
    end
    return nil, format("the %s %s is not held", self._kind.name, self._path), "not_held"
end

--- The fencing token of the present hold. Tokens of one path compare as strings, in every locale: a later grant's token is
-- greater. Pass the token to the resource that the lock protects, and have the resource refuse smaller tokens.
--
-- A token is 30 characters: 19 decimal digits (the czxid of the lock's node), a hyphen, 10 decimal digits (how many grants that
-- node has served before).
-- @treturn string|nil nil when not held
function Lock:token()
    check_self(self, "token")
    local acquisition = held_here(self)
    return acquisition and acquisition:token() or nil
end

--- The fencing token of the present hold as three whole numbers, for stores that compare integers. Compare them in order: the
-- second number counts only where the first numbers are equal, and the third only where the second numbers are equal too.
--
-- Each number is less than 2^32, so every Lua holds and prints it exactly, also a Lua whose numbers are doubles. A single
-- number for the whole czxid could be rounded there.
-- @treturn number|nil high the upper 32 bits of the czxid of the lock's node; nil when not held
-- @treturn number low the lower 32 bits of it
-- @treturn number grants how many grants that node has served before
function Lock:token_numbers()
    check_self(self, "token_numbers")
    local acquisition = held_here(self)
    if acquisition then
        return acquisition:token_numbers()
    end
    return nil
end

--- The path that the lock was made with.
-- @treturn string
function Lock:path()
    check_self(self, "path")
    return self._path
end

--- The path of the znode by which the lock is held.
-- @treturn string|nil nil when not held
function Lock:node()
    check_self(self, "node")
    local acquisition = held_here(self)
    return acquisition and acquisition:node() or nil
end

--- All nodes by which the lock is held: a semaphore has a node for each permit.
-- @treturn table|nil array of paths; nil when not held
-- @treturn string|nil message, when there was no memory for them
-- @treturn string|nil code
function Lock:_nodes()
    local acquisition = held_acquisition(self)
    if not acquisition then
        return nil
    end
    return acquisition:nodes()
end

--- Reads the timeout of a question. Default: the session timeout.
-- @treturn number the deadline on core.now()'s clock; or nil and what is wrong
-- @treturn number seconds, for messages
function Lock:_read_deadline(timeout)
    local seconds, wrong = options.read_timeout(timeout)
    if not seconds then
        return nil, wrong
    elseif timeout == nil then
        seconds = self._client:_cleanup_timeout()
    end
    return now() + seconds, seconds
end

--- Reads the lock as zklock.inspect does, until a deadline `seconds` after the program asked.
-- @tparam boolean|number identities true: the nodes of all contenders are read; 0: none
-- @treturn table|nil contenders in queue order
-- @treturn number|string|nil the limit that is written in a semaphore; message
-- @treturn string|nil code
function Lock:_read(identities, deadline, seconds)
    local reading = Reading.new(self._client, deadline, seconds, { identities = identities, permits = self._permits })
    reading:examine(self._path)
    local ok, message, code = reading:run()
    if not ok then
        return nil, message, code
    elseif reading.refusal then
        return nil, reading.refusal, "no_auth"
    end
    local state = reading.states[1]
    return state and state.contenders or {}, state and state.limit
end

--- Lists all holders and waiters of the lock's path in queue order, including those of other clients. For a semaphore: first the
-- permits that are taken (mode "lease"), then the queue of the waiters. The contenders are those of zklock.inspect, and have its
-- other fields, too.
-- @tparam number|nil timeout seconds, 0 or more; math.huge: no limit; default: the session timeout
-- @treturn table|nil array of `{node =, identity =, mode = "exclusive"|"shared"|"lease", sequence =, holder = boolean}`
-- @treturn string|nil message
-- @treturn string|nil code "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
-- @raise when the timeout is malformed
function Lock:contenders(timeout)
    check_self(self, "contenders")
    local deadline, seconds = self:_read_deadline(timeout)
    if not deadline then
        error("lock:contenders: " .. seconds, 2)
    end
    local contenders, message, code = self:_read(true, deadline, seconds)
    if not contenders then
        return nil, message, code
    end
    for _, contender in ipairs(contenders) do
        contender.identity = contender.identity or ""
    end
    return contenders
end

--- Writes into a holder's node that another contender wants the lock.
local function ask_to_let_go(self, path, deadline, seconds)
    local write = { kind = "set", path = path, data = REVOKE, version = -1 }
    local operation, message, code = node.perform(self._client, write, seconds, "writing " .. path, true, deadline)
    if not operation then
        return nil, message, code
    end
    return operation:take()
end

--- Asks all holders of the lock to release it. A holder with the option on_revoke has it called wherever its program waits or
-- pumps. This is a request: a holder may ignore it. Revocable holders of Curator's locks receive it too.
-- @tparam number|nil timeout seconds, 0 or more; math.huge: no limit; default: the session timeout
-- @treturn integer|nil how many holders were asked; for a semaphore, how many permits they hold; 0 when there is no holder
-- @treturn string|nil message
-- @treturn string|nil code "timeout", "disconnected", "no_auth" (the acl does not let us write into their nodes), "closed",
--   "forked", "phase", "failed"
-- @raise when the timeout is malformed
function Lock:revoke(timeout)
    check_self(self, "revoke")
    local deadline, seconds = self:_read_deadline(timeout)
    if not deadline then
        error("lock:revoke: " .. seconds, 2)
    end
    local contenders, message, code = self:_read(0, deadline, seconds)
    if not contenders then
        return nil, message, code
    end
    local asked = 0
    for index = 1, #contenders do
        local contender = contenders[index]
        if contender.holder then
            local written
            written, message, code = ask_to_let_go(self, contender.node, deadline, seconds)
            if written then
                asked = asked + 1
            elseif code ~= "no_node" then -- the holder released it meanwhile
                return nil, message, code
            end
        end
    end
    return asked
end

--- Begins a transaction whose writes happen only if the lock is still held. The server checks that, for a semaphore of all
-- permits, together with the writes.
-- @treturn Transaction bound to the present hold: a later hold of the same object needs another transaction
function Lock:transaction()
    check_self(self, "transaction")
    local lock = meant_here(self)
    return Transaction._guarded(lock or self, lock and present(lock))
end

--- "zklock mutex (/path, held)".
function Lock:__tostring()
    local state, lock = "free", meant_here(self)
    local hold = lock and present(lock)
    if hold then
        state = hold.acquisition:held() and "held" or "lost"
    elseif self._client._attempts[self] then
        state = "being acquired"
    end
    return format("zklock %s (%s, %s)", self._kind.name, self._path, state)
end
