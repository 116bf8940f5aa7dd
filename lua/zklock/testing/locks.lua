--- testing.locks: the acquisitions of zklock.testing, for all kinds of locks. Their nodes and messages are those of csrc/lock. Each
-- acquisition has nodes of its own: handoff and linger have no effect.

local Meter = require "zklock.testing.meter"
local names = require "zklock.testing.names"

local ipairs, pairs, tonumber, tostring = ipairs, pairs, tonumber, tostring
local format = string.format
local huge, max = math.huge, math.max
local remove = table.remove

--- A handle with the methods of zklock.core's acquisitions.
local Acquisition = {}
Acquisition.__index = Acquisition

-- Nodes ---------------------------------------------------------------------------------------------------------------

--- Returns the relative name of the nearest contender before a node that it has to wait for; of all, if it has none yet.
local function blocker(servers, directory, own, kind)
    local mine, best, found = own and select(2, names.parse(own)) or huge, nil, nil
    local node = servers.nodes[directory]
    for name in pairs(node and node.children or {}) do
        local other, number = names.parse(name)
        if name ~= own and other and other ~= "lease" and (kind == "exclusive" or other == "exclusive") and number <= mine
            and (not found or number > best or number == best and name > found) then
            best, found = number, name
        end
    end
    return found
end

local function path_of(directory, name)
    return directory .. "/" .. name
end

--- Creates a node of an acquisition. Returns its path.
local function create(self, path, sequential, data)
    local client = self.client
    local node = client.servers:execute({
        kind = "create", path = path, data = data or self.spec.identity, ephemeral = true, sequential = sequential
    }, client.session)
    self.made[#self.made + 1] = node
    client.servers.owners[node] = self
    return node
end

-- The kinds -----------------------------------------------------------------------------------------------------------

--- Brings an acquisition to the head of a directory's queue. Returns whether it is there.
local function queue_up(self, directory, kind, marker)
    local servers = self.client.servers
    local prefix = #self.spec.path + 2
    if not self.entry then
        local ahead = self.try and blocker(servers, directory, nil, kind)
        if ahead then
            self:refuse("timeout", "'%s' is taken: '%s' is ahead", self.spec.path, path_of(directory, ahead):sub(prefix))
            return false
        end
        servers:make(directory, "")
        self.entry = create(self, path_of(directory, self.uuid .. marker), true)
    end
    local ahead = blocker(servers, directory, self.entry:match "[^/]*$", kind)
    self.ahead = ahead and path_of(directory, ahead):sub(prefix)
    self.was_behind = self.was_behind or ahead ~= nil
    return not ahead
end

--- By the mode of the lock spec: goes on with an acquisition when something has changed.
local step = {}

function step.mutex(self)
    if queue_up(self, self.spec.path, "exclusive", "-lock-") then
        self:grant()
    end
end

function step.write(self)
    if queue_up(self, self.spec.path, "exclusive", "-__WRIT__") then
        self:grant()
    end
end

--- A reader that comes from the write lock gets its writer's number, as with Curator.
function step.read(self)
    local writer = self.writer
    if writer and not self.entry and writer:held() then
        self.entry = create(self, path_of(self.spec.path, self.uuid .. "-__READ__" .. writer.entry:match "%d+$"))
        self:grant()
        writer.readers = writer.readers + 1
        self.zxid, self.grants = writer.zxid, writer.grants + writer.readers
    elseif queue_up(self, self.spec.path, "shared", "-__READ__") then
        self:grant()
    end
end

local function count_permits(servers, leases)
    local count = 0
    for name in pairs(servers.nodes[leases].children) do
        count = count + (names.parse(name) == "lease" and 1 or 0)
    end
    return count
end

--- Returns how many permits the semaphore has, by its latest resize or its first user; nil: the acquisition was refused.
local function limit_of(self, leases)
    local servers, wanted = self.client.servers, tostring(self.spec.permits)
    servers:make(self.spec.path, "")
    servers:make(leases, wanted)
    if servers.nodes[leases].data == "" then
        servers:execute { kind = "set", path = leases, data = wanted }
    end
    local limit = tonumber(servers.nodes[leases].data:match "^%d+$")
    if not (limit and limit > 0 and limit <= 2147483647) then
        return self.spec.permits
    elseif servers.nodes[leases].children.resized then
        if self.count > limit then
            return self:refuse("mismatch", "the semaphore '%s' has only %d permits now, not %d", self.spec.path, limit, self.count)
        end
    elseif limit ~= self.spec.permits then
        return self:refuse("mismatch", "the semaphore '%s' was made for %d permits, not for %s", self.spec.path, limit, wanted)
    end
    return limit
end

function step.permits(self)
    local client, path = self.client, self.spec.path
    local servers, leases = client.servers, path .. "/leases"
    local limit = limit_of(self, leases)
    if not limit or not queue_up(self, path .. "/locks", "exclusive", "-lock-") then
        return
    end
    if count_permits(servers, leases) + self.count > limit then
        self.was_behind = true
        if self.try then
            self:refuse("timeout", "'%s' has not %d of its %d permits left", path, self.count, limit)
        end
        return
    end
    local entry = self.entry
    self.made = {}
    for _ = 1, self.count do
        create(self, path_of(leases, self.uuid .. "-lease-"), true)
    end
    self.entry = self.made[1]
    self:grant()
    client.servers.owners[entry] = nil
    servers:delete(entry)
end

--- Reads a latch. Returns how many count-downs are missing, its gate, and its version; nil: the acquisition was refused.
local function read_latch(self)
    local client, path, count = self.client, self.spec.path, self.spec.permits
    if count == 0 and not client.servers.nodes[path] then
        return 0
    end
    client.servers:make(path, "")
    local node = client.servers.nodes[path]
    if node.data == "" and node.version == 0 then
        local gate = "gate-" .. self.uuid:sub(4)
        client.servers:execute { kind = "multi",
            { kind = "create", path = path_of(path, gate) },
            { kind = "set", path = path, data = format("%d/%d %s", count, count, gate) } }
    end
    local left, limit, gate = node.data:match "^(%d+)/(%d+) (gate%-[%x-]+)$"
    left = tonumber(left)
    if tonumber(limit) ~= count or left > count then
        self:refuse("mismatch", "the latch '%s' has '%s' as its data, and was to count from %d", path, node.data, count)
        return nil
    elseif left > 0 and not client.servers.nodes[path_of(path, gate)] or self.gate and self.gate ~= gate then
        self:refuse("no_node", "the latch '%s' was deleted meanwhile", path)
        return nil
    end
    self.gate = gate
    return left, gate, node.version
end

function step.latch(self)
    local left = read_latch(self)
    if left == 0 then
        self:grant()
    elseif left and self.try then
        self:refuse("timeout", "the latch '%s' has %d of %d left", self.spec.path, left, self.spec.permits)
    end
end

function step.count(self)
    local left, gate, version = read_latch(self)
    if not left then
        return
    elseif left > 0 then
        local path = self.spec.path
        self.client.servers:execute { kind = "multi",
            { kind = "create", path = path_of(path, "c-" .. self.uuid:sub(4)), data = self.spec.identity },
            { kind = left == 1 and "delete" or "check", path = path_of(path, gate) },
            { kind = "set", path = path, version = version,
                data = format("%d/%d %s", left - 1, self.spec.permits, gate) } }
    end
    self:grant()
end

-- From beginning to end -----------------------------------------------------------------------------------------------

--- Asks for the lock of `spec`. `try`, `count` and `writer` are those of core_acquire in csrc/lua/lua_client.c.
function Acquisition:begin()
    local client, spec = self.client, self.spec
    self.status, self.message, self.made, self.revoked = "waiting", "", {}, 0
    self.asked_at, self.hold_until, self.was_behind = client.clock.time, huge, false
    self.uuid = format("_c_%08x-0000-8000-8000-%09x000", client.number, self.number)
    self.is_latch = spec.mode == "latch" or spec.mode == "count"
    client.open[self] = true
    client.servers.waiting[#client.servers.waiting + 1] = self
    client.counts.acquisitions = client.counts.acquisitions + (self.is_latch and 0 or 1)
    self.meter = spec.meter or Meter.new()
    self.meter:begin()
    if client.state_is == "closed" then
        self:refuse("closed", "the client is closed")
    elseif self.try and client.state_is ~= "connected" then
        self:refuse("disconnected", "'%s' could not be tried: %s", spec.path,
            client.problem ~= "" and client.problem or "there is no connection yet")
    else
        client:send { run = function() self:step() end }
    end
end

function Acquisition:step()
    if self.status == "waiting" and not self.steps then
        self.steps = true -- its own writes call it again
        step[self.spec.mode](self)
        self.steps = false
    end
end

--- It does not wait any more.
local function decide(self, phase, code, message, ...)
    self.status, self.code, self.message = phase, code, message and format(message, ...) or ""
    local waiting = self.client.servers.waiting
    for index = #waiting, 1, -1 do
        if waiting[index] == self then
            remove(waiting, index)
        end
    end
    self.client:notify(self)
end

function Acquisition:refuse(code, ...)
    decide(self, "refused", code, ...)
    self.client.counts.refusals = self.client.counts.refusals + 1
    self.meter:refuse()
    self:leave()
end

function Acquisition:grant()
    local client = self.client
    self.granted_at = client.clock.time
    local waited = self.granted_at - self.asked_at
    self.waited_for = self.was_behind and max(waited, 1e-9) or 0
    decide(self, "granted")
    if self.is_latch then
        return self:leave()
    end
    client.counts.grants = client.counts.grants + 1
    client.meter:grant(waited)
    self.meter:grant(waited)
    self.zxid, self.grants, self.readers = client.servers.nodes[self.entry].czxid, 0, 0
    self:extend((self.spec.max_hold or 0) > 0 and self.spec.max_hold or huge)
end

--- A hold has ended. `code`: of the loss; nil: it was released.
local function end_hold(self, code)
    local client = self.client
    client.clock:cancel(self.timer)
    client.counts.losses = client.counts.losses + (code and 1 or 0)
    self.meter:finish(client.clock.time - self.granted_at, code)
end

function Acquisition:lose(code, ...)
    if self.status == "granted" and not self.is_latch then
        end_hold(self, code)
        decide(self, "lost", code, ...)
        self:leave()
    end
end

local function settle(self)
    self.settled, self.client.open[self] = true, nil
    self.client:notify(self)
end

--- Has deleted what it has on the servers. When that is done, it is settled.
function Acquisition:leave()
    local client, nodes = self.client, self.made
    self.made = {}
    local function delete()
        for _, node in ipairs(nodes) do
            client.servers.owners[node] = nil
            if not client.servers:delete(node) and self.status == "released" and not self.code then
                self.code, self.message = "lost", format("'%s' is lost: somebody deleted its node '%s'", self.spec.path, node)
            end
        end
        settle(self)
    end
    if self.settled then
        return
    elseif nodes[1] then
        client:send { run = delete, close = function() settle(self) end, cleans = true }
    else
        settle(self)
    end
end

--- Ends it, in any phase.
function Acquisition:cancel(code)
    if self.status == "waiting" then
        self:refuse(code or "cancelled", "the wait for '%s' was ended: %s", self.spec.path, code or "cancelled")
    elseif self.status == "granted" and not self.is_latch then
        end_hold(self)
        self.status = "released"
        self:leave()
    end
end

--- The client is closed.
function Acquisition:close()
    self:lose("closed", "'%s' was given back: the client is closed", self.spec.path)
    self:cancel "closed"
end

--- The time is up that `limit` has set.
function Acquisition:expire()
    if self.status == "waiting" then
        local _, _, message = self:phase()
        self:refuse("timeout", "%s", message ~= "" and message or "it was not decided in time")
    end
end

--- The session has ended, and its nodes with it.
function Acquisition:session_over()
    self:lose("lost", "'%s' is lost: the session has expired", self.spec.path)
    self.made, self.entry = {}, nil
    if self.status == "waiting" then
        self.client:send { run = function() self:step() end }
    end
end

--- A node of it may have been deleted.
function Acquisition:verify()
    for _, node in ipairs(self.made) do
        if not self.client.servers.nodes[node] then
            self:lose("lost", "'%s' is lost: somebody deleted its node '%s'", self.spec.path, node)
            if self.status == "waiting" then
                self.made, self.entry = {}, nil
            end
        end
    end
    self:step()
end

--- A client has asked for the lock.
function Acquisition:ask_back()
    if self.status == "granted" and self.spec.revocable then
        self.revoked = self.revoked + 1
        self.client:notify(self)
    end
end

--- Tells acquisitions of a change of `path` on the servers: "created", "changed" or "deleted".
local function changed(servers, path, event)
    local owner, told = servers.owners[path], {}
    if owner and event == "deleted" then
        told[1] = { owner, "verify" }
    elseif owner and event == "changed" and servers.nodes[path] and servers.nodes[path].data == "__REVOKE__" then
        told[1] = { owner, "ask_back" }
    end
    for _, acquisition in ipairs(servers.waiting) do
        local lock = acquisition.spec.path
        if path == lock or path:sub(1, #lock + 1) == lock .. "/" then
            told[#told + 1] = { acquisition, "step" }
        end
    end
    for _, one in ipairs(told) do
        one[1].client:send { run = function() one[1][one[2]](one[1]) end }
    end
end

-- Looking -------------------------------------------------------------------------------------------------------------

function Acquisition:phase()
    local message = self.message
    if self.status == "waiting" and self.ahead then
        message = format("'%s' is ahead", self.ahead)
    elseif self.status == "waiting" and self.entry and self.spec.mode == "permits" then
        message = format("it has not %d of its %d permits left", self.count, self.spec.permits)
    end
    return self.status, self.code, message
end

function Acquisition:waits()
    return self.status == "waiting"
end

function Acquisition:held()
    return self.status == "granted"
end

function Acquisition:finished()
    return self.settled or self.code ~= nil
end

function Acquisition:released()
    return self.settled and self.code ~= "lost"
end

function Acquisition:remaining()
    return self:held() and max(0, math.min(self.hold_until, self.client:lease_until()) - self.client.clock.time) or 0
end

function Acquisition:extend(seconds)
    if not self:held() then
        return false
    end
    local clock = self.client.clock
    clock:cancel(self.timer)
    self.hold_until = clock.time + seconds
    self.timer = clock:after(seconds, function()
        self:lose("max_hold", "'%s' was given back: it had been held for max_hold (%g s)", self.spec.path,
            clock.time - self.granted_at)
    end)
    return true
end

function Acquisition:waited()
    return self.waited_for or 0
end

function Acquisition:token()
    return self.zxid and format("%019d-%010d", self.zxid, self.grants)
end

function Acquisition:token_numbers()
    if self.zxid then
        return 0, self.zxid, self.grants
    end
    return nil
end

function Acquisition:node()
    return self.entry
end

function Acquisition:nodes()
    local nodes = {}
    for index, node in ipairs(self.made) do
        nodes[index] = node
    end
    return nodes
end

function Acquisition:revocations()
    return self.revoked
end

return { Acquisition = Acquisition, changed = changed }
