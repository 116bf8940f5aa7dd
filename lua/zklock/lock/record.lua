--- lock.record: notes of an acquisition, for the code that ends the acquisition after an error.
--
-- For zklock.lock.attempt, .acquire and .with_lock, and for multis. A *record* names the lock object, the hold, and how many
-- levels the hold has by this acquisition. All of it is noted before anything is asked for, and does not change afterwards. So
-- the lock object shows the result of the acquisition, at whatever instruction the error was raised.

local Hold = require "zklock.hold"

local present = Hold.present

local Record = {}

--- Makes a record in which nothing is noted yet.
function Record.new()
    return { lock = false, hold = false, level = 0 }
end

--- Notes an acquisition.
function Record.note(record, lock, hold, level)
    record.lock, record.level = lock, level
    record.hold = hold -- last, in a separate statement: this makes the record valid
end

--- Makes a record of the hold that an object has; an empty record if it has none.
function Record.of_hold(lock)
    local record, hold = Record.new(), present(lock)
    if hold then
        Record.note(record, lock, hold, hold.levels)
    end
    return record
end

--- Releases or gives up the acquisition of a record. Does nothing the second time.
function Record.take_back(record)
    local lock, hold = record.lock, record.hold
    if not hold then
        return
    elseif lock._client._attempts[lock] ~= hold and present(lock) == hold then
        if hold.levels >= record.level then
            lock:_begin_release()
        end
    elseif record.level == 1 then
        lock:_abandon(hold)
    end
end

return Record
