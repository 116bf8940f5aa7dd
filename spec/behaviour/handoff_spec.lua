--- A lock's node passes from one acquisition of a client to the next.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local handoffs = require "spec.support.handoffs"
local loop = require "spec.support.loop"

local contenders, grow, until_claims = handoffs.contenders, handoffs.grow, handoffs.until_claims

after_each(fixture.clean)

describe("a lock's node", function()
    it("passes from one acquisition to the next without a request #valgrind #asan", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local locks, order, tokens = {}, {}, {}
        for index = 1, 8 do
            locks[index] = client:mutex(path, { handoff = 100 }) -- so many that the client need not watch for other contenders
        end
        local before = fixture.sent(client)
        loop.run_all(contenders(locks, order, tokens))
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, order)
        assert.equal(7, client:stats().hand_overs)
        assert.equal(3, fixture.sent(client) - before) -- create and list, and at the end delete
        grow(tokens)
        assert.equal(tokens[1]:match("^%d+"), tokens[8]:match("^%d+"))
        assert.same({}, fixture.children(path))
    end)

    it("passes in the order of arrival, also beyond its bound", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local locks, order, tokens = {}, {}, {}
        for index = 1, 10 do
            locks[index] = client:mutex(path, { handoff = 2 })
        end
        loop.run_all(contenders(locks, order, tokens))
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, order)
        local hand_overs = client:stats().hand_overs
        assert.is_true(hand_overs >= 6, hand_overs) -- four nodes, or fewer if the client has learnt in time that it is alone
        grow(tokens)
    end)

    for bound = 0, 6, 3 do
        it("makes another client's waiter wait for earlier acquisitions, and for at most " .. bound .. " later ones", function()
            local path, waiting = fixture.directory(), 9 * (bound + 1) + 1 -- the client's last node has room for later acquisitions
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
                assert(hold_of(holder):release())
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

    --- Returns functions in which a client's node is held, and nine acquisitions wait that may share it, three at a time if another
    -- client waits. When all wait, `meanwhile` is called and the node is released. `order` then has the order of the grants.
    local function crowd(client, path, order, meanwhile)
        local holder, functions = client:mutex(path, { handoff = 2 }), {}
        assert(holder:acquire(10))
        local before = client:stats().acquisitions
        for index = 1, 9 do
            local lock = client:mutex(path, { handoff = 2 })
            functions[index] = function()
                loop.until_true(function() -- one after the other
                    return client:stats().acquisitions == before + index - 1
                end)
                if index == 2 then
                    assert(client:exists(path)) -- answered after the list that the first acquisition has caused
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
            assert(hold_of(holder):release())
        end
        functions[11] = function()
            loop.until_true(function()
                return #order >= 9
            end)
        end
        return functions
    end

    it("passes without end while there is no other contender #valgrind #asan", function()
        local client, path, order = fixture.steady_client(), fixture.directory(), {}
        loop.run_all(crowd(client, path, order, function()
        end))
        assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9 }, order)
        assert.equal(9, client:stats().hand_overs)
    end)

    it("passes to another client as soon as it queues, also after many hand-overs", function()
        local client, path, order = fixture.steady_client(), fixture.directory(), {}
        local remote, come = fixture.steady_client():mutex(path), false
        local functions = crowd(client, path, order, function()
            come = true
            loop.until_true(function()
                return fixture.has(path, 5) -- the other client's node, and three nodes for the nine acquisitions
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
        it(("passes %d times while another client waits behind it"):format(handoff), function()
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
                assert(hold_of(holder):release())
            end
            loop.run_all(functions)
            local expected = { 1, 2, 3, 4, 5 }
            table.insert(expected, handoff + 1, "remote")
            assert.same(expected, order)
        end)
    end

    it("is shared only by acquisitions with the same identity and acl", function()
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
            assert(hold_of(first):release())
        end)
        assert.equal(0, client:stats().hand_overs)
    end)

    it("is shared by acquisitions with equal acls, each in a separate table, and by no others", function()
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
            assert(hold_of(first):release())
        end)
        assert.equal(node, hold_of(same):node())
    end)

    it("is not handed over if its grant was ended by max_hold", function()
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

    it("is replaced by another node for its waiters when an administrator deletes it", function()
        local client, path = fixture.steady_client({ session_timeout = 8 }), fixture.directory()
        local first, second, third = client:mutex(path), client:mutex(path), client:mutex(path)
        local held = assert(first:acquire(10))
        local node, tokens = held:node(), { held:token() }
        local functions = contenders({ second, third }, {}, tokens)
        functions[3] = function()
            until_claims(client, 3)
            assert(fixture.observer():delete(node))
            loop.until_true(function()
                return not held:held()
            end)
            local ok, _, code = held:release()
            assert.is_nil(ok)
            assert.equal("lost", code)
        end
        loop.run_all(functions)
        assert.equal(3, #tokens)
        grow(tokens)
        assert.same({}, fixture.children(path))
    end)

    it("is never handed to an acquisition that was abandoned", function()
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
            assert(hold_of(locks[1]):release())
        end)
        assert.same({ nil, "timeout", "granted", "cancelled", "granted" }, got)
        assert.equal(3, client:stats().grants)
        assert.same({}, fixture.children(path))
        assert.equal(0, client:stats().entries)
    end)

    it("is not passed to an acquisition with handoff 0, even if another acquisition was abandoned before", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local holder, impatient = client:mutex(path, { linger = 60 }), client:mutex(path)
        local proud = client:mutex(path, { handoff = 0 })
        for _ = 1, 2 do
            assert(holder:acquire(10))
            assert(client:exists(path)) -- answered after the list that shows no other contender
            assert(holder:release())
        end
        assert(holder:acquire(10))
        fixture.assert_times_out(impatient, 0.05)
        loop.run(function()
            assert(proud:acquire(20))
            assert(proud:release())
        end, function()
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(hold_of(holder):release())
        end)
    end)

    it("is named in the message to waiters that time out", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local holder, waiter = client:mutex(path), client:mutex(path)
        assert(holder:acquire(10))
        local ok, problem, code = waiter:acquire(0.1)
        assert.is_nil(ok)
        assert.equal("timeout", code)
        assert.is_truthy(problem:find("is ahead", 1, true), problem)
        assert(holder:release())
    end)

    it("goes to other clients after a revocation request", function()
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
            assert(hold_of(holder):release())
        end)
        assert.same({ "remote", "local" }, order)
    end)

    it("goes with its client, also if acquisitions wait for it", function()
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
                assert.is_truthy(problem:find("handoff_spec", 1, true), problem)
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
