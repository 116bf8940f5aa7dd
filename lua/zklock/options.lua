--- options: checks of the arguments that callers may pass.
--
-- Every check takes a value and returns `true, converted value` or `false, what is expected`. The functions at the end turn a
-- failed check into a sentence that names the function, the argument and what is expected. The public function that was called
-- raises it at its caller's level. Nothing here raises. No message repeats a string that the caller passed, because it may be a
-- credential.

local core = require "zklock.core"
local text = require "zklock.text"

local concat, sort = table.concat, table.sort
local floor, huge, min = math.floor, math.huge, math.min
local byte, format = string.byte, string.format
local next, pairs, rawequal, tonumber, tostring, type = next, pairs, rawequal, tonumber, tostring, type

local options = {}

--- ZooKeeper's default port, for addresses without a port.
local DEFAULT_PORT = 2181

--- The range of session timeouts in seconds. The C client multiplies them, as milliseconds, in 32 bits.
local SHORTEST_SESSION, LONGEST_SESSION = 0.1, 86400

--- The longest identity, in bytes. It is short because an identity is the data of a znode that every contender reads.
local LONGEST_IDENTITY = 1024

--- The largest count and the largest version: a signed number of 32 bits.
local LARGEST_COUNT = 2147483647

--- How many permits can be acquired at once. Each becomes a node.
local LARGEST_TAKE = 1000

--- ZooKeeper's permission bits by the letters of its command line client.
local PERMISSIONS = { r = 1, w = 2, c = 4, d = 8, a = 16 }
local ALL_PERMISSIONS = 31

--- Describes the value that was passed, without revealing the contents of a string.
local function describe(value)
    local kind = type(value)
    if value ~= value then
        return "NaN"
    elseif kind == "number" or kind == "boolean" or kind == "nil" then
        return tostring(value)
    end
    return "a " .. kind
end
options.describe = describe

local function has_nul(value)
    return value:find("\0", 1, true) ~= nil
end

-- The checks
-- -----------------------------------------------------------------------------------------------------------------

--- Makes a check that returns the value as it is.
local function returned(expected, fits)
    return function(value)
        if fits(value) then
            return true, value
        end
        return false, expected
    end
end

options.boolean = returned("true or false", function(value)
    return type(value) == "boolean"
end)

options.callback = returned("a function", function(value)
    return type(value) == "function"
end)

--- Seconds to wait: 0 does not wait, math.huge waits without limit. NaN differs from itself.
options.timeout = returned("a number of seconds, 0 or more", function(value)
    return type(value) == "number" and value >= 0
end)

--- Returns a text without white space at its ends, in linear time. A pattern with a repetition before `%s*$` takes quadratic time.
function options.trimmed(value)
    return value:sub(value:match "^%s*()", #value - #value:reverse():match "^%s*")
end

--- The longest duration of something, in seconds.
options.duration = returned("a number of seconds above 0", function(value)
    return type(value) == "number" and value > 0 and value < huge
end)

--- Converts a whole number to an integer, in versions of Lua that distinguish them: 3.0 is then written "3", and 3.0 - 1 is 2.
local to_integer = math.tointeger or function(value)
    return value
end

--- Makes a check of whole numbers.
local function whole(least, most)
    local expected = format("a whole number from %d to %d", least, most)
    return function(value)
        if type(value) == "number" and value >= least and value <= most and floor(value) == value then
            return true, to_integer(value)
        end
        return false, expected
    end
end

--- How often in a row a lock may stay within one client; how many permits a semaphore has; how many are acquired at once.
options.handoff, options.permits, options.count = whole(0, LARGEST_COUNT), whole(1, LARGEST_COUNT), whole(1, LARGEST_TAKE)

--- The version that a node must have, as ZooKeeper counts it.
options.version = returned(format("an integer from -1 (any) to %d", LARGEST_COUNT), function(value)
    return type(value) == "number" and value >= -1 and value <= LARGEST_COUNT and floor(value) == value
end)

options.session_timeout = returned(format("a number of seconds from %g to %d", SHORTEST_SESSION, LONGEST_SESSION), function(value)
    return type(value) == "number" and value >= SHORTEST_SESSION and value <= LONGEST_SESSION
end)

options.identity = returned(format("a string of 1 to %d bytes without a NUL", LONGEST_IDENTITY), function(value)
    return type(value) == "string" and value ~= "" and #value <= LONGEST_IDENTITY and not has_nul(value)
end)

--- The longest label of a metric, in bytes.
local LONGEST_LABEL = 64

--- The value of a label of a metric. Prometheus refuses a whole page for one value that is not UTF-8.
options.label = returned(format("a string of 1 to %d bytes in UTF-8, without control characters", LONGEST_LABEL), function(value)
    return type(value) == "string" and value ~= "" and #value <= LONGEST_LABEL and not has_nul(value)
        and not value:find("[\1-\31\127]") and text.is_utf8(value)
end)

--- The name of something that the program has made elsewhere.
options.name = returned("a string that is not empty", function(value)
    return type(value) == "string" and value ~= ""
end)

--- "crwd" or 15 -> 15; nil if the value is neither letters nor bits.
local function permission_bits(perms)
    if type(perms) == "number" then
        return perms >= 1 and perms <= ALL_PERMISSIONS and floor(perms) == perms and perms or nil
    elseif type(perms) ~= "string" or perms == "" then
        return nil
    end
    local bits, seen = 0, {}
    for letter in perms:gmatch(".") do
        if not PERMISSIONS[letter] or seen[letter] then
            return nil
        end
        seen[letter] = true
        bits = bits + PERMISSIONS[letter]
    end
    return bits
end

local NAMED_ACLS = { open = true, creator = true, read = true }
local ACL_EXPECTED = '"open", "creator", "read" or a list of {scheme =, id =, perms = "crwda" or 1 to 31}'

function options.acl(value)
    if type(value) == "string" and NAMED_ACLS[value] then
        return true, value
    elseif type(value) ~= "table" or #value == 0 then
        return false, ACL_EXPECTED
    end
    local entries = {}
    for index = 1, #value do
        local entry = value[index]
        local perms = type(entry) == "table" and permission_bits(entry.perms)
        if not perms or type(entry.scheme) ~= "string" or type(entry.id) ~= "string"
            or has_nul(entry.scheme) or has_nul(entry.id) then
            return false, format("%s, which entry %d is not", ACL_EXPECTED, index)
        end
        entries[index] = { scheme = entry.scheme, id = entry.id, perms = perms }
    end
    return true, entries
end

--- Returns the problem with the ACL "creator" where there are no credentials, or nil.
---@param acl any as checked by options.acl, or nil
---@param auth any whether there are credentials
---@param without string says where they are missing
function options.creator_problem(acl, auth, without)
    return acl == "creator" and not auth and "option 'acl' must not be \"creator\" " .. without or nil
end

local AUTH_EXPECTED = 'a list of {scheme = "digest", credential = "user:password"}'

function options.auth(value)
    if type(value) ~= "table" or (#value == 0 and next(value) ~= nil) then
        return false, AUTH_EXPECTED
    end
    local entries = {}
    for index = 1, #value do
        local entry = value[index]
        if type(entry) ~= "table" or type(entry.scheme) ~= "string" or entry.scheme == "" or has_nul(entry.scheme)
            or type(entry.credential) ~= "string" then
            return false, format("%s, which entry %d is not", AUTH_EXPECTED, index)
        end
        entries[index] = { entry.scheme, entry.credential }
    end
    return true, entries
end

options.adapter = returned("the name of an adapter or a table with wait and wake", function(value)
    return type(value) == "string" or type(value) == "table"
end)

local TLS_EXPECTED = "a table with no other fields than ca_file, ca_path, cert_file, key_file, key_password, server_name, " ..
    "verify, min_version, ciphers"

local function is_text(value)
    return type(value) == "string" and value ~= "" and not has_nul(value)
end

--- What the fields of the option `tls` must be: a check, and words for it.
local TEXT = { is_text, "a string without a NUL" }
local TLS_FIELDS = {
    ca_file = TEXT, ca_path = TEXT, cert_file = TEXT, key_file = TEXT, key_password = TEXT, ciphers = TEXT,
    server_name = { function(value) -- for OpenSSL a name that begins with a dot is any name below
        return is_text(value) and not value:find("^%.") and not value:find("*", 1, true)
    end, "the name of a host, or an address" },
    verify = { function(value)
        return type(value) == "boolean"
    end, "true or false" },
    min_version = { function(value)
        return value == "1.2" or value == "1.3"
    end, '"1.2" or "1.3"' }
}

--- Settings of TLS. The files are read when a client is opened.
function options.tls(value)
    if type(value) ~= "table" then
        return false, "a table"
    end
    local settings = {}
    for name, field in pairs(value) do
        local rule = TLS_FIELDS[name]
        if not rule then
            return false, TLS_EXPECTED
        elseif not rule[1](field) then
            return false, format("a table whose %s is %s", name, rule[2])
        end
        settings[name] = field
    end
    if not settings.cert_file and (settings.key_file or settings.key_password) then
        return false, "a table with cert_file, if there is key_file or key_password"
    elseif settings.verify == false and (settings.ca_file or settings.ca_path) then
        return false, "a table without ca_file and ca_path, if verify is false"
    end
    return true, settings
end

-- Arguments -----------------------------------------------------------------------------------------------------------

--- Returns an address with a port, an IPv6 address in brackets; or nil.
local function normal_address(address)
    local host, rest = address:match("^(%[[%x:%.]+%])(.*)$")
    if not host then
        host, rest = address:match("^([^:%[%]%s%c]+)(.*)$")
    end
    local port = rest == "" and DEFAULT_PORT or tonumber(rest and rest:match("^:(%d+)$") or "")
    if not port or port < 1 or port > 65535 then
        return nil
    end
    return format("%s:%d", host, port)
end

--- Checks a connection string, "host:port,host:port/chroot". The default port is 2181. Blanks around addresses are ignored. IPv6
-- addresses are written in brackets. The chroot stands once, at the end, and has no comma.
---@return string? # the same with all ports, without blanks
---@return string? wrong
function options.servers(servers)
    local expected = 'servers must be a string like "host:2181,host:2181/chroot"'
    if type(servers) ~= "string" then
        return nil, format("%s (got %s)", expected, describe(servers))
    elseif not servers:find("%S") then
        return nil, expected .. " (got an empty one)"
    elseif has_nul(servers) then
        return nil, expected .. " (there is a NUL in it)"
    end
    local hosts, chroot = servers:match("^([^/]*)(.*)$")
    local addresses = {}
    for entry in (hosts .. ","):gmatch("([^,]*),") do
        local address = options.trimmed(entry)
        local normal = normal_address(address)
        if not normal then
            return nil, format('%s (address %d, "%s", is not "host:port")', expected, #addresses + 1, text.short(address))
        end
        addresses[#addresses + 1] = normal
    end
    chroot = options.trimmed(chroot)
    if chroot == "/" then
        chroot = ""
    end
    if chroot:find(",", 1, true) then
        return nil, format("%s (the chroot stands once, behind the last server, and must not contain a comma)", expected)
    end
    local problem = chroot ~= "" and core.path_problem(chroot)
    if problem then
        return nil, format("%s (the chroot: %s)", expected, problem)
    end
    return concat(addresses, ",") .. chroot
end

--- Returns the problem with a connection string, as options.servers returns it, for the options `follow` and `tls` together; nil:
-- there is none. The configuration of the servers does not name their ports for TLS.
function options.ports_problem(servers)
    local first
    for port in (servers:match("^[^/]*") .. ","):gmatch ":(%d+)," do
        first = first or port
        if port ~= first then
            return "option 'follow' with 'tls' needs the same port for all servers"
        end
    end
    return nil
end

--- Returns the first host in a connection string, as options.servers returns it, that may be another machine; nil if all of them
-- are this machine.
function options.remote_host(servers)
    for address in servers:match("^[^/]*"):gmatch("[^,]+") do
        local host = address:match("^(.*):%d+$")
        if host ~= "localhost" and host ~= "[::1]" and not host:find("^127%.%d+%.%d+%.%d+$") then
            return host
        end
    end
    return nil
end

--- Checks a lock's path.
---@return string # what is wrong with it, or nil
function options.path_problem(path)
    if type(path) ~= "string" then
        return format("path must be a string (got %s)", describe(path))
    end
    local problem = core.path_problem(path)
    return problem and "bad path: " .. problem
end

--- Whether a string comes before another one by their bytes, like `<` in the C locale and in LuaJIT. Elsewhere `<` depends on
-- os.setlocale, which the host of a Lua program may have called.
function options.precedes(one, other)
    for index = 1, min(#one, #other) do
        local ours, theirs = byte(one, index), byte(other, index)
        if ours ~= theirs then
            return ours < theirs
        end
    end
    return #one < #other
end

--- Returns the sorted names in a schema, for the message about an unknown option.
local function known_names(schema)
    local names = {}
    for name in pairs(schema) do
        names[#names + 1] = name
    end
    sort(names, options.precedes)
    return names[1] and concat(names, ", ") or "none"
end

--- Checks a table of options against a schema, `{ name = { check, default } }`.
---@return table? # the settings, with defaults
---@return string? wrong
function options.read(given, schema)
    if given ~= nil and type(given) ~= "table" then
        return nil, format("options must be a table (got %s)", describe(given))
    end
    local settings = {}
    for name, rule in pairs(schema) do
        settings[name] = rule[2]
    end
    for name, value in pairs(given or {}) do
        local rule = schema[name]
        if not rule then
            return nil, format("unknown option %s (known: %s)", type(name) == "string" and "'" .. text.short(name) .. "'"
                or describe(name), known_names(schema))
        end
        local fits, converted = rule[1](value)
        if not fits then
            local got = type(value) == "table" and "" or format(" (got %s)", describe(value))
            return nil, format("option '%s' must be %s%s", name, converted, got)
        end
        settings[name] = converted
    end
    return settings
end

local PLAIN = { number = true, string = true, boolean = true }

--- Remembers what was made of a table of options, for options.recall. Programs make the same calls with the same options again and
-- again, and reading options is a good part of such a call.
---@param given table
---@param made any what recall is to return
---@param uncounted table set of the names of options that may differ
---@return table? # nil if an option is not a number, string or boolean: other values may change inside
function options.remember(given, made, uncounted)
    local memo = { made = made, values = {}, count = 0 }
    for name, value in pairs(given) do
        if not uncounted[name] then
            if not PLAIN[type(value)] then
                return nil
            end
            memo.values[name], memo.count = value, memo.count + 1
        end
    end
    return memo
end

--- Returns what was made of the options that a memo remembers, if these are the same; otherwise nil.
---@param memo? table
---@param given table
---@param uncounted table as of remember
function options.recall(memo, given, uncounted)
    if not memo then
        return nil
    end
    local left, values = memo.count, memo.values
    for name, value in pairs(given) do
        if not uncounted[name] then
            if not rawequal(values[name], value) then -- LuaJIT's int64_t compares as equal to a number
                return nil
            end
            left = left - 1
        end
    end
    return left == 0 and memo.made or nil
end

--- Checks an optional timeout argument.
---@param timeout any
---@param default? number for nil; default: math.huge
---@return number? # seconds
---@return string? wrong
function options.read_timeout(timeout, default)
    if timeout == nil then
        return default or huge
    end
    local fits, expected = options.timeout(timeout)
    if not fits then
        return nil, format("timeout must be %s (got %s)", expected, describe(timeout))
    end
    return timeout
end

--- Checks an optional argument that is seconds, or a table of the schema's settings, which include `timeout`.
---@return table? # the settings, with the schema's defaults for nil and for a table
---@return string? wrong
function options.read_timeout_or_table(given, schema)
    if type(given) == "number" then
        local seconds, wrong = options.read_timeout(given)
        return seconds and { timeout = seconds }, wrong
    elseif given ~= nil and type(given) ~= "table" then
        return nil, format("timeout must be a number of seconds, 0 or more, or {timeout = seconds} (got %s)",
            describe(given))
    end
    return options.read(given, schema)
end

local function read_number(number, name, check)
    local fits, converted = check(number)
    if not fits then
        return nil, format("%s must be %s (got %s)", name, converted, describe(number))
    end
    return converted
end

--- Checks the number of permits of a semaphore.
---@return number?
---@return string? wrong
function options.read_permits(permits)
    return read_number(permits, "permits", options.permits)
end

--- Checks the count of a latch.
---@return number?
---@return string? wrong
function options.read_latch_count(count)
    return read_number(count, "count", options.handoff)
end

--- Returns a number of seconds for a message: three digits say enough of a time that was computed.
function options.in_seconds(seconds)
    return (seconds < 100 and "%.3g s" or "%.0f s"):format(seconds)
end

return options
