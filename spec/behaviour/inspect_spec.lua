--- zklock.inspect: what any client can see of locks. Kinds, holders, queues, strays, and how many requests that takes.

local fixture = require "spec.support.fixture"
local inspect = require "zklock.inspect"
local loop = require "spec.support.loop"

local UUID = fixture.UUID

--- Creates a child of a path, with a number of ZooKeeper's, and returns its node.
local function join(path, prefix, identity)
    return fixture.join(path, prefix, identity)
end

--- Returns the values of one field of a list's tables.
local function pick(list, field)
    local values = {}
    for index, item in ipairs(list) do
        values[index] = item[field] == nil and "-" or item[field]
    end
    return values
end

--- Returns a lock state.
local function look(client, path, settings)
    return assert(inspect.lock(client, path, settings))
end

describe("inspect.lock", function()
    after_each(fixture.clean)

    it("shows the holder and the queue of a mutex, and who waits for whom", function()
        local path, client = fixture.path(), fixture.steady_client { identity = "web3:4711" }
        local lock = client:mutex(path)
        assert(lock:acquire(20))
        local second, third = join(path, nil, "two"), join(path, nil, "three")
        local state = look(client, path)
        assert.same({ "mutex", 1, 2, 3 }, { state.kind, state.holders, state.waiters, state.next_sequence })
        assert.same({ "web3:4711", "two", "three" }, pick(state.contenders, "identity"))
        assert.same({ lock:node(), second, third }, pick(state.contenders, "node"))
        assert.same({ true, false, false }, pick(state.contenders, "holder"))
        assert.same({ 0, 1, 2 }, pick(state.contenders, "ahead"))
        assert.same({ "-", lock:node(), second }, pick(state.contenders, "waits_for"))
        assert.equal(fixture.observer():exists(second).ephemeralOwner, state.contenders[2].session)
        assert(lock:release())
    end)

    it("agrees with lock:contenders() about read/write locks, and about downgraded readers", function()
        local path, client = fixture.path(), fixture.steady_client()
        local numbers = { "READ__0000000003", "READ__0000000004", "WRIT__0000000005", "READ__0000000005", "READ__0000000007",
            "WRIT__0000000009", "READ__0000000010" }
        for _, name in ipairs(numbers) do
            fixture.observer():create_all(path)
            assert(fixture.observer():create(("%s/_c_%s-__%s"):format(path, UUID, name), name, { ephemeral = true }))
        end
        local state = look(client, path)
        assert.equal("rwlock", state.kind)
        local contenders = assert(client:mutex(path):contenders(20))
        assert.same(pick(contenders, "node"), pick(state.contenders, "node"))
        assert.same(pick(contenders, "holder"), pick(state.contenders, "holder"))
        local function node(index)
            return ("%s/_c_%s-__%s"):format(path, UUID, numbers[index])
        end
        assert.same({ "-", "-", "-", node(2), node(3), node(5), node(6) }, pick(state.contenders, "waits_for"))
    end)

    it("orders contenders with one number by their names", function()
        local path, client = fixture.path(), fixture.steady_client()
        fixture.observer():create_all(path)
        for _, name in ipairs { "lock-0000000003", "lock-0000000004", "__WRIT__0000000004" } do
            assert(fixture.observer():create(("%s/_c_%s-%s"):format(path, UUID, name), "", { ephemeral = true }))
        end
        local state = look(client, path)
        assert.same({ 0, 1, 2 }, pick(state.contenders, "ahead"))
        assert.equal(state.contenders[2].node, state.contenders[3].waits_for)
    end)

    it("shows permits, limit and queue of a semaphore", function()
        local path, client = fixture.path(), fixture.steady_client()
        local semaphore, other = client:semaphore(path, 3), fixture.semaphore(path, 3)
        assert(semaphore:acquire { count = 2, timeout = 20 })
        loop.run(function()
            assert.equal("timeout", select(3, other:acquire { count = 2, timeout = 5 }))
        end, function()
            fixture.until_children(path .. "/locks", 1)
            -- With one of its two permits there are three, which fit: no node tells that the head wants another one.
            fixture.until_children(path .. "/leases", 4)
            local state = look(client, path)
            assert.same({ "semaphore", 3, 2, 1 }, { state.kind, state.limit, state.holders, state.waiters })
            assert.equal("exclusive", state.contenders[#state.contenders].mode)
            assert.equal(0, state.contenders[#state.contenders].ahead)
        end)
        assert(semaphore:release())
    end)

    it("takes permits beyond the limit for those of a waiter", function()
        local path, client = fixture.path(), fixture.steady_client()
        fixture.observer():create_all(path .. "/leases")
        assert(fixture.observer():set(path .. "/leases", "1"))
        join(path .. "/leases", "_c_" .. UUID .. "-lease-", "one")
        join(path .. "/leases", "_c_" .. UUID .. "-lease-", "two")
        local state = look(client, path)
        assert.same({ 1, 0 }, { state.holders, state.waiters })
        assert.same({ true, false }, pick(state.contenders, "holder"))
    end)

    it("takes the permits of the head of the queue for held as soon as they fit", function()
        local path, client = fixture.path(), fixture.steady_client()
        fixture.observer():create_all(path .. "/leases")
        assert(fixture.observer():set(path .. "/leases", "2"))
        local theirs = join(path .. "/leases", "_c_" .. UUID:gsub("0", "1") .. "-lease-", "theirs")
        local block = "_c_" .. UUID:sub(1, -4)
        join(path .. "/locks", block .. "000-lock-", "head")
        for index = 1, 2 do
            join(path .. "/leases", ("%s%03x-lease-"):format(block, index), "head")
        end
        assert.equal(1, look(client, path).holders)
        fixture.observer():delete(theirs)
        assert.equal(2, look(client, path).holders) -- the head has not left the queue yet
    end)

    it("believes no limit and no count that a lock cannot have", function()
        local client, huge = fixture.steady_client(), ("9"):rep(30)
        for _, limit in ipairs { "0", "2147483648", huge, ("9"):rep(400) } do
            local path = fixture.path()
            join(path .. "/leases", "_c_" .. UUID .. "-lease-", "one")
            assert(fixture.observer():set(path .. "/leases", limit))
            local state = look(client, path)
            assert.same({ "semaphore", 1 }, { state.kind, state.holders })
            assert.is_nil(state.limit)
        end
        for _, numbers in ipairs { "1/" .. huge, huge .. "/1", "6/5", "0/0" } do
            local path = fixture.directory()
            assert(fixture.observer():set(path, numbers .. " gate-" .. UUID))
            assert.equal("none", look(client, path).kind)
        end
    end)

    it("knows other libraries by the names of their nodes", function()
        local path, client = fixture.path(), fixture.steady_client()
        local hex = UUID:gsub("%-", "")
        join(path)
        for _, prefix in ipairs { "_c_" .. hex .. "-lock-", hex .. "__lock__", "ex", "x-1f-" } do
            join(path, prefix, "")
        end
        local state = look(client, path)
        assert.same({ "zklock or Curator", "go-zookeeper", "kazoo", "zk-ruby", "ZooKeeper recipe" },
            pick(state.contenders, "library"))
    end)

    it("shows a latch, a free lock, and what is no lock", function()
        local client = fixture.steady_client()
        local latch, free, directory, data = fixture.path(), fixture.directory(), fixture.directory(), fixture.directory()
        for _ = 1, 3 do
            assert(client:latch(latch, 5):count_down(10))
        end
        assert(fixture.observer():delete(join(free)))
        assert(fixture.observer():create(directory .. "/config", "x"))
        assert(fixture.observer():set(data, "2/5 gate-" .. UUID))
        assert(fixture.observer():create(data .. "/config", "x"))
        local state = look(client, latch)
        assert.same({ "latch", 2, 5 }, { state.kind, state.left, state.count })
        assert.equal("free", look(client, free).kind)
        assert.equal("none", look(client, directory).kind)
        assert.same({ "config" }, look(client, directory).others)
        assert.equal("none", look(client, data).kind)
        assert.equal("none", look(client, fixture.directory()).kind)
        assert.is_false((inspect.lock(client, fixture.path())))
    end)

    it("answers no_auth for a lock that may not be read: it may be held", function()
        local auth = { { scheme = "digest", credential = "one:secret" } }
        local owner = fixture.client { auth = auth, acl = "creator", session_timeout = 60 }
        for _, kind in ipairs { "mutex", "semaphore" } do
            local path = fixture.path()
            local lock = kind == "mutex" and owner:mutex(path) or owner:semaphore(path, 2)
            assert(lock:acquire(20))
            local state, message, code = inspect.lock(fixture.steady_client(), path)
            assert.same({ nil, "no_auth" }, { state, code })
            assert.equal(("listing the children of '%s': not authenticated"):format(path), message)
            assert(lock:release())
        end
    end)

    it("answers no_auth for a semaphore whose permits or queue may not be read", function()
        local owner = fixture.client { auth = { { scheme = "digest", credential = "one:secret" } } }
        for secret, what in pairs { leases = "reading", locks = "listing the children of" } do
            local path, client = fixture.directory(), fixture.steady_client()
            for _, part in ipairs { "leases", "locks" } do
                assert(owner:create(path .. "/" .. part, "", { acl = part == secret and "creator" or nil }))
            end
            local state, message, code = inspect.lock(client, path)
            assert.same({ nil, "no_auth" }, { state, code })
            assert.equal(("%s '%s/%s': not authenticated"):format(what, path, secret), message)
            assert.same({ path .. "/" .. secret }, (select(2, assert(inspect.locks(client, path)))))
        end
    end)

    it("does not take a directory for a semaphore because a child is called leases", function()
        local client, path = fixture.steady_client(), fixture.directory()
        assert(fixture.observer():create(path .. "/leases"))
        assert(fixture.observer():create(path .. "/leases/flat-7"))
        assert.equal("none", look(client, path).kind)
    end)

    it("finds strays: nodes that no session's end deletes", function()
        local path, client = fixture.path(), fixture.steady_client()
        join(path)
        assert(fixture.observer():create(("%s/_c_%s-lock-"):format(path, UUID), "by hand", { sequential = true }))
        local state = look(client, path)
        assert.is_nil(inspect.stray(state.contenders[1]))
        assert.equal("persistent", inspect.stray(state.contenders[2]))
    end)

    it("notices that a holder was asked to release", function()
        local path, client = fixture.path(), fixture.steady_client()
        join(path)
        assert.equal(1, client:mutex(path):revoke(20))
        local contender = look(client, path).contenders[1]
        assert.is_true(contender.revoked)
        assert.is_nil(contender.identity)
    end)

    it("sends a list and a read for each contender, for so many of the first ones, or only for the holder", function()
        local path, client = fixture.path(), fixture.steady_client()
        for _ = 1, 5 do
            join(path)
        end
        local before = fixture.sent(client)
        look(client, path)
        assert.equal(6, fixture.sent(client) - before)
        before = fixture.sent(client)
        assert.equal(5, #look(client, path, { identities = false }).contenders)
        assert.equal(2, fixture.sent(client) - before)
        before = fixture.sent(client)
        local contenders = look(client, path, { identities = 3 }).contenders
        assert.equal(4, fixture.sent(client) - before)
        assert.truthy(contenders[3].identity and not contenders[4].identity)
        for _, wrong in ipairs { -1, 1.5, "all" } do
            assert.has_error(function()
                inspect.lock(client, path, { identities = wrong })
            end)
        end
    end)

    it("computes the next number beyond 2^30, and when the numbers have become negative", function()
        local queue = require "zklock.inspect.queue"
        local function stat(creates, children)
            local cversion = (2 * creates - children) % 4294967296
            return { cversion = cversion >= 2147483648 and cversion - 4294967296 or cversion, num_children = children }
        end
        assert.equal(0, queue.next_sequence(stat(0, 0), {}))
        assert.equal(1073741825, queue.next_sequence(stat(1073741825, 1), { { sequence = 1073741824 } }))
        assert.equal(2147483647, queue.next_sequence(stat(2147483647, 3), { { sequence = 2147483646 } }))
        assert.equal(-2147483640, queue.next_sequence(stat(-2147483640, 2), { { sequence = -2147483641 } }))
    end)

    it("returns what is wrong when the connection is lost for too long", function()
        local client, link = fixture.client_behind_proxy { session_timeout = 30 }
        fixture.cut_off(client, link)
        local state, message, code = inspect.lock(client, "/x", { timeout = 1 })
        assert.same({ nil, "disconnected" }, { state, code })
        assert.is_string(message)
        link:accept()
    end)

    it("raises for a malformed path or setting", function()
        local client = fixture.steady_client()
        assert.has_error(function()
            inspect.lock(client, "x")
        end, "inspect.lock: bad path: it must start with '/'")
        assert.has_error(function()
            inspect.locks(client, "/x", { nonsense = 1 })
        end)
        assert.has_error(function()
            inspect.lock(client, "/x", { timeout = -1 })
        end)
    end)
end)

describe("inspect.locks", function()
    after_each(fixture.clean)

    it("finds the locks below a path, sorted, also those below other locks", function()
        local top, client = fixture.directory(), fixture.steady_client()
        join(top .. "/b")
        join(top .. "/b/deeper/c")
        join(top .. "/a/locks", nil, "first")
        join(top .. "/a/locks", nil, "second")
        local semaphore = client:semaphore(top .. "/sem", 2)
        assert(semaphore:acquire(20))
        local kinds = {}
        local states = assert(inspect.locks(client, top))
        for index, state in ipairs(states) do
            kinds[index] = ("%s %s %d %d"):format(state.path:sub(#top + 1), state.kind, state.holders, state.waiters)
        end
        assert.same({ " none 0 0", "/a none 0 0", "/a/locks mutex 1 1", "/b mutex 1 0", "/b/deeper none 0 0",
            "/b/deeper/c mutex 1 0",
            "/sem semaphore 1 0" }, kinds)
        assert.equal("first", states[3].contenders[1].identity)
        assert.is_nil(states[3].contenders[2].identity)
        assert(semaphore:release())
    end)

    it("lists what may not be read", function()
        local top = fixture.directory()
        local owner = fixture.client { auth = { { scheme = "digest", credential = "one:secret" } } }
        assert(owner:create(top .. "/secret", "", { acl = "creator" }))
        local states, unreadable = assert(inspect.locks(fixture.steady_client(), top))
        assert.equal(1, #states)
        assert.same({ top .. "/secret" }, unreadable)
    end)

    it("reads a queue of thousands of nodes", function()
        local path, client = fixture.path(), fixture.steady_client()
        local count = 2000
        for _ = 1, count do
            join(path, nil, "waiter")
        end
        local state = look(client, path)
        assert.same({ count, 1 }, { #state.contenders, state.holders })
        assert.equal(count - 1, state.contenders[count].ahead)
        assert.equal("waiter", state.contenders[count].identity)
    end)
end)
