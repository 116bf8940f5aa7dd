--- cli.acquire: the lock, or the locks, that a command line asks for. For `zklock run` and `zklock hold`.

local checks = require "zklock.options"
local codes = require "zklock.cli.codes"
local core = require "zklock.core"
local process = require "zklock.process"
local settings = require "zklock.cli.settings"

local huge, max = math.huge, math.max
local concat, unpack = table.concat, table.unpack or rawget(_G, "unpack")
local format = string.format

local acquire = {}

--- Reads a duration, 0 or more, for argparse. Returns seconds.
local function seconds(text)
    local value = settings.seconds(text)
    return value, not value and format("'%s' must be a duration: seconds, or with a unit, for example 90s or 5m", text) or nil
end
acquire.seconds = seconds

--- Reads COUNT/LIMIT, for argparse.
local function permits(text)
    local count, limit = text:match "^(%d+)/(%d+)$"
    count, limit = tonumber(count), tonumber(limit)
    if not count or count < 1 or count > limit then
        return nil, format("'%s' must be COUNT/LIMIT, for example 1/3", text)
    end
    for name, number in pairs { count = count, permits = limit } do
        local fits, expected = checks[name](number)
        if not fits then
            return nil, format("%s of '%s' must be %s", name == "count" and "COUNT" or "LIMIT", text, expected)
        end
    end
    return { count = count, limit = limit }
end

--- Adds the arguments.
function acquire.define(parser)
    parser:argument "path":argname "PATH":description "The path of the lock, for example /locks/nightly."
    parser:mutex(
        parser:flag "-n --no-wait":description "Do not wait: exit with 123 if another holds the lock.",
        parser:option "-w --wait":argname "SEC":convert(seconds):description(
            "Wait for at most so long (90, 90s, 5m), then exit with 124. Without -n and -w: wait without limit."))
    parser:mutex(
        parser:flag "-s --shared":description "Share the lock with other readers; a command without -s excludes them.",
        parser:option "-p --permits":argname "COUNT/LIMIT":convert(permits):description(
            "Take COUNT permits of a semaphore that has LIMIT."))
    parser:option "--lock":argname "PATH":count "*":description(
        "Take this lock too, all or none. May be repeated. With -s it is shared.")
    parser:option "--identity":argname "X":description "What others see as the holder's name (host:pid)."
    parser:option "-E --conflict-exit-code":argname "CODE":convert(settings.number("an exit code", 0, 255, true)):description(
        "Exit with this code in place of 123 and 124.")
    parser:flag "--skip-ok":description "Exit with 0 in place of 123 and 124."
    parser:flag "-q --quiet":description "No messages about waiting, a refusal or a timeout."
end

--- Makes the lock of one path.
local function make_lock(client, path, arguments, options)
    local shape = path == arguments.path and arguments.permits or nil
    if shape then
        return client:semaphore(path, shape.limit, options)
    elseif arguments.shared then
        return client:rwlock(path, options).read
    end
    return client:mutex(path, options)
end

--- Makes the lock, or the multi, of a command line. Raises an error for paths that cannot be locked.
---@return table # the lock, or a multi
---@return table # the locks in the order of the command line
local function make(session, arguments, options)
    local members = { make_lock(session.client, arguments.path, arguments, options) }
    for _, path in ipairs(arguments.lock) do
        members[#members + 1] = make_lock(session.client, path, arguments, options)
    end
    return members[2] and session.client:multi(members) or members[1], members
end

--- Names the locks of a command line.
function acquire.paths(arguments)
    return concat({ arguments.path, unpack(arguments.lock) }, ", ")
end

--- Ends the subcommand if a path cannot be locked, or the arguments do not fit together.
function acquire.check(arguments, context)
    if arguments.permits and arguments.permits.count > 1 and arguments.lock[1] then
        context.stop("failed", "-p with a COUNT above 1 cannot be combined with --lock")
    end
    for _, path in ipairs { arguments.path, unpack(arguments.lock) } do
        local wrong = checks.path_problem(path)
        if wrong then
            context.stop("failed", format("%s (got %s)", wrong, path))
        end
    end
end

--- The variable with the nodes of all `zklock run` above a command, a line each: no path contains the end of a line.
local HELD = "ZKLOCK_HELD"

--- Its greatest length: Linux starts no command that has a variable of 128 KB.
local LONGEST_HELD = 100 * 1024

--- Returns this variable for the command that runs under these locks. The oldest lines beyond its greatest length are left out.
local function held_variable(members)
    local nodes = { os.getenv(HELD) }
    for _, lock in ipairs(members) do
        nodes[#nodes + 1] = lock:node()
    end
    local lines = concat(nodes, "\n")
    return HELD .. "=" .. (#lines <= LONGEST_HELD and lines or lines:sub(-LONGEST_HELD):match "\n(.*)" or "")
end

--- The variables of a command that runs under these locks, as of zklock.process.spawn: of each further lock with its number. Those
-- of further locks that an outer zklock run has set are removed.
function acquire.environment(session, members, identity)
    local list = { "ZKLOCK_SERVERS=" .. session.servers, "ZKLOCK_IDENTITY=" .. identity }
    for _, variable in ipairs(settings.tls_environment(session.tls)) do
        list[#list + 1] = variable
    end
    list[#list + 1] = session.follow and "ZKLOCK_FOLLOW=yes" or nil
    list[#list + 1] = held_variable(members)
    for index, lock in ipairs(members) do
        local suffix = index == 1 and "" or "_" .. index
        list[#list + 1] = format("ZKLOCK_PATH%s=%s", suffix, lock:path())
        list[#list + 1] = format("ZKLOCK_TOKEN%s=%s", suffix, lock:token() or "")
        list[#list + 1] = format("ZKLOCK_NODE%s=%s", suffix, lock:node() or "")
    end
    local index = #members + 1
    while os.getenv("ZKLOCK_PATH_" .. index) do
        for _, name in ipairs { "PATH", "TOKEN", "NODE" } do
            list[#list + 1] = format("ZKLOCK_%s_%d", name, index)
        end
        index = index + 1
    end
    return list
end

--- Returns a lock that a `zklock run` above this command holds: a wait without limit could be for the command itself. The
-- environment may be older than that hold, so the holder's node must still exist. Returns nil also if the servers do not answer.
local function held_by_caller(session, arguments, members)
    for node in (not arguments.no_wait and not arguments.wait and os.getenv(HELD) or ""):gmatch "[^\n]+" do
        local path, name = node:match "^(/.*)/([^/]+)$"
        if name and core.node_name(name) == "lease" then
            path = path:match "^(.*)/leases$" -- a permit of a semaphore
        end
        for _, lock in ipairs(members) do
            if path == lock:path() and not core.path_problem(node) and session.client:exists(node, { timeout = 10 }) then
                return lock
            end
        end
    end
    return nil
end

--- The exit code if there is nothing to do, because of another contender.
---@param arguments table
---@param code integer without -E and --skip-ok
function acquire.refusal(arguments, code)
    return arguments.skip_ok and 0 or arguments.conflict_exit_code or code
end

--- Ends the subcommand after an acquisition that has failed.
local function give_up(arguments, context, message, code)
    local outcome, exit = code, nil
    if code == "timeout" then
        outcome, exit = arguments.no_wait and "refused" or "timeout", arguments.no_wait and codes.REFUSED or codes.TIMEOUT
        exit = acquire.refusal(arguments, exit)
    end
    context.stop(outcome, not (exit and context.quiet) and message or nil, exit)
end

--- Reads the servers of the machine's configuration again. The session moves to them.
local function reload(session, arguments, context)
    local read, wrong = settings.read(arguments)
    local moves = read and read.servers ~= session.servers
    local ok, problem
    if moves then
        ok, problem = pcall(session.client.set_servers, session.client, read.servers)
    end
    if ok then
        session.servers = read.servers
        context:warn("the servers are %s now", read.servers)
    elseif not read or moves then
        context:warn("the servers stay %s: %s", session.servers, context.describe(wrong or problem))
    end
end

--- Acquires the locks of the command line. Names the holder on stderr if that takes a while. Results as of acquire.open, without
-- the session. `deadline` is on process.now()'s clock.
local function wait_for(session, arguments, context, deadline)
    -- A lock with on_revoke watches its node, so that its deletion is noticed at once.
    local lock, members = make(session, arguments, {
        on_revoke = function()
            session.revoked = true
        end
    })
    session.reload = function()
        reload(session, arguments, context)
    end
    local own = held_by_caller(session, arguments, members)
    if own then
        context.stop("deadlock", format("a zklock run that has started this command holds %s: it could wait for itself; " ..
            "use -n or -w, or env -u %s for a job that outlives it", own:path(), HELD))
    end
    local said = false
    local count = arguments.permits and not members[2] and arguments.permits.count or nil
    local function announce()
        local path, holders = session:describe_holders(members)
        if path then
            said = true
            context:say("waiting for %s: %s", path, holders)
            if context.service then
                context.service.say(format("waiting for %s: %s", path, holders))
            end
        else
            session:announce_wait(announce) -- the servers are slow, or the holder has just released
        end
    end
    session:announce_wait(announce)
    local started = process.now()
    local got, message, code
    repeat
        local left = arguments.no_wait and 0 or deadline ~= huge and max(0.001, deadline - process.now()) or nil
        if count then
            got, message, code = lock:acquire { timeout = left, count = count }
        else
            got, message, code = lock:acquire(left)
        end
    until got or code ~= "lost" or arguments.no_wait or process.now() >= deadline
    session:quiet()
    if not got then
        if code == "timeout" and not context.quiet then
            local path, holders = session:describe_holders(members)
            local what = arguments.no_wait and "refused" or "timed out after " .. checks.in_seconds(arguments.wait)
            message = path and format("%s: %s is %s", what, path, holders) or message
        end
        give_up(arguments, context, message, code)
    elseif said then
        context:say("acquired %s after %s", acquire.paths(arguments), context.output.duration(process.now() - started))
    end
    return got, members
end

--- Connects, and acquires the locks of the command line. Ends the subcommand if that fails.
---@param arguments table
---@param context table
---@return table # the session; its field `revoked` says whether another contender has asked for one of the locks
---@return table # the lock, or a multi
---@return table # the locks in the order of the command line
function acquire.open(arguments, context)
    local deadline = arguments.wait and process.now() + arguments.wait or huge
    local session = context:connect(arguments, arguments.wait ~= 0 and arguments.wait or nil)
    return session, wait_for(session, arguments, context, deadline)
end

--- Says which locks of a command line are lost: those that are not held any more, or all of them if the session is about to end.
function acquire.describe_loss(members)
    local all, gone = {}, {}
    for index, lock in ipairs(members) do
        all[index] = lock:path()
        if lock:remaining() <= 0 then
            gone[#gone + 1] = all[index]
        end
    end
    local paths = gone[1] and gone or all
    return format(paths[2] and "the locks %s were lost" or "the lock %s was lost", concat(paths, ", "))
end

return acquire
