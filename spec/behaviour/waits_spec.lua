--- Deadlocks over all locks, as `zklock why` and others show them.

local fixture = require "spec.support.fixture"
local inspect = require "zklock.inspect"
local loop = require "spec.support.loop"
local Waits = require "zklock.inspect.waits"

after_each(fixture.clean)

--- Reads the locks below a path. Returns who waits for what, and the lock states by their paths.
local function look(top)
    local all, by_path = assert(inspect.locks(fixture.client(), top, { identities = true })), {}
    for _, state in ipairs(all) do
        by_path[state.path] = state
    end
    return Waits.new(all), by_path
end

describe("who waits for whom", function()
    --- Has programs acquire locks in two steps, all first steps before the second ones, and looks. `steps`: list of
    -- `{ identity, first, second }`; `others`: how many other contenders a lock has. Returns as look does.
    local function contend(top, steps, others)
        local functions, begun, counts, waits, by_path = {}, 0, others or {}, nil, nil
        for index, step in ipairs(steps) do
            for _, name in ipairs { step[2], step[3] } do
                counts[name] = (counts[name] or 0) + 1
            end
            local client = fixture.loop_client { identity = step[1] }
            local first, second = client:mutex(top .. "/" .. step[2]), client:mutex(top .. "/" .. step[3])
            functions[index] = function()
                assert(first:acquire(10))
                begun = begun + 1
                loop.until_true(function()
                    return begun == #steps
                end)
                second:acquire(10)
                assert(first:release())
                second:release()
            end
        end
        functions[#functions + 1] = function()
            loop.until_true(function()
                return begun == #steps
            end)
            for name, count in pairs(counts) do
                fixture.until_children(top .. "/" .. name, count)
            end
            waits, by_path = look(top)
        end
        loop.run_all(functions)
        return waits, by_path
    end

    it("finds programs that wait for each other, from each of their locks", function()
        local top = fixture.directory()
        local waits, by_path = contend(top, { { "one", "a", "b" }, { "two", "b", "c" }, { "three", "c", "a" } })
        assert.same({
            { program = "one", waits_for = top .. "/b" }, { program = "two", waits_for = top .. "/c" },
            { program = "three", waits_for = top .. "/a" }
        }, waits:deadlock(by_path[top .. "/a"]))
        assert.equal("two", waits:deadlock(by_path[top .. "/b"])[1].program)
        assert.equal(1, #waits.deadlocks)
        assert.same({ top .. "/c" }, waits:paths("two"))
    end)

    it("finds those behind a program that is none of them, and none where all can go on", function()
        local top = fixture.directory()
        local waits, by_path = contend(top, { { "before", "a", "b" }, { "one", "b", "c" }, { "two", "c", "b" } })
        assert.same({ { program = "one", waits_for = top .. "/c" }, { program = "two", waits_for = top .. "/b" } },
            waits:deadlock(by_path[top .. "/a"]))
        top = fixture.directory()
        fixture.join(top .. "/e", nil, "the one that goes on")
        waits, by_path = contend(top, { { "one", "a", "b" }, { "two", "b", "c" }, { "three", "c", "d" }, { "four", "d", "e" },
            { "five", "f", "e" } }, { e = 1 })
        for _, name in ipairs { "a", "b", "c", "d", "e", "f" } do
            assert.is_nil(waits:deadlock(by_path[top .. "/" .. name]))
        end
        assert.same({}, waits.deadlocks)
    end)

    --- Returns a lock state. `holders`, `waiters`: identities.
    local function state_of(path, kind, holders, waiters)
        local state = { path = path, kind = kind, holders = #holders, waiters = #waiters, contenders = {} }
        for _, identity in ipairs(holders) do
            state.contenders[#state.contenders + 1] = { holder = true, identity = identity, mode = "exclusive" }
        end
        for _, identity in ipairs(waiters) do
            state.contenders[#state.contenders + 1] = { holder = false, identity = identity, mode = "exclusive" }
        end
        return state
    end

    it("calls a semaphore no part of a deadlock while one of its holders can go on", function()
        local slots = state_of("/slots", "semaphore", { "one", "free" }, { "two" })
        local lock = state_of("/a", "mutex", { "two" }, { "one" })
        assert.same({}, Waits.new({ slots, lock }).deadlocks)
        slots.contenders[2].identity = "two"
        assert.equal(1, #Waits.new({ slots, lock }).deadlocks)
        assert.equal("one holds /slots and waits for /a; two holds /a and waits for /slots",
            Waits.describe(Waits.new({ slots, lock }):deadlock(slots)))
        lock.kind, lock.contenders[3], lock.holders = "rwlock", { holder = true, identity = "free", mode = "shared" }, 2
        assert.equal(1, #Waits.new({ slots, lock }).deadlocks) -- a writer waits for all readers
    end)

    it("does not take a program for one that waits for itself: it has threads", function()
        assert.same({}, Waits.new({ state_of("/a", "mutex", { "one" }, { "one", "two" }) }).deadlocks)
        assert.equal(1, #Waits.new({ state_of("/a", "rwlock", { "one", "two" }, { "one", "two" }) }).deadlocks) -- both upgrade
    end)

    it("finds a deadlock behind a chain of any length", function()
        local states = { state_of("/0", "mutex", { "p0" }, { "p20000" }) }
        for index = 1, 20000 do
            states[#states + 1] = state_of("/" .. index, "mutex", { "p" .. index }, { "p" .. index - 1 })
        end
        states[#states + 1] = state_of("/before", "mutex", { "q" }, { "r" })
        states[#states + 1] = state_of("/after", "mutex", { "p5" }, { "q" })
        local waits = Waits.new(states)
        assert.same({ 1, 20001 }, { #waits.deadlocks, #waits.deadlocks[1] })
        assert.equal(20001, #waits:deadlock(states[#states - 1]))
    end)
end)
