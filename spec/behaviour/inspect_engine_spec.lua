--- zklock.inspect against the engine: after each of many random steps, what any client sees of the queue is what the clients
-- themselves know of their locks. Clients of a semaphore have several acquisitions each, as the requests of a worker of nginx have;
-- those of a mutex or read/write lock have one each, because several would share a node.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local inspect = require "zklock.inspect"
local util = require "luassert.util"

local CONTENDERS, STEPS, PERMITS = 6, 60, 4

--- Returns a contender: a lock for each mode of the kind, of which it uses one at a time.
local function new_contender(client, path, kind)
    if kind == "mutex" then
        return { client = client, locks = { client:mutex(path) } }
    elseif kind == "semaphore" then
        return { client = client, locks = { client:semaphore(path, PERMITS) } }
    end
    local rw = client:rwlock(path)
    return { client = client, locks = { rw.read, rw.write } }
end

--- Begins an acquisition, gives a waiting one up, or releases.
local function step(contender, kind)
    if contender.held then
        local held = contender.held
        contender.held = nil
        assert(held:release { wait = false })
    elseif contender.call then
        contender.call:cancel()
    else
        local lock = contender.locks[math.random(#contender.locks)]
        local count = kind == "semaphore" and math.random(PERMITS) or nil
        contender.call = assert(lock:acquire { count = count, callback = function(held)
            contender.call, contender.held = nil, held or nil
        end })
    end
end

--- Returns what the clients know: the nodes by which they hold, sorted, and how many wait.
local function known(contenders)
    local nodes, waiters = {}, 0
    for _, contender in ipairs(contenders) do
        contender.client:pump()
        for _, node in ipairs(contender.held and contender.held:nodes() or {}) do
            nodes[#nodes + 1] = node
        end
        waiters = waiters + (contender.call and 1 or 0)
        assert(contender.client:flush(20)) -- waits until the nodes of cancelled acquisitions are deleted
    end
    table.sort(nodes)
    return nodes, waiters
end

--- Returns the holders among contenders, sorted.
local function holders_of(contenders)
    local nodes = {}
    for _, contender in ipairs(contenders) do
        nodes[#nodes + 1] = contender.holder and contender.node or nil
    end
    table.sort(nodes)
    return nodes
end

describe("zklock.inspect", function()
    after_each(fixture.clean)

    for _, kind in ipairs { "mutex", "rwlock", "semaphore" } do
        it("sees what the engine knows, after each random step of the clients of a " .. kind, function()
            local path, observer, clients, contenders = fixture.path(), fixture.client(), {}, {}
            for index = 1, CONTENDERS do
                local number = kind == "semaphore" and index % 2 or index
                clients[number] = clients[number] or fixture.client()
                contenders[index] = new_contender(clients[number], path, kind)
            end
            local asker, queued = new_contender(observer, path, kind).locks[1], 0
            for number = 1, STEPS do
                step(contenders[math.random(CONTENDERS)], kind)
                local inside, outside
                pcall(eventually, function()
                    local before, waiters = known(contenders)
                    local state = assert(inspect.lock(observer, path) or { contenders = {}, waiters = 0 })
                    inside = { number, before, before, PERMITS - #before, waiters }
                    outside = { number, holders_of(state.contenders), holders_of(assert(asker:contenders())),
                        kind == "semaphore" and asker:available() or PERMITS - #before, state.waiters }
                    return util.deepcompare(inside, outside)
                end)
                queued = queued + outside[5]
                assert.same(inside, outside)
            end
            assert.is_true(queued > STEPS / 4)
        end)
    end
end)
