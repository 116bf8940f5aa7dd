--- What a client's reads, writes and watches promise.

local core = require "zklock.core"
local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local zklock = require "zklock"

local NO_OWNER = ("0"):rep(16)

--- Fails unless the results are nil, a message that names `words`, and the code.
local function assert_code(code, words, ...)
    local result, message, got = ...
    assert.is_nil(result)
    assert.is_string(message)
    assert.equal(code, got, message)
    for _, word in ipairs(words) do
        assert.truthy(message:find(word, 1, true), message)
    end
end

--- A client that waits in the specs' loop, and a node of its own with some data.
local function client_and_node(data)
    local client = fixture.client({ wait = loop })
    local path = fixture.path()
    assert(client:create(path, data or "data"))
    return client, path
end

--- How many watches the server has, those of children included, which it does not list.
local function watch_count()
    return tonumber(cluster.shared():ask("mntr"):match("zk_watch_count%s+(%d+)"))
end

describe("a client", function()
    after_each(fixture.clean)

    it("creates, reads, writes, looks at, lists and deletes a node #valgrind #asan", function()
        local client, observer = fixture.client(), fixture.observer()
        local path = fixture.path()
        local created, stat = client:create(path, "one")
        assert.equal(path, created)
        assert.equal(0, stat.version)
        assert.equal("one", (observer:get(path)))

        local data
        data, stat = client:get(path)
        assert.equal("one", data)
        assert.equal(3, stat.data_length)

        stat = assert(client:set(path, "three"))
        assert.same({ 1, 5 }, { stat.version, stat.data_length })
        assert.equal("three", (observer:get(path)))

        assert(client:create(path .. "/child"))
        assert.equal(1, client:exists(path).num_children)
        local names
        names, stat = client:children(path)
        assert.same({ "child" }, names)
        assert.equal(1, stat.num_children)

        assert.is_true(client:delete(path .. "/child"))
        assert.is_true(client:delete(path))
        assert.is_false((client:exists(path)))
        assert.is_nil((observer:exists(path)))
        assert.is_true(client:sync(path))
    end)

    it("describes a node as others see it", function()
        local client, path = client_and_node()
        local node = assert(client:create(path .. "/e", "x", { ephemeral = true }))
        assert(client:set(path, "y"))
        for _, each in ipairs({ path, node }) do
            local expected, stat = fixture.observer():exists(each), client:exists(each)
            assert.same({
                czxid = expected.czxid,
                mzxid = expected.mzxid,
                pzxid = expected.pzxid,
                ctime = expected.ctime / 1000,
                mtime = expected.mtime / 1000,
                version = expected.version,
                cversion = expected.cversion,
                aversion = expected.aversion,
                ephemeral_owner = expected.ephemeralOwner,
                data_length = expected.dataLength,
                num_children = expected.numChildren
            }, stat)
            assert.equal(each == path, stat.ephemeral_owner == NO_OWNER)
        end
    end)

    it("makes nodes of every sort", function()
        local client, path = client_and_node()
        local first = assert(client:create(path .. "/n-", "", { sequential = true }))
        local second = assert(client:create(path .. "/n-", "", { sequential = true, ephemeral = true }))
        assert.same({ path .. "/n-0000000000", path .. "/n-0000000001" }, { first, second })
        assert.equal(path .. "/0000000002", (client:create(path .. "/", "", { sequential = true })))
        assert.equal(NO_OWNER, client:exists(first).ephemeral_owner)
        assert.is_not.equal(NO_OWNER, client:exists(second).ephemeral_owner)
        assert(client:close())
        assert.is_nil((fixture.observer():exists(second)))
        assert.truthy((fixture.observer():exists(first)))
    end)

    it("makes containers", function()
        local client, link = fixture.client_behind_proxy()
        local path = fixture.path()
        local created, stat = client:create(path, "x", { container = true })
        assert.same({ path, 0 }, { created, stat.version })
        assert.equal(1, link:counts().createContainer)
    end)

    it("gives nodes the acl that it was opened with, or that it is told", function()
        local credentials = { { scheme = "digest", credential = "user:password" } }
        local client = fixture.client({ auth = credentials, acl = "creator" })
        local path = fixture.path()
        assert(client:create(path, "secret"))
        assert(client:create(path .. "/open", "open", { acl = "open" }))
        assert(client:create(path .. "/read", "read", { acl = { { scheme = "world", id = "anyone", perms = "r" } } }))
        local stranger = fixture.client()
        assert_code("no_auth", { "reading '" .. path .. "'" }, stranger:get(path))
        assert_code("no_auth", { "creating" }, stranger:create(path .. "/mine"))
        assert_code("no_auth", { "listing" }, stranger:children(path))
        assert.equal("open", (stranger:get(path .. "/open")))
        assert.equal("read", (stranger:get(path .. "/read")))
        assert_code("no_auth", { "writing" }, stranger:set(path .. "/read", ""))
        assert.equal("secret", (client:get(path)))
    end)

    it("keeps every byte of the data #asan", function()
        local client, path = client_and_node("\0")
        local bytes = {}
        for byte = 0, 255 do
            bytes[#bytes + 1] = string.char(byte)
        end
        local all = table.concat(bytes)
        assert.equal("\0", (client:get(path)))
        for _, data in ipairs({ all, "", "\0\0\0", "a\0b" }) do
            assert(client:set(path, data))
            assert.equal(data, (client:get(path)))
        end
    end)

    it("reads a node without data as one with empty data", function()
        local client = fixture.client()
        local path = fixture.path()
        assert(client:create(path))
        assert.equal("", (client:get(path)))
        assert(client:set(path, "x"))
        assert(client:set(path, nil))
        assert.equal("", (client:get(path)))
        assert.equal(0, client:exists(path).data_length)
    end)

    it("carries 900 kilobytes, and refuses what would cost it the connection #asan", function()
        local client, path = client_and_node()
        local large = ("0123456789"):rep(90000)
        assert(client:set(path, large))
        assert.is_true(client:get(path) == large)
        assert_code("failed", { path, "1000000" }, client:set(path, ("x"):rep(1000000)))
        assert_code("failed", { path, "1000000" }, client:create(path .. "/x", ("x"):rep(2000000)))
        assert.is_true(client:get(path) == large)
        assert.equal(1, client:stats().connections)
    end)

    it("sends several large pieces at once", function()
        local client, path = client_and_node()
        local functions, versions = {}, {}
        for index = 1, 8 do
            functions[index] = function()
                versions[index] = assert(client:set(path, (index .. "x"):rep(200000), { timeout = 30 })).version
            end
        end
        loop.run_all(functions)
        table.sort(versions)
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, versions)
        assert.equal(1, client:stats().connections)
    end)

    it("gives its memory back, however large the data", function()
        local client, path = client_and_node(("x"):rep(500000))
        assert(client:get(path))
        fixture.collect()
        local before = core.memory()
        collectgarbage("stop")
        for _ = 1, 20 do
            assert(client:set(path, ("y"):rep(500000)))
            assert(client:get(path))
            assert_code("no_node", {}, client:get(path .. "/no"))
        end
        collectgarbage("restart")
        assert(client:flush(10)) -- what was let go is off the list
        assert.is_true(core.memory() - before < 20000, core.memory() - before)
    end)

    it("lists thousands of children", function()
        local client, path = client_and_node()
        for _ = 1, 5 do
            local transaction = client:transaction()
            for _ = 1, 1000 do
                transaction:create(path .. "/a-child-with-quite-a-long-name-", "", { sequential = true })
            end
            assert(transaction:commit(60))
        end
        assert.equal(5000, #client:children(path))
        assert(fixture.observer():delete_recursive(path))
    end)

    it("sees the root and ZooKeeper's own nodes", function()
        local client = fixture.client()
        local names = assert(client:children("/"))
        local found = {}
        for _, name in ipairs(names) do
            found[name] = true
        end
        assert.is_true(found.zookeeper)
        assert.truthy(client:exists("/"))
        assert.truthy(client:get("/zookeeper/config"))
        assert.is_true(client:sync("/"))
    end)

    it("stays below the chroot that it was opened with", function()
        local root = fixture.directory()
        local client = fixture.client(nil, fixture.servers() .. root)
        assert.equal("/a", (client:create("/a", "x")))
        assert.equal("/a/0000000000", client:transaction():create("/a/", "", { sequential = true }):commit()[1])
        assert.same({ "a" }, (client:children("/")))
        assert.equal("x", (fixture.observer():get(root .. "/a")))
        local _, _, watch = client:get("/a", { watch = true })
        fixture.observer():set(root .. "/a", "y")
        assert.equal("changed", watch:wait(10))
    end)

    it("writes and deletes only the version that it is told", function()
        local client, path = client_and_node()
        assert_code("bad_version", { "writing '" .. path .. "'" }, client:set(path, "x", { version = 5 }))
        assert_code("bad_version", { "deleting '" .. path .. "'" }, client:delete(path, { version = 1 }))
        assert.equal(1, client:set(path, "x", { version = 0 }).version)
        assert.equal(2, client:set(path, "x", { version = -1 }).version)
        assert.is_true(client:delete(path, { version = 2 }))
    end)

    it("says what was tried, on which path, and what ZooKeeper said", function()
        local client, path = client_and_node()
        local missing = path .. "/missing"
        assert_code("no_node", { "reading '" .. missing .. "'", "no node" }, client:get(missing))
        assert_code("no_node", { "writing '" .. missing .. "'" }, client:set(missing, ""))
        assert_code("no_node", { "deleting '" .. missing .. "'" }, client:delete(missing))
        assert_code("no_node", { "listing the children of '" .. missing .. "'" }, client:children(missing))
        assert_code("no_node", { "creating '" .. missing .. "/x'" }, client:create(missing .. "/x"))
        assert_code("node_exists", { "creating '" .. path .. "'" }, client:create(path))
        assert(client:create(path .. "/child", nil, { ephemeral = true }))
        assert_code("not_empty", { "deleting '" .. path .. "'" }, client:delete(path))
        assert_code("failed", { "ephemeral" }, client:create(path .. "/child/x"))
    end)

    it("answers closed after its close, and to those who wait #asan", function()
        local client, path = client_and_node()
        local _, _, watch = client:get(path, { watch = true })
        local answer
        loop.run(function()
            answer = { watch:wait(20) }
        end, function()
            assert(client:close())
        end)
        assert_code("closed", { path }, compat.unpack(answer))
        assert_code("closed", {}, client:get(path))
        assert_code("closed", {}, client:set(path, "x"))
        assert_code("closed", {}, client:transaction():delete(path):commit())
        assert_code("closed", { path }, watch:wait())
    end)

    it("takes its operations with it when it is collected in the middle of them #asan", function()
        local path = fixture.directory()
        fixture.collect()
        local before = core.memory()
        local adapter = { wait = coroutine.yield, wake = error }
        local client = assert(zklock.connect(fixture.servers(), { wait = adapter, connect_timeout = 0 }))
        local thread = coroutine.create(function()
            client:get(path, { watch = true })
        end)
        assert(coroutine.resume(thread))
        client, thread = nil, nil -- luacheck: ignore
        fixture.collect()
        eventually(function()
            fixture.collect()
            return core.memory() <= before
        end)
        assert.is_false(fixture.is_watched(path))
    end)

    local has_posix = pcall(require, "posix.unistd")
    local test = has_posix and it or pending

    test("answers forked in the child of a fork, and the parent's goes on #real", function()
        local path = fixture.directory()
        local result = fixture.program("node_forker", fixture.servers(), path):finish()
        assert.same({ 0, "" }, { result.status, result.errors })
        assert.equal(table.concat({
            "child get\tforked",
            "child set\tforked",
            "child commit\tforked",
            "child watch\tforked",
            "child ended\texited\t0",
            "parent get\t",
            "parent set\t1",
            "parent watch\tchanged",
            ""
        }, "\n"), result.output)
    end)
end)

describe("without a connection, a client", function()
    after_each(fixture.clean)

    local function behind_proxy(session_timeout)
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = session_timeout or 30 })
        local path = fixture.path()
        assert(client:create(path, "data"))
        return client, link, path
    end

    local function suspend(client, link)
        fixture.cut_off(client, link)
    end

    it("waits for one within the timeout, and says what stands in the way #asan", function()
        local client, link, path = behind_proxy()
        suspend(client, link)
        assert_code("disconnected", { "reading " .. path, "0.2 s", link.address }, client:get(path, { timeout = 0.2 }))
        assert_code("disconnected", { "writing " .. path, "may or may not" },
            client:set(path, "x", { timeout = 0.2 }))
        link:accept()
        assert.equal("data", (client:get(path, { timeout = 30 })))
        assert(client:flush(20))
        assert.equal("data", (fixture.observer():get(path))) -- what was given up before it was sent never is
    end)

    it("does in order, when it is back, what was asked for meanwhile", function()
        local client, link, path = behind_proxy()
        suspend(client, link)
        local stats, functions = {}, {}
        for index = 1, 5 do
            functions[index] = function()
                stats[index] = assert(client:set(path, tostring(index), { timeout = 30 }))
            end
        end
        functions[6] = function()
            link:accept()
        end
        loop.run_all(functions)
        for index = 1, 5 do
            assert.equal(index, stats[index].version)
        end
        assert.equal("5", (fixture.observer():get(path)))
    end)

    it("times out when the server says nothing", function()
        local client, link, path = behind_proxy()
        link:arm("set", "stall-reply")
        assert_code("timeout", { "writing " .. path, "may or may not" }, client:set(path, "x", { timeout = 0.3 }))
        link:wait_fired()
        link:resume()
        assert.equal("x", (client:get(path, { timeout = 20 })))
    end)

    for _, moment in ipairs({ "before", "after" }) do
        it(("reads again what was cut %s the server had it #asan"):format(moment), function()
            local client, link, path = behind_proxy()
            link:arm("get", moment)
            assert.equal("data", (client:get(path, { timeout = 30 })))
            link:wait_fired()
            link:arm("children", moment)
            assert.same({}, (client:children(path, { timeout = 30 })))
            link:wait_fired()
            link:arm("sync", moment)
            assert.is_true(client:sync(path, { timeout = 30 }))
            link:wait_fired()
        end)

        it(("does not write again what was cut %s the server had it, but says so #asan"):format(moment), function()
            local client, link, path = behind_proxy()
            link:arm("set", moment)
            assert_code("disconnected", { "writing '" .. path .. "'", "not known" },
                client:set(path, "x", { timeout = 30 }))
            link:wait_fired()
            assert.equal(moment == "after" and 1 or 0, client:exists(path, { timeout = 30 }).version)
            link:arm("create", moment)
            assert_code("disconnected", { "creating", "not known" }, client:create(path .. "/x", "", { timeout = 30 }))
            link:wait_fired()
            assert.equal(moment == "after" and 1 or 0, #client:children(path, { timeout = 30 }))
            link:arm("delete", moment)
            assert_code("disconnected", { "deleting", "not known" }, client:delete(path .. "/x", { timeout = 30 }))
            link:wait_fired()
            assert.same({}, (client:children(path, { timeout = 30 })))
        end)
    end

    it("is told of the refusal of its credentials", function()
        local client = zklock.connect(fixture.servers(),
            { connect_timeout = 0, auth = { { scheme = "nonsense", credential = "x" } } })
        assert_code("auth_failed", {}, client:get("/", { timeout = 20 }))
        assert_code("auth_failed", {}, client:set("/a", "", { timeout = 20 }))
        client:close()
    end)
end)

describe("a watch", function()
    after_each(fixture.clean)

    it("fires once for what happened, and goes on saying so #valgrind #asan", function()
        local client, path = client_and_node()
        local observer = fixture.observer()
        local _, _, data = client:get(path, { watch = true })
        local _, _, children = client:children(path, { watch = true })
        local absent, creation = client:exists(path .. "/x", { watch = true })
        assert.is_false(absent)
        assert.is_nil(data:fired())
        assert.is_nil(children:fired())
        observer:set(path, "x")
        assert.equal("changed", data:wait(10))
        assert.is_nil(children:fired())
        observer:create(path .. "/x")
        assert.equal("created", creation:wait(10))
        assert.equal("child", children:wait(10))
        local stat, deletion = client:exists(path .. "/x", { watch = true })
        assert.equal(0, stat.version)
        observer:delete(path .. "/x")
        assert.equal("deleted", deletion:wait(10))
        assert.same({ "changed", "child", "created" }, { data:fired(), children:fired(), creation:wait() })
        assert.equal(("zklock watch (%s, changed)"):format(path), tostring(data))
        assert.equal(path, data:path())
        assert.is_false(fixture.is_watched(path))
        assert.equal(0, client:stats().watches - 4) -- those of this program, which has them still
    end)

    it("of the children also tells of the end of their parent", function()
        local client, path = client_and_node()
        local _, _, watch = client:children(path, { watch = true })
        fixture.observer():delete(path)
        assert.equal("deleted", watch:wait(10))
    end)

    it("answers timeout as often as it is asked in vain, and fires all the same", function()
        local client, path = client_and_node()
        local _, _, watch = client:get(path, { watch = true })
        assert_code("timeout", { path, "0.05 s" }, watch:wait(0.05))
        assert_code("timeout", { path }, watch:wait(0))
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(10))
    end)

    it("wakes all coroutines that wait for it", function()
        local client, path = client_and_node()
        local _, _, watch = client:get(path, { watch = true })
        local events = {}
        local function waiter()
            local event = assert(watch:wait(20))
            events[#events + 1] = event
        end
        loop.run(waiter, waiter, function()
            fixture.observer():set(path, "x")
        end)
        assert.same({ "changed", "changed" }, events)
    end)

    it("is waited for in the blocking adapter too", function()
        local client = fixture.client({ wait = "blocking" })
        local path = fixture.directory()
        local _, _, watch = client:get(path, { watch = true })
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(10))
    end)

    it("is not set by a read that fails", function()
        local client, path = client_and_node()
        assert_code("no_node", {}, client:get(path .. "/no", { watch = true }))
        assert_code("no_node", {}, client:children(path .. "/no", { watch = true }))
        assert.is_false(fixture.is_watched(path))
        assert.equal(0, client:stats().watches)
    end)

    it("is removed from the server when it is cancelled, and ends the waits for it #asan", function()
        local client, path = client_and_node()
        local kinds = { get = path, children = path, exists = path .. "/missing" }
        for method, where in pairs(kinds) do
            local before = watch_count()
            local first, second, third = client[method](client, where, { watch = true })
            local watch = third or second
            assert.truthy(first ~= nil)
            assert.equal(before + 1, watch_count())
            local answer
            loop.run(function()
                answer = { watch:wait(20) }
            end, function()
                watch:cancel()
            end)
            assert_code("cancelled", { where }, compat.unpack(answer))
            assert(client:flush(10))
            assert.equal(before, watch_count())
            watch:cancel()
            assert.is_nil(watch:fired())
        end
        assert.equal(0, client:stats().watches)
    end)

    it("is removed from the server when the program forgets it #asan", function()
        local client, path = client_and_node()
        client:get(path, { watch = true })
        client:exists(path .. "/missing", { watch = true })
        client:children(path, { watch = true })
        assert.is_true(fixture.is_watched(path))
        fixture.collect()
        assert(client:flush(10))
        assert.is_false(fixture.is_watched(path))
        assert.equal(0, client:stats().watches)
    end)

    it("does not disturb another on the same path #asan", function()
        local client, path = client_and_node()
        local _, _, first = client:get(path, { watch = true })
        local _, second = client:exists(path, { watch = true })
        local _, _, children = client:children(path, { watch = true })
        first:cancel()
        assert(client:flush(10))
        assert.is_true(fixture.is_watched(path))
        fixture.observer():set(path, "x")
        assert.equal("changed", second:wait(10))
        children:cancel()
        assert(client:flush(10))
        assert.is_false(fixture.is_watched(path))
    end)

    it("that was cancelled goes with the last one on its path", function()
        local client, path = client_and_node()
        local _, _, first = client:get(path, { watch = true })
        local _, _, second = client:get(path, { watch = true })
        first:cancel()
        second:cancel()
        assert(client:flush(10))
        assert.is_false(fixture.is_watched(path))
        first, second = nil, nil -- luacheck: ignore
        fixture.collect()
        assert(client:flush(10))
        assert.equal(0, client:stats().watches)
    end)

    it("stands beside the one of a waiting lock, whichever ends first #asan", function()
        local client = fixture.client({ wait = loop })
        local path = fixture.path()
        local holder = fixture.join(path)
        for _, first in ipairs({ "watch", "lock" }) do
            local lock, watch, code = client:mutex(path), nil, nil
            loop.run(function()
                code = select(3, lock:acquire(30))
            end, function()
                fixture.until_watched(holder)
                local _
                _, _, watch = client:get(holder, { watch = true })
                if first == "watch" then
                    watch:cancel()
                    assert(client:flush(10))
                    assert.is_true(fixture.is_watched(holder))
                end
                assert.is_true(lock:cancel())
            end)
            assert.equal("cancelled", code)
            assert(client:flush(10))
            if first == "lock" then
                assert.is_true(fixture.is_watched(holder))
                assert.is_nil(watch:fired())
                watch:cancel()
                assert(client:flush(10))
            end
            assert.is_false(fixture.is_watched(holder))
        end
    end)

    it("leaves a waiting lock on its path able to hear of its turn", function()
        local client = fixture.client({ wait = loop })
        local path = fixture.path()
        local holder = fixture.join(path)
        local lock, event = client:mutex(path), nil
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_watched(holder)
            local _, _, cancelled = client:get(holder, { watch = true })
            local _, kept = client:exists(holder, { watch = true })
            cancelled:cancel()
            assert(client:flush(10))
            fixture.observer():delete(holder)
            event = kept:wait(20)
        end)
        assert.equal("deleted", event)
        assert.is_true(lock:held())
    end)

    it("survives the loss of its connection #asan", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local _, _, watch = client:get(path, { watch = true })
        link:cut()
        eventually(function()
            return client:stats().connections == 2 and fixture.is_watched(path)
        end)
        assert.is_nil(watch:fired())
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(20))
    end)

    it("fires after the reconnection for what happened meanwhile", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local _, _, data = client:get(path, { watch = true })
        local _, creation = client:exists(path .. "/x", { watch = true })
        link:refuse()
        link:cut()
        fixture.observer():create(path .. "/x")
        fixture.observer():set(path, "x")
        link:accept()
        assert.equal("changed", data:wait(20))
        assert.equal("created", creation:wait(20))
    end)

    it("is set once by a read whose reply is lost", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        link:arm("get", "after")
        local _, _, watch = assert(client:get(path, { watch = true, timeout = 30 }))
        link:wait_fired()
        watch:cancel()
        assert(client:flush(20))
        assert.is_false(fixture.is_watched(path))
        assert.equal("0", ("%d"):format(client:stats().notifications))
    end)

    it("cancelled while disconnected is removed after the reconnection", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local _, _, watch = client:get(path, { watch = true })
        fixture.cut_off(client, link)
        watch:cancel()
        link:accept()
        assert(client:flush(20))
        assert.is_false(fixture.is_watched(path))
    end)

    it("ends with its session, and the next read sets another #asan", function()
        local client, path = client_and_node()
        local node = assert(client:create(path .. "/mine", "", { ephemeral = true }))
        local _, _, watch = client:get(path, { watch = true })
        fixture.kill_owner(node)
        assert_code("lost", { path, "session" }, watch:wait(30))
        assert_code("lost", { path }, watch:wait(0))
        _, _, watch = assert(client:get(path, { watch = true, timeout = 30 }))
        fixture.observer():set(path, "x")
        assert.equal("changed", watch:wait(20))
    end)

    it("is refused when the client watches more than a reconnection can carry", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local path = fixture.directory()
        local watches, message, code = {}, nil, nil
        local name = path .. "/" .. ("x"):rep(60000)
        for index = 1, 20 do
            local exists, watch, problem = client:exists(name .. index, { watch = true })
            if exists == nil then
                message, code = watch, problem
                break
            end
            watches[index] = watch
        end
        assert.equal("failed", code)
        assert.truthy(message:find("too many", 1, true), message)
        assert.is_true(#watches >= 10)
        link:cut()
        eventually(function()
            return client:stats().connections > 1
        end)
        fixture.observer():create(name .. 2)
        assert.equal("created", watches[2]:wait(20))
        assert.equal(2, client:stats().connections)
        watches[1]:cancel()
        watches[1] = nil
        assert(client:flush(10))
        fixture.collect()
        assert(client:flush(10))
        assert.is_false((client:exists(name .. "last", { watch = true })))
    end)
end)

describe("a primitive refuses", function()
    local client

    setup(function()
        client = fixture.client({ connect_timeout = 0 }, "127.0.0.1:1")
    end)

    teardown(fixture.clean)

    local paths = { 5, {}, "", "a", "/a/", "/a//b", "/a/../b", "/a\0", "/\255" }
    local methods = { "get", "set", "create", "delete", "exists", "children", "sync" }
    for _, method in ipairs(methods) do
        it("wrong paths: " .. method .. " #asan", function()
            for _, path in ipairs(paths) do
                mistake(function()
                    client[method](client, path)
                end, "client:" .. method, "path")
            end
            mistake(function()
                client[method](client)
            end, "client:" .. method, "path", "nil")
        end)

        it("wrong settings: " .. method, function()
            local data = (method == "set" or method == "create") and "" or nil
            local function call(settings)
                local object = client
                if data then
                    object[method](object, "/a", data, settings)
                else
                    object[method](object, "/a", settings)
                end
            end
            mistake(function()
                call({ timeout = -1 })
            end, "client:" .. method, "'timeout'")
            mistake(function()
                call({ versoin = 1 })
            end, "client:" .. method, "unknown option 'versoin'", "timeout")
            mistake(function()
                call(5)
            end, "client:" .. method, "table")
        end)

        it("to be called with a dot: " .. method, function()
            mistake(function()
                client[method]("/a")
            end, "client:" .. method, "colon")
        end)
    end

    it("to write where nothing may be written", function()
        for _, path in ipairs({ "/zookeeper", "/zookeeper/quota" }) do
            mistake(function()
                client:set(path, "")
            end, "client:set", "/zookeeper")
            mistake(function()
                client:create(path)
            end, "client:create", "/zookeeper")
            mistake(function()
                client:delete(path)
            end, "client:delete", "/zookeeper")
        end
        mistake(function()
            client:create("/")
        end, "client:create", "'/'")
        mistake(function()
            client:delete("/")
        end, "client:delete", "'/'")
    end)

    it("data that are no string", function()
        mistake(function()
            client:set("/a", 5)
        end, "client:set", "data", "number")
        mistake(function()
            client:create("/a", {})
        end, "client:create", "data", "table")
    end)

    it("versions that are none", function()
        for _, version in ipairs({ -2, 0.5, 2147483648, "1", 0 / 0, {} }) do
            mistake(function()
                client:set("/a", "", { version = version })
            end, "client:set", "'version'")
            mistake(function()
                client:delete("/a", { version = version })
            end, "client:delete", "'version'")
        end
    end)

    it("settings of a wrong type, and those that exclude each other", function()
        for name, value in pairs({ ephemeral = 1, sequential = "yes", container = 0, acl = "nobody" }) do
            mistake(function()
                client:create("/a", "", { [name] = value })
            end, "client:create", "'" .. name .. "'")
        end
        mistake(function()
            client:create("/a", "", { container = true, ephemeral = true })
        end, "client:create", "container")
        mistake(function()
            client:create("/a", "", { acl = "creator" })
        end, "client:create", "auth")
        mistake(function()
            client:get("/a", { watch = 1 })
        end, "client:get", "'watch'")
    end)

    it("wrong timeouts of a watch, and dots", function()
        local connected = fixture.client()
        local _, watch = connected:exists("/", { watch = true })
        mistake(function()
            watch:wait(-1)
        end, "watch:wait", "timeout")
        for _, method in ipairs({ "wait", "fired", "cancel", "path" }) do
            mistake(function()
                watch[method](5)
            end, "watch:" .. method, "colon")
        end
        fixture.clean()
    end)
end)
