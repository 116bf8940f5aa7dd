--- A multi keeps its promises when connections and sessions fail.

local compat = require "spec.support.compat"
local fixture = require "spec.support.fixture"
local hold_of = require "spec.support.hold_of"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"

after_each(fixture.clean)

describe("when connections and sessions fail, a multi", function()
    for _, case in ipairs({ { "create", 0 }, { "create", 1 }, { "create", 2 }, { "children", 1 } }) do
        for _, moment in ipairs({ "before", "after" }) do
            it(("is held once if %s %d is cut %s the server has it"):format(case[1], case[2] + 1, moment), function()
                local paths = multis.three_paths()
                for _, path in ipairs(paths) do
                    fixture.observer():create_all(path)
                end
                local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
                local all = multis.of(client, paths)
                link:arm(case[1], moment, case[2])
                assert(all:acquire(20))
                assert.equal("1 1 1", multis.counts(paths))
                link:disarm()
                assert.is_true(all:release())
                assert(client:flush(10))
                assert.equal("0 0 0", multis.counts(paths))
                assert.equal(1, client:stats().sessions)
            end)
        end
    end

    it("is lost as a whole with its session, and can be acquired again #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client({ session_timeout = 6 })
        local all, locks = multis.of(client, paths)
        assert(all:acquire(10))
        fixture.kill_owner(locks[1]:node())
        fixture.pump_until(client, function()
            return not all:held()
        end)
        local ok, message, code = all:release()
        assert.same({ nil, "lost" }, { ok, code })
        for _, path in ipairs(paths) do
            assert.truthy(message:find(path, 1, true), message)
        end
        assert(all:acquire(20))
    end)

    it("begins anew if its session ends while it waits, and returns with all of its locks held #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client({ session_timeout = 6 })
        local all, locks = multis.of(client, paths)
        local blocker = fixture.join(paths[3])
        local held
        loop.run(function()
            held = assert(all:acquire(40))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2" and hold_of(locks[1]):held() and hold_of(locks[2]):held()
            end)
            fixture.kill_owner(hold_of(locks[1]):node())
            loop.until_true(function()
                return not hold_of(locks[1]):held() and multis.counts(paths) == "0 0 2"
            end)
            fixture.observer():delete(blocker)
        end)
        assert.is_true(held:held())
        assert.equal("1 1 1", multis.counts(paths))
        assert.is_true(held:release())
        fixture.assert_nothing_left(client)
    end)

    it("answers lost instead if its locks are reentrant, since its program may be inside a lock that was lost", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client({ session_timeout = 6 })
        local all, locks = multis.of(client, paths, { reentrant = true })
        local blocker = fixture.join(paths[3])
        local answer
        loop.run(function()
            assert(locks[1]:acquire(10))
            answer = compat.pack(all:acquire(40))
        end, function()
            loop.until_true(function()
                return multis.counts(paths) == "1 1 2"
            end)
            fixture.kill_owner(hold_of(locks[1]):node())
            loop.until_true(function()
                return not hold_of(locks[1]):held() and multis.counts(paths) == "0 0 2"
            end)
            fixture.observer():delete(blocker)
        end)
        assert.same({ nil, "lost" }, { answer[1], answer[3] })
        assert.truthy(answer[2]:find(paths[1], 1, true), answer[2])
        fixture.assert_nothing_left(client)
        assert.equal("0 0 0", multis.counts(paths))
        assert(all:acquire(10))
    end)

    it("answers disconnected if no server can be reached in time", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local all = multis.of(client, paths)
        fixture.cut_off(client, link)
        assert.equal("disconnected", select(3, all:acquire(0.3)))
        assert.equal("disconnected", select(3, all:try_acquire()))
        link:accept()
        assert(all:acquire(20))
        assert.equal("1 1 1", multis.counts(paths))
    end)
end)
