--- Transactions of a client, and transactions that are guarded by a lock.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local assert_refused = require "spec.support.refused"
local zklock = require "zklock"

describe("a transaction", function()
    local client, path

    before_each(function()
        client = fixture.client({ wait = loop })
        path = fixture.path()
        assert(client:create(path, "old"))
    end)

    after_each(fixture.clean)

    it("executes all of its parts, in order, and returns a result for each #valgrind #asan", function()
        local results = assert(client:transaction()
            :check(path, 0)
            :set(path, "new\0data", 0)
            :create(path .. "/a", "x")
            :create(path .. "/s-", nil, { sequential = true, ephemeral = true })
            :delete(path .. "/a", 0)
            :commit(10))
        assert.equal(5, #results)
        assert.is_true(results[1])
        assert.same({ 1, 8 }, { results[2].version, results[2].data_length })
        assert.equal(path .. "/a", results[3])
        assert.equal(path .. "/s-0000000001", results[4])
        assert.is_true(results[5])
        assert.equal("new\0data", (client:get(path)))
        assert.same({ "s-0000000001" }, fixture.children(path))
        assert.equal(client:exists(path).mzxid, client:exists(results[4]).czxid)
    end)

    it("does nothing if one part fails, and names that part #asan", function()
        local cases = {
            { "no_node", 2, "deleting '" .. path .. "/no'", client:transaction():set(path, "x"):delete(path .. "/no") },
            { "node_exists", 1, "creating", client:transaction():create(path):set(path, "x") },
            { "bad_version", 3, "checking", client:transaction():set(path, "x"):set(path, "y"):check(path, 7) },
            { "not_empty", 3, "deleting", client:transaction():set(path, "x"):create(path .. "/a"):delete(path) }
        }
        for _, case in ipairs(cases) do
            local message = assert_refused(case[1], case[2], case[4]:commit(10))
            assert.truthy(message:find(case[3], 1, true), message)
            assert.truthy(message:find("nothing was written", 1, true), message)
            assert.same({ "old", 0 }, { (client:get(path)), client:exists(path).version })
            assert.same({}, fixture.children(path))
        end
    end)

    it("may be committed again", function()
        local transaction = client:transaction():set(path, "x"):create(path .. "/n-", "", { sequential = true })
        assert.equal(1, assert(transaction:commit(10))[1].version)
        assert.equal(2, assert(transaction:commit(10))[1].version)
        assert.equal(2, #fixture.children(path))
    end)

    it("without any part does nothing and succeeds", function()
        assert.same({}, client:transaction():commit())
    end)

    it("that is too large is refused before it costs the connection", function()
        local transaction = client:transaction()
        for index = 1, 5 do
            transaction:create(path .. "/" .. index, ("x"):rep(250000))
        end
        local message = assert_refused("failed", nil, transaction:commit(10))
        assert.truthy(message:find("5 operations", 1, true), message)
        assert.same({}, fixture.children(path))
        assert.equal(1, client:stats().connections)
    end)

    for _, moment in ipairs({ "before", "after" }) do
        it(("whose connection is cut %s the server had it has an unknown outcome #asan"):format(moment), function()
            local cut, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
            link:arm("multi", moment)
            local message = assert_refused("disconnected", nil, cut:transaction():set(path, "new"):commit(30))
            assert.truthy(message:find("not known", 1, true), message)
            link:wait_fired()
            assert.equal(moment == "after" and "new" or "old", (fixture.observer():get(path)))
        end)
    end

    it("waits for a connection within its timeout", function()
        local cut, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        fixture.cut_off(cut, link)
        assert_refused("disconnected", nil, cut:transaction():set(path, "new"):commit(0.2))
        link:accept()
        assert(cut:transaction():check(path, 0):commit(30))
    end)

    it("raises an error for a mistake in a call, at its line", function()
        local transaction = client:transaction()
        mistake(function()
            transaction:check()
        end, "transaction:check", "path", "nil")
        mistake(function()
            transaction:check("/a", "1")
        end, "transaction:check", "version")
        mistake(function()
            transaction:set("/a", 5)
        end, "transaction:set", "data")
        mistake(function()
            transaction:set("/a", "", 0.5)
        end, "transaction:set", "version")
        mistake(function()
            transaction:set("/zookeeper/quota", "")
        end, "transaction:set", "/zookeeper")
        mistake(function()
            transaction:delete("/")
        end, "transaction:delete", "'/'")
        mistake(function()
            transaction:create("/a", "", { container = true })
        end, "transaction:create", "'container'")
        mistake(function()
            transaction:create("a")
        end, "transaction:create", "path")
        mistake(function()
            transaction:commit(-1)
        end, "transaction:commit", "timeout")
        for _, method in ipairs({ "check", "create", "set", "delete", "commit" }) do
            mistake(function()
                transaction[method]("/a")
            end, "transaction:" .. method, "colon")
        end
        mistake(function()
            client.transaction()
        end, "client:transaction", "colon")
        mistake(function()
            client:mutex("/a").transaction()
        end, "lock:transaction", "colon")
        assert.same({}, transaction:commit())
    end)
end)

describe("a lock's transaction", function()
    local client, lock, path

    before_each(function()
        client = fixture.client({ wait = loop, session_timeout = 60 })
        path = fixture.path()
        assert(client:create(path, "old"))
        lock = client:mutex(path .. "/lock")
    end)

    after_each(fixture.clean)

    local function data()
        return (fixture.observer():get(path))
    end

    it("writes while the lock is held, and leaves its own check out of the results #valgrind #asan", function()
        assert(lock:acquire(10))
        local results = assert(lock:transaction():check():set(path, "new", 0):create(path .. "/a"):commit(10))
        assert.equal(2, #results)
        assert.equal(1, results[1].version)
        assert.equal(path .. "/a", results[2])
        assert.equal("new", data())
        assert.same({}, assert(lock:transaction():commit(10)))
    end)

    it("numbers the parts as the program added them if one fails", function()
        assert(lock:acquire(10))
        assert_refused("no_node", 2, lock:transaction():set(path, "new"):delete(path .. "/no"):commit(10))
        assert_refused("bad_version", 1, lock:transaction():check(path, 5):set(path, "new"):commit(10))
        assert.equal("old", data())
        assert.is_true(lock:held())
    end)

    it("is refused by the server if an administrator has deleted the lock's node #valgrind #asan", function()
        assert(lock:acquire(10))
        fixture.observer():delete(lock:node())
        local message = assert_refused("lost", nil, lock:transaction():set(path, "new"):commit(10))
        assert.truthy(message:find(path .. "/lock", 1, true), message)
        assert.equal("old", data())
    end)

    it("is refused by the server if any one of a semaphore's permits is gone #asan", function()
        local directory = path .. "/semaphore"
        for victim = 1, 3 do
            local semaphore = client:semaphore(directory, 3)
            assert(semaphore:acquire({ count = 3, timeout = 10 }))
            local results = assert(semaphore:transaction():set(path, "old"):create(path .. "/n-", "", { sequential = true })
                :commit(10))
            assert.equal(2, #results)
            assert.equal("table", type(results[1]))
            assert_refused("bad_version", 1, semaphore:transaction():check(path, 1000):commit(10))
            local names = fixture.children(directory .. "/leases")
            assert.equal(3, #names)
            table.sort(names)
            local node = directory .. "/leases/" .. names[victim]
            local transaction = semaphore:transaction():set(path, "new")
            fixture.observer():delete(node)
            local message = assert_refused("lost", nil, transaction:commit(10))
            assert.truthy(message:find(node, 1, true), message)
            assert.equal("old", data())
            semaphore:release()
            assert(client:flush(10))
        end
    end)

    it("also checks permits that came from another acquisition of the client", function()
        local directory = path .. "/semaphore"
        local giver, acquirer = client:semaphore(directory, 3), client:semaphore(directory, 3)
        loop.run(function()
            assert(giver:acquire({ count = 3, timeout = 10 }))
            fixture.until_children(directory .. "/locks", 0)
        end)
        local acquired
        loop.run(function()
            acquired = assert(acquirer:acquire({ count = 2, timeout = 10 }))
        end, function()
            fixture.until_children(directory .. "/locks", 1)
            assert(hold_of(giver):release())
        end)
        assert.equal(1, client:stats().hand_overs)
        assert(client:flush(10))
        local names = fixture.children(directory .. "/leases")
        assert.equal(2, #names)
        for index, name in ipairs(names) do
            names[index] = directory .. "/leases/" .. name
        end
        local nodes = acquired:nodes()
        table.sort(names)
        table.sort(nodes)
        assert.same(names, nodes)
        assert(acquired:transaction():set(path, "new"):commit(10))
        fixture.observer():delete(nodes[1] == acquired:node() and nodes[2] or nodes[1])
        assert_refused("lost", nil, acquired:transaction():set(path, "newer"):commit(10))
        assert.equal("new", data())
    end)

    it("is refused without a request if the lock is not held", function()
        local requests = fixture.sent(client)
        assert_refused("not_held", nil, lock:transaction():set(path, "new"):commit(10))
        assert.equal(requests, fixture.sent(client))
        assert(lock:acquire(10))
        local transaction = lock:transaction():set(path, "new")
        assert(lock:release())
        assert_refused("not_held", nil, transaction:commit(10))
        assert.equal("old", data())
    end)

    it("is bound to the hold under which it was made", function()
        assert(lock:acquire(10))
        local transaction = lock:transaction():set(path, "new")
        assert(lock:release())
        assert(lock:acquire(10))
        assert_refused("not_held", nil, transaction:commit(10))
        assert.equal("old", data())
        assert(lock:transaction():set(path, "new"):commit(10))
        assert.equal("new", data())
    end)

    it("is refused once the lease has run out, even if no server has reported a loss", function()
        local cut, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 4 })
        local mutex = cut:mutex(path .. "/lock")
        local held = assert(mutex:acquire(20))
        local transaction = held:transaction():set(path, "new")
        link:refuse()
        link:cut()
        loop.run(function()
            loop.until_true(function()
                return not held:held()
            end)
        end)
        assert_refused("lost", nil, transaction:commit(10))
        link:accept()
        assert.equal("old", data())
    end)

    it("that is in flight when the session ends writes nothing", function()
        local cut, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local held = assert(cut:mutex(path .. "/lock"):acquire(20))
        local node = held:node()
        link:stall("up")
        local code
        loop.run(function()
            code = select(3, held:transaction():set(path, "new"):commit(30))
        end, function()
            fixture.kill_owner(node)
            link:resume()
        end)
        assert.is_true(code == "lost" or code == "disconnected", code)
        assert.equal("old", data())
    end)

    it("is answered closed after the client's close", function()
        assert(lock:acquire(10))
        local transaction = lock:transaction():set(path, "new")
        assert(client:close())
        local code = select(3, transaction:commit(10))
        assert.is_true(code == "lost" or code == "closed", code)
        assert.equal("old", data())
    end)
end)

describe("a client that was never connected", function()
    it("answers its transactions with disconnected", function()
        local client = assert(zklock.connect("127.0.0.1:1", { connect_timeout = 0 }))
        assert_refused("disconnected", nil, client:transaction():set("/a", ""):commit(0.1))
        client:close()
    end)
end)
