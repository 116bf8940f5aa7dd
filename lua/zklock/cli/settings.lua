--- cli.settings: which servers, with which credentials and defaults: the options of the command line before the machine's
-- configuration (zklock.configuration).
--
-- Credentials come from files and from the environment only: the command line of a process can be read by every user.

local configuration = require "zklock.configuration"
local options = require "zklock.options"

local ipairs = ipairs
local format = string.format

local settings = { seconds = configuration.seconds }

local TLS_FIELDS, SECRET = configuration.TLS_FIELDS, configuration.SECRET

--- Seconds of a session, unless set: longer than the API's default, because commands often run for long, and a session that
-- survives an election of the servers loses no lock.
local SESSION_TIMEOUT = 30

--- Seconds for the first connection, unless set.
local CONNECT_TIMEOUT = 10

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
    parser:flag "--follow":description "Also connect to the servers that the ensemble's dynamic configuration names."
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
---@return table? # servers, session_timeout, connect_timeout, identity, acl, auth, tls, follow
---@return string? wrong
function settings.read(arguments)
    local read, wrong = configuration.read(arguments, "give --servers")
    wrong = wrong or read.follow and read.tls and options.ports_problem((options.servers(read.servers)))
    if wrong then
        return nil, wrong
    end
    read.session_timeout = read.session_timeout or SESSION_TIMEOUT
    read.connect_timeout = read.connect_timeout or CONNECT_TIMEOUT
    return read
end

--- Opens a client by settings: zklock.connect. `adapter` is its option `wait`.
function settings.open(read, adapter, connect_timeout)
    return require("zklock").connect(read.servers, {
        session_timeout = read.session_timeout, connect_timeout = connect_timeout, wait = adapter, identity = read.identity,
        acl = read.acl, auth = read.auth, tls = read.tls, follow = read.follow
    })
end

return settings
