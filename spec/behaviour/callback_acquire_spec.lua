--- Acquisitions by callback: acquire returns at once, and the pump calls the callback once, when the answer is there.

local hold_of = require "spec.support.hold_of"
local callbacks = require "spec.support.callbacks"
local compat = require "spec.support.compat"
local coroutines = require "spec.support.coroutines"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local is_virtual = require "spec.support.is_virtual"
local kinds = require "spec.support.kinds"
local loop = require "spec.support.loop"
local socket = require "socket"
local takes = require "spec.support.takes"
local zklock = require "zklock"

local await, collect, idle = callbacks.await, callbacks.collect, callbacks.idle
local run_for = callbacks.run_for

--- A client of a program that never waits.
local function new_client(options)
    options = options or {}
    options.wait = options.wait or "blocking"
    options.session_timeout = options.session_timeout or 30
    return fixture.client(options)
end

--- Returns the code in an answer, after checking that it is one of a failure.
local function code_of(answer)
    assert.is_nil(answer[1])
    assert.equal("string", type(answer[2]))
    return answer[3]
end

after_each(fixture.clean)

for _, kind in ipairs(kinds) do
    describe("an acquisition by callback, of a " .. kind.name .. ",", function()
        it("gets the lock from the pump, never from within acquire, and once", function()
            local client, path = new_client(), fixture.path()
            local lock, answers, callback = kind.new(client, path), collect()
            for _ = 1, 2 do -- for the second time the directory, and maybe the node, is there
                local asked = assert(lock:acquire { timeout = 20, callback = callback })
                assert.same({}, answers)
                assert.equal("zklock call (acquire, pending)", tostring(asked))
                local answer = await(client, answers, 1)
                assert.equal(1, answer.n == 3 and answer[2] == nil and answer[3] == nil and 1 or answer.n)
                local held = answer[1]
                assert.is_true(held:held())
                assert.is_true(hold_of(lock):held())
                assert.truthy(held:token())
                assert.equal("zklock call (acquire, answered)", tostring(asked))
                assert.is_false(asked:cancel())
                idle(client, 25) -- beyond the deadline
                assert.equal(1, #answers)
                assert.is_true(held:held())
                assert(held:release())
                assert.is_false(lock:held())
                answers[1] = nil
            end
            assert.same({}, fixture.children(kinds.holders(kind, path)))
        end)

        it("calls back also if the lock is granted at once, without a request", function()
            local client, path = new_client(), fixture.path()
            if kind.name == "semaphore" then
                return
            end
            local lock, answers, callback = kind.new(client, path, { linger = 60 }), collect()
            assert(lock:with_lock(function() end, 5))
            assert(client:flush(20))
            local sent = fixture.sent(client)
            assert(lock:acquire { callback = callback })
            assert.same({}, answers)
            assert.is_true(await(client, answers, 1)[1]:held())
            assert.equal(sent, fixture.sent(client))
            assert(answers[1][1]:release())
        end)

        it("waits for the present holder, and gets the code timeout exactly when the time is up", function()
            local client, path = new_client(), fixture.path()
            local lock, answers, callback = kind.new(client, path), collect()
            local rival = kinds.new_rival(kind, path)
            assert(rival:acquire(20))
            takes(2.5, function()
                assert(lock:acquire { timeout = 2.5, callback = callback })
                assert.equal("timeout", code_of(await(client, answers, 1)))
            end)
            assert.truthy(answers[1][2]:find("within 2.5 s: ", 1, true), answers[1][2])
            assert(client:flush(20))
            assert(lock:acquire { timeout = 10, callback = callback })
            idle(client, 3)
            assert.equal(1, #answers)
            assert(rival:release())
            assert.is_true(await(client, answers, 2)[1]:held())
        end)

        it("ends at its deadline although the program does not pump, and leaves no node", function()
            local client, path = new_client(), fixture.path()
            local lock, answers, callback = kind.new(client, path), collect()
            local rival = kinds.new_rival(kind, path)
            assert(rival:acquire(20))
            assert(lock:acquire { timeout = 1, callback = callback })
            socket.sleep(2)
            assert(rival:release())
            local other = kinds.new_rival(kind, path)
            assert(other:acquire(20)) -- nothing is ahead any more
            assert.equal("timeout", code_of(await(client, answers, 1)))
        end)

        it("with timeout 0 tries, and writes nothing if it is refused", function()
            local client, path = new_client(), fixture.path()
            local lock, answers, callback = kind.new(client, path), collect()
            local rival = kinds.new_rival(kind, path)
            assert(rival:acquire(20))
            assert(lock:acquire { timeout = 0, callback = callback })
            assert.same({}, answers)
            assert.equal("timeout", code_of(await(client, answers, 1)))
            assert(lock:try_acquire { callback = callback })
            assert.equal("timeout", code_of(await(client, answers, 2)))
            assert(rival:release())
            assert(lock:try_acquire { callback = callback })
            assert.is_true(await(client, answers, 3)[1]:held())
        end)

        it("is ended by call:cancel, and by lock:cancel: code cancelled, from the pump #asan #valgrind", function()
            local client, path = new_client(), fixture.path()
            local lock, answers, callback = kind.new(client, path), collect()
            local rival = kinds.new_rival(kind, path)
            assert(rival:acquire(20))
            local first = assert(lock:acquire { callback = callback })
            local second = assert(lock:acquire { callback = callback, timeout = 20 })
            idle(client, 1)
            assert.is_true(first:cancel())
            assert.is_false(first:cancel())
            assert.same({}, answers)
            assert.equal("cancelled", code_of(await(client, answers, 1)))
            assert.is_true(lock:cancel())
            assert.equal("cancelled", code_of(await(client, answers, 2)))
            assert.is_false(second:cancel())
            assert.is_false(lock:cancel())
            assert(client:flush(20))
            idle(client, 30)
            assert.equal(2, #answers)
        end)

        it("gets the code closed when the client is closed, and afterwards acquire itself answers closed", function()
            local client, path = new_client(), fixture.path()
            local lock, answers, callback = kind.new(client, path), collect()
            local rival = kinds.new_rival(kind, path)
            assert(rival:acquire(20))
            assert(lock:acquire { timeout = 20, callback = callback })
            idle(client, 1)
            assert(client:close())
            assert.equal("closed", code_of(answers[1]))
            local asked, message, code = lock:acquire { callback = callback }
            assert.is_nil(asked)
            assert.equal("the client is closed", message)
            assert.equal("closed", code)
            client:pump()
            assert.equal(1, #answers)
        end)

        it("gets the code disconnected without a connection when the time is up", function()
            local client, link = fixture.client_behind_proxy { wait = "blocking", session_timeout = 30 }
            local lock, answers, callback = kind.new(client, fixture.path()), collect()
            fixture.cut_off(client, link)
            takes(3, function()
                assert(lock:acquire { timeout = 3, callback = callback })
                assert.equal("disconnected", code_of(await(client, answers, 1)))
            end)
            assert(lock:acquire { timeout = 0, callback = callback })
            assert.equal("disconnected", code_of(await(client, answers, 2)))
            link:accept()
            assert(lock:acquire { timeout = 20, callback = callback })
            assert.is_true(await(client, answers, 3)[1]:held())
        end)

        it("is told of its loss by on_lost", function()
            local client, path, lost = new_client(), fixture.path(), {}
            local lock = kind.new(client, path, { on_lost = function(which, reason)
                lost[#lost + 1] = { which, reason }
            end })
            local answers, callback = collect()
            assert(lock:acquire { callback = callback })
            assert(lock:acquire { callback = callback, timeout = 0 }) -- readers hold together, by another lock
            local held = await(client, answers, 2)[1] or answers[1][1]
            for _, answer in ipairs(answers) do
                held = answer[1] or held
            end
            assert(fixture.observer():delete(held:node()))
            callbacks.run(client, function()
                return lost[1]
            end)
            assert.equal("lost", lost[1][2])
            assert.is_false(lost[1][1]:held())
            idle(client, 3)
            assert.is_true(#lost <= 2)
        end)
    end)
end

describe("acquisitions by callback", function()
    it("by one object queue behind each other, from one coroutine, also of a reentrant lock", function()
        for _, options in ipairs { {}, { reentrant = true } } do
            local client = new_client()
            local lock, order = client:mutex(fixture.path(), options), {}
            for index = 1, 20 do
                assert(lock:acquire { callback = function(held, message)
                    assert(held, message)
                    order[#order + 1] = index
                    assert.is_true(held:held())
                    assert(held:release())
                end })
            end
            callbacks.run(client, function()
                return #order == 20
            end)
            for index = 1, 20 do
                assert.equal(index, order[index])
            end
        end
    end)

    it("hold while the program keeps only the object, or only the lock that the callback got", function()
        local client, path = new_client(), fixture.path()
        local semaphore, answers, callback = client:semaphore(path, 3), collect()
        for _ = 1, 3 do
            semaphore:acquire { callback = callback }
        end
        await(client, answers, 3)
        while answers[1] do
            answers[#answers] = nil
        end
        collectgarbage()
        collectgarbage()
        assert(client:flush(20))
        assert.equal(3, #fixture.children(path .. "/leases"))
        semaphore = nil -- luacheck: ignore
        collectgarbage()
        collectgarbage()
        assert(client:flush(20))
        assert.equal(0, #fixture.children(path .. "/leases"))

        local lock = client:mutex(fixture.path())
        lock:acquire { callback = callback }
        local held = await(client, answers, 1)[1]
        answers[1], lock = nil, nil -- luacheck: ignore
        collectgarbage()
        collectgarbage()
        idle(client, 1)
        assert.is_true(held:held())
    end)

    it("take several permits together, and each callback has its own", function()
        local client = new_client()
        local semaphore, answers, callback = client:semaphore(fixture.path(), 5), collect()
        assert(semaphore:acquire { count = 2, callback = callback })
        assert(semaphore:acquire { count = 3, callback = callback })
        assert(semaphore:acquire { count = 1, timeout = 1, callback = callback })
        local last = await(client, answers, 3)
        assert.equal("timeout", code_of(last))
        assert.not_equal(answers[1][1], answers[2][1])
        assert(answers[1][1]:release())
        assert.is_true(answers[2][1]:held())
        assert.equal(2, semaphore:available(5))
    end)

    it("and coroutines wait for each other by one object", function()
        local client = fixture.loop_client({}, 30)
        local lock, answers, callback = client:mutex(fixture.path()), collect()
        loop.run(function()
            assert(lock:acquire { callback = callback })
            assert.equal("timeout", select(3, lock:acquire(10))) -- its wait runs the pump
            assert.is_true(answers[1][1]:held())
            assert.is_false(lock:held()) -- this coroutine has asked, and does not hold
            assert.equal("not_held", select(3, lock:release()))
            assert(answers[1][1]:release())
            assert(lock:acquire(20))
            assert(lock:acquire { callback = callback })
            assert.equal("deadlock", select(3, lock:acquire(1)))
            assert(lock:release())
            assert(client:flush(20)) -- its wait runs the pump, too
            client:pump()
            assert.is_true(answers[2][1]:held())
        end)
    end)

    it("in a program that blocks, do not let it wait for the lock that its own callback has", function()
        local client = new_client()
        local lock, answers, callback = client:mutex(fixture.path()), collect()
        assert(lock:acquire { callback = callback })
        await(client, answers, 1)
        assert.equal("deadlock", select(3, lock:acquire(5)))
        assert(answers[1][1]:release())
        assert(lock:acquire(5))
    end)

    it("are called although the program blocks for another lock", function()
        local client = new_client()
        local lock, answers, callback = client:mutex(fixture.path()), collect()
        assert(lock:acquire { callback = callback })
        assert(client:mutex(fixture.path()):acquire(20))
        assert(client:flush(20))
        client:pump()
        assert.is_true(answers[1][1]:held())
    end)

    it("may acquire, release and acquire by callback in a callback; its errors are reported, and are raised nowhere", function()
        local log = {}
        local client = new_client { log = function(level, message)
            log[#log + 1] = level .. ": " .. message
        end }
        local lock, answers, callback = client:mutex(fixture.path()), collect()
        assert(lock:acquire { callback = function(held)
            assert(held:release())
            assert(lock:acquire { callback = callback })
            assert.same({}, answers)
            error("broken on purpose")
        end })
        assert.is_true(await(client, answers, 1)[1]:held())
        local found = 0
        for _, line in ipairs(log) do
            found = found + (line:find("^error: the callback of acquire raised: .*broken on purpose") and 1 or 0)
        end
        assert.equal(1, found)
    end)

    it("has its error reported, and the pump goes on, whatever the error is", function()
        local log = {}
        local client = new_client { log = function(level, message)
            log[#log + 1] = level == "error" and message or nil
        end }
        local lock, odd = client:mutex(fixture.path()), setmetatable({}, { __tostring = function() return {} end })
        for _, problem in ipairs { odd, false } do
            local count = #log
            local asked = assert(lock:acquire { callback = function(held)
                assert(held:release())
                error(problem)
            end })
            callbacks.run(client, function()
                return #log > count
            end)
            assert.truthy(tostring(asked):find "answered")
        end
        assert.same({
            "the callback of acquire raised: an error that has no text", "the callback of acquire raised: false"
        }, log)
    end)

    it("hold until the callback ends, or longer with keep, where holds belong to owners, although the owner lives on", function()
        local owner, told = {}, {}
        local client = new_client { wait = setmetatable({ owner = function()
            return owner
        end }, { __index = require "zklock.adapters.blocking" }), log = function(_, text)
            told[#told + 1] = text
        end }
        local path, begun, lock = fixture.path(), 0, nil
        local function asked(settings, fn)
            begun = begun + 1
            local number = begun
            settings.callback = function(held)
                assert.is_true(held:held())
                begun = begun + 1
                return fn and fn(held)
            end
            lock = client:mutex(path)
            assert(lock:acquire(settings))
            callbacks.run(client, function()
                return begun == number + 1
            end)
            assert(client:flush(20))
            return #fixture.children(path)
        end
        assert.equal(0, asked {})
        assert.equal(0, asked({}, function()
            error("broken on purpose", 0)
        end))
        assert.equal("the callback of acquire raised: broken on purpose", told[#told])
        local kept
        assert.equal(1, asked({}, function(held)
            assert(held:release())
            kept = assert(lock:acquire(20)) -- the owner's, not the callback's
        end))
        assert(kept:release())
        assert.equal(1, asked({ keep = true }, function(held)
            kept = held
        end))
        assert(kept:release())
        assert.same({}, fixture.children(path))
    end)

    it("answer lost if on_revoke gives the lock back at once, and max_hold ends the hold", function()
        local client, lost = new_client(), {}
        local lock = client:mutex(fixture.path(), { max_hold = 2, on_lost = function(_, reason)
            lost[#lost + 1] = reason
        end })
        local answers, callback = collect()
        takes(2, function() -- from before the grant, at which max_hold begins
            assert(lock:acquire { callback = callback })
            await(client, answers, 1)
            callbacks.run(client, function()
                return lost[1]
            end)
        end)
        assert.same({ "max_hold" }, lost)
    end)

    it("survive the end of the session: the waiter queues again", function()
        local client, link = fixture.client_behind_proxy { wait = "blocking", session_timeout = 4 }
        local path = fixture.path()
        local lock, answers, callback = client:mutex(path), collect()
        local rival = fixture.mutex(path, nil, { session_timeout = 30 })
        assert(rival:acquire(20))
        assert(lock:acquire { timeout = 60, callback = callback })
        run_for(client, 1)
        link:stall()
        run_for(client, 10)
        link:resume()
        run_for(client, 5)
        assert.same({}, answers)
        assert(rival:release())
        assert.is_true(await(client, answers, 1)[1]:held())
    end)

    it("many at once: each callback once, and each deadline in its turn #asan #valgrind", function()
        local client, path = new_client(), fixture.path()
        local rival = fixture.mutex(path)
        assert(rival:acquire(20))
        local lock, ended = client:mutex(path), {}
        for index = 1, 50 do -- the deadlines are not in order
            local seconds = 1 + (index * 7) % 50 / 10
            assert(lock:acquire { timeout = seconds, callback = function(_, _, code)
                ended[#ended + 1] = { seconds, code }
            end })
        end
        callbacks.run(client, function()
            return #ended == 50
        end)
        for index = 1, 50 do
            assert.equal("timeout", ended[index][2])
            if is_virtual and index > 1 then
                assert.is_true(ended[index - 1][1] <= ended[index][1])
            end
        end
        idle(client, 1)
        assert.equal(50, #ended)
    end)

    it("do not keep a pump from returning, nor the state from being told, although each callback acquires again", function()
        local client, calls, states = new_client(), 0, 0
        client:on("state", function()
            states = states + 1
        end)
        local function acquire(lock)
            lock:acquire { timeout = 20, callback = function(hold)
                calls = calls + 1
                if hold and calls < 20000 then
                    hold:release { wait = false }
                    acquire(lock)
                end
            end }
        end
        local path = fixture.path()
        for index = 1, 150 do -- more than one pump passes on
            acquire(client:mutex(path .. "-" .. index, { linger = 20 }))
        end
        callbacks.run(client, function()
            return calls >= 1000
        end)
        local before = calls
        client:pump()
        assert.is_true(calls - before <= 32, calls - before)
        client:desk().core:close()
        callbacks.run(client, function()
            return states > 0
        end)
        assert.is_true(calls < 20000, calls)
    end)

    it("that take their time do not keep the program's loop out: a pump returns after the first", function()
        local client, path, calls = new_client(), fixture.path(), 0
        local locks = {}
        for index = 1, 20 do
            locks[index] = client:mutex(path .. "-" .. index, { linger = 20 })
            assert(locks[index]:acquire(20)):release()
        end
        for _, lock in ipairs(locks) do
            lock:acquire { callback = function(hold)
                assert(hold)
                calls = calls + 1
                socket.sleep(0.02)
            end }
        end
        for expected = 1, 20 do
            assert.is_true(client:pump())
            assert.equal(expected, calls)
        end
    end)

    it("that wait in their callbacks are all called in a program that blocks, however many are due at once #asan", function()
        local client, path = new_client(), fixture.path()
        local ended, depth, deepest, problems = 0, 0, 0, {}
        local function callback(hold, message)
            depth = depth + 1
            deepest = math.max(deepest, depth)
            local released
            if hold then
                released, message = hold:release()
            end
            problems[#problems + 1] = not released and message or nil
            ended, depth = ended + 1, depth - 1
        end
        for index = 1, 300 do
            assert(client:mutex(path .. "-" .. index):acquire { timeout = 20, callback = callback })
        end
        local other = new_client()
        repeat -- without a pump of the first client
            assert(other:exists("/"))
        until client:stats().grants == 300
        callbacks.run(client, function()
            return ended == 300
        end)
        assert.same({}, problems)
        assert.is_true(deepest > 1 and deepest <= 8, deepest)
    end)

    it("are refused where they cannot be: in with_lock, and for a multi", function()
        local client = new_client()
        local function nothing()
        end
        local lock = client:mutex(fixture.path())
        for _, call in ipairs {
            function() lock:with_lock(nothing, { callback = nothing }) end,
            function() client:rwlock(fixture.path()):with_read(nothing, { callback = nothing }) end,
            function() client:multi { lock }:acquire { callback = nothing } end,
            function() client:multi { lock }:with_lock(nothing, { callback = nothing }) end
        } do
            local ok, problem = pcall(call)
            assert.is_false(ok)
            assert.truthy(problem:find("unknown option 'callback' (known: keep, ", 1, true), problem)
        end
    end)

    it("do not delay the others at a deadline if a callback yields in a coroutine of the adapter", function()
        if not compat.PCALL_YIELDS then
            return
        end
        local adapter = {}
        for name, fn in pairs(loop) do
            adapter[name] = fn
        end
        local threads = {}
        function adapter.spawn(fn)
            local thread = coroutine.create(fn)
            threads[#threads + 1] = thread
            assert(coroutine.resume(thread))
        end
        local client = fixture.client { wait = adapter, session_timeout = 30 }
        local first, answers, callback = client:mutex(fixture.path()), collect()
        assert(first:acquire { callback = function(held)
            coroutine.yield()
            assert.is_true(held:held())
            callback("resumed")
        end })
        assert(client:mutex(fixture.path()):acquire { callback = callback })
        assert.is_true(await(client, answers, 1)[1]:held())
        assert(coroutine.resume(threads[1]))
        assert.equal("resumed", answers[2][1])
    end)

    it("end with a client to which the program no longer refers, without a call of the callback", function()
        local path, called = fixture.path(), 0
        local rival = fixture.mutex(path)
        assert(rival:acquire(20))
        do
            local client = assert(zklock.connect(fixture.servers(), { wait = "blocking", connect_timeout = 20 }))
            local lock = client:mutex(path)
            assert(lock:acquire { callback = function() called = called + 1 end })
            assert(lock:acquire { callback = function() called = called + 1 end, timeout = 1 })
            assert(client:flush(20))
        end
        fixture.await_children(path, 2)
        eventually(function()
            collectgarbage()
            return fixture.has(path, 1)
        end)
        assert.equal(0, called)
    end)

    it("are forgotten when they have their answer: nothing of them is left", function()
        local client = new_client()
        local lock, answers, callback = client:mutex(fixture.path()), collect()
        for turn = 1, 100 do
            assert(lock:acquire { timeout = 20, callback = callback })
            assert(await(client, answers, turn)[1]:release())
            answers[turn] = true
        end
        assert(client:flush(20))
        client:pump()
        assert.is_nil(next(client:desk().calls))
        assert.is_false(coroutines.is_used(lock))
        collectgarbage()
        collectgarbage()
        assert.is_nil(next(client:desk().observers))
        assert.is_false(client:needs_pump())
        fixture.assert_nothing_left(client)
    end)

    local test = compat.it_with({ it = it, pending = pending }, pcall(require, "posix.unistd"), "lua-posix")

    test("get the code forked in the child of a fork, from its pump, and the parent's go on #real", function()
        local path, node = fixture.path(), fixture.directory()
        local holder = fixture.join(path)
        local result = fixture.program("callback_forker", fixture.servers(), path, node, holder:match("[^/]+$")):finish()
        assert.same({ 0, "" }, { result.status, result.errors })
        local lines = {}
        for line in result.output:gmatch("[^\n]+") do
            lines[#lines + 1] = line
        end
        table.sort(lines)
        assert.same({
            "child\tacquire\tforked", "child\tget\tforked", "child\tleader\tforked", "child\tleads\tfalse",
            "child\tlock\tforked", "child\twatch\tforked", "child ended\texited\t0", "parent\telected\tstring",
            "parent\tleads\ttrue", "parent\tlock\ttable", "parent\twatch\tstring"
        }, lines)
    end)
end)
