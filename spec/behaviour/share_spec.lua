--- What claims of one client share: a node that passes from one to the next, readers that hold by one, and a node that lingers.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local takes = require "spec.support.takes"

--- Within the loop: waits until a client has asked for so many acquisitions, so that they arrive in a known order.
local function until_claims(client, count)
    loop.until_true(function()
        return client:stats().claims >= count
    end)
end

--- So many coroutines that acquire one after the other, each in turn as its `lock` says, and note that in `order`. Nobody
-- releases before all have asked.
local function contenders(locks, order, tokens)
    local functions = {}
    for index, lock in ipairs(locks) do
        functions[index] = function()
            assert(lock:acquire(20))
            until_claims(lock._client, #locks)
            order[#order + 1] = index
            if tokens then
                tokens[#tokens + 1] = lock:token()
            end
            assert(lock:release())
        end
    end
    return functions
end

local function grow(tokens)
    for index = 2, #tokens do
        assert.is_true(tokens[index - 1] < tokens[index], tokens[index - 1] .. " and then " .. tokens[index])
    end
end

after_each(fixture.clean)

describe("a lock's node", function()
    it("passes from one claim to the next without a request #valgrind #asan", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local locks, order, tokens = {}, {}, {}
        for index = 1, 8 do
            locks[index] = client:mutex(path, { handoff = 100 }) -- so many that it need not watch who comes
        end
        local before = fixture.sent(client)
        loop.run_all(contenders(locks, order, tokens))
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, order)
        assert.equal(7, client:stats().hand_overs)
        assert.equal(3, fixture.sent(client) - before) -- create and list, and in the end delete
        grow(tokens)
        assert.equal(tokens[1]:match("^%d+"), tokens[8]:match("^%d+"))
        assert.same({}, fixture.children(path))
    end)

    it("passes in the order of arrival, also past its bound", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local locks, order, tokens = {}, {}, {}
        for index = 1, 10 do
            locks[index] = client:mutex(path, { handoff = 2 })
        end
        loop.run_all(contenders(locks, order, tokens))
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, order)
        local hand_overs = client:stats().hand_overs
        assert.is_true(hand_overs >= 6, hand_overs) -- four nodes, or fewer if it has learnt in time that it is alone
        grow(tokens)
    end)

    for bound = 0, 6, 3 do
        it("lets a waiter elsewhere wait for what was asked for before it, and for at most " .. bound .. " later ones", function()
            local path, waiting = fixture.directory(), 9 * (bound + 1) + 1 -- the last node of the client has room for later ones
            local holder, remote = fixture.steady_client():mutex(path), fixture.steady_client():mutex(path)
            local client = fixture.steady_client()
            assert(holder:acquire(10))
            local functions, order, over = {}, {}, false
            for index = 1, waiting do
                local lock = client:mutex(path, { handoff = bound })
                functions[index] = function()
                    until_claims(client, index - 1)
                    for round = 1, math.huge do
                        assert(lock:acquire(30))
                        order[#order + 1] = round
                        assert(lock:release())
                        if over then
                            return
                        end
                    end
                end
            end
            functions[waiting + 1] = function()
                until_claims(client, waiting)
                fixture.until_children(path, 1 + 10)
                assert(remote:acquire(30))
                over = true
                order[#order + 1] = "elsewhere"
                assert(remote:release())
            end
            functions[waiting + 2] = function()
                fixture.until_children(path, 1 + 10 + 1)
                assert(holder:release())
            end
            loop.run_all(functions)
            for index = 1, waiting do
                assert.equal(1, order[index])
            end
            local later = 0
            while order[waiting + later + 1] ~= "elsewhere" do
                later = later + 1
            end
            assert.is_true(later <= bound, later)
        end)
    end

    --- A client's node is held, and then nine wait for it that may share it, three at a time if somebody else waits. When all do,
    -- runs `meanwhile`, and then releases it. Returns the order in which they have had it.
    local function crowd(client, path, order, meanwhile)
        local holder, functions = client:mutex(path, { handoff = 2 }), {}
        assert(holder:acquire(10))
        local before = client:stats().claims
        for index = 1, 9 do
            local lock = client:mutex(path, { handoff = 2 })
            functions[index] = function()
                loop.until_true(function() -- one after the other
                    return client:stats().claims == before + index - 1
                end)
                if index == 2 then
                    assert(client:exists(path)) -- which is answered after the list that the first has made it ask for
                end
                assert(lock:acquire(20))
                order[#order + 1] = index
                assert(lock:release())
            end
        end
        functions[10] = function()
            until_claims(client, before + 9)
            assert.equal(1, #fixture.children(path))
            meanwhile()
            assert(holder:release())
        end
        functions[11] = function()
            loop.until_true(function()
                return #order >= 9
            end)
        end
        return functions
    end

    it("passes without end while nobody else is there #valgrind #asan", function()
        local client, path, order = fixture.steady_client(), fixture.directory(), {}
        loop.run_all(crowd(client, path, order, function()
        end))
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, order)
        assert.equal(9, client:stats().hand_overs)
    end)

    it("passes to somebody else as soon as he comes, also after many", function()
        local client, path, order = fixture.steady_client(), fixture.directory(), {}
        local remote, come = fixture.steady_client():mutex(path), false
        local functions = crowd(client, path, order, function()
            come = true
            loop.until_true(function()
                return fixture.has(path, 5) -- his node, and three for the nine
            end)
        end)
        functions[12] = function()
            loop.until_true(function()
                return come
            end)
            assert(remote:acquire(20))
            order[#order + 1] = "remote"
            assert(remote:release())
        end
        loop.run_all(functions)
        assert.same({ "remote", 1, 2, 3, 4, 5, 6, 7, 8, 9 }, order)
    end)

    for _, handoff in ipairs({ 0, 1, 3 }) do
        it(("passes %d times while somebody else waits behind it"):format(handoff), function()
            local client, path = fixture.steady_client(), fixture.directory()
            local holder, remote = client:mutex(path), fixture.steady_client():mutex(path)
            local order, functions = {}, {}
            assert(holder:acquire(10))
            functions[1] = function()
                assert(remote:acquire(20))
                order[#order + 1] = "remote"
                assert(remote:release())
            end
            for index = 1, 5 do
                local lock = client:mutex(path, { handoff = handoff })
                functions[index + 1] = function()
                    loop.until_true(function()
                        return #fixture.children(path) >= 2
                    end)
                    until_claims(client, index)
                    assert(lock:acquire(20))
                    order[#order + 1] = index
                    assert(lock:release())
                end
            end
            functions[7] = function()
                until_claims(client, 6)
                assert(holder:release())
            end
            loop.run_all(functions)
            local expected = { 1, 2, 3, 4, 5 }
            table.insert(expected, handoff + 1, "remote")
            assert.same(expected, order)
        end)
    end

    it("is shared only by claims of which it would say the same", function()
        local client, path = fixture.steady_client({ auth = { { scheme = "digest", credential = "a:b" } } }), fixture.directory()
        local first, other = client:mutex(path), client:mutex(path, { identity = "other" })
        local guarded = client:mutex(path, { acl = "read" })
        assert(first:acquire(10))
        loop.run(function()
            assert(other:acquire(20))
            assert(other:release())
        end, function()
            assert(guarded:acquire(20))
            assert(guarded:release())
        end, function()
            loop.until_true(function()
                return fixture.has(path, 3)
            end)
            assert.equal("other", first:contenders()[2].identity)
            assert(first:release())
        end)
        assert.equal(0, client:stats().hand_overs)
    end)

    it("is shared by claims whose acls say the same, each in a table of its own, and by no others", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local function lock_of(perms, id, another)
            return client:mutex(path, { acl = {
                { scheme = "world", id = "anyone", perms = perms },
                id and { scheme = "ip", id = id, perms = "r" },
                another and { scheme = "ip", id = another, perms = "r" }
            } })
        end
        local first, same = lock_of("crwda", "127.0.0.1"), lock_of("crwda", "127.0.0.1")
        assert(first:acquire(10))
        local others = {
            lock_of("crwda"), lock_of("crwda", "127.0.0.1", "127.0.0.2"), lock_of("crwda", "127.0.0.2"),
            lock_of("crwd", "127.0.0.1")
        }
        for _, other in ipairs(others) do
            loop.run(function()
                assert.equal("cancelled", select(3, other:acquire(30)))
            end, function()
                fixture.until_children(path, 2)
                other:cancel()
                fixture.until_children(path, 1)
            end)
        end
        local node = first:node()
        loop.run(function()
            assert(same:acquire(20))
        end, function()
            assert(first:release())
        end)
        assert.equal(node, same:node())
    end)

    it("does not outlive a grant that ended by max_hold", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local first, second = client:mutex(path, { max_hold = 3 }), client:mutex(path)
        assert(first:acquire(10))
        local node, token = first:node(), first:token()
        loop.run(function()
            assert(second:acquire(20))
            assert.is_false(first:held())
            assert.not_equal(node, second:node())
            assert.is_true(second:token() > token)
            assert(second:release())
        end)
        assert.equal(0, client:stats().hand_overs)
    end)

    it("that an administrator deletes makes those who wait take another", function()
        local client, path = fixture.steady_client({ session_timeout = 8 }), fixture.directory()
        local first, second, third = client:mutex(path), client:mutex(path), client:mutex(path)
        assert(first:acquire(10))
        local node, tokens = first:node(), { first:token() }
        local functions = contenders({ second, third }, {}, tokens)
        functions[3] = function()
            until_claims(client, 3)
            assert(fixture.observer():delete(node))
            loop.until_true(function()
                return not first:held()
            end)
            local ok, _, code = first:release()
            assert.is_nil(ok)
            assert.equal("lost", code)
        end
        loop.run_all(functions)
        assert.equal(3, #tokens)
        grow(tokens)
        assert.same({}, fixture.children(path))
    end)

    it("is never handed to a claim that has given up", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local locks = {}
        for index = 1, 5 do
            locks[index] = client:mutex(path)
        end
        local got = {}
        assert(locks[1]:acquire(10))
        local function waits(index, timeout, expected)
            return function()
                local ok, _, code = locks[index]:acquire(timeout)
                got[index] = ok and "granted" or code
                assert.equal(expected, got[index])
                if ok then
                    assert(ok:release())
                end
            end
        end
        loop.run(waits(2, 0.05, "timeout"), waits(3, 20, "granted"), waits(4, 20, "cancelled"), waits(5, 20, "granted"), function()
            loop.until_true(function()
                return got[2]
            end)
            assert.is_true(locks[4]:cancel())
            assert(locks[1]:release())
        end)
        assert.same({ nil, "timeout", "granted", "cancelled", "granted" }, got)
        assert.equal(3, client:stats().grants)
        assert.same({}, fixture.children(path))
        assert.equal(0, client:stats().seats)
    end)

    it("is not passed to a claim that wants its own, whoever has given up before", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local holder, impatient = client:mutex(path, { linger = 60 }), client:mutex(path)
        local proud = client:mutex(path, { handoff = 0 })
        for _ = 1, 2 do
            assert(holder:acquire(10))
            assert(client:exists(path)) -- which is answered after the list that says that nobody else is there
            assert(holder:release())
        end
        assert(holder:acquire(10))
        assert.equal("timeout", select(3, impatient:acquire(0.05)))
        loop.run(function()
            assert(proud:acquire(20))
            assert(proud:release())
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(holder:release())
        end)
    end)

    it("is named to those who wait for it in vain", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local holder, waiter = client:mutex(path), client:mutex(path)
        assert(holder:acquire(10))
        local ok, problem, code = waiter:acquire(0.1)
        assert.is_nil(ok)
        assert.equal("timeout", code)
        assert.is_truthy(problem:find("is ahead", 1, true), problem)
        assert(holder:release())
    end)

    it("goes to others once they have asked for it", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local order, asked = {}, false
        local holder = client:mutex(path, { on_revoke = function()
            asked = true
        end })
        local waiter, remote = client:mutex(path), fixture.steady_client():mutex(path)
        assert(holder:acquire(10))
        local node = holder:node()
        loop.run(function()
            assert(remote:acquire(20))
            order[#order + 1] = "remote"
            assert(remote:release())
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(waiter:acquire(20))
            order[#order + 1] = "local"
            assert.not_equal(node, waiter:node())
            assert(waiter:release())
        end, function()
            until_claims(client, 2)
            assert.equal(1, remote:revoke(10))
            loop.until_true(function()
                return asked
            end)
            assert(holder:release())
        end)
        assert.same({ "remote", "local" }, order)
    end)

    it("goes with its client, whoever waits", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local first, second = client:mutex(path), client:mutex(path)
        assert(first:acquire(10))
        loop.run(function()
            local ok, _, code = second:acquire(20)
            assert.is_nil(ok)
            assert.equal("closed", code)
        end, function()
            until_claims(client, 2)
            client:close()
        end)
        fixture.await_children(path, 0)
    end)
end)

describe("readers of one client", function()
    it("hold by one node, and need no request #asan", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local readers, before = {}, fixture.sent(client)
        for index = 1, 10 do
            readers[index] = client:rwlock(path).read
            assert(readers[index]:acquire(10))
        end
        assert.is_true(fixture.has(path, 1))
        assert.equal(3, fixture.sent(client) - before) -- create, list, and a list that watches who comes
        local writer = fixture.steady_client():rwlock(path).write
        assert.is_nil((writer:try_acquire()))
        for index = 1, 10 do
            assert.is_true(readers[index]:held())
            assert.is_true(readers[index]:release())
        end
        assert.equal(4, fixture.sent(client) - before)
        assert.equal(writer, writer:acquire(10))
    end)

    it("go in by one node if they have waited together, however many; who comes later takes turns", function()
        local client, path, readers = fixture.steady_client(), fixture.directory(), 40
        local first, second = fixture.steady_client():rwlock(path).write, fixture.steady_client():rwlock(path).write
        local order, nodes, inside, functions = {}, {}, 0, {}
        assert(first:acquire(10))
        local function read(name)
            local reader = client:rwlock(path, { handoff = 1 }).read
            assert(reader:acquire(20))
            order[#order + 1] = name
            inside = inside + 1
            nodes[reader:node()] = true
            loop.until_true(function()
                return inside >= readers + 1
            end)
            assert(reader:release())
        end
        for index = 1, readers do
            functions[index] = function()
                read("together")
            end
        end
        functions[readers + 1] = function()
            until_claims(client, readers)
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(second:acquire(20))
            order[#order + 1] = "writer"
            assert(second:release())
        end
        functions[readers + 2] = function()
            loop.until_true(function()
                return fixture.has(path, 3) -- those of the writers and that of all readers
            end)
            assert(first:release())
        end
        for index = 1, 2 do
            functions[#functions + 1] = function()
                loop.until_true(function()
                    return inside >= readers
                end)
                until_claims(client, readers + index - 1)
                read("later")
            end
        end
        loop.run_all(functions)
        for index = 1, readers do
            assert.equal("together", order[index])
        end
        assert.same({ "later", "writer", "later" }, { order[readers + 1], order[readers + 2], order[readers + 3] })
        local count = 0
        for _ in pairs(nodes) do
            count = count + 1
        end
        assert.equal(2, count)
        fixture.assert_nothing_left(client)
    end)

    it("let a writer elsewhere in after so many of them", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local first = client:rwlock(path, { handoff = 1 }).read
        local writer, order = fixture.steady_client():rwlock(path).write, {}
        assert(first:acquire(10))
        local functions = { function()
            assert(writer:acquire(20))
            order[#order + 1] = "writer"
            assert(writer:release())
        end }
        for index = 1, 3 do
            local reader = client:rwlock(path, { handoff = 1 }).read
            functions[index + 1] = function()
                loop.until_true(function()
                    return #fixture.children(path) >= 2
                end)
                until_claims(client, index)
                assert(reader:acquire(20))
                order[#order + 1] = index
                if index == 1 then
                    until_claims(client, 4)
                    assert(first:release())
                end
                assert(reader:release())
            end
        end
        loop.run_all(functions)
        assert.same({ 1, "writer" }, { order[1], order[2] })
        assert.equal(4, #order)
    end)

    it("follow their writer by its node, all at once", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local writer, other = client:rwlock(path).write, client:rwlock(path).write
        assert(writer:acquire(10))
        local reading, functions = 0, {}
        for index = 1, 3 do
            local reader = client:rwlock(path).read
            functions[index] = function()
                assert(reader:acquire(20))
                reading = reading + 1
                loop.until_true(function()
                    return reading == 3
                end)
                assert.is_false(other:held())
                assert(reader:release())
            end
        end
        functions[4] = function()
            assert(other:acquire(20))
            assert.equal(3, reading)
            assert(other:release())
        end
        functions[5] = function()
            assert(writer:release())
        end
        loop.run_all(functions)
        assert.equal(4, client:stats().hand_overs)
    end)

    it("are let in by a try, where a writer's is refused without a trace", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local first, second = client:rwlock(path), client:rwlock(path)
        assert(first.read:acquire(10))
        local before = fixture.sent(client)
        assert(second.read:try_acquire())
        assert(second.read:release())
        local ok, _, code = second.write:try_acquire()
        assert.is_nil(ok)
        assert.equal("timeout", code)
        assert.equal(before, fixture.sent(client))
        assert(first.read:release())
    end)

    it("stand beside a writer that becomes one, and no other writer comes between", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local rw, other = client:rwlock(path), client:rwlock(path).write
        loop.run(function()
            until_claims(client, 1)
            assert(other:acquire(20))
            assert.is_false(rw.read:held())
            assert(other:release())
        end, function()
            assert(rw.write:acquire(10))
            until_claims(client, 2)
            assert(rw.read:acquire(10))
            assert(rw.write:release())
            assert.is_true(rw.read:held())
            assert.is_false(other:held())
            assert(rw.read:release())
        end)
        assert.same({}, fixture.children(path))
    end)
end)

describe("a lock that lingers", function()
    it("is had again without a request", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock = client:mutex(path, { linger = 60 })
        assert(lock:with_lock(function() end, 10))
        assert(client:flush(5))
        local before, tokens = fixture.sent(client), {}
        for index = 1, 50 do
            assert((index % 2 == 0 and lock or client:mutex(path, { linger = 60 })):with_lock(function(held)
                tokens[index] = held:token()
            end, 10))
        end
        assert.equal(before, fixture.sent(client))
        grow(tokens)
        assert.is_true(fixture.has(path, 1))
        client:close()
        assert.same({}, fixture.children(path))
        assert.is_false(fixture.is_watched(path))
    end)

    it("goes to the first who comes, and does not linger while others wait", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock, remote = client:mutex(path, { linger = 60 }), fixture.steady_client():mutex(path)
        assert(lock:with_lock(function() end, 10))
        takes(0, function()
            assert(remote:acquire(10))
        end)
        loop.run(function()
            assert(lock:acquire(10))
            assert(lock:release())
            assert.is_true(fixture.has(path, 1)) -- it lingers again: nobody waits
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(remote:release())
        end)
        assert(remote:acquire(10))
        assert.is_true(fixture.has(path, 1))
        assert(remote:release())
    end)

    it("is refused to a try elsewhere, which writes nothing, and goes to the first who queues, however impatient #asan", function()
        for _, kind in ipairs({ "mutex", "read", "write" }) do
            local client, other, path = fixture.steady_client(), fixture.steady_client(), fixture.path()
            local function half(of, options)
                return kind == "mutex" and of:mutex(path, options) or of:rwlock(path, options)[kind]
            end
            local lock = half(client, { linger = 60 })
            local remote = kind == "read" and other:rwlock(path).write or half(other)
            assert(lock:with_lock(function() end, 10))
            local nodes = fixture.children(path)
            assert.equal(1, #nodes)
            for _ = 1, 2 do
                assert.equal("timeout", select(3, remote:try_acquire()))
                assert.equal("timeout", select(3, other:multi({ remote }):try_acquire()))
                assert.equal("timeout", select(3, remote:acquire(0)))
            end
            assert(lock:acquire(10)) -- by the same node: it has not left for any of these
            assert.is_true(lock:release())
            assert.same(nodes, fixture.children(path))
            eventually(function() -- one that gives up at once has queued all the same
                return remote:acquire(0.01)
            end)
            assert.is_true(remote:release())
        end
    end)

    it("leaves by itself when its time is over", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock = client:mutex(path, { linger = 0.4 })
        takes(0.4, function()
            assert(lock:with_lock(function() end, 10))
            fixture.await_children(path, 0, 10)
        end)
        eventually(function()
            local stats = client:stats()
            return stats.seats == 0 and stats.watches == 0 and not fixture.is_watched(path)
        end)
    end)

    it("leaves when somebody asks for it", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local lock = client:mutex(path, { linger = 60, on_revoke = function() end })
        assert(lock:with_lock(function() end, 10))
        assert.is_true(fixture.has(path, 1))
        fixture.steady_client():mutex(path):revoke(10)
        fixture.await_children(path, 0, 10)
    end)

    it("makes way for a lock of its own client that cannot share it", function()
        local client, path = fixture.steady_client(), fixture.directory()
        assert(client:mutex(path, { linger = 60 }):with_lock(function() end, 10))
        assert(client:mutex(path, { identity = "other" }):with_lock(function()
            assert.is_true(fixture.has(path, 1))
        end, 10))
        assert(client:rwlock(path, { linger = 60 }).read:with_lock(function() end, 10))
        assert(client:rwlock(path).write:with_lock(function() end, 10))
        assert.same({}, fixture.children(path))
    end)

    it("is gone for its client when an administrator has deleted its node", function()
        local client, path = fixture.steady_client({ session_timeout = 4 }), fixture.directory()
        local lock = client:mutex(path, { linger = 60 })
        assert(lock:acquire(10))
        local node = lock:node()
        assert(lock:release())
        assert(fixture.observer():delete(node))
        eventually(function()
            return client:stats().seats == 0
        end)
        assert(lock:with_lock(function()
            assert.not_equal(node, lock:node())
        end, 10))
    end)
end)

describe("a semaphore's permits", function()
    it("pass from one claim to the next where they are #asan", function()
        local client, path = fixture.steady_client(), fixture.path()
        local first, second, third = client:semaphore(path, 3), client:semaphore(path, 3), client:semaphore(path, 3)
        assert(first:acquire({ timeout = 10, count = 3 }))
        local tokens = { first:token() }
        loop.run(function()
            assert(second:acquire({ timeout = 20, count = 2 }))
            tokens[2] = second:token()
            loop.until_true(function()
                return third:held()
            end)
            assert(second:release())
        end, function()
            until_claims(client, 2)
            assert(third:acquire(20))
            loop.until_true(function()
                return second:token() == nil
            end)
            assert(third:release())
        end, function()
            loop.until_true(function()
                return fixture.has(path .. "/locks", 2)
            end)
            assert(first:release())
        end)
        assert.equal(1, client:stats().hand_overs)
        grow(tokens)
        assert.equal(tokens[1]:match("^%d+"), tokens[2]:match("^%d+"))
        fixture.await_children(path .. "/leases", 0)
        fixture.await_children(path .. "/locks", 0)
    end)

    it("pass so many times in a row while others wait", function()
        local client, path = fixture.steady_client(), fixture.path()
        local holder, remote = client:semaphore(path, 1), fixture.steady_client():semaphore(path, 1)
        local order, functions = {}, {}
        assert(holder:acquire(10))
        fixture.await_children(path .. "/locks", 0)
        functions[1] = function()
            assert(remote:acquire(20))
            order[#order + 1] = "remote"
            assert(remote:release())
        end
        for index = 1, 4 do
            local semaphore = client:semaphore(path, 1, { handoff = 2 })
            functions[index + 1] = function()
                loop.until_true(function()
                    return #fixture.children(path .. "/locks") >= 1
                end)
                until_claims(client, index)
                assert(semaphore:acquire(20))
                order[#order + 1] = index
                assert(semaphore:release())
            end
        end
        functions[6] = function()
            loop.until_true(function()
                return fixture.has(path .. "/locks", 5)
            end)
            assert(holder:release())
        end
        loop.run_all(functions)
        assert.same({ 1, 2, "remote", 3, 4 }, order)
    end)
end)

describe("the options handoff and linger", function()
    it("are checked", function()
        local client = fixture.steady_client()
        for _, kind in ipairs({ "mutex", "rwlock", "semaphore" }) do
            local function refused(options, expected)
                local ok, problem = pcall(function()
                    return kind == "semaphore" and client:semaphore("/x", 2, options) or client[kind](client, "/x", options)
                end)
                assert.is_false(ok)
                assert.is_truthy(problem:find(expected, 1, true), problem)
                assert.is_truthy(problem:find("share_spec", 1, true), problem)
            end
            for _, value in ipairs({ -1, 1.5, "3", 2 ^ 31, 0 / 0, true }) do
                refused({ handoff = value }, "'handoff'")
            end
            for _, value in ipairs({ -1, "1", 0 / 0, true }) do
                refused({ linger = value }, "'linger'")
            end
        end
    end)
end)
