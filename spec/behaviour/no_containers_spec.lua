--- Servers without container nodes, as ClickHouse Keeper and ZooKeeper 3.4: locks use persistent directories.

local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"

after_each(fixture.clean)

local CLOSES = -4

local ANSWERS = { [CLOSES] = "close the connection", [-6] = "answer that they do not implement it", [-8] = "answer bad arguments" }

--- Returns a client of servers without containers, which answer the creation of one in this way, and the link to them.
local function client_without(answer)
    local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
    link:lack_containers(answer)
    return client, link
end

for answer, title in pairs(ANSWERS) do
    describe(("where servers %s when a container is to be made"):format(title), function()
        it("a lock is acquired in a new directory, in a persistent one", function()
            local client = client_without(answer)
            local path = fixture.path() .. "/one/two"
            local lock = client:mutex(path)
            assert(lock:acquire(20))
            assert.equal(1, #fixture.children(path))
            assert.is_true(lock:release())
            fixture.assert_nothing_left(client)
        end)

        it("a semaphore and a latch are made", function()
            local client = client_without(answer)
            local semaphore = client:semaphore(fixture.path() .. "/s", 2)
            assert(semaphore:acquire(20))
            assert.is_true(semaphore:release())
            local latch = client:latch(fixture.path() .. "/l", 1)
            assert(latch:count_down(20))
            assert(latch:wait(20))
        end)

        it("the client notices it once, also for its later sessions", function()
            local client, link = client_without(answer)
            local first = client:mutex(fixture.path() .. "/first")
            assert(first:acquire(20))
            local before = link:counts().createContainer
            fixture.kill_owner_behind(link, hold_of(first):node())
            fixture.await_not_held(first)
            assert(client:mutex(fixture.path() .. "/second"):acquire(20))
            assert.equal(before, link:counts().createContainer)
            assert.equal(2, client:stats().sessions)
        end)

        it("no lock is passed on, and contenders get it by turns", function()
            local path = fixture.directory()
            local clients, links, functions = {}, {}, {}
            local turns = 0
            for index = 1, 4 do
                clients[index], links[index] = client_without(answer)
                local lock = clients[index]:mutex(path)
                functions[index] = function()
                    for _ = 1, 4 do
                        assert(lock:acquire(60))
                        turns = turns + 1
                        assert.is_true(lock:release())
                    end
                end
            end
            loop.run_all(functions, 120)
            assert.equal(16, turns)
            for index, client in ipairs(clients) do
                assert.equal(0, client:stats().passes)
                assert.is_true(links[index]:counts().createContainer <= 2)
                fixture.assert_nothing_left(client)
            end
        end)
    end)
end

describe("a server that has containers", function()
    it("is taken for one without them by no single connection that is lost while one is made", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        link:lack_containers(CLOSES)
        local hold
        loop.run(function()
            hold = assert(client:mutex(fixture.path() .. "/one"):acquire(20))
        end, function()
            fixture.pump_until(client, function()
                return client:state() ~= "connected"
            end)
            link:lack_containers(0)
        end)
        assert.is_true(hold:release())
        local made = link:counts().createContainer
        assert(client:mutex(fixture.path() .. "/two"):acquire(20))
        assert.is_true(link:counts().createContainer > made)
    end)

    it("nor by several, if the containers are there afterwards", function()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        for index = 1, 3 do
            local made = link:counts().createContainer
            link:arm("create", "after", 1) -- behind the create of the node, which finds no directory
            local lock = client:mutex(fixture.path() .. "/" .. index)
            assert(lock:acquire(20))
            assert.is_true(link:fired())
            assert.is_true(link:counts().createContainer > made)
            assert.is_true(lock:release())
        end
    end)
end)
