--- A release of a multi releases every lock that it can, and reports which locks were not held, and why.

local fixture = require "spec.support.fixture"
local multis = require "spec.support.multis"

after_each(fixture.clean)

describe("a release of a multi", function()
    it("answers not_held if it holds nothing, and at a second release, and names each lock", function()
        local paths = multis.three_paths()
        local all = multis.of(fixture.steady_client(), paths)
        local ok, message, code = all:release()
        assert.same({ nil, "not_held" }, { ok, code })
        for _, path in ipairs(paths) do
            assert.truthy(message:find(path, 1, true), message)
        end
        assert(all:acquire(10))
        assert.is_true(all:release())
        assert.equal("not_held", select(3, all:release()))
    end)

    it("releases the others if one was lost, and names the lost one #valgrind #asan", function()
        for which = 1, 3 do
            local paths = multis.three_paths()
            local client = fixture.steady_client()
            local all, locks = multis.of(client, paths)
            assert(all:acquire(10))
            fixture.observer():delete(locks[which]:node())
            fixture.await_not_held(all)
            assert.equal(0, all:remaining())
            local ok, message, code = all:release()
            assert.same({ nil, "lost" }, { ok, code })
            for index, path in ipairs(paths) do
                assert.equal(index == which, message:find(path, 1, true) ~= nil, message)
            end
            assert.equal("0 0 0", multis.counts(paths))
            assert(all:acquire(10))
            assert.is_true(all:release())
            fixture.clean()
        end
    end)

    it("releases the others if one was released separately", function()
        local paths = multis.three_paths()
        local all, locks = multis.of(fixture.steady_client(), paths)
        assert(all:acquire(10))
        assert.is_true(locks[2]:release())
        assert.is_false(all:held())
        local ok, message, code = all:release()
        assert.same({ nil, "not_held" }, { ok, code })
        assert.truthy(message:find(paths[2], 1, true), message)
        assert.is_nil(message:find(paths[1], 1, true), message)
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("releases the others if the server refuses to delete some, and names those", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local kept = { acl = { { scheme = "world", id = "anyone", perms = "rcwa" } } }
        local admin = fixture.client()
        assert(fixture.observer():create_all(paths[1]:match("^(.*)/")))
        for index = 1, 3, 2 do
            assert(admin:create(paths[index], "", kept))
        end
        local all = multis.of(client, paths)
        assert(all:acquire(10))
        local ok, message, code = all:release()
        assert.same({ nil, "no_auth" }, { ok, code })
        for index, path in ipairs(paths) do
            assert.equal(index ~= 2, message:find(path .. "/", 1, true) ~= nil, message)
        end
        assert.truthy(message:find("refuses to delete", 1, true), message)
        assert.is_false(all:held())
        assert.equal("1 0 1", multis.counts(paths))
        client:close()
        multis.await_counts(paths, "0 0 0")
    end)

    it("does not wait if asked not to, or if its members were made so", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        assert(all:acquire(10))
        assert.is_true(all:release({ wait = false }))
        assert.is_false(all:held())
        assert(client:flush(10))
        assert.equal("0 0 0", multis.counts(paths))
        local optimistic = multis.of(client, paths, { wait_release = false })
        assert(optimistic:acquire(10))
        assert.is_true(optimistic:release())
        assert(optimistic:acquire(10))
        assert.is_true(optimistic:release({ wait = true }))
        assert.equal("0 0 0", multis.counts(paths))
    end)

    it("answers disconnected without a connection, and is executed as soon as the connection is back", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local all = multis.of(client, paths)
        assert(all:acquire(20))
        fixture.cut_off(client, link)
        assert.is_true(all:release({ wait = false }))
        assert.is_false(all:held())
        link:accept()
        multis.await_counts(paths, "0 0 0")
        assert(all:acquire(20))
    end)
end)
