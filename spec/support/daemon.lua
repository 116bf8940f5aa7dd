--- support.daemon: a server in the background, for specs. It ends with the process that started it, however that process ends.
--
--     local self = daemon.start { "redis-server", "--port", port }
--     ... self.pid, self.directory, self:output() ...
--     self:stop()

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"

local daemon = {}
local Daemon = {}
Daemon.__index = Daemon

--- Seconds for the server to end after the signal. Then it is killed.
local END_TIMEOUT = 5

-- The watcher: it ends the server and removes its files if the process that started it has ended. It has a session of its own,
-- so that it also does so if the process group of the specs is killed.
local WATCHER = [[
    owner=$1 signal=$2 directory=$3
    shift 3
    setsid "$@" >"$directory/output" 2>&1 </dev/null &
    server=$!
    echo $server
    exec >/dev/null 2>&1
    while kill -0 $owner && kill -0 $server; do sleep 0.5; done
    kill -0 $owner && exit
    kill -$signal -$server
    wait $server
    rm -rf "$directory"]]

--- Starts a command, given as words. It and its children are a process group. Its errors go to its output. `options`, all optional:
--     directory  for its files; it is removed at the end (a new one)
--     signal     ends it at once ("KILL")
function daemon.start(words, options)
    options = options or {}
    local self = setmetatable({}, Daemon)
    self.directory, self.signal = options.directory or files.make_directory(), options.signal or "KILL"
    local watcher = cluster.command_line { "setsid", "sh", "-c", WATCHER, "watcher", cluster.process_id(), self.signal,
        self.directory }
    -- Without the sanitizer's library that this process may run with.
    local pipe = assert(io.popen(("LD_PRELOAD= %s %s &"):format(watcher, cluster.command_line(words))))
    self.pid = assert(tonumber(pipe:read("*l")))
    pipe:close()
    return self
end

--- Returns whether the server runs. A process that has ended and is not yet reaped does not run.
function Daemon:is_running()
    local state = files.read("/proc/" .. self.pid .. "/stat"):match("%) (%a)")
    return state ~= nil and state ~= "Z"
end

--- Returns what the server has printed.
function Daemon:output()
    return files.read(self.directory .. "/output")
end

--- Sends the server and its children a signal by name.
function Daemon:signal_all(name)
    cluster.run { "kill", "-" .. name, "-" .. self.pid }
end

--- Ends the server and returns when it has ended. Its files stay.
function Daemon:finish()
    self:signal_all(self.signal)
    local function has_ended()
        return not self:is_running()
    end
    if not pcall(eventually, has_ended, END_TIMEOUT) then
        self:signal_all("KILL")
        eventually(has_ended, nil, "the end of a killed server")
    end
end

--- Ends the server and removes its files, unless $ZKLOCK_KEEP is set. A second call does nothing.
function Daemon:stop()
    if not self.stopped then
        self.stopped = true
        self:finish()
        if not os.getenv("ZKLOCK_KEEP") then
            cluster.run { "rm", "-rf", self.directory }
        end
    end
end

return daemon
