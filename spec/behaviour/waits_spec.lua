--- Who waits for whom, over all locks: what `zklock why` says of deadlocks.

local fixture = require "spec.support.fixture"
local inspect = require "zklock.inspect"
local loop = require "spec.support.loop"
local waits = require "zklock.cli.waits"

after_each(fixture.clean)

--- Reads the locks below a path. Returns who waits for what, and the lock states by their paths.
local function look(top)
    local all, by_path = assert(inspect.locks(fixture.client(), top, { identities = true })), {}
    for _, state in ipairs(all) do
        by_path[state.path] = state
    end
    return waits.by_program(all), by_path
end

describe("who waits for whom", function()
    --- Has programs acquire locks in two steps, all first steps before the second ones, and looks. `steps`: list of
    -- `{ identity, first, second }`; `others`: how many other contenders a lock has. Returns as look does.
    local function contend(top, steps, others)
        local functions, begun, counts, waiting, by_path = {}, 0, others or {}, nil, nil
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
            waiting, by_path = look(top)
        end
        loop.run_all(functions)
        return waiting, by_path
    end

    it("finds programs that wait for each other, from each of their locks", function()
        local top = fixture.directory()
        local waiting, by_path = contend(top, { { "one", "a", "b" }, { "two", "b", "c" }, { "three", "c", "a" } })
        assert.same({
            { program = "one", waits_for = top .. "/b" }, { program = "two", waits_for = top .. "/c" },
            { program = "three", waits_for = top .. "/a" }
        }, waits.deadlock(waiting, by_path[top .. "/a"]))
        assert.equal("two", waits.deadlock(waiting, by_path[top .. "/b"])[1].program)
        assert.same({ top .. "/c" }, waits.paths(waiting, "two"))
    end)

    it("finds those behind a program that is none of them, and none where all can go on", function()
        local top = fixture.directory()
        local waiting, by_path = contend(top, { { "before", "a", "b" }, { "one", "b", "c" }, { "two", "c", "b" } })
        assert.same({ { program = "one", waits_for = top .. "/c" }, { program = "two", waits_for = top .. "/b" } },
            waits.deadlock(waiting, by_path[top .. "/a"]))
        top = fixture.directory()
        fixture.join(top .. "/e", nil, "the one that goes on")
        waiting, by_path = contend(top, { { "one", "a", "b" }, { "two", "b", "c" }, { "three", "c", "d" }, { "four", "d", "e" },
            { "five", "f", "e" } }, { e = 1 })
        for _, name in ipairs { "a", "b", "c", "d", "e", "f" } do
            assert.is_nil(waits.deadlock(waiting, by_path[top .. "/" .. name]))
        end
    end)
end)
