--- The nodes that a mutex creates: their paths and their access control lists.

local cluster = require "spec.support.cluster"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local zk = require "spec.support.zk"

after_each(fixture.clean)

describe("a lock's path", function()
    it("is created if it does not exist, with several levels #asan", function()
        local base = fixture.directory()
        local lock = fixture.mutex(base .. "/one/two/three")
        assert(lock:acquire(10))
        assert.equal(1, #fixture.children(base .. "/one/two/three"))
    end)

    it("may exist already, as a node of any type", function()
        local lock = fixture.mutex(fixture.directory())
        assert(lock:acquire(10))
    end)

    it("may contain any characters that ZooKeeper allows", function()
        local base = fixture.directory()
        for _, name in ipairs({ "with blank", "ä-ö-ü", "lock-0000000001", "-lock-", "a.b", "...", "%d" }) do
            local lock = fixture.mutex(base .. "/" .. name)
            assert(lock:acquire(10))
            assert.equal(lock:node(), lock:contenders(10)[1].node)
            assert.is_true(lock:release())
        end
    end)

    it("may have the greatest allowed length, with every kind of lock, and be listed and revoked", function()
        local client = fixture.client()
        local path = fixture.path() .. "/"
        path = path .. ("x"):rep(32768 - #path)
        local rwlock = client:rwlock(path)
        for _, lock in ipairs({ client:mutex(path), rwlock.write, client:semaphore(path, 2) }) do
            assert(lock:acquire(20))
            assert.equal(1, #assert(lock:contenders(20)))
            assert.equal(1, (assert(lock:revoke(20))))
            if lock == rwlock.write then
                assert(rwlock.read:acquire(20))
                assert(rwlock.read:release())
            end
            assert.is_true(lock:release())
        end
        assert.equal(2, client:semaphore(path, 2):available(20))
        assert.equal(1, client:stats().connections)
    end)

    it("may be reaped between two uses, and tokens still grow", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        local token = lock:token()
        assert.is_true(lock:release())
        assert(fixture.observer():delete_recursive(lock:path()))
        assert(lock:acquire(10))
        assert.is_true(lock:token() > token)
    end)

    it("may be made anew by another client between two uses", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        local token = lock:token()
        assert.is_true(lock:release())
        assert(fixture.observer():delete_recursive(lock:path()))
        assert(fixture.observer():create(lock:path(), "not a container"))
        assert(lock:acquire(10))
        assert.is_true(lock:token() > token)
    end)

    it("is reaped by the server after its last use", function()
        local server = cluster.start({ reap = 100 })
        finally(function()
            fixture.clean()
            server:stop()
        end)
        local lock = fixture.client(nil, server.servers):mutex("/shop/stock")
        assert(lock:acquire(20))
        assert.is_true(lock:release())
        local observer = assert(zk.connect(server.servers))
        eventually(function()
            return not observer:exists("/shop")
        end, 20)
        observer:close()
    end)
end)

describe("an ACL", function()
    local AUTH = { { scheme = "digest", credential = "user:password" } }

    it("of open lets every client read and delete", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.truthy(fixture.observer():get(lock:node()))
        assert.is_true(fixture.observer():delete(lock:node()))
    end)

    it("of creator is set on the node and on the created parents #asan", function()
        local base = fixture.directory()
        local lock = fixture.mutex(base .. "/parent/lock", nil, { auth = AUTH, acl = "creator" })
        assert(lock:acquire(10))
        local observer = fixture.observer()
        assert.equal("no_auth", select(2, observer:get(lock:node())))
        assert.equal("no_auth", select(2, observer:children(base .. "/parent/lock")))
        assert.equal("no_auth", select(2, observer:create(base .. "/parent/lock/x")))
        assert.equal("no_auth", select(2, observer:create(base .. "/parent/x")))
        assert.truthy(lock:contenders(10)[1].holder)
    end)

    it("of read lets every client read, and no client write", function()
        local lock = fixture.mutex(fixture.directory(), { acl = "read" }, { auth = AUTH })
        assert(lock:acquire(10))
        local observer = fixture.observer()
        assert.truthy(observer:get(lock:node()))
        assert.equal("no_auth", select(2, observer:set(lock:node(), "")))
        assert.is_true(lock:release())
    end)

    it("with which no client may create nodes in a directory makes no directory #asan", function()
        local client = fixture.client()
        for _, acl in ipairs { "read", { { scheme = "world", id = "anyone", perms = "rwda" } } } do
            local path = fixture.path()
            local settings = { acl = acl }
            local below = path .. "/jobs/nightly"
            local latch = client:latch(below, 2, settings)
            local function assert_refused(ok, message, code)
                assert.same({ nil, "no_auth" }, { ok, code }, message)
                assert.truthy(message:find("create it beforehand", 1, true), message)
                assert.truthy(message:find(below, 1, true), message)
            end
            for _, lock in ipairs {
                client:mutex(below, settings), client:rwlock(below, settings).read, client:semaphore(below, 2, settings)
            } do
                assert_refused(lock:acquire(10))
                assert_refused(lock:try_acquire())
            end
            assert_refused(latch:wait(10))
            assert_refused(latch:count_down(10))
            assert.is_nil(fixture.observer():exists(path))
        end
    end)

    it("with which no client may create nodes in a directory does not prevent others from making it", function()
        local client, path = fixture.steady_client(), fixture.path()
        local guarded, open = client:mutex(path, { acl = "read" }), client:mutex(path)
        loop.run(function()
            assert.equal("no_auth", select(3, guarded:acquire(10)))
        end, function()
            assert(open:acquire(10))
            assert(open:release())
        end)
        assert(guarded:acquire(10))
    end)

    it("may be a list", function()
        local lock = fixture.mutex(fixture.path(), { acl = {
            { scheme = "auth", id = "", perms = 31 }, { scheme = "world", id = "anyone", perms = "r" }
        } }, { auth = AUTH })
        assert(lock:acquire(10))
        assert.truthy(fixture.observer():get(lock:node()))
        assert.equal("no_auth", select(2, fixture.observer():create(lock:path() .. "/x")))
    end)

    it("that allows create but not delete is answered with no_auth by release, and the node goes with the client", function()
        local client = fixture.client({ session_timeout = 30 })
        local path = fixture.path() .. "/kept"
        local lock = client:mutex(path, { acl = { { scheme = "world", id = "anyone", perms = "rcwa" } } })
        assert(lock:acquire(20))
        local released, message, code = lock:release()
        assert.is_nil(released)
        assert.equal("no_auth", code)
        assert.truthy(message:find("refuses to delete", 1, true), message)
        assert.is_false(lock:held())
        assert.equal(1, #fixture.children(path))
        client:close()
        fixture.await_children(path, 0)
    end)

    it("that denies access is answered with no_auth and the path, and nothing is left behind #asan", function()
        local owner = fixture.mutex(fixture.path(), nil, { auth = AUTH, acl = "creator" })
        assert(owner:acquire(10))
        assert.is_true(owner:release())
        local stranger = fixture.mutex(owner:path(), nil,
            { auth = { { scheme = "digest", credential = "user:wrong" } } })
        for _, timeout in ipairs({ 10, 0 }) do
            local ok, message, code = stranger:acquire(timeout)
            assert.same({ nil, "no_auth" }, { ok, code })
            assert.truthy(message:find(owner:path(), 1, true), message)
        end
        assert.equal("no_auth", select(3, stranger:contenders(10)))
        assert(owner:try_acquire())
        assert.equal(1, #owner:contenders(10))
    end)
end)
