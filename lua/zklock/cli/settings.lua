--- cli.settings: which servers, with which credentials and defaults.
--
-- Options of the command line come before the environment (`ZKLOCK_SERVERS` and so on), and the environment before the files
-- `~/.config/zklock.lua` and `/etc/zklock.lua`. A file returns a table: `return { servers = "zk1:2181,zk2:2181" }`. It runs without
-- any function or variable. `ZKLOCK_CONFIG` names one file in place of these two, "" none.
--
-- Credentials come from files and from the environment only: the command line of a process can be read by every user.

local process = require "zklock.process"

local io, ipairs, load, loadstring, os, pairs, pcall = io, ipairs, load, rawget(_G, "loadstring"), os, pairs, pcall
local setfenv, tonumber, tostring, type = rawget(_G, "setfenv"), tonumber, tostring, type
local huge = math.huge
local format = string.format

local settings = {}

--- Seconds of a session, unless set: longer than the API's default, because commands often run for long, and a session that
-- survives an election of the servers loses no lock.
local SESSION_TIMEOUT = 30

--- Seconds for the first connection, unless set.
local CONNECT_TIMEOUT = 10

--- A check of each setting, by its name in files. Its environment variable is ZKLOCK_ and the name in upper case.
local CHECKS = {}

local function text(value)
    if type(value) ~= "string" or value == "" then
        return nil, "must be a text that is not empty"
    end
    return value
end

--- Units of time, in seconds.
local UNITS = { ms = 1e-3, s = 1, m = 60, h = 3600, d = 86400 }

--- Reads a duration: "90", "1.5h", "500ms"; without a unit it is in seconds.
---@return number? # seconds; nil: it is no duration
function settings.seconds(duration)
    local number, unit = tostring(duration):match "^([%d.]+)(%a+)$"
    local value = tonumber(number or duration)
    local factor = unit and UNITS[unit] or not unit and 1
    return value and factor and value >= 0 and value < huge and value * factor or nil
end

--- Returns a function that reads a number between two bounds, for argparse. `what` is for the message: "a port".
function settings.number(what, least, most, is_whole)
    return function(given)
        local value = tonumber(given)
        if value and value >= least and value <= most and not (is_whole and value % 1 ~= 0) then
            return value
        end
        return nil, format("'%s' must be %s, %d to %d", given, what, least, most)
    end
end

local function positive(value)
    value = settings.seconds(value)
    if not value or value == 0 then
        return nil, "must be a duration above 0, for example 30 (seconds) or 5m"
    end
    return value
end

CHECKS.servers, CHECKS.identity, CHECKS.auth, CHECKS.auth_file = text, text, text, text
CHECKS.session_timeout, CHECKS.connect_timeout = positive, positive

--- The settings of TLS that are fields of zklock.connect's option `tls`: tls_ca_file is its ca_file.
local TLS_FIELDS = { "ca_file", "ca_path", "cert_file", "key_file", "key_password", "server_name", "min_version", "ciphers" }
for _, name in ipairs(TLS_FIELDS) do
    CHECKS["tls_" .. name] = text
end

--- Settings that are credentials: not on the command line, and not in files that other users may read.
local SECRET = { auth = true, tls_key_password = true }

--- Whether there is TLS, of which nothing else may be set.
function CHECKS.tls(value)
    if value == true or value == "yes" then
        return true
    elseif value == false or value == "no" then
        return false
    end
    return nil, 'must be "yes" or "no"'
end

function CHECKS.acl(value)
    if value ~= "open" and value ~= "creator" and value ~= "read" then
        return nil, 'must be "open", "creator" or "read"'
    end
    return value
end

--- Compiles a configuration without an environment. Refuses compiled Lua, which could break out of it.
local function compile(source, name)
    if source:sub(1, 1) == "\27" then
        return nil, name .. ": must be text"
    elseif setfenv then
        local chunk, problem = loadstring(source, "@" .. name)
        return chunk and setfenv(chunk, {}), problem
    end
    return load(source, "@" .. name, "t", {})
end

--- errno of io.open for a file that does not exist: ENOENT, ENOTDIR.
local ABSENT = { [2] = true, [20] = true }

--- Reads one file into `found`, where nothing is replaced. A file that may hold credentials and cannot be read is not taken for
-- one that does not exist. Returns true; or nil and what is wrong.
local function read_file(name, found, optional)
    local file, unread, number = io.open(name, "rb")
    if not file then
        return optional and ABSENT[number] or nil,
            "cannot read the settings: " .. unread .. (optional and "; set ZKLOCK_CONFIG= to read no file" or "")
    end
    local source = file:read "*a"
    file:close()
    local chunk, problem = compile(source or "", name)
    local ok, values = pcall(chunk or function()
        return nil
    end)
    if not chunk or not ok then
        return nil, "cannot read the settings: " .. tostring(problem or values)
    elseif type(values) ~= "table" then
        return nil, format("%s must return a table", name)
    elseif (values.auth or values.tls_key_password) and process.others_may_read(name) then
        return nil, format("%s contains credentials, and other users may read it: chmod 600 %s", name, name)
    end
    for key, value in pairs(values) do
        if not CHECKS[key] then
            return nil, format("%s: there is no setting '%s'", name, tostring(key))
        end
        if found[key] == nil then
            found[key] = { value = value, from = format("%s: %s", name, key) }
        end
    end
    return true
end

--- The files, the most important one first, and whether each may be missing.
local function file_names()
    local named = os.getenv "ZKLOCK_CONFIG"
    if named then
        return { named ~= "" and named or nil }, false
    end
    local names, home = {}, os.getenv "HOME"
    if home then
        names[1] = home .. "/.config/zklock.lua"
    end
    names[#names + 1] = "/etc/zklock.lua"
    return names, true
end

--- Reads "scheme:credential", from a file if there is no such setting.
---@return table? # what zklock.connect takes as `auth`
---@return string? wrong
local function read_auth(values)
    local line = values.auth
    if not line and values.auth_file then
        local file, problem = io.open(values.auth_file, "rb")
        if not file then
            return nil, "cannot read the credentials: " .. problem
        elseif process.others_may_read(values.auth_file) then
            file:close()
            return nil, format("other users may read the credentials: chmod 600 %s", values.auth_file)
        end
        line = file:read "*l"
        file:close()
        if not line then
            return nil, format("%s has no credentials: it is empty, or no file", values.auth_file)
        end
    end
    if not line then
        return nil
    end
    local scheme, credential = line:match "^(%w+):(.+)$"
    if not scheme then
        return nil, "credentials must have the form scheme:credential, for example digest:user:password"
    end
    return { { scheme = scheme, credential = credential } }
end

--- Returns what zklock.connect takes as `tls`: nil without TLS, or nil and what is wrong.
local function read_tls(values)
    local tls
    for _, name in ipairs(TLS_FIELDS) do
        local value = values["tls_" .. name]
        if value then
            tls = tls or {}
            tls[name] = value
        end
    end
    if tls and values.tls == false then
        return nil, "tls is off, and other settings of TLS are set: remove them, or tls"
    end
    return tls or values.tls and {} or nil
end

--- Returns the variables with which another zklock connects by the same TLS. A password is not among them: it is in the environment
-- already, or in a file that the other one reads as well.
---@param tls? table as of settings.read
---@return table # list of "NAME=value"
function settings.tls_environment(tls)
    local list = { tls and "ZKLOCK_TLS=yes" or nil }
    for _, name in ipairs(TLS_FIELDS) do
        local value = tls and not SECRET["tls_" .. name] and tls[name]
        if value then
            list[#list + 1] = format("ZKLOCK_TLS_%s=%s", name:upper(), value)
        end
    end
    return list
end

--- Returns the variables that another zklock must not get so that it connects without TLS.
---@return table # list of names
function settings.without_tls()
    local list = { "ZKLOCK_TLS" }
    for _, name in ipairs(TLS_FIELDS) do
        list[#list + 1] = "ZKLOCK_TLS_" .. name:upper()
    end
    return list
end

--- Adds the options of all subcommands that connect.
function settings.define(parser)
    parser:option "--servers":argname "<host:port,…>":description "The servers of ZooKeeper, and a chroot if there is one."
    parser:option "--session-timeout":argname "<seconds>":description(
        "How long the locks of a crashed client stay taken (30); the servers may limit it.")
    parser:option "--connect-timeout":argname "<seconds>":description "How long to wait for the first connection (10)."
    parser:option "--auth-file":argname "<file>":description "A file with scheme:credential, for example digest:user:password."
    parser:option "--acl":argname "<acl>":description "Of new nodes: open (the default), creator or read."
    parser:flag "--tls":description "Connect by TLS, and trust the system's authorities. Not needed with another option of TLS."
    parser:option "--tls-ca-file":argname "<file>":description "TLS: the authorities whose certificates the servers may have."
    parser:option "--tls-ca-path":argname "<directory>":description "The same in a directory."
    parser:option "--tls-cert-file":argname "<file>":description "TLS: the certificate to show to the servers."
    parser:option "--tls-key-file":argname "<key>":description "Its key, unless it is in the same file."
    parser:option "--tls-server-name":argname "<name>":description "TLS: the name in the servers' certificates."
    parser:option "--tls-min-version":argname "<version>":description "TLS: 1.2 (the default) or 1.3."
    parser:option "--tls-ciphers":argname "<list>":description "TLS: names of ciphers, separated by colons."
end

--- Returns all settings, checked.
---@param arguments table of the command line
---@return table? # servers, session_timeout, connect_timeout, identity, acl, auth, tls
---@return string? wrong
function settings.read(arguments)
    local found = {}
    for name in pairs(CHECKS) do
        local variable = "ZKLOCK_" .. name:upper()
        local set = os.getenv(variable)
        if not SECRET[name] and arguments[name] ~= nil then
            found[name] = { value = arguments[name], from = "--" .. name:gsub("_", "-") }
        elseif set and (set ~= "" or name:find("^tls")) then -- a variable that expands to nothing must not turn TLS off
            found[name] = { value = set, from = variable }
        end
    end
    local names, optional = file_names()
    for _, name in ipairs(names) do
        local ok, wrong = read_file(name, found, optional)
        if not ok then
            return nil, wrong
        end
    end
    local values = {}
    for name, setting in pairs(found) do
        local value, wrong = CHECKS[name](setting.value)
        if value == nil then
            return nil, format("%s %s", setting.from, wrong)
        end
        values[name] = value
    end
    if not values.servers then
        return nil, "no servers: give --servers, or set ZKLOCK_SERVERS, or servers in ~/.config/zklock.lua or /etc/zklock.lua"
    end
    local auth, wrong = read_auth(values)
    if wrong then
        return nil, wrong
    end
    local tls
    tls, wrong = read_tls(values)
    if wrong then
        return nil, wrong
    end
    return {
        servers = values.servers,
        session_timeout = values.session_timeout or SESSION_TIMEOUT,
        connect_timeout = values.connect_timeout or CONNECT_TIMEOUT,
        identity = values.identity,
        acl = values.acl or "open",
        auth = auth,
        tls = tls
    }
end

return settings
