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

--- What keeps a log of some locks.
local Keeper = {}
Keeper.__index = Keeper

--- Continues the log.
local function new_keeper(log, paths, context, name)
    local self = setmetatable({ log = log, clock = History.new_clock(), histories = {} }, Keeper)
    for _, path in ipairs(paths) do
        self.histories[path] = History.new(self.clock(), false, function(event, lane)
            log:note(event, path, lane)
        end)
    end
    local torn = log:restore(function(record, last)
        if self.histories[record.path] then
            self.histories[record.path]:restore(record, last)
        end
    end)
    if torn and torn > 0 then
        context:warn("%d lines of %s are torn, and were skipped", torn, name)
    end
    self:record(true)
    return self
end

function Keeper:record(is_recording)
    self.log:record(is_recording, self.clock())
end

--- Notes a gap: in between, nothing was recorded.
function Keeper:skip()
    self:record(false)
    self:record(true)
end

--- Takes in what watchers have read, when all changes were told.
function Keeper:take_in(watchers)
    for _, watcher in ipairs(watchers) do
        local list = {}
        for _, contender in pairs(watcher.contenders) do
            list[#list + 1] = contender
        end
        self.histories[watcher.path]:add({ contenders = list }, self.clock(), false)
    end
end

--- Returns the next change, as inspect.next_change.
local function next_change(watchers, keeper)
    local change, message, code = inspect.next_change(watchers, keeper and 0 or nil)
    if keeper and code == "timeout" then
        keeper:take_in(watchers)
        change, message, code = inspect.next_change(watchers)
    end
    return change, message, code
end

function watch.run(arguments, context)
    local log = looking.open_log(arguments, context)
    local session = context:connect(arguments)
    local output, client, written = context.output, session.client, true
    local keeper = log and new_keeper(log, arguments.paths, context, arguments.log)
    client:on("state", function(state, problem)
        if keeper then
            keeper:record(state == "connected")
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
        local change = context.check(next_change(watchers, keeper))
        if keeper and change.event == "gap" then
            keeper:skip()
        end
        written = write(output, change) and written
        if not written then
            return codes.FAILED
        end
    end
end

return watch
