--- cli.session: a client of `zklock`, whose waits a signal can end.
--
-- Waits poll the client's descriptor together with the descriptor of the signals. INT, TERM, HUP and QUIT raise an *interruption*
-- out of the wait, a table with the field `signal`: the acquisition under way is given up, and zklock.cli closes the client.
-- HUP calls `reload` instead, if it is set and there is no terminal. TSTP stops the process, as it would without us. CHLD calls the
-- setting `on_child`. Other signals have no meaning while no command runs.

local caller = require "zklock.lock.caller"
local checks = require "zklock.options"
local codes = require "zklock.cli.codes"
local open = require("zklock.cli.settings").open
local process = require "zklock.process"

local min = math.min

--- How many seconds the end of the session may take.
local CLOSE_TIMEOUT = 5

--- How many seconds a wait for a lock lasts before it is announced.
local ANNOUNCE_AFTER = 0.2

--- How many seconds a look at the holders of one lock may take.
local LOOK_TIMEOUT = 2

local Session = {}
Session.__index = Session

--- Returns what is raised for a signal.
local function interruption(signal)
    return setmetatable({ signal = signal }, { __metatable = "zklock interruption" })
end

local function has_terminal()
    local terminal = process.terminal()
    if terminal then
        process.close(terminal)
    end
    return terminal ~= nil
end

--- Acts on the signals that have come while no command runs.
local function take_signals(self)
    for signal in process.next_signal, self.signals do
        if signal == "HUP" and self.reload and not has_terminal() then
            self.reload()
        elseif codes.ENDING[signal] and not self.closing then
            error(interruption(signal), 0)
        elseif signal == "TSTP" then
            process.raise("TSTP", false)
        elseif signal == "CHLD" and self.on_child then
            self.on_child()
        end
    end
end

--- Acts on the signals that have come, for subcommands that wait for something else than the client.
Session.take_signals = take_signals

--- The adapter (zklock.adapters) of a session.
local function new_adapter(self)
    local adapter = { name = "zklock command", yields = false, alone = true }

    function adapter.wait(client, _, seconds)
        local announce = self.announce
        if announce then
            local left = announce.at - process.now()
            if left <= 0 then
                self.announce = nil -- the function may wait itself
                announce.fn()
                return true
            end
            seconds = min(seconds, left)
        end
        if self.service then
            seconds = min(seconds, self.service.beat())
        end
        local input = self.input and self.input.descriptor() or -1
        local ready = process.poll({ self.signals, client:pollfd(), input }, seconds)
        if ready[self.signals] then
            take_signals(self)
        end
        if ready[input] then
            self.input.take()
        end
        return true
    end

    function adapter.wake()
    end

    return adapter
end

--- Warns once if credentials are sent to another machine without TLS.
local function warn_of_plain_credentials(settings, context)
    local servers = settings.auth and not settings.tls and checks.servers(settings.servers)
    local host = servers and checks.remote_host(servers)
    if host and not context.warned_of_credentials then
        context.warned_of_credentials = true
        context:warn("the credentials go to '%s' unencrypted: everyone on the way can read them; see the options of TLS", host)
    end
end

--- Connects.
---@param settings table of zklock.cli.settings; `on_child`, if there is one, is called in waits when a child has changed its state
---@param context table
---@return table?
---@return string? message
---@return zklock.Code? code
function Session.connect(settings, context)
    local self = setmetatable({
        signals = context.signals, input = context.input, service = context.service, on_child = settings.on_child,
        closing = false, announce = nil, client = false, revoked = false
    }, Session)
    warn_of_plain_credentials(settings, context)
    local client, message, code = open(settings, new_adapter(self), settings.connect_timeout)
    if not client then
        return nil, message, code
    end
    self.client, self.servers, self.tls, self.follow = client, settings.servers, settings.tls, settings.follow
    return self
end

--- Calls `fn` once, if the next waits take longer than a moment. Call quiet() when they are over.
function Session:announce_wait(fn)
    self.announce = { at = process.now() + ANNOUNCE_AFTER, fn = fn }
end

function Session:quiet()
    self.announce = nil
end

--- From now on neither a signal nor the context's input interrupts a wait: for what has to be done at the end.
function Session:finish()
    self.closing, self.input, self.announce = true, false, nil
end

--- Ends the session: all its nodes are deleted. No signal interrupts that; it takes some seconds at most.
---@return true? # nil: the servers have not acknowledged the end in time
function Session:close()
    self:finish()
    return self.client:close(CLOSE_TIMEOUT)
end

--- The node by which this command holds a lock or queues for it.
local function own_node(lock)
    local hold = caller.own(lock, caller.running(lock:settings().owner))
    local acquisition = hold and hold:acquisition()
    return acquisition and acquisition:node()
end

--- Describes the holders of the first of these locks that another client holds: "held by web3:4711 for 3 min".
-- The time counts from the creation of the oldest node.
---@param members table list of locks
---@return string? # the lock's path; nil: none of them has such a holder, or the servers do not say
---@return string? # its holders
function Session:describe_holders(members)
    local inspect, locks = require "zklock.inspect", require "zklock.cli.locks" -- few commands come here
    for _, lock in ipairs(members) do
        local state = inspect.lock(self.client, lock:path(), { timeout = LOOK_TIMEOUT, identities = false })
        if state then
            local own = own_node(lock) -- may have become the holder's node a moment ago
            local names, age = locks.holders(state, inspect.now { state }, own)
            if names ~= "" then
                return state.path, "held by " .. names .. (age ~= "-" and " for " .. age or "")
            end
        end
    end
    return nil
end

return Session
