--- zklock watch: writes a line of JSON for each change of some locks.

local codes = require "zklock.cli.codes"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"
local settings = require "zklock.cli.settings"

local watch = { summary = "Write a line of JSON for each change of some locks." }

function watch.define(parser)
    parser:argument "paths":argname "PATH":args "+":description "The path of a lock; it need not exist."
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

function watch.run(arguments, context)
    return looking.with_session(arguments, context, function(session)
        local output, client, written = context.output, session.client, true
        client:on("state", function(state, problem)
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
            written = write(output, change) and written
            if not written then
                return codes.FAILED
            end
        end
    end)
end

return watch
