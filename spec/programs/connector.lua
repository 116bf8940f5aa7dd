--- connector: tries to connect, and prints the code of the failure, or "connected".
--
-- Arguments: servers, connect timeout in seconds.

local zklock = require "zklock"

local client, _, code = zklock.connect(arg[1], { connect_timeout = tonumber(arg[2]) })
print(client and "connected" or code)
