--- cli.diagnosis: what is wrong with an ensemble for locks, and what to do. Pure functions of what `zklock doctor` has measured.
--
-- *Facts* are a table. A field that is nil could not be measured.
--
--   servers      list of: address; problem, code (no answer to srvr); serving; mode; version; limits {tick, min, max: seconds;
--                connections: maxClientCnxns}; connections: how many there are from each client address; unread: the check
--                that is not possible -> { word, problem, code } of the word that the server did not answer
--   session      { wished, granted } seconds; or problem, code: no session
--   writes       list of seconds that each write took; write_problem: the message of one that failed
--   clock        { difference: servers' clock minus ours, seconds; passed: seconds between two writes by our monotonic clock;
--                ticked: between the times that the servers noted for them }
--   scratch      path where a node was created and deleted; create_code, delete_code: codes of failures
--   states       lock states of zklock.inspect, with sessions; `acl` of a contender: its node's list, as text;
--                false: it may not be read
--   kept_acls    set of the lists that stay, as texts
--   all_directories  true: no list of another directory stays
--   sessions     of zklock.inspect.sessions
--
-- A finding is { check, level, message, advice }. Its level is "error" (locks do not work, or not safely), "warning" (they may stop
-- working) or "unknown" (it could not be checked).

local core = require "zklock.core"
local inspect = require "zklock.inspect"
local Waits = require "zklock.inspect.waits"

local max, floor = math.max, math.floor
local concat = table.concat
local format = string.format

local diagnosis = {}

--- A write that takes this part of the session timeout makes a warning; the lease lasts for a half, heartbeats come each fifth.
local SLOW, TOO_SLOW = 1 / 10, 1 / 2

--- Seconds that clocks may differ.
local CLOCK_DIFFERENCE = 5

--- The part of the connections of one address that may be used.
local FULL = 0.8

--- Bytes of paths of one session's nodes that make a warning, and of a path's length.
local LARGE, LENGTH = 700 * 1024, 4

--- The defects of releases that reach locks, and the first release of each branch without them. Older branches have them.
local DEFECTS = "may forget what it has acknowledged, so that two clients hold one lock (ZOOKEEPER-4643, 4646, 4685, 4785). " ..
    "It also tells names of closed directories (CVE-2024-23944) or, where its package corrects that, "
local MENDED = { ["3.8"] = 4, ["3.9"] = 2 }
local OLDEST_MENDED = 8 -- 3.8

--- The same for lists that come and go with nodes. The defect came with the correction of CVE-2024-23944, which some packages of
-- older releases have, too.
local LISTS_DEFECT = "may not start again if ACLs come and go with nodes (ZOOKEEPER-4846)"
local LISTS_MENDED = { ["3.8"] = 5, ["3.9"] = 4 }
local RECOMMENDED = "Upgrade to 3.8.5, 3.9.4 or later"

local function add(findings, check, level, message, advice)
    findings[#findings + 1] = { check = check, level = level, message = message, advice = advice }
end

local function is_before(version, mended)
    local branch, minor, patch = version:match "^(3%.(%d+))%.(%d+)"
    if not branch then
        return false
    end
    return tonumber(minor) < OLDEST_MENDED or tonumber(patch) < (mended[branch] or 0)
end

local function check_servers(facts, findings)
    local serving, leaders, unknown = 0, 0, 0
    local versions, old = {}, {} -- those with defects, and the addresses of each
    for _, server in ipairs(facts.servers) do
        if server.code == "unsupported" or server.code == "forbidden" then
            unknown = unknown + 1
            add(findings, "server", "unknown", server.problem, "Without it, versions, limits and connections are not checked.")
        elseif server.code == "full" then
            unknown = unknown + 1
            add(findings, "server", "warning", server.problem, "Raise maxClientCnxns in its zoo.cfg, or end clients here. " ..
                "If it is a proxy: perhaps nothing serves behind it. If its port is for TLS: see the options of TLS.")
        elseif server.problem then
            add(findings, "server", "warning", server.problem, "Start the server, or take it out of the list of servers.")
        elseif not server.serving then
            add(findings, "server", "warning", format("%s does not serve: it has no quorum", server.address),
                "Look into its log; a majority of the servers must reach each other.")
        else
            serving = serving + 1
            leaders = leaders + ((server.mode == "leader" or server.mode == "standalone") and 1 or 0)
        end
        if server.version and is_before(server.version, LISTS_MENDED) then
            if not old[server.version] then
                old[server.version] = {}
                versions[#versions + 1] = server.version
            end
            local addresses = old[server.version]
            addresses[#addresses + 1] = server.address
        end
    end
    for _, version in ipairs(versions) do
        add(findings, "version", "warning", format("ZooKeeper %s of %s %s%s", version, concat(old[version], ", "),
            is_before(version, MENDED) and DEFECTS or "", LISTS_DEFECT), RECOMMENDED .. ".")
    end
    local count = #facts.servers
    if facts.session.problem and (serving + unknown) * 2 <= count then
        add(findings, "quorum", "error", format("%d of %d servers serve", serving, count),
            "Without a majority no lock can be acquired or released. Start servers.")
    elseif facts.session.problem and serving == 0 then
        add(findings, "quorum", "unknown", "no server is known to serve", "Without a majority no lock can be acquired or released.")
    elseif serving > 0 and leaders > 1 and count > 1 then
        add(findings, "quorum", "error", format("%d of %d servers are leaders or stand alone", leaders, count),
            "They are several ensembles: clients of different servers do not exclude each other. Mend the list of servers.")
    end
end

--- Advice for a session that cannot be opened, by the code.
local SESSION_ADVICE = {
    auth_failed = "The servers demand credentials, or refuse yours: give them by --auth-file or ZKLOCK_AUTH.",
    no_auth = "The rights of the node do not allow this: give credentials by --auth-file or ZKLOCK_AUTH.",
    no_node = "Create the chroot once, or correct the list of servers.",
    tls_failed = "See the options of TLS."
}

local function check_session(facts, findings)
    local session = facts.session
    if session.problem then
        add(findings, "session", "error", session.problem, SESSION_ADVICE[session.code] or "See the servers above and the network.")
    elseif session.granted ~= session.wished then
        add(findings, "session timeout", "warning",
            format("the servers grant a session of %g s, not the %g s that were asked for", session.granted, session.wished),
            "Set minSessionTimeout and maxSessionTimeout in zoo.cfg, or ask for what they grant.")
    end
end

--- The limits of one server that matter, in a line.
function diagnosis.describe_limits(limits)
    return format("sessions of %g to %g s, tickTime %g s, maxClientCnxns %g",
        limits.min, limits.max, limits.tick, limits.connections)
end
local describe_limits = diagnosis.describe_limits

--- Says what doctor could not check because a server did not answer.
local UNCHECKED = {
    limits = "The limits of this server were not compared.", maxClientCnxns = "The connections to this server were not counted."
}

local function check_limits(facts, findings)
    local first
    for _, server in ipairs(facts.servers) do
        local limits = server.limits
        if limits and first and describe_limits(limits) ~= describe_limits(first.limits) then
            add(findings, "limits", "warning", format("%s has %s, but %s has %s", server.address, describe_limits(limits),
                first.address, describe_limits(first.limits)),
                "Give all servers the same limits: a client may connect to any of them.")
        end
        first = first or limits and server
        for _, check in ipairs { "limits", "maxClientCnxns" } do
            local unread = server.serving and server.unread and server.unread[check]
            if unread then
                add(findings, check, "unknown", unread.problem, UNCHECKED[check] ..
                    (unread.code == "forbidden" and format(" Allow the word %s.", unread.word) or " Ask again."))
            end
        end
        for address, count in pairs(limits and limits.connections > 0 and server.connections or {}) do
            if count >= limits.connections * FULL then
                add(findings, "maxClientCnxns", "warning",
                    format("%s has %d connections from %s, and allows %d", server.address, count, address, limits.connections),
                    "Raise maxClientCnxns in zoo.cfg, or use one client for a process.")
            end
        end
    end
end

local function check_writes(facts, findings)
    if facts.write_problem and facts.create_code ~= "no_auth" then
        local some_succeeded = facts.writes and facts.writes[1]
        add(findings, "writes", some_succeeded and "warning" or "error", "a write failed: " .. facts.write_problem,
            "Without writes no lock can be acquired or released. See the servers' logs, and repeat this.")
    end
    local granted = facts.session.granted
    local slowest = 0
    for _, seconds in ipairs(facts.writes or {}) do
        slowest = max(slowest, seconds)
    end
    if not granted or slowest < granted * SLOW then
        return
    end
    add(findings, "writes", slowest >= granted * TOO_SLOW and "error" or "warning",
        format("a write took %.3f s; the lease of a session of %g s lasts %g s without an answer", slowest, granted, granted / 2),
        "Give the servers a disk of their own for the transaction log, or ask for a longer session.")
end

local function check_clock(facts, findings)
    local clock = facts.clock
    if not clock then
        return
    elseif clock.passed > 0.1 and clock.ticked <= 0 then
        add(findings, "clock", "error", format("%.1f s have passed, and the servers' clock stands", clock.passed),
            "Mend the server's clock: sessions may not end, or end too late.")
    elseif clock.difference > CLOCK_DIFFERENCE or clock.difference < -CLOCK_DIFFERENCE then
        add(findings, "clock", "warning", format("the servers' clock differs from ours by %d s", floor(clock.difference + 0.5)),
            "Locks do not depend on it, but ages of holders are wrong by so much. Use NTP.")
    end
end

local function check_acl(facts, findings)
    local path = facts.scratch
    if facts.create_code == "no_auth" then
        add(findings, "acl", "error", format("no node may be created at %s", path), "Grant CREATE on it, or give credentials.")
    elseif facts.delete_code == "no_auth" then
        add(findings, "acl", "error", format("nodes may be created at %s, but not deleted", path),
            "Grant DELETE on it: otherwise a lock that was released stays taken until its session ends.")
    end
end

--- Whether the server hides a part of a list, because the client may not administer the node.
local function is_masked(list)
    return list:find "digest:[^:]*:x:" ~= nil
end

--- Finds locks whose nodes have lists that no directory has, unless no server is known to have the defect, and some not to have it.
local function check_lists(facts, findings)
    local known, defective = false, false
    for _, server in ipairs(facts.servers) do
        known = known or server.version ~= nil
        defective = defective or server.version ~= nil and is_before(server.version, LISTS_MENDED)
    end
    if known and not defective then
        return
    end
    local lone, hidden = {}, {}
    for _, state in ipairs(facts.states or {}) do
        for _, contender in ipairs(state.contenders) do
            local acl, list = contender.acl, nil
            if acl == false or acl and facts.kept_acls[acl] and is_masked(acl) then
                list = hidden
            elseif acl and not facts.kept_acls[acl] then
                list = lone
            end
            if list and list[#list] ~= state.path then
                list[#list + 1] = state.path
            end
        end
    end
    if lone[1] then
        local all = facts.all_directories
        add(findings, "acl", defective and all and "warning" or "unknown", format("%d locks have nodes with an ACL that no " ..
            "directory %shas, for example %s: a server before 3.8.5 or 3.9.4 may not start again (\"Failed to fetch acls\", " ..
            "ZOOKEEPER-4846)", #lone, all and "" or "that was read ", lone[1]),
            (all and "" or "Check the path / without a chroot, as a client that may read all directories. ") ..
            RECOMMENDED .. ", or make a node that stays with this ACL: docs/security.md.")
    end
    if hidden[1] then
        add(findings, "acl", "unknown", format("%d locks have nodes whose ACL may not be read, for example %s", #hidden, hidden[1]),
            "Whether a directory has the same ACL (ZOOKEEPER-4846) was not checked, which needs the rights READ and ADMIN. " ..
            "Use the credentials of the locks' programs.")
    end
end

local function check_locks(facts, findings)
    for _, state in ipairs(facts.states or {}) do
        for _, contender in ipairs(state.contenders) do
            local stray = inspect.stray(contender)
            if stray then
                add(findings, "stray", "error", format("%s %s", contender.node, stray == "persistent" and
                    "is persistent: no session's end deletes it" or "belongs to a session that is gone"),
                    format("If nobody works under it: zklock break %s --node %s --yes", state.path, contender.name))
            end
        end
        local number = state.next_sequence or 0
        if number < 0 or number >= core.SEQUENCE_WARN then
            local over = number < 0 or number >= core.SEQUENCE_LIMIT
            add(findings, "numbers", over and "error" or "warning", format("the next contender at %s gets the number %d%s",
                state.path, number, over and ": no lock is granted any more" or ", of 2147483647"),
                "When nobody uses the lock, delete its directory: the numbers then begin again.")
        end
        if state.kind ~= "none" and state.others[1] then
            add(findings, "directory", "warning", format("%s has children that are no contenders: %s", state.path,
                concat(state.others, ", ", 1, #state.others > 5 and 5 or #state.others)),
                "zklock ignores them; other clients may wait for them or fail. Keep other nodes elsewhere.")
        end
    end
    if facts.sessions and not (facts.sessions.known and facts.sessions.connections) then
        add(findings, "sessions", "unknown", facts.sessions.problems[1] or "the servers did not list their sessions",
            "Nodes whose session is gone were not looked for. Allow the words cons and dump (4lw.commands.whitelist).")
    end
end

--- Finds sessions whose end, which names all of their nodes, will soon be too large for the servers.
local function check_sizes(facts, findings)
    local sessions, counts, sizes = {}, {}, {}
    for _, state in ipairs(facts.states or {}) do
        for _, contender in ipairs(state.contenders) do
            local session = contender.session
            if session then
                sessions[#sessions + 1] = not counts[session] and session or nil
                counts[session] = (counts[session] or 0) + 1
                sizes[session] = (sizes[session] or 0) + #contender.node + LENGTH
            end
        end
    end
    for _, session in ipairs(sessions) do
        if sizes[session] >= LARGE then
            add(findings, "session size", "warning", format("%d nodes of the session %s have paths of %d KB: if it ends with " ..
                "more than jute.maxbuffer, 1 MB by default, the servers break (ZOOKEEPER-4306)", counts[session], session,
                floor(sizes[session] / 1024)), "Let several clients hold these locks, or give them shorter paths.")
        end
    end
end

--- Finds programs that wait for each other.
local function check_deadlocks(facts, findings)
    for _, deadlock in ipairs(Waits.new(facts.states or {}).deadlocks) do
        add(findings, "deadlock", "warning", Waits.describe(deadlock), "Unless one of them waits in a thread of its own, " ..
            "end one, or ask it by zklock revoke. Let programs take these locks in one order, or with a timeout.")
    end
end

--- Returns the findings, in the order of the checks.
function diagnosis.findings(facts)
    local findings = {}
    for _, check in ipairs { check_servers, check_session, check_limits, check_writes, check_clock, check_acl, check_lists,
        check_locks, check_sizes, check_deadlocks } do
        check(facts, findings)
    end
    return findings
end

return diagnosis
