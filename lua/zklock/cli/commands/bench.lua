--- zklock bench: measures an ensemble for locks: latencies of a write, a read, a free lock, and of passing a lock on.
--
-- A measurement has four parts of the same length. One operation at a time is under way, and no more of them begin in a second than
-- --rate says. So the servers notice no more of it than of one client. All nodes are below a node that it creates and removes; if
-- zklock is killed, the servers remove it, because it is a container.

local check = require("zklock.cli.context").check
local codes = require "zklock.cli.codes"
local figures = require "zklock.cli.figures"
local locks = require "zklock.cli.acquire"
local looking = require "zklock.cli.looking"
local process = require "zklock.process"
local Session = require "zklock.cli.session"
local settings = require "zklock.cli.settings"

local huge, max, min = math.huge, math.max, math.min
local format = string.format

--- Where nothing else is given.
local SECONDS, CONTENDERS, RATE, PATH = 60, 4, 50, "/zklock-bench"

--- More than that needs --yes.
local MANY_CONTENDERS, HIGH_RATE = 16, 200

--- The limits of what can be asked for: each contender is a connection and a thread.
local MOST_CONTENDERS, MOST_RATE = 200, 100000

--- The data of a write: as long as an identity and a few numbers.
local DATA = ("."):rep(100)

--- Seconds that the removal of the nodes may take for each of them; and their creation, after a signal.
local REMOVE_TIMEOUT, CREATE_TIMEOUT = 5, 5

--- The parts, in their order; what a person calls them.
local PARTS = { "write", "read", "lock", "hand_over" }
local TITLES = {
    connect = "new session", write = "write", read = "read", lock = "acquire and release a free lock",
    hand_over = "from a release to the next holder"
}

local bench = { summary = "Measure an ensemble for locks, and say what the figures mean." }

function bench.define(parser)
    parser:option "--seconds":argname "SEC":convert(locks.seconds):description(format(
        "How long the measurement takes (%d).", SECONDS))
    parser:option "--path":argname "PATH":description(format(
        "The node that is created for the measurement, and removed (%s). It must not exist, its parent must.", PATH))
    parser:option "--contenders":argname "N":convert(settings.number("a whole number", 2, MOST_CONTENDERS, true)):description(
        format("How many clients pass the lock on (%d).", CONTENDERS))
    parser:option "--rate":argname "N":convert(settings.number("a number", 1, MOST_RATE)):description(format(
        "How many operations begin in a second, at most (%d).", RATE))
    parser:flag "--yes":description(format("Allow more than %d contenders or a rate above %d.", MANY_CONTENDERS, HIGH_RATE))
    looking.define(parser)
end

local Run = {}
Run.__index = Run

--- Waits until the next operation may begin.
local function pace(self)
    local now = process.now()
    while now < self.due do
        process.poll({ self.session.signals }, self.due - now)
        self.session:take_signals()
        now = process.now()
    end
    self.due = max(now, self.due + 1 / self.rate)
end

--- Repeats an operation until the time of the part is over. The first time is not counted: it may find nothing prepared.
local function repeatedly(self, operation)
    operation()
    local samples = {}
    self.due = process.now()
    local deadline = self.due + self.part
    repeat
        pace(self)
        local began = process.now()
        operation()
        samples[#samples + 1] = process.now() - began
    until process.now() >= deadline
    return figures.summary(samples)
end

function Run:write()
    return repeatedly(self, function()
        check(self.session.client:set(self.path, DATA))
    end)
end

function Run:read()
    return repeatedly(self, function()
        check(self.session.client:get(self.path))
    end)
end

function Run:lock()
    local lock = self.session.client:mutex(self.path .. "/alone")
    return repeatedly(self, function()
        check(lock:acquire())
        check(lock:release())
    end)
end

--- Pumps all contenders after one of them, or a signal, has something to say; or after so many seconds.
local function wait_for_any(self, seconds)
    local fds = { self.session.signals }
    for _, contender in ipairs(self.contenders) do
        fds[#fds + 1] = contender.client:pollfd()
    end
    process.poll(fds, seconds)
    self.session:take_signals()
    for _, contender in ipairs(self.contenders) do
        contender.client:pump()
    end
end

--- All contenders want one lock. The holder gives it up as soon as the rate allows that, and queues again.
function Run:hand_over()
    local samples, holder, released, failure = {}, nil, nil, nil
    local function queue(contender)
        local call, message, code = contender.lock:acquire { callback = function(held, problem, why)
            local now = process.now()
            if not held then
                failure = failure or { problem, why }
                return
            end
            samples[#samples + 1] = released and now - released
            contender.held, holder = held, contender
        end }
        failure = failure or not call and { message, code } or nil
    end
    for _, contender in ipairs(self.contenders) do
        contender.lock = contender.client:mutex(self.path .. "/shared")
        queue(contender)
    end
    local began = process.now()
    local due, deadline, now = began, began + self.part, began
    while not failure and (now < deadline or #samples == 0) do
        if holder and now >= due then
            local last = holder
            holder, released = nil, process.now()
            due = max(now, due + 1 / self.rate)
            check(last.held:release { wait = false })
            queue(last)
        end
        wait_for_any(self, holder and max(0, min(due, deadline) - process.now()) or self.part)
        now = process.now()
    end
    if failure then
        check(nil, failure[1], failure[2])
    end
    local summary = figures.summary(samples)
    self.results.locks_per_second, self.results.most_locks_per_second = figures.rates(summary, now - began)
    return summary
end

--- Opens the sessions of the contenders.
local function connect(self)
    local samples = {}
    for index = 1, self.results.contenders do
        local began = process.now()
        self.contenders[index] = check(Session.connect(self.settings, self.context))
        samples[index] = process.now() - began
    end
    return figures.summary(samples)
end

--- Creates the node for everything. A signal does not end the wait for the reply at once: only the reply tells whether the node is
-- ours, and has to be removed. Then self.interrupted is what the signal raises.
local function prepare(self)
    local session, client = self.session, self.session.client
    local answered, created, message, code, deadline
    check(client:create(self.path, DATA, { container = true, callback = function(...)
        answered, created, message, code = true, ...
    end }))
    while not answered and (not deadline or process.now() < deadline) do
        process.poll({ session.signals, client:pollfd() }, deadline and max(0, deadline - process.now()) or huge)
        client:pump()
        local ok, interruption = pcall(session.take_signals, session)
        if not ok then
            self.interrupted, deadline = self.interrupted or interruption, deadline or process.now() + CREATE_TIMEOUT
        end
    end
    client:pump() -- this process may have been stopped until the time was up
    self.created = created ~= nil
    if not answered then
        message, code = format("no server has said whether %s was created", self.path), "timeout"
    elseif code == "node_exists" then
        message = format("%s exists: another measurement is running, or it is not ours. Give another --path", self.path)
    elseif code == "no_node" then
        message = format("the parent of %s does not exist: create it, or give another --path", self.path)
    end
    if not created and self.interrupted then
        if code ~= "node_exists" and code ~= "no_node" then -- then the node may be there
            self.context:warn("%s", message)
        end
        error(self.interrupted, 0)
    end
    check(created, message, code)
end

--- Removes a node and all below it. Returns true; or nil and a message.
local function remove(client, path)
    local names, message, code = client:children(path, { timeout = REMOVE_TIMEOUT })
    if not names then
        return code == "no_node" or nil, message
    end
    for _, name in ipairs(names) do
        local removed
        removed, message = remove(client, path .. "/" .. name)
        if not removed then
            return nil, message
        end
    end
    local deleted
    deleted, message, code = client:delete(path, { timeout = REMOVE_TIMEOUT })
    return deleted or code == "no_node" or nil, message
end

--- Ends all sessions of contenders and removes the nodes. No signal interrupts that. Returns true; or nil and a message.
local function clean_up(self)
    self.session:finish()
    for _, contender in pairs(self.contenders) do
        contender:close()
    end
    if not self.created then
        return true
    end
    return remove(self.session.client, self.path)
end

local function measure(self)
    if self.interrupted then
        error(self.interrupted, 0)
    end
    self.results.connect = connect(self)
    for _, name in ipairs(PARTS) do
        self.context:say("measuring: %s (%.3g s)", TITLES[name], self.part)
        self.results[name] = self[name](self)
    end
end

-- The report ----------------------------------------------------------------------------------------------------------

local STYLES = { ok = "green", warning = "yellow", error = "red" }

local function show(output, results)
    local rows = { { "", "MEDIAN", "90 %", "99 %", "MAX", "COUNT" } }
    for _, name in ipairs { "connect", "write", "read", "lock", "hand_over" } do
        local summary = results[name]
        local row = { TITLES[name] }
        for _, key in ipairs { "p50", "p90", "p99", "max" } do
            row[#row + 1] = figures.duration(summary[key])
        end
        row[#row + 1] = format("%d", summary.count)
        rows[#rows + 1] = row
    end
    output:rows(rows)
    output:line(format("%d contenders: %.0f locks a second at a rate of %g; %.0f would be possible", results.contenders,
        results.locks_per_second, results.rate, results.most_locks_per_second))
    for _, remark in ipairs(results.remarks) do
        output:line(format("%s  %s", output:styled(STYLES[remark.level], remark.level), remark.message))
    end
end

--- Checks what argparse cannot.
local function check_arguments(arguments, context)
    if arguments.seconds and arguments.seconds < 1 then
        context.stop("failed", "--seconds must be 1 or more")
    end
    local contenders, rate = arguments.contenders or CONTENDERS, arguments.rate or RATE
    if not arguments.yes and (contenders > MANY_CONTENDERS or rate > HIGH_RATE) then
        context.stop("failed", format("%d contenders and up to %g operations a second may be felt by other users of the servers" ..
            "; nothing is done without --yes", contenders, rate))
    end
end

function bench.run(arguments, context)
    check_arguments(arguments, context)
    local session = context:connect(arguments)
    local seconds = arguments.seconds or SECONDS
    local self = setmetatable({
        session = session, context = context, settings = settings.read(arguments), contenders = {},
        path = arguments.path or PATH, part = seconds / #PARTS, rate = arguments.rate or RATE, due = 0, created = false
    }, Run)
    self.results = {
        session_timeout = session.client:session_timeout(), contenders = arguments.contenders or CONTENDERS,
        rate = self.rate, seconds = seconds, path = self.path
    }
    prepare(self)
    local measured, failure = pcall(measure, self)
    local cleaned, problem = clean_up(self)
    if not cleaned then
        context:warn("could not remove %s: %s", self.path, problem)
    end
    if not measured then
        error(failure, 0)
    end
    self.results.remarks = figures.remarks(self.results)
    if arguments.json then
        context.output:line(context.output.json(self.results))
    else
        show(context.output, self.results)
    end
    return cleaned and 0 or codes.FAILED
end

return bench
