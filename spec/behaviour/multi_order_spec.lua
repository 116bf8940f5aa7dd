--- A multi acquires its locks in the order of their paths, so that no two multis deadlock.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local locale = require "spec.support.locale"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"
local program = require "spec.support.program"

after_each(fixture.clean)

describe("a multi", function()
    it("acquires its locks in the order of their paths, whatever order they were given in #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all, locks = multis.of(client, { paths[3], paths[1], paths[2] })
        assert.same({ locks[2], locks[3], locks[1] }, all:members())
        all:members()[1] = nil
        assert.equal(3, #all:members())
        -- All at once, if all are free.
        assert(all:acquire(10))
        local tokens = { locks[2]:token(), locks[3]:token(), locks[1]:token() }
        assert.is_true(tokens[1] < tokens[2] and tokens[2] < tokens[3], table.concat(tokens, " "))
        assert.is_true(all:release())
        -- One after the other, if one is taken.
        local blocker = fixture.join(paths[1])
        local held
        loop.run(function()
            held = assert(all:acquire(20))
        end, function()
            fixture.until_children(paths[1], 2)
            loop.until_true(function()
                return multis.counts(paths) == "2 0 0"
            end)
            fixture.observer():delete(blocker)
        end)
        for index, hold in ipairs(held:holds()) do
            assert.equal(paths[index], hold:path())
            tokens[index] = hold:token()
        end
        assert.is_true(tokens[1] < tokens[2] and tokens[2] < tokens[3], table.concat(tokens, " "))
    end)

    it("orders paths by their bytes, the shorter path first", function()
        local client = fixture.steady_client()
        local all = multis.of(client, { "/é", "/a/b", "/a-b", "/a", "/B", "/ab", "/a~", "/Z" })
        local paths = {}
        for index, lock in ipairs(all:members()) do
            paths[index] = lock:path()
        end
        assert.same({ "/B", "/Z", "/a", "/a-b", "/a/b", "/ab", "/a~", "/é" }, paths)
    end)

    -- A program may have called os.setlocale, or be part of a program that has; other clients of the fleet have not.
    it("orders paths by their bytes also in a locale with another order #real", function()
        local american, problem = locale.environment("en_US")
        if not american then
            pending("no such locale can be made here: " .. problem)
            return
        end
        local sorter = program.run("sorter", { "env", "LOCPATH=" .. american.LOCPATH, "LC_ALL=" .. american.LC_ALL,
            program.interpreter(), "spec/programs/sorter.lua", "/é", "/a/b", "/a-b", "/a", "/B", "/ab", "/Z" })
        local collates, order = sorter:line(), sorter:line()
        sorter:stop()
        assert.equal("/B /Z /a /a-b /a/b /ab /é", order)
        assert.equal(rawget(_G, "jit") and "a < B false" or "a < B true", collates) -- LuaJIT compares bytes anyway
    end)

    it("waits for one lock while it holds those before it and none after it", function()
        local paths = multis.three_paths()
        local blocker = fixture.join(paths[2])
        local all, locks = multis.of(fixture.steady_client(), { paths[2], paths[3], paths[1] })
        local held
        loop.run(function()
            held = assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 2 0" and hold_of(locks[3]):held()
            end)
            assert.is_false(hold_of(locks[1]):held())
            assert.is_false(hold_of(locks[2]):held())
            fixture.observer():delete(blocker)
        end)
        assert.is_true(held:held())
        assert.equal("1 1 1", multis.counts(paths))
    end)
end)

describe("multis never deadlock", function()
    --- Runs coroutines that acquire multis, `rounds` times each. No two of them may hold the same path at the same time.
    local function compete(acquirers, rounds)
        local inside, functions, turns = {}, {}, 0
        for index, acquirer in ipairs(acquirers) do
            functions[index] = function()
                for round = 1, rounds do
                    assert(acquirer.all:acquire(50))
                    for _, path in ipairs(acquirer.paths) do
                        assert.is_nil(inside[path])
                        inside[path] = index
                    end
                    if round % 3 == 0 then
                        loop.until_true(function()
                            return true
                        end)
                    end
                    turns = turns + 1
                    for _, path in ipairs(acquirer.paths) do
                        inside[path] = nil
                    end
                    assert(acquirer.all:release(round % 2 == 0 and { wait = false } or nil))
                end
            end
        end
        loop.run_all(functions)
        assert.equal(#acquirers * rounds, turns)
    end

    local function acquirer(client, paths)
        return { all = multis.of(client, paths), paths = paths }
    end

    for _, clients in ipairs({ 1, 2 }) do
        it(("when two of %d client(s) name the same locks in opposite order #asan"):format(clients), function()
            local paths = multis.three_paths()
            local first = fixture.steady_client()
            local second = clients == 1 and first or fixture.steady_client()
            compete({ acquirer(first, paths), acquirer(second, { paths[3], paths[2], paths[1] }) }, 30)
            multis.await_counts(paths, "0 0 0")
        end)
    end

    it("when each of three takes two of three locks in a ring", function()
        local paths = multis.three_paths()
        compete({
            acquirer(fixture.steady_client(), { paths[1], paths[2] }),
            acquirer(fixture.steady_client(), { paths[2], paths[3] }),
            acquirer(fixture.steady_client(), { paths[3], paths[1] })
        }, 25)
        multis.await_counts(paths, "0 0 0")
    end)

    it("with programs that acquire the same locks one by one in the order of their paths #real", function()
        local paths = multis.three_paths()
        local programs = {}
        for index = 1, 2 do
            programs[index] = fixture.program("chain", fixture.servers(), 25, paths[1], paths[2], paths[3])
            assert.equal("ready", programs[index]:line())
        end
        for index = 1, 2 do
            programs[index]:tell("go")
        end
        compete({ acquirer(fixture.steady_client(), { paths[3], paths[1], paths[2] }) }, 25)
        for index = 1, 2 do
            assert.equal("ok", programs[index]:line())
        end
        multis.await_counts(paths, "0 0 0")
    end)

    it("when two multis acquire permits of two semaphores in opposite order", function()
        local paths = multis.three_paths()
        local acquirers = {}
        for index = 1, 2 do
            local client = fixture.steady_client()
            local one, other = client:semaphore(paths[1], 1), client:semaphore(paths[2], 1)
            local all = client:multi(index == 1 and { one, other } or { other, one })
            acquirers[index] = { all = all, paths = { paths[1], paths[2] } }
        end
        compete(acquirers, 20)
        multis.await_counts({ paths[1] .. "/leases", paths[1] .. "/locks", paths[2] .. "/leases", paths[2] .. "/locks" }, "0 0 0 0")
    end)

    it("and two of them get all of their locks again and again while a third with a short timeout competes", function()
        local paths = multis.three_paths()
        local impatient = multis.of(fixture.steady_client(), { paths[2], paths[1] })
        local done = 0
        local functions = { function()
            while done < 2 do
                if impatient:acquire(0.005) then
                    assert(impatient:release())
                end
            end
        end }
        for index = 1, 2 do
            local mine = acquirer(fixture.steady_client(), index == 1 and paths or { paths[3], paths[2], paths[1] })
            functions[index + 1] = function()
                for _ = 1, 10 do
                    assert(mine.all:acquire(40))
                    assert(mine.all:release())
                end
                done = done + 1
            end
        end
        loop.run_all(functions)
        multis.await_counts(paths, "0 0 0")
    end)
end)
