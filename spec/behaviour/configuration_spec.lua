--- The configuration of a machine, which zklock.connect and zklock.shared take without servers. command_settings_spec.lua is about
-- the same for the command.

local configuration = require "spec.support.configuration"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local mistake = require "spec.support.mistake"
local zklock = require "zklock"

after_each(fixture.clean)

--- Returns a client of the configuration, which fixture.clean closes.
local function connect(settings)
    local client = assert(zklock.connect(nil, settings))
    fixture.on_clean(function()
        client:close()
    end)
    return client
end

--- Returns the identity of a client, as others see it.
local function identity_of(client)
    local lock = client:mutex(fixture.path())
    return select(2, assert(lock:with_lock(function()
        return lock:contenders()[1].identity
    end, 10)))
end

describe("zklock.connect without servers", function()
    it("takes those of the environment, and what else stands there", function()
        configuration.set { ZKLOCK_SERVERS = fixture.servers(), ZKLOCK_IDENTITY = "machine 7", ZKLOCK_SESSION_TIMEOUT = "12s" }
        local client = connect()
        assert.equal("machine 7", identity_of(client))
        assert.equal(12, client:session_timeout())
        assert.truthy(tostring(client):find(fixture.servers():match "^[^,]+", 1, true))
    end)

    it("takes a file where the environment has nothing, and nothing where the program has something", function()
        local file = configuration.file(('return { servers = "%s", identity = "file", session_timeout = 12 }'):format(
            fixture.servers()))
        configuration.set { ZKLOCK_CONFIG = file }
        assert.equal("file", identity_of(connect()))
        configuration.set { ZKLOCK_CONFIG = file, ZKLOCK_IDENTITY = "variable" }
        assert.equal("variable", identity_of(connect()))
        local client = connect { identity = "program" }
        assert.equal("program", identity_of(client))
        assert.equal(12, client:session_timeout())
        configuration.set { ZKLOCK_CONFIG = file, ZKLOCK_ACL = "read" }
        assert.equal("read", connect():desk().acl)
        assert.equal("open", connect({ acl = "open" }):desk().acl)
    end)

    it("follows the servers if that stands there", function()
        local log = {}
        configuration.set { ZKLOCK_SERVERS = fixture.servers(), ZKLOCK_FOLLOW = "yes" }
        local client = connect { log = function(_, line)
            log[#log + 1] = line
        end }
        eventually(function()
            client:pump()
            return table.concat(log):find "follow"
        end)
    end)

    it("takes credentials and TLS from there, too", function()
        configuration.set { ZKLOCK_SERVERS = fixture.servers(), ZKLOCK_AUTH = "digest:me:secret", ZKLOCK_ACL = "creator" }
        local client, path = connect(), fixture.path()
        assert(client:create(path, "mine"))
        assert.equal("no_auth", select(3, fixture.client():get(path)))
        assert.equal("mine", (client:get(path)))
        configuration.set { ZKLOCK_SERVERS = fixture.servers(), ZKLOCK_TLS_CA_FILE = "/nonexistent/ca.pem" }
        assert.equal("tls_failed", select(3, zklock.connect()))
    end)

    it("answers failed, with the command's message, if there is no configuration or it cannot be used", function()
        local open = configuration.file('return { servers = "a", auth = "digest:me:hunter2" }', "644")
        for _, case in ipairs {
            { {}, "no servers: name them in the program, or set ZKLOCK_SERVERS" },
            { { ZKLOCK_SERVERS = ":::" }, 'ZKLOCK_SERVERS must be a string like "host:2181,host:2181/chroot" (address 1' },
            { { ZKLOCK_CONFIG = "/nonexistent" }, "cannot read the settings: /nonexistent: " },
            { { ZKLOCK_CONFIG = open }, "chmod 600" },
            { { ZKLOCK_CONFIG = configuration.file "return { server = 5 }" }, "there is no setting 'server'" },
            { { ZKLOCK_CONFIG = configuration.file "return { servers = 5 }" }, "zklock.lua: servers must be a string" },
            { { ZKLOCK_SERVERS = "a", ZKLOCK_SESSION_TIMEOUT = "10ms" }, "ZKLOCK_SESSION_TIMEOUT must be a number of seconds" },
            { { ZKLOCK_SERVERS = "a", ZKLOCK_IDENTITY = ("x"):rep(1025) }, "ZKLOCK_IDENTITY must be a string of 1 to 1024 bytes" },
            { { ZKLOCK_SERVERS = "a", ZKLOCK_AUTH = "hunter2" }, "credentials must have the form scheme:credential" },
            { { ZKLOCK_SERVERS = "a", ZKLOCK_ACL = "creator" }, "without credentials" },
            { { ZKLOCK_SERVERS = "a", ZKLOCK_FOLLOW = "true" }, 'ZKLOCK_FOLLOW must be "yes" or "no"' },
            { { ZKLOCK_SERVERS = "a,b:1", ZKLOCK_FOLLOW = "yes", ZKLOCK_TLS = "yes" }, "the same port for all servers" },
            { { ZKLOCK_SERVERS = "a", ZKLOCK_TLS_MIN_VERSION = "1.1" }, "the settings of TLS must be a table whose min_version" },
        } do
            configuration.set(case[1])
            for _, open_client in ipairs { zklock.connect, zklock.shared } do
                local client, message, code = open_client()
                assert.same({ nil, "failed" }, { client, code })
                assert.truthy(message:find(case[2], 1, true), message)
                assert.is_nil(message:find("hunter2", 1, true))
            end
        end
    end)

    it("raises for what the program itself has got wrong", function()
        configuration.set { ZKLOCK_SERVERS = fixture.servers() }
        mistake(function() zklock.connect(false) end, "zklock.connect: servers must be a string")
        mistake(function() zklock.connect(nil, 5) end, "zklock.connect: options must be a table")
        mistake(function() zklock.connect(nil, { session_timeout = -1 }) end, "zklock.connect: option 'session_timeout' must be")
        mistake(function() zklock.connect(nil, { acl = "creator" }) end, "zklock.connect: option 'acl' must not be")
        mistake(function() zklock.shared(nil, { tmeout = 5 }) end, "zklock.shared: unknown option 'tmeout'")
    end)

    it("reads no configuration with servers", function()
        configuration.set { ZKLOCK_CONFIG = "/nonexistent", ZKLOCK_IDENTITY = "variable" }
        assert.equal("program", identity_of(fixture.client { identity = "program" }))
    end)
end)

describe("zklock.shared without servers", function()
    it("reads the configuration when it opens the client, and not again", function()
        local file = configuration.file(('return { servers = "%s", identity = "one" }'):format(fixture.servers()))
        configuration.set { ZKLOCK_CONFIG = file }
        local client = assert(zklock.shared())
        files.write(file, "nonsense")
        for _ = 1, 2 do
            assert.equal(client, zklock.shared())
            assert.equal(client, zklock.shared(nil, {}))
        end
        assert.equal("failed", select(3, zklock.shared(nil, { session_timeout = 20 })))
        assert.equal("one", identity_of(client))
        client:close()
        files.write(file, ('return { servers = "%s", identity = "two" }'):format(fixture.servers()))
        client = assert(zklock.shared())
        assert.equal("two", identity_of(client))
        client:close()
    end)
end)
