--- The findings of `zklock doctor`, by measurements that are given here. spec/contract/command_doctor_spec.lua measures servers.

local bug_report = require "zklock.cli.bug_report"
local diagnosis = require "zklock.cli.diagnosis"
local files = require "spec.support.files"

local load_text = rawget(_G, "loadstring") or load

--- Returns facts of an ensemble in which all is well, with some of them replaced.
local function facts(changes)
    local limits = { tick = 2, min = 4, max = 40, connections = 60 }
    local all = {
        servers = {
            { address = "a:1", serving = true, mode = "leader", version = "3.9.4", limits = limits, connections = {} },
            { address = "b:1", serving = true, mode = "follower", version = "3.9.4", limits = limits, connections = {} },
            { address = "c:1", serving = true, mode = "follower", version = "3.9.4", limits = limits, connections = {} }
        },
        session = { wished = 30, granted = 30 },
        writes = { 0.002, 0.005 },
        clock = { difference = 0.3, passed = 0.5, ticked = 0.5 },
        scratch = "/",
        states = {},
        sessions = { known = true, connections = true, by_id = {}, problems = {} }
    }
    for key, value in pairs(changes or {}) do
        all[key] = value
    end
    return all
end

--- Returns "check level" of each finding.
local function findings(changes)
    local list = {}
    for index, finding in ipairs(diagnosis.findings(facts(changes))) do
        assert(finding.message ~= "" and finding.advice ~= "")
        list[index] = finding.check .. " " .. finding.level
    end
    return list
end

--- Returns the servers with fields of one of them replaced.
local function servers(index, changes)
    local list = facts().servers
    for key, value in pairs(changes) do
        list[index][key] = value
    end
    return list
end

local function lock(changes)
    local state = { path = "/l", kind = "mutex", contenders = {}, others = {}, next_sequence = 5 }
    for key, value in pairs(changes) do
        state[key] = value
    end
    return { states = { state } }
end

describe("zklock doctor", function()
    it("finds nothing where all is well", function()
        assert.same({}, findings())
    end)

    it("tells a server that is down from a lost quorum", function()
        local down = { problem = "c:1: connection refused", code = "unreachable" }
        down.serving = false
        assert.same({ "server warning" }, findings { servers = servers(3, down) })
        local list = servers(3, down)
        list[2].serving, list[2].mode = false, nil
        assert.same({ "server warning", "server warning", "quorum error", "session error" },
            findings { servers = list, session = { wished = 30, problem = "no connection" } })
    end)

    it("says what to do about a missing chroot", function()
        local session = { wished = 30, problem = "the chroot '/app' does not exist", code = "no_node" }
        assert.matches("Create the chroot", diagnosis.findings(facts { session = session })[1].advice, 1, true)
    end)

    it("does not call a server dead that has as many connections as it allows, or that may not be asked", function()
        for _, code in ipairs { "full", "forbidden" } do
            local list = { { address = "a:1", problem = "a:1 refuses", code = code } }
            local level = code == "full" and "warning" or "unknown"
            assert.same({ "server " .. level, "quorum unknown", "session error" },
                findings { servers = list, session = { wished = 30, problem = "no connection", code = "disconnected" } })
        end
    end)

    it("says that credentials are missing", function()
        local found = diagnosis.findings(facts { session = { wished = 30, problem = "not let in", code = "auth_failed" } })
        assert.truthy(found[1].advice:find("ZKLOCK_AUTH", 1, true), found[1].advice)
    end)

    it("finds servers of several ensembles", function()
        assert.same({ "quorum error" }, findings { servers = servers(2, { mode = "standalone" }) })
    end)

    it("knows which releases forget what they have acknowledged, and which may not start again", function()
        local forgets, stays_down = "may forget what it has acknowledged", "may not start again"
        local expected = {
            ["3.4.14"] = forgets, ["3.7.2"] = forgets, ["3.8.0"] = forgets, ["3.8.3"] = forgets, ["3.8.4"] = stays_down,
            ["3.8.5"] = false, ["3.9.1"] = forgets, ["3.9.2"] = stays_down, ["3.9.3"] = stays_down, ["3.9.4"] = false,
            ["3.10.0"] = false, ["4.0.0"] = false
        }
        for version, defect in pairs(expected) do
            local found = diagnosis.findings(facts { servers = servers(1, { version = version }) })
            assert.equal(defect and 1 or 0, #found, version)
            assert(not defect or found[1].check == "version" and found[1].message:find(defect, 1, true), version)
            assert(not defect or found[1].message:find(stays_down, 1, true), version) -- such as Debian 12's 3.8.0
        end
        local several = servers(1, { version = "3.8.4" })
        several[2].version = "3.8.4"
        local found = diagnosis.findings(facts { servers = several })
        assert.equal(1, #found)
        assert.truthy(found[1].message:find("ZooKeeper 3.8.4 of a:1, b:1 may not", 1, true), found[1].message)
    end)

    it("compares the limits of the servers, and the session with the wish", function()
        assert.same({ "limits warning" },
            findings { servers = servers(2, { limits = { tick = 2, min = 4, max = 20, connections = 60 } }) })
        assert.same({ "session timeout warning" }, findings { session = { wished = 60, granted = 40 } })
        assert.same({ "session timeout warning" }, findings { session = { wished = 1, granted = 4 } })
    end)

    it("reports what a server does not tell, but not of a server that does not serve", function()
        local unread = { limits = { word = "conf", problem = "b:1 does not allow the word conf", code = "forbidden" } }
        local facts_of_one = facts { servers = servers(2, { unread = unread }) }
        assert.same({
            { check = "limits", level = "unknown", message = unread.limits.problem,
                advice = "The limits of this server were not compared. Allow the word conf." }
        }, diagnosis.findings(facts_of_one))
        unread.maxClientCnxns = { word = "cons", problem = "b:1 does not answer", code = "silent" }
        assert.same({ "limits unknown", "maxClientCnxns unknown" }, findings { servers = servers(2, { unread = unread }) })
        assert.same({ "server warning" }, findings { servers = servers(2, { unread = unread, serving = false }) })
    end)

    it("warns before an address has used up its connections", function()
        assert.same({}, findings { servers = servers(1, { connections = { ["10.0.0.1"] = 47 } }) })
        assert.same({ "maxClientCnxns warning" }, findings { servers = servers(1, { connections = { ["10.0.0.1"] = 48 } }) })
    end)

    it("compares writes with the lease", function()
        assert.same({}, findings { writes = { 0.1, 2.9 } })
        assert.same({ "writes warning" }, findings { writes = { 0.1, 3 } })
        assert.same({ "writes error" }, findings { writes = { 15, 0.1 } })
    end)

    it("reports writes that failed", function()
        assert.same({ "writes warning" }, findings { write_problem = "no answer" })
        assert.same({ "writes warning", "writes error" }, findings { write_problem = "no answer", writes = { 15 } })
        assert.same({ "writes error" }, findings { write_problem = "no answer", writes = {} })
        assert.same({ "acl error" }, findings { write_problem = "not allowed", create_code = "no_auth" })
    end)

    it("finds a clock that stands, and one that differs", function()
        assert.same({ "clock error" }, findings { clock = { difference = 0, passed = 0.4, ticked = 0 } })
        assert.same({ "clock warning" }, findings { clock = { difference = 60, passed = 0.4, ticked = 0.4 } })
        assert.same({ "clock warning" }, findings { clock = { difference = -60, passed = 0.4, ticked = 0.4 } })
    end)

    it("tells the right to create from the right to delete", function()
        assert.same({ "acl error" }, findings { create_code = "no_auth" })
        assert.same({ "acl error" }, findings { delete_code = "no_auth" })
    end)

    it("finds lists that come and go with nodes, on servers that may not bear that", function()
        local MASKED = "digest:fleet:x:cdrwa"
        for _, case in ipairs {
            -- versions: of two servers; list: of the nodes; kept: by directories
            { versions = { "3.9.4", "3.10.0" }, list = "a", kept = "b" },
            { versions = { "3.9.4", "3.10.0" }, list = false, kept = "b" },
            { versions = { "3.9.4" }, list = "a", kept = "b" },
            { versions = { "3.9.4", "3.9.3" }, list = "a", kept = "a" },
            { versions = { "3.9.4", "3.9.3" }, list = "a", kept = "b", found = "warning" },
            { versions = { "3.9.4", "3.9.3" }, list = "a", kept = "b", partly = true, found = "unknown" },
            { versions = { "3.9.3" }, list = "a", kept = "b", found = "warning" },
            { versions = { "3.8.0" }, list = "a", kept = "b", found = "warning" },
            { versions = { "3.9.3" }, list = false, kept = "a", found = "unknown" },
            { versions = { "3.9.3" }, list = MASKED, kept = MASKED, found = "unknown" },
            { versions = { "3.9.3" }, list = MASKED, kept = "a", found = "warning" },
            { versions = {}, list = "a", kept = "b", found = "unknown" },
            { versions = {}, list = "a", kept = "a" }
        } do
            local list = case.list
            local changes = lock { contenders = { { node = "/l/x", name = "x", acl = list }, { node = "/l/y", acl = list } } }
            changes.servers = { { address = "a:1", serving = true, mode = "leader" }, { address = "b:1", serving = true } }
            for index, version in ipairs(case.versions) do
                changes.servers[index].version = version
            end
            changes.kept_acls, changes.all_directories = { [case.kept] = true }, not case.partly
            local found
            for _, finding in ipairs(diagnosis.findings(facts(changes))) do
                if finding.check == "acl" then
                    assert(finding.message:find "^1 locks have nodes .* for example /l", finding.message)
                    assert.equal(case.partly or false, finding.message:find("no directory that was read has", 1, true) ~= nil)
                    found = finding.level
                end
            end
            assert.equal(case.found, found, case.kept .. table.concat(case.versions, " "))
        end
    end)

    it("finds strays, numbers near their end, and nodes that are no contenders", function()
        local contender = { node = "/l/x", name = "x", session = "1" }
        assert.same({}, findings(lock { contenders = { contender } }))
        contender.session_state = "gone"
        assert.same({ "stray error" }, findings(lock { contenders = { contender } }))
        contender.released = true
        assert.same({}, findings(lock { contenders = { contender } }))
        assert.same({ "stray error" }, findings(lock { contenders = { { node = "/l/x", name = "x", persistent = true } } }))
        assert.same({}, findings(lock { next_sequence = 1073741823 }))
        assert.same({ "numbers warning" }, findings(lock { next_sequence = 1073741824 }))
        assert.same({ "numbers error" }, findings(lock { next_sequence = 2147418111 }))
        assert.same({ "numbers error" }, findings(lock { next_sequence = -5 }))
        assert.same({ "directory warning" }, findings(lock { others = { "config" } }))
        assert.same({}, findings(lock { others = { "config" }, kind = "none" }))
    end)

    it("warns before the end of a session is too large for its servers", function()
        local function held(count, session)
            local contenders = {}
            for index = 1, count do
                contenders[index] = { node = "/l/" .. ("x"):rep(993), session = session }
            end
            return { path = "/l", kind = "mutex", contenders = contenders, others = {} }
        end
        assert.same({}, findings { states = { held(400, "a"), held(316, "a"), held(600, "b"), held(800) } })
        local changes = { states = { held(400, "a"), held(317, "a"), held(600, "b") } }
        assert.same({ "session size warning" }, findings(changes))
        assert.truthy(diagnosis.findings(facts(changes))[1].message:find "^717 nodes of the session a have paths of 700 KB")
    end)

    it("says what could not be checked", function()
        assert.same({ "sessions unknown" },
            findings { sessions = { known = false, connections = true, by_id = {}, problems = { "a:1 does not allow dump" } } })
        local list = servers(1, { problem = "needs LuaSocket", code = "unsupported" })
        assert.same({ "server unknown" }, findings { servers = list })
    end)

    it("tells each deadlock once", function()
        local function taken(path, holder, waiter)
            return { path = path, kind = "mutex", others = {}, contenders = {
                { node = path .. "/1", mode = "exclusive", holder = true, identity = holder },
                { node = path .. "/2", mode = "exclusive", holder = false, identity = waiter }
            } }
        end
        local a, b, c = taken("/a", "one", "two"), taken("/b", "two", "one"), taken("/c", "three", "one")
        assert.same({ "deadlock warning" }, findings { states = { a, b, c } })
        local message = diagnosis.findings(facts { states = { a, b, c } })[1].message
        assert.equal("one holds /a and waits for /b; two holds /b and waits for /a", message)
        assert.same({}, findings { states = { a, c } })
    end)
end)

describe("the text for a bug report", function()
    local NODE = "_c_01234567-89ab-4cde-8f01-23456789abcd-lock-0000000003"

    --- Returns the report on facts, as one text.
    local function report(changes, settings, keeps_names)
        local all = facts(changes)
        local written = bug_report.lines(all, settings, "/locks", diagnosis.findings(all), keeps_names)
        return table.concat(written, "\n")
    end

    local SETTINGS = {
        servers = "zk1.example.com:2181,zk2:2181,[fe80::1]:2181/tenant", session_timeout = 30, connect_timeout = 10,
        auth = "digest:fleet:s3cret", acl = "creator",
        tls = { ca_file = "keys/ca.pem", key_file = "/etc/keys/fleet.key", key_password = "op3n" }
    }

    local function broken()
        local list = facts().servers
        list[1].address, list[2].address, list[3].address = "zk1.example.com:2181", "zk2:2181", "[fe80::1]:2181"
        list[1].connections = { ["10.0.0.7"] = 59 }
        list[2].problem = "zk2:2181/tenant: connection refused, says zk1.example.com; 192.0.2.1 and [fe80::2] too"
        return {
            servers = list,
            session = { wished = 30, code = "tls_failed",
                problem = "cannot read '/etc/keys/fleet.key' and keys/ca.pem (of /home/bob/x.pem). No node /tenant/locks." },
            states = {
                { path = "/locks/pay roll", kind = "mutex", others = { "notes" }, contenders = {
                    { node = "/locks/pay roll/" .. NODE, name = NODE, mode = "exclusive", holder = true, persistent = true,
                        identity = "web1:47", acl = "digest:fleet:x:cdrwa" },
                    { node = "/locks/pay roll/b", name = "b", mode = "exclusive", identity = "a" }
                } },
                { path = "/locks/x", kind = "mutex", others = {}, contenders = {
                    { node = "/locks/x/1", name = "1", mode = "exclusive", holder = true, identity = "a" },
                    { node = "/locks/x/2", name = "2", mode = "exclusive", identity = "web1:47" }
                } }
            }
        }
    end

    it("has no name of a server, a path, a program or a file, and no credential", function()
        local text = report(broken(), SETTINGS)
        for _, secret in ipairs {
            "zk1", "zk2", "example", "fe80", "10.0.0.7", "192.0.2.1", "tenant", "locks/", "pay", "roll", "notes", "web1", "fleet",
            "s3cret", "op3n", "keys", "pem", "bob"
        } do
            assert.is_nil(text:find(secret, 1, true), secret .. " is in: " .. text)
        end
        assert.truthy(text:find("server-2:2181/path-1: connection refused, says server-1; host-", 1, true), text)
        assert.truthy(text:find("error  stray: /path-3/" .. NODE .. " is persistent", 1, true), text)
        assert.truthy(text:find("client-1 holds /path-3 and waits for /path-4; client-2 holds /path-4", 1, true), text)
        assert.truthy(text:find("settings: connect timeout 10 s, acl creator, credentials, TLS, chroot", 1, true), text)
    end)

    it("has no names of servers that only the configuration of the ensemble names, nor parts of paths with spaces", function()
        local contender = {
            node = "/the orders/leases/_c_9c1c5e21-2c14-4b3d-9a9b-0f5d3b7d6a10-lease-0000000001", identity = "web-1:7",
            name = "_c_9c1c5e21-2c14-4b3d-9a9b-0f5d3b7d6a10-lease-0000000001", persistent = true
        }
        local text = report({
            scratch = "/the shop", create_code = "no_auth",
            session = { wished = 30, problem = "cannot connect to 'inner.example:2181,inner2:2181': Connection refused" },
            states = { { path = "/the orders", kind = "semaphore", contenders = { contender }, others = {} } }
        }, { servers = "a:1,b:1,c:1", connect_timeout = 10 })
        for _, name in ipairs { "inner", "orders", "shop" } do
            assert.is_nil(text:find(name, 1, true), text)
        end
    end)

    it("has all names, and no credential, if it is asked for them", function()
        local text = report(broken(), SETTINGS, true)
        assert.truthy(text:find("zk2:2181/tenant: connection refused, says zk1.example.com", 1, true), text)
        assert.truthy(text:find("web1:47 holds /locks/pay roll", 1, true), text)
        assert.is_nil(text:find("s3cret", 1, true) or text:find("op3n", 1, true), text)
    end)

    it("says what it is about, and what doctor knows of servers and session", function()
        local text = report({}, { servers = "a:1,b:1,c:1", connect_timeout = 10 })
        for _, line in ipairs {
            "zklock: " .. require "zklock.version", "command: source, ", "library: source, ", "C part: ",
            ", built with libzookeeper 3.", "Lua: ", "system: ", ", Linux ",
            "server-2:1: ZooKeeper 3.9.4, follower, sessions of 4 to 40 s, tickTime 2 s", "session: 30 s asked for, 30 s granted",
            "writes: 2, the slowest 0.005 s", "servers' clock: 0.3 s ahead", "locks: 0, contenders: 0, findings: 0"
        } do
            assert.truthy(text:find(line, 1, true), line .. " is not in: " .. text)
        end
    end)

    it("tells bytecode from source", function()
        local directory = files.make_directory()
        local name, path = directory .. "/compiled.lua", package.path
        files.write(name, string.dump(assert(load_text "return 1")))
        package.path = directory .. "/?.lua"
        local found = bug_report.module "compiled"
        files.write(name, "return 1")
        local source = bug_report.module "compiled"
        package.path = path
        assert.same({ "bytecode, " .. name, "source, " .. name }, { found, source })
        assert(os.remove(name) and os.remove(directory))
    end)
end)
