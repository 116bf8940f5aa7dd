--- zklock doctor: finds what is wrong with servers, sessions, rights, clocks and locks, and says what to do.

local bug_report = require "zklock.cli.bug_report"
local codes = require "zklock.cli.codes"
local diagnosis = require "zklock.cli.diagnosis"
local core = require "zklock.core"
local inspect = require "zklock.inspect"
local locks = require "zklock.cli.locks"
local looking = require "zklock.cli.looking"
local process = require "zklock.process"
local Reads = require "zklock.inspect.reads"
local words = require "zklock.inspect.words"

local format = string.format

--- How many writes are measured, and the seconds between the two that show whether the servers' clock goes.
local WRITES, PAUSE = 10, 0.2

--- Exit codes: nothing is wrong, or nothing but what could not be checked; warnings; errors.
local WELL, WARNINGS, ERRORS = 0, 1, 2

--- The owner of a node that is not ephemeral, and the transaction that made the nodes which each server begins with.
local NO_ID = "0000000000000000"

--- The finding's level, and its style.
local STYLES = { error = "red", warning = "yellow", unknown = "cyan" }

local doctor = { summary = "Check servers, limits, rights, clocks and locks, and say what to do." }

function doctor.define(parser)
    parser:argument "path":argname "PATH":args "?":description("Check the locks at this path and below it (/). " ..
        "A node is created there, written to and deleted.")
    parser:mutex(looking.define(parser), parser:flag "--report":description(
        "Print one text for a bug report: versions, servers, settings and findings, without names or credentials."))
    parser:flag "--full":description "Leave addresses, paths and identities in the report."
end

--- Asks one server about itself, unless it is reached by TLS.
local function ask_server(address, tls)
    local server = { address = address.address }
    local answer
    answer, server.problem, server.code = (tls and words.refuse or words.ask)(address, "srvr")
    if not answer then
        return server
    end
    server.mode, server.version = answer:match "Mode: (%S+)", answer:match "version: ([%d.]+)"
    server.serving = server.mode ~= nil
    server.unread = {}
    local function ask(word, check)
        local told, problem, code = words.ask(address, word)
        if not told then
            server.unread[check] = { word = word, problem = problem, code = code }
        end
        return told
    end
    local conf = ask("conf", "limits")
    local function number(name)
        return conf and tonumber(conf:match(name .. "=(%-?%d+)"))
    end
    local tick, min, max = number "tickTime", number "minSessionTimeout", number "maxSessionTimeout"
    local connections = number "maxClientCnxns"
    if tick and min and max and connections then
        server.limits = { tick = tick / 1000, min = min / 1000, max = max / 1000, connections = connections }
    elseif conf then
        server.unread.limits = { word = "conf", problem = format("%s did not tell all its limits", address.address) }
    end
    server.connections = {}
    for line in (ask("cons", "maxClientCnxns") or ""):gmatch "[^\n]+" do
        local client = line:match "^%s*/(%S-):%d+%["
        if client then
            server.connections[client] = (server.connections[client] or 0) + 1
        end
    end
    return server
end

--- The nearest node of a path that exists.
local function nearest(client, path)
    while path ~= "/" and not client:exists(path) do
        path = path:match "^(.*)/[^/]*$"
        path = path == "" and "/" or path
    end
    return path
end

--- Creates a node, writes to it and deletes it. Notes times and codes.
local function measure(client, facts, path)
    facts.scratch = nearest(client, path)
    local prefix = facts.scratch == "/" and "/" or facts.scratch .. "/"
    local node = format("%szklock-doctor-%s", prefix, tostring(facts):match "%w+$")
    local created, stat, code = client:create(node, "", { ephemeral = true, acl = "open" })
    if not created then
        facts.create_code, facts.write_problem = code, stat
        return
    end
    facts.clock = { difference = stat.ctime - os.time() }
    facts.writes = {}
    local first, first_at = stat.ctime, process.now()
    for index = 1, WRITES do
        if index == WRITES then
            process.poll({}, PAUSE) -- the clock has to go on meanwhile
        end
        local before = process.now()
        local problem
        stat, problem = client:set(node, format("%d", index))
        if stat then
            facts.writes[#facts.writes + 1] = process.now() - before
            facts.clock.passed, facts.clock.ticked = process.now() - first_at, stat.mtime - first
        else
            facts.write_problem = problem
        end
    end
    facts.clock = facts.clock.passed and facts.clock
    facts.delete_code = select(3, client:delete(node)) -- the session's end deletes it in any case
end

--- The list of /zookeeper/config, which stays, as a text.
local READ = "world:anyone:r"

--- Whether a node keeps its list: it stays, and has not the list that / and others begin with, which servers do not count.
local function keeps_list(stat)
    return stat.ephemeral_owner == NO_ID and (stat.czxid ~= NO_ID or stat.aversion ~= 0)
end

--- Reads the ACLs of the locks' nodes and of all directories, as texts. Returns true; or nil, message, code.
local function read_acls(client, facts)
    local asked, seconds = {}, client:session_timeout()
    local reads = Reads.new(client, core.now() + seconds, seconds)
    facts.kept_acls = { [READ] = true }
    local function add_directory(path)
        if not asked[path] then
            asked[path] = true
            reads:add("acl", path, function(acl, stat)
                if acl and keeps_list(stat) then
                    facts.kept_acls[acl] = true
                end
            end)
        end
    end
    for _, state in ipairs(facts.states) do
        add_directory(state.path)
        for _, contender in ipairs(state.contenders) do
            add_directory(contender.node:match "^(/.*)/" or "/")
            reads:add("acl", contender.node, function(acl, _, code)
                contender.acl = acl or code ~= "no_auth" and nil
            end)
        end
    end
    return reads:run()
end

--- Everything that needs a session. Returns true; or nil, message, code.
local function examine(session, facts, path, servers)
    facts.session.granted = session.client:session_timeout()
    measure(session.client, facts, path)
    local states, unreadable, code = inspect.locks(session.client, path, { identities = true })
    if not states then
        return nil, unreadable, code
    end
    facts.states, facts.all_directories = states, path == "/" and not servers:find("/", 1, true) and not unreadable[1]
    local done, message
    done, message, code = read_acls(session.client, facts)
    if not done then
        return nil, message, code
    end
    facts.sessions, message, code = locks.add_sessions(session, states)
    return facts.sessions, message, code
end

--- Writes the findings. Returns the exit code.
local function report(arguments, context, facts, settings)
    local findings = diagnosis.findings(facts)
    local worst = WELL
    for _, finding in ipairs(findings) do
        if finding.level == "error" then
            worst = ERRORS
        elseif finding.level == "warning" and worst == WELL then
            worst = WARNINGS
        end
    end
    if arguments.json then
        context.output:line(context.output.json { findings = findings, servers = #facts.servers, nodes = #(facts.states or {}) })
    elseif arguments.report then
        for _, line in ipairs(bug_report.lines(facts, settings, arguments.path, findings, arguments.full)) do
            context.output:line(context.output.clean(line))
        end
    else
        for _, finding in ipairs(findings) do
            context.output:line(format("%s  %s: %s", context.output:styled(STYLES[finding.level], finding.level), finding.check,
                context.output.clean(finding.message)))
            context.output:line("    " .. context.output.clean(finding.advice))
        end
        context.output:line(format("servers: %d, nodes: %d, findings: %d", #facts.servers, #(facts.states or {}), #findings))
    end
    return worst
end

function doctor.run(arguments, context)
    local path = arguments.path or "/"
    if arguments.full and not arguments.report then
        return context:fail(codes.FAILED, "--full belongs to --report")
    end
    local settings = context.check(require("zklock.cli.settings").read(arguments))
    local facts = { servers = {}, session = { wished = settings.session_timeout } }
    for index, address in ipairs(words.addresses(settings.servers)) do
        facts.servers[index] = ask_server(address, settings.tls)
    end
    local session, problem, code = require("zklock.cli.session").connect(settings, context)
    context.session = session or false
    if session then
        local done
        done, problem, code = examine(session, facts, path, settings.servers)
        problem = not done and problem or nil
    end
    if problem then
        facts.session.problem, facts.session.code = problem, code
    end
    return report(arguments, context, facts, settings)
end

return doctor
