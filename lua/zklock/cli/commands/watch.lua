--- zklock watch: writes a line of JSON for each change of some locks.

local codes = require "zklock.cli.codes"
local History = require "zklock.ui.history"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"
local settings = require "zklock.cli.settings"

local watch = { summary = "Write a line of JSON for each change of some locks." }

function watch.define(parser)
    parser:argument "paths":argname "PATH":args "+":description "The path of a lock; it need not exist."
    looking.define_kept_log(parser)
    settings.define(parser)
end

--- Writes a change. Returns false if nobody reads any more.
local function write(output, change)
    local now = os.time()
    local object = { event = change.event, path = change.path, time = now, reason = change.reason, missed = change.missed,
        state = change.state, problem = change.problem }
    if change.contender then
        object.contender = locks.contender_json(change.contender, now)
    end
    return output:line(output.json(object)) and output:flush()
end

--- Returns a function that notes changes in a log: function(change).
local function keep(log)
    local clock, seen = History.new_clock(), {} -- seen: path -> contenders by their nodes, history
    return function(change)
        local path, contender, now = change.path, change.contender, clock()
        if change.event == "gap" then
            log:record(false, now)
            log:record(true, now)
        elseif contender then
            seen[path] = seen[path] or { contenders = {}, history = History.new(now, false, function(event, lane)
                log:note(event, path, lane)
            end) }
            seen[path].contenders[contender.node] = change.event ~= "left" and contender or nil
            local list = {}
            for _, one in pairs(seen[path].contenders) do
                list[#list + 1] = one
            end
            seen[path].history:add({ contenders = list }, now, false)
        end
    end
end

function watch.run(arguments, context)
    local log, failure = looking.open_log(arguments, context)
    if log == nil then
        return failure
    end
    local note = log and keep(log) or function() end
    return looking.with_session(arguments, context, function(session)
        local output, client, written = context.output, session.client, true
        if log then
            log:record(true, os.time())
        end
        client:on("state", function(state, problem)
            if log then
                log:record(state == "connected", os.time())
            end
            if state ~= "closed" then -- by this command, at its end
                written = write(output, { event = "connection", state = state, problem = problem }) and written
            end
        end)
        local watchers = {}
        for index, path in ipairs(arguments.paths) do
            watchers[index] = inspect.watch(client, path)
        end
        while true do
            local change, message, code = inspect.next_change(watchers)
            if not change then
                return looking.fail(context, message, code)
            end
            note(change)
            written = write(output, change) and written
            if not written then
                return codes.FAILED
            end
        end
    end)
end

return watch
