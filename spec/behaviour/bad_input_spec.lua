--- A mistake in a call raises an error at the caller's line. It names the argument and what is expected; nothing changes.

local fixture = require "spec.support.fixture"
local mistake = require "spec.support.mistake"
local zklock = require "zklock"

local NAN = 0 / 0

local function connect(...)
    local client = zklock.connect(...)
    return client
end

describe("connect refuses", function()
    local servers = {
        ["no text as servers"] = { false, "(got false)" },
        ["a number for servers"] = { 2181, "(got 2181)" },
        ["a table for servers"] = { {}, "(got a table)" },
        ["an empty server list"] = { "", "empty" },
        ["blanks for servers"] = { "  ", "empty" },
        ["commas for servers"] = { ",", "address 1" },
        ["an empty address in the list"] = { "h:2181,,h:2182", "address 2" },
        ["a port that is no number"] = { "h:port", '"h:port"' },
        ["a missing port after a colon"] = { "h:", '"h:"' },
        ["port 0"] = { "h:0", '"h:0"' },
        ["a port beyond 65535"] = { "h:65536", '"h:65536"' },
        ["a host with a blank in it"] = { "h h:2181", "address 1" },
        ["a bare IPv6 address"] = { "::1", '"::1"' },
        ["a url"] = { "zk://h:2181", "address 1" },
        ["a chroot with a trailing slash"] = { "h:2181/a/", "chroot" },
        ["a chroot with an empty name in it"] = { "h:2181/a//b", "chroot" },
        ["a chroot that is too long"] = { "h:2181/" .. ("a"):rep(32768), "32768 bytes" },
        ["a chroot behind each server"] = { "h:1/a,h:2/a", "the chroot stands once, behind the last server" },
        ["a NUL in servers"] = { "h:2181\0,evil:1", "NUL" }
    }
    for title, case in pairs(servers) do
        it(title .. " #valgrind #asan", function()
            mistake(function()
                connect(case[1])
            end, "zklock.connect", "servers must be a string like", case[2])
        end)
    end

    it("what is long, in a message that is not", function()
        local long = ("x"):rep(1e6)
        for _, call in ipairs {
            function() connect(long .. ":") end, function() connect("h:1", { [long] = 1 }) end,
            function() fixture.client():transaction():check("/a", long) end,
            function() fixture.client():multi { [long] = 1 } end
        } do
            local ok, message = pcall(call)
            assert.is_false(ok)
            assert.is_true(#message < 1000, #message)
        end
    end)

    local options = {
        { "session_timeout", 0 }, { "session_timeout", -1 }, { "session_timeout", NAN }, { "session_timeout", "10" },
        { "session_timeout", math.huge }, { "connect_timeout", -0.1 }, { "connect_timeout", NAN },
        { "connect_timeout", true }, { "connect_timeout", "5" }, { "wait", 5 }, { "wait", "libuv" }, { "wait", {} },
        { "wait", { wait = print } }, { "auth", "user:password" }, { "auth", { scheme = "digest", credential = "x" } },
        { "auth", { { scheme = "digest" } } }, { "auth", { { credential = "user:password" } } }, { "auth", { 1 } },
        { "acl", "closed" }, { "acl", 31 }, { "acl", {} }, { "acl", { {} } }, { "acl", "creator" },
        { "acl", { { scheme = "world", id = "anyone", perms = 0 } } },
        { "acl", { { scheme = "world", id = "anyone", perms = 32 } } },
        { "acl", { { scheme = "world", id = "anyone", perms = "rx" } } },
        { "acl", { { scheme = "world", perms = 31 } } },
        { "identity", "" }, { "identity", 7 }, { "identity", "a\0b" }, { "identity", ("x"):rep(1025) },
        { "lease", 1 }, { "lease", "yes" }, { "log", "stderr" }, { "tls", true },
        { "tls", { "ca.pem" } }, { "tls", { cafile = "ca.pem" } }, { "tls", { ca_file = "" } }, { "tls", { ca_file = "a\0b" } },
        { "tls", { ca_file = 5 } }, { "tls", { verify = 0 } }, { "tls", { min_version = "1.1" } }, { "tls", { min_version = 1.2 } },
        { "tls", { server_name = ".example" } }, { "tls", { server_name = "*.example" } },
        { "tls", { key_file = "key.pem" } }, { "tls", { key_password = "x" } }, { "tls", { verify = false, ca_file = "ca.pem" } }
    }
    for index, case in ipairs(options) do
        it(("a wrong %s (%d)"):format(case[1], index), function()
            mistake(function()
                connect("127.0.0.1:1", { connect_timeout = 0, [case[1]] = case[2] })
            end, "zklock.connect", "'" .. case[1] .. "'", "must")
        end)
    end

    it("unknown options, and names the known ones", function()
        mistake(function()
            connect("127.0.0.1:1", { timeout = 5 })
        end, "unknown option 'timeout'", "connect_timeout", "session_timeout")
        mistake(function()
            connect("127.0.0.1:1", { "blocking" })
        end, "unknown option 1")
    end)

    it("options that are not a table", function()
        mistake(function()
            connect("127.0.0.1:1", 5)
        end, "options must be a table", "(got 5)")
    end)

    it("adapters whose module is missing, and names the module", function()
        local loaded = package.loaded
        local adapter, luv = loaded["zklock.adapters.luv"], loaded.luv
        loaded["zklock.adapters.luv"], loaded.luv = nil, nil
        package.preload.luv = function()
            error("there is no luv here", 0)
        end
        mistake(function()
            connect("127.0.0.1:1", { wait = "luv" })
        end, "'wait'", "luv", "cannot be loaded here", "there is no luv here")
        loaded["zklock.adapters.luv"], loaded.luv, package.preload.luv = adapter, luv, nil
    end)

    it("a wrong option without showing a credential in the message", function()
        local message = mistake(function()
            connect("127.0.0.1:1", { auth = { { scheme = 1, credential = "user:secret" } } })
        end)
        assert.is_nil(message:find("secret", 1, true))
    end)
end)

describe("shared refuses", function()
    local function shared(...)
        local client = zklock.shared(...)
        return client
    end

    it("what connect refuses, in its own name and at its caller's line #valgrind #asan", function()
        local cases = {
            { { "" }, "(got an empty one)" }, { { false }, "(got false)" }, { { "h:0" }, '"h:0"' },
            { { "h", 5 }, "options must be a table" },
            { { "h", { bogus = 1 } }, "unknown option 'bogus'" }, { { "h", { acl = "closed" } }, "'acl'" },
            { { "h", { wait = "libuv" } }, "'wait'" }, { { "h", { acl = "creator" } }, "auth" }
        }
        for _, case in ipairs(cases) do
            mistake(function()
                shared(case[1][1], case[1][2])
            end, "zklock.shared: ", case[2])
        end
    end)

    it("tables that contain themselves, with a message about the wrong option", function()
        local own = {}
        own.acl = own
        mistake(function()
            shared("h", own)
        end, "zklock.shared: ", "option 'acl' must be")
        local list = {}
        list[1], list[2] = list, list
        for _, name in ipairs({ "acl", "auth", "tls" }) do
            mistake(function()
                shared("h", { [name] = list })
            end, "zklock.shared: ", "option '" .. name .. "' must be")
        end
    end)
end)

describe("connect answers", function()
    it("tls_failed for a file that cannot be read, instead of connecting without TLS", function()
        for _, open in ipairs({ zklock.connect, zklock.shared }) do
            local client, message, code = open("127.0.0.1:1", { tls = { ca_file = "/nonexistent" } })
            assert.same({ nil, "tls_failed" }, { client, code })
            assert.equal("cannot read '/nonexistent' of the option tls.ca_file: No such file or directory", message)
        end
    end)
end)

describe("a client refuses", function()
    local client

    setup(function()
        client = fixture.client({ connect_timeout = 0 }, "127.0.0.1:1")
    end)

    teardown(fixture.clean)

    local paths = {
        ["no path"] = { nil, "must be a string" },
        ["a number for a path"] = { 5, "must be a string" },
        ["an empty path"] = { "", "'/'" },
        ["a relative path"] = { "locks/a", "'/'" },
        ["a path with //"] = { "/locks//a", "path" },
        ["a path with a trailing slash"] = { "/locks/a/", "path" },
        ["a path that is not UTF-8"] = { "/locks/a\255b", "UTF-8" },
        ["a path with a character that breaks off"] = { "/locks/a\195(", "UTF-8" },
        ["a path cut within a character"] = { "/locks/a\226\130", "UTF-8" },
        ["a path with half of a pair"] = { "/locks/\237\160\128", "forbids" },
        ["a path with a character beyond U+FFFF"] = { "/locks/\240\159\148\146", "forbids" },
        ["ZooKeeper's own path"] = { "/zookeeper/quota", "ZooKeeper's own" },
        ["a path with a NUL"] = { "/locks/a\0b", "path" },
        ["a path that is too long"] = { "/" .. ("a"):rep(32768), "32768 bytes" },
        ["a path with . in it"] = { "/locks/./a", "path" },
        ["a path with .. in it"] = { "/locks/../a", "path" }
    }
    for title, case in pairs(paths) do
        it(title .. " #valgrind #asan", function()
            mistake(function()
                client:mutex(case[1])
            end, "client:mutex", "path", case[2])
        end)
    end

    it("a path that is too long for any kind of lock, and accepts the longest path allowed", function()
        local longest = "/" .. ("a"):rep(32767)
        for _, kind in ipairs({ "mutex", "rwlock", "semaphore" }) do
            assert(client[kind](client, longest, kind == "semaphore" and 2 or nil))
            mistake(function()
                client[kind](client, longest .. "b", kind == "semaphore" and 2 or nil)
            end, "client:" .. kind, "bad path", "32768 bytes")
        end
    end)

    it("a node's path that does not fit into a request, at the line of the call", function()
        local path = "/" .. ("a"):rep(900000)
        local calls = {
            get = { path }, exists = { path }, children = { path }, sync = { path }, set = { path, "x" }, create = { path },
            delete = { path }
        }
        for method, arguments in pairs(calls) do
            mistake(function()
                local results = { client[method](client, arguments[1], arguments[2]) }
                return results
            end, "client:" .. method, "bad path", "900000 bytes")
        end
        mistake(function()
            client:transaction():set(path, "x")
        end, "transaction:set", "bad path", "900000 bytes")
    end)

    it("lock options of a wrong type, and names the option", function()
        local wrong = { reentrant = 1, identity = "", acl = "nobody", wait_release = "no", on_lost = true }
        for name, value in pairs(wrong) do
            mistake(function()
                client:mutex("/a", { [name] = value })
            end, "client:mutex", "'" .. name .. "'", "must")
        end
    end)

    it("linger for a semaphore, which cannot linger", function()
        for _, seconds in ipairs({ 0.001, 20, math.huge }) do
            mistake(function()
                client:semaphore("/a", 2, { linger = seconds })
            end, "client:semaphore", "'linger'", "permits cannot linger")
        end
        assert(client:semaphore("/a", 2, { linger = 0 }))
        assert(client:semaphore("/a", 2, {}))
        assert(client:semaphore("/a", 2))
        mistake(function()
            client:semaphore("/a", 2, { linger = "no" })
        end, "client:semaphore", "'linger'", "a number of seconds, 0 or more")
    end)

    it("unknown lock options", function()
        mistake(function()
            client:mutex("/a", { handof = 1 })
        end, "unknown option 'handof'", "reentrant")
    end)

    it("the acl \"creator\" if the client has shown no credential", function()
        mistake(function()
            client:mutex("/a", { acl = "creator" })
        end, "'acl'", "auth")
    end)

    it("invalid timeouts for flush and close", function()
        for _, timeout in ipairs({ -1, NAN, "1", {} }) do
            mistake(function()
                client:flush(timeout)
            end, "client:flush", "timeout must be a number of seconds, 0 or more")
            mistake(function()
                client:close(timeout)
            end, "client:close", "timeout must be a number of seconds, 0 or more")
        end
    end)

    it("unknown events, and callbacks that are not functions", function()
        mistake(function()
            client:on("stat", print)
        end, "client:on", '"state"')
        mistake(function()
            client:on("state")
        end, "client:on", "function")
    end)

    it("a call with a dot instead of a colon", function()
        for _, method in ipairs({ "state", "on", "flush", "stats", "close", "mutex", "pump", "pollfd" }) do
            mistake(function()
                client[method]("/a")
            end, "client:" .. method, "colon")
        end
    end)
end)

describe("a lock refuses", function()
    local client, lock

    setup(function()
        client = assert(zklock.connect("127.0.0.1:1", { connect_timeout = 0 }))
        lock = client:mutex("/a")
    end)

    teardown(function()
        client:close()
    end)

    local timeouts = { ["a negative"] = -1, ["a NaN"] = NAN, ["a string for a"] = "5", ["a boolean for a"] = true }
    for title, timeout in pairs(timeouts) do
        it(title .. " timeout #valgrind #asan", function()
            mistake(function()
                lock:acquire(timeout)
            end, "lock:acquire", "timeout must be a number of seconds, 0 or more")
            mistake(function()
                lock:with_lock(print, timeout)
            end, "lock:with_lock", "timeout must be a number of seconds, 0 or more")
            mistake(function()
                lock:contenders(timeout)
            end, "lock:contenders", "timeout must be a number of seconds, 0 or more")
            mistake(function()
                lock:acquire({ timeout = timeout })
            end, "lock:acquire", "'timeout' must be a number of seconds, 0 or more")
        end)
    end

    it("unknown options", function()
        mistake(function()
            lock:acquire({ timout = 5 })
        end, "unknown option 'timout'", "timeout")
        mistake(function()
            lock:release({ timout = 5 })
        end, "unknown option 'timout'", "timeout", "wait")
        mistake(function()
            lock:release({ timeout = -1 })
        end, "'timeout'", "0 or more", "-1")
        mistake(function()
            lock:acquire({ keep = 1 })
        end, "'keep' must be true or false")
        mistake(function()
            lock:release({ wait = 5 })
        end, "'wait' must be true or false")
        mistake(function()
            lock:release(5)
        end, "options must be a table")
    end)

    it("a function argument that is not a function", function()
        mistake(function()
            lock:with_lock(nil, 5)
        end, "lock:with_lock", "first argument must be a function (got nil)")
    end)

    it("a call with a dot instead of a colon", function()
        local methods = { "acquire", "try_acquire", "release", "with_lock", "cancel", "held", "remaining", "token",
            "token_numbers", "path", "node", "contenders" }
        for _, method in ipairs(methods) do
            mistake(function()
                lock[method](5)
            end, "lock:" .. method, "colon")
        end
    end)

    it("all of that, and works as before afterwards", function()
        pcall(lock.acquire, lock, -1)
        pcall(lock.with_lock, lock, print, NAN)
        assert.equal("not_held", select(3, lock:release()))
        assert.equal("disconnected", select(3, lock:try_acquire()))
        assert.equal("zklock mutex (/a, free)", tostring(lock))
    end)

    it("all of that without creating anything on the server", function()
        local path = fixture.path()
        local connected = fixture.client()
        local good = connected:mutex(path)
        pcall(good.acquire, good, -1)
        pcall(good.acquire, good, { timout = 1 })
        pcall(good.with_lock, good, nil)
        assert(connected:flush(10))
        assert.is_nil((fixture.observer():exists(path)))
        fixture.clean()
    end)
end)
