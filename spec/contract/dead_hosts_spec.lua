--- Servers of the list that are switched off, or accept connections and say nothing, and name servers that say nothing.
-- spec/unit/test_race.c has the times, in virtual time. Here the limits are for a busy machine; even so a client that gave each
-- dead address its share of the session timeout would miss them.

local cluster = require "spec.support.cluster"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local holes = require "spec.support.holes"
local program = require "spec.support.program"
local proxy = require "spec.support.proxy"
local socket = require "socket"
local zklock = require "zklock"

local ROUNDS = 5

--- Not the address of a name server that a machine may have on loopback.
local NAME_SERVER = "127.13.53.53"

local function may_mount()
    return select(2, cluster.run { "unshare", "--mount", "true" }) == 0
end

describe("with dead servers in its list, a client", function()
    after_each(fixture.clean)

    local function connects(servers)
        for _ = 1, ROUNDS do -- each client shuffles its list
            local client = assert(zklock.connect(servers, { connect_timeout = 30, session_timeout = 300 }))
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

    it("connects, keeps its lock and closes although name servers do not answer #once", function()
        local name_server = socket.udp()
        fixture.on_clean(function()
            name_server:close()
        end)
        if not name_server:setsockname(NAME_SERVER, 53) or not may_mount() then
            return pending("needs the right to mount, and to listen on port 53")
        end
        local resolv = fixture.temporary_directory() .. "/resolv.conf"
        files.write(resolv, ("nameserver %s\noptions timeout:30 attempts:1\n"):format(NAME_SERVER)) -- half a minute for a name
        local link = fixture.remember(proxy.start(fixture.servers()))
        local source = ([[
            local zklock = require "zklock"
            for _ = 1, %d do -- each client shuffles its list
                local client = assert(zklock.connect("a.silent,b.silent,c.silent,%s", {
                    connect_timeout = 20, session_timeout = 10 }))
                local lock = client:mutex("%s")
                assert(lock:acquire(10))
                repeat until lock:remaining() > 4.5 or not client:exists("/")
                local before = client:stats().connections
                print("cut")
                io.read()
                repeat client:exists("/") until client:stats().connections > before
                assert(lock:held())
                assert(lock:release())
                assert(client:close())
            end
            local began = os.time()
            assert(not zklock.connect("a.silent", { connect_timeout = 1 }))
            assert(os.time() - began < 15)
            print("done")]]):format(ROUNDS, link.address, fixture.path())
        local process = fixture.remember(program.run("silent names", { "unshare", "--mount", "sh", "-c",
            "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"", resolv, program.interpreter(), "-e",
            "io.stdout:setvbuf('line')" .. source }))
        for _ = 1, ROUNDS do
            assert.equal("cut", process:line())
            link:cut()
            process:tell("go on")
        end
        assert.equal("done", process:line())
    end)

    it("connects to a name with a dead IPv6 and a live IPv4 address #once", function()
        local port = tonumber(fixture.servers():match("%d+$"))
        if not pcall(holes.swallowing, "::1", port) or not may_mount() then
            return pending("needs IPv6, and the right to mount")
        end
        local hosts = fixture.temporary_directory() .. "/hosts"
        files.write(hosts, "127.0.0.1 localhost dual\n::1 dual\n")
        local source = ([[
            local client = assert(require "zklock".connect("dual:%d", { connect_timeout = 20, session_timeout = 30 }))
            print((client:state()))
            client:close()]]):format(port)
        assert.equal("connected", cluster.run(cluster.words({ "unshare", "--mount", "sh", "-c",
            "mount --bind \"$0\" /etc/hosts && exec \"$@\"", hosts }, program.environment(),
            { program.interpreter(), "-e", source })))
    end)
end)
