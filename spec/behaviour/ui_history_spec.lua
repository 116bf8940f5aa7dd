--- ui.history: the lanes of a lock's contenders, their fates, and the lock's figures.

local History = require "zklock.ui.history"

--- Returns a lock state. Contenders are given as "*name" (a holder) or "name"; all have the session "s" .. name, and their letter
-- as number. Each waits for the one before it.
local function state_of(names, fields)
    local state = { contenders = {}, waiters = 0, holders = 0 }
    for index, name in ipairs(names) do
        local holder = name:sub(1, 1) == "*"
        name = name:gsub("^%*", "")
        local which = holder and "holders" or "waiters"
        state[which] = state[which] + 1
        state.contenders[index] = { node = "/l/" .. name, name = name, identity = name, holder = holder, session = "s" .. name,
            mode = "exclusive", since = 0, sequence = name:byte(),
            waits_for = index > 1 and state.contenders[index - 1].node or nil }
    end
    for name, value in pairs(fields or {}) do
        state[name] = value
    end
    return state
end

describe("ui.history", function()
    it("keeps when a contender joined, held and ended", function()
        local history = History.new(100)
        history:add(state_of { "*a", "b" }, 100)
        history:add(state_of { "*b" }, 110)
        history:add(state_of {}, 130)
        assert.same({ 0, 0, 110, "ended" }, { history.ended[1].from, history.ended[1].held, history.ended[1].ended,
            history.ended[1].fate })
        assert.same({ 0, 110, 130, "ended" }, { history.ended[2].from, history.ended[2].held, history.ended[2].ended,
            history.ended[2].fate })
    end)

    it("tells a release from a loss by the session, and a waiter that gives up from both", function()
        local history = History.new(0)
        history:add(state_of { "*a", "b", "c" }, 1, true)
        local second = state_of { "*b", "*d" }
        second.contenders[1].session_state = "disconnected"
        history:add(second, 2, true)
        history:add(state_of {}, 3, true)
        assert.equal(3, history.pending)
        assert.truthy(history:resolve(4, function(session)
            return session ~= "sa"
        end))
        local fates = {}
        for _, lane in ipairs(history.ended) do
            fates[lane.node] = lane.fate
        end
        -- The session of d has ended, too, but its client was there until then: it may have released first.
        assert.same({ ["/l/a"] = "released", ["/l/b"] = "lost", ["/l/c"] = "left", ["/l/d"] = "ended" }, fates)
        assert.equal(0, history.pending)
    end)

    it("does not claim that a waiter gave up which may have held between two readings", function()
        local history = History.new(0)
        history:add(state_of { "*a", "b", "c", "d" }, 1)
        history:add(state_of { "*a", "b", "d" }, 2)
        history:add(state_of { "*d" }, 3)
        local fates = {}
        for _, lane in ipairs(history.ended) do
            fates[lane.name] = lane.fate
        end
        assert.same({ a = "ended", b = "brief", c = "left" }, fates)
    end)

    it("does not take a session that has just ended for one that lives", function()
        local history = History.new(0)
        history:add(state_of { "*a" }, 1, true)
        history:add(state_of {}, 2, true)
        history:resolve(2.1, function()
            return false
        end)
        assert.equal("pending", history.ended[1].fate)
        history:resolve(3, function()
            return true
        end)
        assert.equal("ended", history.ended[1].fate)
    end)

    it("says that it does not know when the servers do not tell", function()
        local history = History.new(0)
        history:add(state_of { "*a" }, 1, true)
        history:add(state_of {}, 2, true)
        history:resolve(2.1, nil)
        assert.equal("ended", history.ended[1].fate)
    end)

    it("counts grants that came and went between two readings by the numbers of the queue", function()
        local history = History.new(0)
        history:add(state_of({ "*a" }, { next_sequence = 10 }), 1)
        history:add(state_of({ "*z", "y" }, { next_sequence = 61 }), 21)
        assert.equal(50 / 21, history:figures(21).rate)
    end)

    it("computes quantiles of the waits and holds that it has seen, and says from when on a hold is long", function()
        local history = History.new(0)
        history:add(state_of {}, 0)
        for index = 1, 20 do
            history:add(state_of({ "*a" .. index }, {}), 100 * index)
            history:add(state_of {}, 100 * index + index)
        end
        local figures = history:figures(2100)
        assert.same({ 20, 10, 20, 20 }, { figures.hold.count, figures.hold.p50, figures.hold.p99, figures.long })
        history = History.new(0)
        history:add(state_of { "*a" }, 0)
        history:add(state_of {}, 5)
        assert.is_nil(history:figures(5).long)
    end)

    it("estimates how long the queue takes by the holds that it has seen", function()
        local history = History.new(0)
        history:add(state_of { "*a", "b", "c", "d" }, 0)
        assert.same({}, history:expect(state_of { "*a", "b" }))
        history:add(state_of { "*b", "c", "d" }, 6)
        local state = state_of { "*b", "c", "d", "e", "f" }
        assert.same({ ["/l/c"] = 6, ["/l/d"] = 12, ["/l/e"] = 18, ["/l/f"] = 24 }, history:expect(state))
        state.contenders[3].mode, state.contenders[4].mode = "shared", "shared" -- hold at the same time
        assert.same({ ["/l/c"] = 6, ["/l/d"] = 12, ["/l/e"] = 12, ["/l/f"] = 18 }, history:expect(state))
        state = state_of({ "*b", "c", "d", "e" }, { kind = "semaphore", limit = 2 })
        assert.same({ ["/l/c"] = 6, ["/l/d"] = 6, ["/l/e"] = 12 }, history:expect(state))
    end)

    it("takes a semaphore's queue entry whose session has permits for served", function()
        local history = History.new(0)
        history:add(state_of { "q" }, 1)
        local permit = state_of { "*p" }
        permit.contenders[1].mode, permit.contenders[1].session = "lease", "sq"
        history:add(permit, 4)
        assert.equal("served", history.ended[1].fate)
        assert.equal(4, history:figures(4).wait.p50)
    end)

    it("is bounded: ended lanes, samples, and the time that it goes back", function()
        local history = History.new(0)
        for index = 1, 1000 do
            history:add(state_of { "*a" .. index }, index, true)
        end
        for index = 1001, 2000 do
            history:add(state_of { "*a" .. index }, index, true)
        end
        assert.equal(1000, #history.ended)
        assert.equal(100, #history.holds)
        assert.equal(1000, history.pending)
        assert.equal(100, #history:recent(2001))
        assert.equal(2000, history:recent(2001)[100].ended)
        history:add(nil, 2001)
        assert.same({}, history:recent(2001 + 301))
        history:forget(2001 + 320)
        assert.is_nil(next(history.buckets))
        assert.equal(1000, #history.ended)
        history:forget(2001 + 86401)
        assert.same({ {}, {}, 0 }, { history.ended, history.lanes, history.pending })
    end)
end)
