--- Servers of the list that are switched off, or accept connections and say nothing. spec/unit/test_race.c has the times, in
-- virtual time. Here the limits are zklock's defaults: a client that gave each dead address its share of the session timeout
-- would miss them.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local holes = require "spec.support.holes"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
local zklock = require "zklock"

local ROUNDS = 5

describe("with dead servers in its list, a client", function()
    after_each(fixture.clean)

    local function connects(servers)
        for _ = 1, ROUNDS do -- each client shuffles its list
            local client = assert(zklock.connect(servers, { session_timeout = 30 }))
            assert.equal("connected", (client:state()))
            assert.is_true(client:close())
        end
    end

    it("connects although five of six swallow packets #asan #once", function()
        connects(holes.before(fixture.servers(), 5, holes.swallowing))
    end)

    it("connects although two of three accept and say nothing #once", function()
        connects(holes.before(fixture.servers(), 2, holes.silent))
    end)

    it("keeps its lock when its connection is lost #once", function()
        local link = fixture.remember(proxy.start(fixture.servers()))
        local client = fixture.client({ session_timeout = 10 }, holes.before(link.address, 5, holes.swallowing))
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        for _ = 1, ROUNDS do
            fixture.pump_until(client, function()
                return lock:remaining() > 4.5 -- of 5: the lease of the connection before is extended again
            end)
            local before = client:stats().connections
            link:cut()
            fixture.pump_until(client, function()
                return client:stats().connections > before
            end)
            assert.is_true(lock:held())
        end
        assert.is_true(lock:release())
    end)

    it("connects to a name with a dead IPv6 and a live IPv4 address #once", function()
        local port = tonumber(fixture.servers():match("%d+$"))
        if not pcall(holes.swallowing, "::1", port) or not cluster.run { "unshare", "--mount", "true" } then
            return pending("needs IPv6, and the right to mount")
        end
        local hosts = fixture.temporary_directory() .. "/hosts"
        files.write(hosts, "127.0.0.1 localhost dual\n::1 dual\n")
        local source = ([[
            local client = assert(require "zklock".connect("dual:%d", { session_timeout = 30 }))
            print((client:state()))
            client:close()]]):format(port)
        assert.equal("connected", cluster.run(cluster.words({ "unshare", "--mount", "sh", "-c",
            "mount --bind \"$0\" /etc/hosts && exec \"$@\"", hosts }, program.environment(),
            { program.interpreter(), "-e", source })))
    end)
end)
