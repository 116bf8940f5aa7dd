--- A client reads and writes nodes: create, get, set, exists, children, sync and delete.

local core = require "zklock.core"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local primitives = require "spec.support.primitives"
local zklock = require "zklock"

local assert_code, client_and_node = primitives.assert_code, primitives.client_and_node

local NO_OWNER = ("0"):rep(16)

describe("a client", function()
    after_each(fixture.clean)

    it("creates, reads, writes, stats, lists and deletes a node #valgrind #asan", function()
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

    it("describes a node as other clients see it", function()
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

    it("creates nodes of every type", function()
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

    it("creates containers", function()
        local client, link = fixture.client_behind_proxy()
        local path = fixture.path()
        local created, stat = client:create(path, "x", { container = true })
        assert.same({ path, 0 }, { created, stat.version })
        assert.equal(1, link:counts().createContainer)
    end)

    it("gives nodes the acl that it was opened with, or the acl of the call", function()
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

    it("preserves every byte of the data #asan", function()
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

    it("reads a node without data as a node with empty data", function()
        local client = fixture.client()
        local path = fixture.path()
        assert(client:create(path))
        assert.equal("", (client:get(path)))
        assert(client:set(path, "x"))
        assert(client:set(path, nil))
        assert.equal("", (client:get(path)))
        assert.equal(0, client:exists(path).data_length)
    end)

    it("carries 900 kilobytes, and refuses data that would cost it the connection #asan", function()
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

    it("frees its memory, however large the data", function()
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
        assert(client:flush(10)) -- abandoned operations have left the client's list
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

    it("writes and deletes only the given version", function()
        local client, path = client_and_node()
        assert_code("bad_version", { "writing '" .. path .. "'" }, client:set(path, "x", { version = 5 }))
        assert_code("bad_version", { "deleting '" .. path .. "'" }, client:delete(path, { version = 1 }))
        assert.equal(1, client:set(path, "x", { version = 0 }).version)
        assert.equal(2, client:set(path, "x", { version = -1 }).version)
        assert.is_true(client:delete(path, { version = 2 }))
    end)

    it("names the operation, the path and ZooKeeper's reason in error messages", function()
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

    it("answers closed after its close, also to waiting coroutines #asan", function()
        local client, path = client_and_node()
        local _, _, watch = client:get(path, { watch = true })
        local answer
        loop.run(function()
            answer = compat.pack(watch:wait(20))
        end, function()
            assert(client:close())
        end)
        assert_code("closed", { path }, compat.unpack(answer, 1, answer.n))
        assert_code("closed", {}, client:get(path))
        assert_code("closed", {}, client:set(path, "x"))
        assert_code("closed", {}, client:transaction():delete(path):commit())
        assert_code("closed", { path }, watch:wait())
    end)

    it("drops its operations when it is collected while they are in flight #asan", function()
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

    local test = compat.it_with({ it = it, pending = pending }, pcall(require, "posix.unistd"), "lua-posix")

    test("answers forked in the child of a fork, and the parent's client goes on #real", function()
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
