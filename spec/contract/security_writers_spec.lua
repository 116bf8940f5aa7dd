--- The statements of docs/security.md about clients that may write in a lock's directory: what they can do, and no more.

local core = require "zklock.core"
local credentials = require "spec.support.credentials"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"

local trusted = credentials.trusted

describe("a client that may write in the lock's directory", function()
    after_each(fixture.clean)

    local MANY = 5000

    --- Fills a directory with nodes of one session that have the names of contenders.
    local function flood(path, count, data)
        local peer = fixture.client({ session_timeout = 60 })
        for first = 1, count, 500 do
            local transaction = peer:transaction()
            for _ = first, math.min(first + 499, count) do
                transaction:create(path .. "/_c_" .. fixture.UUID .. "-lock-", data or "", { ephemeral = true,
                    sequential = true })
            end
            assert(transaction:commit(30))
        end
        return peer
    end

    it("can keep all contenders waiting behind thousands of nodes, but no call hangs, and no memory is left #asan", function()
        local path = fixture.directory()
        local client = trusted({ acl = "open" })
        local lock = client:mutex(path)
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        fixture.assert_nothing_left(client)
        collectgarbage()
        local before = core.memory()
        local peer = flood(path, MANY)
        assert.equal("timeout", select(3, lock:try_acquire()))
        fixture.assert_times_out(lock)
        assert.equal(MANY, #assert(lock:contenders(60)))
        loop.run(function()
            assert(lock:acquire(60))
            assert.is_true(lock:release())
        end, function()
            loop.until_true(function()
                return client:stats().watches > 0
            end)
            peer:close()
        end)
        fixture.assert_nothing_left(client)
        fixture.clean()
        assert.is_true(core.memory() <= before)
    end)

    it("can flood a waiter and a holder with data, which changes nothing and is not kept #asan", function()
        local path = fixture.directory()
        local observer = fixture.observer()
        local holding, waiting = trusted({ acl = "open" }), trusted({ acl = "open" })
        local asked = 0
        local holder = holding:mutex(path, { on_revoke = function()
            asked = asked + 1
        end })
        local waiter = waiting:mutex(path)
        local held = assert(holder:acquire(10))
        local data = ("\255\0%n"):rep(225000)
        local writes = 0
        local before
        loop.run(function()
            assert(waiter:acquire(60))
            assert.is_true(waiter:release())
        end, function()
            loop.until_true(function()
                return waiting:stats().watches > 0
            end)
            before = core.memory()
            for round = 1, 30 do
                assert(observer:set(held:node(), round % 2 == 0 and "__REVOKE__" or data))
                writes = writes + 1
                loop.until_true(function()
                    holding:pump()
                    return true
                end)
            end
            loop.until_true(function()
                holding:pump()
                return asked > 0
            end)
            assert.is_true(held:held())
            assert.is_true(asked <= writes)
            assert.is_true(core.memory() < before + #data)
            assert.is_true(held:release())
        end)
    end)

    it("can delete a waiter's nodes again and again: the wait ends with its timeout, and nothing is left #asan", function()
        local path = fixture.path()
        local foreign = fixture.join(path)
        local client = trusted({ acl = "open" })
        local lock = client:mutex(path)
        local deleted, over = 0
        loop.run(function()
            local ok, _, code = lock:acquire(3)
            over = true
            assert.same({ nil, "timeout" }, { ok, code })
        end, function()
            loop.until_true(function()
                for _, name in ipairs(fixture.children(path)) do
                    local node = path .. "/" .. name
                    if node ~= foreign and fixture.observer():delete(node) then
                        deleted = deleted + 1
                    end
                end
                return over
            end)
        end)
        assert.is_true(deleted > 0)
        fixture.assert_nothing_left(client)
        eventually(function()
            return fixture.has(path, 1)
        end)
        fixture.observer():delete(foreign)
    end)

    --- Replaces a node by another of the same name. Both happen in one transaction, so that no heartbeat falls between the two.
    local function impersonate(node, peer)
        peer = peer or fixture.client()
        assert(peer:transaction():delete(node):create(node, "impostor", { ephemeral = true }):commit(10))
        return peer
    end

    for _, kind in ipairs(kinds) do
        it("can replace the node of a " .. kind.name .. " by another, and the lock is lost with the next heartbeat", function()
            local path = fixture.path()
            local reason, message
            local owner = kind.new(trusted({ acl = "open", session_timeout = 30 }), path, { on_lost = function(_, why, what)
                reason, message = why, what
            end })
            assert(owner:acquire(10))
            local node, token = owner:node(), owner:token()
            local peer = impersonate(node)
            loop.run(function()
                loop.until_true(function()
                    owner._client:pump()
                    return reason ~= nil
                end)
            end)
            assert.equal("lost", reason)
            assert.truthy(message:find("somebody deleted, and made anew, its node '" .. node .. "'", 1, true), message)
            assert.is_false(owner:held())
            peer:close()
            local other = kind.rival(trusted({ acl = "open" }), path)
            assert(other:acquire(20))
            assert.is_true(other:token() > token)
            assert.is_true(other:release())
            fixture.assert_nothing_left(owner._client)
        end)
    end

    it("can replace a waiter's node by another, by which the waiter is granted at most until the next heartbeat", function()
        local path = fixture.path()
        local first = trusted({ acl = "open" }):mutex(path)
        local waiting = trusted({ acl = "open", session_timeout = 20 })
        local reason
        local second = waiting:mutex(path, { on_lost = function(_, why)
            reason = why
        end })
        local held = assert(first:acquire(10))
        loop.run(function()
            local got, message, code = second:acquire(60)
            assert(got or code == "lost", message) -- the heartbeat may be on its way already
            loop.until_true(function()
                waiting:pump()
                return reason ~= nil or not got
            end)
            assert.is_true(reason == "lost" or not got)
        end, function()
            loop.until_true(function()
                return waiting:stats().watches > 0
            end)
            for _, name in ipairs(fixture.children(path)) do
                local node = path .. "/" .. name
                if node ~= held:node() then
                    impersonate(node)
                end
            end
            assert.is_true(held:release())
        end)
    end)

    it("can let a guarded transaction pass by replacing the holder's node, at most until the next heartbeat", function()
        local path = fixture.path()
        local data = fixture.directory()
        local link = fixture.proxy()
        local client = trusted({ acl = "open", session_timeout = 60 }, link.address)
        local lock = client:mutex(path)
        local peer = fixture.client({ wait = loop })
        local held = assert(lock:acquire(10))
        link:stall() -- no heartbeat is answered before the transaction has been sent
        local sent = fixture.sent(client)
        loop.run(function()
            impersonate(held:node(), peer)
            assert(held:transaction():set(data, "stale"):commit(50)) -- a transaction cannot distinguish the two nodes
        end, function()
            loop.until_true(function()
                return fixture.sent(client) > sent
            end)
            link:resume()
        end)
        loop.run(function()
            loop.until_true(function()
                return not held:held()
            end, 60)
        end)
        local ok, _, code = held:transaction():set(data, "too late"):commit(10)
        assert.same({ nil, "lost" }, { ok, code })
        assert.equal("stale", (fixture.observer():get(data)))
    end)

    it("can write anything as a semaphore's limit: no client gets more permits than its own limit #asan", function()
        local path = fixture.path()
        local client = trusted({ acl = "open" })
        local holder = client:semaphore(path, 1)
        assert(holder:acquire(10))
        for _, data in ipairs({ "2", "1000000", "-1", "0", "1 ", "\255\254", ("9"):rep(1000000), "__REVOKE__" }) do
            assert(fixture.observer():set(path .. "/leases", data))
            local other = client:semaphore(path, 1)
            local ok, message, code = other:acquire(1)
            assert.is_nil(ok)
            assert.is_true(code == "timeout" or code == "mismatch", message)
            assert.is_true(#message < 500)
        end
        assert.is_true(holder:held())
        assert.is_true(holder:release())
        fixture.assert_nothing_left(client)
    end)

    it("cannot give a child a name that is not UTF-8, or a name with characters that ZooKeeper forbids", function()
        local path = fixture.directory()
        for _, name in ipairs({ "\255-lock-0000000001", "\192\175-lock-0000000001", "\237\160\128-lock-0000000001",
            "\240\159\148\146-lock-0000000001", "a\0b-lock-0000000001", "\1-lock-0000000001", ".", "..", "" }) do
            assert.is_nil((fixture.observer():create(path .. "/" .. name)), name)
        end
        assert.same({}, fixture.children(path))
    end)
end)
