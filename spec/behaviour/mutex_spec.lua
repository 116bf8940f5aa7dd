--- What a mutex promises while nothing breaks, and what it does about those who meddle with its nodes.

local socket = require "socket"
local cluster = require "spec.support.cluster"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local zk = require "spec.support.zk"

describe("a mutex", function()
    after_each(fixture.clean)

    it("is held by one, who is alone in the list #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path(), { identity = "me" })
        assert.equal(lock, lock:acquire(10))
        assert.is_true(lock:held())
        local list = assert(lock:contenders())
        assert.equal(1, #list)
        assert.same({ node = lock:node(), identity = "me", mode = "exclusive", sequence = 0, holder = true }, list[1])
        assert.equal("zklock mutex (" .. lock:path() .. ", held)", tostring(lock))
        assert.is_true(lock:release())
        assert.is_false(lock:held())
        assert.is_nil(lock:node())
        assert.is_nil(lock:token())
        assert.equal(0, lock:remaining())
        assert.same({}, lock:contenders())
        assert.same({}, fixture.children(lock:path()))
    end)

    it("says within which time it could not be looked at, as it was given", function()
        local client, link = fixture.client_behind_proxy()
        local semaphore = client:semaphore(fixture.path(), 2)
        local lock = client:mutex(fixture.path())
        assert(lock:acquire(10))
        link:stall("down") -- or an answer might be there within no time
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

    it("is looked at for as long as it takes when told so, and not without end when its client is closed", function()
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
            answers[2] = { lock:contenders() } -- for the session timeout
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

    it("has nobody in its list while its path does not exist", function()
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

    it("excludes two objects of one client from each other #valgrind #asan", function()
        local first, client = fixture.mutex(fixture.path())
        local second = client:mutex(first:path())
        assert(first:acquire(10))
        assert.equal("timeout", select(3, second:try_acquire()))
        assert.equal("timeout", select(3, second:acquire(0.1)))
        assert.is_true(first:held())
        assert.is_true(first:release())
        assert(second:acquire(10))
        assert.equal("timeout", select(3, first:try_acquire()))
    end)

    it("hands over between two objects of one client", function()
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
                return first:held()
            end)
            assert(second:acquire(10))
            assert.is_false(first:held())
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

    it("may be released by another coroutine than the one that acquired it", function()
        local lock = fixture.mutex(fixture.path())
        loop.run(function()
            assert(lock:acquire(10))
        end, function()
            loop.until_true(function()
                return lock:held()
            end)
            assert.is_true(lock:release())
        end)
        assert.is_false(lock:held())
        assert.same({}, fixture.children(lock:path()))
    end)

    it("says not_held at a release of what is not held, and at a second release #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path())
        local ok, message, code = lock:release()
        assert.same({ nil, "not_held" }, { ok, code })
        assert.truthy(message:find(lock:path(), 1, true))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(10))
    end)

    it("returns before the server's acknowledgement when told not to wait, and is free all the same", function()
        local lock, client = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.is_true(lock:release({ wait = false }))
        assert.is_false(lock:held())
        assert(client:flush(10))
        assert.same({}, fixture.children(lock:path()))
        local hasty = client:mutex(lock:path(), { wait_release = false })
        for _ = 1, 5 do
            assert(hasty:acquire(10))
            assert.is_true(hasty:release())
        end
        assert(client:flush(10))
        assert.same({}, fixture.children(lock:path()))
    end)

    it("is given up when the program forgets it while holding #valgrind #asan", function()
        local path = fixture.path()
        local client = fixture.client({ session_timeout = 30 })
        do
            assert(client:mutex(path):acquire(10))
        end
        fixture.collect()
        fixture.await_children(path, 0)
        assert(client:mutex(path):try_acquire())
    end)

    it("is free at once for others when its client closes #asan", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
        local other = fixture.mutex(lock:path())
        assert(lock:acquire(10))
        assert.is_true(client:close())
        assert.is_false(lock:held())
        assert(other:try_acquire())
    end)

    it("tells a waiter whose client is closed under it", function()
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

describe("a try", function()
    after_each(fixture.clean)

    it("takes a lock that is free #valgrind #asan", function()
        local lock = fixture.mutex(fixture.path())
        assert.equal(lock, lock:try_acquire())
        assert.is_true(lock:release())
        assert.equal(lock, lock:acquire(0))
        assert.is_true(lock:release())
        assert.equal(lock, lock:acquire({ timeout = 0 }))
    end)

    it("is refused while somebody holds the lock, having written nothing #asan", function()
        local lock, client = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local before = fixture.observer():exists(lock:path())
        for _ = 1, 3 do
            local ok, message, code = lock:try_acquire()
            assert.same({ nil, "timeout" }, { ok, code })
            assert.truthy(message:find(lock:path(), 1, true))
        end
        assert(client:flush(10))
        assert.same(before, (fixture.observer():exists(lock:path())))
    end)

    it("is refused by a waiter of its own client as well", function()
        local lock, client = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(20))
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.equal("timeout", select(3, client:mutex(lock:path()):try_acquire()))
            fixture.observer():delete(holder)
        end)
    end)

    it("succeeds for exactly one of twenty", function()
        local path = fixture.path()
        local clients, functions, codes = {}, {}, {}
        for index = 1, 4 do
            clients[index] = fixture.client({ wait = loop })
        end
        for index = 1, 20 do
            local lock = clients[index % 4 + 1]:mutex(path)
            functions[index] = function()
                local _, _, code = lock:try_acquire()
                codes[code or "ok"] = (codes[code or "ok"] or 0) + 1
                loop.until_true(function()
                    return (codes.ok or 0) + (codes.timeout or 0) == 20 -- the lock object is kept until all have tried
                end)
                assert.equal(code == nil, lock:held())
            end
        end
        loop.run_all(functions)
        assert.same({ ok = 1, timeout = 19 }, codes)
        fixture.await_children(path, 1)
    end)
end)

describe("a timeout", function()
    after_each(fixture.clean)

    it("comes in time, says where, and leaves nothing behind #valgrind #asan", function()
        local lock, client = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        local before = socket.gettime()
        local ok, message, code = lock:acquire(0.3)
        local seconds = socket.gettime() - before
        assert.same({ nil, "timeout" }, { ok, code })
        assert.truthy(message:find(lock:path(), 1, true), message)
        assert.truthy(message:find("0.3 s", 1, true), message)
        assert.is_true(seconds >= 0.29 and seconds < 3, seconds)
        assert(client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
        assert.is_false(fixture.is_watched(lock:path()))
        fixture.observer():delete(holder)
        assert(lock:acquire(10))
    end)

    it("of an earlier contender does not keep the later ones waiting", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local impatient, patient = fixture.mutex(path), fixture.mutex(path)
        local codes = {}
        loop.run(function()
            codes[1] = select(3, impatient:acquire(1))
            fixture.observer():delete(holder)
        end, function()
            fixture.until_children(path, 2)
            assert(patient:acquire(20))
        end)
        assert.same({ "timeout" }, codes)
        assert.is_true(patient:held())
    end)

    it("leaves a hundred times nothing behind: no node, no watch, no seat", function()
        local lock, client = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        for _ = 1, 100 do
            assert.equal("timeout", select(3, lock:acquire(0.002)))
        end
        assert(client:flush(20))
        assert.equal(1, #fixture.children(lock:path()))
        assert.is_false(fixture.is_watched(holder))
        assert.equal(0, client:stats().seats)
        assert.equal(0, client:stats().watches)
    end)
end)

describe("cancel", function()
    after_each(fixture.clean)

    it("ends the wait of another coroutine, and leaves nothing behind #asan", function()
        local lock, client = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local answer
        loop.run(function()
            answer = { lock:acquire(20) }
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.is_true(lock:cancel())
        end)
        assert.is_nil(answer[1])
        assert.equal("cancelled", answer[3])
        assert(client:flush(10))
        assert.equal(1, #fixture.children(lock:path()))
        assert.is_false(fixture.is_watched(lock:path()))
    end)

    it("ends a wait that has not yet come to the server", function()
        local lock = fixture.mutex(fixture.path())
        fixture.join(lock:path())
        local answer
        loop.run(function()
            answer = { lock:acquire(20) }
        end, function()
            assert.is_true(lock:cancel())
        end)
        assert.equal("cancelled", answer[3])
        fixture.await_children(lock:path(), 1)
    end)

    it("before acquiring does nothing to the acquire that follows #valgrind", function()
        local lock = fixture.mutex(fixture.path())
        assert.is_false(lock:cancel())
        assert(lock:acquire(10))
    end)

    it("after acquiring does nothing to the hold", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.is_false(lock:cancel())
        assert.is_true(lock:held())
        assert.is_true(lock:release())
    end)

    it("leaves the object ready for the next acquire", function()
        local lock = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert.equal("cancelled", select(3, lock:acquire(20)))
            fixture.observer():delete(holder)
            assert(lock:acquire(20))
        end, function()
            fixture.until_children(lock:path(), 2)
            assert.is_true(lock:cancel())
        end)
        assert.is_true(lock:held())
    end)

    it("of a waiter in the middle leaves the order of the others alone", function()
        local path = fixture.path()
        local holder = fixture.join(path)
        local locks = { fixture.mutex(path), fixture.mutex(path), fixture.mutex(path) }
        local served = {}
        local functions = {}
        for index, lock in ipairs(locks) do
            functions[index] = function()
                fixture.until_children(path, index)
                if lock:acquire(20) then
                    served[#served + 1] = index
                    assert(lock:release())
                end
            end
        end
        functions[4] = function()
            fixture.until_children(path, 4)
            locks[2]:cancel()
            fixture.until_children(path, 3)
            assert.same({}, served)
            fixture.observer():delete(holder)
        end
        loop.run_all(functions)
        assert.same({ 1, 3 }, served)
    end)
end)

describe("a second acquire of the same object", function()
    after_each(fixture.clean)

    it("says deadlock at once, and the lock stays held #valgrind #asan", function()
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

    it("counts when the lock is reentrant: three deep, held until the last release #valgrind #asan", function()
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

describe("who comes after himself", function()
    after_each(fixture.clean)

    --- A client whose latest number came right after its own.
    local function regular(path)
        local lock, client = fixture.mutex(path, nil, { session_timeout = 30 })
        for _ = 1, 3 do
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end
        return lock, client
    end

    local function requests_of(client, fn)
        local before = fixture.sent(client)
        fn()
        return fixture.sent(client) - before
    end

    it("needs no list: a cycle takes two requests #valgrind #asan", function()
        local lock, client = regular(fixture.path())
        eventually(function() -- where no second passes between a release and the next acquire
            local sent = requests_of(client, function()
                for _ = 1, 10 do
                    assert(lock:acquire(10))
                    assert.is_true(lock:release())
                end
            end)
            return sent == 20, sent
        end)
    end)

    it("needs none either when the client has written much elsewhere in between", function()
        local client = fixture.loop_client({ session_timeout = 30 })
        eventually(function() -- where no second passes between a release and the next acquire
            local locks = {}
            for index = 1, 4 do
                locks[index] = client:mutex(fixture.path())
            end
            local function round()
                for _, lock in ipairs(locks) do
                    assert(lock:acquire(10))
                    assert.is_true(lock:release())
                end
            end
            local least = math.huge
            for _ = 1, 7 do -- with more rounds the numbers would be large enough without that
                least = math.min(least, requests_of(client, round))
            end
            return least == 2 * #locks, least
        end)
    end)

    it("looks again when others have come between #asan", function()
        local path = fixture.path()
        local lock, client = regular(path)
        local other = fixture.mutex(path)
        assert(other:acquire(10))
        assert.is_true(other:release())
        assert.equal(3, requests_of(client, function()
            assert(lock:acquire(10))
            assert.is_true(lock:release())
        end))
        assert(other:acquire(10))
        local _, _, code = lock:acquire(0.1)
        assert.equal("timeout", code)
        assert.is_true(other:release())
        assert.is_true(lock:with_lock(function() end, 10))
    end)

    it("is not misled by a directory that was made anew, where that very number is the next", function()
        local path = fixture.path()
        local lock = regular(path)                      -- had the numbers 0, 1 and 2
        fixture.observer():delete(path)
        local holder = fixture.mutex(path)
        for _ = 1, 3 do                                 -- 0, 1 and 2 again; the last of them holds
            if holder:held() then
                assert.is_true(holder:release())
            end
            assert(holder:acquire(10))
        end
        local taken, _, code = lock:acquire(0.1)        -- gets 3
        assert.is_nil(taken)
        assert.equal("timeout", code)
        assert.is_true(holder:held())
    end)
end)

describe("who takes turns with the same others", function()
    after_each(fixture.clean)

    --- So many contenders of one path, each with a client of its own.
    local function circle(count)
        local path, locks = fixture.directory(), {}
        for index = 1, count do
            locks[index] = fixture.mutex(path, nil, { session_timeout = 30 })
        end
        return path, locks
    end

    --- Each takes so many turns, and nobody releases before all the others are in line again, so that they keep their order; then
    -- each does `afterwards(index)`. Returns the fewest requests that a turn took, of those after the third.
    local function take_turns(path, locks, turns, afterwards)
        local least, functions = math.huge, {}
        for index, lock in ipairs(locks) do
            functions[index] = function()
                local before = 0
                fixture.until_children(path, index - 1) -- one after the other, the first time
                for turn = 1, turns do
                    assert(lock:acquire(20))
                    if turn < turns or afterwards then
                        fixture.until_children(path, #locks)
                    end
                    assert(lock:release())
                    local sent = fixture.sent(lock._client)
                    least = turn > 3 and turn < turns and math.min(least, sent - before) or least
                    before = sent
                end
                if afterwards then
                    afterwards(index)
                end
            end
        end
        loop.run_all(functions)
        return least
    end

    it("need not list the line to find whom to wait for #valgrind #asan", function()
        for count, requests in pairs({ [2] = 3, [3] = 4 }) do
            eventually(function() -- where no second passes without a list
                local path, locks = circle(count)
                local least = take_turns(path, locks, 7)
                return least == requests, ("%d requests with %d"):format(least, count)
            end)
        end
    end)

    it("does not take the end of the one before it for its own turn #asan", function()
        local path, locks = circle(3)
        local order = {}
        take_turns(path, locks, 5, function(index)
            local lock = locks[index]
            local held, _, code = lock:acquire(20)
            order[#order + 1] = held and index or code
            if #order == 1 then
                fixture.until_children(path, 3)
                local third = locks[(index + 1) % 3 + 1]._client
                loop.until_true(function()
                    return third:stats().watches == 1
                end)
                local sent = fixture.sent(third)
                locks[index % 3 + 1]:cancel()           -- is right before the third
                loop.until_true(function()
                    return #order == 2 and fixture.sent(third) == sent + 2 and third:stats().watches == 1
                end)
                assert.same({ index, "cancelled" }, order)
            end
            if held then
                assert(lock:release())
            end
        end)
        assert.equal(3, #order)
        assert.equal(6, order[1] + order[3] + (order[1] % 3 + 1))
    end)

    it("looks who is there when the one before it has stayed away #valgrind #asan", function()
        local path, locks = circle(2)
        take_turns(path, locks, 5)
        for _ = 1, 2 do
            for _, lock in ipairs(locks) do -- each where the other has been, and is not now
                assert(lock:acquire(10))
                assert.equal(1, #fixture.children(path))
                assert.is_true(lock:release())
                fixture.assert_nothing_left(lock._client)
            end
        end
    end)
end)

describe("a lock's path", function()
    after_each(fixture.clean)

    it("is made where it does not exist, several levels of it #asan", function()
        local base = fixture.directory()
        local lock = fixture.mutex(base .. "/one/two/three")
        assert(lock:acquire(10))
        assert.equal(1, #fixture.children(base .. "/one/two/three"))
    end)

    it("may exist already, as any node", function()
        local lock = fixture.mutex(fixture.directory())
        assert(lock:acquire(10))
    end)

    it("may hold any characters that ZooKeeper allows", function()
        local base = fixture.directory()
        for _, name in ipairs({ "with blank", "ä-ö-ü", "lock-0000000001", "-lock-", "a.b", "...", "%d" }) do
            local lock = fixture.mutex(base .. "/" .. name)
            assert(lock:acquire(10))
            assert.equal(lock:node(), lock:contenders(10)[1].node)
            assert.is_true(lock:release())
        end
    end)

    it("may be as long as is allowed, of every kind of lock, and be listed and revoked", function()
        local client = fixture.client()
        local path = fixture.path() .. "/"
        path = path .. ("x"):rep(32768 - #path)
        local rwlock = client:rwlock(path)
        for _, lock in ipairs({ client:mutex(path), rwlock.write, client:semaphore(path, 2) }) do
            assert(lock:acquire(20))
            assert.equal(1, #assert(lock:contenders(20)))
            assert.equal(1, (assert(lock:revoke(20))))
            if lock == rwlock.write then
                assert(rwlock.read:acquire(20))
                assert(rwlock.read:release())
            end
            assert.is_true(lock:release())
        end
        assert.equal(2, client:semaphore(path, 2):available(20))
        assert.equal(1, client:stats().connections)
    end)

    it("may be reaped between two uses; tokens grow nevertheless", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        local token = lock:token()
        assert.is_true(lock:release())
        assert(fixture.observer():delete_recursive(lock:path()))
        assert(lock:acquire(10))
        assert.is_true(lock:token() > token)
    end)

    it("may be made anew by somebody else between two uses", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        local token = lock:token()
        assert.is_true(lock:release())
        assert(fixture.observer():delete_recursive(lock:path()))
        assert(fixture.observer():create(lock:path(), "not a container"))
        assert(lock:acquire(10))
        assert.is_true(lock:token() > token)
    end)

    it("is reaped by the server after its last use", function()
        local server = cluster.start({ reap = 100 })
        finally(function()
            fixture.clean()
            server:stop()
        end)
        local lock = fixture.client(nil, server.servers):mutex("/shop/stock")
        assert(lock:acquire(20))
        assert.is_true(lock:release())
        local observer = assert(zk.connect(server.servers))
        eventually(function()
            return not observer:exists("/shop")
        end, 20)
        observer:close()
    end)
end)

describe("an ACL", function()
    after_each(fixture.clean)

    local AUTH = { { scheme = "digest", credential = "user:password" } }

    it("of open lets anybody look and delete", function()
        local lock = fixture.mutex(fixture.path())
        assert(lock:acquire(10))
        assert.truthy(fixture.observer():get(lock:node()))
        assert.is_true(fixture.observer():delete(lock:node()))
    end)

    it("of creator is on the node and on the parents that were made #asan", function()
        local base = fixture.directory()
        local lock = fixture.mutex(base .. "/parent/lock", nil, { auth = AUTH, acl = "creator" })
        assert(lock:acquire(10))
        local observer = fixture.observer()
        assert.equal("no_auth", select(2, observer:get(lock:node())))
        assert.equal("no_auth", select(2, observer:children(base .. "/parent/lock")))
        assert.equal("no_auth", select(2, observer:create(base .. "/parent/lock/x")))
        assert.equal("no_auth", select(2, observer:create(base .. "/parent/x")))
        assert.truthy(lock:contenders(10)[1].holder)
    end)

    it("of read lets anybody look, and nobody delete", function()
        local lock = fixture.mutex(fixture.path(), { acl = "read" }, { auth = AUTH })
        local _, message, code = lock:acquire(10)
        if code then
            -- With the parent readable only, not even its maker may create in it: said clearly, then.
            assert.equal("no_auth", code, message)
        else
            assert.truthy(fixture.observer():get(lock:node()))
            assert.equal("no_auth", select(2, fixture.observer():create(lock:path() .. "/x")))
        end
    end)

    it("may be a list", function()
        local lock = fixture.mutex(fixture.path(), { acl = {
            { scheme = "auth", id = "", perms = 31 }, { scheme = "world", id = "anyone", perms = "r" }
        } }, { auth = AUTH })
        assert(lock:acquire(10))
        assert.truthy(fixture.observer():get(lock:node()))
        assert.equal("no_auth", select(2, fixture.observer():create(lock:path() .. "/x")))
    end)

    it("that lets us create but not delete is answered with no_auth by release, and the node goes with the client", function()
        local client = fixture.client({ session_timeout = 30 })
        local path = fixture.path() .. "/kept"
        local lock = client:mutex(path, { acl = { { scheme = "world", id = "anyone", perms = "rcwa" } } })
        assert(lock:acquire(20))
        local released, message, code = lock:release()
        assert.is_nil(released)
        assert.equal("no_auth", code)
        assert.truthy(message:find("refuses to delete", 1, true), message)
        assert.is_false(lock:held())
        assert.equal(1, #fixture.children(path))
        client:close()
        fixture.await_children(path, 0)
    end)

    it("that keeps us out is answered with no_auth, naming the path, and leaves nothing behind #asan", function()
        local owner = fixture.mutex(fixture.path(), nil, { auth = AUTH, acl = "creator" })
        assert(owner:acquire(10))
        assert.is_true(owner:release())
        local stranger = fixture.mutex(owner:path(), nil,
            { auth = { { scheme = "digest", credential = "user:wrong" } } })
        for _, timeout in ipairs({ 10, 0 }) do
            local ok, message, code = stranger:acquire(timeout)
            assert.same({ nil, "no_auth" }, { ok, code })
            assert.truthy(message:find(owner:path(), 1, true), message)
        end
        assert.equal("no_auth", select(3, stranger:contenders(10)))
        assert(owner:try_acquire())
        assert.equal(1, #owner:contenders(10))
    end)
end)

describe("three hundred locks of one client", function()
    after_each(fixture.clean)

    -- More than the tables of a new client have room for, and more than one request of the heartbeat checks.
    it("are all held; whose node is deleted is lost, and no other", function()
        local client = fixture.client({ session_timeout = 30 })
        local path = fixture.path()
        local locks, meddled = {}, { [1] = true, [128] = true, [257] = true, [300] = true }
        for index = 1, 300 do
            locks[index] = client:mutex(("%s/%d"):format(path, index))
            assert(locks[index]:acquire(20))
        end
        local sent = fixture.sent(client)
        for index = 1, 300 do -- the client knows all of them, without asking
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

describe("when somebody meddles, a mutex", function()
    after_each(fixture.clean)

    it("tells the holder when its node is deleted by an administrator #valgrind #asan", function()
        local told
        local lock = fixture.mutex(fixture.path(), { on_lost = function(...)
            told = { ... }
        end }, { session_timeout = 8 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.pump_until(lock._client, function()
            return told
        end)
        assert.is_false(lock:held())
        assert.is_nil(lock:token())
        assert.equal(lock, told[1])
        assert.equal("lost", told[2])
        assert.truthy(told[3]:find("somebody deleted its node", 1, true), told[3])
        assert.equal("zklock mutex (" .. lock:path() .. ", lost)", tostring(lock))
    end)

    -- A simulated schedule with two claims of one client: whoever waited behind the node was told of its end, and had the lock,
    -- while whoever held by it believed in it until the next heartbeat.
    it("does not let two of one client hold because an administrator deleted the node between them #asan", function()
        local path, client = fixture.directory(), fixture.loop_client({ session_timeout = 30 })
        local first, second = client:mutex(path, { handoff = 0 }), client:mutex(path, { handoff = 0 })
        assert(first:acquire(10))
        loop.run_all({
            function()
                assert(second:acquire(20))
                assert.is_false(first:held())
                assert.is_true(second:held())
            end,
            function()
                fixture.until_watched(first:node())
                assert(fixture.observer():delete(first:node()))
            end
        })
        assert.equal("lost", select(3, first:release()))
    end)

    it("answers lost to the release of what an administrator deleted, once, and can be used again #asan", function()
        local lock = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        local ok, message, code = lock:release()
        assert.same({ nil, "lost" }, { ok, code })
        assert.truthy(message:find(lock:path(), 1, true))
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
    end)

    it("can be acquired again after a loss that nobody released", function()
        local lock = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        assert(lock:acquire(10))
        local token = lock:token()
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        assert(lock:acquire(10))
        assert.is_true(lock:token() > token)
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("tells on_lost of each loss once, also when a release or an acquire finds it first", function()
        local told = 0
        local lock, client = fixture.mutex(fixture.path(), { on_lost = function(lock)
            told = told + 1
            assert.is_false(lock:held())
        end }, { session_timeout = 4 })
        for index, finder in ipairs({ lock.release, lock.acquire }) do
            assert(lock:acquire(10))
            assert(fixture.observer():delete(lock:node()))
            fixture.await_not_held(lock)
            assert.equal(index - 1, told)
            finder(lock)
            assert.equal(index, told)
            client:pump()
            assert.equal(index, told)
        end
        assert.is_true(lock:held())
    end)

    it("lets on_lost acquire anew, and then says deadlock to the acquire that found the loss", function()
        local lock = fixture.mutex(fixture.path(), { on_lost = function(lock)
            assert(lock:acquire(10))
        end }, { session_timeout = 4 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        assert.equal("deadlock", select(3, lock:acquire(10)))
        assert.is_true(lock:held())
        assert.equal(1, #fixture.children(lock:path()))
    end)

    it("tells a reentrant holder of its loss at the next acquire, once", function()
        local lock = fixture.mutex(fixture.path(), { reentrant = true }, { session_timeout = 4 })
        assert(lock:acquire(10))
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        fixture.await_not_held(lock)
        assert.equal("lost", select(3, lock:acquire(10)))
        assert.equal("not_held", select(3, lock:release()))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        assert.is_false(lock:held())
    end)

    it("answers lost to a release just behind the deletion of its node, of which nobody has heard yet", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete(lock:node()))
        assert.equal("lost", select(3, lock:release()))
        assert(client:flush(10))
        assert(lock:acquire(10))
    end)

    it("joins again when its waiting node is deleted, and leaves no orphan #asan", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 4 })
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_children(lock:path(), 2)
            local waiting
            for _, name in ipairs(fixture.children(lock:path())) do
                local node = lock:path() .. "/" .. name
                waiting = node ~= holder and node or waiting
            end
            assert(fixture.observer():delete(waiting))
            loop.until_true(function()
                return fixture.has(lock:path(), 2) and not fixture.observer():exists(waiting)
            end)
            fixture.observer():delete(holder)
        end)
        assert.is_true(lock:held())
        assert.is_true(lock:release())
        assert(client:flush(10))
        assert.same({}, fixture.children(lock:path()))
    end)

    -- Where names are numbers alone, the first node of the new directory has the name of the old one's.
    it("deletes nobody else's node when its directory was made anew while it held", function()
        local lock, client = fixture.mutex(fixture.path(), nil, { session_timeout = 30 })
        assert(lock:acquire(10))
        assert(fixture.observer():delete_recursive(lock:path()))
        local theirs = fixture.join(lock:path())
        assert.equal(lock:node():match("%d+$"), theirs:match("%d+$"))
        lock:release()
        assert(client:flush(10))
        assert.same({ theirs:match("[^/]+$") }, fixture.children(lock:path()))
        assert.equal("timeout", select(3, lock:try_acquire()))
    end)

    it("goes on waiting when its predecessor goes without having held", function()
        local lock = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        local predecessor = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            fixture.until_watched(predecessor)
            assert.is_false(fixture.is_watched(holder))
            fixture.observer():delete(predecessor)
            fixture.until_watched(holder)
            assert.equal("zklock mutex (" .. lock:path() .. ", being acquired)", tostring(lock))
            fixture.observer():delete(holder)
        end)
        assert.is_true(lock:held())
    end)

    it("goes on waiting when somebody writes into the node that it watches", function()
        local lock = fixture.mutex(fixture.path())
        local holder = fixture.join(lock:path())
        loop.run(function()
            assert(lock:acquire(30))
        end, function()
            for _ = 1, 3 do
                fixture.until_watched(holder)
                assert.truthy(fixture.observer():set(holder, "__REVOKE__"))
            end
            fixture.until_watched(holder)
            assert.equal("zklock mutex (" .. lock:path() .. ", being acquired)", tostring(lock))
            fixture.observer():delete(holder)
        end)
        assert.is_true(lock:held())
    end)

    it("ignores children that belong to no lock #asan", function()
        local lock = fixture.mutex(fixture.directory())
        local observer = fixture.observer()
        for _, name in ipairs({ "0", "lock", "config", "-", "lock-", "x-1-abc", "_c_-lock-", "99999999999", "ä" }) do
            assert(observer:create(lock:path() .. "/" .. name))
        end
        assert(lock:acquire(10))
        assert.equal(1, #lock:contenders(10))
        assert.is_true(lock:release())
    end)

    local HEX = ("0123456789abcdef"):rep(2)
    local foreign = {
        ["Curator's mutex"] = "_c_" .. fixture.UUID .. "-lock-",
        ["Curator's reader"] = "_c_" .. fixture.UUID .. "-__READ__",
        ["Curator's writer"] = "_c_" .. fixture.UUID .. "-__WRIT__",
        ["go-zookeeper"] = "_c_" .. HEX .. "-lock-",
        ["kazoo's lock"] = HEX .. "__lock__",
        ["kazoo's reader"] = HEX .. "__rlock__",
        ["zk-ruby's lock"] = "ex",
        ["zk-ruby's reader"] = "sh",
        ["the C recipe"] = "x-72057594037927936-"
    }
    for who, prefix in pairs(foreign) do
        it("waits for " .. who, function()
            local lock = fixture.mutex(fixture.path())
            local holder = fixture.join(lock:path(), prefix, who)
            assert.equal("timeout", select(3, lock:try_acquire()))
            local list = lock:contenders(10)
            assert.equal(who, list[1].identity)
            assert.is_true(list[1].holder)
            loop.run(function()
                assert(lock:acquire(20))
            end, function()
                fixture.until_children(lock:path(), 2)
                fixture.observer():delete(holder)
            end)
            assert.is_true(lock:held())
        end)
    end
end)

describe("near the end of the sequence numbers, a mutex", function()
    local servers
    local LIMIT = 2147483647 - 65536

    setup(function()
        servers = cluster.start({ seed = {
            ["/half"] = 1073741824 + 5, ["/before"] = LIMIT - 3, ["/limit"] = LIMIT, ["/end"] = 2147483646,
            ["/past"] = -2147483648
        } })
    end)

    teardown(function()
        servers:stop()
    end)

    after_each(fixture.clean)

    it("warns from the half on, and works", function()
        local warned
        local client = fixture.client({ log = function(level, message)
            warned = warned or level == "warn" and message:find("/half", 1, true)
        end }, servers.servers)
        local lock = client:mutex("/half")
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        fixture.pump_until(client, function()
            return warned
        end)
    end)

    it("works up to the limit and then says exhausted", function()
        local client = fixture.client(nil, servers.servers)
        local lock = client:mutex("/before")
        assert(lock:acquire(10))
        assert.is_true(lock:release())
        local code
        for _ = 1, 5 do
            code = select(3, lock:acquire(10))
            if code then
                break
            end
            assert.is_true(lock:release())
        end
        assert.equal("exhausted", code)
    end)

    --- A lock, and in its line a node of its client's that nobody knows any more.
    local function with_stray()
        local path, client = fixture.directory(), fixture.client()
        local lock = client:mutex(path)
        assert(lock:acquire(10))
        local stem = lock:node():match("/_c_(%x+%-%x+%-%x+%-%x+%-)")
        assert.is_true(lock:release())
        return path, lock, assert(fixture.observer():create(path .. "/_c_" .. stem .. "ffffffffffff-lock-", "",
            { sequential = true }))
    end

    -- In a fault campaign servers lost deletions with a damaged log. The nodes came back, at the head of the line; their owner
    -- looked for such nodes right before its own only, and others stood between: nobody got the lock while all of them lived.
    it("removes a node of its own that came back, also when others wait between", function()
        local path, lock, stray = with_stray()
        local observer = fixture.observer()
        local between = fixture.join(path, "_c_" .. fixture.UUID .. "-lock-")
        eventually(function()
            assert.equal("timeout", (select(3, lock:acquire(1))))
            return not observer:exists(stray)
        end)
        assert(observer:exists(between))
        assert(observer:delete(between))
        assert(lock:acquire(10))
        assert.is_true(lock:release())
    end)

    it("removes such a node also by a try that it makes fail", function()
        local _, lock, stray = with_stray()
        assert.equal("timeout", (select(3, lock:try_acquire())))
        eventually(function()
            return not fixture.observer():exists(stray)
        end)
        assert(lock:try_acquire())
        assert.is_true(lock:release())
    end)

    -- A fault campaign made servers forget what they had acknowledged (ZOOKEEPER-4785); the refusal then spoke of numbers that
    -- were used up, and the number was 2.
    it("refuses a number that the servers have given twice, and says that it is so", function()
        local path = fixture.directory()
        assert(fixture.observer():create(path .. "/_c_" .. fixture.UUID .. "-lock-0000000001"))
        local client = fixture.client()
        local ok, message, code = client:mutex(path):acquire(10)
        assert.same({ nil, "exhausted" }, { ok, code })
        assert.truthy(message:find("another node of '" .. path .. "' has the sequence number 1 too", 1, true), message)
        assert(client:flush(10))
        assert.equal(0, client:stats().seats)
    end)

    for _, path in ipairs({ "/limit", "/end", "/past" }) do
        it("says exhausted at " .. path:sub(2) .. ", names the path and leaves nothing behind", function()
            local client = fixture.client(nil, servers.servers)
            for _, timeout in ipairs({ 10, 0 }) do
                local ok, message, code = client:mutex(path):acquire(timeout)
                assert.same({ nil, "exhausted" }, { ok, code })
                assert.truthy(message:find(path, 1, true), message)
            end
            assert(client:flush(10))
            assert.equal(0, client:stats().seats)
            assert.same({}, client:mutex(path):contenders(10))
        end)
    end
end)
