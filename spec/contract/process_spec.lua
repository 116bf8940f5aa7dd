--- Locks of processes that end, stop, fork or are interrupted, and of several processes at once.

local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local files = require "spec.support.files"
local fixture = require "spec.support.fixture"
local proxy = require "spec.support.proxy"
local interpreter = require("spec.support.program").interpreter

--- A session timeout that is longer than the specs run, so that it cannot be what freed a lock.
local LONG = 60

describe("a process that holds a lock", function()
    after_each(fixture.clean)

    for how, what in pairs({ exit = "calls os.exit", fall = "ends its main chunk", close = "closes its client" }) do
        it(("frees it at once when it %s #valgrind"):format(what), function()
            local path = fixture.path()
            local worker = fixture.worker(path, LONG)
            assert.equal("ok", worker:ask("acquire 10"))
            local session = fixture.session_of(path)
            if how == "close" then
                assert.equal("ok", worker:ask("close"))
            else
                worker:tell(how)
                local result = worker:finish()
                assert.same({ 0, "", "" }, { result.status, result.output, result.errors })
            end
            fixture.await_children(path, 0)
            fixture.assert_not_expired(session)
        end)
    end

    it("frees it at once when it ends by an error", function()
        local path = fixture.path()
        local worker = fixture.worker(path, LONG)
        assert.equal("ok", worker:ask("acquire 10"))
        local session = fixture.session_of(path)
        worker:tell("raise")
        local result = worker:finish()
        assert.equal(1, result.status)
        assert.truthy(result.errors:find("raised while holding", 1, true))
        fixture.await_children(path, 0)
        fixture.assert_not_expired(session)
    end)

    it("frees it when it forgets its lock", function()
        local path = fixture.path()
        local worker = fixture.worker(path, LONG)
        assert.equal("ok", worker:ask("acquire 10"))
        local session = fixture.session_of(path)
        assert.equal("ok", worker:ask("forget"))
        fixture.await_children(path, 0)
        fixture.assert_not_expired(session)
    end)

    it("frees it after its session timeout when it is killed", function()
        local path = fixture.path()
        local worker = fixture.worker(path, 6)
        assert.equal("ok", worker:ask("acquire 10"))
        worker:signal("KILL")
        assert.equal(137, worker:finish().status)
        local lock = fixture.client({ session_timeout = LONG }):mutex(path)
        assert(lock:acquire(60))
        assert.equal(1, #fixture.children(path))
    end)

    it("finds held() false at the first call after it was stopped for longer than its session", function()
        local path = fixture.path()
        local worker = fixture.worker(path, 10)
        assert.equal("ok", worker:ask("acquire 10"))
        local token = worker:ask("token")
        assert.equal("spinning", worker:ask("spin"))
        worker:signal("STOP")
        local lock = fixture.client({ session_timeout = LONG }):mutex(path)
        assert(lock:acquire(60))
        assert.is_true(lock:token() > token)
        worker:signal("CONT")
        assert.equal("lost in no pause", worker:line())
        assert.equal("false", worker:ask("held"))
        assert.equal("nil", worker:ask("token"))
        assert.equal("lost", worker:ask("release"))
        assert.is_true(lock:held())
        assert.is_true(lock:release())
        assert.equal("ok", worker:ask("acquire 20"))
    end)

    it("writes nothing to stderr without being asked to, whatever happens to its connection", function()
        local path = fixture.path()
        local link = proxy.start(fixture.servers())
        local worker = fixture.program("worker", link.address, path, 20)
        assert.equal("ready", worker:line())
        assert.equal("ok", worker:ask("acquire 10"))
        link:cut()
        link:refuse()
        assert.truthy(({ ok = true, lost = true, disconnected = true })[worker:ask("release")])
        link:accept()
        assert.equal("ok", worker:ask("acquire 60"))
        fixture.kill_owner(worker:ask("node"))
        assert.equal("spinning", worker:ask("spin"))
        assert.truthy(worker:line())
        worker:tell("fall")
        local result = worker:finish()
        link:stop()
        assert.same({ 0, "" }, { result.status, result.errors })
    end)
end)

describe("the module", function()
    it("is not unmapped when its Lua is closed, since a thread of its own may be running in it", function()
        local said = cluster.run({ "env", "LD_DEBUG=files", interpreter(), "-e", 'require "zklock.core"' })
        assert.truthy(said:find("opening file=[^\n]*zklock/core.so"), said)
        assert.is_nil(said:match("[^\n]*zklock/core.so[^\n]*destroying link map"))
    end)
end)

describe("a process that waits for a lock", function()
    after_each(fixture.clean)

    it("can be interrupted: the error is passed on, nothing is left, its client works #valgrind", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local program = fixture.program("interrupted", fixture.servers(), path)
        assert.equal("waiting", program:line())
        fixture.await_children(path, 2)
        program:signal("INT")
        local outcome = program:line()
        assert.truthy(outcome:find("^false\t.*interrupted!$"), outcome)
        assert.equal("timeout", program:line())
        assert.equal("1", program:line())
        assert.equal("true\tok", program:line())
        local result = program:finish()
        assert.same({ 0, "" }, { result.status, result.errors })
        assert.same({ holder:match("[^/]+$") }, fixture.children(path))
    end)

    it("leaves nothing behind, at once, when its main chunk ends while a coroutine waits", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local program = fixture.program("ender", fixture.servers(), path)
        assert.equal("waiting", program:line())
        fixture.await_children(path, 2)
        local waiter = fixture.observer():exists(fixture.other_child(path, holder)).ephemeralOwner
        program:tell("")
        local result = program:finish()
        assert.same({ 0, "" }, { result.status, result.errors })
        fixture.await_children(path, 1)
        fixture.assert_not_expired(waiter)
        assert.same({ holder:match("[^/]+$") }, fixture.children(path))
    end)

    it("leaves nothing behind when it is killed, after its session timeout", function()
        local path = fixture.path()
        fixture.join(path)
        local worker = fixture.worker(path, 6)
        assert.equal("waiting", worker:ask("wait"))
        fixture.await_children(path, 2)
        worker:signal("KILL")
        fixture.await_children(path, 1)
    end)

    it("leaves nothing behind, at once, when Ctrl-C terminates it and the error is not caught", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local worker = fixture.worker(path, LONG)
        assert.equal("waiting", worker:ask("wait"))
        fixture.await_children(path, 2)
        local waiter = fixture.observer():exists(fixture.other_child(path, holder)).ephemeralOwner
        worker:signal("INT")
        local result = worker:finish()
        assert.equal(1, result.status)
        assert.truthy(result.errors:find("interrupted!", 1, true))
        fixture.await_children(path, 1)
        fixture.assert_not_expired(waiter)
    end)
end)

describe("many processes", function()
    after_each(fixture.clean)

    it("hold a lock one at a time: twenty of them count without losing a count, and tokens grow with the count", function()
        local path = fixture.path()
        local file_name = os.tmpname()
        files.write(file_name, "0\n")
        local programs = {}
        for index = 1, 20 do
            programs[index] = fixture.program("counter", fixture.servers(), path, file_name, 10)
        end
        local tokens = {}
        for index = 1, 20 do
            local line = programs[index]:line()
            local result = programs[index]:finish()
            assert.same({ "done", 0, "" }, { line, result.status, result.errors })
            for count, token in result.output:gmatch("(%d+) (%S+)") do
                assert.is_nil(tokens[tonumber(count)])
                tokens[tonumber(count)] = token
            end
        end
        os.remove(file_name)
        assert.equal(200, #tokens)
        for index = 2, 200 do
            assert.is_true(tokens[index - 1] < tokens[index])
        end
        assert.same({}, fixture.children(path))
    end)

    it("are served in arrival order", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local workers = {}
        for index = 1, 5 do
            workers[index] = fixture.worker(path, LONG)
            assert.equal("waiting", workers[index]:ask("wait"))
            fixture.await_children(path, 1 + index)
        end
        fixture.observer():delete(holder)
        for index = 1, 5 do
            assert.equal("ok", workers[index]:line())
            assert.equal("true", workers[index]:ask("held"))
            assert.equal(6 - index, #fixture.children(path))
            assert.equal("ok", workers[index]:ask("release"))
        end
    end)
end)

describe("a fork of a process that holds a lock", function()
    after_each(fixture.clean)

    local test = compat.it_with({ it = it, pending = pending }, pcall(require, "posix.unistd"), "lua-posix")

    test("answers forked to every call, touches nothing, and the parent is not disturbed", function()
        local path = fixture.path()
        local program = fixture.program("forker", fixture.servers(), path)
        local result = program:finish()
        assert.same({ 0, "" }, { result.status, result.errors })
        assert.equal(table.concat({
            "child waited\tforked",
            "child waited\tforked",
            "child waited\tforked",
            "child held\tfalse",
            "child token\tnil",
            "child stats\tforked",
            "child flush\tforked",
            "child contenders\tforked",
            "child commit\tforked",
            "child multi\tforked",
            "child try\tforked",
            "child session timeout\t0",
            "child pump\ttrue\tfalse",
            "child state\tforked",
            "child acquire\tforked",
            "child release\tforked",
            "child close\tforked",
            "child\tforked",
            "child alarm\ttrue",
            "child ended\texited\t0",
            "parent held\ttrue",
            "parent release\ttrue",
            "child with_lock\tnil\tforked",
            "parent with_lock\ttrue",
            "child with_lock\tnil\tforked",
            "parent with_lock\ttrue",
            ""
        }, "\n"), result.output)
        assert.same({}, fixture.children(path))
    end)

    local in_luv = compat.it_with({ it = test, pending = pending }, pcall(require, "luv"), "lua-luv")

    in_luv("in a loop of luv, whose handles the child closes, the parent is told that it has a lock", function()
        local result = fixture.program("luv_forker", fixture.servers(), fixture.path()):finish()
        assert.same({ 0, "", "child ended\texited\nparent got\ttrue\nparent held\ttrue\n" },
            { result.status, result.errors, result.output })
    end)
end)

describe("a process that cannot connect", function()
    after_each(fixture.clean)

    local cases = {
        { "nothing listens", "disconnected", function()
            return "127.0.0.1:1"
        end },
        { "the name does not resolve", "disconnected", function()
            return "no-such-host.invalid:2181"
        end },
        { "another protocol is spoken", "disconnected", function()
            return "127.0.0.1:" .. fixture.program("speaker", "ssh"):line()
        end },
        { "nothing is answered", "disconnected", function()
            return "127.0.0.1:" .. fixture.program("speaker", "silent"):line()
        end },
        { "the chroot does not exist", "no_node", function()
            return fixture.servers() .. fixture.path()
        end }
    }
    for _, case in ipairs(cases) do
        it("where " .. case[1] .. " gets the code for it, writes nothing to stderr, and can end", function()
            local result = fixture.program("connector", case[3](), case[2] == "disconnected" and 1 or 20):finish()
            assert.same({ 0, case[2] .. "\n", "" }, { result.status, result.output, result.errors })
        end)
    end
end)

describe("a process that waits for its first connection", function()
    after_each(fixture.clean)

    it("can be ended by Ctrl-C", function()
        local link = proxy.start(fixture.servers())
        link:stall()
        local connector = fixture.program("connector", link.address, 50)
        eventually(function()
            return link:status().connections > 0
        end)
        connector:signal("INT")
        local result = connector:finish()
        link:stop()
        assert.equal(1, result.status)
        assert.truthy(result.errors:find("interrupted!", 1, true), result.errors)
    end)
end)

describe("a program that is started by this one", function()
    after_each(fixture.clean)

    it("inherits no file descriptor of a client, even if new sockets have the numbers of old ones", function()
        local count = "ls /proc/self/fd | wc -l"
        local link, path = proxy.start(fixture.servers()), fixture.path()
        local without = cluster.run({ "sh", "-c", count })
        local client = fixture.client({ session_timeout = 30 }, link.address)
        local lock = client:mutex(path)
        for connections = 1, 3 do
            assert(lock:acquire(20))
            assert(lock:release())
            assert.equal(without, (cluster.run({ "sh", "-c", count })))
            link:cut()
            eventually(function()
                return client:stats().connections > connections and client:state() == "connected"
            end)
        end
        client:close()
        link:stop()
    end)
end)
