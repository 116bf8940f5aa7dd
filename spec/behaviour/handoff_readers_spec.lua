--- Readers of one client share a node.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local handoffs = require "spec.support.handoffs"
local loop = require "spec.support.loop"

local until_claims = handoffs.until_claims

after_each(fixture.clean)

describe("readers of one client", function()
    it("hold by one node, and need no further request #asan", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local readers, before = {}, fixture.sent(client)
        for index = 1, 10 do
            readers[index] = client:rwlock(path).read
            assert(readers[index]:acquire(10))
        end
        assert.is_true(fixture.has(path, 1))
        assert.equal(3, fixture.sent(client) - before) -- create, list, and a list that watches for other contenders
        local writer = fixture.steady_client():rwlock(path).write
        assert.is_nil((writer:try_acquire()))
        for index = 1, 10 do
            assert.is_true(readers[index]:held())
            assert.is_true(readers[index]:release())
        end
        assert.equal(4, fixture.sent(client) - before)
        assert(writer:acquire(10))
    end)

    it("are granted by one node if they have waited together, however many; later readers take turns", function()
        local client, path, readers = fixture.steady_client(), fixture.directory(), 40
        local first, second = fixture.steady_client():rwlock(path).write, fixture.steady_client():rwlock(path).write
        local order, nodes, inside, functions = {}, {}, 0, {}
        assert(first:acquire(10))
        local function read(name)
            local reader = client:rwlock(path, { handoff = 1 }).read
            assert(reader:acquire(20))
            order[#order + 1] = name
            inside = inside + 1
            nodes[reader:node()] = true
            loop.until_true(function()
                return inside >= readers + 1
            end)
            assert(reader:release())
        end
        for index = 1, readers do
            functions[index] = function()
                read("together")
            end
        end
        functions[readers + 1] = function()
            until_claims(client, readers)
            loop.until_true(function()
                return fixture.has(path, 2)
            end)
            assert(second:acquire(20))
            order[#order + 1] = "writer"
            assert(second:release())
        end
        functions[readers + 2] = function()
            loop.until_true(function()
                return fixture.has(path, 3) -- the nodes of both writers, and one for all readers
            end)
            assert(hold_of(first):release())
        end
        for index = 1, 2 do
            functions[#functions + 1] = function()
                loop.until_true(function()
                    return inside >= readers
                end)
                until_claims(client, readers + index - 1)
                read("later")
            end
        end
        loop.run_all(functions)
        for index = 1, readers do
            assert.equal("together", order[index])
        end
        assert.same({ "later", "writer", "later" }, { order[readers + 1], order[readers + 2], order[readers + 3] })
        local count = 0
        for _ in pairs(nodes) do
            count = count + 1
        end
        assert.equal(2, count)
        fixture.assert_nothing_left(client)
    end)

    it("let another client's writer hold after a bounded number of them", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local first = client:rwlock(path, { handoff = 1 }).read
        local writer, order = fixture.steady_client():rwlock(path).write, {}
        assert(first:acquire(10))
        local functions = { function()
            assert(writer:acquire(20))
            order[#order + 1] = "writer"
            assert(writer:release())
        end }
        for index = 1, 3 do
            local reader = client:rwlock(path, { handoff = 1 }).read
            functions[index + 1] = function()
                loop.until_true(function()
                    return #fixture.children(path) >= 2
                end)
                until_claims(client, index)
                assert(reader:acquire(20))
                order[#order + 1] = index
                if index == 1 then
                    until_claims(client, 4)
                    assert(hold_of(first):release())
                end
                assert(reader:release())
            end
        end
        loop.run_all(functions)
        assert.same({ 1, "writer" }, { order[1], order[2] })
        assert.equal(4, #order)
    end)

    it("follow their writer by its node, all at once", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local writer, other = client:rwlock(path).write, client:rwlock(path).write
        assert(writer:acquire(10))
        local reading, functions = 0, {}
        for index = 1, 3 do
            local reader = client:rwlock(path).read
            functions[index] = function()
                assert(reader:acquire(20))
                reading = reading + 1
                loop.until_true(function()
                    return reading == 3
                end)
                assert.is_false(other:held())
                assert(reader:release())
            end
        end
        functions[4] = function()
            assert(other:acquire(20))
            assert.equal(3, reading)
            assert(other:release())
        end
        functions[5] = function()
            assert(hold_of(writer):release())
        end
        loop.run_all(functions)
        assert.equal(4, client:stats().hand_overs)
    end)

    it("are granted by a try, while a writer's try is refused without a request", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local first, second = client:rwlock(path), client:rwlock(path)
        assert(first.read:acquire(10))
        local before = fixture.sent(client)
        assert(second.read:try_acquire())
        assert(second.read:release())
        local ok, _, code = second.write:try_acquire()
        assert.is_nil(ok)
        assert.equal("timeout", code)
        assert.equal(before, fixture.sent(client))
        assert(first.read:release())
    end)

    it("hold beside a writer that downgrades, and no other writer is granted in between", function()
        local client, path = fixture.steady_client(), fixture.directory()
        local rw, other = client:rwlock(path), client:rwlock(path).write
        loop.run(function()
            until_claims(client, 1)
            assert(other:acquire(20))
            assert.is_false(rw.read:held())
            assert(other:release())
        end, function()
            assert(rw.write:acquire(10))
            until_claims(client, 2)
            assert(rw.read:acquire(10))
            assert(rw.write:release())
            assert.is_true(rw.read:held())
            assert.is_false(other:held())
            assert(rw.read:release())
        end)
        assert.same({}, fixture.children(path))
    end)
end)
