--- call: something that the program has asked for with the option `callback`, so that nothing waits for the answer.
--
-- For the functions that take `callback`: of locks (zklock.lock.callback), and of nodes and watches (zklock.node). The function
-- that was called returns the call at once. Later the pump calls the callback, with what the function would have returned
-- without `callback`:
--
--   * exactly once, also after `call:cancel()`, and with the code "closed" when the client is closed. If the function itself
--     returns nil, message, code, the callback is not called. A client that is garbage-collected calls no callbacks.
--   * never from within the function that was called, or from within call:cancel(), also if the answer is known at once.
--   * as every other callback (`Client.run_callback`): an error in it is reported (zklock.report).
--
-- The pump is the adapter's, or whatever calls client:pump(). The deadline is C's: the I/O thread makes client:pollfd() readable
-- at the deadline, as for any other event. So no loop needs a timer for it.
--
-- A call refers to a C handle and watches it (`handle_changed`, see zklock.wait). The functions of one *kind* of calls are a
-- table:
--
--   * `name` is for reports of errors.
--   * `decided(subject)` returns whether there is an answer, and only reads.
--   * `results(subject, is_late)` returns the answer: at most three values for the callback. If `is_late`, the deadline has passed
--     and nothing is decided. It ends whatever is still under way. It may begin and return another call with the same callback,
--     with which this one goes on.
--   * `cancel(subject)` ends the request; afterwards decided(subject) is true. Returns whether there was a request to end.
--   * `deliver(subject, fn, …)` optional: calls fn(…), with the results. It runs in the callback's coroutine.
--   * `abandon(subject)` optional: gives back what the results would have been, since an error has ended `results`. Does nothing
--     the second time.
--
-- An error at any instruction of the pump (Ctrl-C) leaves a call as it was, or with an answer for the next pump.

local core = require "zklock.core"
local new_check = require "zklock.check_self"
local wait = require "zklock.wait"

local getmetatable, next, pairs, select, setmetatable, tostring = getmetatable, next, pairs, select, setmetatable, tostring
local unpack = table.unpack or unpack
local format = string.format
local huge = math.huge
local now = core.now

--- Seconds before its deadline at which a call counts as late: more than the clocks of Lua and C differ by rounding.
local ROUNDING = 1e-6

--- The answer if an error has ended `results`.
local INTERRUPTED = { n = 3, nil, "an error came between the answer and the callback", "failed" }

---@class zklock.Call
local Call = {}
Call.__index = Call

local check_self = new_check("call", "a call", { [Call] = true })

--- Tells the adapter whether the client has calls.
local function tell_adapter(client, has_calls)
    local calls = client:desk().adapter.calls
    if calls then
        calls(client, has_calls)
    elseif has_calls then
        wait.attend(client)
    end
end

--- Whether a call can be begun: its callback is going to be called.
---@return true?
---@return string? message
---@return zklock.Code? code "closed", "forked"; or what the adapter says
function Call.is_possible(client)
    local state, problem, code = client:desk().core:state()
    if state == nil then
        return nil, problem, code
    elseif state == "closed" then
        return nil, "the client is closed", "closed"
    end
    local can_call = client:desk().adapter.can_call
    if can_call then
        return can_call(client)
    end
    return true
end

--- Begins a call.
---@param client zklock.Client
---@param kind table
---@param subject any what the functions of `kind` take
---@param handle userdata the C handle whose changes concern the call
---@param seconds number from now to the deadline; math.huge: none
---@param fn function the callback
---@param observer? table the object that passes on the handle's notifications to the call, if the call does not observe the
--   handle itself
---@return table # the call
function Call.begin(client, kind, subject, handle, seconds, fn, observer)
    local call = setmetatable({
        _client = client, _kind = kind, _subject = subject, _handle = handle, _fn = fn, _deadline = now() + seconds,
        _observes = observer == nil, _next = false,
        _results = false -- the answer, with their number `n`, until the callback has begun
    }, Call)
    local desk = client:desk()
    local is_first = next(desk.calls) == nil
    desk.calls[call] = true
    desk.observers[handle:id()] = observer or call
    if is_first then
        tell_adapter(client, true)
    else
        wait.attend(client)
    end
    if seconds < huge then
        handle:limit(seconds)
    end
    if kind.decided(subject) then
        handle:call_owner() -- C makes no notification of a result that its caller can see at once
    end
    return call
end

--- Forgets a call. From now on the client refers to it no more.
local function finish(call)
    local client = call._client
    local desk = client:desk()
    desk.calls[call] = nil
    if call._observes and desk.observers[call._handle:id()] == call then
        desk.observers[call._handle:id()] = nil
    end
    if next(desk.calls) == nil then
        tell_adapter(client, false)
    end
end

--- Forgets a call, if there is one with this subject, because an error has kept its function from returning it.
function Call.take_back(client, subject)
    for call in pairs(client:desk().calls) do
        if call._subject == subject then
            call._fn = nil
            return finish(call)
        end
    end
end

local function pack(...)
    return { n = select("#", ...), ... }
end

--- Runs the callback with the results, in its own coroutine. Only the first time: an error may have kept the pump from noting it.
local function run(call, ...)
    local fn, deliver = call._fn, call._kind.deliver
    call._fn = nil -- first: without it, the results are not asked for again
    call._results = false
    if fn and deliver then
        return deliver(call._subject, fn, ...)
    elseif fn then
        return fn(...)
    end
end

--- Has the callback run, unless another call goes on for it.
local function answer(call)
    local results = call._results
    if getmetatable(results[1]) == Call then
        call._next, call._fn = results[1], nil
    else
        call._client:run_callback("of " .. call._kind.name, function(...)
            return run(call, ...)
        end, unpack(results, 1, results.n))
    end
    finish(call)
end

--- For the pump: the handle, or the client's state, has changed. Runs the callback if the answer is there, or the time is up.
function Call.handle_changed(self)
    local kind, subject = self._kind, self._subject
    if not self._fn then
        return finish(self) -- an error has kept the pump from that
    elseif self._results == INTERRUPTED then
        if kind.abandon then
            kind.abandon(subject)
        end
    elseif not self._results then
        local left = self._deadline - now()
        local is_late = not kind.decided(subject)
        if is_late and left > ROUNDING then
            if left < huge then
                self._handle:limit(left) -- the deadline of another call has passed, or this one was rounded
            end
            return
        end
        self._results = INTERRUPTED
        self._results = pack(kind.results(subject, is_late))
    end
    return answer(self)
end

--- Ends the call. Its callback gets the code "cancelled", from the pump. A write that is cancelled may be executed or not.
---@return boolean was_pending whether the answer was still to come
function Call:cancel()
    check_self(self, "cancel")
    if self._next then
        return self._next:cancel()
    elseif not self._fn or self._kind.decided(self._subject) or not self._kind.cancel(self._subject) then
        return false
    end
    self._handle:call_owner()
    return true
end

--- "zklock call (acquire, pending)".
function Call:__tostring()
    return self._next and tostring(self._next)
        or format("zklock call (%s, %s)", tostring(self._kind.name), self._fn and "pending" or "answered")
end

return Call
