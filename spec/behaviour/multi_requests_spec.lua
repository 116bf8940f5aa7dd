--- A multi sends few requests, and none for a lock that it cannot acquire anyway.

local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loop = require "spec.support.loop"
local multis = require "spec.support.multis"

after_each(fixture.clean)

describe("requests of a multi", function()
    it("are a create and a delete for each free mutex, and a list unless the sequence number is adjacent", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ session_timeout = 30 })
        local all = multis.of(client, { paths[2], paths[3], paths[1] })
        assert(all:acquire(20))
        assert.is_true(all:release())
        local function cycle()
            assert(client:flush(10))
            link:reset_counts()
            local before = fixture.sent(client)
            assert(all:acquire(20))
            local joining = fixture.sent(client) - before
            local seen = link:counts()
            assert.equal(3, (seen.create or 0) + (seen.create2 or 0))
            assert.is_true(all:release())
            return joining, fixture.sent(client) - before - joining
        end
        assert.same({ 6, 3 }, { cycle() })
        eventually(function() -- the cycles must follow each other quickly
            local joining, leaving = cycle()
            return joining == 3 and leaving == 3, joining
        end)
    end)

    it("go out without waiting for an answer", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local all = multis.of(client, paths)
        assert(all:acquire(20))
        assert.is_true(all:release())
        assert(client:flush(10))
        --- Runs `ask` while no answer comes, until the proxy has seen the expected requests; then lets the answers through.
        local held
        local function unanswered(ask, expected)
            link:reset_counts()
            link:stall("down")
            loop.run(function()
                assert(ask())
            end, function()
                loop.until_true(function()
                    local seen = link:counts()
                    return (seen.create or 0) + (seen.create2 or 0) == expected.create and
                        (seen.getChildren or 0) == expected.list and (seen.delete or 0) == expected.delete
                end)
                link:resume()
            end)
        end
        unanswered(function()
            held = all:acquire(20)
            return held
        end, { create = 3, list = 3, delete = 0 })
        unanswered(function()
            return held:release()
        end, { create = 0, list = 0, delete = 3 })
    end)

    it("are no writes for a lock that is taken, and none at all for a try whose first lock is taken #asan", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        local all = multis.of(client, paths)
        for taken = 1, 3 do
            local blocker = fixture.join(paths[taken])
            local before = fixture.observer():exists(paths[taken])
            local ok, message, code = all:try_acquire()
            assert.same({ nil, "timeout" }, { ok, code })
            assert.truthy(message:find(paths[taken], 1, true), message)
            assert.equal("timeout", select(3, all:acquire(0)))
            assert(client:flush(10))
            assert.same(before, (fixture.observer():exists(paths[taken])))
            fixture.observer():delete(blocker)
            multis.await_counts(paths, "0 0 0")
        end
    end)
end)

describe("a free lock of a multi", function()
    for _, timeout in ipairs({ 0.05, 0 }) do
        it(("is not requested while a lock before it is taken, also by newly made multis (%g)"):format(timeout), function()
            local paths = multis.three_paths()
            local client, first = fixture.steady_client(), fixture.join(paths[1])
            fixture.observer():create_all(paths[2]) -- otherwise the server would remove the directory whenever it is empty
            assert.equal("timeout", select(3, (multis.of(client, paths)):acquire(0.05))) -- this multi could not know yet
            assert(client:flush(10))
            local before = fixture.observer():exists(paths[2])
            for _ = 1, 20 do
                assert.is_nil(((multis.of(client, { paths[2], paths[1] })):acquire(timeout)))
            end
            assert(client:flush(10))
            assert.same(before, (fixture.observer():exists(paths[2])))
            fixture.observer():delete(first)
            for _ = 1, 10 do
                local all = multis.of(client, paths)
                assert(all:acquire(10))
                assert.is_true(all:release())
            end
        end)
    end

    it("is requested at once again when the locks before it were free for a while", function()
        local paths = multis.three_paths()
        local client, link = fixture.client_behind_proxy({ wait = loop, session_timeout = 30 })
        local first = fixture.join(paths[1])
        assert.equal("timeout", select(3, (multis.of(client, paths)):acquire(0.05)))
        fixture.observer():delete(first)
        for _ = 1, 10 do
            local all = multis.of(client, paths)
            assert(all:acquire(20))
            assert.is_true(all:release())
        end
        assert(client:flush(10))
        link:reset_counts()
        link:stall("down")
        local all = multis.of(client, paths)
        loop.run(function()
            assert(all:acquire(20))
        end, function()
            loop.until_true(function()
                local seen = link:counts()
                return (seen.create or 0) + (seen.create2 or 0) == 3
            end)
            link:resume()
        end)
    end)

    it("is not requested, however many other locks the client has found taken; what it remembers is bounded", function()
        local paths = multis.three_paths()
        local client = fixture.steady_client()
        fixture.join(paths[1])
        assert.equal("timeout", select(3, (multis.of(client, paths)):acquire(0.05)))
        local contended = client:desk().contended
        for index = 1, 1000 do
            contended:note(("%s/%d"):format(paths[3], index))
        end
        local count = 0
        for _, generation in ipairs({ contended.recent, contended.older }) do
            for _ in pairs(generation) do
                count = count + 1
            end
        end
        assert.is_true(count >= 100 and count <= 256, count)
    end)
end)
