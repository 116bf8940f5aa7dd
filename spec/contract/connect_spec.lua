--- Opening a client: with which servers, paths and credentials it connects, and what connect answers if it cannot.

local core = require "zklock.core"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local ports = require "spec.support.ports"
local proxy = require "spec.support.proxy"
local zklock = require "zklock"

--- Tries to connect, which must fail, and returns message and code. (The time that this takes is asserted in virtual time.)
local function fail_to_connect(servers, options)
    local client, message, code = zklock.connect(servers, options)
    assert.is_nil(client)
    assert.is_string(message)
    return message, code
end

describe("a client", function()
    after_each(fixture.clean)

    it("connects, reports its state, and closes #valgrind #asan", function()
        local client = assert(zklock.connect(fixture.servers(), { session_timeout = 6, connect_timeout = 20 }))
        local state, problem, code = client:state()
        assert.same({ "connected", "" }, { state, problem, code })
        assert.equal(6, client:session_timeout())
        assert.is_true(client:close())
        assert.equal("closed", (client:state()))
        assert.is_true(client:close())
    end)

    it("returns the session timeout that the server granted, not the requested one", function()
        local client = fixture.client({ session_timeout = 3600 })
        assert.equal(60, client:session_timeout())
    end)

    it("accepts several addresses with blanks around them", function()
        local address = fixture.servers()
        local client = fixture.client(nil, " " .. address .. " , " .. address .. " ")
        assert.equal("connected", (client:state()))
    end)

    it("returns at once in state connecting if connect_timeout is 0", function()
        local client = assert(zklock.connect("127.0.0.1:" .. ports.free(), { connect_timeout = 0 }))
        assert.equal("connecting", (client:state()))
        local lock = client:mutex("/never")
        assert.equal("disconnected", select(3, lock:try_acquire()))
        assert.is_true(client:close())
    end)

    it("connects in the background if connect_timeout is 0 #asan", function()
        local client = fixture.client({ connect_timeout = 0 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        assert.equal("connected", (client:state()))
    end)

    it("keeps waiting if the connection that it waits for is lost again at once", function()
        local real, open = nil, core.open
        local decided, lost = false, false -- the wait saw the connection; then connect saw its loss
        local handle = setmetatable({}, { __index = function(_, name)
            return function(_, ...)
                if name == "state" and not lost and real:state() == "connected" then
                    lost = decided
                    decided = decided or debug.getinfo(2, "n").name == "decided" -- and not an earlier pump
                    return lost and "suspended" or "connected", "the connection is lost", nil
                end
                return real[name](real, ...)
            end
        end })
        finally(function()
            core.open = open
        end)
        core.open = function(...)
            real = assert(open(...))
            return handle
        end
        local client = assert(zklock.connect(fixture.servers(), { connect_timeout = 20, wait = "blocking" }))
        assert.is_true(lost)
        assert.equal("connected", (client:state()))
        assert.is_true(client:close())
    end)

    it("shows its type, its servers and its state as a string, but no credentials", function()
        local client = fixture.client({ auth = { { scheme = "digest", credential = "user:secret" } } })
        assert.equal("zklock client (" .. fixture.servers() .. ", connected)", tostring(client))
        client:close()
        assert.equal("zklock client (" .. fixture.servers() .. ", closed)", tostring(client))
    end)

    it("keeps all of its paths below its chroot", function()
        local chroot = fixture.directory()
        local client = fixture.client(nil, fixture.servers() .. chroot)
        local lock = client:mutex("/inner/lock")
        assert(lock:acquire(10))
        assert.equal(1, #fixture.children(chroot .. "/inner/lock"))
        assert.truthy(lock:node():find("^/inner/lock/"))
        assert.equal(lock:node(), lock:contenders(10)[1].node)
        assert.is_true(lock:release())
        assert.same({}, fixture.children(chroot .. "/inner/lock"))
    end)

    it("treats a chroot of / as none", function()
        local path = fixture.path()
        local lock = fixture.client(nil, fixture.servers() .. "/"):mutex(path)
        assert(lock:acquire(10))
        assert.equal(1, #fixture.children(path))
    end)

    it("counts its operations", function()
        local client = fixture.client()
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        local held = client:stats()
        assert.is_true(lock:release())
        local released = client:stats()
        assert.equal(1, held.grants)
        assert.equal(1, held.entries)
        assert.equal(0, released.entries)
        assert.equal(1, released.sessions)
        assert.is_true(released.requests > held.requests)
        assert.is_true(released.memory > 0)
    end)

    it("names the chroot if it was deleted after the client had connected", function()
        local chroot = fixture.directory()
        local client = fixture.client(nil, fixture.servers() .. chroot)
        assert(fixture.observer():delete(chroot))
        local ok, message, code = client:mutex("/lock"):acquire(20)
        assert.same({ nil, "no_node" }, { ok, code })
        assert.truthy(message:find("does the chroot exist?", 1, true), message)
    end)

    it("blocks all signals in its own thread, so that the program's threads get them", function()
        local function blocked_signals()
            local masks = {}
            for task in cluster.run({ "ls", ("/proc/%d/task"):format(cluster.process_id()) }):gmatch("%d+") do
                local status = files.read(("/proc/%d/task/%s/status"):format(cluster.process_id(), task))
                masks[task] = status:match("SigBlk:%s*%x*(%x%x%x%x%x%x%x%x)")
            end
            return masks
        end
        local before = blocked_signals()
        fixture.client()
        local threads = 0
        for task, mask in pairs(blocked_signals()) do
            if not before[task] then
                threads = threads + 1
                assert.equal("7ffbfeff", (mask:gsub("^f", "7"))) -- 1 to 31, except KILL and STOP
            end
        end
        assert.equal(1, threads)
    end)
end)

describe("connect", function()
    after_each(fixture.clean)

    it("gives up in time if no server listens, and names the address #valgrind #asan", function()
        local address = "127.0.0.1:" .. ports.free()
        local message, code = fail_to_connect(address, { connect_timeout = 0.5 })
        assert.equal("disconnected", code)
        assert.truthy(message:find(address, 1, true), message)
    end)

    it("names an IPv6 address in brackets", function()
        local address = "[::1]:" .. ports.free()
        local lines = {}
        local message = fail_to_connect(address, { connect_timeout = 0.5, log = function(_, line)
            lines[#lines + 1] = line
        end })
        local all = message .. table.concat(lines, "\n")
        assert.truthy(all:find("cannot connect to '" .. address .. "'", 1, true), all)
        assert.is_nil(all:find "[^%[]::1", all)
    end)

    it("gives up in time on a name that does not resolve, and names it", function()
        local message, code = fail_to_connect("no-such-host.invalid:2181", { connect_timeout = 1 })
        assert.equal("disconnected", code)
        assert.truthy(message:find("no-such-host.invalid", 1, true), message)
    end)

    for _, manner in ipairs({ "ssh", "http", "rude", "silent" }) do
        it("gives up in time on a server that is not ZooKeeper: " .. manner, function()
            local speaker = fixture.program("speaker", manner)
            local address = "127.0.0.1:" .. speaker:line()
            local message, code = fail_to_connect(address, { connect_timeout = 1 })
            assert.equal("disconnected", code)
            assert.truthy(message:find(address, 1, true), message)
        end)
    end

    it("gives up in time on servers that were stopped with SIGSTOP", function()
        local servers = cluster.start()
        servers:pause()
        local _, code = fail_to_connect(servers.servers, { connect_timeout = 1 })
        servers:resume()
        servers:stop()
        assert.equal("disconnected", code)
    end)

    it("answers no_node for a chroot that does not exist, and does not create it", function()
        local chroot = fixture.path()
        local message, code = fail_to_connect(fixture.servers() .. chroot, { connect_timeout = 20 })
        assert.equal("no_node", code)
        assert.truthy(message:find(chroot, 1, true), message)
        assert.is_nil((fixture.observer():exists(chroot)))
    end)

    it("answers auth_failed for credentials of a scheme that the server does not know, without showing them", function()
        local message, code = fail_to_connect(fixture.servers(), {
            connect_timeout = 20,
            auth = { { scheme = "nosuchscheme", credential = "user:secret" } }
        })
        assert.equal("auth_failed", code)
        assert.is_nil(message:find("secret", 1, true))
    end)

    it("answers auth_failed also to all calls that wait already", function()
        local link = proxy.start(fixture.servers())
        link:refuse()
        local client = fixture.client({ connect_timeout = 0, wait = loop,
            auth = { { scheme = "nosuchscheme", credential = "user:secret" } } }, link.address)
        local path, codes = fixture.path(), {}
        loop.run(function()
            codes.acquire = select(3, client:mutex(path):acquire(30))
        end, function()
            codes.contenders = select(3, client:mutex(path):contenders(30))
        end, function()
            codes.get = select(3, client:get(path, { timeout = 30 }))
        end, function()
            codes.create = select(3, client:create(path, "", { timeout = 30 }))
        end, function()
            link:accept()
        end)
        link:stop()
        assert.same({ acquire = "auth_failed", contenders = "auth_failed", get = "auth_failed", create = "auth_failed" }, codes)
        assert.equal("auth_failed", (client:state()))
    end)

    local function authenticated_behind_proxy()
        return fixture.client_behind_proxy({ session_timeout = 4, auth = { { scheme = "digest", credential = "user:secret" } } })
    end

    it("opens a new session when a server refuses the credentials that another one has accepted", function()
        local client, link = authenticated_behind_proxy()
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        local session = link:session().id
        link:deny("auth", -115, 1)
        link:cut()
        fixture.pump_until(client, function()
            return not lock:held()
        end)
        assert(lock:acquire(30))
        assert.equal("connected", (client:state()))
        assert.are_not.equal(session, link:session().id)
    end)

    it("gives up when the new session's server refuses them too", function()
        local client, link = authenticated_behind_proxy()
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        link:deny("auth", -115)
        link:cut()
        fixture.pump_until(client, function()
            return client:state() == "auth_failed"
        end)
        assert.is_false(lock:held())
        assert.equal("auth_failed", (select(3, lock:acquire(20))))
    end)

    it("finds the live servers among dead ones", function()
        local dead = "127.0.0.1:" .. ports.free()
        local client = fixture.client(nil, dead .. "," .. fixture.servers() .. "," .. dead)
        assert(client:mutex(fixture.path()):acquire(10))
    end)

    it("leaves no thread and no file descriptor when it fails", function()
        fixture.client()
        fixture.clean()
        local dead = "127.0.0.1:" .. ports.free()
        local threads, descriptors = fixture.resources()
        for _ = 1, 5 do
            fail_to_connect(dead, { connect_timeout = 0.05 })
        end
        eventually(function()
            collectgarbage()
            local threads_now, descriptors_now = fixture.resources()
            return threads_now <= threads and descriptors_now <= descriptors,
                threads_now .. " threads, " .. descriptors_now .. " descriptors"
        end)
    end)
end)
