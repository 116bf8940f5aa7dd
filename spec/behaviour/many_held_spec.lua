--- A client that holds many locks keeps them at the cost of a few, and learns of each that is lost.

local core = require "zklock.core"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"

after_each(fixture.clean)

-- More than one heartbeat checks.
local MANY = 300

describe("a client that holds many locks", function()
    local function acquire(client, path)
        local acquisitions = {}
        for index = 1, MANY do
            acquisitions[index] = fixture.ask(client, assert(core.lock_spec {
                path = path .. index, mode = "mutex", identity = "one of many", acl = "open"
            }))
        end
        fixture.pump_until_held(client, acquisitions)
        return acquisitions
    end

    --- Waits until the client has read each node that it holds on its present connection, in addition to `before` requests.
    local function until_guarded(client, before)
        fixture.pump_until(client, function()
            return client:stats().heartbeats > before + MANY
        end, 60, "a look at each node")
    end

    --- Returns how many heartbeats the client sends while the clock runs for so many seconds.
    local function heartbeats_in(client, seconds)
        local before, till = client:stats().heartbeats, core.now() + seconds
        fixture.pump_until(client, function()
            return core.now() > till
        end, 60)
        return client:stats().heartbeats - before
    end

    --- Deletes the node of one of them, and waits for its loss. `lost` has the indices of those that are lost, and gets this one.
    local function lose(client, acquisitions, index, lost)
        lost[index] = true
        fixture.observer():delete(acquisitions[index]:node())
        fixture.pump_until(client, function()
            return acquisitions[index]:phase() == "lost", acquisitions[index]:phase()
        end, 60, "the loss of one")
        for other, acquisition in ipairs(acquisitions) do
            assert.equal(lost[other] and "lost" or "granted", (acquisition:phase()))
        end
    end

    it("reads each of them once, and few of them in each round", function()
        local client = fixture.client { wait = loop, session_timeout = 6 }
        local before = client:stats().heartbeats
        local acquisitions = acquire(client, fixture.path())
        until_guarded(client, before)
        -- A round is a sync, the heartbeat and 64 reads. It follows the last one after a seventh to a sixth of the session timeout.
        assert.is_true(heartbeats_in(client, 6) <= 7 * 66)
        for _, acquisition in ipairs(acquisitions) do
            assert.equal("granted", (acquisition:phase()))
            acquisition:cancel()
        end
        assert(client:flush(30))
        fixture.await_unwatched(fixture.path())
    end)

    it("loses one whose node is deleted, and no other, before the next heartbeat", function()
        local client = fixture.client { wait = loop, session_timeout = 30 }
        local before = client:stats().heartbeats
        local acquisitions = acquire(client, fixture.path())
        until_guarded(client, before)
        local lost = {}
        for _, index in ipairs { 17, 290 } do
            before = client:stats().heartbeats
            lose(client, acquisitions, index, lost)
            -- A heartbeat that was under way may have sent the reads that follow it.
            assert.is_true(client:stats().heartbeats - before < 66)
        end
    end)

    it("keeps them over a lost connection, and loses one whose node was deleted meanwhile", function()
        -- All watches together would not fit into the packet that arms them again.
        local client, link = fixture.client_behind_proxy { wait = loop, session_timeout = 30 }
        local before = client:stats().heartbeats
        local acquisitions = acquire(client, fixture.path() .. "/" .. ("x"):rep(5000))
        until_guarded(client, before)
        before = client:stats().heartbeats
        local lost = {}
        link:cut()
        lose(client, acquisitions, 123, lost)
        until_guarded(client, before)
        assert.equal(2, client:stats().connections)
        lose(client, acquisitions, MANY, lost)
    end)

    it("keeps one whose data are changed, and learns later that it was deleted", function()
        local client = fixture.client { wait = loop, session_timeout = 6 }
        local before = client:stats().heartbeats
        local acquisitions = acquire(client, fixture.path())
        until_guarded(client, before)
        fixture.observer():set(acquisitions[100]:node(), "changed")
        heartbeats_in(client, 6)
        assert.equal("granted", (acquisitions[100]:phase()))
        lose(client, acquisitions, 100, {})
    end)
end)
