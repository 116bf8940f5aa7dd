--- pause: how long what goes on in the background waits after a failure before it tries again.
--
-- The first pause is a second, and each further one twice as long, up to a minute, until `reset`. A pause is a call (zklock.call)
-- for a timer. The timer is made beforehand, so that a lack of memory in C cannot end the trying.

local Call = require "zklock.call"

local setmetatable = setmetatable
local min = math.min

local FIRST, LONGEST = 1, 60

local Pause = { LONGEST = LONGEST }
Pause.__index = Pause

--- The subject is the pause.
local kind = { name = "pause" }

function kind.decided(self)
    local state = self._client:desk().core:state()
    return self._cancelled or state == nil or state == "closed"
end

function kind.results()
end

function kind.cancel(self)
    self._cancelled = true
    return true
end

--- Makes a pause that has not begun.
---@return table?
---@return string? message
---@return zklock.Code? code
function Pause.new(client)
    local timer, message, code = client:desk().core:timer()
    if not timer then
        return nil, message, code
    end
    return setmetatable({
        _client = client, _timer = timer,
        _call = nil, _cancelled = false, _fn = nil, _argument = nil, -- while it lasts
        _failures = 0
    }, Pause)
end

local function finish(self)
    self._call = nil
    if not self._cancelled then
        self._fn(self._argument)
    end
end

--- Begins a pause, after which the pump calls fn(argument), unless it is cancelled. One that has begun goes on.
---@return true?
---@return string? message
---@return zklock.Code? code "closed", "forked", or what the adapter says
function Pause.begin(self, fn, argument)
    local able, message, code = Call.is_possible(self._client)
    if not able then
        return nil, message, code
    end
    self._cancelled, self._fn, self._argument = false, fn, argument
    if not self._call then
        local seconds = min(FIRST * 2 ^ self._failures, LONGEST)
        self._failures = self._failures + 1
        self._call = Call.begin(self._client, kind, self, self._timer, seconds, function()
            finish(self)
        end)
    end
    return true
end

--- Whether it has begun and not ended.
function Pause.is_on(self)
    return self._call ~= nil
end

function Pause.cancel(self)
    if self._call then
        self._call:cancel()
    end
end

--- Makes the next pause the first one again, since an attempt has succeeded.
function Pause.reset(self)
    self._failures = 0
end

return Pause
