--- leader: one of several candidates leads: the recipe of leadership over a mutex.
--
-- Client:leader makes a *candidate*. It queues for a mutex on its path, by a callback, so it campaigns in the background of every
-- event loop. The candidate that has the mutex leads. The recipe has no protocol of its own: what a leader may rely on is what a
-- holder may rely on (docs/fencing.md). In particular, `is_leader` is the word of the lease: it is false before another
-- candidate can be elected, also in a partition or after a pause of the program.
--
-- **A term** begins when the mutex is granted. on_elected(token) runs, in the coroutine of the mutex's callback: a coroutine of
-- its own in luv, cqueues and copas, a timer in nginx, inside client:pump() in a plain program. It may run as long as the
-- candidate leads, and should look at is_leader() between two pieces of work.
--
-- The term ends by a loss (the lock's on_lost), by resign or close, by another client's revoke, or if on_elected raises an error or
-- is broken off (ngx.exit). Otherwise a leader that does nothing would keep others from leading. on_lost(reason) runs, and only
-- then the mutex is released, so that the next leader finds the work stopped. A lost mutex needs no release: its lease ended
-- before the servers could give the mutex to another candidate, and on_lost runs as soon as the loop runs.
--
-- The next term of the same candidate begins no sooner than on_elected and on_lost of the previous term have returned. So the
-- program's functions never run twice at once. The candidate queues behind all others again: the mutex has `handoff = 0`. After an
-- error of on_elected, or a campaign that has failed, it pauses first.

local caller = require "zklock.lock.caller"
local core = require "zklock.core"
local Hold = require "zklock.lock.hold"
local Lock = require "zklock.lock"
local new_check = require "zklock.check_self"
local node = require "zklock.node"
local options = require "zklock.options"
local Pause = require "zklock.pause"
local queue = require "zklock.inspect.queue"
local text_of = require("zklock.report").text_of
local wait = require "zklock.wait"

local error, ipairs, next, pairs, pcall, setmetatable = error, ipairs, next, pairs, pcall, setmetatable
local format = string.format
local now = core.now
local held_acquisition = Hold.held_acquisition

---@class zklock.Leader
local Leader = {}
Leader.__index = Leader

local check_self, checked = new_check("leader", "a leader", { [Leader] = true })

local campaign

--- Reports a failure that no function of the program is told of.
local function report(self, what, problem)
    self._client:report(format("the leader %s: %s: %s", self._lock:path(), what, text_of(problem)))
end

--- Campaigns again after a pause, which grows from one failure to the next.
local function campaign_later(self)
    local begun, problem = self._pause:begin(campaign, self)
    if not begun and not self._client:desk().closing then
        report(self, "the candidate campaigns no more", problem)
    end
end

--- Acts on a campaign that has failed, or that could not be begun.
local function campaign_failed(self, message, code)
    if code == "lost" then
        campaign(self)
    elseif self._closed or code == "cancelled" or code == "forked" or code == "closed" and self._client:desk().closing then
        return -- the program has ended it
    else
        report(self, "the campaign failed", message)
        campaign_later(self)
    end
end

-- Terms ----------------------------------------------------------------------------------------------------------------

--- Reports that the loop has broken off a function of the program, and runs what follows it. Nothing here refers to the
-- coroutine's variables.
local function break_off(part)
    report(part.leader, "the callback " .. part.name .. " was broken off", "its coroutine has ended before it has returned")
    part.leader._client:run_callback(part.name, part.after, part, false)
end

--- The metatable of parts: from Lua 5.4 on, coroutine.close breaks off the function that its coroutine runs.
local Part = {}

function Part:__close()
    if self.runs then
        self.runs = false
        break_off(self)
    end
end

--- Runs a function of the program, if there is one, and then `part.after(part, ok)`. An error in it is reported. If the loop breaks
-- it off, that is reported, too, and `after` runs in a coroutine of its own.
---@param part table { leader =, name = of the function, after =, … what `after` needs }
local function run(part, fn, argument)
    if not fn then
        return part.after(part, true)
    end
    local guard = part.leader._client:desk().adapter.guard
    local settle = guard and guard(break_off, part)
    local ok, problem
    for _ in wait.once, nil, nil, setmetatable(part, Part) do
        part.runs, part.begun = true, now()
        ok, problem = pcall(fn, argument)
        part.runs = false
    end
    if settle then
        settle()
    end
    if not ok then
        report(part.leader, "the callback " .. part.name .. " raised", problem)
    end
    part.after(part, ok)
end

--- After on_lost: releases what is left of the lock, and campaigns again.
local function after_term(part)
    local self = part.leader
    part.hold:begin_release()
    self._ending = false
    if self._closed then
        self._client:desk().leaders[self] = nil
    end
    campaign(self)
end

--- Goes on after an error in the candidate's own code: no memory, or Ctrl-C.
local function recover(self, problem)
    campaign_later(self)
    report(self, "the candidate was interrupted", problem)
end

--- Ends a term: tells the program first. May run in any coroutine.
local function end_term(self, hold, reason)
    local ok, problem = pcall(run, { leader = self, name = "on_lost", after = after_term, hold = hold }, self._on_lost, reason)
    if not ok then
        self._ending = false
        hold:begin_release()
        recover(self, problem)
    end
end

--- Ends the present term, if there is one. From now on is_leader is false.
---@param self table
---@param reason string
---@param here? boolean whether on_lost runs in this coroutine, so that the term has ended when this returns
---@return boolean # whether there was a term
local function step_down(self, reason, here)
    local hold = self._held
    if not hold then
        return false
    end
    self._held, self._ending = nil, true
    if here then
        end_term(self, hold, reason)
    else
        self._client:run_callback("on_lost", end_term, self, hold, reason)
    end
    return true
end

--- After on_elected. If that has failed, the term ends, and the candidate pauses before it queues again.
local function after_elected(part, ok)
    local self = part.leader
    self._working = false
    if ok or now() - part.begun > Pause.LONGEST then
        self._pause:reset()
    end
    if not ok and not self._closed then
        campaign_later(self) -- first: the end of the term would campaign at once
        if part.hold == self._held then
            step_down(self, "failed", true)
        end
    end
    campaign(self) -- if the term is over already
end

--- The candidate is elected, and on_elected runs; or its campaign has failed.
local function take_answer(term, message, code)
    local self, hold = term.leader, term.hold
    if hold and self._closed then
        hold:begin_release()
    elseif hold then
        local token = hold:token()
        if token then
            self._held, self._working = hold, true
            run(term, self._on_elected, token)
        else
            campaign(self) -- it is lost already
        end
    else
        campaign_failed(self, message, code)
    end
end

--- The callback of the mutex.
local function on_answer(self, hold, message, code)
    self._call = nil
    local term = { leader = self, name = "on_elected", after = after_elected, hold = hold, begun = false }
    local ok, problem = pcall(take_answer, term, message, code)
    if ok then
        return
    elseif not term.begun then -- no on_lost without an on_elected
        self._held, self._working = nil, false
        if hold then
            hold:begin_release()
        end
    elseif self._working then
        self._working = false
        step_down(self, "failed", true)
    end
    recover(self, problem)
end

--- Begins to queue for the mutex.
---@return true?
---@return string? message
---@return zklock.Code? code as of Lock:acquire with a callback
local function enqueue(self)
    local call, message, code = self._lock:acquire { keep = true, callback = function(...)
        on_answer(self, ...)
    end }
    self._call = call
    if call then
        return true
    end
    return nil, message, code
end

--- Queues for the mutex, unless the candidate does, leads, is closed, pauses, or functions of its last term still run.
function campaign(self)
    if self._closed or self._call or self._held or self._working or self._ending or self._pause:is_on() then
        return
    end
    local queued, message, code = enqueue(self)
    if not queued then
        campaign_failed(self, message, code)
    end
end

-- Making one -----------------------------------------------------------------------------------------------------------

--- The settings of Client:leader. The mutex takes the last three. Candidates wait for as long as another one leads, and have a
-- lock group of their own, so that an alert about locks that nobody gets can leave them out.
local SCHEMA = {
    on_elected = { options.callback }, on_lost = { options.callback },
    identity = { options.identity }, acl = { options.acl }, metrics = { options.label, "leader" }
}

--- Checks the settings of Client:leader.
---@return table? # the settings
---@return string? wrong
function Leader.read(settings)
    return options.read(settings, SCHEMA)
end

--- For Client:leader: makes a candidate, and begins its campaign. `settings` have been checked, `lock_settings` are those of the
-- mutex.
function Leader.new(client, path, settings, lock_settings)
    local pause, problem, why = Pause.new(client)
    if not pause then
        return nil, problem, why
    end
    local self = setmetatable({
        _client = client, _on_elected = settings.on_elected, _on_lost = settings.on_lost,
        _pause = pause,   -- before it queues again
        _call = nil,      -- the call for the mutex, while the candidate queues
        _held = nil,      -- the hold of the present term
        _working = false, -- whether on_elected runs
        _ending = false,  -- whether on_lost runs
        _closed = false
    }, Leader)
    lock_settings.handoff = 0
    function lock_settings.on_lost(hold, reason)
        if hold == self._held then
            step_down(self, reason, true)
        end
    end
    function lock_settings.on_revoke(hold)
        if hold == self._held then
            step_down(self, "revoked", true)
        elseif not self._ending then
            hold:begin_release() -- granted, and given up before the answer: the candidate campaigns again
        end
    end
    self._lock = Lock.new(Lock, client, Lock.MUTEX, path, lock_settings)
    client:desk().leaders[self] = true -- it campaigns until it is closed, also if the program has dropped it
    local ok, begun, message, code = pcall(enqueue, self)
    if ok and begun then
        return self
    end
    self:close()
    if not ok then
        error(begun, 0)
    end
    return nil, message, code
end

-- The methods ----------------------------------------------------------------------------------------------------------

--- Whether this candidate leads at this instant, by the lease: true only while no other candidate can lead. Sends nothing.
---@return boolean
function Leader:is_leader()
    check_self(self, "is_leader")
    return held_acquisition(self._held) ~= nil
end

--- The fencing token of the present term, as Lock:token.
---@return string? token nil if this candidate does not lead
function Leader:token()
    check_self(self, "token")
    local acquisition = held_acquisition(self._held)
    return acquisition and acquisition:token() or nil
end

local ASK_SCHEMA = { timeout = { options.timeout }, callback = { options.callback } }

--- Asks which candidate holds the mutex: a list, and the holder's node. If that is gone by then, the same again.
---@return any # as Leader:leader
local function ask(client, path, settings)
    local what = "asking for the leader of " .. path
    local function results_of_node(_, operation)
        local data, message, code = operation:take()
        if code == "no_node" then
            return ask(client, path, settings)
        elseif code == "no_auth" then
            return "" -- there is a leader, whose node may not be read
        elseif not data then
            return nil, message, code
        end
        return queue.read_data(data) or ""
    end
    local function results_of_list(_, operation)
        local names, message, code = operation:take()
        if not names then
            return nil, code ~= "no_node" and message or nil, code ~= "no_node" and code or nil
        end
        local contenders = queue.parse(path, names, false)
        queue.stand(contenders)
        for _, contender in ipairs(contenders) do
            if contender.holder then
                return node.answer(client, "leader:leader", { kind = "get", path = contender.node }, settings, what, false,
                    results_of_node)
            end
        end
        return nil
    end
    return node.answer(client, "leader:leader", { kind = "children", path = path }, settings, what, false, results_of_list)
end

--- Asks the servers who leads, as of a moment ago.
---@param timeout? number|zklock.WaitOptions seconds, 0 or more, or a table; default: the session timeout
---@return string|zklock.Call|nil identity of the leader; nil alone: nobody leads
---@return string? message
---@return zklock.Code? code "timeout", "disconnected", "no_auth", "closed", "forked", "phase", "failed"
function Leader:leader(timeout)
    check_self(self, "leader")
    local settings = checked("leader", options.read_timeout_or_table(timeout, ASK_SCHEMA))
    settings.timeout = settings.timeout or self._client:cleanup_timeout()
    settings.deadline = now() + settings.timeout
    return ask(self._client, self._lock:path(), settings)
end

--- Gives up the leadership, and goes to the end of the queue. is_leader is false from now on. on_lost("resigned") runs, and when it
-- has returned, the next candidate is elected. Does not wait.
---@return boolean was_leader whether this candidate led
function Leader:resign()
    check_self(self, "resign")
    return step_down(self, "resigned")
end

--- Ends the candidacy for good. If the candidate leads, on_lost("closed") runs first, as in resign. Does not wait. A second close
-- has no effect.
function Leader:close()
    check_self(self, "close")
    self._closed = true
    if self._call then
        self._call:cancel()
    end
    self._pause:cancel()
    step_down(self, "closed")
    if not self._ending then
        caller.release_all(self._lock)
        self._client:desk().leaders[self] = nil
    end
end

--- For adapters whose process is about to end: closes all candidates of a client.
---@return boolean # whether an on_lost still runs
function Leader.close_all(client)
    local leaders = {}
    for leader in pairs(client:desk().leaders) do
        leaders[#leaders + 1] = leader
    end
    for index = 1, #leaders do
        leaders[index]:close()
    end
    return next(client:desk().leaders) ~= nil
end

--- "zklock leader (/path, leading)".
function Leader:__tostring()
    local state = self:is_leader() and "leading" or self._closed and "closed" or "campaigning"
    return format("zklock leader (%s, %s)", self._lock:path(), state)
end

--- For Lua 5.4's `local leader <close> = …`: ends the candidacy at the end of the block.
function Leader:__close()
    self:close()
end

return Leader
