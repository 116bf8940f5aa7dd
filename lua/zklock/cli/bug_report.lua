--- cli.bug_report: the text that `zklock doctor --report` writes for a bug report.
--
-- Names of servers, clients, paths and files are replaced by placeholders, unless they are asked for. Those that are known are
-- replaced first; what else looks like a path or an address is replaced, too. A name may be a common word, so that some words more
-- than names may be replaced.

local core = require "zklock.core"
local diagnosis = require "zklock.cli.diagnosis"
local version = require "zklock.version"
local words = require "zklock.inspect.words"

local ipairs, pairs = ipairs, pairs
local concat, sort = table.concat, table.sort
local abs, max = math.abs, math.max
local format = string.format
local unpack = rawget(_G, "unpack") or table.unpack

local bug_report = {}

local Mask = {}
Mask.__index = Mask

--- Returns the placeholder of a name: "server-1", "/path-2". It is the same for the same name.
---@param kind string
---@param name? string nil, "" and "/" have none
function Mask:add(kind, name)
    if not name or name == "" or name == "/" then
        return name
    end
    if not self.of[name] then
        self.counts[kind] = (self.counts[kind] or 0) + 1
        self.of[name] = format("%s-%d", kind, self.counts[kind])
        local first = name:byte()
        self.by_first[first] = self.by_first[first] or {}
        local list = self.by_first[first]
        list[#list + 1] = name
    end
    return self.of[name]
end

--- Returns the placeholder of a path, and a contender's name behind it as it is.
function Mask:add_path(path)
    local parent, name = path:match "^(.*)/([^/]+)$"
    if name and core.node_name(name) then
        return (parent == "" and "" or self:add("/path", parent)) .. "/" .. name
    end
    return self:add("/path", path)
end

--- Whether a known path that ends before `at` is the whole one: what follows may be a contender's name, but no other child.
local function ends_path(text, at)
    local child = text:match("^/([^%s/,;'\"()]+)", at)
    return not child or core.node_name((child:gsub("[.:]+$", ""))) ~= nil
end

--- Returns where the name that begins here ends, and its placeholder; nil: there is none.
---@param in_word boolean whether the character before is one of a word: then only known paths begin here, such as a chroot
function Mask:match(text, at, in_word)
    for _, name in ipairs(self.by_first[text:byte(at)] or {}) do
        local next_at = at + #name
        local is_path = name:byte() == 47
        if text:sub(at, next_at - 1) == name and not (name:find "[%w_]$" and text:find("^[%w_]", next_at)) and
            (is_path or not in_word) and (not is_path or ends_path(text, next_at)) then
            return next_at - 1, self.of[name]
        end
    end
    if in_word then
        return nil
    end
    local path = text:match("^/[^%s,;'\"()]+", at)
    if path then
        path = path:gsub("[.:]+$", "")
        return at + #path - 1, self:add_path(path)
    end
    local address = text:match("^%d+%.%d+%.%d+%.%d+", at) or text:match("^%[[%x:.]+%]", at) or
        text:match("^(%w[%w_.-]*):%d", at)
    if address then
        return at + #address - 1, self:add("host", address)
    end
    return nil
end

--- Returns a text with placeholders.
function Mask:apply(text)
    local parts, at = {}, 1
    while at <= #text do
        local last, word = self:match(text, at, at > 1 and text:find("^[%w_]", at - 1) ~= nil)
        parts[#parts + 1] = word or text:sub(at, at)
        at = (last or at) + 1
    end
    return concat(parts)
end

--- Returns the host of "host:port".
local function host_of(address)
    return address and (address:match "^(.*):%d+$" or address)
end

--- Returns a mask that knows the names in what doctor has found, in an order that only they determine.
local function new_mask(facts, settings, path)
    local mask = setmetatable({ of = {}, by_first = {}, counts = {} }, Mask)
    for _, address in ipairs(words.addresses(settings.servers)) do
        mask:add("server", host_of(address.address))
    end
    mask:add("/path", settings.servers:match "/.*$")
    mask:add("/path", path)
    mask:add("/path", facts.scratch)
    for _, name in ipairs { "ca_file", "ca_path", "cert_file", "key_file" } do
        mask:add("file", settings.tls and settings.tls[name])
    end
    mask:add("host", settings.tls and settings.tls.server_name)
    mask:add("client", settings.identity)
    local hosts = {}
    for _, server in ipairs(facts.servers) do
        for host in pairs(server.connections or {}) do
            hosts[#hosts + 1] = host
        end
    end
    sort(hosts)
    for _, host in ipairs(hosts) do
        mask:add("host", host)
    end
    for _, state in ipairs(facts.states or {}) do
        mask:add("/path", state.path)
        for _, name in ipairs(state.others) do
            mask:add("child", name)
        end
        for _, contender in ipairs(state.contenders) do
            mask:add("/path", contender.node:match "^(.*)/")
            mask:add("client", contender.identity)
            mask:add("host", host_of(contender.address))
        end
    end
    for _, list in pairs(mask.by_first) do
        sort(list, function(a, b) -- the longest first: one may begin with another
            return #a > #b
        end)
    end
    return mask
end

--- Returns all that is read from a stream; "": there is none.
local function read_all(stream)
    local text = stream and stream:read "*a" or ""
    if stream then
        stream:close()
    end
    return text
end

--- Returns the file that a module is loaded from: "source, /usr/share/lua/5.4/zklock/cli.lua".
---@param name string
---@param path? string a search path; default: package.path
function bug_report.module(name, path)
    local home = os.getenv "HOME"
    for template in (path or package.path):gmatch "[^;]+" do
        local found = template:gsub("%?", (name:gsub("%.", "/")))
        local file = io.open(found, "rb")
        if file then
            local is_bytecode = file:read(1) == "\27"
            file:close()
            if home and home ~= "" and found:sub(1, #home + 1) == home .. "/" then
                found = "~" .. found:sub(#home + 1)
            end
            return path and found or format("%s, %s", is_bytecode and "bytecode" or "source", found)
        end
    end
    return "unknown"
end

--- Returns the names of the system and of its kernel.
local function system()
    local release = read_all(io.open "/etc/os-release")
    return format("%s, %s", release:match 'PRETTY_NAME="?([^"\n]*)' or "unknown", read_all(io.popen "uname -srm"):gsub("%s+$", ""))
end

local function describe_server(server)
    return server.problem or concat({
        format("%s: ZooKeeper %s", server.address, server.version or "unknown"), server.mode or "does not serve",
        server.limits and diagnosis.describe_limits(server.limits)
    }, ", ")
end

local function describe_settings(settings)
    local parts = { format("connect timeout %g s", settings.connect_timeout) }
    local function add(value, text)
        parts[#parts + 1] = value and text or nil
    end
    add(settings.acl, format("acl %s", type(settings.acl) == "string" and settings.acl or "list"))
    add(settings.auth, "credentials")
    add(settings.tls, "TLS")
    add(settings.servers:find("/", 1, true), "chroot")
    return concat(parts, ", ")
end

local function describe_writes(writes)
    return writes and writes[1] and format("%d, the slowest %.3f s", #writes, max(unpack(writes))) or "none"
end

local function describe_clock(clock)
    return clock and format("%.1f s %s", abs(clock.difference), clock.difference < 0 and "behind" or "ahead") or "unknown"
end

--- Returns the lines of the report.
---@param facts table of zklock.cli.diagnosis
---@param settings table of zklock.cli.settings
---@param path? string the path that was checked
---@param findings table of zklock.cli.diagnosis
---@param keeps_names? boolean
function bug_report.lines(facts, settings, path, findings, keeps_names)
    local mask = not keeps_names and new_mask(facts, settings, path)
    local lines = {}
    local function line(masked, ...)
        local text = format(...)
        lines[#lines + 1] = masked and mask and mask:apply(text) or text
    end
    line(false, "zklock: %s", version)
    line(false, "command: %s", bug_report.module "zklock.cli")
    line(false, "library: %s", bug_report.module "zklock.client")
    line(false, "C part: %s, built with libzookeeper %s", bug_report.module("zklock.core", package.cpath),
        core.features().zookeeper)
    line(false, "Lua: %s", rawget(_G, "jit") and jit.version or _VERSION)
    line(false, "system: %s", system())
    line(false, "settings: %s", describe_settings(settings))
    for _, server in ipairs(facts.servers) do
        line(true, "%s", describe_server(server))
    end
    local session = facts.session
    line(true, "session: %g s asked for, %s", session.wished,
        session.granted and format("%g s granted", session.granted) or session.problem or "none")
    line(false, "writes: %s", describe_writes(facts.writes))
    line(false, "servers' clock: %s", describe_clock(facts.clock))
    local nodes = 0
    for _, state in ipairs(facts.states or {}) do
        nodes = nodes + #state.contenders
    end
    line(false, "locks: %d, contenders: %d, findings: %d", #(facts.states or {}), nodes, #findings)
    for _, finding in ipairs(findings) do
        line(true, "%s  %s: %s", finding.level, finding.check, finding.message)
    end
    return lines
end

return bug_report
