-- Waits for a condition without a guess how long it takes: polls until the condition holds, or fails when the time is up.
--
--     local eventually = require("spec.support.eventually")
--     eventually(function() return #client:children("/locks") == 2 end)
--     local leader = eventually(function() return cluster:leader() end, 20, "a leader")
--
-- Returns what the condition returned, once that is neither nil nor false. After `timeout` seconds (60) it raises an error that
-- names `what` and the second result of the last call. So `return nil, "why not yet"` makes the error helpful.

local socket = require("socket")

--- Seconds between two polls. A poll costs nothing in virtual time.
local INTERVAL = require("spec.support.is_virtual") and 0.002 or 0.02

return function(condition, timeout, what)
    local deadline = socket.gettime() + (timeout or 60)
    while true do
        local result, why = condition()
        if result then
            return result, why
        end
        if socket.gettime() >= deadline then
            error(("still waiting after %g s for %s%s"):format(timeout or 60, what or "a condition",
                why and ": " .. tostring(why) or ""), 2)
        end
        socket.sleep(INTERVAL)
    end
end
