--- All clients of a semaphore use one limit. Impossible limits and counts are refused.

local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local mistake = require "spec.support.mistake"
local semaphores = require "spec.support.semaphores"

local NAN = 0 / 0

describe("different limits at one path", function()
    after_each(fixture.clean)

    local function assert_mismatch(path, theirs, mine, ok, message, code)
        assert.same({ nil, "mismatch" }, { ok, code }, message)
        assert.truthy(message:find(("'%s' was made for %d permits, not for %d"):format(path, theirs, mine), 1, true), message)
    end

    it("are answered with mismatch also by available() #asan", function()
        local path = fixture.path()
        local ten, two = fixture.semaphore(path, 10), fixture.semaphore(path, 2)
        assert.equal(2, two:available()) -- no client has written a limit yet
        assert(ten:acquire({ count = 9, timeout = 10 }))
        assert.equal(1, ten:available())
        assert_mismatch(path, 10, 2, two:available())
        assert_mismatch(path, 10, 11, fixture.semaphore(path, 11):available(5))
        assert.is_true(ten:release())
        assert_mismatch(path, 10, 2, two:available())
        for _, data in ipairs({ "", "hello", "0", "99999999999" }) do -- these data are not a limit
            fixture.observer():set(path .. "/leases", data)
            assert.equal(2, two:available())
        end
        fixture.observer():set(path .. "/leases", "002")
        assert.equal(2, two:available())
    end)

    it("are answered with mismatch, and the first limit counts #valgrind #asan", function()
        local path = fixture.path()
        local ten = fixture.semaphore(path, 10)
        local two, client = fixture.semaphore(path, 2)
        assert(ten:acquire({ count = 3, timeout = 10 }))
        assert.equal("10", (fixture.observer():get(path .. "/leases")))
        for _ = 1, 2 do
            assert_mismatch(path, 10, 2, two:acquire(10))
            assert_mismatch(path, 10, 2, two:acquire({ count = 2, timeout = 10 }))
        end
        assert(client:flush(10))
        semaphores.await_nodes(path, 3)
        assert.is_true(ten:held())
        assert.is_true(ten:release())
        assert_mismatch(path, 10, 2, two:try_acquire())
        assert_mismatch(path, 10, 2, fixture.semaphore(path, 2):try_acquire())
        assert_mismatch(path, 10, 9, fixture.semaphore(path, 9):acquire(10))
        assert_mismatch(path, 10, 11, client:semaphore(path, 11):acquire(10))
        assert_mismatch(path, 10, 2, two:with_lock(error, 10))
        semaphores.await_nodes(path, 0)
        assert(ten:acquire({ count = 10, timeout = 10 }))
        assert.is_true(ten:release())
        assert(client:semaphore(path, 10):acquire(10))
        semaphores.await_nodes(path, 1)
    end)

    it("are detected if both come at once: one wins, for as long as the directory exists", function()
        local path = fixture.path()
        local limits, functions, answered = {}, {}, 0
        for index = 1, 4 do
            local limit = index % 2 + 1
            local mine = fixture.semaphore(path, limit)
            functions[index] = function()
                local taken, message, code = mine:acquire(20)
                if taken then
                    local made = assert(fixture.observer():exists(path .. "/leases")).czxid
                    assert.equal(limits[made] or limit, limit)
                    limits[made] = limit
                    assert(mine:release())
                else
                    assert.equal("mismatch", code, message)
                end
                answered = answered + 1
            end
        end
        loop.run_all(functions)
        assert.equal(4, answered)
        semaphores.await_nodes(path, 0)
    end)

    it("may follow each other once the server has reaped the directory", function()
        local path = fixture.path()
        local ten = fixture.semaphore(path, 10)
        local two = fixture.semaphore(path, 2)
        assert(ten:acquire(10))
        assert.is_true(ten:release())
        assert_mismatch(path, 10, 2, two:acquire(10))
        semaphores.await_nodes(path, 0)
        assert(fixture.observer():delete(path .. "/leases")) -- like the server with an empty container
        assert(two:acquire(20))
        assert.equal("2", (fixture.observer():get(path .. "/leases")))
        assert_mismatch(path, 2, 10, ten:acquire(10))
    end)

    it("may follow each other if an administrator has written another limit", function()
        local path = fixture.path()
        local two, client = fixture.semaphore(path, 2)
        assert(two:acquire(10))
        assert.is_true(two:release())
        assert(fixture.observer():set(path .. "/leases", "3"))
        assert_mismatch(path, 3, 2, two:acquire(10))
        local three = client:semaphore(path, 3)
        assert(three:acquire({ count = 3, timeout = 10 }))
    end)

    it("do not exist if another program made the directory without a limit: the first client writes its limit", function()
        local path = fixture.path()
        assert(fixture.observer():create_all(path .. "/leases"))
        local two = fixture.semaphore(path, 2)
        assert(two:acquire({ count = 2, timeout = 10 }))
        assert.equal("2", (fixture.observer():get(path .. "/leases")))
        assert_mismatch(path, 2, 3, fixture.semaphore(path, 3):acquire(10))
        assert.is_true(two:release())
        assert(two:try_acquire())
    end)

    it("are not compared if the directory's data are something else, which stays unchanged", function()
        for index, data in ipairs({ "hello", "0", "-3", "2 permits", "99999999999", "0x2", ("9"):rep(3000) }) do
            local path = fixture.path()
            assert(fixture.observer():create_all(path))
            assert(fixture.observer():create(path .. "/leases", data))
            assert(fixture.semaphore(path, 2):acquire({ count = 2, timeout = 10 }), "data " .. index)
            assert(fixture.semaphore(path, 3):acquire(10))
            assert.equal(data, (fixture.observer():get(path .. "/leases")))
            fixture.clean()
        end
    end)
end)

describe("a semaphore refuses", function()
    local client

    setup(function()
        client = fixture.client()
    end)

    teardown(fixture.clean)

    local wrong = { ["zero"] = 0, ["a negative"] = -1, ["a fractional"] = 1.5, ["a huge"] = 2147483648,
        ["an infinite"] = math.huge, ["a NaN for a"] = NAN, ["a string for a"] = "3", ["a boolean for a"] = true,
        ["a table for a"] = {} }
    for title, value in pairs(wrong) do
        it(title .. " limit #valgrind #asan", function()
            mistake(function()
                client:semaphore("/a", value)
            end, "client:semaphore: permits must be a whole number from 1 to 2147483647")
        end)

        it(title .. " count", function()
            local mine = client:semaphore("/a", 2000)
            for _, method in ipairs({ "acquire", "try_acquire" }) do
                mistake(function()
                    mine[method](mine, { count = value })
                end, "lock:" .. method .. ": option 'count' must be a whole number from 1 to 1000")
            end
            mistake(function()
                mine:with_lock(print, { count = value })
            end, "lock:with_lock: option 'count' must")
        end)
    end

    it("a missing limit", function()
        mistake(function()
            client:semaphore("/a")
        end, "(got nil)")
    end)

    it("a count above its permits, or above one thousand", function()
        local few, many = client:semaphore("/a", 2), client:semaphore("/a", 5000)
        for _, method in ipairs({ "acquire", "try_acquire" }) do
            mistake(function()
                few[method](few, { count = 3 })
            end, "count must not be more than the semaphore's permits (3 of 2)")
            mistake(function()
                many[method](many, { count = 1001 })
            end, "from 1 to 1000")
        end
        mistake(function()
            few:with_lock(print, { count = 3 })
        end, "3 of 2")
    end)

    it("a count given as a number, which would be a timeout, and a timeout for a try", function()
        local mine = client:semaphore("/a", 2)
        mistake(function()
            mine:try_acquire(2)
        end, "lock:try_acquire: options must be a table (got 2)")
        mistake(function()
            mine:try_acquire({ timeout = 2 })
        end, "unknown option 'timeout' (known: callback, count, keep)")
        mistake(function()
            mine:acquire({ counts = 2 })
        end, "unknown option 'counts' (known: callback, count, keep, timeout)")
        mistake(function()
            client:mutex("/a"):acquire({ count = 1 })
        end, "unknown option 'count' (known: callback, keep, timeout)")
    end)

    it("a call with a dot instead of a colon", function()
        local mine = client:semaphore("/a", 2)
        for _, method in ipairs({ "permits", "available" }) do
            mistake(function()
                mine[method]()
            end, "semaphore:" .. method .. ": call it with a colon")
        end
        mistake(function()
            mine.acquire()
        end, "colon")
        mistake(function()
            mine:available(-1)
        end, "semaphore:available: timeout must be")
    end)

    it("all of that without writing anything", function()
        local path = fixture.path()
        local mine = client:semaphore(path, 2)
        pcall(mine.acquire, mine, { count = 3 })
        pcall(mine.with_lock, mine, nil)
        assert(client:flush(10))
        assert.is_nil((fixture.observer():exists(path)))
        assert(mine:acquire({ count = 2, timeout = 10 }))
        assert.is_true(mine:release())
    end)
end)
