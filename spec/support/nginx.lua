--- support.nginx: nginx with Lua, for specs and demonstrations: in a temporary directory, on free ports. It ends with the process
-- that started it.
--
--     local server = nginx.start { http = [[ server { listen @PORT@; location / { … } } ]] }
--     local status, body = server:get("/")
--     server:reload()      server:quit()      server:stop()
--
-- Needs LuaSocket, and the nginx that the environment variable NGINX names (else the `nginx` of PATH), with Lua built in, as in
-- OpenResty, or with Debian's modules.

local socket = require "socket"
local cluster = require "spec.support.cluster"
local daemon = require "spec.support.daemon"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local ports = require "spec.support.ports"
local program = require "spec.support.nginx_program"

local nginx = {}
local Server = {}
Server.__index = Server

local PATIENCE = 60

--- The build of zklock's module that nginx loads, and the sanitizer library to preload if that build is under a sanitizer.
local VARIANT = os.getenv("ZKLOCK_NGINX_VARIANT") or "luajit"
local SANITIZER = os.getenv("ZKLOCK_NGINX_SANITIZER")

--- Lua that nginx runs first; tools/coverage.sh counts lines with it.
local INIT = os.getenv("ZKLOCK_NGINX_INIT")

--- The first timer of each worker. With it ngx_lua makes a connection of its own, by which it learns that the worker exits. If the
-- worker exits already, ngx_lua never closes that connection, and nginx complains of it. Only that connection has the number -2.
local FIRST_TIMER = "assert(ngx.timer.at(0, function() end));"

--- Lines for http {} that a complete nginx.conf needs to run here: where it writes its files, and where it finds zklock.
nginx.PLACES = [[
    client_body_temp_path @DIRECTORY@/body;
    proxy_temp_path @DIRECTORY@/proxy;
    fastcgi_temp_path @DIRECTORY@/fastcgi;
    uwsgi_temp_path @DIRECTORY@/uwsgi;
    scgi_temp_path @DIRECTORY@/scgi;
    lua_package_path "@ROOT@/lua/?.lua;@ROOT@/lua/?/init.lua;@ROOT@/?.lua;;";
    lua_package_cpath "@BUILD@/?.so;;";]]

local HEAD = [[
daemon off;
worker_processes @WORKERS@;
pid @DIRECTORY@/nginx.pid;
error_log @DIRECTORY@/error.log @LEVEL@;
worker_rlimit_nofile 20000;
events { worker_connections 4096; }
@MAIN@
http {
    access_log off;
]] .. nginx.PLACES .. [[

@HTTP@
}
]]

local function absolute(path)
    return path:sub(1, 1) == "/" and path or (cluster.run({ "pwd" })) .. "/" .. path
end

--- Returns the configuration with its @WORDS@ replaced.
local function fill(text, values)
    return (text:gsub("@([%u%d_]+)@", function(name)
        return tostring(assert(values[name], "no value for @" .. name .. "@"))
    end))
end

--- Returns the configuration with Lua at the beginning of a block of http {}, which is made if there is none. A configuration
-- without Lua is returned as it is.
local function with_lua(text, block, lua)
    if not text:find("_by_lua_block {", 1, true) then
        return text
    end
    local changed, count = text:gsub(block .. " {", function(head)
        return head .. " " .. lua .. " "
    end)
    return count > 0 and changed or (text:gsub("\nhttp {", function(head)
        return ("%s %s { %s }"):format(head, block, lua)
    end))
end

--- Starts nginx and waits until it answers. `options`:
--     http      what goes into http {}: @PORT@ is a free port, others come from `values`
--     template  a file with a whole configuration, which replaces http, main, workers and level
--     main      what goes before http {}
--     values    { NAME = value } for @NAME@; @BUILD@ is the directory of the module
--     workers   worker_processes (1)
--     level     of the error log ("notice")
--     idle      true: the workers make no timer before a request does
function nginx.start(options)
    local directory = files.make_directory()
    local values = {
        WORKERS = options.workers or 1, DIRECTORY = directory, LEVEL = options.level or "notice",
        ROOT = absolute(cluster.root), PORT = ports.free()
    }
    values.BUILD = ("%s/build/%s"):format(values.ROOT, VARIANT)
    for name, value in pairs(options.values or {}) do
        values[name] = value
    end
    local head = program.load_modules()
    if cluster.run({ "id", "-u" }) == "0" then
        head = head .. "user root;\n"
    end
    values.MODULES = head
    local text = options.template and files.read(options.template)
    if not text then
        values.HTTP, values.MAIN = fill(options.http, values), fill(options.main or "", values)
        text = "@MODULES@" .. HEAD
    end
    local self = setmetatable({ directory = directory, port = values.PORT, config = directory .. "/nginx.conf" }, Server)
    text = fill(text, values)
    if not (options.template or options.idle) then
        text = with_lua(text, "init_worker_by_lua_block", FIRST_TIMER)
    end
    files.write(self.config, INIT and with_lua(text, "init_by_lua_block", INIT) or text)
    self:_launch()
    return self
end

--- Runs nginx and waits until it accepts connections.
function Server:_launch()
    local environment = SANITIZER and {
        "LD_PRELOAD=" .. SANITIZER,
        ("ASAN_OPTIONS=%s:log_path=%s/sanitizer"):format(os.getenv("ASAN_OPTIONS") or "", self.directory)
    }
    local command = program.command(self.directory, environment)
    self.daemon = daemon.start(command, { directory = self.directory, signal = "TERM" })
    self.pid = self.daemon.pid
    eventually(function()
        assert(self:is_running(), "nginx does not start: " .. self.daemon:output() .. self:log())
        local connection = socket.connect("127.0.0.1", self.port)
        if connection then
            connection:close()
        end
        return connection
    end, PATIENCE, "nginx")
end

--- Returns whether nginx runs.
function Server:is_running()
    return self.daemon:is_running()
end

--- Returns the error log so far.
function Server:log()
    return files.read(self.directory .. "/error.log")
end

--- Returns the reports of a sanitizer about its processes: "" if there are none.
function Server:reports()
    return SANITIZER and (cluster.run({ "sh", "-c", "cat " .. self.directory .. "/sanitizer.* 2>/dev/null" })) or ""
end

--- Returns the lines of the error log that have the level warn or worse.
function Server:complaints()
    local found = {}
    for line in self:log():gmatch("[^\n]+") do
        if line:find("%[warn%]") or line:find("%[error%]") or line:find("%[crit%]") or line:find("%[alert%]")
            or line:find("%[emerg%]") then
            found[#found + 1] = line
        end
    end
    return found
end

--- Returns the process ids of the workers, also of those that are shutting down.
function Server:workers()
    local pids = {}
    for pid in cluster.run({ "sh", "-c", "cat /proc/" .. self.pid .. "/task/*/children 2>/dev/null" }):gmatch("%d+") do
        pids[#pids + 1] = tonumber(pid)
    end
    table.sort(pids)
    return pids
end

--- Sends the master, or another process, a signal by name.
function Server:signal(name, pid)
    assert(os.execute(("kill -%s %d"):format(name, pid or self.pid)))
end

--- Sends SIGHUP. Returns a function that waits until no old worker is left.
function Server:begin_reload()
    local old = {}
    for _, pid in ipairs(self:workers()) do
        old[pid] = true
    end
    self:signal("HUP")
    return function(patience)
        eventually(function()
            local fresh = 0
            for _, pid in ipairs(self:workers()) do
                if old[pid] then
                    return false, "worker " .. pid .. " is still there"
                end
                fresh = fresh + 1
            end
            return fresh > 0
        end, patience or PATIENCE, "the old workers to go")
    end
end

--- Sends SIGHUP, and waits until no old worker is left.
function Server:reload(patience)
    self:begin_reload()(patience)
end

--- Sends SIGQUIT, and waits for the end.
function Server:quit(patience)
    self:signal("QUIT")
    eventually(function()
        return not self:is_running(), "workers: " .. table.concat(self:workers(), " ")
    end, patience or PATIENCE, "nginx to quit")
end

--- Ends nginx at once and removes its files. Raises the reports of a sanitizer.
function Server:stop()
    if self.stopped then
        return
    end
    self.stopped = true
    self.daemon:finish()
    local reports = self:reports()
    self.daemon:stop()
    if reports ~= "" then
        error(reports, 0)
    end
end

-- Requests ------------------------------------------------------------------------------------------------------------

local Request = {}
Request.__index = Request

--- Sends a GET to a server on a port of this machine and returns at once; :answer() waits for the answer. `headers`: further
-- lines of the header, each with its end. `own_host`: they have the Host.
function Server:ask(path, port, headers, own_host)
    local connection = assert(socket.tcp())
    connection:settimeout(PATIENCE)
    assert(connection:connect("127.0.0.1", port or self.port))
    local host = own_host and "" or "Host: localhost\r\n"
    assert(connection:send(("GET %s HTTP/1.1\r\n%sConnection: close\r\n%s\r\n"):format(path, host, headers or "")))
    return setmetatable({ connection = connection }, Request)
end

--- Returns the status and the body; nil and the problem if there is no answer within `patience` seconds. Sets `head` to the header.
function Request:answer(patience)
    self.connection:settimeout(patience or 60)
    local text, problem, part = self.connection:receive("*a")
    self.connection:close()
    text = text or part
    local status, head, body = (text or ""):match("^HTTP/%d%.%d (%d+)([^\n]*\n.-)\r\n\r\n(.*)$")
    if not status then
        return nil, problem or "no answer"
    end
    self.head = head .. "\r\n"
    if head:lower():find("transfer-encoding: chunked", 1, true) then
        local whole = {}
        while true do
            local size, rest = body:match("^(%x+)\r\n(.*)$")
            size = size and tonumber(size, 16) or 0
            if size == 0 then
                break
            end
            whole[#whole + 1] = rest:sub(1, size)
            body = rest:sub(size + 3)
        end
        body = table.concat(whole)
    end
    return tonumber(status), (body:gsub("\n$", ""))
end

--- Closes the connection without waiting.
function Request:abort()
    self.connection:close()
end

function Server:get(path, patience)
    return self:ask(path):answer(patience)
end

--- Sends a GET to any HTTP server of this machine: `{ port = }`. Returns what Server:get returns.
function nginx.get(server, path)
    return Server.ask(server, path):answer()
end

return nginx
