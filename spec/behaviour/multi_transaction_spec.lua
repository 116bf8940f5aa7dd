--- A transaction of a multi is executed only while all of its locks are held.

local fixture = require "spec.support.fixture"
local multis = require "spec.support.multis"
local assert_refused = require "spec.support.refused"

after_each(fixture.clean)

describe("a transaction of a multi", function()
    --- Returns a case: a client, a node with the data "old" and its path, and a multi of three mutexes below that path.
    local function new_case(options)
        local case = { client = fixture.steady_client(options), path = fixture.directory(), paths = {} }
        assert(case.client:set(case.path, "old"))
        for index, name in ipairs({ "a", "b", "c" }) do
            case.paths[index] = case.path .. "/" .. name
        end
        case.all, case.locks = multis.of(case.client, case.paths)
        function case.data()
            return (fixture.observer():get(case.path))
        end
        return case
    end

    it("writes while all locks are held, and leaves its own checks out of the results #valgrind #asan", function()
        local case = new_case()
        assert(case.all:acquire(10))
        local results = assert(case.all:transaction():check():set(case.path, "new", 1):create(case.path .. "/n"):commit(10))
        assert.equal(2, #results)
        assert.equal(2, results[1].version)
        assert.equal(case.path .. "/n", results[2])
        assert.equal("new", case.data())
        assert.same({}, assert(case.all:transaction():commit(10)))
        assert_refused("no_node", 2, case.all:transaction():set(case.path, "newer"):delete(case.path .. "/no"):commit(10))
        assert_refused("bad_version", 1, case.all:transaction():check(case.path, 7):set(case.path, "newer"):commit(10))
        assert.equal("new", case.data())
        assert.is_true(case.all:held())
    end)

    for which = 1, 3 do
        it(("is refused by the server if another client has deleted the node of one lock (%d) #asan"):format(which), function()
            local case = new_case()
            assert(case.all:acquire(10))
            fixture.observer():delete(case.locks[which]:node())
            local message = assert_refused("lost", nil, case.all:transaction():set(case.path, "new"):commit(10))
            assert.truthy(message:find(case.paths[which] .. "/", 1, true), message)
            assert.truthy(message:find("nothing was written", 1, true), message)
            assert.equal("old", case.data())
        end)

        it(("is refused without a request if a lock is not held, or is held anew (%d)"):format(which), function()
            local case = new_case()
            assert(case.all:acquire(10))
            local transaction = case.all:transaction():set(case.path, "new")
            assert.is_true(case.locks[which]:release())
            local requests = fixture.sent(case.client)
            local message = assert_refused("not_held", nil, transaction:commit(10))
            assert.truthy(message:find(case.paths[which], 1, true), message)
            assert_refused("not_held", nil, case.all:transaction():set(case.path, "new"):commit(10))
            assert.equal(requests, fixture.sent(case.client))
            assert(case.locks[which]:acquire(10))
            assert_refused("not_held", nil, transaction:commit(10))
            assert.equal("old", case.data())
            assert(case.all:transaction():set(case.path, "new"):commit(10))
            assert.equal("new", case.data())
        end)
    end

    it("is refused once a lock is known to be lost, and names it", function()
        local case = new_case({ session_timeout = 12 })
        assert(case.all:acquire(10))
        local transaction = case.all:transaction():set(case.path, "new")
        fixture.observer():delete(case.locks[2]:node())
        fixture.await_not_held(case.locks[2])
        local requests = fixture.sent(case.client)
        local message = assert_refused("lost", nil, transaction:commit(10))
        assert.truthy(message:find(case.paths[2], 1, true), message)
        assert.equal(requests, fixture.sent(case.client))
        assert.equal("old", case.data())
    end)

    it("is refused before the multi was acquired, and after the client's close", function()
        local case = new_case()
        assert_refused("not_held", nil, case.all:transaction():set(case.path, "new"):commit(10))
        assert(case.all:acquire(10))
        local transaction = case.all:transaction():set(case.path, "new")
        assert(case.client:close())
        local code = select(3, transaction:commit(10))
        assert.is_true(code == "lost" or code == "closed", code)
        assert.equal("old", case.data())
    end)

    it("checks locks of every kind", function()
        local base = fixture.directory()
        local client = fixture.steady_client()
        local members = {
            client:rwlock(base .. "/a").read, client:rwlock(base .. "/b").write, client:semaphore(base .. "/c", 2),
            client:mutex(base .. "/d")
        }
        local all = client:multi(members)
        for which = 1, 4 do
            assert(all:acquire(20))
            assert(all:transaction():set(base, "held"):commit(10))
            fixture.observer():delete(members[which]:node())
            assert_refused("lost", nil, all:transaction():set(base, "lost"):commit(10))
            assert.equal("held", (fixture.observer():get(base)))
            all:release()
        end
    end)
end)
