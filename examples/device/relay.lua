--- A relay before a device that serves only one connection at a time, such as a console or a measuring instrument. Any number of
-- machines may run this relay: a client that is let through has the device alone in the whole fleet. For nginx's stream module; see
-- nginx.conf.
--
-- The lock begins with the session and ends with it, however the session ends. If it is lost, the relay ends the session: both
-- directions check it before they pass on what they have read, and at least once a second.

local zklock = require "zklock"

local ngx = ngx

local relay = {}

--- Milliseconds after which a read ends to check the lock.
local CHECK = 1000

--- zklock.shared's arguments, the path of the lock, and how many seconds a session waits for it.
local settings

function relay.open(given)
    settings = given
    assert(zklock.shared(settings.zookeeper))
end

--- Passes on what one side sends, until it sends no more or the lock is lost.
local function pass(from, to, hold)
    while hold:held() do
        local bytes, problem = from:receiveany(4096)
        if not hold:held() or not bytes and problem ~= "timeout" or bytes and not to:send(bytes) then
            return
        end
    end
end

--- Serves one session.
function relay.serve()
    local hold, message = zklock.shared(settings.zookeeper):mutex(settings.path):acquire(settings.patience)
    local client = assert(ngx.req.socket())
    if not hold then
        client:send("the device is busy: " .. message .. "\n")
        return
    end
    local device = ngx.socket.tcp()
    assert(device:connect("127.0.0.1", settings.device_port))
    client:settimeout(CHECK)
    device:settimeout(CHECK)
    local there, back = ngx.thread.spawn(pass, client, device, hold), ngx.thread.spawn(pass, device, client, hold)
    ngx.thread.wait(there, back) -- the session ends with one of them
    ngx.exit(ngx.OK)
end

return relay
