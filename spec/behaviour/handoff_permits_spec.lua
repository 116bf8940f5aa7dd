--- The nodes of a semaphore's permits pass from one acquisition of a client to the next.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local handoffs = require "spec.support.handoffs"
local loop = require "spec.support.loop"

local grow, until_claims = handoffs.grow, handoffs.until_claims

after_each(fixture.clean)

describe("a semaphore's permits", function()
    it("pass from one acquisition to the next with the same nodes #asan", function()
        local client, path = fixture.steady_client(), fixture.path()
        local first, second, third = client:semaphore(path, 3), client:semaphore(path, 3), client:semaphore(path, 3)
        assert(first:acquire({ timeout = 10, count = 3 }))
        local tokens = { first:token() }
        loop.run(function()
            assert(second:acquire({ timeout = 20, count = 2 }))
            tokens[2] = second:token()
            loop.until_true(function()
                return hold_of(third):held()
            end)
            assert(second:release())
        end, function()
            until_claims(client, 2)
            assert(third:acquire(20))
            loop.until_true(function()
                return not hold_of(second):held()
            end)
            assert(third:release())
        end, function()
            loop.until_true(function()
                return fixture.has(path .. "/locks", 2)
            end)
            assert(hold_of(first):release())
        end)
        assert.equal(1, client:stats().hand_overs)
        grow(tokens)
        assert.equal(tokens[1]:match("^%d+"), tokens[2]:match("^%d+"))
        fixture.await_children(path .. "/leases", 0)
        fixture.await_children(path .. "/locks", 0)
    end)

    it("pass on as often in a row as handoff allows while others wait", function()
        local client, path = fixture.steady_client(), fixture.path()
        local holder, remote = client:semaphore(path, 1), fixture.steady_client():semaphore(path, 1)
        local order, functions = {}, {}
        assert(holder:acquire(10))
        fixture.await_children(path .. "/locks", 0)
        functions[1] = function()
            assert(remote:acquire(20))
            order[#order + 1] = "remote"
            assert(remote:release())
        end
        for index = 1, 4 do
            local semaphore = client:semaphore(path, 1, { handoff = 2 })
            functions[index + 1] = function()
                loop.until_true(function()
                    return #fixture.children(path .. "/locks") >= 1
                end)
                until_claims(client, index)
                assert(semaphore:acquire(20))
                order[#order + 1] = index
                assert(semaphore:release())
            end
        end
        functions[6] = function()
            loop.until_true(function()
                return fixture.has(path .. "/locks", 5)
            end)
            assert(hold_of(holder):release())
        end
        loop.run_all(functions)
        assert.same({ 1, 2, "remote", 3, 4 }, order)
    end)
end)
