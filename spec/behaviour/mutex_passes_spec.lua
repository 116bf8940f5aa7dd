--- A holder that has waited passes a mutex on: the notification of its release suffices for the next one.

local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

after_each(fixture.clean)

local function flags_of(path)
    return (path:gsub("/([^/]*)$", "/_flags_%1"))
end

--- Each lock is acquired once, in their order, and released when all of them queue. Returns for each the requests between the
-- release before its own grant and that grant. `watches`: so many the last one has; default 2: on the node before its own, and on
-- the flag of that node.
local function take_turns(path, locks, watches)
    local functions, sent, released = {}, {}, {}
    for index, lock in ipairs(locks) do
        functions[index] = function()
            fixture.until_children(path, index - 1) -- one after the other
            local hold = assert(lock:acquire(20))
            sent[index] = released[index] and fixture.sent(lock._client) - released[index] or 0
            if index == 1 then
                fixture.until_children(path, #locks)
                loop.until_true(function()
                    return locks[#locks]._client:stats().watches == (watches or 2)
                end)
            end
            local next = locks[index + 1]
            released[index + 1] = next and fixture.sent(next._client)
            assert(hold:release())
        end
    end
    loop.run_all(functions)
    return sent
end

local function circle(path, count, options)
    local locks = {}
    for index = 1, count do
        locks[index] = fixture.mutex(path, options, { session_timeout = 30 })
    end
    return locks
end

local function passes(locks)
    local count = 0
    for _, lock in ipairs(locks) do
        count = count + lock._client:stats().passes
    end
    return count
end

describe("a release by a holder that has waited", function()
    it("is all that the next one needs: no request comes between its notification and the grant #asan #valgrind", function()
        local path = fixture.path()
        local locks = circle(path, 6)
        local sent = take_turns(path, locks)
        -- The first two holders have not seen that somebody could be behind them.
        assert.same({ 0, 0, 2, 0, 0, 0 }, { sent[1], sent[2], math.min(sent[3], 2), sent[4], sent[5], sent[6] })
        assert.equal(3, passes(locks))
        local flags = fixture.observer():exists(flags_of(path))
        assert.same({ 0, true }, { flags.numChildren, flags.cversion > 0 }) -- so servers remove it
        for _, lock in ipairs(locks) do
            fixture.assert_nothing_left(lock._client)
        end
    end)

    it("makes no flag, nor a directory for them, for two contenders or by an acl of one's own", function()
        local path = fixture.path()
        take_turns(path, circle(path, 2), 1)
        assert.is_falsy(fixture.observer():exists(flags_of(path)))
        path = fixture.path()
        take_turns(path, circle(path, 4, { acl = { { scheme = "world", id = "anyone", perms = "crwd" } } }), 1)
        assert.is_falsy(fixture.observer():exists(flags_of(path)))
    end)

    it("wakes the next one as before if no flag can be made", function()
        local path = fixture.path()
        assert(fixture.client():create(flags_of(path), "", { acl = { { scheme = "world", id = "anyone", perms = "r" } } }))
        local locks = circle(path, 4)
        take_turns(path, locks)
        take_turns(path, locks, 1) -- no client waits for flags any more
        assert.equal(0, passes(locks))
    end)

    it("is not feigned by somebody who makes the flag of a waiter, which gives up later #asan", function()
        local path = fixture.path()
        local locks = circle(path, 3)
        assert(fixture.observer():create_all(flags_of(path)))
        local over, other
        loop.run(function()
            local hold = assert(locks[1]:acquire(20))
            fixture.until_children(path, 3)
            loop.until_true(function()
                return locks[3]._client:stats().watches == 2
            end)
            local names = fixture.children(path)
            table.sort(names, function(a, b)
                return a:sub(-10) < b:sub(-10)
            end)
            assert(fixture.observer():create(flags_of(path) .. "/" .. names[2], ""))
            loop.until_true(function()
                return over
            end)
            loop.until_true(function() -- it waits for the only node that is left before its own
                return locks[3]._client:stats().watches == 1
            end)
            assert.is_nil(other)
            assert(hold:release())
        end, function()
            fixture.until_children(path, 1)
            over = select(3, locks[2]:acquire(5))
        end, function()
            fixture.until_children(path, 2)
            other = locks[3]:with_lock(function()
                return true
            end, 30)
        end)
        assert.same({ "timeout", true, 0 }, { over, other, passes(locks) })
    end)

    it("passes nothing on if a waiter gives up: the one behind it waits for the holder #asan", function()
        local path = fixture.path()
        local locks = circle(path, 4)
        take_turns(path, locks) -- makes the directory of the flags
        local got = {}
        loop.run(function()
            local hold = assert(locks[1]:acquire(20))
            fixture.until_children(path, 3)
            loop.until_true(function()
                return locks[3]._client:stats().watches == 2
            end)
            locks[2]:cancel()
            fixture.until_children(path, 2)
            loop.until_true(function() -- it waits for the only node that is left before its own
                return locks[3]._client:stats().watches == 1
            end)
            assert.is_nil(got[3])
            assert(hold:release())
        end, function()
            fixture.until_children(path, 1)
            got[2] = select(3, locks[2]:acquire(20))
        end, function()
            fixture.until_children(path, 2)
            got[3] = locks[3]:with_lock(function()
                return true
            end, 20)
        end)
        assert.same({ [2] = "cancelled", [3] = true }, got)
    end)

    it("is a deletion to contenders of other libraries and older versions, and theirs are to it", function()
        local path = fixture.path()
        local locks = circle(path, 3)
        take_turns(path, locks)
        local order, released = {}, false
        loop.run(function()
            local hold = assert(locks[1]:acquire(20))
            fixture.until_children(path, 4)
            released = assert(hold:release())
        end, function()
            fixture.until_children(path, 1)
            local node = fixture.join(path, "_c_" .. fixture.UUID .. "-lock-", "an older version")
            loop.until_true(function()
                return released
            end)
            order[#order + 1] = "older"
            fixture.observer():delete(node)
        end, function()
            fixture.until_children(path, 2)
            assert(locks[2]:with_lock(function()
                order[#order + 1] = 2
            end, 20))
        end, function()
            fixture.until_children(path, 3)
            assert(locks[3]:with_lock(function()
                order[#order + 1] = 3
            end, 20))
        end)
        assert.same({ "older", 2, 3 }, order)
    end)
end)

describe("the directory of a lock's flags", function()
    it("is shown as no lock", function()
        local path = fixture.path()
        take_turns(path, circle(path, 4))
        local inspect = require "zklock.inspect"
        for _, state in ipairs(assert(inspect.locks(fixture.steady_client(), (path:match "^(.*)/")))) do
            assert.is_nil(state.path:find "_flags_")
        end
    end)
end)
