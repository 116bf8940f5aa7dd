--- Opening, watching and closing a client.

local core = require "zklock.core"
local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local ports = require "spec.support.ports"
local proxy = require "spec.support.proxy"
local zklock = require "zklock"

--- Connects in vain; returns message and code. (How long that takes is asserted in virtual time.)
local function fail_to_connect(servers, options)
    local client, message, code = zklock.connect(servers, options)
    assert.is_nil(client)
    assert.is_string(message)
    return message, code
end

describe("a client", function()
    after_each(fixture.clean)

    it("connects, says so, and closes #valgrind #asan", function()
        local client = assert(zklock.connect(fixture.servers(), { session_timeout = 6 }))
        local state, problem, code = client:state()
        assert.same({ "connected", "" }, { state, problem, code })
        assert.equal(6, client:session_timeout())
        assert.is_true(client:close())
        assert.equal("closed", (client:state()))
        assert.is_true(client:close())
    end)

    it("tells the session timeout that the server granted, not the one asked for", function()
        local client = fixture.client({ session_timeout = 3600 })
        assert.equal(60, client:session_timeout())
    end)

    it("takes several addresses with blanks around them", function()
        local address = fixture.servers()
        local client = fixture.client(nil, " " .. address .. " , " .. address .. " ")
        assert.equal("connected", (client:state()))
    end)

    it("comes back at once in state connecting when connect_timeout is 0", function()
        local client = assert(zklock.connect("127.0.0.1:" .. ports.free(), { connect_timeout = 0 }))
        assert.equal("connecting", (client:state()))
        local lock = client:mutex("/never")
        assert.equal("disconnected", select(3, lock:try_acquire()))
        assert.is_true(client:close())
    end)

    it("comes to a connection in the background after a connect_timeout of 0 #asan", function()
        local client = fixture.client({ connect_timeout = 0 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        assert.equal("connected", (client:state()))
    end)

    it("goes on waiting when the connection that it waits for is lost again at once", function()
        local real, open = nil, core.open
        local decided, lost = false, false -- the wait was told of the connection; who waited was told of its loss
        local handle = setmetatable({}, { __index = function(_, name)
            return function(_, ...)
                if name == "state" and not lost and real:state() == "connected" then
                    lost = decided
                    decided = decided or debug.getinfo(2, "n").name == "decided" -- and not a pump before it
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

    it("names itself, its servers and its state, but no credentials", function()
        local client = fixture.client({ auth = { { scheme = "digest", credential = "user:secret" } } })
        assert.equal("zklock client (" .. fixture.servers() .. ", connected)", tostring(client))
        client:close()
        assert.equal("zklock client (" .. fixture.servers() .. ", closed)", tostring(client))
    end)

    it("answers closed to everything that is asked of it after close #valgrind #asan", function()
        local client = fixture.client()
        local lock = client:mutex(fixture.path())
        client:close()
        assert.equal("closed", select(3, lock:acquire(5)))
        assert.equal("closed", select(3, lock:try_acquire()))
        assert.equal("closed", select(3, lock:contenders(5)))
        assert.equal("not_held", select(3, lock:release()))
        client:pump()
        assert.is_false(lock:held())
    end)

    it("keeps what it does beneath its chroot", function()
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

    it("takes a chroot of / for none", function()
        local path = fixture.path()
        local lock = fixture.client(nil, fixture.servers() .. "/"):mutex(path)
        assert(lock:acquire(10))
        assert.equal(1, #fixture.children(path))
    end)

    it("counts what it does", function()
        local client = fixture.client()
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        local held = client:stats()
        assert.is_true(lock:release())
        local released = client:stats()
        assert.equal(1, held.grants)
        assert.equal(1, held.seats)
        assert.equal(0, released.seats)
        assert.equal(1, released.sessions)
        assert.is_true(released.requests > held.requests)
        assert.is_true(released.memory > 0)
    end)

    it("is collected with its session when the program forgets it and its locks #valgrind #asan", function()
        local path = fixture.path()
        do
            local client = assert(zklock.connect(fixture.servers(), { session_timeout = 30 }))
            local lock = client:mutex(path, { on_lost = function()
                error(client)
            end })
            client:on("state", function()
                error(client)
            end)
            assert(lock:acquire(10))
            assert.equal(1, #fixture.children(path)) -- in here, where both are still somebody's
        end
        fixture.collect()
        fixture.await_children(path, 0, 10)
    end)

    it("leaves no memory of its own after it is closed and collected #asan", function()
        local function bytes_at_rest()
            fixture.clean()
            collectgarbage()
            return core.memory()
        end
        fixture.client()
        local before = bytes_at_rest()
        do
            local client = fixture.client()
            local path = fixture.path()
            local lock, other = client:mutex(path), client:mutex(path)
            assert(lock:acquire(10))
            assert.equal("timeout", select(3, other:acquire(0.05)))
            assert.equal("timeout", select(3, other:try_acquire()))
            assert.equal(1, #lock:contenders(10))
            assert(client:flush(10))
            assert.is_true(core.memory() > before)
        end
        eventually(function()
            return bytes_at_rest() <= before, core.memory() .. " bytes, before " .. before
        end)
    end)

    it("closes though no server answers, and blocks nobody meanwhile", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        link:stall()
        assert.is_true(lock:release({ wait = false }))
        local closed, turns = false, 0
        loop.run(function()
            assert.is_true(client:close(20))
            closed = true
        end, function()
            loop.until_true(function()
                turns = turns + 1
                return closed
            end)
        end)
        assert.is_true(turns > 1, turns)
    end)

    it("says timeout to a close that does not wait, and goes on closing", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        link:stall()
        local ok, message, code = client:close(0)
        assert.same({ nil, "timeout" }, { ok, code })
        assert.truthy(message:find("still closing", 1, true), message)
        assert.is_true(client:close(20))
        assert.equal("closed", (client:state()))
    end)

    it("answers a flush that waits when it is closed: nothing of it is left then", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(20))
        fixture.cut_off(client, link)
        assert.is_true(lock:release({ wait = false }))
        local flushed
        loop.run(function()
            flushed = client:flush(50)
        end, function()
            assert.is_true(client:close(20))
        end)
        assert.is_true(flushed)
    end)

    it("says so when its chroot was deleted after it had connected", function()
        local chroot = fixture.directory()
        local client = fixture.client(nil, fixture.servers() .. chroot)
        assert(fixture.observer():delete(chroot))
        local ok, message, code = client:mutex("/lock"):acquire(20)
        assert.same({ nil, "no_node" }, { ok, code })
        assert.truthy(message:find("does the chroot exist?", 1, true), message)
    end)

    it("leaves the program's signals to the program's threads", function()
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
                assert.equal("7ffbfeff", (mask:gsub("^f", "7"))) -- 1 to 31, but KILL and STOP
            end
        end
        assert.equal(1, threads)
    end)

    it("leaves no thread and no file descriptor after it is closed", function()
        fixture.client()
        fixture.clean()
        local threads, descriptors = fixture.resources()
        for _ = 1, 5 do
            fixture.client():mutex(fixture.path()):acquire(10)
        end
        fixture.clean()
        eventually(function()
            local threads_now, descriptors_now = fixture.resources()
            return threads_now <= threads and descriptors_now <= descriptors,
                threads_now .. " threads, " .. descriptors_now .. " descriptors"
        end)
    end)

    it("keeps no more than what event loops may look at yet, the pipe for news, from its close until it is collected", function()
        fixture.client()
        fixture.clean()
        local threads, descriptors = fixture.resources()
        local clients = {}
        for i = 1, 5 do
            clients[i] = fixture.client()
            assert(clients[i]:mutex(fixture.path()):acquire(10))
            assert.is_true(clients[i]:close())
        end
        eventually(function() -- a thread that has been joined may be listed for a moment yet
            return fixture.resources() <= threads
        end)
        local _, descriptors_now = fixture.resources()
        assert.is_true(descriptors_now < descriptors + 3 * #clients, descriptors .. ", " .. descriptors_now)
        for _, client in ipairs(clients) do
            assert.is_true(client:close()) -- again, which does nothing
            assert.equal("closed", select(3, client:mutex(fixture.path()):acquire(1)))
        end
    end)
end)

describe("on(\"state\")", function()
    after_each(fixture.clean)

    it("tells of a lost connection and of the next one, in that order", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 20 })
        client:pump() -- that it is connected may not have been told yet
        local seen = {}
        local off = client:on("state", function(state)
            if seen[#seen] ~= state then
                seen[#seen + 1] = state
            end
        end)
        link:refuse()
        link:cut()
        fixture.pump_until(client, function()
            return seen[1] == "suspended"
        end)
        link:accept()
        fixture.pump_until(client, function()
            return seen[2] == "connected"
        end)
        off()
        client:close()
        assert.same({ "suspended", "connected" }, seen)
    end)

    it("says what stands in the way", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 20 })
        local problems = {}
        client:pump()
        client:on("state", function(_, problem)
            problems[#problems + 1] = problem
        end)
        link:refuse()
        link:cut()
        fixture.pump_until(client, function()
            return problems[1] and problems[1] ~= ""
        end)
    end)

    it("tells of the end", function()
        local client = fixture.client()
        local last
        client:on("state", function(state)
            last = state
        end)
        client:close()
        assert.equal("closed", last)
    end)

    it("survives a callback that raises, reports it, and goes on calling the others", function()
        local lines, called = {}, false
        local client = fixture.client({ log = function(level, message)
            lines[#lines + 1] = level .. ": " .. message
        end })
        client:on("state", function()
            error("not my day", 0)
        end)
        client:on("state", function()
            called = true
        end)
        assert.is_true(client:close())
        assert.is_true(called)
        assert.truthy(table.concat(lines, "\n"):find('error: the callback on("state") raised: not my day', 1, true))
    end)
end)

describe("the log option", function()
    after_each(fixture.clean)

    it("keeps the latest 64 lines for a program that does not fetch them", function()
        local lines = {}
        local client = fixture.client({ session_timeout = 4, log = function(_, message)
            lines[#lines + 1] = message
        end })
        local path, claims = fixture.path(), {}
        local terms = assert(core.terms(path, "mutex", "one of many", "open"))
        fixture.join(path)
        for index = 1, 70 do
            claims[index] = assert(client._core:claim(terms, {}))
        end
        fixture.await_children(path, 71)
        local deleted = {}
        for _, name in ipairs(fixture.children(path)) do
            if name:find("%-lock%-") and not name:find("01234567", 1, true) then
                deleted[name] = true
                fixture.observer():delete(path .. "/" .. name)
            end
        end
        eventually(function() -- all of them queue again, each with a line about it
            local again = 0
            for _, name in ipairs(fixture.children(path)) do
                again = again + (deleted[name] and 0 or 1)
            end
            return again == 71, again
        end)
        client:pump()
        assert.equal("waiting", (claims[70]:phase()))
        assert.equal(64, #lines)
        assert.truthy(lines[64]:find("queueing again", 1, true), lines[64])
    end)

    it("gets the lines, each with a level", function()
        local levels = {}
        local client, link = fixture.client_behind_proxy({ log = function(level, message)
            assert(type(message) == "string")
            levels[level] = (levels[level] or 0) + 1
        end })
        link:cut()
        fixture.pump_until(client, function()
            return next(levels)
        end)
        for level in pairs(levels) do
            assert.truthy(({ error = true, warn = true, info = true, debug = true })[level])
        end
    end)

    it("may raise without harm", function()
        local client, link = fixture.client_behind_proxy({ session_timeout = 20, log = function()
            error("no log today")
        end })
        link:cut()
        assert(client:mutex(fixture.path()):acquire(20))
    end)
end)

describe("connect", function()
    after_each(fixture.clean)

    it("gives up in time where nothing listens, and names the address #valgrind #asan", function()
        local address = "127.0.0.1:" .. ports.free()
        local message, code = fail_to_connect(address, { connect_timeout = 0.5 })
        assert.equal("disconnected", code)
        assert.truthy(message:find(address, 1, true), message)
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

    it("gives up in time on servers that were stopped in their tracks", function()
        local servers = cluster.start()
        servers:pause()
        local _, code = fail_to_connect(servers.servers, { connect_timeout = 1 })
        servers:resume()
        servers:stop()
        assert.equal("disconnected", code)
    end)

    it("answers no_node for a chroot that does not exist, and does not make it", function()
        local chroot = fixture.path()
        local message, code = fail_to_connect(fixture.servers() .. chroot, { connect_timeout = 20 })
        assert.equal("no_node", code)
        assert.truthy(message:find(chroot, 1, true), message)
        assert.is_nil((fixture.observer():exists(chroot)))
    end)

    it("answers auth_failed for credentials of a sort that the server does not know, without showing them", function()
        local message, code = fail_to_connect(fixture.servers(), {
            connect_timeout = 20,
            auth = { { scheme = "nosuchscheme", credential = "user:secret" } }
        })
        assert.equal("auth_failed", code)
        assert.is_nil(message:find("secret", 1, true))
    end)

    it("does so to all who wait already", function()
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

    it("finds the living among dead servers", function()
        local dead = "127.0.0.1:" .. ports.free()
        local client = fixture.client(nil, dead .. "," .. fixture.servers() .. "," .. dead)
        assert(client:mutex(fixture.path()):acquire(10))
    end)

    it("leaves no thread and no file descriptor when it fails", function()
        fixture.client()
        fixture.clean()
        local threads, descriptors = fixture.resources()
        for _ = 1, 5 do
            fail_to_connect("127.0.0.1:" .. ports.free(), { connect_timeout = 0.05 })
        end
        eventually(function()
            collectgarbage()
            local threads_now, descriptors_now = fixture.resources()
            return threads_now <= threads and descriptors_now <= descriptors,
                threads_now .. " threads, " .. descriptors_now .. " descriptors"
        end)
    end)
end)
