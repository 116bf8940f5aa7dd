--- multi.hold: the holds of all members of a multi, as one.
--
-- `Multi:acquire` and `Multi:try_acquire` return it, `Multi:with_lock` passes it to its function. Any code may use it.

local arguments = require "zklock.lock.arguments"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local releases = require "zklock.multi.release"
local Transaction = require "zklock.transaction"
local wait = require "zklock.wait"

local ipairs, setmetatable = ipairs, setmetatable
local format = string.format
local huge, min = math.huge, math.min

---@class zklock.MultiHold
local MultiHold = {}
MultiHold.__index = MultiHold

local check_self, checked = new_check("hold", "a hold", { [MultiHold] = true })

--- For zklock.multi. `holds` are the members' holds, by index, with false where a member is not held.
function MultiHold.new(multi, holds)
    return setmetatable({ _multi = multi, _holds = holds }, MultiHold)
end

--- Releases all members, also when some releases fail.
---@param settings? zklock.ReleaseOptions as of Hold:release, for each member
---@return true? released
---@return string? message all failures
---@return zklock.Code? code of the first failure: as of Hold:release
function MultiHold:release(settings)
    check_self(self, "release")
    local read = checked("release", options.read(settings, arguments.RELEASE))
    return releases.release(self._multi, self._holds, read.wait, read.timeout)
end

--- Whether all members are held at this instant. Sends nothing.
---@return boolean held
function MultiHold:held()
    check_self(self, "held")
    return self:remaining() > 0
end

--- How much longer all members are certainly held if nothing more arrives from ZooKeeper.
---@return number seconds 0 when a member is not held
function MultiHold:remaining()
    check_self(self, "remaining")
    local least = huge
    for index = 1, #self._multi._members do
        local hold = self._holds[index]
        least = min(least, hold and hold:remaining() or 0)
    end
    return least
end

--- The holds of the members, in the order in which they were taken.
---@return zklock.Hold[] holds a new list of holds
function MultiHold:holds()
    check_self(self, "holds")
    local holds = {}
    for index, hold in ipairs(self._holds) do
        holds[index] = hold
    end
    return holds
end

--- Begins a transaction whose writes happen only if all members are still held. The server checks that, for a semaphore of all
-- permits, together with the writes. The description of Hold:transaction applies to each member, and the message names the
-- first member that is not held.
---@return zklock.Transaction transaction
function MultiHold:transaction()
    check_self(self, "transaction")
    local guards = {}
    for index, member in ipairs(self._multi._members) do
        guards[index] = { lock = member, hold = self._holds[index] }
    end
    return Transaction.new(self._multi._client, guards)
end

--- "zklock hold (3 locks, held)".
function MultiHold:__tostring()
    return format("zklock hold (%d locks, %s)", #self._multi._members, self:held() and "held" or "not held")
end

--- For Lua 5.4's `local hold <close> = …`: releases at the end of the block each member that is still held.
function MultiHold:__close()
    local multi, ended = self._multi, {}
    for index = #multi._members, 1, -1 do
        local hold = self._holds[index]
        ended[index] = hold and hold:state() == "granted" and hold:begin_release() or false
    end
    if wait.is_possible(multi._client) then
        releases.await(multi, nil, ended)
    end
end

return MultiHold
