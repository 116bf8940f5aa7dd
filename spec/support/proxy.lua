-- Network faults for specs: starts tools/faultproxy.lua and sends it commands, from any Lua with LuaSocket. The proxy itself runs
-- with lua5.4 (or $ZKLOCK_PROXY_LUA), which needs luv.
--
--     local link = proxy.start(servers.servers)
--     ... connect to link.address ...
--     link:arm("create", "after")      -- the next create is executed, but its reply is lost
--     link:wait_fired()
--     link:stop()
--
-- `lua5.4 tools/faultproxy.lua --help` describes the commands. Methods raise an error if the proxy refuses a command, since that is
-- a mistake in the spec.

local socket = require("socket")
local cluster = require("spec.support.cluster")

local proxy = {}

local Proxy = {}
Proxy.__index = Proxy

-- The time that the proxy may take to answer a command other than wait_fired, in seconds.
local PATIENCE = 10

-- Starts a proxy in front of "host:port", or of several, separated by commas. options.raw: for a protocol other than the one of
-- ZooKeeper's clients.
function proxy.start(target, options)
    local words = {cluster.root .. "/tools/background", os.getenv("ZKLOCK_PROXY_LUA") or "lua5.4",
                   cluster.root .. "/tools/faultproxy.lua", "--target", target, "--owner", cluster.process_id()}
    if options and options.raw then
        words[#words + 1] = "--raw"
    end
    -- It runs in the background: a close of the pipe does not wait for it, and Ctrl-C does not end it before its owner ends.
    local pipe = assert(io.popen("LD_PRELOAD= " .. cluster.command_line(words) .. " 2>&1"))
    local first, second = pipe:read("*l"), pipe:read("*l")
    pipe:close()
    local address = first and first:match("^PROXY=(%S+)$")
    local host, port = (second or ""):match("^CONTROL=(.*):(%d+)$")
    if not address or not host then
        error("could not start the proxy: " .. tostring(first) .. " " .. tostring(second), 2)
    end
    local control = assert(socket.connect(host, tonumber(port)))
    control:setoption("tcp-nodelay", true)
    return setmetatable({address = address, control = control}, Proxy)
end

-- Replaces the contents of a file and returns the old contents.
local function rewrite(name, change)
    local file = assert(io.open(name))
    local contents = file:read("*a")
    file:close()
    file = assert(io.open(name, "w"))
    assert(file:write((change(contents))))
    assert(file:close())
    return contents
end

-- Puts a proxy into the link on which one server follows another, and restarts the follower. If the proxy stalls or cuts the link,
-- the follower is cut off from that leader, but not from its clients. The proxy's stop() restores the direct link with another
-- restart. servers: from cluster.start{servers = 3}.
function proxy.between(servers, follower, leader)
    local name = ("%s/%d/zoo.cfg"):format(servers.directory, follower)
    local pattern = ("(server%%.%d=)([^:]+:%%d+)"):format(leader)
    local link
    local before = rewrite(name, function(configuration)
        local _, target = configuration:match(pattern)
        link = proxy.start(target, {raw = true})
        return configuration:gsub(pattern, "%1" .. link.address)
    end)
    function link.undo()
        if not servers.stopped then
            rewrite(name, function() return before end)
            servers:restart(follower)
        end
    end
    servers:restart(follower)
    return link
end

-- Sends a command and returns the words after "ok"; nil and the message after "error".
local function ask(self, command, patience)
    self.control:settimeout(patience or PATIENCE)
    assert(self.control:send(command .. "\n"))
    local answer = assert(self.control:receive("*l"))
    local words = answer:match("^ok ?(.*)$")
    if words then
        return words
    end
    return nil, answer:match("^error (.*)$") or answer
end

local function tell(self, ...)
    local words, message = ask(self, table.concat({...}, " "))
    return words or error(message, 3)
end

-- Returns "a=1 b=x" as a table. Words that look like numbers become numbers unless `texts` is set.
local function values_of(words, texts)
    local values = {}
    for name, value in words:gmatch("(%S+)=(%S+)") do
        values[name] = not texts and tonumber(value) or value
    end
    return values
end

-- Ends all connections; how: "rst" (the default) or "fin".
function Proxy:cut(how)
    tell(self, "cut", how or "rst")
end

-- Refuses connection attempts from now on.
function Proxy:refuse()
    tell(self, "refuse")
end

function Proxy:accept()
    tell(self, "accept")
end

-- Holds back bytes without closing anything; direction: "up" (to the server), "down" or "both" (the default). With "ends" bytes
-- pass, and only the end of a connection is held back.
function Proxy:stall(direction)
    tell(self, "stall", direction or "both")
end

-- Ends stall, and releases what arm(…, "stall-reply") or arm(…, "stall-request") held back.
function Proxy:resume()
    tell(self, "resume")
end

-- Delays every frame by so many milliseconds; direction as for stall.
function Proxy:delay(ms, direction)
    tell(self, "delay", ms, direction or "both")
end

-- Closes one direction of all connections. side: "client" or "server", which then reads end-of-file.
function Proxy:half_close(side)
    tell(self, "half-close", side)
end

-- Sends new connections to this target, or these.
function Proxy:target(target)
    tell(self, "target", target)
end

-- Arms a trap for the next request of a kind, after `skip` others (0).
--     kind  create, delete, get, children, multi, sync, set, exists, close, check, any and more
--     when  "before" it reaches the server, "after" the server's reply came, "stall-reply", or "stall-request": the reply or
--           request is held back, with everything after it
--     how   "rst" (the default) or "fin"
function Proxy:arm(kind, when, skip, how)
    tell(self, "arm", kind, when, "skip", skip or 0, how)
end

function Proxy:disarm()
    tell(self, "disarm")
end

-- Answers successful requests of a kind with an error from now on (-102: no permission), so many times or always. 0 or nothing ends
-- this.
function Proxy:deny(kind, code, times)
    tell(self, "deny", kind, code or 0, times)
end

-- From now on, answers the creation of a container with this error, and does not execute it; or with -4, closes the connection.
function Proxy:lack_containers(answer)
    tell(self, "lack-containers", answer)
end

-- Puts this zxid, a string of decimal digits, into watch events from now on, as servers since 3.9 do.
function Proxy:stamp(zxid)
    tell(self, "stamp", zxid)
end

-- Waits until the trap has sprung, for `timeout` seconds at most (10). Returns what it caught, "create path=/a"; raises an
-- error if it caught nothing.
function Proxy:wait_fired(timeout)
    timeout = timeout or 10
    local caught, message = ask(self, ("wait %d"):format(timeout * 1000), timeout + PATIENCE)
    return caught or error(message, 2)
end

-- Returns true if the trap has sprung.
function Proxy:fired()
    return (ask(self, "wait 0")) ~= nil
end

-- Returns the traffic since the start or the last reset: {create =, delete =, getChildren =, … replies =, notifications =,
-- bytes_up =, bytes_down =, connections =}.
function Proxy:counts()
    return values_of(tell(self, "counts"))
end

function Proxy:reset_counts()
    tell(self, "reset-counts")
end

-- Returns the last session that a server confirmed through this proxy: {id = 16 hex digits, passwd = hex, timeout = ms}; nil if
-- there is none. With zk.close_session that session can be ended from outside.
function Proxy:session()
    local words = ask(self, "session")
    if not words then
        return nil
    end
    local values = values_of(words, true)
    values.timeout = tonumber(values.timeout)
    return values
end

-- {connections =, listening = "yes"|"no", stalled = "no"|"up"|"down"|"both"|"ends", trap = "none"|"armed"|"pending"|"sprung"}
function Proxy:status()
    return values_of(tell(self, "status"))
end

-- Ends the proxy with all its connections. A second call does nothing.
function Proxy:stop()
    if self.control then
        ask(self, "quit")
        self.control:close()
        self.control = nil
        if self.undo then
            self.undo()
        end
    end
end

return proxy
