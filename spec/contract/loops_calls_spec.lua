--- In every event loop the loop's pump calls the callbacks of acquire and of operations, also at their deadlines, while no
-- coroutine waits.

local callbacks = require "spec.support.callbacks"
local fixture = require "spec.support.fixture"
local loops = require "spec.support.loops"

local collect = callbacks.collect

--- Returns a function that waits until a callback has been called so many times, and returns its last arguments.
local function awaiter(loop, answers)
    return function(count)
        loops.until_true(loop, function()
            return #answers >= count
        end, "a callback")
        assert.equal(count, #answers)
        return answers[count]
    end
end

--- Defines the promises for one loop.
local function promises(loop)
    after_each(fixture.clean)

    it("callbacks get the lock, the timeout, the results of operations, and the end of the client", function()
        loop.run(function()
            local client = loops.client(loop, { session_timeout = 20 })
            local path = fixture.path()
            local lock, answers, callback = client:mutex(path), collect()
            local await = awaiter(loop, answers)
            assert(lock:acquire { timeout = 20, callback = callback })
            assert.same({}, answers)
            local held = await(1)[1]
            assert.is_true(held:held())
            assert(lock:acquire { timeout = 0.05, callback = callback })
            assert.equal("timeout", await(2)[3])
            assert(client:create(path .. "-made", "data", { callback = callback }))
            assert.equal(path .. "-made", await(3)[1])
            assert(client:get(path .. "-made", { watch = true, callback = callback }))
            local watch = await(4)[3]
            assert(watch:wait { callback = callback })
            assert(client:delete(path .. "-made", { callback = function(...)
                assert.is_true((...))
            end }))
            assert.equal("deleted", await(5)[1])
            local call = assert(lock:acquire { callback = callback })
            assert.is_true(call:cancel())
            assert.equal("cancelled", await(6)[3])
            assert(lock:acquire { callback = callback })
            client:close(0)
            assert.equal("closed", await(7)[3])
        end)
    end)

    if not (loop.name == "copas" and require("copas").running == nil) then -- Debian's copas cannot be detected
        it("a client without a wait option calls callbacks in the loop that runs at the first call", function()
            loop.run(function()
                loop.sleep(0.01) -- under luv this coroutine begins before the loop
                local client = fixture.client { session_timeout = 20 }
                local lock, answers, callback = client:mutex(fixture.path()), collect()
                local await = awaiter(loop, answers)
                assert(lock:acquire { timeout = 20, callback = callback })
                assert.is_true(await(1)[1]:held())
                assert(lock:acquire { timeout = 0.05, callback = callback })
                assert.equal("timeout", await(2)[3])
            end)
        end)
    end

    it("a leader leads, is told that it has resigned, and leads again, while no coroutine waits", function()
        loop.run(function()
            local client, calls = loops.client(loop, { session_timeout = 20 }), {}
            local leader = assert(client:leader(fixture.path(), {
                on_elected = function()
                    calls[#calls + 1] = "elected"
                end,
                on_lost = function(reason)
                    calls[#calls + 1] = reason
                end
            }))
            loops.until_true(loop, function()
                return leader:is_leader()
            end, "the first term")
            assert.is_true(leader:resign())
            loops.until_true(loop, function()
                return leader:is_leader() and #calls == 3
            end, "the second term")
            leader:close()
            loops.until_true(loop, function()
                return #calls == 4
            end, "the end")
            assert.same({ "elected", "resigned", "elected", "closed" }, calls)
        end)
    end)

    it("a callback acquires in the place of a coroutine that could not wait, and hands over", function()
        loop.run(function()
            local client = loops.client(loop, { session_timeout = 20 })
            local lock, turns = client:mutex(fixture.path()), 0
            for _ = 1, 20 do
                assert(lock:acquire { callback = function(held, message)
                    assert(held, message)
                    turns = turns + 1
                    assert(held:release { wait = false })
                end })
            end
            loops.until_true(loop, function()
                return turns == 20
            end, "all turns")
        end)
    end)

    if loop.run_out then
        it("the loop does not end before a callback has its answer, and then ends although the lock is held", function()
            local client, rival = nil, fixture.client { wait = "blocking" }
            local path = fixture.path()
            local other = rival:mutex(path)
            assert(other:acquire(10))
            local lock, answers, callback
            loop.run_out(function()
                client = loops.client(loop, { session_timeout = 20 })
                assert(client:exists(path)) -- connected: otherwise the answer may be `disconnected`
                lock, answers, callback = client:mutex(path), collect()
                assert(lock:acquire { timeout = 0.2, callback = callback })
            end)
            assert.equal("timeout", answers[1][3])
            assert(other:release())
            loop.run_out(function()
                assert(lock:acquire { timeout = 20, callback = callback })
            end)
            assert.is_true(answers[2][1]:held())
        end)
    end
end

for _, loop in ipairs(loops.each()) do
    describe("in " .. loop.name .. ",", function()
        promises(loop)
    end)
end

local has_luv, uv = pcall(require, "luv")

if has_luv then
    describe("in a program of luv that has no coroutine,", function()
        after_each(fixture.clean)

        it("uv.run runs the callbacks, also those asked for in callbacks of the loop, and returns after the last", function()
            local client = fixture.client { wait = "luv", session_timeout = 20 }
            local lock, answers, callback = client:mutex(fixture.path()), collect()
            local timer = uv.new_timer()
            timer:start(10, 0, function()
                timer:close()
                assert(lock:acquire { callback = function(held)
                    callback("first", held:held())
                    assert(held:release { wait = false })
                    assert(lock:try_acquire { callback = callback })
                end })
            end)
            uv.run()
            assert.equal(2, #answers)
            assert.is_true(answers[1][2])
            assert.is_true(answers[2][1]:held())
        end)
    end)
end
