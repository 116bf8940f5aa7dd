--- configuration: which servers, with which credentials and defaults, as the machine says it: for zklock.connect and zklock.shared
-- without servers, and for the command.
--
-- The environment (`ZKLOCK_SERVERS` and so on) comes before the files `~/.config/zklock.lua` and `/etc/zklock.lua`. A file returns
-- a table: `return { servers = "zk1:2181,zk2:2181" }`. It runs without any function or variable. `ZKLOCK_CONFIG` names one file in
-- place of these two, "" none.

local core = require "zklock.core"
local options = require "zklock.options"
local text_of = require("zklock.report").text_of

local io, ipairs, load, loadstring, os, pairs, pcall = io, ipairs, load, rawget(_G, "loadstring"), os, pairs, pcall
local setfenv, tonumber, tostring, type = rawget(_G, "setfenv"), tonumber, tostring, type
local huge = math.huge
local format = string.format

local configuration = {}

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
function configuration.seconds(duration)
    local number, unit = tostring(duration):match "^([%d.]+)(%a+)$"
    local value = tonumber(number or duration)
    local factor = unit and UNITS[unit] or not unit and 1
    return value and factor and value >= 0 and value < huge and value * factor or nil
end

local function positive(value)
    value = configuration.seconds(value)
    if not value or value == 0 then
        return nil, "must be a duration above 0, for example 30 (seconds) or 5m"
    end
    return value
end

--- Makes a check of what `check` converts first, by one of zklock.options.
local function then_by(check, option)
    return function(value)
        local converted, wrong = check(value)
        if not converted then
            return nil, wrong
        end
        local fits, expected = option(converted)
        if not fits then
            return nil, "must be " .. expected
        end
        return converted
    end
end

CHECKS.auth, CHECKS.auth_file, CHECKS.connect_timeout = text, text, positive
CHECKS.identity = then_by(text, options.identity)
CHECKS.session_timeout = then_by(positive, options.session_timeout)

function CHECKS.servers(value)
    local normal, wrong = options.servers(value)
    if not normal then
        return nil, (wrong:gsub("^servers ", ""))
    end
    return value
end

--- The settings of TLS that are fields of zklock.connect's option `tls`: tls_ca_file is its ca_file.
local TLS_FIELDS = { "ca_file", "ca_path", "cert_file", "key_file", "key_password", "server_name", "min_version", "ciphers" }
configuration.TLS_FIELDS = TLS_FIELDS
for _, name in ipairs(TLS_FIELDS) do
    CHECKS["tls_" .. name] = text
end

--- Settings that are credentials: not on the command line, and not in files that other users may read.
local SECRET = { auth = true, tls_key_password = true }
configuration.SECRET = SECRET

local function yes_or_no(value)
    if value == true or value == "yes" then
        return true
    elseif value == false or value == "no" then
        return false
    end
    return nil, 'must be "yes" or "no"'
end

--- `tls`: whether there is TLS, of which nothing else may be set.
CHECKS.tls, CHECKS.follow = yes_or_no, yes_or_no

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
    local source
    source, unread = file:read "*a"
    file:close()
    if not source then
        return nil, format("cannot read the settings: %s: %s", name, unread)
    end
    local chunk, problem = compile(source, name)
    local ok, values = pcall(chunk or function()
        return nil
    end)
    if not chunk or not ok then
        return nil, "cannot read the settings: " .. text_of(problem or values)
    elseif type(values) ~= "table" then
        return nil, format("%s must return a table", name)
    elseif (values.auth or values.tls_key_password) and core.others_may_read(name) then
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
---@return table? # what zklock.connect takes as `auth`; nil and what is wrong
local function read_auth(values)
    local line = values.auth
    if not line and values.auth_file then
        local file, problem = io.open(values.auth_file, "rb")
        if not file then
            return nil, "cannot read the credentials: " .. problem
        elseif core.others_may_read(values.auth_file) then
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
    tls = tls or values.tls and {} or nil
    local fits, expected = true, nil
    if tls then
        fits, expected = options.tls(tls)
    end
    if not fits then
        return nil, "the settings of TLS must be " .. expected
    end
    return tls
end

--- Returns all settings, checked.
---@param given table settings by name that come before the environment
---@param how string says how the program, or its user, names servers
---@return table? # servers; and of those that are set session_timeout, connect_timeout, identity, acl, auth, tls, follow, as
--   zklock.connect takes them; nil and what is wrong
function configuration.read(given, how)
    local found = {}
    for name in pairs(CHECKS) do
        local variable = "ZKLOCK_" .. name:upper()
        local set = os.getenv(variable)
        if not SECRET[name] and given[name] ~= nil then
            found[name] = { value = given[name], from = "--" .. name:gsub("_", "-") }
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
        return nil, format("no servers: %s, or set ZKLOCK_SERVERS, or servers in ~/.config/zklock.lua or /etc/zklock.lua", how)
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
        session_timeout = values.session_timeout,
        connect_timeout = values.connect_timeout,
        identity = values.identity,
        acl = values.acl,
        auth = auth,
        tls = tls,
        follow = values.follow
    }
end

return configuration
