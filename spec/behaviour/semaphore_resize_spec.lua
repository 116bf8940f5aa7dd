--- The number of a semaphore's permits is changed while it is used.

local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"

after_each(fixture.clean)

--- Returns so many holds of one permit, each of an own client that names `limit` permits.
local function take(path, limit, count)
    local holds = {}
    for index = 1, count do
        holds[index] = assert(fixture.semaphore(path, limit):acquire(20))
    end
    return holds
end

describe("a semaphore that gets more permits", function()
    it("gives them out at once, to who has waited, whatever number programs name #asan #valgrind", function()
        local path = fixture.path()
        local holds = take(path, 2, 2)
        local waiting, other = fixture.semaphore(path, 2), fixture.semaphore(path, 2)
        loop.run(function()
            holds[3] = assert(waiting:acquire(20))
        end, function()
            fixture.until_children(path .. "/locks", 1)
            assert.is_true(other:resize(3))
        end)
        assert.equal(3, other:permits())
        assert.equal(0, other:available())
        for _, limit in ipairs { 2, 3, 7 } do -- the number that was made, the present one, and any other
            assert.equal("timeout", (select(3, fixture.semaphore(path, limit):try_acquire())))
        end
        assert.is_true(holds[1]:release())
        fixture.await_children(path .. "/leases", 3) -- the other two, and the mark
        assert(fixture.semaphore(path, 7):try_acquire())
    end)

    it("gives all of them to waiters that could not have had them before", function()
        local path = fixture.path()
        local first = fixture.semaphore(path, 4)
        assert(first:acquire({ count = 3, timeout = 20 }))
        local many, other = fixture.semaphore(path, 4), fixture.semaphore(path, 4)
        local got
        loop.run(function()
            got = assert(many:acquire({ count = 4, timeout = 20 }))
        end, function()
            fixture.until_children(path .. "/locks", 1)
            assert.is_true(other:resize(5))
            assert.is_true(other:resize(7))
        end)
        assert.is_true(got:held())
        assert.equal(0, other:available())
    end)
end)

describe("a semaphore that gets fewer permits", function()
    it("leaves holders what they have, and gives none out until there is room", function()
        local path = fixture.path()
        local holds = take(path, 3, 3)
        local other, waiting = fixture.semaphore(path, 3), fixture.semaphore(path, 3)
        assert.is_true(other:resize(1))
        for _, hold in ipairs(holds) do
            assert.is_true(hold:held())
        end
        assert.equal(0, other:available())
        local left, granted = 3, nil
        loop.run(function()
            assert(waiting:acquire(20))
            granted = left
        end, function()
            fixture.until_children(path .. "/locks", 1)
            for _, hold in ipairs(holds) do
                left = left - 1
                assert.is_true(hold:release({ wait = true }))
                fixture.pass(20)
            end
        end)
        assert.equal(0, granted)
    end)

    it("refuses who wants more than there are, also those that wait already", function()
        local path = fixture.path()
        local holds = take(path, 3, 1)
        local many, other = fixture.semaphore(path, 3), fixture.semaphore(path, 3)
        local ok, message, code
        loop.run(function()
            ok, message, code = many:acquire({ count = 3, timeout = 20 })
        end, function()
            fixture.until_children(path .. "/locks", 1)
            assert.is_true(other:resize(2))
        end)
        assert.same({ nil, "mismatch" }, { ok, code })
        assert.truthy(message:find("has only 2 permits now, not 3", 1, true), message)
        assert.equal("mismatch", (select(3, many:try_acquire({ count = 3 }))))
        assert(many:acquire({ count = 1, timeout = 20 }))
        assert.is_true(holds[1]:held())
    end)
end)

describe("the number of a resize", function()
    it("stays when nobody uses the semaphore, and the servers remove what is empty", function()
        local path = fixture.path()
        local first = fixture.semaphore(path, 1)
        assert.is_true(first:with_lock(function() return true end, 20))
        assert.is_true(first:resize(2))
        fixture.await_children(path .. "/leases", 1)
        assert.same({ "resized" }, fixture.children(path .. "/leases"))
        local holds = take(path, 1, 2)
        assert.equal("timeout", (select(3, fixture.semaphore(path, 1):try_acquire())))
        assert.is_true(holds[1]:held() and holds[2]:held())
    end)

    it("can be written before the semaphore is used", function()
        local path = fixture.path() .. "/not/there"
        assert.is_true(fixture.semaphore(path, 1):resize(2))
        local holds = take(path, 1, 2)
        assert.equal(0, fixture.semaphore(path, 1):available())
        assert.is_true(holds[1]:release({ wait = true }))
        assert.is_true(fixture.semaphore(path, 9):resize(1))
        assert.equal("timeout", (select(3, fixture.semaphore(path, 1):try_acquire())))
    end)

    it("can be written first where only a directory above may be written, as acquire can", function()
        local base = fixture.path()
        local owner = fixture.client { auth = { { scheme = "digest", credential = "owner:secret" } } }
        local closed = { { scheme = "auth", id = "", perms = "rcwda" }, { scheme = "world", id = "anyone", perms = "r" } }
        assert(owner:create(base, "", { acl = closed }))
        assert(owner:create(base .. "/open", "", { acl = "open" }))
        assert(fixture.semaphore(base .. "/open/acquired", 1):acquire(20))
        assert.is_true(fixture.semaphore(base .. "/open/not/there", 1):resize(2))
        take(base .. "/open/not/there", 1, 2)
        assert.is_true(fixture.semaphore(base .. "/open", 1):resize(2))
        assert.equal("no_auth", (select(3, fixture.semaphore(base .. "/not/there", 1):resize(2))))
    end)

    it("can be written by several programs at the same time: one of their numbers counts", function()
        local path = fixture.path()
        local functions = {}
        for index = 1, 4 do
            functions[index] = function()
                assert.is_true(fixture.semaphore(path, 1):resize(index))
            end
        end
        loop.run_all(functions)
        local permits = tonumber((fixture.observer():get(path .. "/leases")))
        assert.is_true(permits >= 1 and permits <= 4)
        local holds = take(path, 1, permits)
        assert.equal("timeout", (select(3, fixture.semaphore(path, 1):try_acquire())))
        assert.is_true(holds[permits]:held())
    end)

    it("must be one that a semaphore can have", function()
        local semaphore = fixture.semaphore(fixture.path(), 2)
        for _, wrong in ipairs { 0, -1, 1.5, "3" } do
            mistake(function()
                semaphore:resize(wrong)
            end, "semaphore:resize: permits must be a whole number from 1 to 2147483647")
        end
        mistake(function()
            semaphore:resize(2, -1)
        end, "semaphore:resize: timeout must be")
    end)

    it("is answered with disconnected or timeout if it may or may not count", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local semaphore = client:semaphore(fixture.path(), 2)
        assert.is_true(semaphore:resize(3))
        link:arm("multi", "after")
        assert.equal("disconnected", (select(3, semaphore:resize(4))))
        link:wait_fired()
        assert.equal(3, semaphore:permits())
    end)
end)
