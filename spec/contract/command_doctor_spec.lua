--- `zklock doctor` against real servers, and against sockets that behave like broken ones.

local cluster = require "spec.support.cluster"
local commands = require "spec.support.commands"
local credentials = require "spec.support.credentials"
local dkjson = require "dkjson"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local socket = require "socket"

--- Runs `zklock doctor` on a path. Returns its findings, and its exit code.
---@param options any of commands.run, and `within`: seconds for the connection (60)
local function doctor(path, options)
    local within = options and options.within or 60
    local result = commands.run({ "doctor", "--json", "--connect-timeout", tostring(within), path }, options)
    local object = assert(dkjson.decode(result.output), result.errors)
    return object.findings, result.status
end

--- Returns the first finding of a check whose message contains a text; nil if there is none.
local function find(findings, check, text)
    for _, finding in ipairs(findings) do
        if finding.check == check and finding.message:find(text or "", 1, true) then
            return finding
        end
    end
    return nil
end

--- Runs `zklock doctor` until `check`, which gets the findings, returns nil. If `check` returns a problem, that is a failure. A
-- slow run is repeated instead: the doctor waits two seconds for each answer, and a server may have answered too late.
local function doctor_until(check, path, options)
    local findings, status
    eventually(function()
        local began = socket.gettime()
        findings, status = doctor(path, options)
        local problem = check(findings)
        local in_time = socket.gettime() - began < (options.within or 0) + 2
        assert(not problem or not in_time, problem)
        return not problem, problem
    end)
    return findings, status
end

--- Runs `zklock doctor`, as doctor_until does. Each of these pairs of a check and a text must be among its findings. Returns the
-- findings, and the exit code.
local function doctor_finds(wanted, path, options)
    return doctor_until(function(findings)
        for _, pair in ipairs(wanted) do
            if not find(findings, pair[1], pair[2]) then
                return pair[1] .. " is not found: " .. dkjson.encode(findings)
            end
        end
        return nil
    end, path, options)
end

describe("zklock doctor", function()
    after_each(fixture.clean)

    it("finds the defects of the server's release, and nothing else at a lock that is well", function()
        local path = fixture.path()
        fixture.join(path)
        local findings, status
        eventually(function() -- a server that is busy for seconds is a finding
            findings, status = doctor(path)
            for _, finding in ipairs(findings) do
                if finding.check ~= "version" then
                    return false, finding.message
                end
            end
            return true
        end)
        assert.equal(findings[1] and 1 or 0, status)
        assert.equal(1, #fixture.children(path))
    end)

    it("finds a right to create without the right to delete", function()
        local path = fixture.path()
        local owner = fixture.client()
        assert(owner:create(path, "", { acl = { { scheme = "world", id = "anyone", perms = "rc" } } }))
        local findings, status = doctor(path)
        assert.truthy(find(findings, "acl", "not deleted"))
        assert.equal(2, status)
        fixture.await_children(path, 0)
    end)

    describe("where the root is the only directory", function()
        local LIMITED = { { scheme = "world", id = "anyone", perms = "rwcd" } }
        local server, text

        --- Returns the level of the finding about the lists of the lock's nodes, and its message.
        local function judge(path, variables, servers)
            local found = doctor(path, { servers = servers or server.servers, variables = variables })
            local finding = find(found, "acl", "1 locks have nodes ") or find(found, "acl") or {}
            return finding.level, finding.message
        end

        before_each(function()
            server = cluster.start()
            fixture.on_clean(function()
                server:stop()
            end)
            assert(fixture.client(nil, server.servers):create("/locks", "", { acl = LIMITED }))
            text = "1 locks have nodes with an ACL that no directory has, for example /locks:"
        end)

        it("finds locks whose nodes have an ACL that no directory has", function()
            if server:has "keeps_acls" then
                return pending("this server has the correction")
            end
            local client = fixture.client(nil, server.servers)
            assert(client:mutex("/locks"):acquire(10))
            assert(client:create("/locks/session", "", { ephemeral = true }))
            local level, message = judge "/" -- the server's own nodes keep no list
            assert.equal("warning", level)
            assert.truthy(message:find(text, 1, true), message)
            for _, case in ipairs { { "/locks", server.servers }, { "/", server.servers .. "/locks" } } do
                level, message = judge(case[1], nil, case[2])
                assert.equal("unknown", level)
                assert.truthy(message:find("no directory that was read has", 1, true), message)
            end
            assert(client:create "/kept")
            assert.is_nil(judge "/")
        end)

        it("compares what the credentials let it read", function()
            if server:has "keeps_acls" then
                return pending("this server has the correction")
            end
            local trusted = { "ZKLOCK_AUTH=digest:fleet:" .. credentials.SECRET }
            local client = credentials.trusted(nil, server.servers)
            assert(client:mutex("/locks"):acquire(10))
            assert.equal("warning", (judge("/", trusted)))
            local level, message = judge "/"
            assert.equal("unknown", level)
            assert.truthy(message:find("ACL may not be read, for example /locks", 1, true), message)
            assert(client:create("/kept", "", { acl = "creator" }))
            assert.is_nil(judge("/", trusted))
        end)

        it("does not compare a list of which the server hides a part", function()
            if server:has "keeps_acls" then
                return pending("this server has the correction")
            end
            local list = { { scheme = "auth", id = "", perms = "rcwd" } }
            local client = credentials.trusted({ acl = list }, server.servers)
            assert(client:create("/kept"))
            assert(client:mutex("/locks"):acquire(10))
            assert.equal("unknown", (judge("/", { "ZKLOCK_AUTH=digest:fleet:" .. credentials.SECRET })))
        end)

        it("knows that the server keeps the list of read", function()
            assert(fixture.client({ acl = "read" }, server.servers):mutex("/locks"):acquire(10))
            assert.is_nil(judge "/")
        end)
    end)

    it("finds no fault with nodes that have the ACL of their directory, whatever the kind of the lock", function()
        local path = credentials.closed_directory()
        assert(credentials.trusted():mutex(path .. "/mutex"):acquire(10))
        assert(credentials.trusted():semaphore(path .. "/semaphore", 2):acquire(10))
        local findings = doctor(path, { variables = { "ZKLOCK_AUTH=digest:fleet:" .. credentials.SECRET } })
        assert.is_nil(find(findings, "acl", "have nodes"), dkjson.encode(findings))
    end)

    it("finds a path at which nothing may be created", function()
        local locked = fixture.path()
        assert(fixture.client():create(locked, "", { acl = { { scheme = "world", id = "anyone", perms = "r" } } }))
        assert.truthy(find(doctor(locked), "acl", "no node may be created"))
    end)

    it("finds strays and children that are no contenders", function()
        local path = fixture.path()
        fixture.join(path)
        local stray = assert(fixture.observer():create(path .. "/_c_" .. fixture.UUID .. "-lock-", "", { sequential = true }))
        assert(fixture.observer():create(path .. "/config"))
        local findings = doctor(path)
        local finding = find(findings, "stray", stray)
        assert.truthy(finding.advice:find("zklock break " .. path .. " --node ", 1, true))
        assert.truthy(find(findings, "directory", "config"))
    end)

    it("finds limits, numbers and words of a server with other settings", function()
        local other = cluster.start({
            options = { maxSessionTimeout = 20000, maxClientCnxns = 20, ["4lw.commands.whitelist"] = "srvr,conf,cons" },
            seed = { ["/old"] = 2147480000 }
        })
        fixture.on_clean(function()
            other:stop()
        end)
        for _ = 1, 15 do -- and one by which the doctor asks
            fixture.client(nil, other.servers)
        end
        local client = fixture.client(nil, other.servers)
        assert(client:create("/old/_c_" .. fixture.UUID .. "-lock-", "", { ephemeral = true, sequential = true }))
        local findings, status = doctor_finds({
            { "session timeout", "20 s, not the 60 s" }, { "maxClientCnxns", "allows 20" }, { "numbers", "2147480001" },
            { "sessions", "does not allow the word dump" }
        }, "/", { servers = other.servers, variables = { "ZKLOCK_SESSION_TIMEOUT=60" } })
        local unknown = assert(find(findings, "sessions"), dkjson.encode(findings))
        assert.equal("unknown", unknown.level)
        assert.truthy(unknown.message:find("does not allow the word dump", 1, true), unknown.message)
        assert.equal(2, status)
        doctor_finds({ { "limits", "maxClientCnxns 20" }, { "quorum", "2 of 2 servers are leaders or stand alone" } }, "/nothing",
            { servers = fixture.servers() .. "," .. other.servers })
    end)

    it("reports words that a server does not allow", function()
        local closed = cluster.start({ options = { ["4lw.commands.whitelist"] = "srvr,conf" } })
        fixture.on_clean(function()
            closed:stop()
        end)
        local findings = doctor_finds({ { "maxClientCnxns", "does not allow the word cons" } }, "/", { servers = closed.servers })
        assert.equal("unknown", find(findings, "maxClientCnxns").level)
    end)

    it("finds servers that are down, and servers that do not answer", function()
        local silent = assert(socket.bind("127.0.0.1", 0))
        fixture.on_clean(function()
            silent:close()
        end)
        local address = ("127.0.0.1:%d"):format(select(2, silent:getsockname()))
        local result = commands.run({ "doctor", "--json", "--connect-timeout", "0.2", "/x" },
            { servers = address .. ",127.0.0.1:1" })
        local findings = assert(dkjson.decode(result.output)).findings
        assert.equal(2, result.status)
        assert.truthy(find(findings, "server", address .. " does not answer the word srvr"))
        assert.truthy(find(findings, "server", "127.0.0.1:1: connection refused"))
        assert.truthy(find(findings, "quorum", "0 of 2 servers serve"))
        assert.truthy(find(findings, "session"))
    end)

    it("names the limit of a server that refuses further connections of this host", function()
        local full = cluster.start({ options = { maxClientCnxns = 2 } })
        fixture.on_clean(function()
            full:stop()
        end)
        for _ = 1, 2 do
            local link = assert(socket.connect("127.0.0.1", tonumber(full.servers:match "%d+$")))
            fixture.on_clean(function()
                link:close()
            end)
        end
        eventually(function() -- the server has counted both
            return not full:mode(1)
        end)
        local findings, status = doctor("/", { servers = full.servers, within = 1 })
        assert.same({ 2, "unknown" }, { status, find(findings, "quorum").level })
        local finding = assert(find(findings, "server"), dkjson.encode(findings))
        assert.truthy(finding.message:find("maxClientCnxns", 1, true), finding.message)
        assert.truthy(finding.advice:find("^Raise maxClientCnxns.* nothing serves behind it"), finding.advice)
    end)

    it("says that the servers demand credentials", function()
        local strict = cluster.start({ options = { ["enforce.auth.enabled"] = "true", ["enforce.auth.schemes"] = "digest" } })
        fixture.on_clean(function()
            strict:stop()
        end)
        local finding = assert(find(doctor("/", { servers = strict.servers }), "session"))
        assert.truthy(finding.advice:find("demand credentials", 1, true), finding.advice)
    end)

    it("finds servers without a quorum", function()
        local servers = cluster.start({ servers = 3, options = { syncLimit = 40 } })
        fixture.on_clean(function()
            servers:stop()
        end)
        doctor_until(function(findings)
            local wrong = find(findings, "quorum") or find(findings, "server") or find(findings, "session")
            return wrong and dkjson.encode(findings)
        end, "/", { servers = servers.servers })
        servers:kill(1)
        servers:kill(2)
        eventually(function()
            return not servers:mode(3)
        end)
        local _, status = doctor_finds({
            { "server", servers:address(1) .. ": connection refused" },
            { "server", servers:address(3) .. " does not serve: it has no quorum" },
            { "quorum", "0 of 3 servers serve" }, { "session" }
        }, "/", { servers = servers.servers, within = 5 })
        assert.equal(2, status)
    end)

    it("reports a write that failed", function()
        local findings, status = doctor(fixture.join(fixture.path())) -- an ephemeral node has no children
        local finding = assert(find(findings, "writes", "a write failed: "), dkjson.encode(findings))
        assert.equal("error", finding.level)
        assert.equal(2, status)
    end)

    it("finds writes that take a tenth of the session timeout", function()
        local link = fixture.proxy()
        link:delay(1010) -- each way
        local findings = doctor(fixture.path(), { servers = link.address, variables = { "ZKLOCK_SESSION_TIMEOUT=20" } })
        local finding = assert(find(findings, "writes", "the lease of a session of 20 s lasts 10 s without an answer"),
            dkjson.encode(findings))
        assert.truthy(finding.message:find "^a write took %d+%.%d%d%d s; ", finding.message)
    end)

    for _, case in ipairs {
        { title = "that stands", clock = "stop", text = "the servers' clock stands", level = "error" },
        { title = "an hour ahead", clock = "3600", text = "the servers' clock differs from ours by 3", level = "warning" }
    } do
        it("finds a servers' clock " .. case.title, function()
            local directory = commands.directory()
            local library = directory .. "/wall_clock.so"
            assert(os.execute("cc -shared -fPIC -O1 -D_GNU_SOURCE -o " .. library .. " spec/support/wall_clock.c -ldl"))
            files.write(directory .. "/java", ("#!/bin/sh\nexec env LD_PRELOAD=%s WALL_CLOCK=%s java \"$@\"\n"):format(
                library, case.clock))
            assert(os.execute("chmod +x " .. directory .. "/java"))
            local dev = commands.start({ "dev", "--", "sh", "-c", 'echo "$ZKLOCK_SERVERS"; read -r line' },
                { variables = { "ZOOKEEPER_JAVA=" .. directory .. "/java", "TMPDIR=" .. directory } })
            local address = dev:line() or error(dev:finish().errors)
            local finding = find(doctor("/", { servers = address }), "clock", case.text)
            assert.equal(case.level, finding and finding.level)
            dev:tell "end"
            assert.equal(0, dev:finish().status)
        end)
    end

    it("writes a text for a bug report, without names", function()
        local path = fixture.path()
        fixture.join(path)
        assert(fixture.observer():create(path .. "/config"))
        local result = commands.run { "doctor", "--report", path }
        assert.truthy(result.output:find "\nserver%-1:%d+: ZooKeeper 3%.%d+%.%d+, standalone, sessions of ", result.output)
        assert.truthy(result.output:find "\nsession: %d+ s asked for, %d+ s granted\n", result.output)
        assert.truthy(result.output:find("warning  directory: /path-1 has children that are no contenders: child-1\n", 1, true),
            result.output)
        assert.is_nil(result.output:find(path, 1, true) or result.output:find("127.0.0.1", 1, true), result.output)
        assert.truthy(commands.run({ "doctor", "--report", "--full", path }).output:find(path, 1, true))
    end)

    it("writes it also if no server answers", function()
        local result = commands.run({ "doctor", "--report", "--connect-timeout", "0.2" },
            { servers = "127.0.0.1:1", variables = { "ZKLOCK_AUTH=digest:fleet:" .. credentials.SECRET } })
        assert.equal(2, result.status)
        for _, text in ipairs { "zklock: ", "\nserver-1:1: connection refused\n", "credentials", "\nerror  quorum: 0 of 1 " } do
            assert.truthy(result.output:find(text, 1, true), result.output)
        end
        local refused = commands.run({ "doctor", "--full" }, { servers = "127.0.0.1:1" })
        assert.same({ 125, "zklock: --full belongs to --report\n" }, { refused.status, refused.errors })
        assert.is_nil(result.output:find("127.0.0.1", 1, true) or result.output:find(credentials.SECRET, 1, true), result.output)
    end)

    it("shows findings to people, with what to do", function()
        local path = fixture.path()
        fixture.join(path)
        assert(fixture.observer():create(path .. "/config"))
        local result = commands.run { "doctor", path }
        assert.truthy(result.output:find "\n?warning  directory: .-\n    zklock ignores them", result.output)
        assert.truthy(result.output:find "servers: 1, nodes: 2, findings: %d\n$", result.output)
    end)
end)
