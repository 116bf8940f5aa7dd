--- support.patience: for code of the documentation and of examples/, which specs run as it is printed, on a machine that may be
-- busy.
--
-- Such code connects with zklock's defaults: it gives up if it has no connection within 5 s, and loses its locks if it stands
-- still for 5 s, half of a session. Here zklock has larger defaults. Settings that the code gives itself are kept, but a session
-- lasts for 20 s at least: code that shows the end of a session has a short one, to keep its reader from waiting.

local zklock = require "zklock"

local SHORTEST_SESSION = 20

local patience = {}

--- zklock with larger defaults.
patience.zklock = setmetatable({
    connect = function(servers, settings, ...)
        local patient = { connect_timeout = 60, session_timeout = 30 }
        for name, value in pairs(settings or {}) do
            patient[name] = value
        end
        patient.session_timeout = math.max(SHORTEST_SESSION, patient.session_timeout)
        return zklock.connect(servers, patient, ...)
    end
}, { __index = zklock })

--- A `require` for the environment of such code: it knows this zklock.
function patience.require(name)
    return name == "zklock" and patience.zklock or require(name)
end

return patience
