--- connector: tries to connect, and says with which code that failed, or "connected".
--
-- Arguments: servers, connect timeout in seconds.

local zklock = require "zklock"

local client, _, code = zklock.connect(arg[1], { connect_timeout = tonumber(arg[2]) })
print(client and "connected" or code)
