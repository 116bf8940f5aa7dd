--- group: the members of a group know each other. A recipe over a read lock, as leadership is one over a mutex.
--
-- A member holds the read half of a read/write lock on the group's path, with a node of its own, whose data are the member's. So it
-- is a member as long as its session lives, and no longer, and `is_member` is the word of the lease. If that ends, the member joins
-- again in the background. What fails there is reported, and tried again after a pause.

local caller = require "zklock.lock.caller"
local inspect = require "zklock.inspect"
local new_check = require "zklock.check_self"
local options = require "zklock.options"
local Pause = require "zklock.pause"
local text_of = require("zklock.report").text_of

local error, ipairs, pcall, setmetatable = error, ipairs, pcall, setmetatable
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

--- Reports what has failed in the background, and tries it again after a pause, unless the program has ended it.
local function try_later(self, pause, fn, what, problem, code)
    if code ~= "closed" and code ~= "cancelled" and code ~= "forked" then
        self._client:report(format("the group %s: %s: %s", self._path, what, text_of(problem)))
        pause:begin(fn, self)
    end
end

-- Changes -------------------------------------------------------------------------------------------------------------

local follow

local follow_again

--- Acts on the results of a protected call of a function that returns what `follow` returns.
local function settle(self, ok, begun, message, code)
    if not ok then
        try_later(self, self._follows, follow_again, "its changes cannot be followed now", begun)
    elseif not begun then
        try_later(self, self._follows, follow_again, "its changes cannot be followed now", message, code)
    end
end

--- Follows in the background what has changed meanwhile.
function follow_again(self)
    settle(self, pcall(follow, self, true))
end

--- Makes a callback of such a function.
local function step(self, fn)
    return function(...)
        settle(self, pcall(fn, ...))
    end
end

--- Has on_change called, and follows the next change, when a watch has fired or was lost with its session.
local function next_change(self, watch, changed)
    if self._watch then
        self._watch:cancel()
    end
    self._watch = watch
    if self._closed then
        watch:cancel()
        return true
    end
    local call, message, code = watch:wait { callback = step(self, function(event, problem, why)
        if event or why == "lost" then
            return follow(self, true)
        end
        return nil, problem, why
    end) }
    if call then
        self._follows:reset()
        if changed then
            self._client:run_callback("on_change", self._on_change, self)
        end
    end
    return call, message, code
end

--- Reads the group with a watch. `changed`: tells the program when the watch is armed, so that it sees this change or a later one.
---@return any begun
---@return string? message
---@return zklock.Code? code
function follow(self, changed)
    if self._closed then
        return true
    end
    local client, path = self._client, self._path
    return client:children(path, { watch = true, callback = step(self, function(names, stat, watch)
        if names then
            return next_change(self, watch, changed)
        elseif watch ~= "no_node" then
            return nil, stat, watch
        end
        return client:exists(path, { watch = true, callback = step(self, function(exists, second, code) -- until there is a member
            if exists then
                second:cancel() -- made meanwhile
                return follow(self, true)
            elseif exists == false then
                return next_change(self, second, changed)
            end
            return nil, second, code
        end) })
    end) })
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
    local ok, call, message, code = pcall(self._lock.acquire, self._lock, { keep = true, callback = function(hold, problem, why)
        self._call = nil
        if hold then
            self._hold = hold
            self._joins:reset()
        elseif why == "lost" then
            rejoin(self)
        else
            try_later(self, self._joins, rejoin, "could not join again", problem, why)
        end
    end })
    self._call = ok and call or nil
    if not self._call then
        try_later(self, self._joins, rejoin, "could not join again", ok and message or call, ok and code or nil)
    end
end

--- Gives up what this object has or asks for.
local function give_up(self)
    local hold, call = self._hold, self._call
    self._hold, self._call = nil, nil
    if call then
        call:cancel()
    end
    self._joins:cancel()
    return hold
end

--- For Client:group. `settings` have been checked.
---@return table?
---@return string? message
---@return zklock.Code? code
function Group.new(client, path, settings)
    local follows, message, code = Pause.new(client)
    local joins = follows and Pause.new(client)
    if not joins then
        return nil, message or "not enough memory", code or "failed"
    end
    local self = setmetatable({
        _follows = follows, _joins = joins, -- the pauses before it tries again
        _client = client, _path = path, _on_change = settings.on_change, _acl = settings.acl,
        _lock = nil,  -- the lock of its latest membership
        _hold = nil,  -- the hold of its membership
        _call = nil,  -- the call with which it joins again
        _watch = nil, -- of the members, for on_change
        _departures = 0, -- how many times it was left
        _closed = false  -- no change is followed any more
    }, Group)
    if self._on_change then
        local ok, begun
        ok, begun, message, code = pcall(follow, self, false)
        if not ok then
            self:close()
            error(begun, 0)
        elseif not begun then
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
    local was_member = give_up(self) ~= nil
    if self._lock then
        caller.release_all(self._lock)
    end
    return was_member
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
    self._follows:cancel()
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
