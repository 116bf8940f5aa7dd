--- multi.release: how a multi releases its members: it begins with all of them, then waits for the server.
--
-- For zklock.multi.

local core = require "zklock.core"
local Hold = require "zklock.hold"
local Record = require "zklock.lock.record"

local error, ipairs = error, ipairs
local concat = table.concat
local now = core.now

local releases = {}

--- Notes in `records` everything that release is going to give back, before the first member is given back.
local function note_members(self, records)
    local noted = {}
    for index, member in ipairs(self._members) do
        local lock = member:_meant()
        noted[index] = lock and Record.of_hold(lock)
    end
    records.noted = noted
end

--- Releases the members: begins with all of them, then waits for all. A failure does not stop the other releases. Runs
-- protected.
-- @tparam table records the records are noted in its field `noted`
-- @tparam boolean|nil wait_for_server nil: by the option of each member
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
-- @treturn true|nil
-- @treturn string|nil message: all failures
-- @treturn string|nil code of the first failure
local function release_noted(self, records, wait_for_server, timeout)
    note_members(self, records)
    local problems, first_code, holds = {}, nil, {}
    local function note(message, code)
        problems[#problems + 1] = message
        first_code = first_code or code
    end
    local seconds, count, members = self._client:_release_timeout(timeout), #self._members, {}
    local deadline = now() + seconds
    for index = count, 1, -1 do
        local member = self._members[index]:_meant()
        local hold, message, code
        if member then
            members[index] = member
            hold, message, code = member:_begin_release()
        else
            hold, message, code = self._members[index]:_not_yours()
        end
        if not hold then
            note(message, code)
        elseif hold ~= true then
            holds[index] = hold
        end
    end
    for index = 1, count do
        local member, hold = members[index], holds[index]
        local waits = wait_for_server
        if waits == nil and hold then
            waits = member._settings.wait_release
        end
        if hold and waits then
            local released, message, code = member:_await_release(hold, deadline, seconds)
            if not released then
                note(message, code)
            end
        end
    end
    if first_code then
        return nil, concat(problems, "; "), first_code
    end
    return true
end

--- Like release_noted. After an error either all members are released or none.
function releases.release(self, wait_for_server, timeout)
    local records = { noted = {} }
    local ok, released, message, code = self._client._protect(release_noted, self, records, wait_for_server, timeout)
    if ok then
        return released, message, code
    end
    for index = #self._members, 1, -1 do
        local record = records.noted[index]
        if record then
            Record.take_back(record)
        end
    end
    error(released, 0)
end

--- Waits until the server has acknowledged the ends of holds that have begun, for each member with the option wait_release.
-- @tparam number|nil timeout how many seconds to wait for the server, if less than the session timeout
-- @tparam table holds the hold whose end has begun, by index; false or true where there is nothing to wait for
-- @tparam table members the lock objects of these holds
-- @treturn string|nil the message of a member whose lock turns out to be lost
function releases.await(self, timeout, holds, members)
    local seconds = self._client:_release_timeout(timeout)
    local deadline = now() + seconds
    local lost
    for index = 1, #self._members do
        local member, hold = members[index], holds[index]
        if hold and hold ~= true and member._settings.wait_release then
            local released, message, code = member:_await_release(hold, deadline, seconds)
            lost = lost or not released and code == "lost" and message or nil
        end
    end
    return lost
end

--- Begins to release what a with_lock has acquired and still holds.
-- @treturn table for each member the hold whose end has begun, true, or false, as await_releases takes it
-- @treturn table for each member the lock object of that hold, or false
function releases.begin_end(run)
    local holds, members = {}, {}
    for index = #run.records, 1, -1 do
        local record = run.records[index]
        local hold, level, member = record.hold, record.level, nil
        if hold then
            Hold.disclose(hold, level)
            member = record.lock:_ends(hold, level)
        end
        members[index], holds[index] = member or false, member and member:_begin_release() or false
    end
    return holds, members
end

return releases
