--- Ctrl-C may raise an error at any instruction of an operation. Nothing is left that the program cannot release.
--
-- After an interrupted acquire nothing is left, or `held()` is true and one `release()` releases the lock. After an interrupted
-- release the lock is free, or held as before. After an interrupted with_lock the lock is as it was before. The collector would
-- release forgotten locks, so it is stopped meanwhile.

local core = require "zklock.core"
local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local interrupts = require "spec.support.interrupts"
local loop = require "spec.support.loop"

--- Fails if on_lost was called: nothing is lost here.
local function on_lost(_, reason)
    error("on_lost was called: " .. reason)
end

--- The locks that are swept, with their names. `new` makes a lock; its second result is a lock to be held before the operation,
-- which must stay held. `stride`: only each so many'th instruction is tried, because the same code acquires other kinds too, or a
-- sweep takes long. If ZKLOCK_SWEEP is set, all instructions are tried.
local KINDS = {
    {
        name = "mutex",
        new = function(client, path)
            return client:mutex(path, { on_lost = on_lost })
        end
    },
    {
        name = "mutex without callbacks",
        stride = 7,
        new = function(client, path)
            return client:mutex(path)
        end
    },
    {
        name = "reentrant mutex",
        stride = 7,
        new = function(client, path)
            return client:mutex(path, { reentrant = true, on_lost = on_lost })
        end
    },
    {
        name = "reentrant mutex that is held",
        new = function(client, path)
            local lock = client:mutex(path, { reentrant = true, on_lost = on_lost })
            return lock, lock
        end
    },
    {
        name = "read lock",
        stride = 7,
        new = function(client, path)
            return client:rwlock(path, { on_lost = on_lost }).read
        end
    },
    {
        name = "write lock",
        stride = 7,
        new = function(client, path)
            return client:rwlock(path, { on_lost = on_lost }).write
        end
    },
    {
        name = "read lock beside the write lock",
        new = function(client, path)
            local rwlock = client:rwlock(path, { on_lost = on_lost })
            return rwlock.read, rwlock.write
        end
    },
    {
        name = "semaphore",
        stride = 7,
        new = function(client, path)
            return client:semaphore(path, 3, { on_lost = on_lost })
        end
    },
    {
        name = "multi",
        stride = 3,
        new = function(client, path)
            return client:multi({ client:mutex(path .. "/a", { on_lost = on_lost }), client:rwlock(path .. "/b").read,
                client:semaphore(path .. "/c", 2, { on_lost = on_lost }) })
        end
    },
    {
        name = "multi with a reentrant member that is held",
        stride = 3,
        new = function(client, path)
            local member = client:mutex(path .. "/a", { reentrant = true, on_lost = on_lost })
            return client:multi({ member, client:mutex(path .. "/b", { on_lost = on_lost }) }), member
        end
    }
}

--- Returns the locks to check of an object: the object itself, or the members of a multi.
local function locks_of(object)
    return object.members and object:members() or { object }
end

local function is_any_held(object)
    for _, lock in ipairs(locks_of(object)) do
        if lock:held() then
            return true
        end
    end
    return false
end

describe("an error at any instruction of", function()
    local client

    setup(function()
        if rawget(_G, "jit") then
            jit.off() -- compiled code calls no hooks
            jit.flush()
        end
        client = fixture.client({ session_timeout = 30 })
        collectgarbage("stop")
    end)

    before_each(function()
        collectgarbage("stop")
    end)

    after_each(function()
        collectgarbage("restart")
        collectgarbage()
    end)

    teardown(function()
        if rawget(_G, "jit") then
            jit.on()
        end
        fixture.clean()
    end)

    --- Raises unless the object is free, the client has `seats` entries (0), and no waiter or hold is noted.
    local function assert_free(object, seats)
        for _, lock in ipairs(locks_of(object)) do
            assert(tostring(lock):find("free", 1, true), tostring(lock))
        end
        assert(client:flush(20))
        assert.equal(seats or 0, client:stats().entries)
        assert.is_false(seats == nil and client:needs_pump())
        assert(next(client:desk().attempts) == nil, "it is said to be acquired")
    end

    local function assert_usable(object)
        assert(object:acquire(20))
        assert.is_true(object:held())
        assert(object:release())
    end

    for _, kind in ipairs(KINDS) do
        local path = fixture.path()
        local stride = kind.stride or 1

        local function prepare()
            local object, outer = kind.new(client, path)
            if outer then
                assert(outer:acquire(20))
            end
            return { object = object, outer = outer }
        end

        --- Releases what a case holds besides the operation's lock, and checks that everything is free.
        local function finish(case)
            if case.outer then
                assert(case.outer:held(), "what was held before is not")
                assert(case.outer:release())
            end
            assert_free(case.object)
        end

        --- After an acquire: releases what was acquired. A held reentrant lock does not show whether the acquire succeeded.
        local function check_acquired(case)
            local object, outer = case.object, case.outer
            if outer and outer == object then
                assert(object:release())
                if object:held() then
                    assert(object:release())
                end
                return assert_free(object)
            elseif object.members and outer then
                if object:held() then
                    assert(object:release())
                end
                return finish(case)
            end
            if object:held() then
                assert(object:release())
            end
            assert(not is_any_held(object), "it is held after its release")
            finish(case)
        end

        it(("acquire leaves a %s free, or held by an object whose held() is true"):format(kind.name), function()
            assert.is_true(interrupts.sweep({ stride = stride, prepare = prepare, check = check_acquired, run = function(case)
                assert(case.object:acquire(20))
            end }) > 5)
        end)

        it(("try_acquire leaves a %s free, or held by an object whose held() is true"):format(kind.name), function()
            assert.is_true(interrupts.sweep({ stride = stride, prepare = prepare, check = check_acquired, run = function(case)
                assert(case.object:try_acquire())
            end }) > 5)
        end)

        it(("release leaves a %s free, or held as before"):format(kind.name), function()
            assert.is_true(interrupts.sweep({
                stride = stride,
                prepare = function()
                    local case = prepare()
                    assert(case.object:acquire(20))
                    return case
                end,
                check = check_acquired,
                run = function(case)
                    assert(case.object:release())
                end
            }) > 5)
        end)

        it(("with_lock leaves a %s as it was before"):format(kind.name), function()
            assert.is_true(interrupts.sweep({
                stride = stride,
                prepare = prepare,
                check = function(case)
                    if not case.outer then
                        assert(not is_any_held(case.object), "it is held")
                    end
                    finish(case)
                end,
                run = function(case)
                    assert(case.object:with_lock(function()
                        return case.object:held()
                    end, 20))
                end
            }) > 5)
        end)
    end

    -- With an adapter that is called for each hold, as inside nginx.
    for _, kind in ipairs({ KINDS[1], KINDS[4], KINDS[9], KINDS[10] }) do
        it(("with_lock leaves a %s as it was before, with an adapter that binds holds"):format(kind.name), function()
            local calls = { bind = 0, keep = 0, enclose = 0 }
            local adapter = setmetatable({}, { __index = require "zklock.adapters.blocking" })
            for name in pairs(calls) do
                adapter[name] = function(hold)
                    calls[name] = calls[name] + (hold._acquisition and 1 or 0)
                end
            end
            local told, path = fixture.client({ wait = adapter, session_timeout = 30 }), fixture.path()
            assert.is_true(interrupts.sweep({
                prepare = function()
                    local object, outer = kind.new(told, path)
                    if outer then
                        assert(outer:acquire(20))
                    end
                    return { object = object, outer = outer }
                end,
                check = function(case)
                    if case.outer then
                        assert.is_false(hold_of(case.outer)._within)
                        assert(case.outer:release())
                    end
                    assert(not is_any_held(case.object), "it is held")
                    assert(told:flush(20))
                    assert.equal(0, told:stats().entries)
                    assert.is_false(told:needs_pump())
                end,
                run = function(case)
                    assert(case.object:with_lock(function()
                        return case.object:held()
                    end, { timeout = 20, keep = true }))
                end
            }) > 5)
            assert.is_true(calls.bind > 0 and calls.enclose > 0)
            assert.equal(kind ~= KINDS[4], calls.keep > 0)
        end)
    end

    --- Operations that end without the lock, because another object holds it.
    for _, kind in ipairs({ KINDS[1], KINDS[8], KINDS[9] }) do
        for _, way in ipairs({ "acquire", "try_acquire", "with_lock" }) do
            it(("%s leaves nothing of a %s that another object holds"):format(way, kind.name), function()
                local path = fixture.path()
                local holder = kind.name == "multi" and client:mutex(path .. "/a") or kind.new(client, path)
                assert(holder:acquire({ timeout = 20, count = kind.name == "semaphore" and 3 or nil }))
                assert(client:flush(20))
                local seats = client:stats().entries
                local object = kind.new(client, path)
                local interrupted = interrupts.sweep({
                    stride = 3,
                    prepare = function()
                        return object
                    end,
                    check = function()
                        assert_free(object, seats)
                    end,
                    run = function()
                        if way == "acquire" then
                            assert(select(3, object:acquire(0.001)) == "timeout")
                        elseif way == "try_acquire" then
                            assert(select(3, object:try_acquire()) == "timeout")
                        else
                            assert(select(3, object:with_lock(print, 0.001)) == "timeout")
                        end
                    end
                })
                assert.is_true(interrupted > 5)
                assert(holder:release())
                assert_free(holder)
                assert_usable(object)
            end)
        end
    end

    --- In an event loop, where waits suspend their coroutines. LuaJIT's hooks are not set for a single coroutine.
    local in_a_loop = rawget(_G, "jit") == nil and compat.PCALL_YIELDS and it or pending

    for _, way in ipairs({ "acquire", "with_lock" }) do
        for _, kind in ipairs({ KINDS[1], KINDS[9] }) do
            in_a_loop(("%s leaves nothing of a %s that it waits for in an event loop"):format(way, kind.name), function()
                local waiting = fixture.loop_client({ session_timeout = 30 })
                loop.run(function()
                    local path = fixture.path()
                    local holder = client:mutex(kind.name == "multi" and path .. "/b" or path)
                    assert(holder:acquire(20))
                    local object = kind.new(waiting, path)
                    assert.is_true(interrupts.sweep({
                        stride = 5,
                        spared = "support/loop.lua",
                        prepare = function()
                            return object
                        end,
                        check = function()
                            for _, lock in ipairs(locks_of(object)) do
                                assert(tostring(lock):find("free", 1, true), tostring(lock))
                            end
                            assert(waiting:flush(20))
                            assert.equal(0, waiting:stats().entries)
                            assert.is_false(waiting:needs_pump())
                        end,
                        run = function()
                            if way == "acquire" then
                                assert(select(3, object:acquire(0.001)) == "timeout")
                            else
                                assert(select(3, object:with_lock(print, 0.001)) == "timeout")
                            end
                        end
                    }) > 5)
                    assert(holder:release())
                    assert(object:acquire(20))
                    assert(object:release())
                end)
            end)
        end
    end

    --- Pumps until no call waits for its answer.
    local function settle()
        while next(client:desk().calls) do
            assert(core.poll(client:pollfd(), 20), "a call without an answer is left")
            client:pump()
        end
    end

    it("acquire with a callback leaves nothing, or the callback gets the lock", function()
        local path = fixture.path()
        assert.is_true(interrupts.sweep({
            prepare = function()
                return { lock = client:mutex(path, { on_lost = on_lost }), calls = 0 }
            end,
            run = function(case)
                assert(case.lock:acquire({ timeout = 20, callback = function(hold)
                    case.calls, case.hold = case.calls + 1, hold
                end }))
                case.returned = true
            end,
            check = function(case)
                settle()
                assert.equal(case.hold and 1 or 0, case.calls)
                if case.returned or case.hold then
                    assert(case.hold:release())
                end
                assert_free(case.lock)
            end
        }) > 10)
    end)

    it("the making of a candidate leaves no mutex of which no candidate knows", function()
        require "zklock.leader" -- by Lua 5.1, a module whose loading an error has ended is not loaded again
        local path = fixture.path()
        assert.is_true(interrupts.sweep({
            prepare = function()
                return {}
            end,
            run = function(case)
                case.leader = assert(client:leader(path, { on_elected = function() end }))
            end,
            check = function(case)
                local leader = case.leader or next(client:desk().leaders) -- an error at its return: the program does not have it
                if leader then
                    leader:close()
                end
                settle()
                assert.is_nil(next(client:desk().leaders))
                assert_free(client:mutex(path))
            end
        }) > 10)
    end)

    it("the wait for a watch with a callback leaves nothing, or the callback gets the event", function()
        local path = fixture.path()
        assert(client:create(path))
        assert.is_true(interrupts.sweep({
            prepare = function()
                return { watch = select(3, client:get(path, { watch = true })), calls = 0 }
            end,
            run = function(case)
                assert(case.watch:wait { callback = function(event)
                    case.calls, case.event = case.calls + 1, event
                end })
                case.returned = true
            end,
            check = function(case)
                assert(client:set(path, "x"))
                eventually(function()
                    client:pump()
                    return case.watch:fired() and not next(client:desk().calls)
                end)
                assert.is_true(case.calls == 1 or not case.returned)
                assert.equal(case.calls == 1 and "changed" or nil, case.event)
            end
        }) > 10)
    end)

    -- A callback that an error interrupts at its beginning has been called: its lock is kept until the lock's object is collected.
    it("the pump gives a lock to its callback, or gives it back", function()
        local path, reported = fixture.path(), 0
        local pumped = fixture.client({ session_timeout = 30, log = function(_, message)
            reported = reported + (message:find("the callback of acquire raised: interrupted!", 1, true) and 1 or 0)
        end })
        assert.is_true(interrupts.sweep({
            spared = "interrupt_spec",
            prepare = function()
                local case, granted = { lock = pumped:mutex(path, { on_lost = on_lost }), calls = 0 }, pumped:stats().grants
                assert(case.lock:acquire({ timeout = 20, callback = function(hold)
                    case.calls, case.hold = case.calls + 1, hold
                end }))
                eventually(function()
                    return pumped:stats().grants > granted
                end)
                reported = 0
                return case
            end,
            run = function()
                pumped:pump()
            end,
            check = function(case)
                eventually(function()
                    pumped:pump()
                    return not next(pumped:desk().calls)
                end)
                assert.equal(1, case.calls + reported)
                if case.hold then
                    assert(case.hold:release())
                end
                case.lock = nil
                collectgarbage()
                assert(pumped:flush(20))
                assert.equal(0, pumped:stats().entries)
            end
        }) > 10)
    end)

    -- The error comes after the pump has taken the notifications from C, and before it has handled them.
    local across_pcall = compat.PCALL_YIELDS and it or pending
    across_pcall("the pump loses no wake-up", function()
        local waiting, path = fixture.loop_client({ session_timeout = 30 }), fixture.path()
        for count = 1, 100, interrupts.STRIDE do
            local node, ended = fixture.join(path), false
            loop.run(function()
                local lock = waiting:mutex(path)
                assert(lock:acquire(20))
                ended = true
                assert(lock:release())
            end, function()
                loop.until_true(function()
                    return fixture.has(path, 2)
                end)
                fixture.observer():delete(node)
                assert(core.poll(waiting:pollfd(), 20))
                interrupts.call(count, "support/loop.lua", waiting.pump, waiting)
                loop.until_true(function()
                    return ended
                end, 10)
            end)
        end
    end)

    across_pcall("a wait in a coroutine that nothing protects leaves nothing", function()
        local own = fixture.client { connect_timeout = 0, wait = { wake = function() end, wait = function(...)
            if not loop.is_inside() then
                return loop.wait(...)
            end
            coroutine.yield()
            error("interrupted!", 0)
        end } }
        local forgotten
        own:desk().adapter.forget = function(waiter)
            forgotten = waiter
        end
        local thread = coroutine.create(own.get)
        coroutine.resume(thread, own, fixture.path(), { timeout = 30 })
        assert.truthy(next(own:desk().everybody))
        assert.same({ false, "interrupted!" }, { coroutine.resume(thread) })
        assert.truthy(forgotten)
        assert.same({}, { next(own:desk().everybody) })
        assert.same({}, { next(own:desk().by_handle) })
    end)
end)

describe("an error while zklock is loaded", function()
    local loaded = {}

    local function unload()
        for name in pairs(package.loaded) do
            if (name == "zklock" or name:find "^zklock%.") and name ~= "zklock.core" then
                package.loaded[name] = nil
            end
        end
    end

    before_each(function()
        for name, module in pairs(package.loaded) do
            loaded[name] = module
        end
    end)

    after_each(function()
        unload()
        for name, module in pairs(loaded) do
            package.loaded[name] = module
        end
    end)

    -- The first instructions on Lua 5.1 and LuaJIT come before zklock can do anything.
    it("does not prevent that it is loaded again", function()
        local count, interrupted, ok = 40, 0
        repeat
            unload()
            ok = interrupts.call(count, nil, require, "zklock")
            interrupted = interrupted + (ok and 0 or 1)
            assert.equal("table", type(require "zklock"))
            count = count + 7
        until ok
        assert.is_true(interrupted > 100)
    end)
end)
