--- once: a job that is done once in each period, or once for each name, in the whole fleet.
--
-- For zklock.client and the command `zklock once`. A *marker*, a persistent node beside the lock's directory, has the *record* of
-- the last job that has ended: when it began, by whom, and whether it has failed. The record is read, and written, only under the
-- lock, by the lock's own transaction. So a program that has lost the lock can write none.
--
-- **What is promised.** The job is done at least once: it is done again if its program ends, or loses the lock, before the record
-- is written. Two of them never run at once, as far as the lock can promise that.
--
-- **Time.** All times are the servers': a write of the marker, which changes nothing in it, has the present time in its stat.
-- Periods begin at whole multiples since 1970: with 86400 seconds they are the days in UTC. A job is done if it began in the
-- present period, or in a later one: after an election the new leader's clock may be behind.

local new_record = require("zklock.lock.acquire").new_record
local options = require "zklock.options"

local ipairs, select, tonumber, tostring, type = ipairs, select, tonumber, tostring, type
local byte, char, format = string.byte, string.char, string.format
local floor, huge = math.floor, math.huge
local concat = table.concat

local once = {}

--- What follows the lock's path in the marker's. No path of zklock.path has it.
local SUFFIX = "%once"

local SCHEMA = {
    every = { options.duration },
    slot = { options.identity },
    timeout = { options.timeout, huge },
    retry_failed = { options.boolean, false }
}

--- Checks the settings and the function of a client's once.
---@return table? # the settings; or nil and what is wrong
function once.read(settings, fn)
    local read, wrong = options.read(settings, SCHEMA)
    if not read then
        return nil, wrong
    elseif (read.every == nil) == (read.slot == nil) then
        return nil, "give one of the options 'every' and 'slot'"
    elseif type(fn) ~= "function" then
        return nil, format("the third argument must be a function (got %s)", options.describe(fn))
    end
    return read
end

-- The record ----------------------------------------------------------------------------------------------------------

--- Returns a record as the marker's data: a line for each field.
local function write_record(record)
    local lines = {}
    for _, name in ipairs { "begun", "by", "outcome", "slot" } do
        local value = record[name]
        if value then
            lines[#lines + 1] = format("%s %s\n", name, (tostring(value):gsub("[%c%%]", function(character)
                return format("%%%02X", byte(character))
            end)))
        end
    end
    return concat(lines)
end

--- Returns the record in a marker's data; nil: no job has ended yet.
local function read_record(data)
    local record = {}
    for name, value in data:gmatch "(%l+) ([^\n]*)\n" do
        record[name] = value:gsub("%%(%x%x)", function(digits)
            return char(tonumber(digits, 16))
        end)
    end
    record.begun = tonumber(record.begun)
    return record.begun and record.outcome and record or nil
end

--- Whether a record says that nothing is to be done.
local function is_done(record, settings, time)
    if not record or record.outcome == "failed" and settings.retry_failed then
        return false
    elseif settings.slot then
        return record.slot == settings.slot
    end
    return record.begun >= floor(time / settings.every) * settings.every
end

-- The marker ----------------------------------------------------------------------------------------------------------

--- Writes the marker if the lock is still held. A write whose outcome is unknown is repeated as long as the lock is held: only
-- its holder writes.
---@return table? # the marker's stat
---@return string? message
---@return zklock.Code? code "lost", or of Transaction:commit
local function write(hold, marker, data, seconds)
    while true do
        local results, message, code, part = hold:transaction():set(marker, data):commit(seconds)
        if results then
            return results[1]
        elseif code == "no_node" and part == 1 then
            results, message, code = hold:transaction():create(marker, data):commit(seconds)
        end
        if not results and code ~= "disconnected" and code ~= "timeout" and code ~= "node_exists" then
            return nil, message, code
        end
    end
end

--- Looks, under the lock, whether the job is to be done.
---@param client zklock.Client
---@param hold zklock.Hold|zklock.MultiHold
---@param path string of the lock
---@param settings table every or slot, retry_failed
---@return table|boolean|nil # what finish takes; false: it is done; nil: an error
---@return table|string|nil # the record; message
---@return zklock.Code? code
function once.begin(client, hold, path, settings)
    local marker, seconds = path .. SUFFIX, client:cleanup_timeout()
    local data, message, code = client:get(marker, { timeout = seconds })
    if not data and code ~= "no_node" then
        return nil, message, code
    end
    data = data or ""
    local stat
    stat, message, code = write(hold, marker, data, seconds)
    if not stat then
        return nil, message, code
    end
    local record = read_record(data)
    if is_done(record, settings, stat.mtime) then
        record.age = stat.mtime - record.begun
        return false, record
    end
    return {
        hold = hold, marker = marker, seconds = seconds,
        record = { begun = stat.mtime, by = client:desk().identity, slot = settings.slot }
    }
end

--- Records that the job has ended.
---@param begun table as of begin
---@param outcome string "done" or "failed"
---@return true?
---@return string? message
---@return zklock.Code? code
function once.finish(begun, outcome)
    begun.record.outcome = outcome
    local stat, message, code = write(begun.hold, begun.marker, write_record(begun.record), begun.seconds)
    if not stat then
        return nil, "the job has ended, and could not be recorded, so it will be done again: " .. message, code
    end
    return true
end

-- Client:once ---------------------------------------------------------------------------------------------------------

--- Returns the results of the public function: with_lock's are `ok, …`. What is recorded stands, also if the lock is lost then.
local function conclude(run, ok, ...)
    if run.found then
        return false, run.found
    elseif not ok and run.recorded then
        return true, select(3, ...)
    elseif not ok then
        return nil, ...
    elseif not run.recorded then
        return nil, run.message, run.code, ...
    end
    return true, ...
end

--- Runs the public Client:once. The settings have been checked.
function once.run(client, path, settings, fn)
    local run, record = { found = false, recorded = nil, message = nil, code = nil }, new_record(false, true)
    local begun
    record.extra = {
        begin = function(hold)
            local message, code
            begun, message, code = once.begin(client, hold, path, settings)
            run.found = begun == false and message
            return begun, message, code
        end,
        finish = function(ok, ...)
            local failed = not ok or not (...) and select("#", ...) > 1
            run.recorded, run.message, run.code = once.finish(begun, failed and "failed" or "done")
        end
    }
    return conclude(run, client:mutex(path):with_record(record, fn, settings.timeout))
end

return once
