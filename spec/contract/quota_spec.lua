--- A lock is refused when a quota of the servers (`enforceQuota`, since 3.7) allows no more nodes in its directory.

local cluster = require "spec.support.cluster"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local zk = require "spec.support.zk"

after_each(fixture.clean)

describe("where a quota is reached #once", function()
    local servers, observer

    setup(function()
        servers = cluster.start({ options = { enforceQuota = "true" } })
        observer = assert(zk.connect(servers.servers))
    end)

    teardown(function()
        observer:close()
        servers:stop()
    end)

    --- Limits the number of nodes at a path, including the path itself, as setquota of ZooKeeper's shell does.
    local function set_quota(path, count)
        local quota = "/zookeeper/quota" .. path
        local limits, data = quota .. "/zookeeper_limits", "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=" .. count
        if observer:exists(limits) then
            return assert(observer:set(limits, data))
        end
        assert(observer:create_all(quota))
        assert(observer:create(limits, data))
        assert(observer:create(quota .. "/zookeeper_stats", "count=0,bytes=0"))
    end

    --- A spec that is pending where servers have no such quotas.
    local function spec(title, fn)
        it(title, function()
            if not servers:has "quotas" then
                return pending "these servers enforce no quota"
            end
            fn()
        end)
    end

    local function new_client()
        return fixture.loop_client({}, 30, servers.servers)
    end

    local function assert_refused(path, ok, message, code)
        assert.same({ nil, "failed" }, { ok, code }, message)
        assert.truthy(message:find(path, 1, true), message)
        assert.truthy(message:find("quota", 1, true), message)
    end

    local function acquire_and_release(lock)
        assert(lock:acquire(20))
        assert.is_true(lock:held())
        assert.is_true(lock:release())
    end

    for _, kind in ipairs(kinds) do
        spec(("a %s is refused, leaves nothing behind, does not harm others, and is acquired when the quota is raised"):format(
            kind.name), function()
            local path = "/few/" .. kind.name
            local holder, client = kind.new(new_client(), path), new_client()
            local lock, other = kind.new(client, path), client:mutex("/many/" .. kind.name)
            assert(holder:acquire(20))
            set_quota(path, 1)
            local before = observer:children(kinds.holders(kind, path))
            assert.equal(1, #before)
            loop.run(function()
                assert_refused(path, lock:acquire(1000))
                if kind.name == "read lock" then -- readers share the holder's lock
                    assert_refused(path, lock:try_acquire())
                end
                assert_refused(path, client:multi({ other, lock }):acquire(1000))
            end)
            acquire_and_release(other)
            for _, directory in ipairs(kind.directories) do
                if path .. directory ~= kinds.holders(kind, path) then
                    assert.same({}, observer:children(path .. directory))
                end
            end
            assert.same(before, observer:children(kinds.holders(kind, path)))
            assert.same({}, observer:children(other:path()))
            fixture.assert_nothing_left(client)
            assert.is_true(holder:held())
            assert.is_true(holder:release())
            assert_refused(path, lock:try_acquire())
            set_quota(path, 100)
            acquire_and_release(lock)
            acquire_and_release(holder)
        end)
    end

    spec("a lock is refused if the quota allows no directory for it", function()
        assert(observer:create("/full"))
        set_quota("/full", 1)
        local client = new_client()
        local lock = client:mutex("/full/a/b")
        assert_refused("/full/a/b", lock:acquire(20))
        fixture.assert_nothing_left(client)
        assert.same({}, observer:children("/full"))
        set_quota("/full", 4)
        acquire_and_release(lock)
    end)

    spec("a node that the program creates itself is refused", function()
        local client = new_client()
        assert(observer:create("/whole"))
        set_quota("/whole", 1)
        assert.truthy(select(2, client:create("/whole/a", "")):find("quota", 1, true))
        assert.is_nil((observer:exists("/whole/a")))
    end)
end)
