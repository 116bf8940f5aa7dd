--- In every event loop callbacks are called and watches fire, with or without waiting coroutines.

local compat = require "spec.support.compat"
local eventually = require "spec.support.eventually"
local fixture = require "spec.support.fixture"
local loops = require "spec.support.loops"

--- Defines the promises for one loop.
local function promises(loop)
    after_each(fixture.clean)

    if compat.PCALL_YIELDS then
        it("with_lock holds while its function waits for other things", function()
            loop.run(function()
                local client, rival = loops.client(loop), loops.client(loop)
                local path = fixture.path()
                assert.same({ true, 1, 2 }, { client:mutex(path):with_lock(function()
                    loop.sleep(0.05)
                    fixture.assert_times_out(rival:mutex(path))
                    return 1, 2
                end, 10) })
                local ok, problem = pcall(function()
                    client:mutex(path):with_lock(function()
                        loop.sleep(0.01)
                        error("broken inside", 0)
                    end)
                end)
                assert.is_false(ok)
                assert.equal("broken inside", problem)
                assert(rival:mutex(path):acquire(10))
            end)
        end)

        it("on_lost may wait for the lock again", function()
            loop.run(function()
                local reason, answer
                local client, lock = loops.client(loop), nil
                lock = client:mutex(fixture.path(), { on_lost = function(hold, why)
                    reason = why
                    hold:release()
                    answer = compat.pack(lock:acquire(20))
                end })
                assert(lock:acquire(10))
                assert(fixture.observer():delete(lock:node()))
                loops.until_true(loop, function()
                    return reason
                end, "on_lost")
                loops.until_true(loop, function()
                    return answer
                end, "the lock anew")
                assert(answer[1], answer[2])
                assert.is_true(answer[1]:held())
            end)
        end)
    end

    it("a callback is called although an error has ended the pump that took the notification of its answer", function()
        loop.run(function()
            local client, called = loops.client(loop), false
            assert(client:mutex(fixture.path()):acquire { callback = function()
                called = true
            end })
            eventually(function()
                return client:stats().grants == 1
            end)
            while client:desk().core:next() do end -- luacheck: ignore 542
            client:desk().missed = true
            loops.until_true(loop, function()
                return called
            end, "the callback")
        end)
    end)

    if loop.name ~= "luv" then -- luv ends the process after an error in the pump
        it("waits and callbacks go on after an error in the pump", function()
            local blocker, path = fixture.client(), fixture.path()
            local held = assert(blocker:mutex(path):acquire(20))
            local got, called = nil, false
            local function body()
                local client = loops.client(loop)
                function client.pump()
                    client.pump = nil
                    if loop.name == "copas" then
                        require("copas").setErrorHandler(function() end) -- of this coroutine
                    end
                    held:begin_release()
                    error("interrupted!", 0)
                end
                assert(client:mutex(fixture.path()):acquire { callback = function()
                    called = true
                end })
                got = client:mutex(path):acquire()
                loops.until_true(loop, function()
                    return called
                end, "the callback")
            end
            loop.run_through(body)
            assert.is_true(got:held())
        end)
    end

    -- Granted without a wait: the node, or its answer, was there while the caller blocked. So no wait starts the pump.
    it("on_lost is called for a lock that was granted without a wait", function()
        local client, lock, reason
        loop.run(function()
            client = loops.client(loop, { session_timeout = 20 })
            lock = client:mutex(fixture.path(), { linger = 600, on_lost = function(_, why)
                reason = why
            end })
            assert(lock:acquire(10))
            assert(lock:release())
        end)
        loop.run(function()
            loops.until_true(loop, function()
                return not client:needs_pump() and not loops.has_pump(loop, client)
            end)
        end)
        loop.run(function()
            assert(lock:try_acquire())
            assert(fixture.observer():delete(lock:node()))
            loops.until_true(loop, function()
                return reason
            end, "on_lost")
            assert.equal("lost", reason)
        end)
    end)

    it("on_lost and on_revoke are called while no coroutine waits for the client, and their errors are reported", function()
        loop.run(function()
            local seen, log = {}, {}
            local client = loops.client(loop, { log = function(level, message)
                log[#log + 1] = level .. ": " .. message
            end })
            local lock = client:mutex(fixture.path(), {
                on_revoke = function()
                    seen.revoked = true
                    error("no, I do not want to")
                end,
                on_lost = function(_, reason)
                    seen.lost = reason
                    error("oh no")
                end
            })
            assert(lock:acquire(10))
            local rival = fixture.client({ wait = "blocking" })
            assert.equal(1, rival:mutex(lock:path()):revoke(10))
            loops.until_true(loop, function()
                return seen.revoked
            end)
            assert(fixture.observer():delete(lock:node()))
            loops.until_true(loop, function()
                return seen.lost
            end)
            assert.equal("lost", seen.lost)
            local text = table.concat(log, "\n")
            assert.truthy(text:find("error: the callback on_revoke raised: .*no, I do not want to"), text)
            assert.truthy(text:find("error: the callback on_lost raised: .*oh no"), text)
        end)
    end)

    it("several coroutines wait for one watch, and each is woken", function()
        loop.run(function()
            local client, path = loops.client(loop), fixture.directory()
            local _, _, watch = assert(client:get(path, { watch = true }))
            local events, heard, late = {}, 0, nil
            for index = 1, 3 do
                loop.spawn(function()
                    events[index] = watch:wait(20)
                    heard = heard + 1
                end)
            end
            loop.spawn(function()
                late = compat.pack(watch:wait(0.05))
            end)
            loops.until_true(loop, function()
                return late
            end)
            assert.equal("timeout", late[3])
            assert(client:set(path, "news"))
            loops.until_true(loop, function()
                return heard == 3
            end)
            assert.same({ "changed", "changed", "changed" }, events)
        end)
    end)
end

for _, loop in ipairs(loops.each()) do
    describe("in " .. loop.name .. ",", function()
        promises(loop)
    end)
end
