--- multi.release: how the holds of a multi are released: it begins with all of them, then waits for the server.
--
-- For zklock.multi and zklock.multi.hold. `holds` has the members' holds by index, false where a member is not held.

local acquiring = require "zklock.lock.acquire"
local core = require "zklock.core"
local with_lock = require "zklock.lock.with_lock"

local error = error
local concat = table.concat
local now = core.now

local releases = {}

--- Waits until the server has acknowledged the ends of holds that have begun.
---@param multi zklock.Multi
---@param ended table the hold whose end has begun, by index; false, nil or true where there is nothing to wait for
---@param wait_for_server? boolean nil: by the option of each member
---@param timeout? number how many seconds to wait for the server, if less than the session timeout
---@param note function is called with message and code of each failure
local function await(multi, ended, wait_for_server, timeout, note)
    local seconds = multi._client:release_timeout(timeout)
    local deadline = now() + seconds
    for index = 1, #multi._members do
        local hold, waits = ended[index], wait_for_server
        if waits == nil then
            waits = multi._members[index]:settings().wait_release
        end
        if hold and hold ~= true and waits then
            local released, message, code = hold:await_release(deadline, seconds)
            if not released then
                note(message, code)
            end
        end
    end
end

--- Releases the members: begins with all of them, then waits for all. A failure does not stop the other releases. Runs protected.
---@param multi zklock.Multi
---@param holds table
---@param records table in which is noted everything that is given back, before the first member is
---@param wait_for_server? boolean nil: by the option of each member
---@param timeout? number how many seconds to wait for the server, if less than the session timeout
---@return true?
---@return string? message all failures
---@return zklock.Code? code of the first failure
local function release_noted(multi, holds, records, wait_for_server, timeout)
    local members = multi._members
    for index = 1, #members do
        records[index] = holds[index] and acquiring.record_of(holds[index])
    end
    local problems, first_code, ended = {}, nil, {}
    local function note(message, code)
        problems[#problems + 1] = message
        first_code = first_code or code
    end
    for index = #members, 1, -1 do
        local message, code
        if holds[index] then
            ended[index], message, code = holds[index]:begin_release()
        else
            ended[index], message, code = members[index]:not_held()
        end
        if not ended[index] then
            note(message, code)
        end
    end
    await(multi, ended, wait_for_server, timeout, note)
    if first_code then
        return nil, concat(problems, "; "), first_code
    end
    return true
end

--- Like release_noted. After an error either all members are released or none.
function releases.release(multi, holds, wait_for_server, timeout)
    local records = {}
    local ok, released, message, code =
        multi._client:desk().protect(release_noted, multi, holds, records, wait_for_server, timeout)
    if ok then
        return released, message, code
    end
    if #records == #multi._members then
        for index = #records, 1, -1 do
            if records[index] then
                acquiring.take_back(records[index])
            end
        end
    end
    error(released, 0)
end

--- Does the same, for each member with the option wait_release. Returns the message of one whose lock turns out to be lost; or nil.
function releases.await(multi, timeout, ended)
    local lost
    await(multi, ended, nil, timeout, function(message, code)
        lost = lost or code == "lost" and message or nil
    end)
    return lost
end

--- Begins to release what a with_lock has acquired and still holds.
---@return table # for each member the hold whose end has begun, true, or false, as releases.await takes it
function releases.begin_end(run)
    local ended = {}
    for index = #run.records, 1, -1 do
        local record = run.records[index]
        local hold = record.hold
        if hold then
            hold:disclose(record.level)
            hold = with_lock.ends(hold, record.level)
        end
        ended[index] = hold and hold:begin_release() or false
    end
    return ended
end

return releases
