--- group: the members of a group know each other. A recipe over a read lock, as leadership is one over a mutex.
--
-- A member holds the read half of a read/write lock on the group's path, with a node of its own, whose data are the member's. So it
-- is a member as long as its session lives, and no longer, and `is_member` is the word of the lease. If that ends, the member joins
-- again in the background.

local inspect = require "zklock.inspect"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local text_of = require("zklock.report").text_of

local ipairs, setmetatable = ipairs, setmetatable
local format = string.format

---@class zklock.Group
local Group = {}
Group.__index = Group

local check_self, checked = new_check("group", "a group", { [Group] = true })

local SCHEMA = { on_change = { options.callback }, acl = { options.acl } }

--- Checks the settings of Client:group.
---@return table? # the settings
---@return string? wrong
function Group.read(settings)
    return options.read(settings, SCHEMA)
end

--- Reports a failure that no function of the program is told of.
local function report(self, what, problem)
    self._client:report(format("the group %s: %s: %s", self._path, what, text_of(problem)))
end

-- Changes -------------------------------------------------------------------------------------------------------------

local follow

--- Has on_change called, and follows the next change, when a watch has fired or was lost with its session.
local function next_change(self, watch)
    self._watch = watch
    local call, problem = watch:wait { callback = function(event, message, code)
        if event or code == "lost" then
            follow(self, true)
        elseif code ~= "cancelled" and code ~= "closed" then
            report(self, "its changes are not followed any more", message)
        end
    end }
    if not call then
        report(self, "its changes are not followed any more", problem)
    end
end

--- Reads the group with a watch. `changed`: tells the program when the watch is armed, so that it sees this change or a later one.
---@return true?
---@return string? message
---@return zklock.Code? code
function follow(self, changed)
    if self._closed then
        return true
    end
    local client, path = self._client, self._path
    local function told(watch)
        if self._closed then
            watch:cancel()
            return
        end
        next_change(self, watch)
        if changed then
            client:run_callback("on_change", self._on_change, self)
        end
    end
    local function failed(message, code)
        if code ~= "closed" and code ~= "cancelled" then
            report(self, "its changes are not followed any more", message)
        end
    end
    local call, message, code = client:children(path, { watch = true, callback = function(names, stat, watch)
        if names then
            told(watch)
        elseif watch == "no_node" then -- until there is a member
            client:exists(path, { watch = true, callback = function(exists, second, third)
                if exists then
                    second:cancel() -- made meanwhile
                    follow(self, true)
                elseif exists == false then
                    told(second)
                else
                    failed(second, third)
                end
            end })
        else
            failed(stat, watch)
        end
    end })
    return call and true, message, code
end

-- Membership -----------------------------------------------------------------------------------------------------------

local rejoin

--- Returns a lock for a membership with these data.
local function lock_for(self, data)
    local settings = { identity = data, acl = self._acl, handoff = 0 }
    function settings.on_lost(hold, reason)
        if hold == self._hold then
            self._hold = nil
            if reason == "lost" then
                rejoin(self)
            end
        end
    end
    return self._client:rwlock(self._path, settings).read
end

--- Becomes a member again in the background, with the same data.
function rejoin(self)
    local call, problem = self._lock:acquire { keep = true, callback = function(hold, message, code)
        self._call = nil
        if hold then
            self._hold = hold
        elseif code == "lost" then
            rejoin(self)
        elseif code ~= "cancelled" and code ~= "closed" then
            report(self, "could not join again", message)
        end
    end }
    self._call = call
    if not call then
        report(self, "could not join again", problem)
    end
end

--- Gives up what this object has or asks for.
local function give_up(self)
    local hold, call = self._hold, self._call
    self._hold, self._call = nil, nil
    if call then
        call:cancel()
    end
    return hold
end

--- For Client:group. `settings` have been checked.
---@return table?
---@return string? message
---@return zklock.Code? code
function Group.new(client, path, settings)
    local self = setmetatable({
        _client = client, _path = path, _on_change = settings.on_change, _acl = settings.acl,
        _lock = nil,  -- the lock of its latest membership
        _hold = nil,  -- the hold of its membership
        _call = nil,  -- the call with which it joins again
        _watch = nil, -- of the members, for on_change
        _departures = 0, -- how many times it was left
        _closed = false  -- no change is followed any more
    }, Group)
    if self._on_change then
        local ok, message, code = follow(self, false)
        if not ok then
            return nil, message, code
        end
    end
    return self
end

--- Becomes a member. It stays one until leave, close, or the end of the client. If its session or its lease ends, it joins again in
-- the background, which other members see. A member that joins with other data has these from then on.
---@param data? string what other members see, 1 to 1024 bytes without a NUL; default: the client's identity
---@param timeout? number seconds, 0 or more; nil: no limit
---@return true? joined
---@return string? message
---@return zklock.Code? code as of Lock:acquire; "cancelled": leave or close was called meanwhile
function Group:join(data, timeout)
    check_self(self, "join")
    local seconds = checked("join", options.read_timeout(timeout))
    local fits, wrong = options.identity(data or "-")
    checked("join", fits, "data must be " .. (wrong or ""))
    local lock, departures = lock_for(self, data), self._departures
    local hold, message, code = lock:acquire { timeout = seconds, keep = true }
    if not hold then
        return nil, message, code
    elseif self._departures ~= departures then
        hold:begin_release()
        return nil, format("the group %s was left before it was joined", self._path), "cancelled"
    end
    local former = give_up(self)
    self._lock, self._hold = lock, hold
    if former then
        former:begin_release()
    end
    return true
end

--- Is no member any more. Does not wait.
---@return boolean was_member
function Group:leave()
    check_self(self, "leave")
    self._departures = self._departures + 1
    local hold = give_up(self)
    if hold then
        hold:begin_release()
    end
    return hold ~= nil
end

--- Whether this object is a member at this instant, by the lease: while it is true, all others see it. Sends nothing.
---@return boolean
function Group:is_member()
    check_self(self, "is_member")
    return self._hold ~= nil and self._hold:held() == true
end

---@class zklock.Member
---@field data string what it joined with
---@field node string the path of its node
---@field since number when it joined: seconds since 1970, by the servers' clock

--- The members, in the order in which they have joined, as of a moment ago. Reads each member's node.
---@param timeout? number seconds, 0 or more; math.huge: no limit; default: the session timeout
---@return zklock.Member[]? members
---@return string? message
---@return zklock.Code? code "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
function Group:members(timeout)
    check_self(self, "members")
    checked("members", options.read_timeout(timeout))
    local state, message, code = inspect.lock(self._client, self._path, { timeout = timeout })
    if state == nil then
        return nil, message, code
    end
    local members = {}
    for _, contender in ipairs(state and state.contenders or {}) do
        if contender.mode == "shared" and contender.holder then
            members[#members + 1] = { data = contender.identity or "", node = contender.node, since = contender.since }
        end
    end
    return members
end

--- Leaves, and ends on_change. A second close has no effect.
function Group:close()
    check_self(self, "close")
    self:leave()
    self._closed = true
    if self._watch then
        self._watch:cancel()
    end
end

--- "zklock group (/path, member)".
function Group:__tostring()
    return format("zklock group (%s, %s)", self._path, self:is_member() and "member" or "no member")
end

--- For Lua 5.4's `local group <close> = …`: leaves at the end of the block.
function Group:__close()
    self:close()
end

return Group
