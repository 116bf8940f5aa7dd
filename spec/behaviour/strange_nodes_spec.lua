--- Locks in directories that other programs have filled or closed: strange names, huge data, children that are not lock nodes, and
-- access control lists that forbid something.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local zklock = require "zklock"

local function world(perms)
    return { { scheme = "world", id = "anyone", perms = perms } }
end

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    describe("a " .. kind.name, function()
        it("waits for a node with a very long name, and lists it #valgrind #asan", function()
            local path = fixture.path()
            local client = fixture.steady_client()
            local lock = kind.new(client, path)
            fixture.observer():create_all(kinds.holders(kind, path))
            local long = ("%s/%s%s0000000000"):format(kinds.holders(kind, path), ("long name %d "):rep(500), kind.marker)
            assert(fixture.observer():create(long, "somebody"))
            local ok, message, code = lock:try_acquire()
            assert.same({ nil, "timeout" }, { ok, code })
            assert.is_string(message)
            fixture.assert_times_out(lock, 0.1)
            local list = assert(lock:contenders(10))
            assert.equal(long, list[1].node)
            assert.equal("somebody", list[1].identity)
            assert.is_true(list[1].holder)
            loop.run(function()
                assert(lock:acquire(20))
            end, function()
                loop.until_true(function()
                    return client:stats().watches > 0
                end)
                assert.is_false(lock:held())
                fixture.observer():delete(long)
            end)
            assert.is_true(hold_of(lock):release())
            fixture.assert_nothing_left(client)
        end)

        it("lists a holder with a megabyte of data, and sends it a revocation request", function()
            local path = fixture.path()
            local client = fixture.steady_client()
            local lock = kind.new(client, path)
            fixture.observer():create_all(kinds.holders(kind, path))
            local data = ("identity\0\255"):rep(100000)
            local prefix = ("%s/_c_%s%s"):format(kinds.holders(kind, path), fixture.UUID, kind.marker)
            local node = assert(fixture.observer():create(prefix, data, { ephemeral = true, sequential = true }))
            local list = assert(lock:contenders(20))
            assert.equal(1, #list)
            assert.equal(node, list[1].node)
            assert.is_true(data == list[1].identity)
            assert.equal(1, lock:revoke(20))
            assert.equal("__REVOKE__", (fixture.observer():get(node)))
            fixture.assert_times_out(lock, 0.1)
            fixture.observer():delete(node)
            assert(lock:acquire(10))
        end)

        it("ignores children that are not lock nodes, whatever they contain", function()
            local path = fixture.path()
            local client = fixture.steady_client()
            local lock = kind.new(client, path)
            local observer = fixture.observer()
            local names = { "lock", "-lock-", "lock-x", "lease-", "__lock__", "ex1", "x-1", "lock-99999999999999999999",
                "import-lock-2", "lock-000000002", "lock-00000000002", "lock--0000000002", "a-__READ__7",
                "a-__WRIT__123456789", "lease-3", ("_c_%s-other-lock-0000000000"):format(fixture.UUID),
                ("_c_%s-lock-"):format(fixture.UUID), "ü-0000000001", "a b", "%s%n",
                ("x"):rep(3000), "0000000000", "-0000000001" }
            for _, directory in ipairs(kind.directories) do
                for _, name in ipairs(names) do
                    observer:create_all(path .. directory .. "/" .. name, "no lock")
                end
                assert(observer:create(path .. directory .. "/lock/lock-0000000000", "a child's child"))
            end
            assert.same({}, lock:contenders(10))
            assert.equal(0, lock:revoke(10))
            for _ = 1, 2 do
                assert(lock:try_acquire())
                assert.is_true(lock:release())
                assert(lock:acquire(10))
                assert.is_true(lock:contenders(10)[1].holder)
                assert.is_true(lock:release())
            end
            fixture.assert_nothing_left(client)
            for _, directory in ipairs(kind.directories) do
                assert.equal(#names, #fixture.children(path .. directory))
            end
        end)

        it("below a lock of any kind neither blocks that lock nor waits for it, whatever its key #asan", function()
            local path = fixture.path()
            local client = fixture.steady_client()
            local lock = kind.new(client, path)
            local keys = {
                "import-lock-2", "lock-7", "a-__READ__12", "a-__WRIT__12", "lease-3", "ex1", "x-1-2", "9__lock__9",
                "import-lock-0000000000", "lock-0000000000", "lock--000000001", "a-__READ__0000000000",
                "__WRIT__0000000000",
                "lease-0000000000", "ex0000000000", "sh0000000000", "x-1-0000000000", "9__lock__0000000000",
                "9__rlock__-2147483648", ("_c_%s-lock-0000000000"):format(fixture.UUID), ("long"):rep(100) .. "-lock-0000000000"
            }
            for _, directory in ipairs(kind.directories) do
                for _, below in ipairs(kinds) do
                    local inner = {}
                    for index, key in ipairs(keys) do
                        inner[index] = below.new(client, zklock.path(path .. directory, key))
                        assert(inner[index]:try_acquire())
                    end
                    assert.same({}, lock:contenders(10))
                    assert(lock:try_acquire())
                    for index in ipairs(keys) do
                        assert(inner[index]:release())
                        assert(inner[index]:try_acquire())
                        assert(inner[index]:release())
                    end
                    assert(lock:release())
                end
            end
        end)

        it("waits for a node that it may not read, and lists it without its identity", function()
            local path = fixture.path()
            local client, admin = fixture.steady_client(), fixture.client()
            local lock = kind.new(client, path)
            fixture.observer():create_all(kinds.holders(kind, path))
            local node = assert(admin:create(("%s/_c_%s%s"):format(kinds.holders(kind, path), fixture.UUID, kind.marker), "secret",
                { sequential = true, acl = world("a") }))
            assert.equal("timeout", select(3, lock:try_acquire()))
            fixture.assert_times_out(lock, 0.1)
            local list = assert(lock:contenders(10))
            assert.equal(1, #list)
            assert.same({ node, "", true }, { list[1].node, list[1].identity, list[1].holder })
            local asked, message, code = lock:revoke(10)
            assert.same({ nil, "no_auth" }, { asked, code })
            assert.truthy(message:find(node, 1, true), message)
            loop.run(function()
                assert(lock:acquire(20))
            end, function()
                loop.until_true(function()
                    return fixture.has(path .. kind.directories[1], kind.directories[2] and 1 or 2)
                end)
                assert(fixture.observer():delete(node))
            end)
            assert.is_true(hold_of(lock):release())
            fixture.assert_nothing_left(client)
        end)

        for _, forbidden in ipairs({ { "listing", "cdwa" }, { "creating", "rdwa" }, { "everything", "a" } }) do
            for index in ipairs(kind.directories) do
                it(("that is forbidden %s (%d) answers no_auth with the path, and leaves nothing behind #asan"):format(forbidden[1],
                    index), function()
                    local path = fixture.path()
                    local client, admin = fixture.steady_client(), fixture.client()
                    fixture.observer():create_all(path:match("^(.*)/"))
                    if kind.directories[1] ~= "" then
                        assert(fixture.observer():create(path))
                    end
                    for other, directory in ipairs(kind.directories) do
                        assert(admin:create(path .. directory, "", { acl = other == index and world(forbidden[2]) or nil }))
                    end
                    local where = path .. kind.directories[index]
                    local lock = kind.new(client, path)
                    for _, timeout in ipairs({ 10, 0, 10 }) do
                        local ok, message, code = lock:acquire(timeout)
                        assert.same({ nil, "no_auth" }, { ok, code }, message)
                        assert.truthy(message:find(where, 1, true), message)
                        fixture.assert_nothing_left(client)
                    end
                    assert.equal("no_auth", select(3, lock:with_lock(error, 10)))
                    if forbidden[1] ~= "creating" then
                        for _, question in ipairs({ "contenders", "revoke" }) do
                            local ok, message, code = lock[question](lock, 10)
                            assert.same({ nil, "no_auth" }, { ok, code })
                            assert.truthy(message:find(where, 1, true), message)
                        end
                    else
                        assert.same({}, lock:contenders(10))
                    end
                    assert.equal("not_held", select(3, lock:release()))
                    fixture.assert_nothing_left(client)
                    for _, directory in ipairs(kind.directories) do
                        assert(fixture.observer():delete(path .. directory)) -- it is empty
                    end
                end)
            end
        end

        it("whose node it may not delete answers so at release, and the node goes with its client", function()
            local path = fixture.path()
            local client, admin = fixture.steady_client(), fixture.client()
            fixture.observer():create_all(path:match("^(.*)/"))
            if kind.directories[1] ~= "" then
                assert(fixture.observer():create(path))
            end
            for index, directory in ipairs(kind.directories) do
                local last = index == #kind.directories
                assert(admin:create(path .. directory, "", { acl = last and world("rcwa") or nil }))
            end
            local lock = kind.new(client, path)
            assert(lock:acquire(10))
            local ok, message, code = lock:release()
            assert.same({ nil, "no_auth" }, { ok, code })
            assert.truthy(message:find("refuses to delete", 1, true), message)
            assert.is_false(lock:held())
            assert.equal("not_held", select(3, lock:release()))
            if kind.name ~= "read lock" then -- readers share, also with their own leftover nodes
                fixture.assert_times_out(lock, 0.1)
            end
            client:close()
            eventually(function()
                return fixture.has(kinds.holders(kind, path), 0)
            end)
        end)
    end)
end

describe("a directory that cannot be made", function()
    it("is answered with no_auth and its path, by every kind of lock, also in a multi #asan", function()
        local base = fixture.path()
        local client, admin = fixture.steady_client(), fixture.client()
        fixture.observer():create_all(base:match("^(.*)/"))
        assert(admin:create(base, "", { acl = world("rdwa") }))
        local locks = {}
        for index, kind in ipairs(kinds) do
            local lock = kind.new(client, ("%s/%d"):format(base, index))
            locks[index] = lock
            for _, timeout in ipairs({ 10, 0 }) do
                local ok, message, code = lock:acquire(timeout)
                assert.same({ nil, "no_auth" }, { ok, code })
                assert.truthy(message:find(lock:path(), 1, true), message)
            end
            assert.same({}, lock:contenders(10))
        end
        assert.equal("no_auth", select(3, client:multi(locks):acquire(10)))
        assert.equal("no_auth", select(3, client:multi(locks):try_acquire()))
        fixture.assert_nothing_left(client)
    end)

    it("because a parent is ephemeral is answered with failed and its path", function()
        local base = fixture.path()
        local client = fixture.steady_client()
        fixture.observer():create_all(base:match("^(.*)/"))
        assert(fixture.observer():create(base, "", { ephemeral = true }))
        for index, kind in ipairs(kinds) do
            local lock = kind.new(client, ("%s/%d"):format(base, index))
            for _, timeout in ipairs({ 10, 0 }) do
                local ok, message, code = lock:acquire(timeout)
                assert.same({ nil, "failed" }, { ok, code }, message)
                assert.truthy(message:find(lock:path(), 1, true), message)
            end
        end
        fixture.assert_nothing_left(client)
        fixture.observer():delete(base)
    end)
end)
