--- zklock why: says in sentences why a lock is not free: who holds it, since when, whether the holder still lives, what it waits
-- for itself, and who is in the queue.

local History = require "zklock.ui.history"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local Log = require "zklock.ui.log"
local looking = require "zklock.cli.looking"
local text = require "zklock.text"
local Waits = require "zklock.inspect.waits"

local ipairs = ipairs
local concat = table.concat
local format, min = string.format, math.min

--- How many holders, and how many waiters, are described.
local MOST = 5

--- In place of an estimate.
local NO_LOG = "How long the queue takes is known only from a log of holds, by --log: zklock watch --log FILE keeps one."

local why = { summary = "Say why a lock is not free: who holds it, and what the holder waits for." }

function why.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock."
    looking.define_below(parser)
    looking.define_log(parser, "Say how long the queue takes, by the holds in this log ($ZKLOCK_LOG).")
    looking.define(parser)
end

--- Says whether a holder lives.
local function describe_session(contender)
    local stray, state = inspect.stray(contender), contender.session_state
    if stray == "persistent" then
        return "Its node is persistent, so it stays until zklock break deletes it."
    elseif stray then
        return "Its session is gone, and the servers have not deleted its node: zklock break deletes it."
    elseif state == "connected" then
        return format("Its session is connected, from %s.", contender.address)
    elseif state == "disconnected" then
        return "Its session lives, and is not connected: if that lasts for its session timeout, the lock is free."
    end
    return "Whether its session is connected is not known."
end

--- Describes one holder. Returns sentences.
local function describe_holder(contender, path, waits, now)
    local list = {
        format("%s has held %s for %s.", locks.identity(contender), path, locks.age(contender, now)), describe_session(contender)
    }
    local paths = waits:paths(Waits.program_of(contender), path)
    if paths[1] then
        list[#list + 1] = format("It waits itself for %s.", concat(paths, ", "))
    end
    return concat(list, " ")
end

--- Describes the queue. Returns a sentence; nil: nobody waits.
local function describe_queue(state, now)
    local names = {}
    for _, contender in ipairs(state.contenders) do
        if Waits.is_waiting(contender) then
            names[#names + 1] = format("%s (%s)", locks.identity(contender), locks.age(contender, now))
        end
    end
    if not names[1] then
        return nil
    end
    local more = #names > MOST and format(", and %d more", #names - MOST) or ""
    return format("%d in the queue, in this order: %s%s.", #names, concat(names, ", ", 1, min(#names, MOST)), more)
end

--- Says how long the queue takes, by the holds in a log. Returns a sentence; nil: none is known.
local function estimate(state, log)
    local history = History.new(os.time())
    local torn = Log.read(log, state.path, function(record)
        if record.event == "left" then
            history:restore(record)
        end
    end)
    local expected, last = torn and history:expect(state) or {}, nil
    for _, contender in ipairs(state.contenders) do
        last = expected[contender.node] or last
    end
    local hold = history:figures(os.time()).hold
    return last and format("Half of the last %d holds took up to %s: the last in the queue gets the lock in about %s.", hold.count,
        text.duration(hold.p50), text.duration(last)) or nil
end

--- Returns the sentences about a lock.
local function explain(state, waits, deadlock, now, log)
    local sentences = {}
    if state.kind == "latch" or state.kind == "none" then
        return { format("%s is no lock.", state.path) }
    elseif state.holders == 0 and state.waiters == 0 then
        return { format("Nobody holds %s.", state.path) }
    elseif state.holders == 0 then
        sentences[1] = format("Nobody holds %s yet.", state.path)
    elseif state.kind == "semaphore" then
        sentences[1] = format("%s permits are taken.", locks.taken(state))
    end
    local described, more = {}, 0
    for _, contender in ipairs(state.contenders) do
        local program = contender.holder and (Waits.program_of(contender) or contender.node)
        if program and not described[program] and more == 0 and #sentences <= MOST then
            described[program] = true -- one program may have several permits
            sentences[#sentences + 1] = describe_holder(contender, state.path, waits, now)
        elseif program and not described[program] then
            described[program], more = true, more + 1
        end
    end
    if more > 0 then
        sentences[#sentences + 1] = format("There are %d more holders.", more)
    end
    sentences[#sentences + 1] = deadlock and format("A deadlock, unless one of them waits in a thread of its own: %s. One has " ..
        "to give up: end it, or ask it by zklock revoke.", Waits.describe(deadlock)) or nil
    local queue = describe_queue(state, now)
    sentences[#sentences + 1] = queue
    if queue and not deadlock then
        sentences[#sentences + 1] = not log and NO_LOG or estimate(state, log)
    end
    return sentences
end

function why.run(arguments, context)
    local path = arguments.path
    local session = context:connect(arguments)
    local state = context.check(inspect.lock(session.client, path)) or locks.missing(path)
    local waits, sessions = Waits.new {}, { problems = {} }
    if state.holders > 0 then
        waits = context.check(looking.waits(session, arguments))
        sessions = context.check(locks.add_sessions(session, { state }))
    end
    local deadlock, now = waits:deadlock(state), inspect.now { state }
    local sentences = explain(state, waits, deadlock, now, arguments.log)
    if arguments.json then
        context.output:line(context.output.json {
            path = path, lock = locks.json(state, now), sentences = sentences, deadlock = deadlock or {}
        })
        return 0
    end
    for _, sentence in ipairs(sentences) do
        context.output:line(context.output.clean(sentence))
    end
    if sessions.problems[1] then
        context:say("sessions are not known completely: %s", sessions.problems[1])
    end
    return 0
end

return why
