--- The checks of the fault campaign: they find each violation in a history, and none in a correct history.

local checker = require "spec.campaign.checker"
local history = require "spec.campaign.history"
local schedule = require "spec.campaign.schedule"
local turns = require "spec.campaign.programs.turns"

--- A grant, with defaults for the fields that do not matter.
local function grant(values)
    local one = {
        who = "somebody", fiber = "1", path = "/lock", mode = "x", weight = 1, limit = 1, token = "0001", from = 1, to = 2,
        ended = "released"
    }
    for name, value in pairs(values) do
        one[name] = value
    end
    return one
end

describe("the campaign's checker #once", function()
    it("finds nothing wrong with consecutive holds", function()
        assert.same({}, (checker.overlaps({
            grant({ from = 1, to = 2 }), grant({ from = 2, to = 3 }), grant({ from = 3.5, to = 4 })
        })))
    end)

    it("finds two holders at a time, in whatever order they are recorded, and for how long", function()
        local found, longest = checker.overlaps({ grant({ from = 2, to = 4 }), grant({ from = 1, to = 2.25 }) })
        assert.equal(1, #found)
        assert.equal(0.25, longest)
        assert.truthy(found[1]:find("/lock", 1, true))
    end)

    it("finds a hold that lies inside another long hold", function()
        assert.equal(2, #checker.overlaps({
            grant({ from = 1, to = 10 }), grant({ from = 2, to = 3 }), grant({ from = 4, to = 5 })
        }))
    end)

    it("checks each path separately", function()
        assert.same({}, (checker.overlaps({ grant({ from = 1, to = 3 }), grant({ path = "/other", from = 2, to = 4 }) })))
    end)

    it("allows readers to share a lock, but no writer among them", function()
        local one, other = grant({ mode = "r", from = 1, to = 4 }), grant({ mode = "r", from = 2, to = 5 })
        assert.same({}, (checker.overlaps({ one, other })))
        assert.equal(2, #checker.overlaps({ one, other, grant({ from = 3, to = 6 }) }))
        assert.equal(1, #checker.overlaps({ grant({ from = 1, to = 3 }), grant({ mode = "r", from = 2, to = 4 }) }))
    end)

    it("counts a semaphore's permits", function()
        local function permit(weight, from, to)
            return grant({ mode = "s", weight = weight, limit = 3, from = from, to = to })
        end
        assert.same({}, (checker.overlaps({ permit(1, 1, 4), permit(2, 2, 5), permit(1, 4, 6) })))
        assert.equal(2, #checker.overlaps({ permit(1, 1, 4), permit(2, 2, 5), permit(1, 3, 6) }))
        assert.equal(3, #checker.overlaps({ permit(1, 1, 9), permit(1, 2, 9), permit(1, 3, 9), permit(1, 4, 9) }))
    end)

    it("excuses a hold whose node was deleted before another hold began, but no earlier one", function()
        local deleted = grant({ from = 1, to = 5, deleted = 2, ended = "killed" })
        assert.same({}, (checker.overlaps({ deleted, grant({ from = 2, to = 3 }), grant({ from = 3, to = 4 }) })))
        assert.equal(1, #checker.overlaps({ deleted, grant({ from = 1.5, to = 4 }) }))
        assert.equal(1, #checker.overlaps({ deleted, grant({ from = 2, to = 4 }), grant({ from = 3, to = 6 }) }))
    end)

    it("requires that the holder of a deleted node is ended when another holds", function()
        local function after_deletion(ended, ...)
            return checker.deleted({ grant({ from = 1, to = 5, deleted = 2, ended = ended }), ... })
        end
        local other = grant({ from = 4.5, to = 6 })
        assert.same({ {}, 1, 0.5 }, { after_deletion("killed", other) })
        assert.same({ {}, 1, 0 }, { after_deletion("released") })
        assert.same({ {}, 1, 0 }, { after_deletion("released", grant({ from = 5, to = 6 }), grant({ path = "/other", from = 3 })) })
        local found, count, longest = after_deletion("released", other)
        assert.equal(1, #found)
        assert.same({ 1, 0.5 }, { count, longest })
        assert.same({ {}, 0, 0 }, { checker.deleted({ grant({}), other }) })
    end)

    it("requires tokens to grow", function()
        assert.same({}, checker.tokens({
            grant({ token = "0001" }), grant({ token = "0002", from = 2 }), grant({ token = "0003", from = 3 })
        }))
        assert.equal(1, #checker.tokens({ grant({ token = "0001" }), grant({ token = "0001", from = 2 }) }))
        assert.equal(1, #checker.tokens({
            grant({ token = "0005" }), grant({ token = "0006", from = 2 }), grant({ token = "0005", from = 3 })
        }))
    end)

    it("requires no order of tokens among readers, but between readers and writers", function()
        local first, second = grant({ mode = "r", token = "0003" }), grant({ mode = "r", token = "0002", from = 2 })
        assert.same({}, checker.tokens({ first, second }))
        assert.equal(1, #checker.tokens({ first, second, grant({ token = "0003", from = 3 }) }))
        assert.equal(1, #checker.tokens({ grant({ token = "0004" }), grant({ mode = "r", token = "0003", from = 2 }) }))
    end)

    it("requires an order of tokens among permits only where their sum exceeds the limit", function()
        local function permit(weight, token, from)
            return grant({ mode = "s", weight = weight, limit = 3, token = token, from = from })
        end
        assert.same({}, checker.tokens({ permit(1, "0002", 1), permit(2, "0001", 2) }))
        assert.equal(1, #checker.tokens({ permit(2, "0002", 1), permit(2, "0001", 2) }))
    end)

    it("ignores grants without a token", function()
        local without = grant({ from = 2 })
        without.token = nil
        assert.same({}, checker.tokens({ grant({}), without }))
    end)

    it("finds a stale write that was accepted", function()
        local function write(sequence, token)
            return { path = "/lock", sequence = sequence, token = token }
        end
        assert.same({}, checker.writes({ write(2, "0002"), write(1, "0001"), write(3, "0002") }))
        assert.equal(1, #checker.writes({ write(1, "0002"), write(2, "0001"), write(3, "0003") }))
    end)

    it("finds nodes that servers acknowledged and then lost", function()
        local function token(zxid, grants)
            return ("%019.0f-%010d"):format(tonumber(zxid, 16), grants)
        end
        local truncations = { "0000000800000001", "0000000900001543" }
        assert.equal(1, (checker.forgotten({ grant({ token = token("900001600", 0) }) }, truncations)))
        assert.equal(1, (checker.forgotten({ grant({ token = token("900001544", 7) }) }, truncations)))
        assert.equal(0, (checker.forgotten({
            grant({ token = token("900001543", 7) }), grant({ token = token("a00001600", 0) })
        }, truncations)))
    end)

    it("finds nodes that the leader has at the end, and nodes that only another server has", function()
        assert.same({ 0, 0 }, { checker.nodes({ 0, 0, 0 }, 2) })
        assert.same({ 2, 0 }, { checker.nodes({ 2, 2, 2 }, 1) })
        assert.same({ 2, 0 }, { checker.nodes({ 0, 2, 0 }, 2) })
        assert.same({ 0, 2 }, { checker.nodes({ 2, 0, 0 }, 2) })
        assert.same({ 1, 3 }, { checker.nodes({ 1, 2, 3 }, 1) })
    end)

    it("finds fibers that were granted nothing after the last fault", function()
        local function limit()
            return 5
        end
        local expected = { { who = "a", fiber = "1" }, { who = "a", fiber = "2" } }
        local both = { grant({ who = "a", from = 12 }), grant({ who = "a", fiber = "2", from = 14 }) }
        local function always(time)
            return time
        end
        local found, longest = checker.progress(both, expected, 10, limit, always)
        assert.same({}, found)
        assert.equal(4, longest)
        local late, early = grant({ who = "a", fiber = "2", from = 16 }), grant({ who = "a", fiber = "2", from = 9 })
        assert.equal(1, #checker.progress({ both[1], late }, expected, 10, limit, always))
        assert.equal(1, #checker.progress({ both[1], early }, expected, 10, limit, always))
        -- Of the six seconds the servers did not serve for two and a half; or for a quarter of a second.
        assert.same({}, (checker.progress({ both[1], late }, expected, 10, limit,
            checker.service({ 10, 10.5, 11, 11.5, 14.5, 15, 15.5, 16 }, 0.5))))
        assert.equal(1, #checker.progress({ both[1], late }, expected, 10, limit,
            checker.service({ 10, 10.5, 11, 11.5, 12, 12.5, 13, 13.5, 14.25, 14.5, 15, 15.5, 16 }, 0.5)))
        -- A fiber that was never granted anything is not excused by a pause of the servers.
        assert.equal(1, #checker.progress({ both[1] }, expected, 10, limit, checker.service({ 10 }, 0.5)))
    end)

    it("has a clock that advances only while servers serve", function()
        local service = checker.service({ 10, 10.2, 13, 13.5 }, 0.5)
        local function at(time)
            return math.floor(service(time) * 1000 + 0.5)
        end
        assert.same({ 0, 0, 100, 200, 300, 700, 700, 1200, 1700, 1700 }, {
            at(9), at(10), at(10.1), at(10.2), at(10.3), at(12), at(13), at(13.5), at(14), at(99)
        })
        assert.equal(0, checker.service({}, 0.5)(12))
    end)

    it("reports the longest time in which a path was not held", function()
        local longest, where = checker.unavailability({
            grant({ from = 1, to = 9 }), grant({ from = 2, to = 3 }), grant({ from = 10.5, to = 11 }),
            grant({ path = "/other", from = 1, to = 2 }), grant({ path = "/other", from = 5, to = 6 })
        }, 8)
        assert.equal(3, longest)
        assert.equal("/other", where)
    end)

    it("reports the longest time in which a path was not held while servers served", function()
        local grants = {
            grant({ from = 1, to = 2 }), grant({ from = 9, to = 10 }),
            grant({ path = "/other", from = 8, to = 8.5 }), grant({ path = "/other", from = 10.5, to = 11 })
        }
        local longest, where = checker.unavailability(grants, 11, checker.service({ 1, 8, 8.5, 9, 9.5, 10, 10.5 }, 0.5))
        assert.equal(2, longest)
        assert.equal("/other", where)
    end)

    it("reports a path that was not granted any more", function()
        local longest, where = checker.unavailability({
            grant({ from = 1, to = 2 }), grant({ from = 3, to = 4 }), grant({ path = "/other", from = 1, to = 11.5 })
        }, 12)
        assert.equal(8, longest)
        assert.equal("/lock", where)
    end)
end)

describe("the campaign's history #once", function()
    local GRANT = "start 1 42\ng 1-1 /lock x 1 1 0007 10 12\n"

    local function read(text)
        local all = history.new()
        history.add(all, text, "client")
        return all
    end

    it("ends a hold when it was last seen before its release", function()
        local all = read(GRANT .. "v 1-1 11 13\ne 1-1 11.5 released\n")
        assert.equal(10, all.grants[1].from)
        assert.equal(11.5, all.grants[1].to)
        assert.equal("0007", all.grants[1].token)
    end)

    it("counts a killed client's hold for as long as was promised", function()
        assert.equal(12, read(GRANT).grants[1].to)
        assert.equal(13, read(GRANT .. "v 1-1 11 13\n").grants[1].to)
        assert.equal("killed", read(GRANT).grants[1].ended)
    end)

    it("ends a lost hold when its promise ends, or when the loss was seen", function()
        assert.equal(12, read(GRANT .. "e 1-1 20 lost\n").grants[1].to)
        assert.equal(11, read(GRANT .. "e 1-1 11 lost\n").grants[1].to)
    end)

    it("ends a hold when its process begins to exit", function()
        assert.equal(10.5, read(GRANT .. "q 10.5\n").grants[1].to)
    end)

    it("counts only the time in which a hold was seen if there is no lease", function()
        assert.equal(10, read("g 1-1 /lock x 1 1 0007 10 -\n").grants[1].to)
        assert.equal(15, read("g 1-1 /lock x 1 1 0007 10 -\nv 1-1 15 -\n").grants[1].to)
    end)

    it("ignores a line that was cut off", function()
        assert.equal(1, #read(GRANT .. "g 1-2 /lock x 1 1 0008 1").grants)
    end)

    it("distinguishes writes that were accepted, refused, and late where there is no fence", function()
        local all = read(GRANT .. "w 1-1 3 0006\ng 1-2 /lock x 1 1 0008 11 12\nx 1-2 0009\n")
        assert.same({ { path = "/lock", token = "0007", sequence = 3 } }, all.writes)
        assert.equal(1, all.stale)
        assert.equal(1, all.late)
    end)

    it("adds up the latest counters of each client, and notices descriptors that it did not close", function()
        local all = read("n grants=1 losses=2\nn grants=5 losses=2\nc 5 5 1 1\n")
        history.add(all, "n grants=2\nc 5 6 1 1\n", "other")
        assert.same({ grants = 7, losses = 2 }, all.counters)
        assert.equal(1, #all.leaks)
    end)
end)

describe("the campaign's schedule #once", function()
    it("is the same for the same seed, and differs for another seed", function()
        assert.same(schedule.make(7, 60, "full"), schedule.make(7, 60, "full"))
        assert.not_same(schedule.make(7, 60, "full"), schedule.make(8, 60, "full"))
    end)

    it("has only links that stall one way for idle clients", function()
        local list = schedule.make(7, 60, "stalled")
        assert.is_true(#list > 5)
        for _, fault in ipairs(list) do
            assert.equal("stall leader to follower", fault.kind)
        end
    end)

    it("has every kind of fault if it is long, and more than five hundred faults in twenty minutes", function()
        local list, seen = schedule.make(1, 1200, "full"), {}
        assert.is_true(#list > 500)
        for _, fault in ipairs(list) do
            seen[fault.kind] = true
            assert.is_true(fault.at < 1210 and fault.seconds > 0)
        end
        for _, track in ipairs({ schedule.server, schedule.client }) do
            for _, entry in ipairs(track) do
                assert.is_true(seen[entry.kind], entry.kind)
                assert.is_true(require("spec.campaign.faults").knows(entry.kind), entry.kind)
            end
        end
    end)
end)

describe("the turns of the campaign's clients #once", function()
    --- Takes turns that are all long, in a clock of their own, until 100 s are over. `brief_at`: when the order "brief" comes.
    -- Returns how many turns ended before that, and how many after it.
    local function count(brief_at)
        local time, before, after = 0, 0, 0
        local lock = {
            acquire = function() return true end, release = function() return true end,
            held = function() return true end, remaining = function() return 1 end, token = function() return "0001" end
        }
        turns.run({
            client = { mutex = function() return lock end, stats = function() return {} end },
            register = { counter = function() return 1 end, write = function() return 1 end },
            record = function(line)
                if line:find("^e ") then
                    before, after = before + (time < brief_at and 1 or 0), after + (time >= brief_at and 1 or 0)
                end
            end,
            now = function() return time end, sleep = function(seconds) time = time + seconds end,
            random = function() return 0.9 end, long = 10, long_per_mille = 1000, orders = {},
            order = function()
                return time > 100 and "stop" or time >= brief_at and "brief" or nil
            end
        }, 1, { locks = { { kind = "mutex", path = "/lock" } } })
        return before, after
    end

    it("are not long any more after the order to be brief, which also ends the one under way", function()
        local before, after = count(math.huge)
        assert.same({ 12, 0 }, { before, after })
        before, after = count(50)
        assert.equal(5, before)
        assert.is_true(after > 1000, after)
    end)
end)
