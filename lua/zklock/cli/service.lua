--- cli.service: tells systemd, or what else reads NOTIFY_SOCKET, how far `zklock run` is: sd_notify(3).

local process = require "zklock.process"

local huge = math.huge

local service = {}

--- The variables by which a service finds its manager. The command does not get them: it is not the service's main process.
service.VARIABLES = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID" }

--- Returns what tells the manager; nil: there is none.
---@param clean fun(text: string): string
---@return table? # `say(status, more)`: sends STATUS and other lines. `beat()`: keeps the manager's watchdog from acting, and
--   returns in how many seconds that is due again
function service.find(clean)
    local address = os.getenv "NOTIFY_SOCKET"
    if not address then
        return nil
    end
    local every, due = (tonumber(os.getenv "WATCHDOG_USEC") or huge) / 1e6 / 2, 0
    return {
        say = function(status, more)
            process.notify(address, "STATUS=" .. clean(status) .. "\n" .. (more or ""))
        end,
        beat = function()
            local now = process.now()
            if every < huge and now >= due then
                process.notify(address, "WATCHDOG=1")
                due = now + every
            end
            return every < huge and due - now or huge
        end
    }
end

return service
