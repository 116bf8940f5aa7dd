--- A mutex is held by one contender at a time, and passes on in the order of the queue.

local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"

after_each(fixture.clean)

describe("a mutex", function()
    it("is held by one contender, which is alone in the list #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path(), { identity = "me" })
        assert(lock:acquire(10))
        assert.is_true(lock:held())
        local list = assert(lock:contenders())
        assert.equal(1, #list)
        assert.same({ lock:node(), "me", "exclusive", 0, true },
            { list[1].node, list[1].identity, list[1].mode, list[1].sequence, list[1].holder })
        assert.equal("zklock mutex (" .. lock:path() .. ", held)", tostring(lock))
        assert.is_true(lock:release())
        assert.is_false(lock:held())
        assert.is_nil(lock:node())
        assert.is_nil(lock:token())
        assert.equal(0, lock:remaining())
        assert.same({}, lock:contenders())
        assert.same({}, fixture.children(lock:path()))
    end)

    it("names the timeout, as it was given, when its contenders could not be listed in time", function()
        local client, link = fixture.client_behind_proxy()
        local semaphore = client:semaphore(fixture.path(), 2)
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        link:stall("down") -- otherwise the answer could come at once
        for _, call in ipairs({
            function() return lock:contenders(0) end, function() return lock:revoke(0) end,
            function() return semaphore:contenders(0) end, function() return semaphore:available(0) end,
            function() return semaphore:revoke(0) end, function() return client:rwlock(lock:path()):contenders(0) end
        }) do
            local answer, message, code = call()
            assert.same({ nil, "timeout" }, { answer, code })
            assert.truthy(message:find("did not finish within 0 s$"), message)
        end
        link:resume()
    end)

    it("lists its contenders for as long as it takes if asked to, but ends when its client is closed", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 4 })
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        assert.equal(1, #lock:contenders(math.huge))
        assert.equal(1, (lock:revoke(math.huge)))
        assert.is_true(lock:release())
        local before = client:stats().connections
        link:refuse()
        link:cut()
        local answers = {}
        loop.run(function()
            answers[1] = { lock:contenders(math.huge) }
        end, function()
            answers[2] = { lock:contenders() } -- waits for the session timeout
            link:accept()
        end)
        assert.same({}, answers[1][1])
        assert.equal("disconnected", answers[2][3])
        assert.is_true(client:stats().connections > before)
        link:refuse()
        link:cut()
        loop.run(function()
            answers[3] = { lock:contenders(math.huge) }
        end, function()
            answers[4] = { lock:revoke(math.huge) }
        end, function()
            client:close()
        end)
        assert.same({ "closed", "closed" }, { answers[3][3], answers[4][3] })
    end)

    it("lists no contenders while its path does not exist", function()
        local lock = fixture.mutex(fixture.path())
        assert.same({}, lock:contenders())
        assert.is_nil((fixture.observer():exists(lock:path())))
    end)

    it("lists its contenders in queue order, with the holder first", function()
        local path = fixture.path()
        local names = { "first", "second", "third" }
        local functions, list = {}, nil
        for index, name in ipairs(names) do
            local lock = fixture.mutex(path, { identity = name })
            functions[index] = function()
                fixture.until_children(path, index - 1)
                assert(lock:acquire(20))
                if index == 1 then
                    fixture.until_children(path, 3)
                    list = assert(lock:contenders(10))
                end
                assert(lock:release())
            end
        end
        loop.run_all(functions)
        for index, name in ipairs(names) do
            assert.equal(name, list[index].identity)
            assert.equal(index == 1, list[index].holder)
            assert.is_true(index == 1 or list[index].sequence > list[index - 1].sequence)
        end
        assert.equal(3, #list)
    end)

    it("serves five contenders in arrival order, with growing tokens #asan", function()
        local path = fixture.path()
        local served, tokens, functions = {}, {}, {}
        local blocker = fixture.join(path)
        for index = 1, 5 do
            local lock = fixture.mutex(path)
            functions[index] = function()
                fixture.until_children(path, index)
                assert(lock:acquire(30))
                served[#served + 1] = index
                tokens[#tokens + 1] = lock:token()
                assert(lock:release())
            end
        end
        functions[6] = function()
            fixture.until_children(path, 6)
            fixture.observer():delete(blocker)
        end
        loop.run_all(functions)
        assert.same({ 1, 2, 3, 4, 5 }, served)
        for index = 2, 5 do
            assert.is_true(tokens[index - 1] < tokens[index])
        end
        fixture.await_children(path, 0)
    end)

    it("is held by one of two objects of one client at a time #valgrind #asan", function()
        local first, client = fixture.mutex(fixture.path())
        local second = client:mutex(first:path())
        assert(first:acquire(10))
        assert.equal("timeout", select(3, second:try_acquire()))
        fixture.assert_times_out(second, 0.1)
        assert.is_true(first:held())
        assert.is_true(first:release())
        assert(second:acquire(10))
        assert.equal("timeout", select(3, first:try_acquire()))
    end)

    it("is handed over between two objects of one client", function()
        local first, client = fixture.mutex(fixture.path(), { handoff = 0 })
        local second = client:mutex(first:path(), { handoff = 0 })
        local order = {}
        loop.run(function()
            assert(first:acquire(10))
            fixture.until_children(first:path(), 2)
            order[#order + 1] = "first"
            assert(first:release())
        end, function()
            loop.until_true(function()
                return hold_of(first):held()
            end)
            assert(second:acquire(10))
            assert.is_false(hold_of(first):held())
            order[#order + 1] = "second"
            assert(second:release())
        end)
        assert.same({ "first", "second" }, order)
    end)

    it("can be acquired again after its release, any number of times, with growing tokens #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path())
        local last = ""
        for _ = 1, 10 do
            assert(lock:acquire(10))
            assert.is_true(lock:token() > last)
            assert.truthy(lock:token():match("^%d+%-%d+$"))
            assert.equal(30, #lock:token())
            last = lock:token()
            assert.is_true(lock:release())
        end
        assert.same({}, fixture.children(lock:path()))
    end)

    it("may be released by another coroutine than the one that acquired it, by its hold", function()
        local lock, held = fixture.mutex(fixture.path()), nil
        loop.run(function()
            held = assert(lock:acquire(10))
        end, function()
            loop.until_true(function()
                return held
            end)
            assert.is_false(lock:held())
            local ok, message, code = lock:release()
            assert.same({ nil, "not_held" }, { ok, code })
            assert.truthy(message:find("call it of the hold that acquire returned", 1, true), message)
            assert.is_true(held:release())
            assert.equal("not_held", select(3, held:release()))
        end)
        assert.same({}, fixture.children(lock:path()))
    end)

    it("answers not_held to a release without a hold, and to a second release #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path())
        local ok, message, code = lock:release()
        assert.same({ nil, "not_held" }, { ok, code })
        assert.truthy(message:find(lock:path(), 1, true))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(10))
    end)

    it("is released before the server's acknowledgement if asked not to wait, and becomes free all the same", function()
        local lock, client = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.is_true(lock:release({ wait = false }))
        assert.is_false(lock:held())
        assert(client:flush(10))
        assert.same({}, fixture.children(lock:path()))
        local optimistic = client:mutex(lock:path(), { wait_release = false })
        for _ = 1, 5 do
            assert(optimistic:acquire(10))
            assert.is_true(optimistic:release())
        end
        assert(client:flush(10))
        assert.same({}, fixture.children(lock:path()))
    end)

    it("is released when the program forgets it while holding #valgrind #asan", function()
        local path = fixture.path()
        local client = fixture.client({ session_timeout = 30 })
        do
            assert(client:mutex(path):acquire(10))
        end
        fixture.collect()
        fixture.await_children(path, 0)
        assert(client:mutex(path):try_acquire())
    end)

    it("is free for other clients at once when its client closes #asan", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
        local other = fixture.mutex(lock:path())
        assert(lock:acquire(10))
        assert.is_true(client:close())
        assert.is_false(lock:held())
        assert(other:try_acquire())
    end)

    it("answers a waiter whose client is closed during the wait", function()
        local lock, client = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local answer
        loop.run(function()
            answer = { lock:acquire(20) }
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.is_true(client:close())
        end)
        assert.equal("closed", answer[3])
        assert.equal(1, #fixture.children(lock:path()))
    end)
end)

describe("a second acquire of the same object", function()
    it("answers deadlock at once, and the lock stays held #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        local ok, message, code = lock:acquire()
        assert.same({ nil, "deadlock" }, { ok, code })
        assert.truthy(message:find(lock:path(), 1, true))
        assert.equal("deadlock", select(3, lock:try_acquire()))
        assert.is_true(lock:held())
        assert.is_true(lock:release())
        assert.is_false(lock:held())
    end)

    it("counts if the lock is reentrant: three levels deep, held until the last release #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path(), { reentrant = true })
        local other = fixture.mutex(lock:path())
        assert(lock:acquire(10))
        local token = lock:token()
        assert(lock:acquire())
        assert(lock:try_acquire())
        assert.equal(token, lock:token())
        assert.equal(1, #fixture.children(lock:path()))
        for _ = 1, 2 do
            assert.same({ n = 1, true }, compat.pack(lock:release()))
            assert.is_true(lock:held())
            assert.equal("timeout", select(3, other:try_acquire()))
        end
        assert.is_true(lock:release())
        assert.is_false(lock:held())
        assert(other:try_acquire())
        assert.equal("not_held", select(3, lock:release()))
    end)
end)

describe("three hundred locks of one client", function()
    -- These are more locks than a new client's tables have room for, and more nodes than one heartbeat request checks.
    it("are all held; a lock whose node is deleted is lost, and no other lock", function()
        local client = fixture.client({ session_timeout = 30 })
        local path = fixture.path()
        local locks, meddled = {}, { [1] = true, [128] = true, [257] = true, [300] = true }
        for index = 1, 300 do
            locks[index] = client:mutex(("%s/%d"):format(path, index))
            assert(locks[index]:acquire(20))
        end
        local sent = fixture.sent(client)
        for index = 1, 300 do -- the client knows all of them without a request
            assert.equal("timeout", select(3, client:mutex(locks[index]:path()):try_acquire()))
        end
        assert.equal(sent, fixture.sent(client))
        for index in pairs(meddled) do
            assert(fixture.observer():delete(locks[index]:node()))
        end
        eventually(function()
            for index in pairs(meddled) do
                if locks[index]:held() then
                    return false, index
                end
            end
            return true
        end)
        for index = 1, 300 do
            assert.equal(not meddled[index], locks[index]:held(), index)
        end
    end)
end)
